"""SASL sessions that end (connections.max.reauth.ms, the exp of a token), and clients that authenticate again (KIP-368)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.conformance.authenticating import ALICE, BOB, REQUESTS, Client, Scram, exchange, jwt
from tests.conformance.driver import Kafka
from tests.support.bearer_tokens import bearer

pytestmark = [pytest.mark.generations("3.4", "4.1", "4.4"), pytest.mark.profile("sasl-sessions")]
MODERN = pytest.mark.generations("4.1", "4.4")
"""A broker of 3.4 keeps SCRAM users in ZooKeeper alone."""

PAST_S = 4.5
"""Longer than SESSION_MS."""


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_lifetime_of_a_session(kafka: Kafka, version: int) -> None:
    client = await Client.connect(kafka)
    await client.plain(version=version)
    assert await client.is_served()


@pytest.mark.parametrize("expires_s", [3600, 2])
async def test_lifetime_of_a_token(kafka: Kafka, expires_s: int) -> None:
    """The earlier one of both ends."""
    if expires_s == 2:
        kafka.ignore("session_lifetime_ms", because="it is what is left until the token's exp")
    client = await Client.connect(kafka)
    await client.handshake("OAUTHBEARER")
    answer = await client.token(bearer(jwt(exp=client.now_s() + expires_s)))
    assert answer.session_lifetime_ms == 4000 if expires_s == 3600 else 0 < answer.session_lifetime_ms <= 2000


@pytest.mark.parametrize("name", REQUESTS)
async def test_request_in_a_session(kafka: Kafka, name: str) -> None:
    client = await Client.connect(kafka)
    await client.plain()
    await exchange(client, name)
    await client.token(ALICE)
    await client.is_served()


@pytest.mark.parametrize(
    "name", ["Metadata", "SaslAuthenticate", "ApiVersions", "SaslHandshake", "SaslHandshake_unknown"]
)
async def test_request_behind_the_end_of_a_session(kafka: Kafka, name: str) -> None:
    client = await Client.connect(kafka)
    await client.plain()
    await asyncio.sleep(PAST_S)
    await exchange(client, name)
    await client.token(ALICE)
    await client.is_served()


@pytest.mark.parametrize("version", [0, 1])
async def test_session_of_an_old_client(kafka: Kafka, version: int) -> None:
    """An old client sends SaslHandshake, or SaslAuthenticate, of version 0."""
    client = await Client.connect(kafka)
    await client.handshake("PLAIN", version)
    if version == 0:
        await client.raw(ALICE)
    else:
        await client.token(ALICE, 0)
    assert await client.is_served()
    await asyncio.sleep(PAST_S)
    await client.is_served()


@pytest.mark.profile("sasl")
async def test_session_of_a_token(kafka: Kafka) -> None:
    kafka.ignore("session_lifetime_ms", because="it is what is left until the token's exp")
    client = await Client.connect(kafka)
    await client.handshake("OAUTHBEARER")
    await client.token(bearer(jwt(exp=client.now_s() + 2)))
    await client.is_served()
    await asyncio.sleep(2.5)
    assert not await client.is_served()


AGAIN: dict[str, tuple[str, Callable[[], bytes]]] = {
    "as_before": ("PLAIN", lambda: ALICE),
    "another_user": ("PLAIN", lambda: BOB),
    "wrong_password": ("PLAIN", lambda: b"\0alice\0wrong"),
    "malformed": ("PLAIN", lambda: b"alice"),
    "another_mechanism": ("SCRAM-SHA-256", lambda: b"n,,n=alice,r=abc"),
    "a_token": ("OAUTHBEARER", lambda: bearer(jwt())),
}


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("name", AGAIN)
async def test_authentication_again(kafka: Kafka, name: str, version: int) -> None:
    mechanism, token = AGAIN[name]
    client = await Client.connect(kafka)
    await client.plain()
    await client.handshake(mechanism)
    await client.token(token(), version)
    await client.is_served()


@pytest.mark.parametrize("name", REQUESTS)
async def test_request_instead_of_the_token_again(kafka: Kafka, name: str) -> None:
    await _instead_of_the_token(kafka, "PLAIN", name)


@pytest.mark.parametrize("name", REQUESTS)
async def test_request_instead_of_the_token_of_another_mechanism(kafka: Kafka, name: str) -> None:
    await _instead_of_the_token(kafka, "OAUTHBEARER", name)


async def _instead_of_the_token(kafka: Kafka, mechanism: str, name: str) -> None:
    client = await Client.connect(kafka)
    await client.plain()
    await client.handshake(mechanism)
    await exchange(client, name)
    await client.is_served()


@pytest.mark.parametrize("pause_s", [0, 1.3])
async def test_authentication_three_times(kafka: Kafka, pause_s: float) -> None:
    """Within a second of the last one it is refused."""
    client = await Client.connect(kafka)
    await client.plain()
    for _ in range(2):
        await client.handshake("PLAIN")
        await client.token(ALICE)
        await asyncio.sleep(pause_s)
    await client.is_served()


async def test_authentication_again_prolongs_the_session(kafka: Kafka) -> None:
    client = await Client.connect(kafka)
    await client.plain()
    for _ in range(2):
        await asyncio.sleep(2.5)
        await client.handshake("PLAIN")
        await client.token(ALICE)
    assert await client.is_served()


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("token", [ALICE, BOB], ids=["alice", "bob"])
async def test_authentication_again_by_raw_tokens(kafka: Kafka, first: int, token: bytes) -> None:
    client = await Client.connect(kafka)
    if first == 0:
        await client.handshake("PLAIN", 0)
        await client.raw(ALICE)
    else:
        await client.plain()
    await client.handshake("PLAIN", 0)
    await client.raw(token)
    await client.is_served()


@MODERN
async def test_scram_again_by_raw_tokens(kafka: Kafka) -> None:
    client = await Client.connect(kafka)
    for _ in range(2):
        scram = Scram(kafka, "SCRAM-SHA-256")
        await client.handshake("SCRAM-SHA-256", 0)
        first = await client.raw(scram.first())
        assert first is not None
        scram.answered(first)
        await client.raw(scram.final())
    await client.is_served()


@MODERN
@pytest.mark.parametrize("name", ["alice", "bob"])
async def test_scram_again(kafka: Kafka, name: str) -> None:
    client = await Client.connect(kafka)
    for user in ("alice", name):
        scram = Scram(kafka, "SCRAM-SHA-256", user, f"{user}-secret")
        await client.handshake("SCRAM-SHA-256")
        scram.answered((await client.token(scram.first())).auth_bytes)
        await client.token(scram.final())
    await client.is_served()

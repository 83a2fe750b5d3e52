"""SCRAM credentials that clients store: beside the passwords of `Security.users`, over restarts, in the journal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_sim import Cluster, ClusterError
from broker_sim.authentication.credentials import HASHES, ScramCredential, Users
from broker_sim.common.text import UsageError
from kafka_wire.errors import Err
from kafka_wire.messages.k50_describe_user_scram_credentials import (
    SCRAM_MECHANISMS,
    DescribeUserScramCredentialsRequest,
)
from kafka_wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.authentication.exchange import ALICE, authenticate, secured
from tests.support.scram import SALT, upsertion
from tests.support.wire import Wire

SHA_256, SHA_512 = SCRAM_MECHANISMS[1], SCRAM_MECHANISMS[2]


async def alter(
    kafka: Cluster, *changes: ScramCredentialUpsertion | ScramCredentialDeletion, plain: bool = True
) -> None:
    """Each without an error, by a client of its own."""
    wire = await Wire.connect(kafka.bootstrap, client_id="admin")
    if plain:
        await authenticate(wire)
    upsertions = [change for change in changes if isinstance(change, ScramCredentialUpsertion)]
    deletions = [change for change in changes if isinstance(change, ScramCredentialDeletion)]
    answer = await wire.send(AlterUserScramCredentialsRequest(deletions, upsertions), 0)
    assert [row.error_code for row in answer.results] == [Err.NONE] * len(changes)
    await wire.close()


async def described(kafka: Cluster, *, plain: bool = True) -> dict[str, list[int]]:
    """The mechanisms of all users."""
    wire = await Wire.connect(kafka.bootstrap, client_id="admin")
    if plain:
        await authenticate(wire)
    answer = await wire.send(DescribeUserScramCredentialsRequest(None), 0)
    await wire.close()
    return {row.user: [info.mechanism for info in row.credential_infos] for row in answer.results}


async def logs_in(kafka: Cluster, user: str, password: str, mechanism: str = SHA_256) -> bool:
    wire = await Wire.connect(kafka.bootstrap, client_id="app")
    answer = await authenticate(wire, user, password, mechanism)
    await wire.close()
    return answer.error_code == Err.NONE


async def test_a_password_that_a_test_sets_replaces_what_clients_have_stored() -> None:
    async with secured() as kafka:
        await alter(kafka, upsertion("alice", "stored"))
        assert await logs_in(kafka, "alice", "stored")
        assert not await logs_in(kafka, "alice", "secret")
        assert await logs_in(kafka, "alice", "secret", SHA_512)
        kafka.security.users["alice"] = "rotated"
        assert not await logs_in(kafka, "alice", "stored")
        assert await logs_in(kafka, "alice", "rotated")


async def test_a_deleted_credential_comes_back_with_a_new_password() -> None:
    async with secured() as kafka:
        await alter(kafka, ScramCredentialDeletion("alice", 1))
        assert await described(kafka) == {"alice": [2]}
        assert not await logs_in(kafka, "alice", "secret")
        kafka.security.users["alice"] = "secret"
        assert await described(kafka) == {"alice": [1, 2]}
        assert await logs_in(kafka, "alice", "secret")


async def test_a_user_that_is_removed_has_no_credential_left() -> None:
    async with secured() as kafka:
        kafka.security.users["bob"] = "secret"
        await alter(kafka, upsertion("bob", "stored"))
        del kafka.security.users["bob"]
        assert await described(kafka) == {"alice": [1, 2]}
        assert not await logs_in(kafka, "bob", "stored")


@pytest.mark.parametrize(
    "change",
    [
        lambda users: users.__setitem__("alice", "rotated"),
        lambda users: users.update(alice="rotated"),
        lambda users: users.__ior__({"alice": "rotated"}),
        lambda users: users.pop("alice"),
        lambda users: users.clear(),
    ],
    ids=["set", "update", "or", "pop", "clear"],
)
def test_every_way_to_change_a_password_is_reported(change: Callable[[Users], object]) -> None:
    users, replaced = Users(ALICE), list[str]()
    users.replaced = replaced.append
    change(users)
    assert replaced == ["alice"]
    assert users in ({"alice": "rotated"}, {})


@pytest.mark.parametrize(
    ("name", "password", "reason"),
    [
        ("alice", "half \ud800", "users: alice: the value is not a password, a text in UTF-8 of 1 to 32767 characters"),
        ("alice", "", "users: alice: the value is not a password"),
        ("alice", b"secret", "users: alice: the value is not a password"),
        ("half \ud800", "secret", r"users: 'half \\ud800' is not a text in UTF-8, without halves of surrogate pairs"),
    ],
)
async def test_a_user_that_no_login_could_name_is_refused(name: str, password: Any, reason: str) -> None:
    for act in (
        lambda: Users({name: password}),
        lambda: Users({}).update({name: password}),
        lambda: Cluster(security_protocol="SASL_SSL", users={name: password}),
    ):
        with pytest.raises((UsageError, ClusterError), match=reason) as raised:
            act()
        assert "secret" not in str(raised.value)


async def test_only_mechanisms_that_are_enabled_follow_from_a_password() -> None:
    async with secured(config={"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512"}) as kafka:
        assert await described(kafka) == {"alice": [2]}
        await alter(kafka, upsertion("alice", "stored"))
        assert await described(kafka) == {"alice": [1, 2]}


async def test_credentials_and_deletions_are_there_after_a_restart(tmp_path: Path) -> None:
    async with secured(data_dir=tmp_path) as kafka:
        await alter(kafka, upsertion("bob", "stored"), ScramCredentialDeletion("alice", 1))
    async with secured(data_dir=tmp_path) as kafka:
        assert await described(kafka) == {"alice": [2], "bob": [1]}
        assert await logs_in(kafka, "bob", "stored")
        await alter(kafka, ScramCredentialDeletion("bob", 1))
        kafka.security.users["alice"] = "rotated"
    async with secured(data_dir=tmp_path) as kafka:
        assert await described(kafka) == {"alice": [1, 2]}
        assert await logs_in(kafka, "alice", "secret"), "the password is the one that the cluster was made with"


async def test_a_file_with_credentials_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    async with secured(data_dir=tmp_path) as kafka:
        await alter(kafka, upsertion("bob", "stored"))
        assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)  # as a release before left it
    async with secured(data_dir=tmp_path):
        assert file.stat().st_mode & 0o777 == 0o600


async def test_a_plaintext_listener_stores_credentials_for_later(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as kafka:
        assert await described(kafka, plain=False) == {}
        await alter(kafka, upsertion("bob", "stored"), plain=False)
        assert await described(kafka, plain=False) == {"bob": [1]}
    async with secured(data_dir=tmp_path) as kafka:
        assert await logs_in(kafka, "bob", "stored")


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ([], "scram_credentials is [], which is not an object"),
        ({"bob": 1}, "scram_credentials['bob'] is 1, which is not an object"),
        ({"bob": {SHA_256: "salt=x"}}, f"scram_credentials['bob']['{SHA_256}'] is not a SCRAM credential"),
        ({"bob": {SHA_256: None}}, f"scram_credentials['bob']['{SHA_256}'] is None, which is not a string"),
    ],
)
async def test_an_invalid_credential_on_disk_is_named(tmp_path: Path, stored: object, words: str) -> None:
    async with Cluster(data_dir=tmp_path):
        pass
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"scram_credentials": stored}))
    with pytest.raises(ClusterError) as raised:
        await Cluster(data_dir=tmp_path).start()
    assert words in str(raised.value)
    assert "salt=" not in str(raised.value)


async def test_the_journal_shows_no_salt_and_no_password() -> None:
    async with secured(journal=True) as kafka:
        await alter(kafka, upsertion("bob", "stored"))
        [event] = [
            event
            for event in kafka.journal.events
            if event.get("api") == "AlterUserScramCredentials" and event["event"] == "request"
        ]
        assert event["body"]["upsertions"] == [
            {
                "name": "bob",
                "mechanism": 1,
                "iterations": 4096,
                "salt": {"bytes": len(SALT)},
                "salted_password": {"bytes": 32},
            }
        ]


async def test_why_a_credential_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    async with secured() as kafka:
        await alter(kafka, upsertion("bob", "stored"))
        assert not await logs_in(kafka, "bob", "stored", SHA_512)
    assert "user 'bob' has no credential for SCRAM-SHA-512, but for SCRAM-SHA-256" in caplog.text


@given(
    mechanism=st.sampled_from(list(HASHES)),
    salted=st.binary(min_size=1, max_size=80),
    salt=st.binary(max_size=40),
    iterations=st.integers(4096, 16384),
)
def test_the_text_of_a_credential_is_read_again(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> None:
    made = ScramCredential.salted(mechanism, salted, salt, iterations)
    assert ScramCredential.parse(str(made)) == made

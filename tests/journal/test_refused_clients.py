"""Clients that can't be served are in the journal with their reason, and waits and explanations report them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.api.wait import WaitTimeout
from broker_sim.control.on_journal import recent_histories
from broker_sim.explain.picture import html
from broker_sim.explain.terminal import timeline
from broker_sim.explain.transaction_text import explain_transactions
from broker_sim.journal import problems
from kafka_wire.errors import Err
from kafka_wire.messages.k03_metadata import MetadataRequest
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k17_sasl_handshake import SaslHandshakeRequest
from tests.authentication.exchange import authenticate, handshake, secured
from tests.handles.members import TOPIC, Member
from tests.support.wire import Wire, WireClosedError

CLIENT_HELLO = bytes.fromhex("16030102000100")
"""The beginning of a TLS handshake."""
WRONG = "authentication failed: wrong password of user 'alice'"


@pytest.fixture
async def kafka() -> AsyncIterator[Cluster]:
    async with secured(topics=["orders"]) as cluster:
        cluster.observe()
        yield cluster


@pytest.fixture
async def plain() -> AsyncIterator[Cluster]:
    config = {"group.initial.rebalance.delay.ms": 0, "socket.request.max.bytes": 1000}
    async with Cluster(topics={TOPIC: 4}, clock="manual", config=config, internal_topics="at-start") as cluster:
        cluster.observe()
        yield cluster


def refused(kafka: Cluster) -> list[dict[str, Any]]:
    return [dict(event) for event in kafka.journal.events if event.get("action") == "refused"]


def said(kafka: Cluster, group: str = "billing") -> str:
    return " ".join(kafka.group(group).explain().split())


async def fail(kafka: Cluster, client_id: str = "orders", **credentials: str) -> None:
    wire = await Wire.connect(kafka.bootstrap, client_id=client_id)
    answer = await authenticate(wire, **{"password": "secrte", **credentials})
    assert answer.error_code == Err.SASL_AUTHENTICATION_FAILED
    await wire.close()


async def send(kafka: Cluster, data: bytes, listener: str = "") -> None:
    """Bytes to a port, until the broker closes the connection."""
    host, _, port = kafka.bootstrap.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    await reader.read()
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_wrong_password_is_an_event_without_the_password(kafka: Cluster, mechanism: str) -> None:
    await fail(kafka, mechanism=mechanism)
    [event] = refused(kafka)
    assert problems(event) == []
    names = ("broker", "peer", "listener", "client_id", "user", "mechanism", "reason")
    assert [event[name] for name in names] == [1, "/127.0.0.1", "SASL_PLAINTEXT", "orders", "alice", mechanism, WRONG]
    assert "secrte" not in str(kafka.journal.events)


async def test_the_closed_connection_has_the_reason(kafka: Cluster) -> None:
    closed = kafka.journal.next(event="connection", action="closed", timeout="10m")
    await fail(kafka)
    assert (await closed).reason == WRONG


async def test_a_wait_and_the_explanation_count_equal_reasons(kafka: Cluster) -> None:
    for _ in range(3):
        await fail(kafka)
    await fail(kafka, user="bob")
    with pytest.raises(WaitTimeout) as caught:
        await kafka.group("billing").wait(members=1, timeout=0)
    sentence = f"3 connections of 127.0.0.1 (client orders) were closed: {WRONG}"
    other = "1 connection of 127.0.0.1 (client orders) was closed: authentication failed: user 'bob' does not exist"
    assert "group billing: no events in the journal" in str(caught.value)
    assert sentence in str(caught.value)
    assert other in str(caught.value)
    assert "No events of group 'billing' in the journal." in said(kafka)
    assert f"{sentence}." in said(kafka)
    assert sentence in timeline(kafka.journal.events, "billing", width=200)
    assert "3 connections of 127.0.0.1" in html(kafka.journal.events, "billing")
    assert recent_histories(kafka.journal).count(sentence) == 1
    assert sentence in explain_transactions(kafka.journal.events, "tx", width=200)


async def test_a_wait_of_no_group_reports_them(kafka: Cluster) -> None:
    await fail(kafka)
    with pytest.raises(
        WaitTimeout, match=r"1 connection of 127.0.0.1 \(client orders\) was closed: authentication failed"
    ):
        await kafka.journal.next("Fetch", timeout=0)


async def test_an_expired_session() -> None:
    async with secured(config={"connections.max.reauth.ms": 60_000}) as cluster:
        cluster.observe()
        wire = await Wire.connect(cluster.bootstrap, client_id="orders")
        await authenticate(wire)
        await cluster.time.advance("61s")
        with pytest.raises(WireClosedError):
            await wire.send(MetadataRequest(), 9)
        await wire.close()
        [event] = refused(cluster)
        assert (event["user"], event["mechanism"], event["client_id"]) == ("alice", "PLAIN", "orders")
        assert event["reason"].startswith("the session of user 'alice' has expired")
        assert "was closed: the session of user 'alice' has expired" in said(cluster)


async def test_a_mechanism_that_is_not_enabled(kafka: Cluster) -> None:
    wire = await Wire.connect(kafka.bootstrap, client_id="orders")
    await handshake(wire, "GSSAPI")
    await wire.close()
    [event] = refused(kafka)
    assert event["mechanism"] == "GSSAPI"
    assert "user" not in event
    assert "was closed: SASL mechanism GSSAPI is not enabled" in said(kafka)


async def test_a_request_before_the_handshake(kafka: Cluster) -> None:
    wire = await Wire.connect(kafka.bootstrap, client_id="orders")
    with pytest.raises(WireClosedError):
        await wire.send(MetadataRequest(), 9)
    await wire.close()
    assert "(client orders) was closed: Metadata before SaslHandshake" in said(kafka)


async def test_tokens_without_headers(kafka: Cluster) -> None:
    wire = await Wire.connect(kafka.bootstrap, client_id="orders")
    await wire.send(SaslHandshakeRequest("PLAIN"), 0)
    token = b"\0alice\0secrte"
    wire.write_raw(len(token).to_bytes(4, "big") + token)
    await wire.closed()
    await wire.close()
    [event] = refused(kafka)
    assert (event["user"], event["reason"]) == ("alice", "wrong password of user 'alice'")


async def test_a_request_of_an_unknown_api(plain: Cluster) -> None:
    name = b"orders"
    body = (9999).to_bytes(2, "big") + bytes(2) + (7).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name
    await send(plain, len(body).to_bytes(4, "big") + body)
    [event] = refused(plain)
    assert event["client_id"] == "orders"
    assert "9999" in event["reason"]


async def test_a_client_id_that_claims_too_much_is_not_guessed(plain: Cluster) -> None:
    body = (9999).to_bytes(2, "big") + bytes(2) + (7).to_bytes(4, "big") + (500).to_bytes(2, "big") + b"orders"
    await send(plain, len(body).to_bytes(4, "big") + body)
    [event] = refused(plain)
    assert "client_id" not in event
    assert "9999" in event["reason"]


async def test_tls_at_a_port_without_it(plain: Cluster) -> None:
    for _ in range(2):
        await send(plain, CLIENT_HELLO)
    assert "2 connections of 127.0.0.1 were closed: a frame of 369295618 bytes" in said(plain)
    assert "it begins as TLS does" in said(plain)


async def test_a_frame_that_is_too_large(plain: Cluster) -> None:
    await send(plain, (1001).to_bytes(4, "big") + bytes(20))
    [event] = refused(plain)
    assert event["reason"].startswith("a frame of 1001 bytes; expected 10 to 1000")
    assert (event["listener"], "client_id" in event) == ("PLAINTEXT", False)


async def test_sasl_at_a_listener_without_it(plain: Cluster) -> None:
    wire = await Wire.connect(plain.bootstrap, client_id="orders")
    await wire.send(SaslHandshakeRequest("PLAIN"), 1)
    await wire.close()
    assert "(client orders) was closed: asks for SASL, mechanism PLAIN: the listener has none" in said(plain)


async def test_a_clients_group_reports_it_and_another_group_does_not(plain: Cluster) -> None:
    app = await Member.connect(plain, client_id="app")
    await app.enter()
    wire = await Wire.connect(plain.bootstrap, client_id="web")
    await wire.send(SaslHandshakeRequest("PLAIN"), 1)
    await wire.close()
    assert "asks for SASL" not in said(plain)
    wire = await Wire.connect(plain.bootstrap, client_id="app")
    await wire.send(SaslHandshakeRequest("PLAIN"), 1)
    await wire.close()
    assert "1 connection of 127.0.0.1 (client app) was closed: asks for SASL" in said(plain)
    assert "client web" not in said(plain)
    await app.close()


async def test_a_group_without_members_reports_the_only_client_that_was_refused(plain: Cluster) -> None:
    app = await Member.connect(plain, client_id="app")
    await app.enter()
    gone = [MemberIdentity(app.member_id)]
    assert (await app.wire.send(LeaveGroupRequest("billing", members=gone), 3)).error_code == 0
    await app.close()
    await send(plain, CLIENT_HELLO)
    assert "1 connection of 127.0.0.1 was closed: a frame of" in said(plain)
    wire = await Wire.connect(plain.bootstrap, client_id="web")
    await wire.send(SaslHandshakeRequest("PLAIN"), 1)
    await wire.close()
    assert "was closed" not in said(plain)


async def test_a_plain_client_at_a_tls_port() -> None:
    async with Cluster(security_protocol="SSL", clock="manual") as cluster:
        closed = cluster.observe().next(event="connection", action="closed", timeout="10m")
        await send(cluster, b"no TLS" * 10)
        await closed
        events = [event for event in cluster.journal.events if event["event"] == "connection"]
        assert [event["action"] for event in events] == ["opened", "refused", "closed"]
        assert len({event["connection"] for event in events}) == 1
        assert all(problems(event) == [] for event in events)
        assert events[1]["listener"] == "SSL"
        assert "was closed: TLS handshake: it does not speak TLS; the listener's security.protocol is SSL" in said(
            cluster
        )


async def test_a_client_that_does_not_trust_the_certificate() -> None:
    async with Cluster(security_protocol="SSL", clock="manual") as cluster:
        cluster.observe()
        closed = cluster.journal.next(event="connection", action="closed", timeout="10m")
        host, _, port = cluster.bootstrap.partition(":")
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection(host, int(port), ssl=ssl.create_default_context())
        assert (await closed).reason.startswith("TLS handshake: it ")
        assert "was closed: TLS handshake: it " in said(cluster)

"""Clients that want what broker-sim doesn't have: they fail at once, with a reason, and the log names them once."""

from __future__ import annotations

import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.api.cluster_thread import ClusterThread
from kafka_wire.errors import Err
from kafka_wire.messages.k17_sasl_handshake import SaslHandshakeRequest
from kafka_wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.processes import DEADLINE_S
from tests.support.wire import Wire

KIP_848 = "The consumer protocol of KIP-848 is switched off: use group.protocol=classic"
CLASSIC = {"group.coordinator.rebalance.protocols": "classic"}


@pytest.mark.parametrize(("as_version", "version"), [("3.7", 0), ("4.1", 0), ("4.1", 1)])
async def test_a_member_of_the_new_kind_is_refused_for_good(
    as_version: str, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster(as_version=as_version, config=CLASSIC) as kafka:
        wire = await Wire.connect(kafka.bootstrap)
        answer = await wire.send(ConsumerGroupHeartbeatRequest("billing", subscribed_topic_names=["orders"]), version)
        told = KIP_848 if as_version == "4.1" else None  # in 3.x the protocol is off, and refused so by Kafka, too
        assert (answer.error_code, answer.error_message) == (Err.UNSUPPORTED_VERSION, told)
        assert await wire.send(ConsumerGroupHeartbeatRequest("billing"), version) == answer
        await wire.send(ConsumerGroupHeartbeatRequest("audit"), version)
        await wire.close()
    assert caplog.messages == [f"client id wire, group {group}: {KIP_848}" for group in ("billing", "audit")]


async def test_what_is_refused_at_each_heartbeat_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with Cluster(as_version="4.1") as kafka:
        wire = await Wire.connect(kafka.bootstrap)
        for _ in range(3):
            answer = await wire.send(ShareGroupHeartbeatRequest("billing"), 1)
            assert answer.error_code == Err.UNSUPPORTED_VERSION
        await wire.close()
    [line] = caplog.messages
    assert line.startswith("client id wire, group billing: share groups are switched off")


@pytest.mark.parametrize("as_version", ["3.4", "4.1"])
async def test_a_client_that_wants_sasl_is_answered_as_on_a_plaintext_listener_and_named_once(
    as_version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The answers of 3.4.0 and 4.1.0."""
    async with Cluster(as_version=as_version) as kafka:
        for version in (0, 1, 1):
            wire = await Wire.connect(kafka.bootstrap, client_id="app")
            answer = await wire.send(SaslHandshakeRequest("SCRAM-SHA-512"), version)
            assert (answer.error_code, answer.mechanisms) == (Err.ILLEGAL_SASL_STATE, [])
            await wire.close()
        wire = await Wire.connect(kafka.bootstrap)
        for version in (0, 1, 2):
            refused = await wire.send(SaslAuthenticateRequest(b"\0app\0secret"), version)
            told = "SaslAuthenticate request received after successful authentication"
            assert (refused.error_code, refused.error_message) == (Err.ILLEGAL_SASL_STATE, told)
            assert (refused.auth_bytes, refused.session_lifetime_ms) == (b"", 0)
        await wire.close()
    [line] = caplog.messages
    assert line.startswith("/127.0.0.1 (client id app) asks for SASL, mechanism SCRAM-SHA-512: ")


def test_a_consumer_of_the_new_kind_fails_rather_than_waits() -> None:
    from confluent_kafka import Consumer

    with ClusterThread(topics=["orders"], config=CLASSIC) as kafka:
        options = {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "billing",
            "group.protocol": "consumer",
            "log_level": 0,
        }
        consumer = Consumer(options)
        consumer.subscribe(["orders"])
        try:
            message = consumer.poll(DEADLINE_S)
        finally:
            consumer.close()
    assert message is not None, "it waits without a word"
    assert "API version not supported: ConsumerGroupHeartbeat" in str(message.error())


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ": it begins as TLS does, which the listener doesn't have"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", ": it begins as HTTP does; the control server has a port of its own"),
    ],
)
async def test_who_speaks_another_language_is_told_which(
    sent: bytes, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster() as kafka:
        wire = await Wire.connect(kafka.bootstrap)
        wire.write_raw(sent)
        await wire.closed()
        await wire.close()
    assert told in caplog.messages[0]

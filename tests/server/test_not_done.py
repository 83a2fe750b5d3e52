"""Clients that want what broker-sim doesn't have: they fail at once, with a reason, and the log names them once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.api.cluster_thread import ClusterThread
from broker_sim.handlers.k10_find_coordinator import TRANSACTION
from kafka_wire.errors import Err
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.support.wire import Wire

TEXT = "broker-sim has no transactions: use this producer without a transactional.id (idempotence works)"


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_transactional_id_is_refused_for_good_with_a_text(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster() as kafka:
        wire = await Wire.connect(kafka.bootstrap)
        many = {"coordinator_keys": ["tx"]} if version >= 4 else {"key": "tx"}
        for _ in range(3):
            answer = await wire.send(FindCoordinatorRequest(key_type=TRANSACTION, **many), version)
            found = answer.coordinators[0] if version >= 4 else answer
            assert (found.error_code, found.error_message, found.node_id) == (
                Err.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                TEXT,
                -1,
            )
        assert (await wire.send(InitProducerIdRequest("tx", 1000), 4)).error_code == found.error_code
        await wire.close()
    assert caplog.messages == [f"client id wire, transactional id tx: {TEXT}"], "once for each client"


def _librdkafka(bootstrap: str) -> None:
    from confluent_kafka import Producer

    Producer({"bootstrap.servers": bootstrap, "transactional.id": "tx", "log_level": 0}).init_transactions(40)


def _kafka_python(bootstrap: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="tx")
    try:
        producer.init_transactions()
    finally:
        producer.close(timeout=0)


def _aiokafka(bootstrap: str) -> None:
    from aiokafka import AIOKafkaProducer

    async def start() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="tx")
        try:
            await producer.start()
        finally:
            await producer.stop()

    asyncio.run(start())


@pytest.mark.parametrize("client", [_librdkafka, _kafka_python, _aiokafka])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_transactional_producer_fails_rather_than_waits(client: Callable[[str], None]) -> None:
    with ClusterThread() as kafka, pytest.raises(Exception, match=r"TRANSACTIONAL_ID_AUTH|\[Error 53\]"):
        client(kafka.bootstrap)


KIP_848 = "broker-sim has no consumer protocol of KIP-848: use group.protocol=classic"


@pytest.mark.parametrize(("as_version", "version"), [("3.7", 0), ("4.1", 0), ("4.1", 1)])
async def test_a_member_of_the_new_kind_is_refused_for_good(
    as_version: str, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster(as_version=as_version) as kafka:
        wire = await Wire.connect(kafka.bootstrap)
        answer = await wire.send(ConsumerGroupHeartbeatRequest("billing", subscribed_topic_names=["orders"]), version)
        told = KIP_848 if as_version == "4.1" else None  # in 3.x the protocol is off, and refused so by Kafka, too
        assert (answer.error_code, answer.error_message) == (Err.UNSUPPORTED_VERSION, told)
        await wire.close()
    assert caplog.messages == [f"client id wire, group billing: {KIP_848}"]


def test_a_consumer_of_the_new_kind_fails_rather_than_waits() -> None:
    from confluent_kafka import Consumer

    with ClusterThread(topics=["orders"]) as kafka:
        options = {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "billing",
            "group.protocol": "consumer",
            "log_level": 0,
        }
        consumer = Consumer(options)
        consumer.subscribe(["orders"])
        try:
            message = consumer.poll(40)
        finally:
            consumer.close()
    assert message is not None, "it waits without a word"
    assert "API version not supported: ConsumerGroupHeartbeat" in str(message.error())


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ": it begins as TLS does, which broker-sim doesn't have"),
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

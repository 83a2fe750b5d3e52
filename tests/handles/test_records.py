"""Records of a topic, read through its handle: the usual assertion of a producer's test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiokafka
import pytest

from broker_sim import Cluster, WaitTimeout
from broker_sim.api.handles.records import StoredRecord
from broker_sim.common.text import UsageError

pytestmark = pytest.mark.kafka(topics={"orders": 2})


@pytest.fixture
async def producer(kafka: Cluster) -> AsyncIterator[aiokafka.AIOKafkaProducer]:
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, transactional_id="payments", compression_type="gzip"
    ) as producer:
        yield producer


async def test_a_record_is_what_was_sent(kafka: Cluster) -> None:
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, enable_idempotence=True) as producer:
        await producer.send_and_wait(
            "orders",
            b"created",
            key=b"42",
            partition=1,
            timestamp_ms=1234,
            headers=[("trace", b"\x00"), ("empty", b"")],
        )
        await producer.send_and_wait("orders", None, key=b"43", partition=0)
    first, second = kafka.topic("orders").records()
    assert (first.partition, first.key, first.value, first.headers) == (0, b"43", None, ())
    headers = (("trace", b"\x00"), ("empty", b""))
    assert second == StoredRecord("orders", 1, 0, 1234, b"42", b"created", headers, second.producer_id, False)
    assert second.producer_id == first.producer_id >= 0


async def test_which_ones(kafka: Cluster) -> None:
    topic = kafka.topic("orders").fill(8)
    assert [(one.partition, one.offset) for one in topic.records()] == [(p, n) for p in range(2) for n in range(4)]
    assert [one.offset for one in topic.records(1, offset=2)] == [2, 3]
    assert [(one.partition, one.offset) for one in topic.records(offset=3)] == [(0, 3), (1, 3)]
    assert len(topic.records(limit=5)) == 5
    assert topic.records(1, offset=99) == []
    kafka.log("orders", 0).lose_head(3)
    assert [one.offset for one in topic.records(0, offset=1)] == [3]
    for wrong, words in (
        ({"partition": 2}, "no partition 2 of topic 'orders'"),
        ({"isolation": "serializable"}, "no isolation 'serializable'"),
    ):
        with pytest.raises(UsageError, match=words):
            topic.records(**wrong)


async def test_transactions(kafka: Cluster, producer: aiokafka.AIOKafkaProducer) -> None:
    topic = kafka.topic("orders")

    def values(isolation: str = "read_committed") -> list[bytes | None]:
        return [one.value for one in topic.records(0, isolation=isolation)]

    for value, ends in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        await producer.begin_transaction()
        await producer.send_and_wait("orders", value, partition=0)
        await ends()
    await kafka.transaction("payments").state_is("CompleteCommit")
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"open", partition=0)
    assert values() == [b"committed"]
    assert values("read_uncommitted") == [b"aborted", b"committed", b"open"]
    assert all(one.transactional for one in topic.records())
    await producer.commit_transaction()
    await topic.wait(2)
    assert values() == [b"committed", b"open"]


async def test_records_above_the_high_watermark_are_not_there_yet(kafka: Cluster) -> None:
    topic = kafka.topic("orders")
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, acks=1) as producer:
        with kafka.log("orders", 0).stuck():
            await producer.send_and_wait("orders", b"1", partition=0)
            assert topic.records() == []
        await topic.wait(1)
        assert [one.value for one in topic.records()] == [b"1"]


async def test_a_wait_ends_with_the_record(kafka: Cluster) -> None:
    topic = kafka.topic("orders")
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        waiting = asyncio.create_task(topic.wait(2))
        for value in (b"1", b"2"):
            await producer.send_and_wait("orders", value, partition=0)
        assert await waiting is topic
    with pytest.raises(WaitTimeout) as late:
        await topic.wait(3, timeout=0.01)
    assert "3 records in orders: not within 10 ms" in str(late.value)
    assert "orders-0: records 0 to 2, high watermark 2" in str(late.value)

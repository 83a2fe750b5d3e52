"""Clients go on from what was imported: over offsets that have no records any more, to what is produced now."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from broker_sim.api.cluster import Cluster
from broker_sim.migration.group_import import apply, read_describe
from kafka_wire.record_batch import Record, encode_batch
from tests.support.processes import DEADLINE_S
from tests.support.real_kafka import VERSIONS, java_tool

OFFSETS = [{"topic": "orders", "partition": 0, "offset": 1000, "end": 5000}]
QUICK = {"group.initial.rebalance.delay.ms": 0}


@contextlib.asynccontextmanager
async def at_work() -> AsyncIterator[Cluster]:
    cluster = await Cluster(config=QUICK).start()
    apply(cluster.state, cluster.runtime, read_describe(json.dumps({"group": "g", "offsets": OFFSETS})))
    now_ms = cluster.state.clock.now_ms()
    partition = cluster.state.topics["orders"].partitions[0]
    partition.append(encode_batch([Record(0, now_ms, b"k", b"new")]), now_ms=now_ms)
    try:
        yield cluster
    finally:
        await cluster.stop()


async def test_aiokafka_goes_on() -> None:
    async with at_work() as cluster:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap,
            group_id="g",
            auto_offset_reset="none",
            session_timeout_ms=300_000,
        )
        await consumer.start()
        try:
            message = await asyncio.wait_for(consumer.getone(), DEADLINE_S)
            assert (message.offset, message.value) == (5000, b"new")
            await consumer.commit()
            assert await consumer.committed(TopicPartition("orders", 0)) == 5001
        finally:
            await consumer.stop()


async def test_librdkafka_goes_on() -> None:
    async with at_work() as cluster:
        settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "error"}

        def first() -> tuple[int | None, bytes | None]:
            consumer = confluent_kafka.Consumer(settings)
            consumer.subscribe(["orders"])
            deadline = time.monotonic() + DEADLINE_S
            try:
                while time.monotonic() < deadline:
                    message = consumer.poll(0.2)
                    if message is not None:
                        assert message.error() is None, message.error()
                        return message.offset(), message.value()
            finally:
                consumer.close()
            raise AssertionError(f"waited {DEADLINE_S:g} s for a message")

        assert await asyncio.to_thread(first) == (5000, b"new")


@pytest.mark.real_kafka
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_java_consumer_goes_on(version: str) -> None:
    tool = (
        "kafka.tools.ConsoleConsumer" if version.startswith("3") else "org.apache.kafka.tools.consumer.ConsoleConsumer"
    )
    async with at_work() as cluster:
        where = ["--bootstrap-server", cluster.bootstrap, "--topic", "orders", "--group", "g"]
        done = await asyncio.to_thread(java_tool, version, tool, *where, "--max-messages", "1", "--timeout-ms", "20000")
    assert done.stdout == "new\n", done.stderr

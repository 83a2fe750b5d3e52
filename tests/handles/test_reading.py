"""A real consumer that begins at the log's end gets what is sent once its group is reading."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from broker_sim import Cluster

pytestmark = pytest.mark.kafka(topics={"orders": 4})


async def test_nothing_that_is_sent_then_is_lost_to_members_that_begin_at_the_end(kafka: Cluster) -> None:
    """Members share aiokafka's default client id, and look up the log end offsets late."""
    options = {"bootstrap_servers": kafka.bootstrap, "group_id": "billing", "enable_auto_commit": False}
    options["auto_offset_reset"] = "latest"
    kafka.fault("ListOffsets", delay="200ms")
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(AIOKafkaProducer(bootstrap_servers=kafka.bootstrap))
        first = await stack.enter_async_context(AIOKafkaConsumer("orders", **options))
        second = await stack.enter_async_context(AIOKafkaConsumer("orders", **options))
        await kafka.group("billing").reading(members=2, timeout="60s")
        for partition in range(4):
            await producer.send_and_wait("orders", b"%d" % partition, partition=partition)
        got: set[bytes] = set()
        while not got >= {b"0", b"1", b"2", b"3"}:
            done = await asyncio.gather(*(each.getmany(timeout_ms=100) for each in (first, second)))
            got |= {record.value for batches in done for records in batches.values() for record in records}

"""An incident as a test: the group's own partition of __consumer_offsets is stuck (the README shows this file)."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from broker_sim import Err


@pytest.mark.asyncio
@pytest.mark.kafka(topics={"orders": 6}, as_version="3.9", clock="manual")
async def test_a_commit_succeeds_once_the_offsets_partition_recovers(kafka):
    async with AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, group_id="billing") as consumer:
        billing = await kafka.group("billing").stable(members=1)
        async with billing.offsets_log.stuck() as fault:  # the group's partition of __consumer_offsets
            commit = asyncio.create_task(consumer.commit({TopicPartition("orders", 0): 1}))
            (pending,) = await fault.pending(1)  # appended, not replicated, not answered
            await kafka.time.advance("5s")  # offsets.commit.timeout.ms on the broker's clock
            assert (await pending.answer()).error is Err.REQUEST_TIMED_OUT  # 4.x: COORDINATOR_NOT_AVAILABLE
        await commit  # the client's retry succeeds
        assert billing.generations == 1, billing.explain()  # no rebalance

"""An incident as a test: the group's own partition of __consumer_offsets is stuck (the README shows this file)."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer

from broker_sim import Err


@pytest.mark.asyncio
@pytest.mark.kafka(brokers=3, as_version="3.9", clock="manual")
async def test_a_commit_waits_out_a_stuck_offsets_partition(kafka):
    kafka.topic("orders", partitions=6).fill(600)
    options = {"bootstrap_servers": kafka.bootstrap, "group_id": "billing", "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer("orders", enable_auto_commit=False, **options) as app:
        await app.getone()
        billing = await kafka.group("billing").stable(members=1)

        async with billing.offsets_log.stuck() as jam:  # the __consumer_offsets partition of this group
            commit = asyncio.create_task(app.commit())
            (blocked,) = await jam.pending(1)  # it is in the log, but not committed there, and not answered
            assert (await kafka.group("audit").commit_probe()).ok  # a group of another partition notices nothing
            await kafka.time.advance("5s")  # offsets.commit.timeout.ms on the broker's clock: nobody waits for it
            assert (await blocked.answer()).error is Err.REQUEST_TIMED_OUT  # 4.1: COORDINATOR_NOT_AVAILABLE

        await commit  # healed: the client's own retry went through
        assert billing.generations == 1, billing.explain()  # and nobody had to rebalance

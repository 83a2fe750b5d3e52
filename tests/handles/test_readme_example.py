"""The incident that this library was made for, in the user's words: an offsets partition that is stuck, under both coordinators."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer

from broker_sim import Err


@pytest.mark.kafka(brokers=3, as_version="3.9", clock="manual", seed=7)
async def test_a_commit_waits_out_a_stuck_offsets_partition(kafka):
    kafka.topic("orders", partitions=6).fill(600)
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as app:
        await app.getone()
        billing = await kafka.group("billing").stable(members=1)

        async with billing.offsets_log.stuck() as jam:  # the __consumer_offsets partition of this group
            commit = asyncio.create_task(app.commit())
            (blocked,) = await jam.pending(1)  # in the log, not committed, not answered
            assert (await kafka.group("audit").commit_probe()).ok  # a group in another partition notices nothing
            await kafka.time.advance(5)  # offsets.commit.timeout.ms on the broker's clock: nobody waits
            assert (await blocked.answer()).error is Err.REQUEST_TIMED_OUT

        await commit  # the client tried again by itself, and the partition had healed
        assert billing.lag().total == 599
        assert billing.generations == 1, billing.explain()  # no rebalance


@pytest.mark.kafka(brokers=3, as_version="4.1", clock="manual", seed=7)
async def test_the_same_under_4_1(kafka):
    kafka.topic("orders", partitions=6).fill(600)
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as app:
        await app.getone()
        billing = await kafka.group("billing").stable(members=1)

        async with billing.offsets_log.stuck() as jam:
            commit = asyncio.create_task(app.commit())
            (blocked,) = await jam.pending(1)
            assert (await kafka.group("audit").commit_probe()).ok
            await kafka.time.advance(5)
            assert (await blocked.answer()).error is Err.COORDINATOR_NOT_AVAILABLE

        await commit
        assert billing.lag().total == 599
        assert billing.generations == 1, billing.explain()

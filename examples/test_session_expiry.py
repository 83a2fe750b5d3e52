"""A consumer whose session expires, without waiting for it: broker-sim's clock is advanced by the test."""

import pytest
from aiokafka import AIOKafkaConsumer


@pytest.mark.asyncio
@pytest.mark.kafka(topics={"orders": 6}, clock="manual")
async def test_a_frozen_consumer_loses_its_partitions(kafka):
    settings = {"bootstrap_servers": kafka.bootstrap, "group_id": "billing", "heartbeat_interval_ms": 500}
    async with (
        AIOKafkaConsumer("orders", client_id="app-1", **settings),
        AIOKafkaConsumer("orders", client_id="app-2", **settings),
    ):
        billing = await kafka.group("billing").stable(members=2)
        fired = await kafka.time.advance("11s", expire=["app-2"])  # aiokafka's session.timeout.ms is 10 s
        assert any(timer.startswith("session of app-2") for timer in fired)  # "session of app-2-54ec... in billing"
        assert [member.client_id for member in billing.members] == ["app-1"]
        await billing.stable(members=2)  # app-2 notices in real time, and rejoins

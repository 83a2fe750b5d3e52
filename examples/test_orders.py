"""A test of a consumer without faults: a second one continues from the offsets that the first one committed."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


@pytest.mark.asyncio
@pytest.mark.kafka(topics={"orders": 6})
async def test_a_second_consumer_goes_on_where_the_first_one_committed(kafka):
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for number in range(10):
            await producer.send_and_wait("orders", str(number).encode(), partition=0)

    async def consume(count):
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=kafka.bootstrap,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with consumer, asyncio.timeout(10):
            values = [int((await consumer.getone()).value) for _ in range(count)]
            await consumer.commit()
        return values

    assert await consume(4) == [0, 1, 2, 3]
    assert await consume(6) == [4, 5, 6, 7, 8, 9]

"""A client as an application would have it: writes ten orders, reads them as the group "billing", commits.

    python examples/orders.py localhost:9092

Run it again: the group goes on where it committed, so that each run reads its own ten orders.
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

ORDERS = 10


async def main(bootstrap: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(ORDERS):
            await producer.send_and_wait("orders", f"order {number}".encode())
    print(f"wrote {ORDERS} orders to {bootstrap}")

    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with consumer, asyncio.timeout(30):
        for _ in range(ORDERS):
            record = await consumer.getone()
            print(f"read {record.value.decode()} from partition {record.partition}, offset {record.offset}")
        await consumer.commit()
    print("committed")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))

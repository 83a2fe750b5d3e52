"""Your own consumer under a hundred different incidents, in virtual time (docs/simulation.md; the README shows this file)."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from broker_sim.simulation import Swarm


@pytest.mark.sim(seeds=range(10), faults=Swarm(during="30s"))
def test_every_order_is_billed(sim):
    kafka = sim.cluster(brokers=3, topics={"orders": 6})
    orders, billed = [b"order %d" % number for number in range(50)], set()

    async def bill():
        options = {"bootstrap_servers": kafka.bootstrap, "group_id": "billing", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("orders", enable_auto_commit=False, **options) as consumer:
            async for order in consumer:
                await asyncio.sleep(0.2)  # the work
                billed.add(order.value)
                await consumer.commit()  # before the work it would be a bug, which this test finds and shrinks

    async def sell():
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            while orders:
                await producer.send_and_wait("orders", orders[0])
                orders.pop(0)
                await asyncio.sleep(0.5)

    sim.host("shop").spawn(sell, again="1s")  # started again when it raises, as by a supervisor
    for name in ("app-1", "app-2", "app-3"):
        sim.host(name).spawn(bill, again="1s")
    sim.run_for(40)  # virtual seconds; crashes, broken connections, stuck logs, lost requests in the first thirty
    sim.check(groups={"billing": 3}, also=lambda: not orders)  # after healing all members are back, no order is lost
    assert len(billed) == 50

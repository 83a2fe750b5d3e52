"""A history with synchronous clients: two kafka-python consumers and one of aiokafka in a group, and a kafka-python producer.

python -m tests.simulation.sync_group 7         # one line of JSON with its hashes
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field

from broker_sim.simulation import Simulation, simulate
from broker_sim.simulation.cluster import SimCluster
from broker_sim.simulation.workloads.programs import Consumer

BOOTSTRAP = ["broker-1:9092", "broker-2:9092"]
SENT = 60


@dataclass
class SyncConsumer:
    """A consumer's program, and what it was given. It has one topic: of several the order in its requests is that of a set of strings,
    which Python's hash seed decides."""

    name: str
    read: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    batches: int = 0

    def __call__(self) -> None:
        from kafka import KafkaConsumer
        from kafka.errors import KafkaError

        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=BOOTSTRAP,
            group_id="billing",
            client_id=self.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=10_000,
        )
        while True:
            for partition, records in consumer.poll(timeout_ms=500).items():
                self.read[partition.topic, partition.partition] += [record.offset for record in records]
                self.batches += 1
            time.sleep(0.05)
            try:
                consumer.commit()
            except KafkaError:  # a rebalance: what was read is read again by somebody
                continue


@dataclass
class SyncProducer:
    """Sends a record a second, each acknowledged before the next."""

    sent: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __call__(self) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, client_id="producer", acks="all")
        for number in range(SENT):
            told = producer.send("orders", b"%d" % number, key=b"%d" % number).get(timeout=30)
            self.sent[told.partition].append(told.offset)
            time.sleep(1)
        producer.close()


@dataclass
class Group:
    """Outcome of `play`: the cluster, its consumers and its producer."""

    kafka: SimCluster
    sync: list[SyncConsumer]
    other: Consumer
    producer: SyncProducer

    def lost(self) -> set[tuple[str, int, int]]:
        """Records that nobody was given."""
        given = {(*log, offset) for one in self.sync for log, offsets in one.read.items() for offset in offsets}
        given |= {(one.topic, one.partition, one.offset) for one in self.other.delivered}
        ends = {("orders", part.index): part.high_watermark for part in self.kafka.state.topics["orders"].partitions}
        return {(*log, offset) for log, end in ends.items() for offset in range(end)} - given


def play(sim: Simulation) -> Group:
    """Three members share a topic, one of the synchronous ones crashes, the other stands still for a while, both come back."""
    kafka = sim.cluster(2, {"orders": 6}, config={"group.initial.rebalance.delay.ms": 0})
    kafka.topic("orders").fill(60)
    other = Consumer(
        sim, sim.host("other"), kafka.bootstrap, "billing", ["orders"], options={"session_timeout_ms": 10_000}
    )
    group = Group(kafka, [SyncConsumer("sync-1"), SyncConsumer("sync-2")], other, SyncProducer())
    for consumer in group.sync:
        sim.host(consumer.name).spawn_sync(consumer)
    sim.host("other").spawn(other.run)
    sim.host("producer").spawn_sync(group.producer)

    def members(count: int) -> bool:
        found = kafka.group("billing")
        return found.state == "Stable" and len(found.members) == count

    sim.run_until(lambda: members(3), within="60s")
    sim.run_for(10)
    sim.crash("sync-1")
    sim.run_until(lambda: members(2), within="60s")
    sim.pause("sync-2")
    sim.run_until(lambda: members(1), within="60s")
    sim.resume("sync-2")
    sim.restart("sync-1")
    sim.run_until(lambda: members(3), within="60s")
    sim.run_for(SENT)
    return group


def main() -> None:
    """See the module."""
    started_s = time.process_time()
    with simulate(int(sys.argv[1]), trace=True) as sim:
        group = play(sim)
        told = {"journal": sim.journal_hash, "schedule": sim.schedule_hash, "steps": sim.loop.steps}
        told.update(virtual_s=sim.elapsed_s, lost=len(group.lost()))
    told["cpu_s"] = time.process_time() - started_s
    print(json.dumps(told))


if __name__ == "__main__":
    main()

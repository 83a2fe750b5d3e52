"""Histories that several tests run: a group of aiokafka consumers and a producer through incidents."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from typing import Any

from broker_sim.simulation import Simulation, simulate
from broker_sim.simulation.cluster import SimCluster
from broker_sim.simulation.workloads.programs import Consumer, Producer

PARTITIONS = 12
GROUP = "billing"


@dataclass
class Group:
    """Consumers on hosts c1, c2 ..., a producer on host p."""

    sim: Simulation
    kafka: SimCluster
    consumers: list[Consumer]
    producer: Producer

    def history(self) -> list[Any]:
        """The group's snapshots in the journal, one for every change."""
        return [
            e["after"] for e in self.sim.journal.events if e["event"] == "group" and e["group"] == GROUP and e["after"]
        ]

    def stable(self, members: int) -> bool:
        last = self.history()[-1:]
        return bool(last) and last[0]["state"] == "Stable" and len(last[0]["members"]) == members

    def lost(self) -> set[tuple[int, int]]:
        """Acknowledged records that no consumer was given, as (partition, offset)."""
        given = {(each.partition, each.offset) for one in self.consumers for each in one.delivered}
        return set(self.producer.acked) - given


def begin(
    sim: Simulation,
    *,
    brokers: int = 1,
    members: int = 3,
    every_s: float = 1.0,
    kafka: SimCluster | None = None,
    **options: Any,
) -> Group:
    """Start it, on ``kafka`` or on a cluster of its own; ``options``: the consumers'."""
    kafka = kafka or sim.cluster(brokers=brokers, topics={"orders": PARTITIONS})
    consumers = []
    for number in range(1, members + 1):
        host = sim.host(f"c{number}")
        own = Consumer(sim, host, kafka.bootstrap, GROUP, ["orders"], options={"session_timeout_ms": 45_000, **options})
        host.spawn(own.run)
        consumers.append(own)
    host = sim.host("p")
    producer = Producer(sim, host, kafka.bootstrap, "orders", every_s)
    host.spawn(producer.run)
    return Group(sim, kafka, consumers, producer)


def twenty_minutes(sim: Simulation, **options: Any) -> Group:
    """A stuck offsets partition for 30 s, a consumer that hangs for 400 s, a silent crash, the session's end, a restart."""
    group = begin(sim, **options)
    sim.run_for(60)
    with group.kafka.offsets_log(GROUP).stuck():
        sim.run_for(30)
    sim.run_for(60)
    group.consumers[0].hang_s = 400
    sim.run_for(500)
    sim.crash("c2")
    sim.run_for(120)
    sim.restart("c2")
    sim.run_for(1200 - sim.elapsed_s)
    return group


def two_minutes(sim: Simulation) -> Group:
    """Three brokers, one of which crashes and comes again; a partition, a pause, lost connections, a silent crash."""
    group = begin(sim, brokers=3, every_s=0.2, session_timeout_ms=10_000, metadata_max_age_ms=10_000)
    sim.run_for(15)
    sim.crash("broker-1")
    sim.run_for(15)
    sim.restart("broker-1")
    with sim.network.partition("c1", "*"):
        sim.run_for(15)
    sim.pause("c2")
    sim.pause("broker-2")
    sim.run_for(5)
    sim.heal()
    sim.run_for(15)
    sim.network.reset("c3")
    sim.crash("c3")
    sim.run_for(20)
    sim.heal()
    sim.run_for(35)
    return group


RUNS = {"twenty": twenty_minutes, "two": two_minutes}


def main() -> None:
    """``python -m tests.simulation.workload two 7 [tasks]``: one line of JSON."""
    name, seed, *order = sys.argv[1:]
    started = time.process_time()
    with simulate(int(seed), order=order[0] if order else "fifo", trace=True) as sim:
        RUNS[name](sim)
        told = {"journal": sim.journal_hash, "schedule": sim.schedule_hash, "steps": sim.loop.steps}
    told["cpu_s"] = time.process_time() - started
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()

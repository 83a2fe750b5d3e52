"""The two targets of the conformance tests, and the configurations ("profiles") they run with.

A real broker serves every test of its (version, profile) in turn; the tests are ordered so that one cluster runs at a
time. The simulator is started anew, in this process, on a real socket, for each test.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.driver import create_topic, offsets_topic_ready
from tests.support.real_kafka import RealKafka
from tests.support.wire import Wire

GENERATIONS = {"3.4": "3.4.0", "4.1": "4.1.0"}
TOPICS = {"t0": 3, "t1": 3}
OFFSETS_PARTITIONS = 4


@dataclass(frozen=True)
class Profile:
    """Broker settings that a group of tests needs."""

    brokers: int = 1
    config: Mapping[str, object] = field(default_factory=dict)

    def settings(self) -> dict[str, object]:
        common: dict[str, object] = {
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 100,
            "group.max.session.timeout.ms": 60_000,
            "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
            "auto.create.topics.enable": "false",
            "offset.metadata.max.bytes": 100,
        }
        return {**common, **self.config}


PROFILES = {
    "fast": Profile(),
    "delay": Profile(config={"group.initial.rebalance.delay.ms": 400}),
    "small": Profile(config={"group.max.size": 2}),
    "expiry": Profile(config={"offsets.retention.check.interval.ms": 200, "offsets.retention.minutes": 1}),
    "pair": Profile(brokers=2, config={"offsets.topic.replication.factor": 1}),
}


class RealTargets:
    """Keeps one real cluster running: that of the last (generation, profile) asked for."""

    def __init__(self) -> None:
        self._key: tuple[str, str] | None = None
        self._kafka: RealKafka | None = None

    async def get(self, generation: str, profile: str) -> RealKafka:
        """The running cluster, ready for groups and with the common topics."""
        if self._key != (generation, profile) or self._kafka is None:
            self.close()
            wanted = PROFILES[profile]
            kafka = RealKafka(GENERATIONS[generation], wanted.brokers, wanted.settings())
            await asyncio.to_thread(kafka.__enter__)
            self._key, self._kafka = (generation, profile), kafka
            await prepare(kafka.bootstrap)
        return self._kafka

    def close(self) -> None:
        if self._kafka is not None:
            self._kafka.close(graceful=False)
        self._key = self._kafka = None


async def prepare(bootstrap: str) -> None:
    """Creates __consumer_offsets and the common topics."""
    wire = await Wire.connect(bootstrap)
    try:
        await offsets_topic_ready(wire.send)
        for name, partitions in TOPICS.items():
            await create_topic(wire.send, name, partitions)
    finally:
        await wire.close()


@contextlib.asynccontextmanager
async def simulator(generation: str, profile: str) -> AsyncIterator[Any]:
    """A fresh simulated cluster of this generation and profile."""
    from broker_sim.cluster import Cluster

    wanted = PROFILES[profile]
    async with Cluster(brokers=wanted.brokers, config=wanted.settings(), as_version=generation) as cluster:
        await prepare(cluster.bootstrap)
        yield cluster

"""A cluster whose requests pass a tap: real sockets, a clock that the test moves.

async with Rig(topics={"orders": 2}) as rig:
    wire = await rig.connect()
    with rig.faults.add("Heartbeat", delay="5s") as slow: ...
    rig.clock.advance(5000)
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from broker_sim.api.cluster import Cluster
from broker_sim.common.chance import Chance
from broker_sim.common.clock import ManualClock
from broker_sim.faults.order import Order
from broker_sim.faults.registry import Faults
from broker_sim.faults.tap import RequestInterceptor
from broker_sim.journal import Journal, problems
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from tests.support.wire import DEADLINE_S, Wire

CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "offsets.topic.replication.factor": 1,
}


class Rig:
    """Broker, tap, journal, rules and order; the journal's vocabulary is checked at the end."""

    def __init__(self, *, brokers: int = 1, clock: Any = None, journal: bool = True, **options: Any) -> None:
        self.clock: Any = ManualClock() if clock is None else clock
        options.setdefault("topics", {"orders": 4})
        self.cluster = Cluster(brokers, config=CONFIG, clock=self.clock, rng=random.Random(7), **options)
        self.journal = Journal(self.clock)
        told = self.journal if journal else None
        self.faults = Faults(self.clock, Chance.seeded(7), told, brokers=lambda: self.cluster.state.brokers)
        self.order = Order(told)
        self._told = told
        self._wires: list[Wire] = []

    async def __aenter__(self) -> Self:
        await self.cluster.start()
        self.cluster.state.ensure_offsets_topic()
        self.tap = RequestInterceptor(self.cluster.state, self.clock, self._told, self.faults, self.order)
        for server in self.cluster.servers:
            server.tap = self.tap
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.order.clear()
        for wire in self._wires:
            await wire.close()
        await self.cluster.stop()
        if kind is None:
            assert [found for event in self.journal.events for found in problems(event)] == []
            assert self.tap.unanswered == []
            assert self.journal.open_requests == {}

    async def connect(self, client_id: str | None = "app-1", broker: int = 1) -> Wire:
        """A raw client of that broker."""
        wire = await Wire.connect(self.cluster.bootstrap.split(",")[broker - 1], client_id=client_id)
        self._wires.append(wire)
        return wire

    def told(self, event: str) -> list[dict[str, Any]]:
        """The events of that kind."""
        return [one for one in self.journal.events if one["event"] == event]


async def until(condition: Callable[[], object], what: str) -> None:
    """Returns once the condition holds; TimeoutError naming it after the deadline."""
    loop = asyncio.get_running_loop()
    end = loop.time() + DEADLINE_S
    while not condition():
        if loop.time() > end:
            raise TimeoutError(f"waited {DEADLINE_S:g} s for {what}")
        await asyncio.sleep(0.001)


def commit(group: str = "billing", offset: int = 5, **fields: Any) -> OffsetCommitRequest:
    """An OffsetCommit of a simple consumer, for orders-0 (for version 8)."""
    partitions = [OffsetCommitRequestPartition(0, offset)]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("orders", partitions=partitions)], **fields)


async def committed(wire: Wire, group: str = "billing") -> int:
    """Return the committed offset of orders-0."""
    topics = [OffsetFetchRequestTopics("orders", partition_indexes=[0])]
    answer = await wire.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)]), 8)
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


def heartbeat(group: str = "billing", member: str = "m") -> HeartbeatRequest:
    """A Heartbeat of a member that nobody knows (UNKNOWN_MEMBER_ID)."""
    return HeartbeatRequest(group, 1, member)

"""Programs for simulated hosts: aiokafka clients, unmodified, with a ledger of what they did.

The ledger belongs to the test, not to the host: it outlives crashes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker_sim.simulation.hosts import Host
    from broker_sim.simulation.protocols import RunControl

__all__ = ["Consumer", "DeliveredRecord", "Producer"]

_AGAIN_S = 1.0
"""Pause of an application before it starts its client again."""

_STOP_S = 45.0
"""Time that a client has for stopping: longer than a request may take."""

_COMMIT_S = 45.0
"""As long for a commit: aiokafka repeats one that has a deleted topic for ever (0.14), UNKNOWN_TOPIC_OR_PARTITION is retriable."""


@dataclass(frozen=True, slots=True)
class DeliveredRecord:
    """A record that a consumer was given. ``at_s``: virtual seconds since the beginning."""

    at_s: float
    topic: str
    partition: int
    offset: int
    value: bytes | None


@dataclass(slots=True)
class Producer:
    """Sends ``value`` 0, 1, 2 ... to ``topic`` every ``every_s``, each until it is acknowledged. ``count``: so many."""

    sim: RunControl
    host: Host
    bootstrap: str
    topic: str
    every_s: float = 1.0
    count: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    sent: int = 0
    starts: int = 0
    acked: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """(partition, offset) -> value."""
    failures: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """Produce records until all are acknowledged."""
        from aiokafka import AIOKafkaProducer
        from aiokafka.errors import KafkaError

        while self.count is None or self.sent < self.count:
            self.starts += 1
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap, client_id=self.host.name, **{"acks": "all", **self.options}
            )
            try:
                await producer.start()
                while self.count is None or self.sent < self.count:
                    value = b"%d" % self.sent
                    metadata = await producer.send_and_wait(self.topic, value, key=value)
                    self.acked[metadata.partition, metadata.offset] = value
                    self.sent += 1
                    await asyncio.sleep(self.every_s)
            except (KafkaError, OSError) as error:
                self.failures.append(f"{self.sim.elapsed_s:.3f} {error!r}")
            finally:
                await producer.stop()
            await asyncio.sleep(_AGAIN_S)


@dataclass(slots=True)
class Consumer:
    """A member of ``group`` that reads, works ``work_s`` on each batch and then commits it; ``commit_every_s`` leaves that to
    auto-commit. ``pattern`` replaces ``topics``; ``assigned``: partitions that it reads without being a member. ``hang_s``:
    the processing time of the next batch, if set. ``gave``: called with (group, topic, partition, offsets, host) of each batch."""

    sim: RunControl
    host: Host
    bootstrap: str
    group: str
    topics: Iterable[str]
    work_s: float = 0.0
    commit_every_s: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    hang_s: float = 0.0
    rebalances: int = 0
    """Number of times that the consumer's partitions were revoked. aiokafka does so while the application works on a batch, and would
    commit the old offsets of that batch in the new generation (0.14)."""
    starts: int = 0
    delivered: list[DeliveredRecord] = field(default_factory=list)
    assignments: list[tuple[float, list[tuple[str, int]]]] = field(default_factory=list)
    """Assignments with their times."""
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    """The last offsets that the coordinator has acknowledged to it."""
    failures: list[str] = field(default_factory=list)
    leaving: bool = False
    pattern: str | None = None
    assigned: Sequence[tuple[str, int]] = ()
    gave: Callable[[str, str, int, Sequence[int], str], object] | None = None
    rest_s: float | None = None
    """After so long without a record it commits its position: aiokafka tries a commit again across rebalances, in the new generation
    (0.14), and so an old one may come behind that of the next owner."""
    _told_s: float = 0.0

    async def run(self) -> None:
        """Consume and commit until ``leaving`` is set."""
        from aiokafka import AIOKafkaConsumer
        from aiokafka.errors import KafkaError

        while not self.leaving:
            self.starts += 1
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap,
                group_id=self.group,
                client_id=self.host.name,
                enable_auto_commit=self.commit_every_s is not None,
                auto_commit_interval_ms=round((self.commit_every_s or 5.0) * 1000),
                **{"auto_offset_reset": "earliest", **self.options},
            )
            try:
                self._subscribe(consumer)
                await consumer.start()
                while not self.leaving:
                    await self._turn(consumer)
            except (KafkaError, OSError) as error:
                self.failures.append(f"{self.sim.elapsed_s:.3f} {error!r}")
            finally:
                await self._stop(consumer)
            if not self.leaving:
                await asyncio.sleep(_AGAIN_S)

    async def _stop(self, consumer: Any) -> None:
        """aiokafka's stop() tries its last auto-commit for ever where that commit's answer has cost it the coordinator (0.14)."""
        try:
            async with asyncio.timeout(_STOP_S):
                await consumer.stop()
        except TimeoutError:
            self.failures.append(f"{self.sim.elapsed_s:.3f} stop() did not return within {_STOP_S} s")

    def _subscribe(self, consumer: Any) -> None:
        from aiokafka import TopicPartition

        if self.assigned:
            consumer.assign([TopicPartition(topic, index) for topic, index in self.assigned])
        elif self.pattern is not None:
            consumer.subscribe(pattern=self.pattern, listener=self._listener())
        else:
            consumer.subscribe(list(self.topics), listener=self._listener())

    async def _turn(self, consumer: Any) -> None:
        from aiokafka.errors import CommitFailedError, IllegalStateError, RebalanceInProgressError

        batches = await consumer.getmany(timeout_ms=1000)
        now_s, rebalances = self.sim.elapsed_s, self.rebalances
        ends = {}
        for partition, records in batches.items():
            topic, index = partition
            self.delivered += [DeliveredRecord(now_s, topic, index, record.offset, record.value) for record in records]
            ends[partition] = records[-1].offset + 1
            if self.gave is not None:
                self.gave(self.group, topic, index, [record.offset for record in records], self.host.name)
        hang_s, self.hang_s = self.hang_s, 0.0
        if self.work_s + hang_s:
            await asyncio.sleep(self.work_s + hang_s)
        if ends:
            self._told_s = now_s
        elif self.rest_s is not None and now_s - self._told_s >= self.rest_s:
            self._told_s = now_s
            ends = await self._positions(consumer)
        if ends and self.commit_every_s is None and rebalances == self.rebalances:  # else others may be further already
            try:
                async with asyncio.timeout(_COMMIT_S):
                    await consumer.commit(ends)
            except (CommitFailedError, RebalanceInProgressError, IllegalStateError, TimeoutError) as error:
                self.failures.append(f"{self.sim.elapsed_s:.3f} {error!r}")
            else:
                self.committed.update({(topic, index): end for (topic, index), end in ends.items()})

    async def _positions(self, consumer: Any) -> dict[Any, int]:
        from aiokafka.errors import IllegalStateError

        try:
            return {partition: await consumer.position(partition) for partition in consumer.assignment()}
        except IllegalStateError:  # it was taken away meanwhile
            return {}

    def _listener(self) -> Any:
        from aiokafka import ConsumerRebalanceListener

        ledger = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_revoked(self, revoked: object) -> None:
                ledger.rebalances += 1

            async def on_partitions_assigned(self, assigned: Any) -> None:
                ledger.assignments.append((ledger.sim.elapsed_s, sorted((topic, index) for topic, index in assigned)))

        return Listener()

"""The bank's people who speak the wire protocol: tellers, who are a group's members; who gives orders; who reads the books."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from broker_sim.simulation.workloads.bank.book import ACCOUNTS, AUDIT, Book, BookEntry, PaymentOrder, Reading
from broker_sim.simulation.workloads.bank.writer import AbortableError, FencedError, TransactionalWriter
from broker_sim.simulation.workloads.raw import GROUP, TOPIC, Member, RawClient, RawContext
from kafka_wire.codec import decode
from kafka_wire.control_records import ControlType, control_type
from kafka_wire.errors import Err
from kafka_wire.messages.consumer_protocol import ConsumerProtocolAssignment
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.record_batch import Record, batches, records

__all__ = ["Auditor", "Clerk", "Teller", "committed_records"]

TIMEOUT_MS = 5000
"""Timeout of transactions."""

_FETCH, _STABLE = 12, 7
_PATIENCE_S = 2.0
_SECOND_THOUGHTS = 0.12
"""The share of transactions that are aborted for no reason."""
_MOST = 4
"""Orders that are carried out in one transaction."""


class Given(NamedTuple):
    """Element of a response to a reader of committed records: a record, a marker, or None for an aborted record."""

    offset: int
    producer_id: int
    found: Record | ControlType | None


def committed_records(data: bytes, aborted: Any) -> Iterator[Given]:
    """Read a response with read_committed as clients do: the broker lists the aborted transactions, and the client leaves their records
    out up to their markers."""
    ahead = sorted(((row.first_offset, row.producer_id) for row in aborted or ()), reverse=True)
    gone: set[int] = set()
    for pos, header in batches(data):
        while ahead and ahead[-1][0] <= header.last_offset:
            gone.add(ahead.pop()[1])
        for record in records(data, pos, header):
            content: Record | ControlType | None = record
            if header.is_control:
                content = ControlType(control_type(record.key))
                if content is ControlType.ABORT:
                    gone.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in gone:
                content = None
            yield Given(record.offset, header.producer_id, content)


async def fetch(client: RawClient, topic: str, index: int, offset: int, max_bytes: int) -> Any:
    """Fetch from the leader of one partition; returns its part of the response, None without a leader. Raises OSError."""
    partition = client.context.kafka.state.partition(topic, index)
    if partition is None or partition.leader < 0:
        return None
    asked = [FetchTopic(topic, partitions=[FetchPartition(index, -1, offset, partition_max_bytes=max_bytes)])]
    request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=max_bytes, isolation_level=1, topics=asked)
    line = await client.line(partition.leader, 4)
    try:
        answer = await asyncio.wait_for(line.start(request, _FETCH), _PATIENCE_S)
    except TimeoutError:
        line.close()
        raise
    return answer.responses[0].partitions[0] if answer.responses else None


class Teller(Member):
    """A member of the group: it takes orders of its partitions, and carries them out in transactions, their offsets with them."""

    def __init__(self, context: RawContext, name: str, book: Book, flow: int, careful: bool) -> None:
        super().__init__(context, name)
        self.book, self.flow, self.careful = book, flow, careful

    async def run(self) -> None:
        """Carry out orders until the host is stopped."""
        self._writer: TransactionalWriter | None = None
        await super().run()

    def _synced(self, answer: Any) -> list[int] | None:
        given = decode(ConsumerProtocolAssignment, 0, answer.assignment[2:]) if answer.assignment else None
        return sorted(index for topic in (given.assigned_partitions if given else ()) for index in topic.partitions)

    async def _steady(self, broker: int, mine: list[int]) -> Err:
        """Until something is not well with the group. Raises OSError."""
        positions: dict[int, int] = {}
        while True:
            answer = await self.ask(HeartbeatRequest(GROUP, self.generation, self.member, self.instance), broker)
            error = Err(answer.error_code)
            if error is not Err.NONE:
                return error
            self.beats += 1
            if self._writer is None:
                with contextlib.suppress(FencedError):
                    writer = TransactionalWriter(
                        self, f"teller-{self.name}", self.flow, careful=self.careful, timeout_ms=TIMEOUT_MS
                    )
                    await writer.begin()
                    self._writer = writer
            elif not positions:
                positions = await self._positions(broker, mine)
            for index in list(positions):
                if self._writer is not None and not await self._serve_one(self._writer, index, positions):
                    positions = {}  # the committed offsets are the new positions
                    break
            await asyncio.sleep(self.rng.uniform(0.1, 0.3))

    async def _positions(self, broker: int, mine: list[int]) -> dict[int, int]:
        """Committed offsets from which to continue; empty while a transaction has them pending. Raises OSError."""
        request = OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic(TOPIC, mine)], require_stable=True)
        line = await self.line(broker)
        answer = await asyncio.wait_for(line.start(request, _STABLE), _PATIENCE_S)
        rows = [row for topic in answer.topics for row in topic.partitions]
        if answer.error_code or any(row.error_code for row in rows):
            return {}
        return {row.partition_index: max(0, row.committed_offset) for row in rows}

    async def _serve_one(self, writer: TransactionalWriter, index: int, positions: dict[int, int]) -> bool:
        """Carry out the next orders of a partition in one transaction; returns whether its outcome is known. Raises OSError."""
        row = await fetch(self, TOPIC, index, positions[index], 600)
        if row is None or row.error_code:
            return True
        orders: list[PaymentOrder] = []
        for offset, _, content in committed_records(bytes(row.records or b""), row.aborted_transactions):
            if offset < positions[index]:
                continue
            if len(orders) == _MOST:
                break
            if isinstance(content, Record):
                orders.append(PaymentOrder(index, offset))
            elif not orders:
                positions[index] = offset + 1
        if not orders:
            return True
        after = orders[-1].offset + 1
        if not await self._carry_out(writer, orders, index, after):
            return False
        positions[index] = after
        return True

    async def _carry_out(self, writer: TransactionalWriter, orders: list[PaymentOrder], index: int, after: int) -> bool:
        """One transaction; whether it is committed."""
        state = self.context.kafka.state
        attempt = self.book.begin(self.name, self.flow)
        counts = (len(state.topics[name].partitions) for name in (ACCOUNTS, AUDIT))
        rows = self.book.entries(attempt, orders, *counts)
        writer.opens(attempt)
        try:
            try:
                for (topic, place), entries in rows.items():
                    for half in (entries[::2], entries[1::2]):  # who pays or is paid first, then what balances it
                        if half:
                            await writer.write(attempt, topic, place, [entry.to_bytes() for entry in half])
                await writer.commit_offsets(attempt, {index: after}, self.member, self.instance, self.generation)
                commits = self.rng.random() >= _SECOND_THOUGHTS
            except AbortableError:
                commits = False
            await writer.end(attempt, commits=commits)
        except FencedError:
            self._writer = None
            return False
        return commits


class Clerk(RawClient):
    """Gives orders, some of them in transactions that are aborted, until it is ``over``."""

    def __init__(
        self, context: RawContext, name: str, book: Book, flow: int, careful: bool, partitions: int, every_s: float
    ) -> None:
        super().__init__(context, name)
        self.book, self.flow, self.careful, self.partitions, self.every_s = book, flow, careful, partitions, every_s
        self.over = False

    async def run(self) -> None:
        """Live one life after another until `over`: a fenced producer or a lost connection begins the next one."""
        self.begin()
        while not self.over:
            with contextlib.suppress(FencedError, OSError):
                await self._live()
            await asyncio.sleep(0.5)

    async def _live(self) -> None:
        writer = TransactionalWriter(self, f"clerk-{self.name}", self.flow, careful=self.careful, timeout_ms=TIMEOUT_MS)
        await writer.begin()
        number = 0
        while not self.over:
            attempt = self.book.begin(self.name, self.flow)
            writer.opens(attempt)
            try:
                for _ in range(self.rng.randint(1, 3)):
                    number += 1
                    text = b"%s|order %d" % (attempt.name.encode(), number)
                    await writer.write(attempt, TOPIC, self.rng.randrange(self.partitions), [text])
                commits = self.rng.random() >= _SECOND_THOUGHTS
            except AbortableError:
                commits = False
            await writer.end(attempt, commits=commits)
            await asyncio.sleep(self.rng.expovariate(1 / self.every_s))


class Auditor(RawClient):
    """Reads what is committed in ``accounts`` and ``audit``, and holds it against the book."""

    def __init__(self, context: RawContext, name: str, book: Book, places: dict[str, int]) -> None:
        super().__init__(context, name)
        self.readings = {(topic, i): Reading(book, (topic, i)) for topic, count in places.items() for i in range(count)}
        self.positions = dict.fromkeys(self.readings, 0)
        """Positions of the readers, kept by the run itself: an auditor whose process has died goes on where it was."""

    async def run(self) -> None:
        """Read all partitions again and again until the host is stopped."""
        self.begin()
        while True:
            for topic, index in self.readings:
                with contextlib.suppress(OSError):
                    await self._read(topic, index)
            await asyncio.sleep(self.rng.uniform(0.05, 0.3))

    async def _read(self, topic: str, index: int) -> None:
        position = self.positions[topic, index]
        row = await fetch(self, topic, index, position, self.rng.choice((300, 2000, 100_000)))
        if row is None or row.error_code:
            return
        reading = self.readings[topic, index]
        for offset, producer_id, content in committed_records(bytes(row.records or b""), row.aborted_transactions):
            if offset < position:
                continue
            if isinstance(content, Record):
                reading.gave(offset, producer_id, BookEntry.read(content.value))
            elif content is not None:
                reading.ended(offset, producer_id)
            position = self.positions[topic, index] = offset + 1
        if position >= row.last_stable_offset:
            reading.reached(row.last_stable_offset)

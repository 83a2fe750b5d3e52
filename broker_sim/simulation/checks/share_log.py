"""Rules of a share group's state records (KIP-932), checked one after the other for each partition.

An independent reader of ``__share_group_state``, which shares only the format of the records with the share coordinator. `catch_up`
reads what was committed since the last call, and reports the first record that violates a rule.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_sim.metadata.topics import SHARE_STATE_TOPIC
from broker_sim.simulation.checks.answers import InvariantBroken
from kafka_wire import share_state_log as log

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import ClusterState

__all__ = ["ACKNOWLEDGED", "ARCHIVED", "ShareLog", "StoredPartition", "Unit"]

Unit = tuple[bytes, int]
"""A topic's id and a partition of it."""

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4
_NOWHERE = -1
_LATE = 8
"""At so many moments a leader may write before it hears of the first; at one moment it writes an update for each lock that ends."""


class StoredRecord(NamedTuple):
    """State of a record and its number of deliveries, as they are stored."""

    state: int
    deliveries: int


@dataclass(slots=True)
class StoredPartition:
    """A partition. ``start``: its start offset, -1 before the first; ``records``: what is stored of records from there on; ``done``:
    how it ended with those below, that lie behind it."""

    state_epoch: int
    start: int = _NOWHERE
    records: dict[int, StoredRecord] = field(default_factory=dict)
    done: dict[int, StoredRecord] = field(default_factory=dict)
    leading: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_LATE))
    """Moments of the last updates in ms since 1970, and up to where all was done with after those of a moment."""

    def done_up_to(self) -> int:
        """The first record that isn't done with."""
        offset = self.start
        while offset in self.records and self.records[offset].state in (ACKNOWLEDGED, ARCHIVED):
            offset += 1
        return offset


@dataclass(slots=True)
class ShareLog:
    """One group. ``limit``: how often a record may be delivered; ``counts_all``: a delivery counts however it ends (4.2)."""

    group_id: str
    state: ClusterState
    report: Callable[[InvariantBroken], object]
    limit: int
    counts_all: bool
    standings: dict[Unit, StoredPartition] = field(default_factory=dict)
    moves: Counter[str] = field(default_factory=Counter)
    """Count of each kind of step, by which tests find out whether a run has had it."""
    _next: dict[int, int] = field(default_factory=dict)

    def catch_up(self) -> None:
        """Take what has been committed since."""
        topic = self.state.topics.get(SHARE_STATE_TOPIC)
        for partition in () if topic is None else topic.partitions:
            at = max(self._next.get(partition.index, 0), partition.log.log_start_offset)
            for batch in partition.log.batches(at):
                if batch.header.next_offset > partition.high_watermark:
                    break
                self._next[partition.index] = batch.header.next_offset
                for record in batch.records():
                    key = log.decode_key(record.key or b"")
                    if key is not None and key.group_id == self.group_id:
                        value = None if record.value is None else log.decode_value(key, record.value)
                        self._take((key.topic_id, key.partition), value, record.timestamp)

    def _fail(self, name: str, unit: Unit, what: str, value: object) -> None:
        self.report(InvariantBroken(name, f"share group {self.group_id}, partition {unit[1]}: {what}", [value]))

    def _take(self, unit: Unit, value: Any, at_ms: int) -> None:
        standing = self.standings.get(unit)
        if value is None:
            self.standings.pop(unit, None)
        elif isinstance(value, log.ShareSnapshotValue):
            self._snapshot(unit, standing, value)
        elif standing is None:
            self._fail("a share update follows a snapshot", unit, "there was none", value)
        else:
            self.moves["update"] += 1
            self._batches(unit, standing, value)
            self._starts(unit, standing, value.start_offset, value)
            leading = standing.leading
            if leading and leading[-1][0] == at_ms:
                leading.pop()
            if len(leading) == _LATE and standing.start < leading[0][1]:
                what = f"it is {standing.start}, and up to {leading[0][1]} all was done with {_LATE} moments ago"
                self._fail("the share-partition start offset keeps up", unit, what, value)
            leading.append((at_ms, standing.done_up_to()))

    def _snapshot(self, unit: Unit, before: StoredPartition | None, value: Any) -> None:
        made = StoredPartition(value.state_epoch)
        if before is not None and before.state_epoch == value.state_epoch:
            self.moves["snapshot"] += 1
            made.start, made.done = before.start, before.done
            made.records = dict(before.records)
            self._batches(unit, made, value)
            self._starts(unit, made, value.start_offset, value)
            covered = {
                offset for batch in value.state_batches for offset in range(batch.first_offset, batch.last_offset + 1)
            }
            lost = sorted(offset for offset in made.records if offset not in covered)
            if lost:
                self._fail("a share snapshot is complete", unit, f"nothing is said of {lost[:5]}", value)
        else:
            made.start = value.start_offset
        self.standings[unit] = made

    def _batches(self, unit: Unit, standing: StoredPartition, value: Any) -> None:
        for batch in value.state_batches:
            if batch.delivery_state == ACQUIRED:
                self._fail("acquired state is never persisted", unit, f"{batch}", value)
            if not 0 <= batch.delivery_count <= self.limit or (self.counts_all and batch.delivery_count < 1):
                what = f"{batch.first_offset} to {batch.last_offset}: {batch.delivery_count} of {self.limit}"
                self._fail("the delivery count stays within its limit", unit, what, value)
            if batch.delivery_state == AVAILABLE and batch.delivery_count >= self.limit:
                what = f"{batch.first_offset} to {batch.last_offset} are to come again after {batch.delivery_count}"
                self._fail("the delivery count stays within its limit", unit, what, value)
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self._record(unit, standing, offset, StoredRecord(batch.delivery_state, batch.delivery_count), value)

    def _record(self, unit: Unit, standing: StoredPartition, offset: int, now: StoredRecord, value: Any) -> None:
        before = standing.records.get(offset)
        if offset < standing.start:
            return
        if before is not None and before.state in (ACKNOWLEDGED, ARCHIVED) and now.state != before.state:
            self._fail("completed records stay completed", unit, f"{offset} was {before}, is {now}", value)
        if before is not None and self.counts_all and now.deliveries < before.deliveries:
            self._fail("the delivery count never decreases", unit, f"{offset} was {before}, is {now}", value)
        if now.state == ARCHIVED and before is not None and before.state == AVAILABLE:
            self.moves["archived"] += 1
        standing.records[offset] = now

    def _starts(self, unit: Unit, standing: StoredPartition, start: int, value: Any) -> None:
        if start == _NOWHERE or start == standing.start:
            return
        if start < standing.start:
            self._fail("the share-partition start offset keeps up", unit, f"from {standing.start} to {start}", value)
        if standing.start != _NOWHERE:
            for offset in range(standing.start, start):
                known = standing.records.pop(offset, None)
                if known is None or known.state not in (ACKNOWLEDGED, ARCHIVED):
                    self._fail(
                        "the share-partition start offset passes completed records", unit, f"{offset} is {known}", value
                    )
                else:
                    standing.done[offset] = known
        standing.start = start
        for offset in [record for record in standing.records if record < start]:
            del standing.records[offset]

    # --- the end

    def how(self, unit: Unit, offset: int) -> StoredRecord | None:
        """Stored state of a record, before or after the start offset; None where nothing is stored."""
        standing = self.standings.get(unit)
        return None if standing is None else standing.records.get(offset) or standing.done.get(offset)

    def unsettled(self, ends: Iterable[tuple[Unit, int]]) -> str | None:
        """Describe a record that has not ended in a final state; None for none. ``ends``: each partition with its end offset."""
        for unit, end in ends:
            standing = self.standings.get(unit)
            if standing is None or standing.start == _NOWHERE:
                if end:
                    return f"nothing is known of partition {unit[1]}"
                continue
            for offset in range(standing.start, end):
                stored = standing.records.get(offset)
                if stored is None or stored.state not in (ACKNOWLEDGED, ARCHIVED):
                    return f"record {offset} of partition {unit[1]} is {stored}"
        return None

"""Share groups' deliveries, from `__share_group_state-*`: which records came back, and which were given up. Pure reading, no Spark.

    rows_of_shares(["data/__share_group_state-0", ...])     rows of `tables.share_deliveries.SEEN`

Rules:
1. The log has no acquisitions: a record is written when it is acknowledged, comes back (released by its consumer, by a session that
   was closed, or by a lock that ran out) or is archived (rejected, or delivered as often as it may be). What it has of a record is its
   state and how often it was delivered.
2. A snapshot, which each 500th write of a partition is, repeats the updates before it: only changes count,
   offset by offset.
3. Neighbours that came back within a second and as often, and were archived or acknowledged with each other, are one row.
4. A start offset that falls, or skips unacknowledged records by a snapshot of a new state epoch, was set from outside
   (AlterShareGroupOffsets, or the group was made anew).
5. Kafka 4.1 does not count a delivery whose session was closed, 4.4 does: there the same record comes back with the same count.

Source: ShareCoordinatorShard.java, PersisterStateBatchCombiner.java, SharePartition.java (4.1, 4.4); measured on both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from broker_sim.pipeline.segments import Skipped, log_partition_of
from broker_sim.pipeline.state_logs import ReportSkipped, records_of
from kafka_wire import share_state_log
from kafka_wire.codec import DecodeError
from kafka_wire.share_state_log import ShareSnapshotValue, ShareUpdateValue, StateBatch
from kafka_wire.uuids import uuid_text

__all__ = ["ACKNOWLEDGED", "ARCHIVED", "PASSED", "RESET", "SHARE_TOPIC", "rows_of_shares"]

SHARE_TOPIC = "__share_group_state"
ACKNOWLEDGED, ARCHIVED, PASSED, RESET = "acknowledged", "archived", "passed", "reset"
_AVAILABLE, _DONE, _ARCHIVING, _ARCHIVED = 0, 2, 3, 4
"""RecordState's ids; 1, acquired, is never written, 3 is on its way to a dead letter queue (4.4)."""
WIDEST = 100_000
"""Offsets of one state batch that are looked at one by one: more are never in flight (group.share.partition.max.record.locks)."""

TOGETHER_MS = 1000
"""Records that came back within so long came back together: a write of the share coordinator has what is pending then."""


@dataclass(slots=True)
class _RecordHistory:
    """A record that came back: when first and last, the log offset of the first return, how often, and how often it was delivered."""

    first_ms: int
    place: int
    returns: int = 1
    deliveries: int = 1
    last_ms: int = 0

    def earlier(self, other: _RecordHistory) -> _RecordHistory:
        """The one of both histories that began first."""
        return min(self, other, key=lambda history: (history.first_ms, history.place))


@dataclass(slots=True)
class _Partition:
    """A partition of a topic as a share group has it."""

    group: str
    topic_id: str
    partition: int
    log_partition: int
    start: int = -1
    state_epoch: int | None = None
    open: dict[int, _RecordHistory] = field(default_factory=dict)
    delivered: dict[int, tuple[int, int]] = field(default_factory=dict)
    """offset -> its last state and delivery count, from the start offset on."""


def rows_of_shares(folders: Iterable[str], report: ReportSkipped = lambda skipped: None) -> Iterator[dict[str, Any]]:
    """Rows of SEEN, in the order in which each was over; those that go on at the end."""
    for folder in folders:
        known: dict[tuple[str, bytes, int], _Partition] = {}
        log_partition = (log_partition_of(folder) or ("", -1))[1]
        for record, _ in records_of(folder, report):
            try:
                key = None if record.key is None else share_state_log.decode_key(record.key)
                value = None if key is None or record.value is None else share_state_log.decode_value(key, record.value)
            except DecodeError as error:
                report(Skipped(folder, None, None, f"the record at offset {record.offset}: {error}"))
                continue
            if key is None:
                continue
            place = (key.group_id, key.topic_id, key.partition)
            if value is None:
                known.pop(place, None)
                continue
            partition = known.get(place)
            if partition is None:
                topic_id = uuid_text(key.topic_id)
                partition = known[place] = _Partition(key.group_id, topic_id, key.partition, log_partition)
            yield from _take(partition, value, record.timestamp, record.offset)
        for partition in known.values():
            yield from _rows(partition, sorted(partition.open.items()), None, None)


def _take(
    partition: _Partition, value: ShareSnapshotValue | ShareUpdateValue, at_ms: int, place: int
) -> Iterator[dict[str, Any]]:
    if isinstance(value, ShareSnapshotValue):
        fell = 0 <= value.start_offset < partition.start
        anew = partition.state_epoch is not None and value.state_epoch != partition.state_epoch
        if (
            partition.start >= 0
            and value.start_offset >= 0
            and (fell or (anew and value.start_offset > partition.start))
        ):
            yield {
                **_key_of(partition), "from_offset": partition.start, "to_offset": value.start_offset, "returns": 0, "outcome": RESET,
                "first_ms": at_ms, "last_ms": at_ms, "log_offset": place,
            }  # fmt: skip
            partition.open.clear()
            partition.delivered.clear()
        partition.state_epoch = value.state_epoch
    archived: list[tuple[int, _RecordHistory]] = []
    accepted: list[tuple[int, _RecordHistory]] = []
    for batch in value.state_batches:
        _changed(partition, batch, at_ms, place, archived, accepted)
    yield from _rows(partition, archived, ARCHIVED, at_ms)
    yield from _rows(partition, accepted, ACKNOWLEDGED, at_ms)
    if value.start_offset > partition.start:
        partition.start = value.start_offset
        passed = sorted((offset, history) for offset, history in partition.open.items() if offset < partition.start)
        for offset, _ in passed:
            del partition.open[offset]
        yield from _rows(partition, passed, PASSED, at_ms)
        partition.delivered = {
            offset: state for offset, state in partition.delivered.items() if offset >= partition.start
        }
    elif 0 <= value.start_offset < partition.start:
        partition.start = value.start_offset


def _changed(
    partition: _Partition, batch: StateBatch, at_ms: int, place: int,
    archived: list[tuple[int, _RecordHistory]], accepted: list[tuple[int, _RecordHistory]],
) -> None:  # fmt: skip
    """Note the changes of a batch."""
    state, deliveries = batch.delivery_state, batch.delivery_count
    for offset in range(batch.first_offset, min(batch.last_offset, batch.first_offset + WIDEST) + 1):
        if partition.delivered.get(offset) == (state, deliveries):
            continue
        partition.delivered[offset] = state, deliveries
        history = partition.open.get(offset)
        if state == _AVAILABLE and deliveries > 0:
            if history is None:
                history = partition.open[offset] = _RecordHistory(at_ms, place)
            else:
                history.returns += 1
            history.deliveries, history.last_ms = max(history.deliveries, deliveries), at_ms
        elif state in (_ARCHIVING, _ARCHIVED):
            if history is None:
                history = _RecordHistory(at_ms, place, 0)
            history.deliveries = max(history.deliveries, deliveries)
            if state == _ARCHIVING:
                partition.open[offset] = history
            else:
                partition.open.pop(offset, None)
                archived.append((offset, history))
        elif state == _DONE and history is not None:
            del partition.open[offset]
            history.deliveries = max(history.deliveries, deliveries)
            accepted.append((offset, history))


def _key_of(partition: _Partition) -> dict[str, Any]:
    return {
        "group": partition.group,
        "topic_id": partition.topic_id,
        "partition": partition.partition,
        "log_partition": partition.log_partition,
    }


def _rows(
    partition: _Partition, histories: Iterable[tuple[int, _RecordHistory]], outcome: str | None, at_ms: int | None
) -> Iterator[dict[str, Any]]:
    """Consecutive offsets with the same history are one row."""
    first: tuple[int, int, _RecordHistory] | None = None
    for offset, history in [*sorted(histories, key=lambda entry: entry[0]), (-1, None)]:
        if first is not None:
            begin, last, same = first
            if history is not None and offset == last + 1 and _same_history(history, same):
                first = begin, offset, same.earlier(history)
                continue
            yield {
                **_key_of(partition), "from_offset": begin, "to_offset": last + 1, "records": last + 1 - begin, "returns": same.returns,
                "deliveries": same.deliveries, "outcome": outcome, "first_ms": same.first_ms,
                "last_ms": at_ms if at_ms is not None else same.last_ms, "log_offset": same.place,
            }  # fmt: skip
        first = None if history is None else (offset, offset, history)


def _same_history(history: _RecordHistory, other: _RecordHistory) -> bool:
    near = abs(history.first_ms - other.first_ms) < TOGETHER_MS
    return near and (history.returns, history.deliveries) == (other.returns, other.deliveries)

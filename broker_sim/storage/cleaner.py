"""Compaction: of every key the last record stays, offsets never change, the active segment is never touched.

Rules:
1. What may be cleaned ends at the active segment, at the high watermark, before an open transaction and before the
   first segment younger than min.compaction.lag.ms. A pass runs when enough of that is dirty (not seen by an earlier
   pass): min.cleanable.dirty.ratio, or older than max.compaction.lag.ms.
2. A tombstone stays for delete.retention.ms after the first pass that met it: that pass writes the time at which it
   may go into the batch (the delete horizon, KIP-534).
3. A batch keeps its first and last offset, producer, sequence, epoch, codec and timestamp type. One without records is
   dropped, unless it is the last of a producer that is still known: then its header stays, so that a resend is
   recognised. Records without a key go, as in Kafka. Records of aborted transactions go. A marker stays as long as any
   record of its transaction, and from the pass on that finds none delete.retention.ms more, as a tombstone does.
4. New segments are written as `.cleaned`, and become `.swap` when they are whole and on the disk: from there on they
   count. A crash before loses the work of the pass, a crash after is completed at the next open.
5. A log with a batch that can't be unpacked (codec's library missing, over the bound, damaged) is left as it is; one
   warning tells.
6. A pass goes in pieces, and appends may come between two of them. Where segments go away meanwhile it is stopped, nothing of
   it stays, and the next one begins anew (LogCleaner.abortCleaning).
Source: LogCleaner, Cleaner, MemoryRecords.filterTo, KIP-534.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker_sim.common.slices import Pace
from broker_sim.storage.errors import FAILURES
from broker_sim.storage.memory import MemorySegment
from broker_sim.storage.recovery import open_segment
from broker_sim.storage.segment import MAX_RELATIVE_OFFSET, READ_BYTES, DiskSegment, Mark, Segment
from broker_sim.storage.transactions import AbortedTransaction
from kafka_wire.end_markers import end_marker
from kafka_wire.record_batch import (
    LENGTH_END,
    BatchHeader,
    RecordBatchError,
)
from kafka_wire.record_keys import keys, with_records, without_records

if TYPE_CHECKING:
    from broker_sim.storage.log import PartitionLog

logger = logging.getLogger(__name__)


@dataclass
class _CleaningPass:
    """State of one pass: the last offset of every key, aborted data, the offset up to which both are complete."""

    now_ms: int
    end_offset: int
    last_offsets: dict[bytes, int] = field(default_factory=dict)
    aborted: dict[int, list[AbortedTransaction]] = field(default_factory=dict)
    """By producer, ascending."""
    written: set[int] = field(default_factory=set)
    """Ids of the producers with records before the pass's present position and no marker since."""
    markers: list[AbortedTransaction] = field(default_factory=list)
    """Transactions with remaining records whose markers are in the segments that were cleaned last."""

    def is_aborted(self, header: BatchHeader) -> bool:
        return header.is_transactional and self.ended_by(header) is not None

    def ended_by(self, header: BatchHeader) -> AbortedTransaction | None:
        """The aborted transaction that a batch of a producer, data or marker, is of."""
        own = self.aborted.get(header.producer_id, ())
        at = bisect_left(own, header.base_offset, key=_marker)
        return own[at] if at < len(own) and own[at].first_offset <= header.base_offset else None


def _marker(transaction: AbortedTransaction) -> int:
    return transaction.last_offset


class Pass:
    """One pass over a log."""

    def __init__(self, log: PartitionLog, now_ms: int, high_watermark: int | None, force: bool, pace: Pace) -> None:
        """Prepare a pass, which begins with `job`. `pace` counts batches; other work is done in pieces of its own."""
        self._log, self._pace = log, pace
        self._unfinished: Segment | None = None
        self.job = self._run(now_ms, log.log_end_offset if high_watermark is None else high_watermark, force)
        """Yields after each piece; whether anything was rewritten. Raises KafkaStorageError."""

    def stop(self) -> None:
        """Nothing of it stays, unless it has ended."""
        self.job.close()
        self._discard()

    def _discard(self) -> None:
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None:
            unfinished.discard()

    def _run(self, now_ms: int, high_watermark: int, force: bool) -> Generator[None, None, bool]:
        log = self._log
        segments = _cleanable(log, now_ms, high_watermark)
        dirty_from = max(log.clean_end_offset, log.log_start_offset)
        if not segments or not (_due(log, segments, dirty_from, now_ms) or force):
            return False
        plan = _CleaningPass(now_ms, segments[-1].next_offset)
        try:
            yield from _reading(log, segments, dirty_from, plan, self._pace)
            for group in _groups(log, segments):
                yield from self._cleaning(group, plan)
            log.uncleanable = False
            log.set_clean_end_offset(plan.end_offset)
        except RecordBatchError as error:
            if not log.uncleanable:
                logger.warning("%s is not compacted: %s", log.directory, error)
            log.uncleanable = True
            return False
        except FAILURES as error:
            raise log.failure(error) from error
        return True

    def _cleaning(self, group: Sequence[Segment], plan: _CleaningPass) -> Generator[None, None, None]:
        """Put what stays of these segments in their place. Raises RecordBatchError, OSError."""
        log = self._log
        self._unfinished = cleaned = _new_segment(log, group[0])
        try:
            parts: list[bytes] = []
            marks: list[Mark] = []
            waiting = 0
            for segment in group:
                for header, data, pos in segment.batches():
                    if self._pace.full(_cost(header)):
                        yield
                    batch = yield from _filtered(log, data, pos, header, plan)
                    if batch is None:
                        continue
                    timestamp = int.from_bytes(batch[35:43], "big", signed=True)
                    parts.append(batch)
                    marks.append((len(batch), header.last_offset, timestamp))
                    waiting += len(batch)
                    if waiting >= READ_BYTES:
                        cleaned.append(b"".join(parts), marks)
                        parts, marks, waiting = [], [], 0
            if parts:
                cleaned.append(b"".join(parts), marks)
            cleaned.became_inactive()
            aborted, plan.markers = plan.markers, []
            if aborted:
                cleaned.save_aborted(aborted, sync=True)
            cleaned.flush(True)
        except Exception:
            self._discard()
            raise
        self._unfinished = None  # from here on it counts
        _replace(log, group, cleaned, aborted)


def _cost(header: BatchHeader) -> int:
    """The cost of reading a batch, in records: for its bytes, and for the batch itself."""
    return header.record_count + header.length // 256 + 8


def _cleanable(log: PartitionLog, now_ms: int, high_watermark: int) -> list[Segment]:
    limit = log.ended.first_unstable(log.producers.open.values(), high_watermark)
    limit = min(limit, high_watermark)
    result: list[Segment] = []
    for segment in log.segments[:-1]:
        young = (
            log.config.min_compaction_lag_ms > 0 and segment.max_timestamp > now_ms - log.config.min_compaction_lag_ms
        )
        if young or segment.next_offset > limit:
            break
        result.append(segment)
    return result


def _due(log: PartitionLog, segments: Sequence[Segment], dirty_from: int, now_ms: int) -> bool:
    dirty = [segment for segment in segments if segment.base_offset >= dirty_from]
    dirty_bytes = sum(segment.size for segment in dirty)
    if not dirty_bytes:
        return False
    waited = now_ms - min((segment.first_timestamp or segment.max_timestamp for segment in dirty), default=now_ms)
    if waited > log.config.max_compaction_lag_ms:
        return True
    return dirty_bytes / sum(segment.size for segment in segments) > log.config.min_cleanable_dirty_ratio


# ------------------------------------------------------------------------------------------------ what to keep


def _reading(
    log: PartitionLog, segments: Sequence[Segment], dirty_from: int, plan: _CleaningPass, pace: Pace
) -> Generator[None, None, None]:
    """Read the aborted transactions, wherever their markers are, and the last offset of every key of the dirty part, into ``plan``."""
    for entry in log.ended.overlapping(segments[0].base_offset, plan.end_offset):
        plan.aborted.setdefault(entry.producer_id, []).append(entry)
    last_offsets = plan.last_offsets
    for segment in segments:
        for header, data, pos in segment.batches(dirty_from):
            if pace.full(_cost(header)):
                yield
            if header.is_control or plan.is_aborted(header):
                continue
            for row in keys(data, pos, header, max_bytes=log.config.compression_max_bytes):
                if row is None:
                    yield
                elif row[1] is not None and row[0] >= dirty_from:
                    last_offsets[row[1]] = row[0]


def _kept(
    data: bytes, pos: int, header: BatchHeader, plan: _CleaningPass, max_bytes: int
) -> Generator[None, None, dict[int, bool]]:
    """The records of a batch that stay, by their offsets: whether they have a value."""
    horizon = header.delete_horizon_ms
    tombstones_stay = horizon is None or plan.now_ms < horizon
    last_offsets = plan.last_offsets
    result: dict[int, bool] = {}
    for row in keys(data, pos, header, max_bytes=max_bytes):
        if row is None:
            yield
        elif row[1] is not None and row[0] >= last_offsets.get(row[1], -1) and (row[2] or tombstones_stay):
            result[row[0]] = row[2]
    return result


def _filtered(
    log: PartitionLog, data: bytes, pos: int, header: BatchHeader, plan: _CleaningPass
) -> Generator[None, None, bytes | None]:
    """The batch as it stays, or None. One of which nothing changes comes back byte by byte."""
    whole = data[pos : pos + header.length + LENGTH_END]
    if header.is_control:
        return (yield from _filtered_marker(log, whole, header, plan))
    if header.is_transactional:
        plan.written.add(header.producer_id)
    limit = log.config.compression_max_bytes
    staying: dict[int, bool] = {}
    if not plan.is_aborted(header):
        staying = yield from _kept(data, pos, header, plan, limit)
    if not staying:
        return without_records(header) if _is_last_of_producer(log, header) else None
    horizon = header.delete_horizon_ms
    fresh_tombstones = horizon is None and not all(staying.values())
    if len(staying) == header.record_count and not fresh_tombstones:
        return whole
    if fresh_tombstones:
        horizon = plan.now_ms + log.config.delete_retention_ms
    return (yield from with_records(whole, 0, header, staying, horizon, max_bytes=limit))


def _filtered_marker(
    log: PartitionLog, whole: bytes, header: BatchHeader, plan: _CleaningPass
) -> Generator[None, None, bytes | None]:
    """A marker stays as long as a record of its transaction does, and delete.retention.ms longer."""
    marker = end_marker(whole, 0, header)
    if header.producer_id in plan.written:
        plan.written.discard(header.producer_id)
        ended = plan.ended_by(header)
        if ended is not None:
            plan.markers.append(ended)
        return whole
    horizon = header.delete_horizon_ms
    if marker is not None and horizon is None:  # the first pass that finds nothing before it
        everything = range(header.base_offset, header.next_offset)
        return (yield from with_records(whole, 0, header, everything, plan.now_ms + log.config.delete_retention_ms))
    if marker is not None and horizon is not None and plan.now_ms < horizon:
        return whole
    return without_records(header) if _is_last_of_producer(log, header) else None


def _is_last_of_producer(log: PartitionLog, header: BatchHeader) -> bool:
    entry = log.producers.entries.get(header.producer_id)
    if entry is None:
        return False
    if entry.last_offset < 0:  # nothing but a marker is known of it, which has fenced earlier epochs
        return header.is_control and header.producer_epoch == entry.epoch
    return entry.last_offset == header.last_offset


# ------------------------------------------------------------------------------------------------ rewriting


def _groups(log: PartitionLog, segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Neighbours that fit into one segment (by what they are now) are cleaned into one."""
    group: list[Segment] = []
    size = 0
    for segment in segments:
        fits = size + segment.size <= log.config.segment_bytes
        if group and not (fits and segment.next_offset - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield group


def _new_segment(log: PartitionLog, first: Segment) -> Segment:
    """An empty segment that may replace `first` and its neighbours. Raises OSError."""
    if log.directory is None:
        return MemorySegment(first.base_offset, first.created_ms)
    segment = open_segment(log.directory, first.base_offset, log.config, log.files, first.created_ms, ".cleaned")
    try:
        segment.create()
    except OSError:
        segment.discard()
        raise
    return segment


def _replace(log: PartitionLog, old: Sequence[Segment], fresh: Segment, aborted: Sequence[AbortedTransaction]) -> None:
    """Put a cleaned segment, whole and on the disk, in the place of `old`. Raises OSError (see recovery.sweep)."""
    if isinstance(fresh, DiskSegment):
        try:
            fresh.rename(".swap")
        except OSError:
            fresh.close()  # what it has of files is swept at the next open
            raise
    log.put_cleaned(old, fresh, aborted)
    for segment in old:
        segment.delete()
    if isinstance(fresh, DiskSegment):
        log.sync_names()  # while the swap file exists, an open removes the segments that it replaces
        fresh.rename("")

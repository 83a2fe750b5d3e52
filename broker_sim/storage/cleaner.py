"""Compaction: of every key the last record stays, offsets never change, the active segment is never touched.

Rules:
1. What may be cleaned ends at the active segment, at the high watermark, before an open transaction and before the
   first segment younger than min.compaction.lag.ms. A pass runs when enough of that is dirty (not seen by an earlier
   pass): min.cleanable.dirty.ratio, or older than max.compaction.lag.ms.
2. A tombstone stays for delete.retention.ms after the first pass that met it: that pass writes the time at which it
   may go into the batch (the delete horizon, KIP-534).
3. A batch keeps its first and last offset, producer, sequence, epoch, codec and timestamp type. One without records is
   dropped, unless it is the last of a producer that is still known: then its header stays, so that a resend is
   recognised. Records without a key go, as in Kafka. Records of aborted transactions go; markers stay.
4. New segments are written as `.cleaned`, and become `.swap` when they are whole and on the disk: from there on they
   count. A crash before loses the work of the pass, a crash after is completed at the next open.
5. A log with a batch that can't be unpacked (codec's library missing, over the bound, damaged) is left as it is; one
   warning tells.
Source: LogCleaner, Cleaner, MemoryRecords.filterTo, KIP-534.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker_sim.storage.segment import MAX_RELATIVE_OFFSET, READ_BYTES, Mark, Segment
from kafka_wire.record_batch import (
    CODEC_MASK,
    LENGTH_END,
    BatchHeader,
    ControlType,
    RecordBatchError,
    control_type,
    encode_batch,
    records,
)
from kafka_wire.record_keys import KeyAt, keys

if TYPE_CHECKING:
    from broker_sim.storage.log import PartitionLog

logger = logging.getLogger(__name__)


@dataclass
class _Plan:
    """What one pass knows: the last offset of every key, aborted data, where that knowledge ends."""

    now_ms: int
    end_offset: int
    last_offsets: dict[bytes, int] = field(default_factory=dict)
    aborted: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """(first, last) offsets of aborted transactions by producer id."""

    def is_aborted(self, header: BatchHeader) -> bool:
        return header.is_transactional and any(
            first <= header.base_offset <= last for first, last in self.aborted.get(header.producer_id, ())
        )


def compact(log: PartitionLog, now_ms: int, high_watermark: int | None, force: bool) -> bool:
    """One pass over `log`, if it is due or forced; whether it rewrote anything. Raises OSError."""
    segments = _cleanable(log, now_ms, log.log_end_offset if high_watermark is None else high_watermark)
    dirty_from = max(log.clean_end_offset, log.log_start_offset)
    if not segments or not (_due(log, segments, dirty_from, now_ms) or force):
        return False
    plan = _Plan(now_ms, segments[-1].next_offset)
    try:
        _read(log, segments, dirty_from, plan)
        for group in _groups(log, segments):
            _clean_group(log, group, plan)
    except RecordBatchError as error:
        if not log.uncleanable:
            logger.warning("%s is not compacted: %s", log.directory, error)
        log.uncleanable = True
        return False
    log.uncleanable = False
    log.set_clean_end_offset(plan.end_offset)
    return True


def _cleanable(log: PartitionLog, now_ms: int, high_watermark: int) -> list[Segment]:
    unstable = log.producers.first_unstable_offset
    limit = high_watermark if unstable is None else min(high_watermark, unstable)
    found: list[Segment] = []
    for segment in log.segments[:-1]:
        young = (
            log.config.min_compaction_lag_ms > 0 and segment.max_timestamp > now_ms - log.config.min_compaction_lag_ms
        )
        if young or segment.next_offset > limit:
            break
        found.append(segment)
    return found


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


def _read(log: PartitionLog, segments: Sequence[Segment], dirty_from: int, plan: _Plan) -> None:
    """First pass: which transactions were aborted. Second: the last offset of every key of the dirty part."""
    open_since: dict[int, int] = {}
    for segment in segments:
        for header, data, pos in segment.batches():
            if header.is_control:
                _read_marker(data, pos, header, open_since, plan)
            elif header.is_transactional:
                open_since.setdefault(header.producer_id, header.base_offset)
    last_offsets = plan.last_offsets
    for segment in segments:
        for header, data, pos in segment.batches(dirty_from):
            if header.is_control or plan.is_aborted(header):
                continue
            for offset, key, _ in keys(data, pos, header, max_bytes=log.config.compression_max_bytes):
                if key is not None and offset >= dirty_from:
                    last_offsets[key] = offset


def _read_marker(data: bytes, pos: int, header: BatchHeader, open_since: dict[int, int], plan: _Plan) -> None:
    for record in records(data, pos, header):
        first = open_since.pop(header.producer_id, None)
        if first is not None and control_type(record.key) == ControlType.ABORT:
            plan.aborted.setdefault(header.producer_id, []).append((first, record.offset))


def _kept(data: bytes, pos: int, header: BatchHeader, plan: _Plan, max_bytes: int) -> list[KeyAt]:
    """The records of a batch that stay."""
    horizon = header.delete_horizon_ms
    tombstones_stay = horizon is None or plan.now_ms < horizon
    last_offsets = plan.last_offsets
    return [
        row
        for row in keys(data, pos, header, max_bytes=max_bytes)
        if row[1] is not None and row[0] >= last_offsets.get(row[1], -1) and (row[2] or tombstones_stay)
    ]


def _filtered(log: PartitionLog, data: bytes, pos: int, header: BatchHeader, plan: _Plan) -> bytes | None:
    """The batch as it stays, or None. One of which nothing changes comes back byte by byte."""
    whole = data[pos : pos + header.length + LENGTH_END]
    if header.is_control:
        return whole
    limit = log.config.compression_max_bytes
    staying = [] if plan.is_aborted(header) else _kept(data, pos, header, plan, limit)
    if not staying and not _is_last_of_producer(log, header):
        return None
    horizon = header.delete_horizon_ms
    fresh_tombstones = horizon is None and not all(has_value for _, _, has_value in staying)
    if len(staying) == header.record_count and not fresh_tombstones:
        return whole
    if fresh_tombstones:
        horizon = plan.now_ms + log.config.delete_retention_ms
    offsets = {offset for offset, _, _ in staying}
    kept = [row for row in records(whole, 0, header, max_bytes=limit) if row.offset in offsets] if staying else []
    stays = header.is_log_append_time or not kept
    return encode_batch(
        kept,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        codec=header.codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        attributes=header.attributes & ~CODEC_MASK,
        max_timestamp=header.max_timestamp if stays else None,
        delete_horizon_ms=horizon if kept else None,
    )


def _is_last_of_producer(log: PartitionLog, header: BatchHeader) -> bool:
    entry = log.producers.entries.get(header.producer_id)
    return entry is not None and entry.last_offset == header.last_offset


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


def _clean_group(log: PartitionLog, group: Sequence[Segment], plan: _Plan) -> None:
    cleaned = log.new_cleaned_segment(group[0])
    try:
        parts: list[bytes] = []
        marks: list[Mark] = []
        waiting = 0
        for segment in group:
            for header, data, pos in segment.batches():
                batch = _filtered(log, data, pos, header, plan)
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
        cleaned.flush(True)
    except BaseException:
        cleaned.discard()
        raise
    log.replace_segments(group, cleaned)

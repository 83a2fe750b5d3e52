"""Transactions as the tests of logs want them: their batches and markers, and a reader that is told what was aborted, as Java's is."""

from __future__ import annotations

from broker_sim.storage import PartitionLog
from kafka_wire.end_markers import end_marker
from kafka_wire.record_batch import ControlType, Record, batches, build_batch, control_batch, records
from tests.storage.batches import NOW_MS, add


def write(
    log: PartitionLog, producer_id: int, *values: str, epoch: int = 0, sequence: int = 0, own: bool = False
) -> int:
    """A transactional batch; where it begins. ``own``: one of the broker's own, without sequence numbers."""
    data = build_batch(
        [(value.encode(), value.encode()) for value in values],
        NOW_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=-1 if own else sequence,
        attributes=0x10,
    )
    return add(log, data, trusted=own).base_offset


def end(log: PartitionLog, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    """A marker; its offset."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    data = control_batch(
        kind, NOW_MS, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=coordinator_epoch
    )
    return add(log, data, trusted=True).base_offset


def stable_offset(log: PartitionLog) -> int:
    """Return the last stable offset of a log all of which is committed."""
    return log.ended.first_unstable(log.producers.open.values(), log.log_end_offset)


def read_committed(log: PartitionLog, *, max_bytes: int = 1 << 20, end_offset: int | None = None) -> list[Record]:
    """Return the records that a read_committed consumer gets from fetches of this size, by the rules of Java's (CompletedFetch)."""
    at, stop, found = log.log_start_offset, stable_offset(log) if end_offset is None else end_offset, []
    while data := log.read(at, max_bytes, up_to_offset=stop):
        aborted = sorted(log.aborted_within(at, len(data)), key=lambda one: one.first_offset)
        passed_over: set[int] = set()
        for pos, header in batches(data):
            while aborted and aborted[0].first_offset <= header.last_offset:
                passed_over.add(aborted.pop(0).producer_id)
            if header.is_control:
                marker = end_marker(data, pos, header)
                if marker is not None and not marker.committed:
                    passed_over.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in passed_over):
                found += [one for one in records(data, pos, header) if one.offset >= at]
            following = header.next_offset
        at = following
    return found


def known(log: PartitionLog) -> tuple[object, ...]:
    """Return the log's state of producers and transactions, without the older batches by which resends are recognised."""
    producers = {
        entry.producer_id: (
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.coordinator_epoch,
            entry.transaction_start,
            entry.last_timestamp,
        )
        for entry in log.producers.entries.values()
    }
    return producers, list(log.producers.open.items()), log.ended.aborted, stable_offset(log)

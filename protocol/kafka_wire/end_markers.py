"""What a control batch says of a transaction: how it ended, and whose coordinator said so. The bytes: control_records."""

from __future__ import annotations

from typing import NamedTuple

from kafka_wire.control_records import ControlType, control_type, coordinator_epoch
from kafka_wire.record_batch import BatchHeader, RecordBatchError, records

__all__ = ["EndMarker", "end_marker", "marker_of"]


class EndMarker(NamedTuple):
    """The end of a transaction, as a partition's log has it."""

    committed: bool
    coordinator_epoch: int


def end_marker(data: bytes, pos: int, header: BatchHeader) -> EndMarker | None:
    """The marker in the control batch at `pos`; None for one that compaction has emptied, of another type, or unreadable."""
    try:
        for record in records(data, pos, header):
            return marker_of(record.key, record.value)
    except RecordBatchError:
        return None
    return None


def marker_of(key: bytes | None, value: bytes | None) -> EndMarker | None:
    """What a control record says; None for one of another type. Raises InvalidRecord."""
    kind = control_type(key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    return EndMarker(kind == ControlType.COMMIT, coordinator_epoch(value))

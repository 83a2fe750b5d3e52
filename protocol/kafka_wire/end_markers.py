"""What a control batch says of a transaction: how it ended, and whose coordinator said so. The bytes: control_records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kafka_wire.control_records import ControlType, control_type, coordinator_epoch
from kafka_wire.record_batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, RecordBatchError, records

__all__ = ["BatchProducer", "EndMarker", "end_marker", "marker_of"]


class EndMarker(NamedTuple):
    """The end of a transaction, as a partition's log has it."""

    committed: bool
    coordinator_epoch: int


@dataclass(slots=True, unsafe_hash=True)
class BatchProducer:
    """In whose transaction a batch of the broker's own is, never changed; ``marker``: its one control record, if it ends the
    transaction."""

    producer_id: int
    epoch: int
    marker: EndMarker | None = None

    @property
    def attributes(self) -> int:
        """Those of such a batch."""
        return TRANSACTIONAL_BIT if self.marker is None else TRANSACTIONAL_BIT | CONTROL_BIT


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

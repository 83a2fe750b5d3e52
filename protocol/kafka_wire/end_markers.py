"""End markers of transactions in control batches: COMMIT or ABORT, and the coordinator's epoch. The bytes: control_records."""

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
    """Producer whose transaction a batch of the broker's own is part of, never changed; ``marker``: the batch's one control record,
    if it ends the transaction."""

    producer_id: int
    epoch: int
    marker: EndMarker | None = None

    @property
    def attributes(self) -> int:
        """Attributes of such a batch: transactional, and control if it has a marker."""
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
    """Return the end marker in a control record; None for a record of another type. Raises InvalidRecord."""
    kind = control_type(key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    return EndMarker(kind == ControlType.COMMIT, coordinator_epoch(value))

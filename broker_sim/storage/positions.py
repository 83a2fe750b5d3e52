"""Bytes between two offsets of a log, by the positions of their batches: the data is not read.

Source: LogOffsetMetadata.positionDiff and onOlderSegment (storage).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from broker_sim.storage.errors import FAILURES

if TYPE_CHECKING:
    from broker_sim.storage.log import PartitionLog


def bytes_between(log: PartitionLog, offset: int, end: int) -> int | None:
    """Bytes from the batch that contains ``offset``, or the next one, to the batch that contains ``end``; None if they are in different
    segments. Raises CorruptLog, KafkaStorageError."""
    first = max(bisect_right(log.segments, offset, key=lambda segment: segment.base_offset) - 1, 0)
    try:
        for segment in log.segments[first:]:
            if offset < segment.next_offset:
                return segment.seek(end) - segment.seek(offset) if end <= segment.next_offset else None
    except FAILURES as error:
        raise log.failure(error) from error
    return 0


def is_in_active_segment(log: PartitionLog, offset: int) -> bool:
    """Whether ``offset``, which is below the log's end, is in the active segment. It is never compacted, so that there are records from
    there on; of earlier segments only `bytes_between` knows."""
    return offset >= log.segments[-1].base_offset

"""The number of a log's segments that retention deletes, by age and by size. Uncommitted records and an empty last segment stay.

Source: UnifiedLog.deleteOldSegments.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_sim.storage.log_config import LogConfig
from broker_sim.storage.segment import Segment


def due(segments: Sequence[Segment], config: LogConfig, committed: int, now_ms: int) -> int:
    """Number of segments, from the oldest on, that may be deleted if the log's cleanup policy is to delete."""
    by_age = expired(segments, config.retention_ms, committed, now_ms)
    return max(by_age, surplus(segments, config.retention_bytes, committed))


def expired(segments: Sequence[Segment], retention_ms: int, committed: int, now_ms: int) -> int:
    """Number of segments, from the oldest on, that are past retention.ms (negative: none)."""
    if retention_ms < 0:
        return 0
    for count, segment in enumerate(segments):
        latest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms
        if _stays(segments, segment, committed) or now_ms - latest <= retention_ms:
            return count
    return len(segments)


def surplus(segments: Sequence[Segment], retention_bytes: int, committed: int) -> int:
    """Number of segments, from the oldest on, that can be deleted with at least retention.bytes left (negative: none)."""
    over = sum(segment.size for segment in segments) - retention_bytes
    if retention_bytes < 0 or over < 0:
        return 0
    for count, segment in enumerate(segments):
        over -= segment.size
        if _stays(segments, segment, committed) or over < 0:
            return count
    return len(segments)


def _stays(segments: Sequence[Segment], segment: Segment, committed: int) -> bool:
    return (segment is segments[-1] and not segment.size) or segment.next_offset > committed

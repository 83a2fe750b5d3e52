"""Offset and time of each record of a batch, in pieces.

Source: RecordBatch's search by timestamp (clients).
"""

from __future__ import annotations

from collections.abc import Generator

from kafka_wire.compression import MAX_DECOMPRESSED_BYTES
from kafka_wire.record_batch import BatchHeader
from kafka_wire.record_walk import opened, walked


def times(
    data: bytes, pos: int, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Generator[tuple[int, int] | None, None, None]:
    """Offset and time (ms) of each record of the batch at `pos`; None where others may be served. Raises as `records`."""
    append_time = header.max_timestamp if header.is_log_append_time else None
    plain, at, end = yield from opened(data, pos, header, max_bytes)
    for record in walked(plain, at, end, header.record_count):
        if record is None:
            yield None
            continue
        time = header.base_timestamp + record.timestamp_delta if append_time is None else append_time
        yield header.base_offset + record.offset_delta, time

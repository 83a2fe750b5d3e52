"""Offset and time of each record of a batch, in pieces, without making an object of what it holds.

Source: DefaultRecord.readFrom (clients); RecordBatch's search by timestamp reads no more of a record either.
"""

from __future__ import annotations

from collections.abc import Generator

from kafka_wire.compression import MAX_DECOMPRESSED_BYTES
from kafka_wire.record_batch import CODEC_MASK, HEADER_BYTES, LENGTH_END, BatchHeader
from kafka_wire.record_checks import HEADERS_AT_ONCE, walking
from kafka_wire.record_errors import InvalidRecord, UnreadableRecords
from kafka_wire.record_unpacking import unpacked


def times(
    data: bytes, pos: int, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Generator[tuple[int, int] | None, None, None]:
    """Offset and time (ms) of each record of the batch at `pos`, without making an object of what it holds; None where others may be
    served: after each piece of what is unpacked and of HEADERS_AT_ONCE records and headers. Raises as `records`.
    """
    end = pos + header.length + LENGTH_END
    at = pos + HEADER_BYTES
    plain: bytes | bytearray = data
    if header.attributes & CODEC_MASK:
        plain = yield from unpacked(header.codec, data[at:end], max_bytes)
        at, end = 0, len(plain)
    append_time = header.max_timestamp if header.is_log_append_time else None
    done = 0
    for _ in range(header.record_count):
        try:
            record = yield from walking(plain, at, end, True)
        except UnreadableRecords as error:
            raise InvalidRecord(str(error)) from None
        at = record.end
        done += 1 + record.headers
        if done >= HEADERS_AT_ONCE:
            done = 0
            yield None
        time = header.base_timestamp + record.timestamp_delta if append_time is None else append_time
        yield header.base_offset + record.offset_delta, time
    if at != end:
        raise InvalidRecord("Incorrect declared batch size, records still remaining in file")

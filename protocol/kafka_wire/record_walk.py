"""The records of a batch one after the other, in pieces, without making an object of what they hold.

Source: DefaultRecord.readFrom (clients).
"""

from __future__ import annotations

from collections.abc import Generator

from kafka_wire.record_batch import CODEC_MASK, HEADER_BYTES, LENGTH_END, BatchHeader
from kafka_wire.record_checks import HEADERS_AT_ONCE, Bare, Bytes, walking
from kafka_wire.record_errors import InvalidRecord, UnreadableRecords
from kafka_wire.record_unpacking import unpacked

__all__ = ["Bare", "Bytes", "opened", "walked"]


def opened(data: bytes, pos: int, header: BatchHeader, max_bytes: int) -> Generator[None, None, tuple[Bytes, int, int]]:
    """The bytes in which the records of the batch at `pos` stand plain, and where they begin and end; yields after each piece of what
    is unpacked. Raises as `records`."""
    at, end = pos + HEADER_BYTES, pos + header.length + LENGTH_END
    if not header.attributes & CODEC_MASK:
        return data, at, end
    plain = yield from unpacked(header.codec, data[at:end], max_bytes)
    return plain, 0, len(plain)


def walked(plain: Bytes, at: int, end: int, count: int) -> Generator[Bare | None, None, None]:
    """The `count` records of plain[at:end]; None where others may be served: after HEADERS_AT_ONCE headers, of which a record takes the
    time of four. Raises as `records`."""
    done = 0
    for _ in range(count):
        try:
            record = yield from walking(plain, at, end, True)
        except UnreadableRecords as error:
            raise InvalidRecord(str(error)) from None
        at = record.end
        yield record
        done += 4 + record.headers
        if done >= HEADERS_AT_ONCE:
            done = 0
            yield None
    if at != end:
        raise InvalidRecord("Incorrect declared batch size, records still remaining in file")

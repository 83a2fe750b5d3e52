"""The last value of each key: what the load of a log asks of a batch, without making an object of a record that a later one supersedes.

A coordinator's log is mostly commits of the same few partitions, and only the last one of each counts: Kafka's compaction drops the
others, and a log that has not been compacted yet is full of them. `last_values` goes over them at some 0.7 us each; to decode one and
apply it takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Container, Generator

from kafka_wire.record_batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_END,
    TRANSACTIONAL_BIT,
    BatchHeader,
    InvalidRecord,
    UnreadableRecords,
    signed_varint,
)
from kafka_wire.record_checks import varint_at, walking

__all__ = ["KeyValue", "is_plain", "last_values"]

KeyValue = tuple[int, bytes | None, bytes | None]
"""Offset, key and value of a record; a tombstone has no value."""
_AT_ONCE = 10
"""Superseded records that take the time of one which is read."""


_NOT_PLAIN = CODEC_MASK | CONTROL_BIT | TRANSACTIONAL_BIT


def is_plain(header: BatchHeader) -> bool:
    """Whether `last_values` may go over a batch: it is not compressed, and of no transaction."""
    return not header.attributes & _NOT_PLAIN


def last_values(
    data: bytes, pos: int, header: BatchHeader, latest: dict[bytes, bytes | None], versions: Container[int]
) -> Generator[KeyValue | None, None, None]:
    """Iterate over the records of the uncompressed batch at ``pos``: a value whose key is in ``latest`` replaces the entry there.
    All other records are yielded, and also tombstones and values that don't begin with one of ``versions`` (int16), have
    headers, or are 8 KiB or longer. None is yielded after a number of replaced ones, so that the caller can pause. The caller
    may change ``latest`` between records.

    Of a record that is superseded later only the sizes and the version are validated: most commits of an offsets log are, and
    decoding them would take most of a coordinator's load. Raises InvalidRecord.
    """
    at, stop = pos + HEADER_BYTES, pos + header.length + LENGTH_END
    superseded = 0
    try:
        for _ in range(header.record_count):
            begin = at
            byte = data[at]
            if byte < 128:
                end = at + 1 + (byte >> 1)
                at += 2
            else:
                size, at = signed_varint(data, at, 5)
                end = at + size
                at += 1
            while data[at] > 127:  # the timestamp's delta
                at += 1
            at += 1
            while data[at] > 127:  # the offset's
                at += 1
            size, at = data[at + 1], at + 2
            if size > 127:
                size, at = size & 0x7F | data[at] << 7, at + 1
            value_at = at + (size >> 1)
            key = data[at:value_at]
            if key in latest and end <= stop:
                size, value_at = data[value_at], value_at + 1
                if size > 127:
                    size, value_at = size & 0x7F | data[value_at] << 7, value_at + 1
                # an odd size is a tombstone's, or no size at all; what stands behind the value is the number of headers
                if (
                    size & 1 == 0
                    and size > 3
                    and value_at + (size >> 1) + 1 == end
                    and not data[end - 1] | data[value_at]
                    and data[value_at + 1] in versions
                ):
                    latest[key] = data[value_at : end - 1]
                    at = end
                    superseded += 1
                    if superseded == _AT_ONCE:
                        superseded = 0
                        yield None
                    continue
            at, record = yield from _read(data, begin, stop, header.base_offset)
            yield record
    except IndexError:
        raise InvalidRecord("a record reaches beyond the end of its batch") from None
    if at != stop:
        raise InvalidRecord("Incorrect declared batch size, records still remaining in file")


def _read(data: bytes, at: int, stop: int, base_offset: int) -> Generator[None, None, tuple[int, KeyValue]]:
    """Where the record at ``at`` ends, and what it holds; yields after a piece of its headers."""
    try:
        record = yield from walking(data, at, stop, True)
    except UnreadableRecords as error:
        raise InvalidRecord(str(error)) from None
    key = value = None
    _, at = varint_at(data, record.key_at, 5)
    if record.key_size >= 0:
        key = data[at : at + record.key_size]
        at += record.key_size
    if record.value_size >= 0:
        _, at = varint_at(data, at, 5)
        value = data[at : at + record.value_size]
    return record.end, (base_offset + record.offset_delta, key, value)

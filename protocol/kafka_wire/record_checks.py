"""Validation of the records in a batch that a client sends, without making an object of any.

Rules:
1. `record_at` is the truth about one record: what Kafka reads of it, in its order, and what it refuses. `scan` says the
   same of many: neighbours of one layout by their columns (all that is not key, value or a header's content), others
   field by field, rare shapes by `record_at`. The columns of a whole batch are kept: a producer that sends the same
   layout again pays a comparison for each.
2. A record is *sized* where its declared length counts: in uncompressed batches, and up to Kafka 3.6 in compressed ones.
   From 3.7 on Kafka reads compressed records field by field and does not look at their lengths; from 4.4 on, which bounds
   them (max.decompressed.message.bytes), it refuses negative ones, and those above that setting's default: they are *signed*.
3. Nothing here runs longer than for the records it was given and HEADERS_AT_ONCE headers of theirs: who has many records gives them in
   steps, `scan` stops where their headers are too many, and `walking` goes through a record of any number of them in pieces.
Source: DefaultRecord.readFrom and readPartiallyFrom, DefaultRecordBatch, ByteUtils (clients).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from kafka_wire.record_errors import InvalidRecord, UnreadableRecords

_RUN = 8
"""Neighbours of one length that are worth a look at their columns."""
_COLUMN_OFFSETS = 8192
"""Offset deltas below this have one or two bytes, and a place in the tables of what their columns should be."""
_ONE_BYTE = bytes(2 * n for n in range(64))
_LOW = bytes(range(0x80, 0x100, 2)) * (_COLUMN_OFFSETS // 64)
_HIGH = b"".join(bytes((n,)) * 64 for n in range(_COLUMN_OFFSETS // 64))
_MOST_BYTES = 2147483639
"""The default of max.decompressed.message.bytes: the longest array of a JVM."""
HEADERS_AT_ONCE = 2048
"""Headers that are gone through before others are served: a millisecond or two. Each takes two bytes, and packed less than a bit."""
_LAYOUTS = 256
"""Batches whose columns are kept."""
_BEYOND = "a record reaches beyond the end of its batch"

Bytes = bytes | bytearray
Column = tuple[slice, bytes | bytearray]
"""Positions of bytes of the same meaning in neighbours of one layout, and the bytes expected there."""


class Bare(NamedTuple):
    """One record, as far as a broker looks. Sizes are negative for null, times in ms."""

    end: int
    """Position of the next record."""
    offset_delta: int
    timestamp_delta: int
    key_size: int
    value_size: int
    headers: int
    key_at: int
    """Position of the key's size: the bytes from there to the end are the same wherever the record is copied."""


class ManyHeaders(Exception):
    """A record has more than HEADERS_AT_ONCE headers: `walking` goes through them."""


class Scanned(NamedTuple):
    """Summary of some neighbouring records of a batch; times in ms, relative to the batch's base."""

    end: int
    """Position of the next record."""
    earliest: int
    latest: int
    keyless: bool
    """Whether one has no key."""
    in_order: bool
    """Whether each one's offset delta is its number in the batch."""
    stopped: int
    """The number of the next record: not `last` where there were headers for more than a piece."""


_layouts: dict[tuple[int, int, int, bytes], tuple[list[Column], Scanned]] = {}
"""By begin and end of the records, their number and the first bytes: what `scan` found in batches of neighbours alone."""


# One loop with the varints written out: a call per record would take longer than the rest of a Produce.
def scan(data: Bytes, at: int, end: int, first: int, last: int, sized: bool, signed: bool = False) -> Scanned:
    """The records numbered from `first` up to `last` (exclusive, at least one), the first of them at `at`.

    Raises what `record_at` raises, for the first record that is no record. What has more than HEADERS_AT_ONCE headers is left to
    `walking`, be it the first.
    """
    if first == 0 and last >= _RUN and (known := _remembered(data, at, end, last)) is not None:
        return known
    start, index, headers = at, first, 0
    earliest, latest, keyless, in_order = 1 << 63, -1 << 63, False, True
    columns: list[Column] = []
    while last - index >= _RUN:
        try:
            neighbours = _neighbours(data, at, end, index, last, columns)
        except IndexError:
            neighbours = None
        if neighbours is None:
            break
        count, at, low, high, bare = neighbours
        index += count
        earliest, latest, keyless = min(earliest, low), max(latest, high), keyless or bare
    if index == last and first == 0 and earliest == latest:
        whole = Scanned(at, earliest, latest, keyless, True, last)
        if len(_layouts) >= _LAYOUTS:
            _layouts.clear()
        _layouts[start, end, last, bytes(data[start : start + 8])] = columns, whole
        return whole
    for number in range(index, last):
        try:
            size, pos = data[at], at + 1
            if size > 127:
                size, pos = size & 0x7F | data[pos] << 7, pos + 1
            stop = pos + (size >> 1)
            time, delta, pos = data[pos + 1], data[pos + 2], pos + 3
            if time > 127:
                time, delta, pos = time & 0x7F | delta << 7, data[pos], pos + 1
            if delta > 127:
                delta, pos = delta & 0x7F | data[pos] << 7, pos + 1
                if delta > 0x3FFF:
                    delta, pos = delta & 0x3FFF | data[pos] << 14, pos + 1
            key, pos = data[pos], pos + 1
            bare = key == 1
            pos += key >> 1
            value, pos = data[pos], pos + 1
            if value > 127:
                value, pos = value & 0x7F | data[pos] << 7, pos + 1
            pos += 1 + (value >> 1)
            plain = pos == stop <= end and not data[pos - 1] and key < 128 and delta < 0x200000
            plain = plain and (size | time | value) < 0x4000 and not (size | time | delta | key ^ bare | value) & 1
        except IndexError:
            plain = False
        if plain:
            at, time, delta = stop, time >> 1, delta >> 1
            keyless = keyless or bare  # not before: of a record of another shape the byte is none of a key
        else:
            try:
                if headers >= HEADERS_AT_ONCE:
                    raise ManyHeaders
                at, delta, time, key, _, count, _ = record_at(data, at, end, sized, signed)
            except ManyHeaders:
                return Scanned(at, earliest, latest, keyless, in_order, number)
            headers += count
            keyless = keyless or key < 0
        if delta != number:
            in_order = False
        if time < earliest:
            earliest = time
        if time > latest:
            latest = time
    return Scanned(at, earliest, latest, keyless, in_order, last)


def _remembered(data: Bytes, at: int, end: int, last: int) -> Scanned | None:
    """Return the result kept for a batch of neighbours with the same columns; None without one."""
    known = _layouts.get((at, end, last, bytes(data[at : at + 8])))
    if known is None:
        return None
    for column, expected in known[0]:
        if data[column] != expected:
            return None
    return known[1]


def _neighbours(
    data: Bytes, at: int, end: int, index: int, last: int, columns: list[Column]
) -> tuple[int, int, int, int, bool] | None:
    """Return the number of records from `at` on with the layout of the first, their end, their earliest and latest time, and
    whether they have no keys, with their columns in `columns`; None where a look at each is needed.

    A batch of records of one size has runs of them: their offset deltas grow by a byte at 64 and at 8192. Columns are compared as
    slices with a step, since one comparison of bytes for a run is faster than a look at each record.
    """
    size, pos = data[at], at + 1
    if size > 127:
        size, pos = size & 0x7F | data[pos] << 7, pos + 1
    limit = 64 if index < 64 else _COLUMN_OFFSETS
    step = pos - at + (size >> 1)
    count = min(last, limit, index + (end - at) // step) - index
    if count < _RUN or size & 1 or size > 0x3FFF:
        return None
    stop = at + count * step
    times = data[pos + 1 : stop : step]
    same = [at, pos - 1, pos + 1]
    pos += 2
    numbers: list[Column] = [(slice(pos, stop, step), (_ONE_BYTE if limit == 64 else _LOW)[index : index + count])]
    if limit > 64:
        pos += 1
        numbers.append((slice(pos, stop, step), _HIGH[index : index + count]))
    key, pos = data[pos + 1], pos + 2
    same.append(pos - 1)
    if key != 1:
        pos += key >> 1
    value, pos = data[pos], pos + 1
    same.append(pos - 1)
    if value > 127:
        value, pos = value & 0x7F | data[pos] << 7, pos + 1
        same.append(pos - 1)
    pos += value >> 1
    same.append(pos)
    if pos + 1 != at + step or data[pos] or value & 1 or value > 0x3FFF or (key != 1 and key & 0x81):
        return None
    low = high = times[0]
    if times.count(low) != count:
        same.remove(at + (1 if data[at] < 128 else 2) + 1)
        low, high = min(times), max(times)
        if any(time & 1 for time in set(times)):
            return None
    if high > 127 or low & 1:
        return None
    numbers += [(slice(place, stop, step), data[place : place + 1] * count) for place in same]
    for column, expected in numbers:
        if data[column] != expected:
            return None
    columns += numbers
    return count, stop, low >> 1, high >> 1, key == 1


def record_at(data: Bytes, at: int, end: int, sized: bool, signed: bool = False) -> Bare:
    """The record at `at` of records that end at `end`.

    Raises InvalidRecord (no record), UnreadableRecords (a sized one whose length is no varint: Kafka stumbles over it), ManyHeaders.
    """
    try:
        start, size, record = _before_headers(data, at, end, sized, signed)
        if record.headers > HEADERS_AT_ONCE:
            raise ManyHeaders
        pos = _headers_end(data, record.end, record.headers)
    except IndexError:
        raise InvalidRecord(_BEYOND) from None
    return _ended(record, pos, end, start, size if sized else None)


def walking(data: Bytes, at: int, end: int, sized: bool, signed: bool = False) -> Generator[None, None, Bare]:
    """`record_at` of a record with any number of headers, in pieces: yields after each."""
    try:
        start, size, record = _before_headers(data, at, end, sized, signed)
        pos, left = record.end, record.headers
        while left > HEADERS_AT_ONCE:
            pos, left = _headers_end(data, pos, HEADERS_AT_ONCE), left - HEADERS_AT_ONCE
            yield
        pos = _headers_end(data, pos, left)
    except IndexError:
        raise InvalidRecord(_BEYOND) from None
    return _ended(record, pos, end, start, size if sized else None)


def _before_headers(data: Bytes, at: int, end: int, sized: bool, signed: bool) -> tuple[int, int, Bare]:
    """Return the position of a record's content, its declared size, and the record; its `end` is for now where its headers begin."""
    try:
        size, start = varint_at(data, at, 5)
    except InvalidRecord as error:
        if sized:
            raise UnreadableRecords(str(error)) from None
        raise
    if (sized or signed) and size < 0:
        raise InvalidRecord(f"Invalid record size: {size} is negative.")
    if signed and size > _MOST_BYTES:
        raise InvalidRecord(f"Invalid record size: {size}")
    if sized and start + size > end:
        raise InvalidRecord(f"Invalid record size: {size}")
    time, pos = varint_at(data, start + 1, 10)
    offset, key_at = varint_at(data, pos, 5)
    key, pos = varint_at(data, key_at, 5)
    value, pos = varint_at(data, pos + max(key, 0), 5)
    headers, pos = varint_at(data, pos + max(value, 0), 5)
    if headers < 0 or headers > end - pos:
        raise InvalidRecord(f"Found invalid number of record headers {headers}")
    return start, size, Bare(pos, offset, time, key, value, headers, key_at)


def _headers_end(data: Bytes, pos: int, count: int) -> int:
    for _ in range(count):
        name, value_at = data[pos], pos + 1
        if name & 0x81:  # more than a byte, or negative
            name, value_at = varint_at(data, pos, 5)
            if name < 0:
                raise InvalidRecord(f"Invalid negative header key size {name}")
            value_at += name
        else:
            value_at += name >> 1
        value = data[value_at]
        if value < 128:
            pos = value_at + 1 + (0 if value & 1 else value >> 1)
        else:
            value, pos = varint_at(data, value_at, 5)
            pos += max(value, 0)
    return pos


def _ended(record: Bare, pos: int, end: int, start: int, size: int | None) -> Bare:
    """The record, which ends at `pos`; `size`: as declared, where that counts."""
    if pos > end:
        raise InvalidRecord(_BEYOND)
    if size is not None and pos != start + size:
        raise InvalidRecord(f"Invalid record size: {size} bytes declared, {pos - start} read")
    return record._replace(end=pos)


def varint_at(data: Bytes, pos: int, most: int) -> tuple[int, int]:
    """The zigzag varint of at most `most` bytes at `pos`, as wide as Java's int (5 bytes) or long (10), and its end.

    Raises InvalidRecord (too long), IndexError.
    """
    value = shift = 0
    for at in range(pos, pos + most):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 128:
            value &= 0xFFFFFFFF if most == 5 else 0xFFFFFFFF_FFFFFFFF
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
    raise InvalidRecord(f"Varint is too long, the most significant bit in byte {most} is set")

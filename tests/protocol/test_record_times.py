"""Records that are gone through without being made: what is told of them is what a reader of all is told."""

from __future__ import annotations

from random import Random

import pytest

from kafka_wire.record_batch import (
    HEADER_BYTES,
    Codec,
    Record,
    RecordBatchError,
    encode_batch,
    parse_header,
    records,
)
from kafka_wire.record_checks import HEADERS_AT_ONCE, ManyHeaders, record_at, scan, walking
from kafka_wire.record_times import times
from tests.protocol.test_record_batch import NOW_MS, look_at_records, patched


def told(data: bytes) -> tuple[list[tuple[int, int]], type[Exception] | None]:
    """Offset and time of each record up to a bad one, and the error."""
    found: list[tuple[int, int]] = []
    try:
        found.extend((row.offset, row.timestamp) for row in records(data))
    except RecordBatchError as error:
        return found, type(error)
    return found, None


def timed(data: bytes) -> tuple[list[tuple[int, int]], type[Exception] | None]:
    """The same by `times`."""
    found: list[tuple[int, int]] = []
    try:
        found.extend(row for row in times(data, 0, parse_header(data)) if row is not None)
    except RecordBatchError as error:
        return found, type(error)
    return found, None


@pytest.mark.parametrize("codec", Codec)
def test_times_are_those_of_the_records_whatever_is_damaged(codec: Codec) -> None:
    draw = Random(codec)
    for _ in range(60):
        headers = [("h" * draw.randrange(3), draw.choice([None, b"", b"v" * 70])) for _ in range(draw.randrange(4))]
        rows = [
            Record(index, NOW_MS + draw.randrange(500), draw.choice([None, b"k"]), b"v" * draw.randrange(200), headers)
            for index in range(draw.randrange(1, 12))
        ]
        data = encode_batch(rows, codec=codec)
        assert timed(data) == told(data) == ([(row.offset, row.timestamp) for row in rows], None)
        for _ in range(20):
            at = draw.randrange(HEADER_BYTES, len(data))
            damaged = patched(data, at, bytes([draw.randrange(256)]))
            assert timed(damaged) == told(damaged)


def test_a_record_with_many_headers_is_walked_in_pieces() -> None:
    headers: list[tuple[str, bytes | None]] = [
        ("a" * (index % 3), b"x" * (index % 90) or None) for index in range(7000)
    ]
    data = encode_batch([Record(0, NOW_MS, b"k", b"v", headers), Record(1, NOW_MS + 5, None, b"w")])
    work = walking(data, HEADER_BYTES, len(data), True)
    pieces = 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            record = done.value
            break
        pieces += 1
    assert pieces == len(headers) // HEADERS_AT_ONCE
    assert (record.headers, record.key_size, record.value_size) == (len(headers), 1, 1)
    assert record_at(data, record.end, len(data), True).timestamp_delta == 5
    with pytest.raises(ManyHeaders):
        record_at(data, HEADER_BYTES, len(data), True)
    assert scan(data, HEADER_BYTES, len(data), 0, 2, True).stopped == 0
    assert timed(data) == told(data)


@pytest.mark.parametrize("key", [None, b"", b"k", b"\1", b"key" * 60])
@pytest.mark.parametrize("sign", [1, -1])
def test_records_of_any_times_are_read_by_the_columns_as_one_by_one(sign: int, key: bytes | None) -> None:
    """Deltas of one to ten bytes: the last one of six is that of a null key, where keys of records with shorter ones are."""
    for bits in range(63):
        for delta in (1 << bits, (1 << bits) + 1, (1 << bits + 1) - 1):
            times = (1 << 62, min((1 << 62) + sign * delta, 2**63 - 1), 1 << 62)
            for value in (b"", None, b"v" * 200):
                data = encode_batch([Record(number, time, key, value) for number, time in enumerate(times)])
                look_at_records(data, 0, parse_header(data))

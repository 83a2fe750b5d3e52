"""A reader that knows layouts stores and returns what one that goes over every record does, of good and of damaged batches."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import pytest

from kafka_wire.last_values import BatchLayouts, KeyValue, last_values
from kafka_wire.record_batch import HEADER_BYTES, InvalidRecord, Record, batches, encode_batch

_VERSIONS = (0, 1)


def _batch(rng: random.Random, shape: int) -> bytes:
    """A batch of one of few shapes, whose values nearly always have their usual lengths."""
    of_shape = random.Random(shape)
    records = []
    for number in range(of_shape.randint(1, 12)):
        key = bytes([of_shape.randrange(4)]) * of_shape.choice((3, 3, 70))
        size = of_shape.choice((2, 8, 8, 8, 80, 200))
        if not rng.randrange(60):
            size += 1
        version = rng.choice((0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7)) if not rng.randrange(4) else 0
        value = None if not rng.randrange(80) else bytes([0, version]) + rng.randbytes(size)
        headers = [("h", b"x")] if not rng.randrange(80) else []
        records.append(Record(number, 1000 + of_shape.randrange(3), key, value, headers))
    base = rng.randrange(1 << 40)
    return encode_batch([record._replace(offset=base + record.offset) for record in records], base_offset=base)


def _read(rows: Iterable[KeyValue | None], latest: dict[bytes, bytes | None]) -> tuple[list[KeyValue], str]:
    """Return the rows that a caller reads who stores the last value of every key, as both loaders do, and the error."""
    result = []
    try:
        for row in rows:
            if row is not None:
                result.append(row)
                if row[1] is not None:
                    latest[row[1]] = None
    except InvalidRecord as error:
        return result, str(error)
    return result, ""


def _batches(rng: random.Random, *, damaged: bool) -> Iterator[bytes]:
    shapes = [rng.randrange(1 << 20) for _ in range(4)]
    for _ in range(80):
        data = bytearray(_batch(rng, rng.choice(shapes)))
        if damaged and not rng.randrange(6):
            at = rng.randrange(HEADER_BYTES - 1, len(data))  # the last byte of the header is of the number of records
            data[at] = rng.choice((data[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
        yield bytes(data)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_known_layout_changes_nothing(damaged: bool) -> None:
    reads = 0
    for seed in range(60):
        rng = random.Random(seed)
        latest: dict[bytes, bytes | None] = {}
        expected: dict[bytes, bytes | None] = {}
        layouts = BatchLayouts(latest, _VERSIONS)
        for data in _batches(rng, damaged=damaged):
            data = rng.randbytes(5) + data
            pos, header = next(batches(data, 5))
            ours = _read(layouts.last_values(data, pos, header), latest)
            theirs = _read(last_values(data, pos, header, expected, _VERSIONS), expected)
            assert (ours, latest) == (theirs, expected), f"seed {seed}"
            if latest and not rng.randrange(10):
                key = rng.choice(sorted(latest))
                del latest[key], expected[key]
        reads += layouts.reads
    assert reads > 500


def test_layouts_are_bounded_where_none_is_of_use() -> None:
    """Batches that never repeat are not learned for ever."""
    latest: dict[bytes, bytes | None] = {}
    layouts = BatchLayouts(latest, _VERSIONS)
    for number in range(2000):
        latest[b"%08d" % number] = None
        data = encode_batch([Record(0, 0, b"%08d" % number, b"\0\0v")])
        pos, header = next(batches(data))
        assert list(layouts.last_values(data, pos, header)) == []
    assert layouts.reads == 0
    assert len(layouts._layouts) <= 256

"""Keys in a batch for compaction, with their offsets and whether they have a value; and the batch with some of its records.

Rules:
1. Both are done in pieces: of RECORDS_AT_ONCE records, or of as many headers and bytes as are one where each is looked at.
2. No object is made of a record. One that stays is copied from its key on, as its producer wrote it.
Source: Cleaner, MemoryRecords.filterTo.
"""

from __future__ import annotations

from collections.abc import Container, Generator
from hashlib import sha256

from kafka_wire.compression import MAX_DECOMPRESSED_BYTES, Packer
from kafka_wire.record_batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    BatchHeader,
    InvalidRecord,
    batch_around,
    signed_varint,
    varint,
)
from kafka_wire.record_checks import Bytes, varint_at
from kafka_wire.record_walk import opened, walked

KeyAt = tuple[int, bytes | None, bool]
"""(offset, key or its digest, whether there is a value)."""
RECORDS_AT_ONCE = 2000
"""Records whose lengths are believed that are gone through before others are served: a millisecond or two."""
_LONG_KEY = 1024 * 1024
"""Bytes of a key above which compaction knows it by its digest, as Kafka does all keys (SkimpyOffsetMap)."""
_PACKED_AT_ONCE = 128 * 1024
"""Bytes of records that are packed before others are served: some milliseconds for gzip."""


def keys(
    data: bytes, pos: int, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Generator[KeyAt | None, None, None]:
    """The records of the batch at `pos` as KeyAt, in order; None where others may be served.

    Raises what records() raises; a record of an uncompressed batch is believed as far as it isn't looked at.
    """
    if not header.attributes & CODEC_MASK:
        yield from _believed(data, pos + HEADER_BYTES, header)
        return
    plain, at, end = yield from opened(data, pos, header, max_bytes)
    for record in walked(plain, at, end, header.record_count):
        if record is None:
            yield None
            continue
        key: bytes | None = None
        if record.key_size >= 0:
            _, at = varint_at(plain, record.key_at, 5)
            key = yield from _key(plain, at, at + record.key_size)
        yield header.base_offset + record.offset_delta, key, record.value_size >= 0


def _key(plain: Bytes, at: int, end: int) -> Generator[None, None, bytes]:
    """A key, or the digest of a long one: it is copied and hashed as a whole wherever it is looked up."""
    if end - at <= _LONG_KEY:
        return bytes(plain[at:end])
    digest = sha256()
    for begin in range(at, end, _LONG_KEY):
        digest.update(plain[begin : min(begin + _LONG_KEY, end)])
        yield
    return b"digest of %d bytes: " % (end - at) + digest.digest()


def _believed(data: bytes, at: int, header: BatchHeader) -> Generator[KeyAt | None, None, None]:
    """Some three times as fast as walking over each record."""
    base, count = header.base_offset, header.record_count
    try:
        for number in range(1, count + 1):
            byte = data[at]
            if byte < 128:
                end = at + 1 + (byte >> 1)
                at += 2
            else:
                length, at = signed_varint(data, at, 5)
                end = at + length
                at += 1
            while data[at] > 127:  # the timestamp's delta
                at += 1
            byte = data[at + 1]
            if byte < 128:
                offset = base + (byte >> 1)
                at += 2
            else:
                delta, at = signed_varint(data, at + 1, 5)
                offset = base + delta
            byte = data[at]
            if byte < 128:
                size = (byte >> 1) if not byte & 1 else -1
                at += 1
            else:
                size, at = signed_varint(data, at, 5)
            if size < 0:
                yield offset, None, data[at] != 1
            else:
                yield offset, data[at : at + size], data[at + size] != 1
            at = end
            if not number % RECORDS_AT_ONCE:
                yield None
    except IndexError:
        raise InvalidRecord("a record reaches beyond the end of its batch") from None


def with_records(
    data: bytes,
    pos: int,
    header: BatchHeader,
    offsets: Container[int],
    horizon: int | None,
    *,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Generator[None, None, bytes]:
    """The batch at `pos` with those of its records that are at `offsets` (at least one), in pieces: yields after each. All else of its
    header stays, but for its delete horizon (ms), and for its times where they are its records'.

    Raises as `records`, compression.CodecUnavailable.
    """
    by_broker = header.is_log_append_time
    plain, at, end = yield from opened(data, pos, header, max_bytes)
    packer = Packer(header.codec)
    base, latest, count, waiting = horizon, -1, 0, 0
    parts: list[Bytes] = []
    for record in walked(plain, at, end, header.record_count):
        if record is None:
            yield
            continue
        if header.base_offset + record.offset_delta not in offsets:
            continue
        time = header.max_timestamp if by_broker else header.base_timestamp + record.timestamp_delta
        base, latest, count = time if base is None else base, max(latest, time), count + 1
        lead = b"\0" + varint(time - base) + varint(record.offset_delta)
        size = record.end - record.key_at
        parts += (varint(len(lead) + size), lead)
        for begin in range(record.key_at, record.end, _PACKED_AT_ONCE):
            parts.append(plain[begin : min(begin + _PACKED_AT_ONCE, record.end)])
            waiting += len(parts[-1]) + len(lead)
            if waiting >= _PACKED_AT_ONCE:
                packer.add(b"".join(parts))
                parts, waiting = [], 0
                yield
    packer.add(b"".join(parts))
    attributes = header.attributes & ~DELETE_HORIZON_BIT | (0 if horizon is None else DELETE_HORIZON_BIT)
    times = (-1 if base is None else base, header.max_timestamp if by_broker else latest)
    return _around(packer.finish(), header, attributes, times, count)


def without_records(header: BatchHeader) -> bytes:
    """A batch of which no record is left: it tells of its producer, and of its latest time."""
    return _around(b"", header, header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT), (-1, header.max_timestamp), 0)


def _around(payload: bytes, header: BatchHeader, attributes: int, times: tuple[int, int], count: int) -> bytes:
    producer = (header.producer_id, header.producer_epoch, header.base_sequence)
    fields = (attributes, header.last_offset_delta, *times, *producer, count)
    return batch_around(payload, header.base_offset, header.leader_epoch, fields)

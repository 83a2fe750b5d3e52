"""Record batches, magic 2: what Produce carries, the log stores and Fetch serves.

Rules:
1. A batch is bytes. What the broker owns in it (base offset, leader epoch) lies outside the CRC and is patched in
   place; nothing is re-encoded on the way to the log or back.
2. Every complaint is an exception that carries Kafka's error: CorruptRecord (the bytes are damaged),
   InvalidRecord (whole, but they lie), UnsupportedForMessageFormat, UnsupportedCompression, InvalidTimestamp.
3. Compressed records are unpacked only by `records()` and `record_times.times()`, up to a bound.

Layout (offset: field): 0 baseOffset i64, 8 length i32 (of what follows), 12 partitionLeaderEpoch i32, 16 magic i8,
17 crc u32 (CRC-32C of 21..end), 21 attributes i16, 23 lastOffsetDelta i32, 27 baseTimestamp i64, 35 maxTimestamp i64,
43 producerId i64, 51 producerEpoch i16, 53 baseSequence i32, 57 count i32, 61 records.
Source: DefaultRecordBatch, DefaultRecord (clients), KIP-98, KIP-534.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import google_crc32c

from kafka_wire import compression
from kafka_wire.compression import MAX_DECOMPRESSED_BYTES, Codec
from kafka_wire.control_records import ControlType, control_record, control_type
from kafka_wire.record_errors import (
    CorruptRecord,
    DecompressedTooLarge,
    InvalidRecord,
    InvalidTimestamp,
    RecordBatchError,
    ShortBatch,
    TruncatedBatch,
    UnknownCodec,
    UnreadableRecords,
    UnsupportedCompression,
    UnsupportedForMessageFormat,
)
from kafka_wire.record_unpacking import unpack

__all__ = [
    "HEADER_BYTES",
    "BatchHeader",
    "Codec",
    "ControlType",
    "CorruptRecord",
    "DecompressedTooLarge",
    "InvalidRecord",
    "InvalidTimestamp",
    "Record",
    "RecordBatchError",
    "ShortBatch",
    "TruncatedBatch",
    "UnknownCodec",
    "UnreadableRecords",
    "UnsupportedCompression",
    "UnsupportedForMessageFormat",
    "batch_around",
    "batch_of",
    "batches",
    "build_batch",
    "check_crc",
    "control_batch",
    "control_type",
    "encode_batch",
    "next_batch_size",
    "parse_header",
    "produce_batch",
    "record_bodies",
    "records",
    "signed_varint",
    "stamp",
    "stamp_append_time",
    "stamp_create_time",
    "stamp_max_timestamp",
    "unsigned_varint",
]

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_SEQUENCE = -1
MAX_SEQUENCE = 2**31 - 1

LENGTH_END = 12  # bytes of baseOffset and length: what `length` does not count
MAGIC_END = 17
_ATTRIBUTES_AT = 22  # their lower byte
CRC_END = 21
HEADER_BYTES = 61
MIN_V0_BYTES = 14  # LegacyRecord.RECORD_OVERHEAD_V0: the least `length` that any format can have

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
KNOWN_BITS = 0x7F

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qii")  # base offset, length, leader epoch: all before the magic
_BEFORE_CRC = struct.Struct(">qiibI")
_AFTER_CRC = struct.Struct(">hiqqqhii")
_LENGTH = struct.Struct(">i")


class BatchHeader(NamedTuple):
    """The 61 bytes before the records; times in ms."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LENGTH_END

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record (they wrap after 2**31 - 1), -1 without one."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    @property
    def codec(self) -> Codec:
        """The codec of the batch, from its attributes. Raises UnknownCodec for an unknown number."""
        try:
            return Codec(self.attributes & CODEC_MASK)
        except ValueError:
            raise UnknownCodec(f"Unknown compression type id: {self.attributes & CODEC_MASK}") from None

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """KIP-534: when a tombstone of this batch may go; baseTimestamp holds it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


class Record(NamedTuple):
    """One record with its absolute offset and timestamp (ms); headers are (name, value or None) pairs in order."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


# ------------------------------------------------------------------------------------------------ reading batches


def parse_header(data: bytes, pos: int = 0, end: int | None = None) -> BatchHeader:
    """The header of the batch at `pos`; the batch lies wholly before `end`. Neither CRC nor records are looked at.

    Raises TruncatedBatch, CorruptRecord (length or magic impossible), UnsupportedForMessageFormat (magic 0 or 1).
    """
    left = (len(data) if end is None else end) - pos
    if left < MAGIC_END:
        raise TruncatedBatch(f"{left} bytes are too few for a record batch")
    (length,) = _LENGTH.unpack_from(data, pos + 8)
    if length < MIN_V0_BYTES:
        raise CorruptRecord(f"Record size {length} is less than the minimum record overhead ({MIN_V0_BYTES})")
    magic = data[pos + 16]
    if magic != 2:
        if magic > 2:
            raise CorruptRecord(f"Invalid magic found in record: {magic if magic < 128 else magic - 256}")
        raise UnsupportedForMessageFormat(f"message format v{magic} is not stored, only record batches (v2)")
    if length < HEADER_BYTES - LENGTH_END:
        raise CorruptRecord(f"Record batch is corrupt (the size {length} is smaller than the minimum allowed overhead)")
    if length + LENGTH_END > left:
        raise TruncatedBatch(f"a record batch of {length + LENGTH_END} bytes where {left} are left")
    return BatchHeader._make(_HEADER.unpack_from(data, pos))


def batches(data: bytes, pos: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every batch in data[pos:end]. Raises as parse_header where a batch is bad or cut."""
    stop = len(data) if end is None else end
    while pos < stop:
        header = parse_header(data, pos, stop)
        yield pos, header
        pos += header.length + LENGTH_END


def check_crc(data: bytes, pos: int, header: BatchHeader) -> None:
    """Raises CorruptRecord unless the stored CRC-32C is that of the batch's bytes."""
    computed = google_crc32c.value(data[pos + CRC_END : pos + header.length + LENGTH_END])
    if computed != header.crc:
        raise CorruptRecord(f"Record is corrupt (stored crc = {header.crc}, computed crc = {computed})")


def produce_batch(data: bytes, api_version: int) -> BatchHeader:
    """Header of the one batch that a Produce request (version 3 and up) carries for a partition.

    Raises InvalidRecord (none, more than one, or magic below 2), UnsupportedCompression (zstd before version 7),
    CorruptRecord (impossible length or magic, cut; of what comes behind, too), ShortBatch. CRC and content are the log's to check.
    Source: ProduceRequest.validateRecords.
    """
    request_text = f"Produce requests with version {api_version}"
    try:
        header = parse_header(data)
    except TruncatedBatch:
        raise InvalidRecord(f"{request_text} must have at least one record batch per partition") from None
    except UnsupportedForMessageFormat:
        raise InvalidRecord(f"{request_text} are only allowed to contain record batches with magic version 2") from None
    except CorruptRecord as problem:
        size = next_batch_size(data)
        if not size or data[MAGIC_END - 1] != 2:
            raise
        _check_use(data, size, data[_ATTRIBUTES_AT], api_version, request_text)
        raise ShortBatch(str(problem)) from None
    _check_use(data, header.size, header.attributes, api_version, request_text)
    return header


def _check_use(data: bytes, size: int, attributes: int, api_version: int, request_text: str) -> None:
    """Check that the first batch, of `size` bytes, is the only one, in a codec that the version of Produce has."""
    if api_version < 7 and attributes & CODEC_MASK == Codec.ZSTD:
        raise UnsupportedCompression(f"{request_text} are not allowed to use ZStandard compression")
    if len(data) != size and next_batch_size(data, size):
        raise InvalidRecord(f"{request_text} are only allowed to contain exactly one record batch per partition")


def next_batch_size(data: bytes, pos: int = 0) -> int:
    """Bytes of the batch at `pos`, 0 where no whole one is left. Raises CorruptRecord, UnreadableRecords (ByteBufferLogInputStream)."""
    left = len(data) - pos
    if left < LENGTH_END:
        return 0
    length: int = _LENGTH.unpack_from(data, pos + 8)[0]
    if length < MIN_V0_BYTES:
        raise CorruptRecord(f"Record size {length} is less than the minimum record overhead ({MIN_V0_BYTES})")
    if left < MAGIC_END:
        return 0
    magic = data[pos + 16]
    if magic > 2:
        raise CorruptRecord(f"Invalid magic found in record: {magic if magic < 128 else magic - 256}")
    if length > MAX_SEQUENCE - LENGTH_END:
        raise UnreadableRecords(f"a batch of {length} bytes, whose end Java's int cannot hold")
    return 0 if length + LENGTH_END > left else length + LENGTH_END


# ------------------------------------------------------------------------------------------------ reading records


def records(
    data: bytes, pos: int = 0, header: BatchHeader | None = None, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """The records of the batch at `pos`, in order, unpacked as far as `max_bytes`.

    Raises InvalidRecord (structure), CorruptRecord (compressed bytes), UnknownCodec, UnsupportedCompression (its
    library is missing), DecompressedTooLarge. Records before the bad one have been yielded by then.
    """
    if header is None:
        header = parse_header(data, pos)
    end = pos + header.length + LENGTH_END
    at = pos + HEADER_BYTES
    if header.attributes & CODEC_MASK:
        data = unpack(header.codec, data[at:end], max_bytes)
        at, end = 0, len(data)
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    for _ in range(header.record_count):
        try:
            length, start = signed_varint(data, at, 5)
            at = start + length
            if length < 0 or at > end:
                raise InvalidRecord(f"Invalid record size: {length}")
            timestamp_delta, start = signed_varint(data, start + 1, 10)
            offset_delta, start = signed_varint(data, start, 5)
            key, start = _field(data, start, at)
            value, start = _field(data, start, at)
            headers, start = _headers(data, start, at)
        except IndexError:
            raise InvalidRecord("a record reaches beyond the end of its batch") from None
        if start != at:
            raise InvalidRecord(f"Invalid record size: {length} bytes declared, {length - (at - start)} read")
        yield Record(
            base_offset + offset_delta,
            base_timestamp + timestamp_delta if append_time is None else append_time,
            key,
            value,
            headers,
        )
    if at != end:
        raise InvalidRecord("Incorrect declared batch size, records still remaining in file")


def unsigned_varint(data: bytes, pos: int, max_len: int) -> tuple[int, int]:
    """The varint of at most `max_len` bytes at `pos`, and where it ends. Raises InvalidRecord, IndexError."""
    value = shift = 0
    for at in range(pos, pos + max_len):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, at + 1
        shift += 7
    raise InvalidRecord(f"Varint is too long, the most significant bit in byte {max_len} is set")


def signed_varint(data: bytes, pos: int, max_len: int) -> tuple[int, int]:
    """The zigzag varint of at most `max_len` bytes at `pos`, and where it ends. Raises InvalidRecord, IndexError."""
    byte = data[pos]
    if byte < 128:  # one byte: nearly all of them
        return (byte >> 1) ^ -(byte & 1), pos + 1
    value, pos = unsigned_varint(data, pos, max_len)
    return (value >> 1) ^ -(value & 1), pos


def _field(data: bytes, pos: int, end: int) -> tuple[bytes | None, int]:
    length, pos = signed_varint(data, pos, 5)
    if length < 0:
        return None, pos
    if pos + length > end:
        raise InvalidRecord(f"a field of {length} bytes where {end - pos} are left in the record")
    return data[pos : pos + length], pos + length


def _headers(data: bytes, pos: int, end: int) -> tuple[Sequence[tuple[str, bytes | None]], int]:
    count, pos = signed_varint(data, pos, 5)
    if count == 0:
        return (), pos
    if count < 0 or count > end - pos:
        raise InvalidRecord(f"Found invalid number of record headers {count}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, pos = _field(data, pos, end)
        if name is None:
            raise InvalidRecord("Invalid negative header key size")
        value, pos = _field(data, pos, end)
        headers.append((name.decode("utf-8", "replace"), value))
    return headers, pos


# ------------------------------------------------------------------------------------------------ patching


def stamp(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """One batch with the broker's base offset and leader epoch in it; the CRC does not cover them."""
    return _PREFIX.pack(base_offset, len(batch) - LENGTH_END, leader_epoch) + batch[16:]


def stamp_append_time(batch: bytes, now_ms: int) -> bytes:
    """One batch as message.timestamp.type=LogAppendTime stores it: type bit and max timestamp set, CRC anew.

    Bits that no version has given a meaning are gone then: Kafka puts the attributes together from those that it knows.
    """
    attributes = (batch[22] & KNOWN_BITS) | TIMESTAMP_TYPE_BIT
    return _checksummed(batch, attributes.to_bytes(2, "big") + batch[23:35] + now_ms.to_bytes(8, "big") + batch[43:])


def stamp_create_time(batch: bytes) -> bytes:
    """One batch without the LogAppendTime bit that its producer has set, CRC anew."""
    attributes = (batch[21] << 8 | batch[22]) & ~TIMESTAMP_TYPE_BIT
    return _checksummed(batch, attributes.to_bytes(2, "big") + batch[23:])


def stamp_max_timestamp(batch: bytes, timestamp: int) -> bytes:
    """One batch whose header tells of the latest time of its records (ms), CRC anew."""
    return _checksummed(batch, batch[21:35] + timestamp.to_bytes(8, "big", signed=True) + batch[43:])


def _checksummed(batch: bytes, covered: bytes) -> bytes:
    return b"".join((batch[:MAGIC_END], google_crc32c.value(covered).to_bytes(4, "big"), covered))


# ------------------------------------------------------------------------------------------------ building


def _zigzag(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 127:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_VARINTS = [bytes((2 * n,)) for n in range(64)] + [bytes((2 * n & 0x7F | 0x80, n >> 6)) for n in range(64, 2048)]
_NULL = _zigzag(-1)
_LEADS = [b"\x00\x00" + delta for delta in _VARINTS[:1024]]  # attributes and deltas, with the batch's timestamp


def varint(value: int) -> bytes:
    """A zigzag varint, as record fields have them."""
    return _VARINTS[value] if 0 <= value < 2048 else _zigzag(value)


_HEADS = 2048
"""Number of record heads that are kept for one size: those of a batch of as many records."""


def build_batch(
    pairs: Sequence[tuple[bytes | None, bytes | None]],
    timestamp_ms: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = 0,
    attributes: int = 0,
) -> bytes:
    """One uncompressed batch of (key, value) records that share a timestamp: the offsets log's way, made for speed.

    base_sequence 0 without a producer is what Kafka's coordinator writes for commits (its old one wrote -1 for groups).
    """
    return batch_of(
        record_bodies(pairs),
        len(pairs),
        timestamp_ms,
        base_offset,
        leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        attributes=attributes,
    )


def record_bodies(pairs: Sequence[tuple[bytes | None, bytes | None]]) -> list[bytes]:
    """(key, value) records as a batch holds them whose timestamp they share, in pieces: what `batch_of` takes."""
    varints, leads, null, count = _VARINTS, _LEADS, _NULL, len(pairs)
    if count == 1:  # most batches of a coordinator's own
        key, value = pairs[0]
        if key is not None and value is not None and len(key) + len(value) < 2040:  # so all lengths are in `varints`
            body = b"".join((leads[0], varints[len(key)], key, varints[len(value)], value, b"\0"))
            return [varints[len(body)], body]
    parts: list[bytes] = []
    small = count <= 1024
    for index, (key, value) in enumerate(pairs):
        lead = leads[index] if small else b"\x00\x00" + varint(index)
        if key is None:
            key_size, key = null, b""
        else:
            size = len(key)
            key_size = varints[size] if size < 2048 else _zigzag(size)
        if value is None:
            value_size, value = null, b""
        else:
            size = len(value)
            value_size = varints[size] if size < 2048 else _zigzag(size)
        size = len(lead) + len(key_size) + len(key) + len(value_size) + len(value) + 1
        parts += (varints[size] if size < 2048 else _zigzag(size), lead, key_size, key, value_size, value, b"\0")
    return parts


def batch_of(
    bodies: Sequence[bytes],
    count: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = 0,
    attributes: int = 0,
) -> bytes:
    """As `build_batch`, of ``count`` encoded records: `record_bodies`, or `record_heads` and what belongs behind each."""
    head = _AFTER_CRC.pack(
        attributes, count - 1, timestamp_ms, timestamp_ms, producer_id, producer_epoch, base_sequence, count
    )
    covered = head + b"".join(bodies)
    length = len(covered) + (CRC_END - LENGTH_END)
    return _BEFORE_CRC.pack(base_offset, length, leader_epoch, 2, google_crc32c.value(covered)) + covered


def record_heads(size: int, first: int, count: int) -> list[bytes]:
    """Heads of ``count`` records of a batch, numbered from ``first`` on: length, attributes, no delta of time, offset delta.

    ``size`` is that of what follows in each: key and value with their lengths, and the number of headers.
    """
    end = first + count
    if end <= _HEADS:
        return _heads(size)[first:end]
    return [_head(size, index) for index in range(first, end)]


@lru_cache(maxsize=32)
def _heads(size: int) -> list[bytes]:
    return [_head(size, index) for index in range(_HEADS)]


def _head(size: int, index: int) -> bytes:
    lead = b"\x00\x00" + varint(index)
    return varint(len(lead) + size) + lead


def encode_batch(
    items: Iterable[Record],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
    max_timestamp: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """A batch of any shape: own timestamps, headers, gaps between offsets, codec, no record at all (compaction).

    `last_offset` is that of the last record unless given (required without records). `attributes` adds the type,
    transactional and control bits; codec and delete horizon bits are set from their own arguments.
    Raises compression.CodecUnavailable.
    """
    rows = list(items)
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
        attributes |= DELETE_HORIZON_BIT
    else:
        base_timestamp = rows[0].timestamp if rows else NO_TIMESTAMP
    if last_offset is None:
        last_offset = rows[-1].offset if rows else base_offset - 1
    if max_timestamp is None:
        max_timestamp = max((row.timestamp for row in rows), default=NO_TIMESTAMP)
    parts: list[bytes] = []
    for row in rows:
        body = _encode_record(row, base_offset, base_timestamp)
        parts += (varint(len(body)), body)
    payload = compression.compress(codec, b"".join(parts)) if rows else b""
    fields = (last_offset - base_offset, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence)
    attributes = attributes & ~CODEC_MASK | (codec if rows else 0)
    return batch_around(payload, base_offset, leader_epoch, (attributes, *fields, len(rows)))


def batch_around(payload: bytes, base_offset: int, leader_epoch: int, fields: Sequence[int]) -> bytes:
    """A batch of these records, packed as its attributes say; `fields`: those of its header from the attributes on."""
    covered = _AFTER_CRC.pack(*fields) + payload
    length = len(covered) + (CRC_END - LENGTH_END)
    return _BEFORE_CRC.pack(base_offset, length, leader_epoch, 2, google_crc32c.value(covered)) + covered


def control_batch(
    kind: ControlType,
    timestamp_ms: int,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The marker that ends a transaction: one control record in a transactional batch of 78 bytes, sequence -1."""
    return build_batch(
        [control_record(kind, coordinator_epoch)],
        timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
    )


def _encode_record(row: Record, base_offset: int, base_timestamp: int) -> bytes:
    parts = [b"\0", varint(row.timestamp - base_timestamp), varint(row.offset - base_offset)]
    for field in (row.key, row.value):
        parts += (_NULL,) if field is None else (varint(len(field)), field)
    parts.append(varint(len(row.headers)))
    for name, value in row.headers:
        raw = name.encode()
        parts += (varint(len(raw)), raw)
        parts += (_NULL,) if value is None else (varint(len(value)), value)
    return b"".join(parts)

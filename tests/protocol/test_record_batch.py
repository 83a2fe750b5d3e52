"""Record batches: what is built is read back by us and by an independent codec, and what is bad is told as Kafka tells it."""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Callable, Generator
from typing import Any

import cramjam
import google_crc32c
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from kafka_wire import compression
from kafka_wire.errors import Err
from kafka_wire.record_batch import (
    HEADER_BYTES,
    MAX_SEQUENCE,
    BatchHeader,
    Codec,
    ControlType,
    CorruptRecord,
    DecompressedTooLarge,
    InvalidRecord,
    Record,
    RecordBatchError,
    TruncatedBatch,
    UnknownCodec,
    UnreadableRecords,
    UnsupportedCompression,
    UnsupportedForMessageFormat,
    batches,
    build_batch,
    check_crc,
    control_batch,
    control_type,
    encode_batch,
    parse_header,
    produce_batch,
    records,
    stamp,
    stamp_append_time,
    stamp_create_time,
)
from kafka_wire.record_checks import record_at, scan
from kafka_wire.record_keys import keys
from kafka_wire.wire import uvarint

NOW_MS = 1_700_000_000_000

PAIRS = st.lists(
    st.tuples(st.none() | st.binary(max_size=80), st.none() | st.binary(max_size=200)), min_size=1, max_size=40
)
HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=4)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(-(2**40), 2**45),
        st.none() | st.binary(max_size=40),
        st.none() | st.binary(max_size=40),
        HEADERS,
    ),
    min_size=1,
    max_size=20,
)


def patched(data: bytes, at: int, value: bytes, *, seal: bool = True) -> bytes:
    """`value` at position `at`; with the CRC that belongs to it unless `seal` is false."""
    data = data[:at] + value + data[at + len(value) :]
    return data[:17] + google_crc32c.value(data[21:]).to_bytes(4, "big") + data[21:] if seal else data


def rows_of(drawn: list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]) -> list[Record]:
    offset = -1
    rows = []
    for gap, timestamp, key, value, headers in drawn:
        offset += gap + 1
        rows.append(Record(offset, timestamp, key, value, headers))
    return rows


# ------------------------------------------------------------------------------------------------ round trips


@given(pairs=PAIRS, timestamp=st.integers(-1, 2**45), base=st.integers(0, 2**60))
def test_the_fast_builder_says_what_the_general_one_says(
    pairs: list[tuple[bytes | None, bytes | None]], timestamp: int, base: int
) -> None:
    fast = build_batch(
        pairs, timestamp, base_offset=base, leader_epoch=3, producer_id=5, producer_epoch=1, base_sequence=9
    )
    rows = [Record(base + index, timestamp, key, value) for index, (key, value) in enumerate(pairs)]
    slow = encode_batch(
        rows,
        base_offset=base,
        leader_epoch=3,
        producer_id=5,
        producer_epoch=1,
        base_sequence=9,
        max_timestamp=timestamp,
    )
    assert fast == slow
    header = parse_header(fast)
    check_crc(fast, 0, header)
    look_at_records(fast, 0, header)
    assert list(records(fast)) == rows


@given(drawn=ROWS, codec=st.sampled_from(Codec))
def test_records_come_back_from_every_codec(drawn: list[Any], codec: Codec) -> None:
    rows = rows_of(drawn)
    data = encode_batch(rows, codec=codec)
    header = parse_header(data)
    check_crc(data, 0, header)
    assert (header.codec, header.record_count, header.last_offset) == (codec, len(rows), rows[-1].offset)
    assert header.max_timestamp == max(row.timestamp for row in rows)
    assert [(*row[:4], list(row.headers)) for row in records(data)] == [(*row[:4], list(row.headers)) for row in rows]


@given(drawn=ROWS, codec=st.sampled_from(Codec))
def test_an_independent_codec_reads_our_batches(drawn: list[Any], codec: Codec) -> None:
    rows = rows_of(drawn)
    theirs = DefaultRecordBatch(encode_batch(rows, codec=codec))
    assert theirs.validate_crc()
    assert [(one.offset, one.timestamp, one.key, one.value, list(one.headers)) for one in theirs] == [
        (row.offset, row.timestamp, row.key, row.value, list(row.headers)) for row in rows
    ]


@given(drawn=ROWS, codec=st.sampled_from(Codec))
def test_we_read_the_batches_of_an_independent_codec(drawn: list[Any], codec: Codec) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, 0, 4, 2, 7, 1 << 20)
    for offset, (_, timestamp, key, value, headers) in enumerate(drawn):
        builder.append(offset, max(timestamp, 0), key, value, headers)
    data = bytes(builder.build())
    header = produce_batch(data, 9)
    check_crc(data, 0, header)
    look_at_records(data, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 2, 7)
    assert [(row.offset, row.timestamp, row.key, row.value, list(row.headers)) for row in records(data)] == [
        (offset, max(timestamp, 0), key, value, headers)
        for offset, (_, timestamp, key, value, headers) in enumerate(drawn)
    ]


def test_a_commit_is_byte_for_byte_that_of_a_real_broker() -> None:
    key = bytes.fromhex("0001 0003673334 00027431 00000000")
    value = bytes.fromhex("0004 0000000000000005 ffffffff 01") + NOW_MS.to_bytes(8, "big") + b"\0"
    data = build_batch([(key, value)], NOW_MS)
    assert len(data) == 107
    assert data[HEADER_BYTES:] == bytes.fromhex("5a 00 00 00 1e") + key + b"\x30" + value + b"\0"
    header = parse_header(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, 0)


@pytest.mark.parametrize("size", [0, 63, 64, 2047, 2048, 2049, 8191, 8192, 1 << 20])
def test_lengths_of_every_varint_width_are_read_back(size: int) -> None:
    data = build_batch([(b"k" * size, b"v" * size), (None, None)], NOW_MS)
    look_at_records(data, 0, parse_header(data))
    assert [(len(row.key or b""), len(row.value or b"")) for row in records(data)] == [(size, size), (0, 0)]


@pytest.mark.parametrize(("size", "is_taken"), [(2147483639, True), (2147483640, False), (2147483647, False)])
def test_declared_lengths_of_packed_records_have_a_bound_since_4_4(size: int, is_taken: bool) -> None:
    """Measured on 4.4.0; up to 4.1 no length of a packed record is looked at."""
    data = uvarint(2 * size) + b"\0\0\0\x01\x01\0"
    assert record_at(data, 0, len(data), sized=False).end == len(data)
    if is_taken:
        assert record_at(data, 0, len(data), sized=False, signed=True).end == len(data)
        return
    with pytest.raises(InvalidRecord, match=f"Invalid record size: {size}"):
        record_at(data, 0, len(data), sized=False, signed=True)


def test_a_batch_of_many_records_numbers_them_all() -> None:
    data = build_batch([(None, b"")] * 3000, NOW_MS)
    assert [row.offset for row in records(data)] == list(range(3000))


def test_an_empty_batch_keeps_its_offsets() -> None:
    data = encode_batch([], base_offset=5, last_offset=9, max_timestamp=NOW_MS, codec=Codec.GZIP)
    header = parse_header(data)
    assert (header.base_offset, header.last_offset, header.record_count, header.size) == (5, 9, 0, HEADER_BYTES)
    assert header.max_timestamp == NOW_MS
    assert list(records(data)) == []


def test_a_delete_horizon_stands_in_the_base_timestamp() -> None:
    data = encode_batch([Record(0, NOW_MS, b"k", None)], delete_horizon_ms=NOW_MS + 5000)
    assert parse_header(data).delete_horizon_ms == NOW_MS + 5000
    assert next(records(data)).timestamp == NOW_MS
    assert parse_header(build_batch([(None, b"")], NOW_MS)).delete_horizon_ms is None


def test_markers_tell_how_a_transaction_ended() -> None:
    for kind in ControlType:
        data = control_batch(kind, NOW_MS, producer_id=4, producer_epoch=1, coordinator_epoch=7)
        header = parse_header(data)
        assert len(data) == 78
        assert header.attributes == 0x30
        assert header.is_control
        assert header.is_transactional
        assert (header.base_sequence, header.last_sequence) == (-1, -1)
        row = next(records(data))
        assert control_type(row.key) == kind
        assert row.value == struct.pack(">hi", 0, 7)
    for key in (None, b"", b"\0\0\0", b"\xff\xff\0\0"):
        with pytest.raises(InvalidRecord):
            control_type(key)


def test_sequence_numbers_wrap() -> None:
    data = build_batch([(None, b"")] * 3, NOW_MS, producer_id=1, producer_epoch=0, base_sequence=MAX_SEQUENCE)
    assert parse_header(data).last_sequence == 1


# ------------------------------------------------------------------------------------------------ patching


def test_offset_and_epoch_are_patched_outside_of_the_crc() -> None:
    data = build_batch([(b"k", b"v")] * 3, NOW_MS)
    header = parse_header(stamp(data, 1 << 40, 77))
    check_crc(stamp(data, 1 << 40, 77), 0, header)
    assert (header.base_offset, header.last_offset, header.next_offset, header.leader_epoch) == (
        1 << 40,
        (1 << 40) + 2,
        (1 << 40) + 3,
        77,
    )
    assert stamp(data, 1 << 40, 77)[16:] == data[16:]


def test_append_time_is_the_time_of_every_record() -> None:
    data = stamp_append_time(encode_batch([Record(0, 5, None, b"a"), Record(1, 6, None, b"b")]), NOW_MS)
    header = parse_header(data)
    check_crc(data, 0, header)
    assert header.is_log_append_time
    assert [row.timestamp for row in records(data)] == [NOW_MS, NOW_MS]
    again = stamp_create_time(data)
    check_crc(again, 0, parse_header(again))
    assert [row.timestamp for row in records(again)] == [5, 6]


def test_append_time_takes_bits_away_that_mean_nothing() -> None:
    data = stamp_append_time(build_batch([(None, b"a")], NOW_MS, attributes=0x4080), NOW_MS)
    check_crc(data, 0, parse_header(data))
    assert parse_header(data).attributes == 8


def test_batches_of_a_buffer_come_one_after_the_other() -> None:
    one, two = build_batch([(None, b"a")], NOW_MS), build_batch([(None, b"b")] * 2, NOW_MS)
    assert [pos for pos, _ in batches(one + two + one)] == [0, len(one), len(one + two)]
    assert [pos for pos, _ in batches(one + two + one, len(one), len(one + two))] == [len(one)]
    found = batches(one + two[:-1])
    assert next(found)[0] == 0
    with pytest.raises(TruncatedBatch):
        next(found)


# ------------------------------------------------------------------------------------------------ complaints


GOOD = build_batch([(b"k", b"v"), (None, None), (b"key", b"value" * 30)], NOW_MS)


def minus(number: int, size: int) -> bytes:
    return number.to_bytes(size, "big", signed=True)


@pytest.mark.parametrize(
    ("data", "kind", "error"),
    [
        (b"", TruncatedBatch, Err.CORRUPT_MESSAGE),
        (GOOD[:16], TruncatedBatch, Err.CORRUPT_MESSAGE),
        (GOOD[:60], TruncatedBatch, Err.CORRUPT_MESSAGE),
        (GOOD[:-1], TruncatedBatch, Err.CORRUPT_MESSAGE),
        (patched(GOOD, 8, minus(2**31 - 1, 4)), TruncatedBatch, Err.CORRUPT_MESSAGE),
        (patched(GOOD, 8, minus(-1, 4)), CorruptRecord, Err.CORRUPT_MESSAGE),
        (patched(GOOD, 8, minus(13, 4)), CorruptRecord, Err.CORRUPT_MESSAGE),
        (patched(GOOD, 8, minus(48, 4)), CorruptRecord, Err.CORRUPT_MESSAGE),
        (patched(GOOD, 16, b"\3"), CorruptRecord, Err.CORRUPT_MESSAGE),
        (patched(GOOD, 16, b"\xff"), CorruptRecord, Err.CORRUPT_MESSAGE),
        (patched(GOOD, 16, b"\0"), UnsupportedForMessageFormat, Err.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (patched(GOOD, 16, b"\1"), UnsupportedForMessageFormat, Err.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    ],
)
def test_impossible_headers_are_told(data: bytes, kind: type[RecordBatchError], error: Err) -> None:
    with pytest.raises(kind) as caught:
        parse_header(data)
    assert caught.value.error == error


@pytest.mark.parametrize("at", [17, 21, 30, 60, 61, 70, len(GOOD) - 1])
def test_a_changed_byte_under_the_checksum_is_told(at: int) -> None:
    data = patched(GOOD, at, bytes([GOOD[at] ^ 0x10]), seal=False)
    with pytest.raises(CorruptRecord, match="stored crc"):
        check_crc(data, 0, parse_header(data))


def look_at_records(data: bytes, pos: int, header: BatchHeader) -> None:
    """As a broker does; by the columns and by each record it is the same."""
    if header.codec is not Codec.NONE:
        return
    at, end = pos + HEADER_BYTES, pos + header.size
    one = many = None
    try:
        rows = []
        for _ in range(header.record_count):
            rows.append(record_at(data, at, end, True))
            at = rows[-1].end
        times = [row.timestamp_delta for row in rows]
        in_order = [row.offset_delta for row in rows] == list(range(len(rows)))
        one = (at, min(times), max(times), any(row.key_size < 0 for row in rows), in_order, len(rows))
    except RecordBatchError as error:
        one = type(error)
    try:
        many = scan(data, pos + HEADER_BYTES, end, 0, header.record_count, True)
    except RecordBatchError as error:
        many = type(error)
    if header.record_count > 0:
        assert one == many
    if isinstance(many, type):
        raise many("as found")
    if at != end:
        raise InvalidRecord("bytes remain")


def read_all(data: bytes) -> None:
    list(records(data))


def walk(data: bytes) -> None:
    look_at_records(data, 0, parse_header(data))


@pytest.mark.parametrize("read", [read_all, walk])
@pytest.mark.parametrize(
    "data",
    [
        patched(GOOD, 57, minus(2, 4)),
        patched(GOOD, 57, minus(4, 4)),
        patched(GOOD, 57, minus(2**31 - 1, 4)),
        patched(GOOD, 61, b"\x7e"),
        patched(GOOD, 61, b"\x01"),
        patched(GOOD, 61, b"\xff\xff\xff\xff\xff\xff"),
        patched(GOOD, 61, b"\xfe\xff\xff\xff\x0f"),
    ],
)
def test_records_that_do_not_fill_their_batch_are_told(read: Callable[[bytes], None], data: bytes) -> None:
    with pytest.raises((InvalidRecord, UnreadableRecords)):
        read(data)


@given(sizes=st.lists(st.sampled_from([5, 5, 5, 90, 200, 9000]), min_size=1, max_size=200), wrong=st.integers(0, 199))
def test_the_walk_over_the_lengths_sees_what_the_reader_sees(sizes: list[int], wrong: int) -> None:
    data = build_batch([(None, b"v" * size) for size in sizes], NOW_MS)
    walk(data)
    at = HEADER_BYTES
    for size in sizes[:wrong]:
        at += len(build_batch([(None, b"v" * size)], NOW_MS)) - HEADER_BYTES
    if at + 1 < len(data):
        broken = patched(data, at, bytes([data[at] ^ 0x04]))
        with pytest.raises(InvalidRecord):
            read_all(broken)
        # the walk does not look into records: what it lets pass at least adds up to the batch
        with contextlib.suppress(InvalidRecord):
            walk(broken)


@pytest.mark.parametrize("size", [5, 60, 100, 8180, 8200])
def test_records_of_one_length_are_walked_like_all_others(size: int) -> None:
    data = build_batch([(None, b"v" * size)] * 200, NOW_MS)
    walk(data)
    for cut in (1, size, size + 9):
        shorter = patched(data[:-cut], 8, (len(data) - cut - 12).to_bytes(4, "big"))
        with pytest.raises(InvalidRecord):
            walk(shorter)
    for count in (1, 63, 64, 65, 199, 201):
        with pytest.raises(InvalidRecord):
            walk(patched(data, 57, count.to_bytes(4, "big")))


def one_record(body: bytes) -> bytes:
    data = build_batch([(None, None)], NOW_MS)[:HEADER_BYTES] + bytes([len(body) * 2]) + body
    return patched(data, 8, (len(data) - 12).to_bytes(4, "big"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0\x01\x01",  # ends before its headers
        b"\0\0\0\x0a\x01\0",  # a key beyond the record
        b"\0\0\0\x01\x0a\0",  # a value beyond the record
        b"\0\0\0\x01\x01\x01",  # -1 headers
        b"\0\0\0\x01\x01\x7e",  # 63 headers
        b"\0\0\0\x01\x01\x02\x01\x01",  # a header without a name
        b"\0\0\0\x01\x01\0\0",  # a byte too many
        b"\0" + b"\xff" * 11 + b"\0\x01\x01\0",  # a timestamp of eleven bytes
    ],
)
def test_a_record_that_breaks_its_own_bounds_is_told(body: bytes) -> None:
    with pytest.raises(InvalidRecord):
        list(records(one_record(body)))


@given(st.data())
def test_no_bytes_make_the_reader_raise_anything_else(data: st.DataObject) -> None:
    broken = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 6))):
        broken[data.draw(st.integers(0, len(GOOD) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(broken[: data.draw(st.integers(0, len(GOOD)))])
    with contextlib.suppress(RecordBatchError):
        for pos, header in batches(cut):
            look_at_records(cut, pos, header)
            list(records(cut, pos, header, max_bytes=1 << 16))


@pytest.mark.parametrize("codec", Codec)
def test_unpacking_gives_the_turn_away(codec: Codec) -> None:
    many = compression.compress(codec, bytes(200)) * 50_000 if codec is Codec.GZIP else None
    plain = bytes(8 << 20)
    work = compression.unpacking(codec, many or compression.compress(codec, plain))
    out = b""

    def unpacked() -> Generator[None, None, None]:
        nonlocal out
        out = yield from work

    pieces = sum(1 for _ in unpacked())
    assert len(out) == (50_000 * 200 if many else len(plain))
    if codec in (Codec.GZIP, Codec.SNAPPY):
        assert pieces >= 7


@pytest.mark.parametrize("behind", [b"xyz", bytes(40), compression.compress(Codec.GZIP, b"")])
def test_what_follows_the_stream_of_gzip_is_passed_over_as_java_does(behind: bytes) -> None:
    assert compression.decompress(Codec.GZIP, compression.compress(Codec.GZIP, b"abc") + behind) == b"abc"


# ------------------------------------------------------------------------------------------------ Produce


def test_produce_carries_exactly_one_batch_of_magic_2() -> None:
    assert produce_batch(GOOD, 3).record_count == 3
    assert produce_batch(GOOD + GOOD[:20], 9).record_count == 3  # a cut second one is not seen, as in Kafka
    for data in (b"", GOOD[:10], GOOD + GOOD, patched(GOOD, 16, b"\1"), patched(GOOD, 16, b"\0")):
        with pytest.raises(InvalidRecord, match="Produce requests with version 7"):
            produce_batch(data, 7)


def test_zstd_needs_produce_7() -> None:
    data = encode_batch([Record(0, NOW_MS, None, b"v")], codec=Codec.ZSTD)
    assert produce_batch(data, 7).codec == Codec.ZSTD
    with pytest.raises(UnsupportedCompression) as caught:
        produce_batch(data, 6)
    assert caught.value.error == Err.UNSUPPORTED_COMPRESSION_TYPE


# ------------------------------------------------------------------------------------------------ compression


def bomb(codec: Codec, size: int) -> bytes:
    """A batch that unpacks to `size` zeros."""
    zeros = bytes(size)
    packed = {
        Codec.GZIP: lambda: zlib.compress(zeros, 9, wbits=31),
        Codec.SNAPPY: lambda: bytes(cramjam.snappy.compress_raw(zeros)),
        Codec.LZ4: lambda: bytes(cramjam.lz4.compress(zeros)),
        Codec.ZSTD: lambda: bytes(cramjam.zstd.compress(zeros)),
    }[codec]()
    data = patched(build_batch([(None, None)], NOW_MS)[:HEADER_BYTES] + packed, 21, bytes([0, codec]))
    return patched(data, 8, (len(data) - 12).to_bytes(4, "big"))


PACKED = [codec for codec in Codec if codec]


@pytest.mark.parametrize("codec", PACKED)
def test_a_zip_bomb_is_not_unpacked(codec: Codec) -> None:
    import tracemalloc

    data = bomb(codec, 100 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(DecompressedTooLarge) as caught:
            list(records(data, max_bytes=1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert caught.value.error == Err.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [0, 1, 1000, 200_000])
def test_the_bound_itself_is_allowed(codec: Codec, size: int) -> None:
    plain = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    packed = compression.compress(codec, plain)
    assert compression.decompress(codec, packed, size) == plain
    if size:
        with pytest.raises(compression.OutputTooLarge):
            compression.decompress(codec, packed, size - 1)


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize(
    "junk", [b"?", b"junk" * 20, b"\x82SNAPPY\0" + bytes(8) + b"\x7f\xff\xff\xff", b"\x82SNAPPY\0" + bytes(9)]
)
def test_bytes_that_are_not_of_their_codec_are_corrupt(codec: Codec, junk: bytes) -> None:
    data = patched(build_batch([(None, None)], NOW_MS)[:HEADER_BYTES] + junk, 21, bytes([0, codec]))
    data = patched(data, 8, (len(data) - 12).to_bytes(4, "big"))
    with pytest.raises((CorruptRecord, InvalidRecord)):
        list(records(data))


@pytest.mark.parametrize("codec", PACKED)
def test_a_stream_that_ends_early_is_corrupt(codec: Codec) -> None:
    packed = compression.compress(codec, bytes(range(256)) * 100)
    with pytest.raises(compression.CompressionError):
        compression.decompress(codec, packed[: len(packed) // 2])


def test_snappy_is_read_with_and_without_javas_framing() -> None:
    plain = b"hello " * 20_000
    assert compression.decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(plain))) == plain
    framed = compression.compress(Codec.SNAPPY, plain)
    assert framed.startswith(b"\x82SNAPPY\0")
    assert compression.decompress(Codec.SNAPPY, framed) == plain


def test_gzip_of_several_members_is_one_stream() -> None:
    packed = compression.compress(Codec.GZIP, b"one ") + compression.compress(Codec.GZIP, b"two")
    assert compression.decompress(Codec.GZIP, packed) == b"one two"


def test_a_missing_library_is_named_and_gzip_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    data = encode_batch([Record(0, NOW_MS, None, b"v")], codec=Codec.LZ4)
    monkeypatch.setitem(sys.modules, "cramjam", None)
    assert not compression.available(Codec.LZ4)
    assert compression.available(Codec.GZIP)
    with pytest.raises(UnsupportedCompression, match=r"broker-sim\[compression\]"):
        list(records(data))


def test_a_codec_that_no_kafka_knows_is_told() -> None:
    for number in (5, 6, 7):
        with pytest.raises(UnknownCodec) as caught:
            list(records(patched(GOOD, 21, bytes([0, number]))))
        assert caught.value.error == Err.UNKNOWN_SERVER_ERROR


# ------------------------------------------------------------------------------------------------ keys


@given(drawn=ROWS, codec=st.sampled_from(Codec))
def test_keys_are_those_that_the_reader_reads(drawn: list[Any], codec: Codec) -> None:
    rows = rows_of(drawn)
    data = encode_batch(rows, codec=codec, base_offset=0)
    expected = [(row.offset, row.key, row.value is not None) for row in rows]
    assert list(keys(data, 0, parse_header(data))) == expected
    assert list(keys(b"xyz" + data, 3, parse_header(data))) == expected


@pytest.mark.parametrize("size", [0, 63, 64, 8191, 8192, 100_000])
def test_keys_of_every_length_are_found(size: int) -> None:
    pairs = [(b"k" * size, b"v"), (None, b"v" * size), (b"k" * size, None), (b"", b"")] * 40
    data = build_batch(pairs, NOW_MS)
    assert list(keys(data, 0, parse_header(data))) == [
        (offset, key, value is not None) for offset, (key, value) in enumerate(pairs)
    ]


def test_keys_beyond_the_batch_are_told() -> None:
    with pytest.raises(InvalidRecord):
        list(keys(GOOD[:70], 0, parse_header(GOOD)))


def test_a_long_key_of_a_packed_batch_stands_for_itself_by_its_digest() -> None:
    size = 3 << 20
    rows = [Record(number, NOW_MS, key * size, b"v") for number, key in enumerate((b"a", b"b", b"a"))]
    data = encode_batch(rows, codec=Codec.GZIP)
    found = list(keys(data, 0, parse_header(data)))
    assert found.count(None) > 6  # others are served between the pieces of each
    named = [row[1] for row in found if row is not None]
    assert named[0] == named[2] != named[1]
    assert all(name is not None and len(name) < 100 for name in named)

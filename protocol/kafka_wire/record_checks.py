"""Whether a batch holds the records that its header tells of: what a broker checks of a client's batch without decoding it."""

from __future__ import annotations

from kafka_wire import compression
from kafka_wire.record_batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_END,
    BatchHeader,
    Codec,
    InvalidRecord,
    UnreadableRecords,
    unsigned_varint,
)


def check_record_lengths(data: bytes, pos: int, header: BatchHeader) -> None:
    """Raises InvalidRecord unless an uncompressed batch holds exactly `count` records that fill it.

    Walks the length prefixes only (some 0.1 us a record, next to nothing where they are equal). For a compressed batch
    there is `check_packed_records`.
    """
    if not header.attributes & CODEC_MASK:
        check_lengths(data, pos + HEADER_BYTES, pos + header.length + LENGTH_END, header.record_count)


def check_packed_records(data: bytes, pos: int, header: BatchHeader, max_bytes: int) -> None:
    """The same of a compressed batch, as far as its codec's library is there and no more than max_bytes come out.

    Raises InvalidRecord, UnreadableRecords (the bytes are not of their codec), UnknownCodec.
    """
    packed = data[pos + HEADER_BYTES : pos + header.length + LENGTH_END]
    if not packed:
        kind = InvalidRecord if header.codec is Codec.ZSTD else UnreadableRecords
        raise kind("a compressed batch without a byte")
    try:
        plain = compression.decompress(header.codec, packed, max_bytes)
    except (compression.DecompressedTooLarge, compression.CodecUnavailable):
        return
    except compression.CompressionError as error:
        raise UnreadableRecords(str(error)) from None
    check_lengths(plain, 0, len(plain), header.record_count)


def check_lengths(data: bytes, at: int, end: int, left: int) -> None:
    """Raises InvalidRecord unless exactly `left` records fill data[at:end]."""
    while left > 1:  # a batch of records of one length has runs of them: their offset deltas grow at 64 and at 8192
        run, at = _run_of_equal_lengths(data, at, end, left)
        left -= run
        if run < 16:
            break
    try:
        for _ in range(left):
            byte = data[at]
            if byte < 128:
                length = byte
                at += 1
            elif data[at + 1] < 128:
                length = (byte & 0x7F) | data[at + 1] << 7
                at += 2
            else:
                length, at = unsigned_varint(data, at, 5)
            if length & 1:
                raise InvalidRecord(f"Invalid record size: {-(length >> 1) - 1}")
            at += length >> 1
            if at > end:
                raise InvalidRecord("a record reaches beyond the end of its batch")
    except IndexError:
        raise InvalidRecord("a record reaches beyond the end of its batch") from None
    if at != end:
        raise InvalidRecord("Incorrect declared batch size, records still remaining in file")


def _run_of_equal_lengths(data: bytes, at: int, end: int, limit: int) -> tuple[int, int]:
    """How many records from `at` on have the length of the first (as far as one or two bytes tell it), and what follows.

    One slice takes the length bytes of all of them; 0 where the first one is none of these.
    """
    head = data[at : at + 2]
    if len(head) < 2 or (head[0] > 127 and head[1] > 127) or head[0] & 1:
        return 0, at
    if head[0] < 128:
        step = 1 + (head[0] >> 1)
    else:
        step = 2 + ((head[0] & 0x7F | head[1] << 7) >> 1)
    run = min(limit, (end - at) // step)
    firsts = data[at : at + run * step : step]
    run = len(firsts) - len(firsts.lstrip(head[:1]))
    if head[0] > 127:
        seconds = data[at + 1 : at + run * step : step]
        run = len(seconds) - len(seconds.lstrip(head[1:]))
    return run, at + run * step

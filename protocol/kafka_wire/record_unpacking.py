"""The records of a compressed batch, unpacked up to a bound; what is wrong with them is told as Kafka's error."""

from __future__ import annotations

from collections.abc import Generator

from kafka_wire import compression
from kafka_wire.compression import Codec
from kafka_wire.record_errors import CorruptRecord, DecompressedTooLarge, UnsupportedCompression


def unpack(codec: Codec, data: bytes, max_bytes: int) -> bytes:
    """As `unpacked`, at once."""
    work = unpacked(codec, data, max_bytes)
    while True:
        try:
            next(work)
        except StopIteration as done:
            return bytes(done.value)


def unpacked(codec: Codec, data: bytes, max_bytes: int) -> Generator[None, None, bytes | bytearray]:
    """The plain bytes of records, in pieces: yields after each. Raises as `records`."""
    try:
        return (yield from compression.unpacking(codec, data, max_bytes))
    except compression.DecompressedTooLarge as error:
        raise DecompressedTooLarge(str(error)) from None
    except compression.CompressionError as error:
        raise CorruptRecord(str(error)) from None
    except compression.CodecUnavailable as error:
        raise UnsupportedCompression(str(error)) from None

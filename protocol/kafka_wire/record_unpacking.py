"""The records of a compressed batch, decompressed up to a limit; invalid ones raise the error that Kafka returns for them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

from kafka_wire import compression
from kafka_wire.compression import Codec
from kafka_wire.record_errors import CorruptRecord, DecompressedTooLarge, UnsupportedCompression


def unpack(codec: Codec, data: bytes, max_bytes: int) -> bytes:
    """The plain bytes of records at once, of which there may be ``max_bytes``. Raises as `unpacked`."""
    with _kafkas_errors():
        return compression.decompress(codec, data, max_bytes)


def unpacked(codec: Codec, data: bytes, max_bytes: int) -> Generator[None, None, bytes | bytearray]:
    """The plain bytes of records, in pieces: yields after each. Raises as `records`."""
    with _kafkas_errors():
        return (yield from compression.unpacking(codec, data, max_bytes))


@contextmanager
def _kafkas_errors() -> Iterator[None]:
    try:
        yield
    except compression.OutputTooLarge as error:
        raise DecompressedTooLarge(str(error)) from None
    except compression.CompressionError as error:
        raise CorruptRecord(str(error)) from None
    except compression.CodecUnavailable as error:
        raise UnsupportedCompression(str(error)) from None

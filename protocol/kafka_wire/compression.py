"""Codecs of record batches: gzip, snappy (xerial framing or raw), lz4 frames, zstd; output is always bounded.

Rules:
1. The broker passes compressed batches through; only who must look inside (compaction, lookup by timestamp, tests)
   comes here, and pays for the import then.
2. No input makes more than `max_bytes` of output: a zip bomb ends in DecompressedTooLarge, not in memory.
3. gzip is the standard library's; the others need cramjam (the extra `broker-sim[compression]`).
4. `unpacking` gives the turn away after each piece of work (some milliseconds); `decompress` does it all at once. gzip
   and snappy come in pieces; lz4 and zstd unpack in one call of the library, whose bound is all that limits it.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Generator
from typing import Any

MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_PIECE_BYTES = 1024 * 1024
"""Bytes of output that are a piece of work."""
_STEP_COST = 1024
"""Cost of a library call beside its output, in bytes of output."""
_GZIP_WINDOW = 4096
"""Bytes of input that zlib is given at once: what a member leaves is copied, and there may be a member every 20 bytes."""
_LZ4_HEADER = bytes.fromhex("04224d18 60 40 82")  # magic, independent blocks, of 64 KiB, checksum of these two bytes
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED_BIT = 1 << 31
_INT32 = struct.Struct(">i")
_LITTLE_UINT32 = struct.Struct("<I")


class Codec(enum.IntEnum):
    """CompressionType.id of Kafka: bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_HEADS = {Codec.SNAPPY: _XERIAL_HEADER, Codec.LZ4: _LZ4_HEADER}
_BLOCK_BYTES = {Codec.SNAPPY: _XERIAL_BLOCK_BYTES, Codec.LZ4: _LZ4_BLOCK_BYTES}


class CompressionError(ValueError):
    """The compressed bytes are not what their codec says."""


class OutputTooLarge(CompressionError):
    """The output would exceed the caller's bound; nothing beyond the bound was unpacked."""


class CodecUnavailable(RuntimeError):
    """The library of this codec is not installed."""


def available(codec: Codec) -> bool:
    """Whether `compress` and `decompress` can work with `codec` in this installation."""
    try:
        _library(codec)
    except CodecUnavailable:
        return False
    return True


def decompress(codec: Codec, data: bytes, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The plain bytes of `data`.

    Raises CompressionError (bad bytes), DecompressedTooLarge (more than max_bytes), CodecUnavailable (no library).
    """
    work = unpacking(codec, data, max_bytes)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return bytes(end.value)


def unpacking(
    codec: Codec, data: bytes, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Generator[None, None, bytes | bytearray]:
    """`decompress` in pieces: yields after each, returns the plain bytes. Raises what `decompress` raises."""
    if codec == Codec.NONE:
        return data
    if codec == Codec.GZIP:
        return (yield from _gunzip(data, max_bytes))
    library = _library(codec)
    if codec == Codec.SNAPPY:
        return (yield from _unsnappy(library, data, max_bytes))
    return (yield from _decompress_frame(library, data, max_bytes))


def compress(codec: Codec, data: bytes) -> bytes:
    """`data` as a Kafka client would send it under `codec` (snappy in xerial framing). Raises CodecUnavailable."""
    packer = Packer(codec)
    packer.add(data)
    return packer.finish()


class Packer:
    """`compress` of what comes bit by bit. Raises CodecUnavailable."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._library = library = _library(codec)
        self._stream: Any = None
        if codec is Codec.GZIP:
            self._stream = zlib.compressobj(wbits=31)
        elif codec is Codec.ZSTD:
            self._stream = library.Compressor()
        self._parts: list[bytes] = [_HEADS.get(codec, b"")]
        self._block = _BLOCK_BYTES.get(codec, 0)
        self._rest = b""

    def add(self, data: bytes) -> None:
        """Compress the next bytes of the data."""
        if self._codec is Codec.GZIP:
            self._parts.append(self._stream.compress(data))
        elif self._codec is Codec.ZSTD:
            self._stream.compress(data)
        elif not self._block:
            self._parts.append(data)
        else:
            data = self._rest + data
            whole = len(data) - len(data) % self._block
            for start in range(0, whole, self._block):
                self._add_block(data[start : start + self._block])
            self._rest = data[whole:]

    def finish(self) -> bytes:
        """Return all data added, compressed. Called once."""
        if self._codec is Codec.GZIP:
            self._parts.append(self._stream.flush())
        elif self._codec is Codec.ZSTD:
            self._parts.append(bytes(self._stream.finish()))
        elif self._rest:
            self._add_block(self._rest)
        if self._codec is Codec.LZ4:
            self._parts.append(_LITTLE_UINT32.pack(0))
        return b"".join(self._parts)

    def _add_block(self, plain: bytes) -> None:
        """Add a block. Those of lz4 are independent: Java's Lz4BlockInputStream refuses a stream whose blocks refer to each other."""
        if self._codec is Codec.SNAPPY:
            block = bytes(self._library.compress_raw(plain))
            self._parts += (_INT32.pack(len(block)), block)
            return
        block = bytes(self._library.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            self._parts += (_LITTLE_UINT32.pack(len(block)), block)
        else:
            self._parts += (_LITTLE_UINT32.pack(len(plain) | _LZ4_STORED_BIT), plain)


def _library(codec: Codec) -> Any:
    """The cramjam module of `codec` (None where no library is needed)."""
    if codec in (Codec.NONE, Codec.GZIP):
        return None
    try:
        import cramjam
    except ImportError:
        raise CodecUnavailable(
            f"{codec.name.lower()} needs the library cramjam: pip install 'broker-sim[compression]'"
        ) from None
    return getattr(cramjam, codec.name.lower())


def _gunzip(data: bytes, max_bytes: int) -> Generator[None, None, bytearray]:
    """All members, as Java's GZIPInputStream: what follows the first and begins no other is passed over."""
    out = bytearray()
    member, whole, spent, pos, rest = zlib.decompressobj(wbits=31), False, 0, 0, b""
    while rest or pos < len(data):
        if not rest:
            rest, pos = data[pos : pos + _GZIP_WINDOW], pos + _GZIP_WINDOW
        try:
            part = member.decompress(rest, min(_PIECE_BYTES, max_bytes - len(out) + 1))
        except zlib.error as error:
            if whole and "header" in str(error):
                break
            raise CompressionError(f"gzip: {error}") from None
        out += part
        spent += len(part) + _STEP_COST
        if len(out) > max_bytes:
            raise OutputTooLarge(f"gzip: more than {max_bytes} bytes when unpacked")
        rest = member.unconsumed_tail
        if member.eof:
            rest, member, whole = member.unused_data, zlib.decompressobj(wbits=31), True
            spent += 8 * _STEP_COST
        if spent >= _PIECE_BYTES:
            spent = 0
            yield
    if not whole:
        raise CompressionError("gzip: the stream ends early")
    return out


def _unsnappy(library: Any, data: bytes, max_bytes: int) -> Generator[None, None, bytes | bytearray]:
    if not data.startswith(_XERIAL_MAGIC):
        return _unsnappy_block(library, data, max_bytes)
    out = bytearray()
    spent, pos = 0, len(_XERIAL_HEADER)
    while pos + 4 <= len(data):  # Java's reader takes less than a block's length for the end of the stream
        (size,) = _INT32.unpack_from(data, pos)
        pos += 4
        if size <= 0 or pos + size > len(data):
            raise CompressionError(f"snappy: a block of {size} bytes where {len(data) - pos} are left")
        part = _unsnappy_block(library, data[pos : pos + size], max_bytes - len(out))
        out += part
        pos += size
        spent += len(part) + _STEP_COST
        if spent >= _PIECE_BYTES:
            spent = 0
            yield
    return out


def _unsnappy_block(library: Any, block: bytes, max_bytes: int) -> bytes:
    if not block:
        return b""
    try:
        size = library.decompress_raw_len(block)
        if size > max_bytes:
            raise OutputTooLarge(f"snappy: a block of {size} bytes when unpacked, the limit is {max_bytes}")
        return bytes(library.decompress_raw(block))
    except CompressionError:
        raise
    except Exception as error:  # cramjam.DecompressionError derives from Exception alone
        raise CompressionError(f"snappy: {error}") from None


def _decompress_frame(library: Any, data: bytes, max_bytes: int) -> Generator[None, None, bytearray]:
    """lz4 and zstd do not tell the size reliably: try buffers that grow up to the bound."""
    size = min(max_bytes, max(4096, 4 * len(data)))
    while True:
        out = bytearray(size)
        if size > _PIECE_BYTES:
            yield  # 64 MiB that are cleared take as long as half their unpacking
        try:
            del out[library.decompress_into(data, out) :]  # no copy
            return out
        except Exception as error:
            if "whole buffer" not in str(error):
                raise CompressionError(f"{library.__name__}: {error}") from None
        if size >= max_bytes:
            raise OutputTooLarge(f"{library.__name__}: more than {max_bytes} bytes when unpacked")
        if size > _PIECE_BYTES:
            yield
        size = min(max_bytes, size * 4)

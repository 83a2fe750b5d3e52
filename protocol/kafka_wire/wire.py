"""The primitives that compiled decoders and encoders call, and the errors of the whole codec.

Their limits are Kafka's own (ByteBufferAccessor, ByteUtils, the classes its generator writes): what a broker would
refuse is refused here, what it lets pass is let pass. In particular

* a varint has at most 5 bytes, overlong forms are fine, and bits above the 32nd are dropped;
* tags may come in any order and twice, an unknown one is skipped, and the size written before a known one is not looked
  at;
* bytes that are not UTF-8 become U+FFFD in the way Java's String constructor does it.
"""

from __future__ import annotations

import codecs
import functools
import struct
from collections.abc import Generator

MAX_STRING = 0x7FFF
"""Bytes of the longest string, in compact form too."""

PIECE = 2000
"""Elements of arrays and tagged fields that are read or written at once, where that goes in pieces: one takes a microsecond or two."""


class DecodeError(ValueError):
    """Bytes that are not the message in the given version; the text says what is wrong and where."""


class EncodeError(ValueError):
    """A message that can't be encoded in the given version; the text says why."""


class UnknownVersionError(DecodeError, EncodeError):
    """The message doesn't exist in this version."""


# --- reading ---------------------------------------------------------------------------------------------------------


def read_uvarint(data: bytes, pos: int) -> tuple[int, int]:
    """The varint at ``pos`` as a signed 32-bit number, and the position behind it. Raises DecodeError, IndexError."""
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise DecodeError(f"the varint before byte {pos} is longer than 5 bytes")
    value &= 0xFFFFFFFF
    return (value if value < 0x80000000 else value - 0x100000000), pos


def read_length(data: bytes, pos: int) -> tuple[int, int]:
    """A compact length plus one, and the position behind it; less than one is null. Raises DecodeError, IndexError."""
    value, pos = read_uvarint(data, pos)
    return (value if value != -0x80000000 else 0x80000000), pos  # subtracting one wraps around in Kafka


def read_tag(data: bytes, pos: int) -> tuple[int, int, int]:
    """The head of a tagged field: tag, size, position of its value."""
    tag, pos = read_uvarint(data, pos)
    size, pos = read_uvarint(data, pos)
    return tag, size, pos


def skip_tag(tag: int, size: int, pos: int, end: int) -> int:
    """The position behind an unknown tagged field. Raises DecodeError."""
    if not 0 <= size <= end - pos:
        raise DecodeError(f"tag {tag} claims {size} bytes, {end - pos} are left")
    return pos + size


def skip_tags(data: bytes, pos: int, count: int, end: int) -> int:
    """The position after a section of tagged fields, all of them unknown. ``count``: its first byte, the one before ``pos``."""
    if count > 0x7F:
        count, pos = read_uvarint(data, pos - 1)
    return _skip(data, pos, count, end)


def _skip(data: bytes, pos: int, count: int, end: int) -> int:
    for _ in range(count):
        tag, size, pos = read_tag(data, pos)
        pos = skip_tag(tag, size, pos, end)
    return pos


def skip_tagged_fields(data: bytes, pos: int) -> int:
    """The position behind the tag section at ``pos``. Raises DecodeError, IndexError."""
    return skip_tags(data, pos + 1, data[pos], len(data)) if data[pos] else pos + 1


def skipping_tagged_fields(data: bytes, pos: int) -> Generator[None, None, int]:
    """As :func:`skip_tagged_fields`, in pieces: yields after each `PIECE` tags, which take two bytes each at least."""
    count, pos = read_uvarint(data, pos)
    while count > PIECE:
        pos, count = _skip(data, pos, PIECE, len(data)), count - PIECE
        yield
    return _skip(data, pos, count, len(data))


def too_long(name: str, length: int, left: int) -> DecodeError:
    """``name`` is longer than what is left, or longer than any may be."""
    return DecodeError(f"{name} has the length {length}, {left} bytes are left")


def unexpected_null(name: str) -> DecodeError:
    """``name`` is null in a version where it can't be."""
    return DecodeError(f"{name} is null")


def wrong_tag(tag: int, name: str) -> DecodeError:
    """A tag that the message has, though not in this version."""
    return DecodeError(f"tag {tag} ({name}) is not valid in this version")


def _java_replacement(error: UnicodeError) -> tuple[str, int]:
    """U+FFFD for the malformed bytes, as Java counts them: an encoded surrogate, even a cut one, is one sequence."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    at = error.object[error.start : error.start + 3]
    if len(at) > 1 and at[0] == 0xED and 0xA0 <= at[1] <= 0xBF:
        complete = len(at) > 2 and 0x80 <= at[2] <= 0xBF
        return "\ufffd", error.start + (3 if complete else 2)
    return "\ufffd", error.end


LENIENT = "kafka-replace"
"""The name of the error handler with which a broker reads strings."""

codecs.register_error(LENIENT, _java_replacement)


# --- writing ---------------------------------------------------------------------------------------------------------

ONE_BYTE = [bytes((i,)) for i in range(128)]
"""The varints of the numbers below 128."""


def uvarint(value: int) -> bytes:
    """The varint of a number from 0 on."""
    if value < 0x80:
        return ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string_length(name: str, length_plus_one: int) -> bytes:
    """The length of a compact string of 127 bytes and more. Raises EncodeError."""
    if length_plus_one > MAX_STRING + 1:
        raise EncodeError(f"{name} has {length_plus_one - 1} bytes, a string has at most {MAX_STRING}")
    return uvarint(length_plus_one)


def tagged(tag: int, pieces: list[bytes]) -> bytes:
    """A tagged field out of the pieces of its value."""
    value = b"".join(pieces)
    return uvarint(tag) + uvarint(len(value)) + value


def null_error(name: str) -> EncodeError:
    """``name`` is None in a version where it can't be."""
    return EncodeError(f"{name} is None, which this version can't carry")


def uuid_error(name: str, value: bytes) -> EncodeError:
    """``name`` is not the 16 bytes of a uuid."""
    return EncodeError(f"{name} is no uuid of 16 bytes: {value!r}")


@functools.lru_cache(maxsize=1024)
def repeated(fmt: str, count: int) -> struct.Struct:
    """``count`` times the primitive ``fmt``, big endian."""
    return struct.Struct(f">{count}{fmt}")

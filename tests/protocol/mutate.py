"""Bytes damaged the way that hostile and broken clients damage them; seeded, so that a failure comes back."""

from __future__ import annotations

from random import Random

_LIES = [
    b"\xff",
    b"\x00",
    b"\x7f",
    b"\x80",
    b"\xff\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x00\xff\xff",
    b"\x00\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",  # varints: the biggest
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x80\x80\x08",  # the smallest
    b"\x81\x80\x80\x80\x08",
    b"\x80\x80\x80\x80\x80\x01",  # too long
    b"\xff\xff\xff\xff\x7f",  # more than 32 bits
    b"\x81\x00",  # overlong
    b"\x80\x80\x02",
]
"""Lengths that lie: int8, int16, int32 and varint."""

_TAGS = [b"\x01\x05\x00", b"\x01\x00\x00", b"\x02\x07\x01x\x07\x01x", b"\x01\x00\x01\x00", b"\x01\x09\x7f", b"\x7f"]
"""Tag sections to stand in for an empty one."""

_TEXT = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xfe\xfe"]
"""Byte strings that are not UTF-8."""


def mutate(rng: Random, data: bytes, other: bytes) -> bytes:
    """``data`` with one to three damages; ``other`` gives pieces to splice in."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        data = _damage(rng, data, other)
    return data


def _damage(rng: Random, data: bytes, other: bytes) -> bytes:
    at = rng.randint(0, len(data))
    match rng.randrange(9):
        case 0:
            return data[:at]
        case 1:
            flipped = bytearray(data)
            if flipped:
                flipped[at % len(flipped)] ^= 1 << rng.randrange(8)
            return bytes(flipped)
        case 2 | 3:
            return _overwrite(data, at, rng.choice(_LIES))
        case 4:
            zero = data.rfind(b"\0", 0, at + 1)
            at = at if zero < 0 else zero
            return data[:at] + rng.choice(_TAGS) + data[at + 1 :]
        case 5:
            return _overwrite(data, at, rng.choice(_TEXT))
        case 6:
            return data[:at] + other[rng.randint(0, len(other)) :]
        case 7:
            end = min(len(data), at + rng.randint(1, 20))
            return data[:end] + data[at:end] + data[end:]
        case _:
            return data[:at] + rng.randbytes(rng.randint(1, 8)) + data[at:]


def _overwrite(data: bytes, at: int, piece: bytes) -> bytes:
    return data[:at] + piece + data[at + len(piece) :]

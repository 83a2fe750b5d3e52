"""The int16 that every key and value of an internal topic's records begins with: a record type, or a version."""

from __future__ import annotations

import struct

from kafka_wire.codec import DecodeError

INT16 = struct.Struct(">h")


def first(data: bytes, what: str) -> int:
    """Return the int16 at the head of a record's key or value, whichever ``what`` names. Raises DecodeError where it is too short."""
    try:
        (number,) = INT16.unpack_from(data)
    except struct.error:
        raise DecodeError(f"a record {what} of {len(data)} bytes") from None
    return int(number)

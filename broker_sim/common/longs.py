"""Java's long: 64 bits with overflow."""

from __future__ import annotations


def as_long(number: int) -> int:
    """A sum or difference as a Java long: its lowest 64 bits, signed."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)

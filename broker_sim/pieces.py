"""Replies in pieces, some of which are large: to copy those once more costs more than a system call of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

__all__ = ["WRITE_ALONE", "write_pieces"]

WRITE_ALONE = 65_536
"""A piece of at least that many bytes is given to the transport as it is."""


def write_pieces(transport: asyncio.WriteTransport, pieces: Sequence[bytes]) -> None:
    """Write ``pieces`` one behind the other; small neighbours are joined."""
    start = 0
    for number, piece in enumerate(pieces):
        if len(piece) >= WRITE_ALONE:
            if number > start:
                transport.write(b"".join(pieces[start:number]))
            transport.write(piece)
            start = number + 1
    if start == len(pieces) - 1:
        transport.write(pieces[start])
    elif start < len(pieces):
        transport.write(b"".join(pieces[start:]))

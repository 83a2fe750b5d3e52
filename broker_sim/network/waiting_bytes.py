"""Bytes of a connection that were read and not handled: frames that wait, and the beginning of an incomplete one.

Memory follows received bytes: a frame's announced length allocates nothing. While frames wait READ_AHEAD bytes and one read are kept at
most, then the socket is not read.
"""

from __future__ import annotations

import asyncio

__all__ = ["READ_AHEAD", "WaitingBytes"]

READ_AHEAD = 65_536
"""Bytes that may wait behind a pending request before the socket is no longer read."""


class WaitingBytes:
    """``rest``: not None while frames wait, the next of them at ``pos``; ``tail``: later bytes, or, if no frames wait, the beginning of
    a frame, which is looked at again when it has ``need`` bytes."""

    __slots__ = ("need", "pos", "reading", "rest", "tail", "transport")

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.rest: bytes | None = None
        self.pos = 0
        self.tail: bytearray | None = None
        self.need = 0
        self.reading = True

    @property
    def nothing_behind(self) -> bool:
        """Whether frames would wait, but none has come."""
        return self.rest == b"" and self.tail is None

    def hold(self, data: bytes, pos: int) -> None:
        """Let the frames of ``data`` from ``pos`` on wait."""
        if pos == len(data) and self.tail is None and self.reading:
            self.rest, self.pos = b"", 0
            return
        self.rest, self.pos = (data, pos) if pos < len(data) else (b"", 0)
        self._limit()

    def more(self, data: bytes) -> None:
        """Add bytes that came while frames wait."""
        if self.tail is None:
            self.tail = bytearray(data)
        else:
            self.tail += data
        self._limit()

    def keep(self, data: bytes, pos: int, need: int) -> None:
        """A frame begins at ``pos``; it has ``need`` bytes, as far as its announced length is known."""
        self.need = need
        self.tail = bytearray(memoryview(data)[pos:])

    def whole(self, data: bytes) -> bytes | None:
        """The frame's beginning with the new bytes, if it may be complete; else None."""
        tail = self.tail
        assert tail is not None
        tail += data
        if len(tail) < self.need:
            return None
        self.tail = None
        return bytes(tail)

    def release(self) -> bool:
        """Nothing blocks the waiting frames any more. Returns whether there are any; otherwise the socket is read again."""
        if self.rest or self.tail:
            return True
        self.rest = None
        self.read(True)
        return False

    def drop(self) -> None:
        """The connection is closed: drop all bytes."""
        self.rest = self.tail = self.transport = None

    def _limit(self) -> None:
        waiting = len(self.rest or b"") - self.pos + len(self.tail or b"")
        self.read(waiting < READ_AHEAD)

    def read(self, reading: bool) -> None:
        """Read the socket, or leave it unread."""
        if reading is not self.reading and self.transport is not None:
            self.reading = reading
            if reading:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

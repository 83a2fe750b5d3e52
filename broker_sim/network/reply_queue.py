"""Replies of a connection, in the order of the requests.

Two lists, one after the other: `out`, the replies that were not given to the transport yet, and `pending`, the requests without a
reply, with later replies. A large reply goes through a `ReplyWriter`; while it waits there, all later replies follow it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from broker_sim.network.reply_writer import WRITE_ALONE, ReplyWriter
from broker_sim.requests.context import RequestContext

__all__ = ["ReplyQueue"]


class ReplyQueue:
    """``paced``: a large reply is not all with the transport yet."""

    __slots__ = ("_large", "_unread", "_writer", "out", "paced", "pending")

    def __init__(self) -> None:
        self.pending: deque[RequestContext | list[bytes]] | None = None  # an empty one is half a connection's size
        self.out: list[bytes] = []
        self.paced = False
        self._large = False  # whether one of `out` may be WRITE_ALONE bytes long
        self._unread = False  # whether the transport has enough
        self._writer: ReplyWriter | None = None

    @property
    def small(self) -> bool:
        """Whether no reply in `out`, or in the writer, is large."""
        return not self._large and not self.paced

    def answered(self, frames: list[bytes]) -> int:
        """A reply: it goes out now, or behind the pending ones. Returns the number of bytes that go out now."""
        if self.pending:
            if frames:
                self.pending.append(frames)
            return 0
        self.out += frames
        size = len(frames[0]) if len(frames) == 1 else sum(map(len, frames))
        if size >= WRITE_ALONE:
            self._large = True
        return size

    def place(self) -> list[bytes]:
        """The place of a reply that comes later, in pieces: it is there once it is not empty."""
        reply: list[bytes] = []
        self.wait(reply)
        return reply

    def wait(self, pending: RequestContext | list[bytes]) -> None:
        """A request waits for its reply."""
        if self.pending is None:
            self.pending = deque()
        self.pending.append(pending)

    def take_answered(self) -> bool:
        """Move the replies that are there to `out`. Whether no request is left pending."""
        pending, out = self.pending, self.out
        while pending:
            head = pending[0]
            if isinstance(head, list):
                if not head:
                    break
                out += head
            elif head.frames is None:
                break
            else:
                out += head.frames
                self._large = self._large or len(head.frames) > 1  # joined unless it is large
            pending.popleft()
        return not pending

    def write(self, transport: asyncio.WriteTransport) -> None:
        """Give `out` to the transport, or to the writer in front of it."""
        out = self.out
        if not out:
            return
        if self._large or self.paced:
            self._large = False
            if self._writer is None:
                self._writer = ReplyWriter(transport)
                self._writer.paused = self._unread
            self.paced = not self._writer.write(out)
        else:
            transport.write(b"".join(out))
        out.clear()

    def pause(self) -> None:
        """The transport's buffer is full: stop writing."""
        self._unread = True
        if self._writer is not None:
            self._writer.paused = True

    def resume(self) -> bool:
        """The transport takes more. Whether nothing waits in front of it now."""
        self._unread = False
        if self._writer is not None:
            self._writer.paused = False
            if self.paced and not self._writer.resume():
                return False
        self.paced = False
        return True

    def drop(self) -> Iterator[RequestContext]:
        """The connection was closed: no response is sent any more. Returns the requests that waited."""
        self.out.clear()
        if self._writer is not None:
            self._writer.discard()
        pending, self.pending = self.pending, None
        return (waiting for waiting in pending or () if isinstance(waiting, RequestContext))

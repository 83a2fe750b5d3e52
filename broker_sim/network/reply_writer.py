"""Writes large replies without another copy, and no faster than the client reads them.

A reply of 55 MB that is given to the transport stays there until the client has read it, once for each client: sixty clients that did
not read took 1.4 GB. Here such a reply stays a slice of the log (`record_slices`): a connection holds what its transport takes (its
high-water mark) and one chunk, which is smaller while many connections wait.

Rules:
1. While a reply waits here, all writes of the connection go through here: the order of the bytes is the order of the calls.
2. The transport reports when its buffer is full: its protocol's pause_writing and resume_writing set `paused`. Nothing here polls or
   waits.
3. A log that can't be read any more in the midst of a reply closes the connection: the announced length can't be kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from typing import ClassVar

from broker_sim.storage.record_slices import RecordSlice
from kafka_wire.record_batch import RecordBatchError

__all__ = ["CHUNK_BYTES", "WRITE_ALONE", "WRITE_CHUNK", "ReplyWriter"]

WRITE_ALONE = 65_536
"""A piece of at least that many bytes is given to the transport as it is: copying it costs more than a system call of its own."""

WRITE_CHUNK = 262_144
"""Bytes of replies that are collected before they are handed to the transport."""

CHUNK_BYTES = 1 << 20
"""Bytes of a slice that are given to the transport at a time. The usual Fetch of 1 MiB is one system call so; in pieces of 64 KiB it
took twice the processor time."""

SMALL_CHUNK_BYTES, MANY = 65_536, 64
"""The same while that many replies of this process wait for their readers: a chunk is what a client that never reads costs beside the
transport's own buffer, and a thousand of them must not cost a GiB."""

log = logging.getLogger("broker_sim.server")


class ReplyWriter:
    """Writes pieces to ``transport``, one behind the other; what it does not take now follows with `resume`."""

    __slots__ = ("_chunks", "_slice", "_slow", "_transport", "_waiting", "paused")

    slow: ClassVar[int] = 0
    """Writers of this process whose client has not read all."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self._waiting: deque[bytes | RecordSlice] = deque()
        self._slice: RecordSlice | None = None
        self._chunks: Iterator[bytes] = iter(())
        self._slow = False
        self.paused = False
        """Whether the transport has enough."""

    def write(self, pieces: Iterable[bytes | RecordSlice]) -> bool:
        """Whether all of it, and of what came before, is with the transport. Small neighbours are joined."""
        waiting, small = self._waiting, list[bytes]()
        for piece in pieces:
            if isinstance(piece, bytes | bytearray) and len(piece) < WRITE_ALONE:
                small.append(bytes(piece))
                continue
            if small:
                waiting.append(b"".join(small))
                small.clear()
            waiting.append(piece)
        if small:
            waiting.append(b"".join(small))
        return self.resume()

    def resume(self) -> bool:
        """Hand over until the transport has enough, or nothing waits any more: then true."""
        if self._slice is None and not any(type(piece) is not bytes for piece in self._waiting):
            while self._waiting:  # bytes are here already: to hold them back would spare nothing
                self._transport.write(self._waiting.popleft())  # type: ignore[arg-type]
            return True
        try:
            while not self.paused:
                if not self._hand_over():
                    self._count(slow=False)
                    return True
        except (OSError, RecordBatchError) as error:
            peer = self._transport.get_extra_info("peername")
            log.warning(
                "closing the connection of %s: the records of a response can no longer be read from the log: %s",
                peer,
                error,
            )
            self.discard()
            self._transport.abort()
            return False
        self._count(slow=True)
        return False

    def _count(self, *, slow: bool) -> None:
        if slow is not self._slow:
            self._slow = slow
            ReplyWriter.slow += 1 if slow else -1

    def _hand_over(self) -> bool:
        """The next chunk or piece; whether there was one."""
        chunk = next(self._chunks, None)
        if chunk is not None:
            self._transport.write(chunk)
            return True
        self._end_slice()
        if not self._waiting:
            return False
        piece = self._waiting.popleft()
        if isinstance(piece, bytes | bytearray):
            self._transport.write(piece)
        else:
            self._slice, self._chunks = (
                piece,
                piece.chunks(CHUNK_BYTES if ReplyWriter.slow < MANY else SMALL_CHUNK_BYTES),
            )
        return True

    def _end_slice(self) -> None:
        if self._slice is not None:
            self._slice.close()
            self._slice, self._chunks = None, iter(())

    def discard(self) -> None:
        """The connection is closed: release the replies that wait."""
        self._count(slow=False)
        self._end_slice()
        while self._waiting:
            piece = self._waiting.popleft()
            if not isinstance(piece, bytes | bytearray):
                piece.close()

"""Record batches of a log that are read when they are wanted: what a large Fetch answer consists of until it goes out.

A broker that reads 55 MB for each client that asks holds 55 MB for each client that does not read its answer. Kafka sends from the file
(FileRecords, transferTo); here a slice remembers where the batches stand, and gives them piece by piece as the socket takes them.

Rules:
1. A slice stays valid whatever happens to the log: one in memory refers to the batches, which are immutable; one on disk has its own
   file descriptor, so it can also read a segment that was deleted, or replaced by the cleaner.
2. Its reader reads it once, in order, and closes it. An unread slice (of a response that is not sent) releases its resources when it is
   garbage collected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from broker_sim.storage.files import Files
from kafka_wire.record_batch import CorruptRecord

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DiskSlice", "MemorySlice", "RecordSlice", "whole"]


class RecordSlice(Protocol):
    """Whole record batches that follow each other; ``len()`` of it are their bytes."""

    def __len__(self) -> int:
        """The size of the slice in bytes."""

    def chunks(self, size: int) -> Iterator[bytes]:
        """Yield all bytes in order, ``size`` bytes at a time or a little fewer. Raises OSError, CorruptRecord (the file ends early)."""

    def __bytes__(self) -> bytes:
        """Read all bytes at once. Raises as `chunks`."""

    def close(self) -> None:
        """Release its file descriptor or batches; a second call has no effect."""


def whole(data: bytes | RecordSlice) -> bytes:
    """The bytes; a slice is closed."""
    if isinstance(data, bytes):
        return data
    try:
        return bytes(data)
    finally:
        data.close()


class MemorySlice:
    """Batches of a log in memory, shared with it."""

    __slots__ = ("_batches", "_size")

    def __init__(self, batches: Sequence[bytes], size: int) -> None:
        self._batches, self._size = batches, size

    def __len__(self) -> int:
        return self._size

    def chunks(self, size: int) -> Iterator[bytes]:
        small: list[bytes] = []
        held = 0
        for batch in self._batches:
            if held + len(batch) > size and small:
                yield b"".join(small)
                small, held = [], 0
            if len(batch) > size:
                for start in range(0, len(batch), size):
                    yield batch[start : start + size]
                continue
            small.append(batch)
            held += len(batch)
        if small:
            yield b"".join(small)

    def __bytes__(self) -> bytes:
        return self._batches[0] if len(self._batches) == 1 else b"".join(self._batches)

    def close(self) -> None:
        self._batches = ()


class DiskSlice:
    """Bytes of a segment's file, from ``position`` on. Raises OSError where the file can't be opened."""

    __slots__ = ("_fd", "_files", "_path", "_position", "_size")

    def __init__(self, files: Files, path: Path, position: int, size: int) -> None:
        self._files, self._path, self._position, self._size = files, path, position, size
        self._fd = files.open(path)

    def __len__(self) -> int:
        return self._size

    def chunks(self, size: int) -> Iterator[bytes]:
        at, end = self._position, self._position + self._size
        while at < end and self._fd >= 0:
            data = self._files.read(self._fd, min(size, end - at), at)
            if not data:
                raise CorruptRecord(f"{self._path} ends at position {at}, where {end - at} more bytes were being read")
            yield data
            at += len(data)

    def __bytes__(self) -> bytes:
        return b"".join(self.chunks(self._size))

    def close(self) -> None:
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1

    __del__ = close

"""Offset index and time index of one segment, in Kafka's format, held in memory as arrays.

Rules:
1. An entry of `.index` is (last offset of a batch - base offset, position of that batch): i32, i32. An entry of
   `.timeindex` is (largest timestamp so far, last offset of its batch - base offset): i64, i32. Big endian, ascending.
2. The arrays are the truth while the segment is open; the file gets the new entries at `save`. A file that is behind,
   absent or senseless costs a scan of its segment at open, never data.
Source: OffsetIndex, TimeIndex (storage).
"""

from __future__ import annotations

import itertools
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from broker_sim.storage.files import Files

if TYPE_CHECKING:
    from pathlib import Path

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12


class OffsetIndex:
    """Relative last offsets and positions, one entry per index.interval.bytes of log."""

    __slots__ = ("offsets", "positions", "saved")

    def __init__(self) -> None:
        self.offsets = array("I")
        self.positions = array("I")
        self.saved = 0
        """Entries that the file has already."""

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, relative_offset: int, position: int) -> None:
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def lookup(self, relative_offset: int) -> int:
        """Position of a batch that begins at or before the offset: 0 before the first entry."""
        at = bisect_right(self.offsets, relative_offset)
        return self.positions[at - 1] if at else 0

    def boundary(self, position: int) -> int:
        """The greatest known batch position that is not after `position`: 0 if none is."""
        at = bisect_right(self.positions, position)
        return self.positions[at - 1] if at else 0

    def truncate(self, position: int) -> None:
        """Forget the entries for batches at `position` and after."""
        keep = bisect_left(self.positions, position)
        del self.offsets[keep:], self.positions[keep:]
        self.saved = min(self.saved, keep)

    def load(self, data: bytes, log_bytes: int) -> bool:
        """Take over a file's bytes (zeros of a preallocated file are cut); False if they can't be this segment's."""
        if len(data) % OFFSET_ENTRY_BYTES:
            return False
        flat = _ints(data)
        offsets, positions = flat[0::2], flat[1::2]
        # only the entry at position 0 could look like preallocated space, and no entry points at the first batch
        used = len(positions)
        while used and positions[used - 1] == 0:
            used -= 1
        del offsets[used:], positions[used:]
        if used and (positions[-1] >= log_bytes or positions[0] == 0 or not _ascending(positions)):
            return False
        if not _ascending(offsets):
            return False
        self.offsets, self.positions, self.saved = offsets, positions, used
        return True

    def tail(self, start: int) -> bytes:
        """The file's bytes of the entries from number `start` on."""
        flat = array("I", bytes(8 * (len(self.offsets) - start)))
        flat[0::2] = self.offsets[start:]
        flat[1::2] = self.positions[start:]
        if sys.byteorder == "little":
            flat.byteswap()
        return flat.tobytes()


class TimeIndex:
    """Largest timestamps so far (ms) and where they are."""

    __slots__ = ("offsets", "saved", "timestamps")

    _ENTRY = struct.Struct(">qI")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("I")
        self.saved = 0

    def __len__(self) -> int:
        return len(self.timestamps)

    def append(self, timestamp: int, relative_offset: int) -> None:
        """An entry, unless the timestamp is no later than the last one's."""
        if timestamp >= 0 and (not self.timestamps or timestamp > self.timestamps[-1]):
            self.timestamps.append(timestamp)
            self.offsets.append(relative_offset)

    def lookup(self, timestamp: int) -> int:
        """Relative offset of the last entry before `timestamp` (batches up to it are all earlier), -1 without one."""
        at = bisect_left(self.timestamps, timestamp)
        return self.offsets[at - 1] if at else -1

    def truncate(self, relative_offset: int) -> None:
        """Forget the entries at `relative_offset` and after."""
        keep = bisect_left(self.offsets, relative_offset)
        del self.timestamps[keep:], self.offsets[keep:]
        self.saved = min(self.saved, keep)

    def load(self, data: bytes, last_relative_offset: int) -> bool:
        """Load the file's entries, as OffsetIndex.load."""
        if len(data) % TIME_ENTRY_BYTES:
            return False
        timestamps, offsets = array("q"), array("I")
        for timestamp, offset in self._ENTRY.iter_unpack(data):
            if timestamp <= 0 and offset == 0 and timestamps:
                break
            timestamps.append(timestamp)
            offsets.append(offset)
        if len(timestamps) == 1 and timestamps[0] == 0 and offsets[0] == 0:
            timestamps.pop()  # nothing but preallocated space
            offsets.pop()
        if not _ascending(timestamps) or not _ascending(offsets):
            return False
        if offsets and offsets[-1] > last_relative_offset:
            return False
        self.timestamps, self.offsets, self.saved = timestamps, offsets, len(timestamps)
        return True

    def tail(self, start: int) -> bytes:
        """The file's bytes of the entries from number `start` on."""
        pack = self._ENTRY.pack
        return b"".join(
            pack(self.timestamps[number], self.offsets[number]) for number in range(start, len(self.timestamps))
        )


def save_index(files: Files, path: Path, index: OffsetIndex | TimeIndex, *, sync: bool = False) -> None:
    """Update an index file: missing entries are added, entries after the last one are cut."""
    entry_bytes = OFFSET_ENTRY_BYTES if isinstance(index, OffsetIndex) else TIME_ENTRY_BYTES
    fd = files.open(path, create=True)
    try:
        start = index.saved
        files.truncate(fd, start * entry_bytes)
        fresh = index.tail(start)
        if fresh:
            files.append(fd, fresh, start * entry_bytes)
        if sync:
            files.sync(fd)
        index.saved = len(index)
    finally:
        files.close(fd)


def _ints(data: bytes) -> array[int]:
    flat = array("I")
    flat.frombytes(data)
    if sys.byteorder == "little":
        flat.byteswap()
    return flat


def _ascending(values: array[int]) -> bool:
    return all(a < b for a, b in itertools.pairwise(values))

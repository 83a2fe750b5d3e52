"""A segment in memory: the received batches, with the data of look-ups.

It behaves as a segment on disk, so that a log without a directory rolls, expires, compacts and truncates alike.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from broker_sim.storage.record_slices import MemorySlice, RecordSlice, whole
from broker_sim.storage.segment import SLICE_BYTES, Mark
from broker_sim.storage.transactions import AbortedTransaction
from kafka_wire.record_batch import BatchHeader, parse_header

_INDEX_INTERVAL = 4096
"""The default of index.interval.bytes, on which the number of aborted transactions in a Fetch response depends."""


class MemorySegment:
    """Batches from `base_offset` on; see segment.Segment for what each member means."""

    __slots__ = (
        "_batches",
        "_ends",
        "_index_offsets",
        "_index_positions",
        "_indexed",
        "_last_offsets",
        "_latest",
        "base_offset",
        "created_ms",
        "first_timestamp",
        "index_full",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "size",
    )

    def __init__(self, base_offset: int, created_ms: int) -> None:
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.index_full = False
        self._batches: list[bytes] = []
        self._last_offsets = array("q")
        self._ends = array("q")  # where each batch ends, counted in bytes from the segment's start
        self._latest = array("q")  # the largest timestamp up to and with each batch
        self._index_positions = array("q")  # of the batches that are in the offset index of a segment on disk
        self._index_offsets = array("q")
        self._reset()

    def _reset(self) -> None:
        self.size = 0
        self.next_offset = self.base_offset
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        self.first_timestamp: int | None = None
        self._indexed = 0  # where the last entry of the offset index is
        del self._index_positions[:], self._index_offsets[:]

    def append(self, data: bytes, marks: Sequence[Mark]) -> None:
        start = 0
        for size, last_offset, timestamp in marks:
            self.append_one(data[start : start + size], last_offset, timestamp)
            start += size

    def append_one(self, data: bytes, last_offset: int, timestamp: int) -> None:
        self._batches.append(data)
        size = self.size
        if size - self._indexed > _INDEX_INTERVAL:
            self._index_positions.append(size)
            self._index_offsets.append(last_offset)
            self._indexed = size
        self.size = size = size + len(data)
        self.next_offset = last_offset + 1
        self._ends.append(size)
        self._last_offsets.append(last_offset)
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
            if self.first_timestamp is None:
                self.first_timestamp = timestamp
        elif self.first_timestamp is None:
            self.first_timestamp = timestamp
        self._latest.append(self.max_timestamp)

    def read(self, offset: int, max_bytes: int, up_to_offset: int | None, min_one: bool) -> bytes:
        return whole(self.slice(offset, max_bytes, up_to_offset, min_one))

    def slice(self, offset: int, max_bytes: int, up_to_offset: int | None, min_one: bool) -> bytes | RecordSlice:
        first = bisect_left(self._last_offsets, offset)
        count = len(self._batches)
        if first >= count:
            return b""
        start = self._ends[first - 1] if first else 0
        stop = count if start + max_bytes >= self.size else bisect_right(self._ends, start + max_bytes, first)
        if stop == first and min_one:
            stop = first + 1
        if up_to_offset is not None and up_to_offset < self.next_offset:
            stop = min(stop, bisect_left(self._last_offsets, up_to_offset))
        if stop <= first:
            return b""
        size = self._ends[stop - 1] - start
        if size >= SLICE_BYTES:
            return MemorySlice(self._batches[first:stop], size)
        return self._batches[first] if stop - first == 1 else b"".join(self._batches[first:stop])

    def seek(self, offset: int) -> int:
        first = bisect_left(self._last_offsets, offset)
        return self._ends[first - 1] if first else 0

    def upper_bound(self, offset: int, size: int) -> int | None:
        at = bisect_left(self._index_positions, self.seek(offset) + size)
        return self._index_offsets[at] if at < len(self._index_offsets) else None

    def batches(self, offset: int = 0) -> Iterator[tuple[BatchHeader, bytes, int]]:
        for number in range(bisect_left(self._last_offsets, offset), len(self._batches)):
            batch = self._batches[number]
            yield parse_header(batch), batch, 0

    def batches_from_timestamp(self, timestamp: int) -> Iterator[tuple[BatchHeader, bytes, int]]:
        batches = self._batches  # as they are now: between two of them the log may be cut
        for number in range(bisect_left(self._latest, timestamp), len(batches)):
            batch = batches[number]
            yield parse_header(batch), batch, 0

    def truncate_to(self, offset: int) -> None:
        keep = bisect_left(self._last_offsets, offset)
        kept = self._batches[:keep]
        self._batches = []
        del self._last_offsets[:], self._ends[:], self._latest[:]
        self._reset()
        for batch in kept:
            header = parse_header(batch)
            self.append_one(batch, header.last_offset, header.max_timestamp)

    def save_aborted(self, entries: Sequence[AbortedTransaction], *, sync: bool = False) -> None:
        """Without effect: a log in memory has no transaction index file."""

    def add_aborted(self, entry: AbortedTransaction, number: int) -> None:
        """Without effect: the log itself lists its aborted transactions."""

    def became_inactive(self) -> None:
        """Nothing to finish in memory."""

    def sync(self) -> None:
        """Nothing to wait for in memory."""

    def flush(self, sync: bool) -> None:
        """Nothing to write in memory."""

    def discard(self) -> None:
        """Nothing to remove in memory."""

    def close(self) -> None:
        """Nothing to give back in memory."""

    def delete(self) -> None:
        self._batches = []
        del self._last_offsets[:], self._ends[:], self._latest[:]

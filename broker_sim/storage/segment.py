"""One segment on disk: `<base offset>.log` with its two indexes, in Kafka's format.

Rules:
1. An append is one write at the segment's end; it is there whole or not at all. In the page cache it survives the
   end of this process, `sync` makes it survive the machine's.
2. Index entries are gathered in memory and written when the segment is rolled, flushed or closed.
3. Reads cut at batch boundaries. A batch that can't be read raises CorruptRecord: a segment in use was checked at
   open, so this is damage that came later.
Source: LogSegment (storage).
"""

from __future__ import annotations

import contextlib
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from broker_sim.storage.files import FILES, Files
from broker_sim.storage.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex, save_index
from broker_sim.storage.log_config import LogConfig
from broker_sim.storage.record_slices import DiskSlice, RecordSlice
from broker_sim.storage.transactions import ENTRY, AbortedTransaction, encode_entries
from kafka_wire.record_batch import (
    HEADER_BYTES,
    LENGTH_END,
    BatchHeader,
    CorruptRecord,
    RecordBatchError,
    TruncatedBatch,
    check_crc,
    parse_header,
)

if TYPE_CHECKING:
    from pathlib import Path

Mark = tuple[int, int, int]
"""Position data of an appended batch for its segment: (bytes, last offset, max timestamp)."""

READ_BYTES = 1 << 20
SEEK_BYTES = 8192
SLICE_BYTES = 65_536
"""Reads from that size on wait in the log until the client takes them: as many bytes as go out in one piece anyway."""
CUT_SLACK_BYTES = 16 * 1024
MAX_RELATIVE_OFFSET = 2**31 - 1

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
_OFFSET_AND_LENGTH = struct.Struct(">qi")
_LAST_DELTA = struct.Struct(">i")


class Segment(Protocol):
    """A segment of a log, on disk or in memory."""

    base_offset: int
    next_offset: int
    """One past the last record; base_offset while empty."""
    size: int
    created_ms: int
    first_timestamp: int | None
    """Max timestamp of the first batch: segment.ms counts from it."""
    max_timestamp: int
    max_timestamp_offset: int
    """Last offset of the batch that has max_timestamp."""

    index_full: bool
    """Whether an index has no room for another entry, so that the log has to roll."""

    def append(self, data: bytes, marks: Sequence[Mark]) -> None:
        """Add whole batches, already stamped. Raises OSError, and then nothing was added."""

    def append_one(self, data: bytes, last_offset: int, timestamp: int) -> None:
        """The same for a single batch with this last offset and max timestamp."""

    def read(self, offset: int, max_bytes: int, up_to_offset: int | None, min_one: bool) -> bytes:
        """Whole batches from the one with `offset` (or the next one) on, that end before `up_to_offset`."""

    def slice(self, offset: int, max_bytes: int, up_to_offset: int | None, min_one: bool) -> bytes | RecordSlice:
        """The result of `read`; if that is SLICE_BYTES or more, a slice that reads it later."""

    def seek(self, offset: int) -> int:
        """Position of the first batch whose last offset is >= offset; the segment's size without such a batch."""

    def upper_bound(self, offset: int, size: int) -> int | None:
        """An offset behind the `size` bytes that a read from `offset` gave, not far; None: they may reach to its end."""

    def batches(self, offset: int = 0) -> Iterator[tuple[BatchHeader, bytes, int]]:
        """(header, buffer, position in it) of every batch from the one with `offset` on."""

    def batches_from_timestamp(self, timestamp: int) -> Iterator[tuple[BatchHeader, bytes, int]]:
        """As batches, beginning at or before the first batch whose max timestamp is >= timestamp."""

    def truncate_to(self, offset: int) -> None:
        """Drop the batch with `offset` and all later ones."""

    def save_aborted(self, entries: Sequence[AbortedTransaction], *, sync: bool = False) -> None:
        """Write the aborted transactions whose markers it contains: its `.txnindex`. Raises OSError."""

    def add_aborted(self, entry: AbortedTransaction, number: int) -> None:
        """The same of the one that comes as its `number`th (from 0 on)."""

    def became_inactive(self) -> None:
        """The last append has been: finish the indexes."""

    def sync(self) -> None:
        """Wait until all appended bytes are on the disk."""

    def flush(self, sync: bool) -> None:
        """Write buffered data to the files; `sync` waits for the disk."""

    def close(self) -> None:
        """Give back what the system lent; reads open it again."""

    def delete(self) -> None:
        """Delete the segment's files from the disk."""

    def discard(self) -> None:
        """Remove one that could not be finished; what fails about it is passed over."""


def should_roll(segment: Segment, config: LogConfig, incoming: int, last_offset: int, latest: int, now_ms: int) -> bool:
    """LogSegment.shouldRoll: by size, by time between the first and this batch, by index, by offset distance."""
    if not segment.size:
        return False
    if segment.size > config.segment_bytes - incoming or segment.index_full:
        return True
    if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return True
    first = segment.first_timestamp
    waited = latest - first if first is not None and first >= 0 else now_ms - segment.created_ms
    return waited > config.segment_ms


class DiskSegment:
    """A segment of a log directory. Opened on first use; see Segment for its members."""

    __slots__ = (
        "_fd",
        "_files",
        "_index_interval",
        "_max_index_bytes",
        "_offset_index",
        "_since_index",
        "_time_index",
        "base_offset",
        "created_ms",
        "first_timestamp",
        "index_full",
        "log_path",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "size",
        "sync_appends",
    )

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        *,
        created_ms: int,
        index_interval: int,
        max_index_bytes: int,
        files: Files = FILES,
        suffix: str = "",
    ) -> None:
        self.log_path = directory / f"{base_offset:020d}.log{suffix}"
        self.base_offset = base_offset
        self.created_ms = created_ms
        self._index_interval = index_interval
        self._max_index_bytes = max_index_bytes
        self._files = files
        self._fd = -1
        self.sync_appends = False
        """Whether an append waits for the disk."""
        self.reset()

    def reset(self) -> None:
        self.size = 0
        self.next_offset = self.base_offset
        self.first_timestamp: int | None = None
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        self._offset_index: OffsetIndex | None = OffsetIndex()
        self._time_index: TimeIndex | None = TimeIndex()
        self._since_index = 0
        self._measure_indexes(0, 0)

    def path(self, kind: str) -> Path:
        """Path of the segment's file `kind` ("log", "index" ...), with the suffix that all of them have."""
        stem, _, suffix = self.log_path.name.partition(".log")
        return self.log_path.with_name(f"{stem}.{kind}{suffix}")

    def create(self) -> None:
        """Make the segment's files, empty. Raises OSError."""
        self._fd = self._files.open(self.log_path, create=True)
        self._files.opened(self)
        self._files.truncate(self._fd, 0)
        self.save_indexes()

    @property
    def fd(self) -> int:
        if self._fd < 0:
            self._fd = self._files.open(self.log_path)
            self._files.opened(self)
        return self._fd

    @property
    def offset_index(self) -> OffsetIndex:
        """Read from its file on first use, where the segment was found finished at open."""
        if self._offset_index is None:
            self._load_indexes()
        assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, loaded at first use as offset_index."""
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    def _measure_indexes(self, offsets: int, times: int) -> None:
        """Kafka rolls when an index could not take one more entry (the time index keeps one for the roll itself)."""
        limit = self._max_index_bytes
        self.index_full = (offsets + 1) * OFFSET_ENTRY_BYTES > limit or (times + 2) * TIME_ENTRY_BYTES > limit

    # -------------------------------------------------------------------------------------------- writing

    def append(self, data: bytes, marks: Sequence[Mark]) -> None:
        self._put(data)
        for size, last_offset, timestamp in marks:
            self.note(size, last_offset, timestamp)

    def append_one(self, data: bytes, last_offset: int, timestamp: int) -> None:
        self._put(data)
        self.note(len(data), last_offset, timestamp)

    def _put(self, data: bytes) -> None:
        fd = self._fd
        if fd < 0:
            fd = self.fd
        self._files.append(fd, data, self.size)
        if self.sync_appends:
            try:
                self._files.sync(fd)
            except OSError:
                self._files.truncate(fd, self.size)
                raise

    def note(self, size: int, last_offset: int, timestamp: int) -> None:
        """Update size, offsets and indexes for a batch of `size` bytes at the segment's end; recovery rebuilds the indexes with it,
        too."""
        if self.first_timestamp is None:
            self.first_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        if self._since_index > self._index_interval:
            offsets, times = self.offset_index, self.time_index
            offsets.append(last_offset - self.base_offset, self.size)
            times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            self._measure_indexes(len(offsets), len(times))
            self._since_index = 0
        self._since_index += size
        self.size += size
        self.next_offset = last_offset + 1

    def became_inactive(self) -> None:
        if self.max_timestamp_offset >= 0:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self.save_indexes()

    def save_indexes(self, *, sync: bool = False) -> None:
        """Bring both index files up to date. Raises OSError."""
        save_index(self._files, self.path("index"), self.offset_index, sync=sync)
        save_index(self._files, self.path("timeindex"), self.time_index, sync=sync)

    def save_aborted(self, entries: Sequence[AbortedTransaction], *, sync: bool = False) -> None:
        path = self.path("txnindex")
        if entries:
            self._files.replace_file(path, encode_entries(entries), sync=sync)
        elif self._files.exists(path):
            self._files.remove(path)

    def add_aborted(self, entry: AbortedTransaction, number: int) -> None:
        fd = self._files.open(self.path("txnindex"), create=True)
        try:
            self._files.append(fd, encode_entries([entry]), number * ENTRY.size)
        finally:
            self._files.close(fd)

    def sync(self) -> None:
        """Wait until the log file's bytes are on the disk. Raises OSError."""
        self._files.sync(self.fd)

    def flush(self, sync: bool) -> None:
        sync = sync and self.size > 0  # an empty one has nothing to lose, and most of fifty partitions are empty
        self.save_indexes(sync=sync)
        if sync:
            self.sync()

    def truncate_to(self, offset: int) -> None:
        self.truncate_bytes(self.seek(offset))

    def truncate_bytes(self, position: int) -> None:
        """Truncate the log file at a batch boundary and rebuild the indexes of the rest."""
        self._files.truncate(self.fd, position)
        self._rebuild(position)
        self.save_indexes()

    def _rebuild(self, end: int) -> None:
        self.reset()
        for header, _, _ in self.scan(0, end):
            if not self.next_offset <= header.last_offset <= self.base_offset + MAX_RELATIVE_OFFSET:
                raise CorruptRecord(f"{self.log_path} has offset {header.last_offset} where it can't be")
            self.note(header.size, header.last_offset, header.max_timestamp)

    def adopt_finished(self, size: int) -> bool:
        """Take over a segment that was rolled before this process began, from its indexes and its last few batches.

        False where they don't fit together or can't be read: then it has to be scanned. Raises OSError.
        """
        entry = self._last_entry("index", OFFSET_ENTRY)
        time_entry = self._last_entry("timeindex", TIME_ENTRY)
        if entry is None or time_entry is None or not 0 < entry[1] < size or time_entry[0] <= 0:
            return False  # an index without entries, or preallocated space: too little to go by
        position = entry[1]
        if time_entry[1] < entry[0]:  # the time index may have lost its end: what it does not cover is looked at
            index = OffsetIndex()
            if not index.load(self._read_index("index"), size):
                return False
            position = index.lookup(time_entry[1])
        last: BatchHeader | None = None
        latest, latest_offset, indexed = time_entry[0], self.base_offset + time_entry[1], False
        try:
            for header, data, pos in self.scan(position, size):
                check_crc(data, pos, header)
                last = header
                indexed = indexed or header.last_offset == self.base_offset + entry[0]
                if header.max_timestamp > latest:
                    latest, latest_offset = header.max_timestamp, header.last_offset
        except RecordBatchError:
            return False
        if last is None or not indexed or latest_offset > last.last_offset:
            return False
        self.size = size
        self.next_offset = last.next_offset
        self.max_timestamp, self.max_timestamp_offset = latest, latest_offset
        self._offset_index = self._time_index = None
        return True

    def _last_entry(self, kind: str, entry: struct.Struct) -> tuple[int, int] | None:
        try:
            fd = self._files.open(self.path(kind))
        except FileNotFoundError:
            return None
        try:
            size = self._files.size(fd)
            if size < entry.size or size % entry.size:
                return None
            first, second = entry.unpack(self._files.read(fd, entry.size, size - entry.size))
            return first, second
        finally:
            self._files.close(fd)

    def _load_indexes(self) -> None:
        offset_index, time_index = OffsetIndex(), TimeIndex()
        if offset_index.load(self._read_index("index"), self.size) and time_index.load(
            self._read_index("timeindex"), self.next_offset - 1 - self.base_offset
        ):
            self._offset_index, self._time_index = offset_index, time_index
            return
        known = (self.size, self.next_offset, self.max_timestamp, self.max_timestamp_offset)
        try:
            self._rebuild(self.size)
        except RecordBatchError:
            self.size, self.next_offset, self.max_timestamp, self.max_timestamp_offset = known
            self._offset_index = self._time_index = None
            raise
        self.became_inactive()

    def _read_index(self, kind: str) -> bytes:
        fd = self._files.open(self.path(kind), create=True)
        try:
            return self._files.read(fd, self._files.size(fd), 0)
        finally:
            self._files.close(fd)

    # -------------------------------------------------------------------------------------------- reading

    def read(self, offset: int, max_bytes: int, up_to_offset: int | None, min_one: bool) -> bytes:
        start = self.seek(offset)
        limit = self.size
        if up_to_offset is not None and up_to_offset < self.next_offset:
            limit = self.seek(up_to_offset)
        if start >= limit:
            return b""
        end = start + max_bytes
        if end >= limit:
            return self._files.read(self.fd, limit - start, start)
        boundary = self.offset_index.boundary(end)
        if boundary > start and end - boundary <= CUT_SLACK_BYTES <= max_bytes >> 2:
            return self._files.read(self.fd, boundary - start, start)
        data = self._files.read(self.fd, end - start, start)
        at = max(boundary - start, 0)
        while at + LENGTH_END <= len(data):
            size = self._batch_size(data, at, start)
            if at + size > len(data):
                break
            at += size
        if at == 0 and min_one:
            return self._files.read(
                self.fd, self._batch_size(self._files.read(self.fd, LENGTH_END, start), 0, start), start
            )
        return data[:at]

    def slice(self, offset: int, max_bytes: int, up_to_offset: int | None, min_one: bool) -> bytes | RecordSlice:
        if max_bytes < SLICE_BYTES:
            return self.read(offset, max_bytes, up_to_offset, min_one)
        start = self.seek(offset)
        limit = self.size
        if up_to_offset is not None and up_to_offset < self.next_offset:
            limit = self.seek(up_to_offset)
        end = start + max_bytes
        if end < limit:
            boundary = self.offset_index.boundary(end)
            at = max(boundary, start)
            near = boundary > start and end - boundary <= CUT_SLACK_BYTES <= max_bytes >> 2  # as in `read`
            while not near and at + LENGTH_END <= end:
                size = self._batch_size(self._files.read(self.fd, LENGTH_END, at), 0, at)
                if at + size > end:
                    break
                at += size
            limit = at
        if limit - start < SLICE_BYTES or not self._files.can_remove_open:  # a large batch that must come whole, too
            return self.read(offset, max_bytes, up_to_offset, min_one)
        return DiskSlice(self._files, self.log_path, start, limit - start)

    def upper_bound(self, offset: int, size: int) -> int | None:
        at = bisect_left(self.offset_index.positions, self.seek(offset) + size)
        return self.base_offset + self.offset_index.offsets[at] if at < len(self.offset_index) else None

    def seek(self, offset: int) -> int:
        """Byte position of the first batch whose last offset is >= offset; the segment's size without such a batch."""
        if offset <= self.base_offset:
            return 0
        if offset >= self.next_offset:
            return self.size
        position = self.offset_index.lookup(offset - self.base_offset)
        while position < self.size:
            data = self._files.read(self.fd, min(SEEK_BYTES, self.size - position), position)
            at = 0
            while at + HEADER_BYTES <= len(data):
                base, length = _OFFSET_AND_LENGTH.unpack_from(data, at)
                if base + _LAST_DELTA.unpack_from(data, at + 23)[0] >= offset:
                    return position + at
                if length < HEADER_BYTES - LENGTH_END:
                    raise CorruptRecord(f"{self.log_path} holds no record batch at position {position + at}")
                at += length + LENGTH_END
            if at == 0:
                raise CorruptRecord(f"{self.log_path} ends within a record batch at position {position}")
            position += at
        return self.size

    def _batch_size(self, data: bytes, at: int, start: int) -> int:
        length: int = _OFFSET_AND_LENGTH.unpack_from(data, at)[1]
        if length < HEADER_BYTES - LENGTH_END:
            raise CorruptRecord(f"{self.log_path} holds no record batch at position {start + at}")
        return length + LENGTH_END

    def batches(self, offset: int = 0) -> Iterator[tuple[BatchHeader, bytes, int]]:
        return self.scan(self.seek(offset), self.size)

    def batches_from_timestamp(self, timestamp: int) -> Iterator[tuple[BatchHeader, bytes, int]]:
        relative = self.time_index.lookup(timestamp)
        return self.batches(self.base_offset + relative if relative >= 0 else 0)

    def scan(self, position: int, end: int) -> Iterator[tuple[BatchHeader, bytes, int]]:
        """Every batch in [position, end), read READ_BYTES at a time. Raises RecordBatchError where one is bad."""
        want = READ_BYTES
        while position < end:
            data = self._files.read(self.fd, min(want, end - position), position)
            at = 0
            want = READ_BYTES
            while at < len(data):
                try:
                    header = parse_header(data, at)
                except TruncatedBatch:
                    if position + len(data) >= end or not data:
                        raise
                    if at == 0:
                        want = self._batch_size(data, 0, position)
                    break
                yield header, data, at
                at += header.length + LENGTH_END
            if not data:
                raise TruncatedBatch(f"{self.log_path} ends at position {position}, {end} expected")
            position += at

    # -------------------------------------------------------------------------------------------- end of life

    def close(self) -> None:
        if self._fd >= 0:
            self._files.closed(self)
            self._files.close(self._fd)
            self._fd = -1

    def delete(self) -> None:
        # The log file goes first, and where it does not the segment stays as it is. Indexes that a crash or the disk leaves alone are
        # swept at open; a lone log file would be read again.
        self.close()
        self._files.remove(self.path("log"))
        for kind in ("index", "timeindex", "txnindex", "snapshot"):
            with contextlib.suppress(OSError):
                self._files.remove(self.path(kind))

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self.delete()

    def rename(self, suffix: str) -> None:
        """Give its files another suffix (".cleaned", ".swap" or none), durably; the log file goes last."""
        self.close()  # for systems that rename no open file
        stem = self.log_path.name.partition(".log")[0]
        kinds = (
            ("index", "timeindex", "txnindex") if self._files.exists(self.path("txnindex")) else ("index", "timeindex")
        )
        for kind in kinds:
            self._files.rename(self.path(kind), self.log_path.with_name(f"{stem}.{kind}{suffix}"))
        fresh = self.log_path.with_name(f"{stem}.log{suffix}")
        self._files.rename(self.log_path, fresh)
        self.log_path = fresh
        self._files.sync_dir(fresh.parent)

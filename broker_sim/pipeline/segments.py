"""Segment files of `__consumer_offsets` into Arrow record batches of OFFSET_LOG: valid batches are read, invalid ones are reported.

    for rows in read_offsets("DIR/__consumer_offsets-12", skipped=list_of_skipped.append):
        ...                     # pyarrow.RecordBatch, in the order of the log

Rules:
1. Which files are a log's is Kafka's own rule at a start: `.log` files by their base offsets; a `.swap` that a crash (or a copy in
   the wrong moment) left takes the place of what it replaces; `.cleaned`, `.deleted` and everything else is nothing. Offsets that two
   segments have are the later one's, as in a fetch.
2. A batch counts when it is whole and its CRC is right. Behind a bad one, the next good one is looked for. Everything left out is a
   Skipped with file, first byte and reason; zeros behind the last batch are a preallocated file's, and not reported.
3. A piece of about PIECE_BYTES is in memory, and its rows; never a segment.
4. A log that is written or cleaned meanwhile is read all the same: if a file was deleted, the folder is listed again, and the
   reading goes on behind the last offset it had.
Source: LogLoader.java, LogSegment.java, UnifiedLog.replaceSegments, DefaultRecordBatch.java (Kafka).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import google_crc32c
import numpy

from broker_sim.common.text import UsageError
from broker_sim.pipeline import files
from broker_sim.pipeline.files import FileEntry, Source
from broker_sim.pipeline.offset_columns import Decoded, RowSelection, SegmentOrigin, decode
from broker_sim.pipeline.record_places import Piece, headers_at, portions
from broker_sim.pipeline.schemas import OFFSET_LOG, TableSchema
from kafka_wire.record_batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC_END,
    RecordBatchError,
    check_crc,
    parse_header,
)

__all__ = ["PIECE_BYTES", "SegmentFile", "Skipped", "log_partition_of", "next_offset", "read_offsets", "segments_of"]

OFFSETS_TOPIC = "__consumer_offsets"
PIECE_BYTES = 1 << 20
MOST_SEARCHED = 1 << 30
"""Bytes after a bad batch within which the next good one is looked for."""

FARTHEST_STEP = 2**31 - 1
"""Greatest distance of an offset from its segment's base offset."""

FARTHEST_END = 2**63 - 1

_FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<index>[0-9]+)")
_FILE = re.compile(r"(?P<base>[0-9]{1,20})\.log(?P<suffix>\.swap|\.cleaned)?")
_FRAME = struct.Struct(">qiibIhi")  # base offset, length, leader epoch, magic, crc, attributes, last offset delta
_LENGTH = struct.Struct(">i")
_OLD_HEADER = 17  # bytes of offset, size, crc and magic in message formats 0 and 1
_RELISTS = 100

crc32c = google_crc32c.value


class Skipped(NamedTuple):
    """A piece of input that was not read; ``position`` and ``bytes`` are None where it is all of it."""

    file: str
    position: int | None
    bytes: int | None
    reason: str


class SegmentFile(NamedTuple):
    """A file of a log; its offsets end before ``until`` (None: there is no later segment)."""

    path: str
    base: int
    size: int
    until: int | None


OnSkipped = Callable[[Skipped], object]


# ------------------------------------------------------------------------------------------------ which files


def log_partition_of(folder: str) -> tuple[str, int] | None:
    """(topic, partition) of a folder's name, None if it is no partition's."""
    match = _FOLDER.fullmatch(files.base_name(folder))
    return None if match is None else (match["topic"], int(match["index"]))


def segments_of(folder: str) -> list[SegmentFile]:
    """The segments of a log, in order (rule 1). Raises UsageError."""
    for _ in range(_RELISTS):
        try:
            entries = _in_use(folder, files.listing(folder))
        except FileNotFoundError:  # a swap that has got its name meanwhile
            continue
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror or error}") from None
        untils = [*(base for base, _ in entries[1:]), None]
        return [
            SegmentFile(files.inside(folder, entry.name), base, entry.size, until)
            for (base, entry), until in zip(entries, untils, strict=False)
        ]
    raise UsageError(f"{folder}: its files disappear faster than they can be opened")


def _in_use(folder: str, entries: list[FileEntry]) -> list[tuple[int, FileEntry]]:
    logs: dict[int, FileEntry] = {}
    swaps: dict[int, FileEntry] = {}
    unfinished: list[int] = []
    for entry in entries:
        match = None if entry.is_dir else _FILE.fullmatch(entry.name)
        if match is None:
            continue
        base = int(match["base"])
        if match["suffix"] is None:
            logs[base] = entry
        elif match["suffix"] == ".swap":
            swaps[base] = entry
        else:
            unfinished.append(base)
    first_unfinished = min(unfinished, default=None)
    for base, entry in swaps.items():
        if first_unfinished is not None and base >= first_unfinished:
            continue  # of a split that was not finished: the old segment is whole
        end = next_offset(SegmentFile(files.inside(folder, entry.name), base, entry.size, None)).offset
        for old in [old for old in logs if old == base or base < old < end]:
            del logs[old]
        logs[base] = entry
    return sorted(logs.items())


# ------------------------------------------------------------------------------------------------ rows


def read_offsets(
    folder: str,
    *,
    start: int = 0,
    end: int | None = None,
    run_id: str = "",
    table: TableSchema = OFFSET_LOG,
    skipped: OnSkipped = lambda skipped: None,
    hint: tuple[int, int] | None = None,
) -> Iterator[Any]:
    """Record batches with the columns of ``table``: the rows of the log in a folder from offset ``start`` on, before ``end``.

    ``hint`` (base offset of a segment, position) is where the batch of ``start`` was once seen. Raises UsageError, OSError.
    """
    named = log_partition_of(folder)
    if named is None or named[0] != OFFSETS_TOPIC:
        raise UsageError(f"{folder}: {_foreign(named)}")
    reached, last = start, FARTHEST_END if end is None else end
    for _ in range(_RELISTS):
        try:
            for segment in segments_of(folder):
                if segment.until is not None and segment.until <= reached:
                    continue
                if segment.base >= last:
                    return
                stop = last if segment.until is None else min(last, segment.until)
                wanted = RowSelection(SegmentOrigin(run_id, named[1], segment.base), reached, stop, table)
                try:
                    with Source(segment.path) as source:
                        whole = _Framing(segment, source, reached, last, skipped).pieces(hint)
                        for piece in (portion for block in whole for portion in portions(block)):
                            decoded = decode(piece, wanted)
                            _report_faults(segment, piece, decoded, skipped)
                            reached = max(reached, min(piece.next_offset, stop))
                            if decoded.rows.num_rows:
                                yield decoded.rows
                except FileNotFoundError:
                    raise
                except OSError as error:
                    skipped(Skipped(segment.path, None, None, f"it can't be read: {error.strerror or error}"))
                if segment.until is not None:
                    reached = max(reached, segment.until)
            return
        except FileNotFoundError:
            continue  # cleaned or deleted since the folder was listed
    raise UsageError(f"{folder}: its files disappear faster than they can be opened")


def _foreign(named: tuple[str, int] | None) -> str:
    if named is None:
        return f"its name is not that of a partition, as {OFFSETS_TOPIC}-12 is"
    return f"a partition of the topic {named[0]}, not of {OFFSETS_TOPIC}"


def _report_faults(segment: SegmentFile, piece: Piece, decoded: Decoded, skipped: OnSkipped) -> None:
    for fault in decoded.faults:
        size = piece.size_of(fault.batch) if fault.lost else 0
        skipped(Skipped(segment.path, piece.position + piece.at[fault.batch], size, fault.reason))


class _Framing:
    """Cuts a segment into pieces of whole, good batches."""

    def __init__(self, segment: SegmentFile, source: Source, start: int, end: int, skipped: OnSkipped) -> None:
        self.segment, self.source, self.start, self.end, self.skipped = segment, source, start, end, skipped
        self.size = source.size()
        self.least = segment.base
        """The least offset that the next batch may have."""
        self.farthest = segment.base + FARTHEST_STEP
        self.done = False

    def pieces(self, hint: tuple[int, int] | None = None) -> Iterator[Piece]:
        """Pieces whose batches reach into [start, end)."""
        position, want = 0, PIECE_BYTES
        if hint is not None and hint[0] == self.segment.base and self._begins_at_start(hint[1]):
            position = hint[1]
        while position < self.size and not self.done:
            data = self.source.read(position, min(want, self.size - position))
            piece, at, fits = self._cut_quickly(data, position) or self._cut(data, position)
            if piece.at:
                yield piece
            position, want = position + at, PIECE_BYTES
            if self.done or self.least >= self.end or position >= self.size:
                return
            if fits == 0 or position + fits > self.size:  # bad; cut, or its length is wrong
                position = self._behind_bad(position)
            elif at == 0:
                want = max(PIECE_BYTES, fits)

    def _begins_at_start(self, position: int) -> bool:
        """Whether the first batch that is wanted lies there, so that all before it is not."""
        good = self._valid_batch(position)
        return good is not None and good[0] == self.start

    def _cut_quickly(self, data: bytes, position: int) -> tuple[Piece, int, int] | None:
        """As `_cut`, where all batches in ``data`` are good and wanted, as they nearly always are; else None."""
        places: list[int] = []
        at, size = 0, len(data)
        length_at, append = _LENGTH.unpack_from, places.append
        while at + HEADER_BYTES <= size:
            behind = at + LENGTH_END + length_at(data, at + 8)[0]
            if behind > size or behind < at + HEADER_BYTES:
                break
            append(at)
            at = behind
        if not places:
            return None
        headers = headers_at(data, places)
        first = headers["base_offset"].astype(numpy.int64)
        last = first + headers["last_offset_delta"]
        least = numpy.concatenate([[self.least], last[:-1] + 1])
        crcs = [crc32c(data[a + 21 : b]) for a, b in zip(places, [*places[1:], at], strict=True)]
        good = (
            first[0] >= self.start
            and last[-1] < self.end
            and last[-1] <= self.farthest
            and (headers["magic"] == 2).all()
            and (first >= least).all()
            and (last >= first).all()
            and (headers["crc"] == numpy.array(crcs, numpy.uint32)).all()
        )
        if not good:
            return None
        self.least = int(last[-1]) + 1
        return Piece(data, position, places, self.least, headers), at, HEADER_BYTES

    def _cut(self, data: bytes, position: int) -> tuple[Piece, int, int]:
        """(piece, where it ends in ``data``, bytes that the batch behind it needs: 0 if it is bad)."""
        places: list[int] = []
        at, size, least, start, end, farthest = 0, len(data), self.least, self.start, self.end, self.farthest
        unpack, crc_of, append = _FRAME.unpack_from, crc32c, places.append
        before, previous, needs = least, 0, HEADER_BYTES
        while at + HEADER_BYTES <= size:
            base, length, _, magic, crc, _, delta = unpack(data, at)
            if magic != 2 or length < HEADER_BYTES - LENGTH_END or not least <= base <= farthest or delta < 0:
                if (
                    base < before
                    or least - before <= 1
                    or not self._previous_lies(data, previous, at, position, before)
                ):
                    needs = 0
                    break
                if places and places[-1] == previous:
                    places.pop()
                least = before
                continue
            if base >= end and base == least:  # had it another offset, that might be the damage
                self.done = True
                break
            behind = at + length + LENGTH_END
            if behind > size:
                needs = behind - at
                break
            if base + delta >= start and base < end:
                if crc_of(data[at + 21 : behind]) != crc:
                    needs = 0
                    break
                append(at)
            before, previous = least, at
            at = behind
            least = base + delta + 1
        self.least = least
        return Piece(data, position, places, least), at, needs

    def _previous_lies(self, data: bytes, previous: int, at: int, position: int, before: int) -> bool:
        """Whether a good batch that seems to go back shows that the one before it has a wrong offset: that no CRC covers."""
        lying = _FRAME.unpack_from(data, previous)[0]
        good = self._valid_batch(position + at, before)
        if lying == before or good is None:
            return False
        reason = f"a batch of offset {lying}, although offset {good[0]} comes behind it"
        self.skipped(Skipped(self.segment.path, position + previous, at - previous, reason))
        return True

    # -------------------------------------------------------------------------------------------- bad batches

    def _behind_bad(self, position: int) -> int:
        """Position of the next good batch, or of the end; the bytes up to it are reported as skipped."""
        behind = self._old_messages(position)
        reason = self._what_is_wrong(position, old=behind is not None)
        behind = behind or self._next_valid(position)
        if behind is None:
            behind = self.size
            if self._only_zeros(position):
                return behind
        self.skipped(Skipped(self.segment.path, position, behind - position, reason))
        return behind

    def _what_is_wrong(self, position: int, *, old: bool) -> str:
        left = self.size - position
        try:
            head = self.source.read(position, HEADER_BYTES)
            if old:
                return f"message format v{head[16]}, which Kafka wrote before 0.11, is not read"
            length = int.from_bytes(head[8:12], "big", signed=True) if len(head) >= MAGIC_END else 0
            data = self.source.read(position, max(min(length + LENGTH_END, left), len(head)))
            header = parse_header(data)
            check_crc(data, 0, header)
            if header.last_offset_delta < 0:
                return f"a batch whose last offset is before its first one ({header.base_offset})"
            if header.base_offset > self.farthest:
                return f"a batch of offset {header.base_offset} in a segment that begins at {self.segment.base}"
            return f"a batch of offset {header.base_offset} where {self.least} is the least"
        except RecordBatchError as error:
            return str(error)

    def _valid_batch(self, position: int, least: int | None = None) -> tuple[int, int] | None:
        """(base offset, bytes) of the good batch at a position, None if there is no valid one."""
        least = self.least if least is None else least
        head = self.source.read(position, _FRAME.size)
        if len(head) < _FRAME.size:
            return None
        base, length, _, magic, crc, _, delta = _FRAME.unpack(head)
        size = length + LENGTH_END
        if magic != 2 or size < HEADER_BYTES or position + size > self.size or delta < 0:
            return None
        if not least <= base <= self.farthest:
            return None
        if crc32c(self.source.read(position + 21, size - 21)) != crc:
            return None
        return base, size

    def _old_messages(self, position: int) -> int | None:
        """Behind the messages of old formats that begin there; None where there are none. One whose own CRC (of all behind it) does not
        fit is a damaged batch of today: its length would lead astray."""
        first = position
        while position < self.size:
            head = self.source.read(position, _OLD_HEADER)
            length = int.from_bytes(head[8:12], "big", signed=True)
            if len(head) < _OLD_HEADER or head[16] not in (0, 1) or length < 14 or position + 12 + length > self.size:
                break
            if zlib.crc32(self.source.read(position + 16, length - 4)) != int.from_bytes(head[12:16], "big"):
                break
            self.least = max(self.least, int.from_bytes(head[:8], "big", signed=True) + 1)
            position += LENGTH_END + length
        return position if position > first else None

    def _next_valid(self, position: int) -> int | None:
        """End of the bad batch by its length, if a good one or the file's end is there; else start of the first good one after it."""
        head = self.source.read(position, LENGTH_END)
        length = int.from_bytes(head[8:12], "big", signed=True)
        declared = position + LENGTH_END + length
        if (
            len(head) == LENGTH_END
            and length > 0
            and (declared == self.size or self._valid_batch(declared) is not None)
        ):
            return declared
        for begin in range(position + 1, min(self.size, position + MOST_SEARCHED), PIECE_BYTES):
            data = self.source.read(begin, PIECE_BYTES + MAGIC_END)
            at = data.find(b"\x02", MAGIC_END - 1)
            while at >= 0:
                if at - 16 < PIECE_BYTES and self._valid_batch(begin + at - 16) is not None:
                    return begin + at - 16
                at = data.find(b"\x02", at + 1)
        return None

    def _only_zeros(self, position: int) -> bool:
        while data := self.source.read(position, PIECE_BYTES):
            if data.count(0) != len(data):
                return False
            position += len(data)
        return True


# ------------------------------------------------------------------------------------------------ where a log ends


@dataclass(frozen=True)
class SegmentEnd:
    """The end of a segment's whole batches: the next offset, and the byte behind them."""

    offset: int
    position: int


def next_offset(segment: SegmentFile, known: SegmentEnd | None = None) -> SegmentEnd:
    """End of a segment's whole batches, by their headers alone; ``known``: the end at an earlier time. Raises OSError."""
    position, offset = (known.position, known.offset) if known is not None else (0, segment.base)
    with Source(segment.path) as source:
        framing = _Framing(segment, source, FARTHEST_END, FARTHEST_END, lambda skipped: None)
        size = framing.size
        if position > size:
            position, offset = 0, segment.base
        framing.least = offset
        while position < size:
            data = source.read(position, min(PIECE_BYTES, size - position))
            _, at, needs = framing._cut(data, position)
            position += at
            if at == 0 and needs > len(data) and position + needs <= size:
                position += needs
                (base,) = struct.unpack_from(">q", data)
                (delta,) = struct.unpack_from(">i", data, 23)
                framing.least = base + delta + 1
            elif needs == 0 or (at == 0 and position + needs > size):
                good = framing._old_messages(position) or framing._next_valid(position)
                if good is None or good >= size:
                    break
                position = good
    return SegmentEnd(framing.least, position)

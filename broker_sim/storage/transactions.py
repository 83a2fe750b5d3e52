"""The ended transactions of one log: the aborted ones (`.txnindex`), and those whose marker is not committed yet.

Rules:
1. A read_committed reader reads up to the last stable offset: the first offset of the earliest transaction that is open, or whose
   marker is not below the high watermark; without either, the high watermark. Without transactions that costs a check of two empty
   containers.
2. It skips the records of aborted transactions by the list in the response. The whole list is in memory; each segment stores the part
   whose markers it contains in its `.txnindex`, written at once, as in Kafka, and rewritten when the segment is rolled. A segment
   without any has no file.
3. The file of the last segment, which is read whole when the log is opened, is rewritten from the log; if one of an earlier segment is
   invalid the log is read from there on (see recovery). Source: TransactionIndex, AbortedTxn (storage),
   UnifiedLog.collectAbortedTransactions, fetchLastStableOffsetMetadata.
"""

from __future__ import annotations

import contextlib
import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from broker_sim.storage.producer_state import EndedTransaction

if TYPE_CHECKING:
    from broker_sim.storage.segment import Segment

ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """An entry of `.txnindex`: `last_offset` is the marker's, `stable_offset` was the last stable offset behind it."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


def encode_entries(entries: Iterable[AbortedTransaction]) -> bytes:
    """The bytes of a `.txnindex` file."""
    return b"".join(ENTRY.pack(_VERSION, *entry) for entry in entries)


def decode_entries(data: bytes, base_offset: int, next_offset: int | None = None) -> list[AbortedTransaction] | None:
    """The opposite; None for bytes that can't be those of the segment from `base_offset` to before `next_offset`."""
    if len(data) % ENTRY.size:
        return None
    entries = [AbortedTransaction(*row) for version, *row in ENTRY.iter_unpack(data) if version == _VERSION]
    if len(entries) * ENTRY.size != len(data):
        return None
    last = base_offset - 1
    for entry in entries:
        if not (0 <= entry.first_offset <= entry.last_offset and last < entry.last_offset):
            return None
        last = entry.last_offset
    return entries if next_offset is None or last < next_offset else None


class EndedTransactions:
    """The transactions of a log with a marker."""

    __slots__ = ("aborted", "uncommitted")

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self.aborted = list(aborted)
        """Ascending by their markers."""
        self.uncommitted: list[EndedTransaction] = []
        """Ended transactions whose marker was not below the high watermark at the last look."""

    def add(self, ended: EndedTransaction, segment: Segment) -> None:
        """Add a transaction whose marker was appended to `segment`, the log's last one."""
        self.uncommitted.append(ended)
        if ended.committed:
            return
        number = len(self.of_segment(segment.base_offset, ended.last_offset))
        entry = AbortedTransaction(*ended[:4])
        self.aborted.append(entry)
        with contextlib.suppress(OSError):  # the marker is in the log; the file is written whole when the segment ends
            segment.add_aborted(entry, number)

    def first_unstable(self, open_since: Iterable[int], high_watermark: int) -> int:
        """The first offset of the earliest transaction whose end is not below `high_watermark`; `high_watermark` without such a
        transaction. `open_since`: first offsets of the transactions without a marker, in ascending order.
        """
        first = next(iter(open_since), high_watermark)
        for transaction in self.uncommitted:
            if transaction.last_offset >= high_watermark and transaction.first_offset < first:
                first = transaction.first_offset
        return first

    def settle(self, high_watermark: int) -> list[EndedTransaction]:
        """The transactions whose markers were committed (are below `high_watermark`) since the last call."""
        settled = [transaction for transaction in self.uncommitted if transaction.last_offset < high_watermark]
        if settled:
            self.uncommitted = self.uncommitted[len(settled) :]
        return settled

    def overlapping(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in start..end (exclusive), as far as they are known."""
        result: list[AbortedTransaction] = []
        aborted = self.aborted
        for number in range(bisect_left(aborted, start, key=_marker), len(aborted)):
            entry = aborted[number]
            if entry.first_offset < end:
                result.append(entry)
            if entry.stable_offset >= end:
                break  # whatever ends later has begun later
        return result

    def within(
        self, segments: Sequence[Segment], offset: int, size: int, log_end_offset: int
    ) -> list[AbortedTransaction]:
        """Aborted transactions with records in the `size` bytes that a read from `offset` gave, out of the first of `segments` that
        has anything there; as Kafka's, not to the byte. Raises OSError, RecordBatchError.
        """
        at = next((number for number, segment in enumerate(segments) if segment.next_offset > offset), 0)
        end = segments[at].upper_bound(offset, size)
        if end is None:
            end = segments[at + 1].base_offset if at + 1 < len(segments) else log_end_offset
        return self.overlapping(offset, end)

    def of_segment(self, base_offset: int, next_offset: int) -> Sequence[AbortedTransaction]:
        """Aborted transactions whose markers are in base_offset..next_offset (exclusive)."""
        aborted = self.aborted
        if not aborted:
            return ()
        return aborted[bisect_left(aborted, base_offset, key=_marker) : bisect_left(aborted, next_offset, key=_marker)]

    def replace(self, base_offset: int, next_offset: int, kept: Sequence[AbortedTransaction]) -> None:
        """Replace the aborted transactions whose markers are in base_offset..next_offset (exclusive) by `kept`, those that are left."""
        aborted = self.aborted
        if aborted:
            first = bisect_left(aborted, base_offset, key=_marker)
            aborted[first : bisect_left(aborted, next_offset, key=_marker)] = kept

    def save(self, segment: Segment, end_offset: int) -> None:
        """`segment`, whose last offset is before `end_offset`, is finished. Raises OSError."""
        entries = self.of_segment(segment.base_offset, end_offset)
        if entries:
            segment.save_aborted(entries, sync=True)

    def truncate_to(self, offset: int, last: Segment) -> None:
        """The log ends at `offset` now, in the segment `last`. Raises OSError."""
        if self.aborted and self.aborted[-1].last_offset >= offset:
            del self.aborted[bisect_left(self.aborted, offset, key=_marker) :]
            last.save_aborted(self.of_segment(last.base_offset, offset))
        self.uncommitted = [transaction for transaction in self.uncommitted if transaction.last_offset < offset]

    def forget_before(self, offset: int) -> None:
        """The log's segments begin at `offset` now."""
        if self.aborted:
            del self.aborted[: bisect_left(self.aborted, offset, key=_marker)]


def _marker(entry: AbortedTransaction) -> int:
    return entry.last_offset

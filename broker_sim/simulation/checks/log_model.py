"""Model of a partition's log, kept by its only writer, with which the responses to Produce, Fetch and ListOffsets are compared.

    log = LogModel("p1-0")
    log.sent(rows)                          # a batch goes out: each value is another one
    log.acknowledged(base, rows, ...)       # at these offsets, for ever
    log.read(asked, rows, end)              # what a Fetch from ``asked`` brought, ``end``: behind its last batch

Rules:
1. A record that was acknowledged with acks=all, or read, is there for ever under its offset, but for what retention, DeleteRecords or
   compaction may take. One that was sent and not acknowledged may be there, once.
2. ``exact`` says that nothing is in doubt: then the log's end, too, is known.
3. Of a compacted log the last record of every key is there, unless it is a tombstone; offsets never change.
4. A breach is returned as a text, or None: who asks knows the name of the rule.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Head", "LogModel", "SentRecord"]


class SentRecord(NamedTuple):
    """A record as it is sent. ``value`` is unique to the record; a tombstone has no value, and is identified by its timestamp."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Head(NamedTuple):
    """Fields of a batch that the log must keep: producer, its epoch, sequence, codec."""

    producer: int
    epoch: int
    sequence: int
    codec: int


class LogModel:
    """See the module. ``compacts``, ``deletes``: what may be taken from it."""

    def __init__(self, name: str, *, compacts: bool = False, deletes: bool = False) -> None:
        self.name, self.compacts, self.deletes = name, compacts, deletes
        self.rows: dict[int, SentRecord] = {}
        self.heads: dict[int, tuple[int, Head, int]] = {}
        """Base offset -> last offset, head, leader epoch; where these are known."""
        self.doubts: dict[SentRecord, None] = {}
        self.start = 0
        """Offset at which the log begins, or later where records may be deleted."""
        self.may_go = 0
        """Somebody has asked for all before it to be deleted."""
        self.end = 0
        self.sure_end = 0
        """Behind the last record that the high watermark has passed."""
        self.epochs: list[tuple[int, int]] = []
        self.exact = True

    def sent(self, rows: Iterable[SentRecord]) -> None:
        """Note records that were sent: until the response they may be in the log or not."""
        self.doubts.update(dict.fromkeys(rows))

    def doubtful(self) -> None:
        """Something that was sent may be there, or may come."""
        self.exact = False

    def refused(self, rows: Iterable[SentRecord]) -> None:
        """Note records that were refused: they will never be in the log."""
        for row in rows:
            self.doubts.pop(row, None)

    def acknowledged(
        self, base: int, rows: Sequence[SentRecord], *, head: Head | None = None, epoch: int = -1
    ) -> str | None:
        """As the batch at ``base``; ``epoch``: the leader epoch that it was written in, -1 if that is unknown."""
        if self.exact and base != self.end:
            return f"{self.name}: the response says that the batch is at {base}; the log ended at {self.end}"
        for offset, row in enumerate(rows, base):
            wrong = self._place(offset, row)
            if wrong is not None:
                return wrong
        if head is not None:
            self.heads[base] = base + len(rows) - 1, head, epoch
        if epoch < 0:
            self.epochs.clear()  # the next epoch that is known may have begun with this batch
        elif not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs.append((epoch, base))
        return None

    def committed(self, end: int) -> None:
        """The high watermark has passed all before ``end``."""
        self.sure_end = max(self.sure_end, end)

    def _place(self, offset: int, row: SentRecord) -> str | None:
        known = self.rows.get(offset)
        if known is not None and known != row:
            return f"{self.name}: offset {offset} is {row}, and was {known}"
        if known is None and row not in self.doubts:
            return f"{self.name}: offset {offset} is {row}, which was never sent, or is in the log already"
        self.doubts.pop(row, None)
        self.rows[offset] = row
        self.end = max(self.end, offset + 1)
        return None

    def began(self, start: int) -> None:
        """The log begins at ``start`` now."""
        self.start = max(self.start, start)
        self.end = max(self.end, start)

    def read(self, asked: int, records: Sequence[tuple[int, SentRecord]], end: int) -> str | None:
        """Batches from that which holds ``asked`` to ``end``. None where that may be."""
        expected = asked
        for offset, row in records:
            if offset < asked:
                if offset in self.rows and self.rows[offset] != row:
                    return f"{self.name}: offset {offset} is {row}, and was {self.rows[offset]}"
                continue
            if not self.compacts and offset != expected:
                return f"{self.name}: read from {asked}, offset {expected} is left out before {offset}"
            wrong = self._place(offset, row)
            if wrong is not None:
                return wrong
            expected = offset + 1
        if not self.compacts and expected != max(end, asked):
            return f"{self.name}: read from {asked} to {end}, and there is nothing from {expected} on"
        if self.compacts:
            return self._compacted(asked, {offset for offset, _ in records}, end)
        return None

    def _compacted(self, start: int, there: set[int], end: int) -> str | None:
        last: dict[bytes | None, int] = {}
        for offset in sorted(self.rows):
            last[self.rows[offset].key] = offset
        unsure = {row.key for row in self.doubts}  # one of these may be the last
        for offset, row in self.rows.items():
            if row.key in unsure:
                continue
            if start <= offset < end and offset not in there and row.value is not None and last[row.key] == offset:
                return f"{self.name}: compaction took offset {offset}, the last of {row.key!r}"
        return None

    def settle(self, end: int) -> None:
        """All to ``end`` has been read, and nothing is under way: what was in doubt and was not seen is not there."""
        self.doubts.clear()
        self.end = max(self.end, end)
        self.heads = {base: head for base, head in self.heads.items() if base < self.sure_end}
        self.epochs.clear()
        self.exact = True

    # --- what can be asked, where it is exact

    def at_time(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and time of the first record at that time or later."""
        matches = (
            (offset, self.rows[offset].timestamp)
            for offset in sorted(self.rows)
            if offset >= self.start and self.rows[offset].timestamp >= timestamp
        )
        return next(matches, None)

    def latest_time(self) -> int:
        """Largest timestamp of the log's records, -1 without any."""
        return max((row.timestamp for offset, row in self.rows.items() if offset >= self.start), default=-1)

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """(epoch, end) as OffsetForLeaderEpoch answers it; None where that is not known from here."""
        if not self.epochs or epoch < self.epochs[0][0]:
            return None
        at = bisect_right(self.epochs, (epoch, 2**62))
        end = self.epochs[at][1] if at < len(self.epochs) else self.end
        return self.epochs[at - 1][0], end

"""The acquisition of records by one fetch: first those in flight that are available again, then new ones.

Rules:

1. A run in flight is acquired as a whole if it is available and was read completely; else its available records one by one.
2. The fetch gets a little more than it asked for, up to the end of a run or of a batch of the log; with `exactly` it does not. New
   records beyond its limit are in flight from then on too, up to the end of the batch, and available.
3. A run with a record that was delivered often without success comes alone, and fewer of its records the more often; on its last
   delivery a record comes alone.

Source: SharePartition.acquire, acquireSubsetBatchRecords, acquireNewBatchRecords, createBatches (4.x).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker_sim.coordinator.share_partition.inflight import Acquired, Batch, runs_of

if TYPE_CHECKING:
    from broker_sim.coordinator.share_partition.partition import SharePartition


class Acquisition:
    """One fetch's acquisition; ``read``: (first, last) of each of the log's batches that were read."""

    __slots__ = ("acquired", "deadline_ms", "exactly", "last", "member", "read", "share")

    def __init__(
        self, share: SharePartition, member: str, read: Sequence[tuple[int, int]], deadline_ms: int, *, exactly: bool
    ) -> None:
        self.share, self.member, self.read, self.deadline_ms, self.exactly = share, member, read, deadline_ms, exactly
        self.last = read[-1][1]
        self.acquired: list[Acquired] = []

    def run(self, max_records: int, batch_size: int) -> list[Acquired]:
        """Acquire ``max_records``, new ones in runs of ``batch_size``. If as many are in flight as may be, only of these."""
        share = self.share
        left = min(max_records, share.limits.in_flight - share.in_flight)
        if left <= 0:
            offset = share.fetch_offset()
            if offset >= share.next_offset:
                return []
            self.last = min(self.last, share.next_offset - 1)
            left = min(max_records, share.next_offset - offset)
        begin = self.read[0][0]
        at = bisect_right(share.batches, begin, key=lambda batch: batch.first)
        if at and share.batches[at - 1].last >= begin:
            at -= 1
            begin = share.batches[at].first
        elif not at:
            begin = max(begin, share.start_offset)
        last = None
        for batch in share.batches[at:]:
            if left <= 0 or batch.first > self.last:
                break
            last = batch
            if share.gap_start is not None:
                if begin < batch.first:
                    left -= self._new(begin, batch.first - 1, left, batch_size)
                begin = batch.last + 1
                if left <= 0:
                    break
            is_slowed = self._is_slowed(batch)
            if is_slowed and self.acquired:
                return self._done()
            count = self._of(batch, left, is_slowed)
            if is_slowed and count:
                return self._done()
            left -= count
        if left > 0 and (last is None or last.last < self.last):
            self._new(begin if last is None else last.last + 1, self.last, left, batch_size)
        return self._done()

    def _done(self) -> list[Acquired]:
        if self.acquired:
            self.share.acquired_up_to(self.acquired[-1].last + 1)
        return self.acquired

    @property
    def _slowed_from(self) -> int:
        """From so many deliveries on a record counts as delivered often (throttleRecordsDeliveryLimit)."""
        return max(2, (self.share.limits.deliveries + 1) // 2)

    def _is_slowed(self, batch: Batch) -> bool:
        """Whether an available record among those that were read was delivered often."""
        if not self.share.policy.bad_records_come_alone:
            return False
        if batch.offset_state is None:
            return batch.batch_state.is_free and batch.batch_state.deliveries >= self._slowed_from
        begin, end, limit = self.read[0][0], self.last, self._slowed_from
        return any(
            delivery.deliveries >= limit and delivery.is_free and begin <= offset <= end
            for offset, delivery in batch.offset_state.items()
        )

    def _of(self, batch: Batch, left: int, is_slowed: bool) -> int:
        """Acquire what is available of a run in flight; the number of records."""
        share = self.share
        if batch.offset_state is None:
            if not batch.batch_state.is_free:
                return 0
            is_read = batch.first >= self.read[0][0] and batch.last <= self.last
            if is_read and not is_slowed and not (self.exactly and batch.size > left):
                share.lock(batch.first, batch.last, batch.batch_state, self.member, self.deadline_ms)
                self.acquired.append(Acquired(batch.first, batch.last, batch.batch_state.deliveries))
                return batch.size
        got = self._one_by_one(batch, left)
        self.acquired += _joined(got) if share.policy.neighbours_are_joined else got
        return len(got)

    def _one_by_one(self, batch: Batch, left: int) -> list[Acquired]:
        share, begin, end = self.share, self.read[0][0], self.last
        slows, deliveries = share.policy.bad_records_come_alone, share.limits.deliveries
        has_last = slows and deliveries > 2
        slowed_from, slowed_to = self._slowed_from, 0
        got: list[Acquired] = []
        for offset, delivery in batch.parted().items():
            if offset < begin or not delivery.is_free:
                continue
            if offset > end or (has_last and got and delivery.deliveries == deliveries - 1):
                break
            if slows and not slowed_to and delivery.deliveries >= slowed_from:
                slowed_to = max(1, batch.initial_size >> (delivery.deliveries - slowed_from + 1))
            share.lock(offset, offset, delivery, self.member, self.deadline_ms)
            got.append(Acquired(offset, offset, delivery.deliveries))
            if has_last and delivery.deliveries == deliveries:
                break
            if len(got) == slowed_to or (self.exactly and len(got) == left):
                break
        return got

    def _new(self, first: int, last: int, left: int, batch_size: int) -> int:
        """Acquire offsets of which none is in flight; the number of records."""
        share, read, end = self.share, self.read, last
        if not share.batches:
            first = max(first, share.next_offset)
        if last - first + 1 > left:
            last = first + left - 1
            last = next((batch[1] for batch in read if batch[0] <= last <= batch[1]), last)
            if share.gap_start is not None:
                last = min(last, end)
        acquired_to = last
        for begin, end in [(first, last)] if self.exactly else runs_of(read, first, last, batch_size):
            batch = Batch(begin, end)
            if not batch.size:
                self.acquired.append(Acquired(begin, end, 1))
                continue
            insort(share.batches, batch, key=lambda batch: batch.first)
            if self.exactly and batch.size > left:
                acquired_to = begin + left - 1
                deliveries = batch.parted()
                for offset in range(begin, acquired_to + 1):
                    share.lock(offset, offset, deliveries[offset], self.member, self.deadline_ms)
                share.has_available()
            else:
                share.lock(begin, end, batch.batch_state, self.member, self.deadline_ms)
            self.acquired.append(Acquired(begin, min(end, acquired_to), 1))
        if share.batches[0].first == first:
            share.start_offset = max(share.start_offset, first)  # the records between are not in the log any more
        share.next_offset = max(share.next_offset, last + 1)
        share.acquired_up_to(acquired_to + 1)
        return acquired_to - first + 1


def _joined(acquired: list[Acquired]) -> list[Acquired]:
    """Join neighbouring ranges with equal delivery counts."""
    joined: list[Acquired] = []
    for part in acquired:
        before = joined[-1] if joined else None
        if before is not None and before.last + 1 == part.first and before.deliveries == part.deliveries:
            joined[-1] = Acquired(before.first, part.last, part.deliveries)
        else:
            joined.append(part)
    return joined

"""`SharePartition`: acquires records, processes acknowledgements, releases records whose lock expired, and advances the start offset.

Rules:

1. An acquired record is locked for its member until the member acknowledges or releases it, or the lock expires; then it is available
   again, or archived if it was delivered as often as the group allows.
2. A change of records is stored before it is reported to the member (`Transition`): ``settle`` when the share coordinator has confirmed
   it, ``undo`` when it has refused. Only an expired lock counts at once.
3. The acknowledgements of a request for a partition are applied all together, or not at all.
4. The start offset advances over leading records that are acknowledged or archived; acknowledgements below it are ignored without an
   error.

5. Offsets between two batches are in flight by neither: compaction has removed their records, or nothing was stored of them. The
   latter are acquired as new records, until the fetches have come to the last batch that was loaded.

Source: SharePartition.java (4.x).
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from broker_sim.common.slices import Pace
from broker_sim.coordinator.share_partition.acquiring import Acquisition
from broker_sim.coordinator.share_partition.inflight import NO_MEMBER, Acquired, Batch, Delivery, DeliveryState
from broker_sim.coordinator.share_partition.transition import Change, Reason, Renewed, Transition
from broker_sim.coordinator.share_state.batches import StateBatch
from kafka_wire.errors import Err

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = DeliveryState  # looking a member up in its enum is a call

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""Types of acknowledgement of a record."""

_REASONS = (Reason.GAP, Reason.ACCEPTED, Reason.RELEASED, Reason.REJECTED, Reason.RENEWED)

_LETTERS = (Reason.REJECTED, Reason.RELEASED, Reason.EXPIRED, Reason.SESSION_CLOSED)
"""Reasons for which a record that is archived gets a dead letter."""

_BECOMES = {GAP: ARCHIVED, ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}


@dataclass(frozen=True, slots=True)
class Limits:
    """A group's limits: the duration of a lock, deliveries of a record, records in flight. ``dead_letters``: a record that is rejected,
    or reaches the delivery limit, is ARCHIVING until its dead letter is written."""

    lock_ms: int = 30_000
    deliveries: int = 5
    in_flight: int = 2000
    dead_letters: bool = False


@dataclass(frozen=True, slots=True)
class PartitionPolicy:
    """Differences between releases. ``closed_session_uncounted``: a record that its member's session releases counts as not delivered
    (4.1). ``completed_leave_room``: acknowledged and archived records don't count as in flight, and their number is stored (KIP-1226,
    4.2). ``bad_records_come_alone``: the more often records were delivered without success, the fewer of them are acquired together, in
    the end one by one (4.2). ``neighbours_are_joined``: acquired neighbours are returned as one range even if they were acquired
    one by one (4.2). ``old_words``: 4.1's error messages. ``ids_are_uuids``: members are identified by the bytes of their ids, not by
    their text (4.1)."""

    closed_session_uncounted: bool = False
    completed_leave_room: bool = True
    bad_records_come_alone: bool = True
    neighbours_are_joined: bool = True
    old_words: bool = False
    ids_are_uuids: bool = False


class Acknowledgement(NamedTuple):
    """A member's acknowledgement of records ``first`` to ``last``: one type for all of them, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class Refusal(NamedTuple):
    """The error and message of refused acknowledgements."""

    error: Err
    words: str | None


@dataclass(slots=True, eq=False)
class SharePartition:
    """``start_offset``: the earliest record that isn't done with; ``next_offset``: the earliest that was never delivered."""

    policy: PartitionPolicy
    limits: Limits
    start_offset: int
    next_offset: int
    batches: list[Batch] = field(default_factory=list)  # in the order of offsets
    complete_count: int = 0  # records from the start offset on that are done with
    _locks: list[tuple[int, int, int, int, Delivery]] = field(default_factory=list)  # deadline, number, first, last
    _locked: int = 0
    _may_have_free: bool = True
    _gap_start: int = -1
    _gap_end: int = -1

    @classmethod
    def loaded(
        cls, policy: PartitionPolicy, limits: Limits, start_offset: int, stored: Iterable[StateBatch]
    ) -> SharePartition:
        """A share partition with the state from the share coordinator."""
        made, gap_start = cls(policy, limits, start_offset, start_offset), -1
        for batch in stored:
            if gap_start < 0 and batch.first > made.next_offset:
                gap_start = made.next_offset
            delivery = Delivery(DeliveryState(batch.state), batch.deliveries)
            made.batches.append(Batch(batch.first, batch.last, delivery))
            made.next_offset = batch.last + 1
            if delivery.state.is_final:
                made.complete_count += batch.last - batch.first + 1
        if gap_start >= 0:
            made._gap_start, made._gap_end = gap_start, made.next_offset
        made._advance()
        return made

    @property
    def gap_start(self) -> int | None:
        """From where on offsets between the loaded batches may be acquired as new ones; None once a fetch has come to their end
        (SharePartition.isPersisterReadGapWindowActive)."""
        return self._gap_start if self._gap_end == self.next_offset else None

    def acquired_up_to(self, offset: int) -> None:
        """A fetch has acquired what there is below ``offset``: gaps behind it alone are left."""
        if offset < self._gap_end == self.next_offset:
            self._gap_start = offset
        else:
            self._gap_end = -1

    # what may be fetched

    def fetch_offset(self) -> int:
        """From where to read: the earliest record that is free."""
        if self._may_have_free:
            gap_start = self.gap_start
            for batch in self.batches:
                if gap_start is not None:
                    if batch.first > gap_start:
                        return gap_start
                    gap_start = max(gap_start, batch.last + 1)
                if batch.offset_state is None:
                    if batch.batch_state.is_free:
                        return batch.first
                else:
                    for offset, delivery in batch.offset_state.items():
                        if delivery.is_free:
                            return offset
            self._may_have_free = False
        return self.next_offset

    @property
    def in_flight(self) -> int:
        """Number of records that count against the limit of records in flight."""
        done = self.complete_count if self.policy.completed_leave_room else 0
        return self.next_offset - self.start_offset - done

    @property
    def may_acquire(self) -> bool:
        """Whether anything could be acquired, if the log has it."""
        room = self.limits.in_flight
        if self.next_offset - self.start_offset < room:  # completed records or not
            return True
        return self.in_flight < room or self.fetch_offset() < self.next_offset

    def acquire(
        self,
        member: str,
        read: Sequence[tuple[int, int]],
        now_ms: int,
        *,
        batch_size: int,
        max_records: int,
        exactly: bool = False,
    ) -> list[Acquired]:
        """Acquire available records of the log's batches that were read, (first, last) of each (`Acquisition`). Whole batches are
        acquired if that exceeds ``max_records`` a little, except with ``exactly``. ``batch_size``: the records that are acquired
        together."""
        acquisition = Acquisition(self, member, read, now_ms + self.limits.lock_ms, exactly=exactly)
        return acquisition.run(max_records, batch_size)

    def has_available(self) -> None:
        """Records in flight are available now, without a transition."""
        self._may_have_free = True

    def lock(self, first: int, last: int, delivery: Delivery, member: str, deadline_ms: int) -> None:
        """Deliver records to a member."""
        delivery.state, delivery.member = ACQUIRED, member
        delivery.deliveries += 1
        self._hold(first, last, delivery, deadline_ms)

    def _hold(self, first: int, last: int, delivery: Delivery, deadline_ms: int) -> None:
        delivery.deadline_ms = deadline_ms
        self._locked += 1
        heapq.heappush(self._locks, (deadline_ms, self._locked, first, last, delivery))

    # what members say

    def acknowledging(
        self, member: str, acknowledgements: Iterable[Acknowledgement], now_ms: int, pace: Pace
    ) -> Generator[None, None, Transition | Refusal]:
        """Apply a member's acknowledgements, in pieces of ``pace``; if any is refused nothing is changed. Records of earlier pieces are
        ``moving``, so that no other request gets them; a lock that expires before its piece counts as expired."""
        moved = Transition()
        renewed: list[tuple[int, int, Delivery]] = []
        for acknowledgement in acknowledgements:
            if pace.full():
                yield
            refusal = yield from self._acknowledge(member, acknowledgement, moved, renewed, pace)
            if refusal is not None:
                self.undo(moved)
                return refusal
        for first, last, delivery in renewed:
            if delivery.state is ACQUIRED and delivery.member == member:
                self._hold(first, last, delivery, now_ms + self.limits.lock_ms)
                moved.renewed.append(Renewed(first, last, delivery))
        moved.start_offset, moved.complete_count = self.start_offset, self.complete_count
        return moved

    def _acknowledge(
        self,
        member: str,
        acknowledgement: Acknowledgement,
        moved: Transition,
        renewed: list[tuple[int, int, Delivery]],
        pace: Pace,
    ) -> Generator[None, None, Refusal | None]:
        if acknowledgement.last < self.start_offset:
            return None
        at = self._floor(acknowledgement.first)
        if isinstance(at, Refusal):
            return at
        refusal = self._out_of_flight(acknowledgement)
        if refusal is not None:
            return refusal
        while (batch := self._at(at)) is not None and batch.first <= acknowledgement.last:
            at = batch.last + 1
            if batch.last < self.start_offset:
                continue
            if batch.offset_state is None:
                refusal = self._whole_refusal(batch, member)
                if refusal is not None:
                    return refusal
                is_covered = (
                    max(acknowledgement.first, self.start_offset) <= batch.first and batch.last <= acknowledgement.last
                )
                if is_covered and len(acknowledgement.types) == 1:
                    self._become(batch.first, batch.last, batch.batch_state, acknowledgement.types[0], moved, renewed)
                    continue
                if not (yield from self._parting(batch, pace)):
                    at = batch.first
                    continue  # it is another since: look again
            refusal = yield from self._acknowledge_some(batch, member, acknowledgement, moved, renewed, pace)
            if refusal is not None:
                return refusal
        return None

    def _acknowledge_some(
        self,
        batch: Batch,
        member: str,
        acknowledgement: Acknowledgement,
        moved: Transition,
        renewed: list[tuple[int, int, Delivery]],
        pace: Pace,
    ) -> Generator[None, None, Refusal | None]:
        """Apply an acknowledgement to the records of one batch, one by one; none of them need be its."""
        deliveries, types = batch.parted(), acknowledgement.types
        begin = max(acknowledgement.first, batch.first, self.start_offset)
        for offset in range(begin, min(acknowledgement.last, batch.last) + 1):
            if pace.full():
                yield
            delivery = deliveries.get(offset)
            if delivery is None:
                continue  # it is done with since
            if delivery.state is not ACQUIRED or delivery.moving:
                what = "batch" if self.policy.old_words else "offset"
                return Refusal(
                    Err.INVALID_RECORD_STATE, f"The {what} cannot be acknowledged. The offset is not acquired."
                )
            if delivery.member != member:
                return Refusal(Err.INVALID_RECORD_STATE, "Member is not the owner of offset")
            kind = types[0] if len(types) == 1 else types[offset - acknowledgement.first]
            self._become(offset, offset, delivery, kind, moved, renewed)
        return None

    def _floor(self, offset: int) -> int | Refusal:
        """First offset of the batches that an acknowledgement from ``offset`` on concerns: that of the last one that begins at or
        before it, even if that one ends before it (SharePartition.fetchSubMapForAcknowledgementBatch)."""
        at = bisect_right(self.batches, offset, key=lambda batch: batch.first)
        if at:
            return self.batches[at - 1].first
        if offset >= self.start_offset:
            return NOT_IN_FLIGHT
        at = bisect_right(self.batches, self.start_offset, key=lambda batch: batch.first)
        return self.batches[at - 1].first if at else _START_NOT_IN_FLIGHT

    def _out_of_flight(self, acknowledgement: Acknowledgement) -> Refusal | None:
        """The refusal if an acknowledgement ends behind the last batch that begins in it."""
        at = bisect_right(self.batches, acknowledgement.last, key=lambda batch: batch.first)
        last = self.batches[at - 1].last
        if acknowledgement.last <= last:
            return None
        return Refusal(Err.INVALID_REQUEST, _PAST.format("first" if acknowledgement.first > last else "last"))

    def _at(self, offset: int) -> Batch | None:
        """The batch that has a record, or the first behind it."""
        at = bisect_right(self.batches, offset, key=lambda batch: batch.first) - 1
        if at < 0:
            return self.batches[0] if self.batches else None
        if self.batches[at].last < offset:
            at += 1
        return self.batches[at] if at < len(self.batches) else None

    def _parting(self, batch: Batch, pace: Pace) -> Generator[None, None, bool]:
        """As `_part`, in pieces; returns False if the batch has changed meanwhile."""
        whole, deliveries = batch.batch_state, dict[int, Delivery]()
        before = (whole.state, whole.member, whole.deadline_ms, whole.moving)
        for offset in range(batch.first, batch.last + 1):
            deliveries[offset] = whole.copy()
            if pace.full():
                yield
        after = (whole.state, whole.member, whole.deadline_ms, whole.moving)
        if batch.offset_state is not None or after != before or self._at(batch.first) is not batch:
            return False
        batch.offset_state = deliveries
        self._part(batch)
        return True

    def _whole_refusal(self, batch: Batch, member: str) -> Refusal | None:
        whole = batch.batch_state
        if whole.state is not ACQUIRED or whole.moving:
            words = "The batch cannot be acknowledged. The batch is not in the acquired state."
            return Refusal(Err.INVALID_RECORD_STATE, words)
        not_owner = Refusal(Err.INVALID_RECORD_STATE, "Member is not the owner of batch record")
        return not_owner if whole.member != member else None

    def _part(self, batch: Batch) -> None:
        """Split a batch into single records, with locks of their own that end with the batch's lock."""
        for offset, delivery in batch.parted().items():
            if delivery.state is ACQUIRED:
                self._hold(offset, offset, delivery, delivery.deadline_ms)
        batch.batch_state.state, batch.batch_state.deadline_ms = ARCHIVED, -1

    def _become(
        self,
        first: int,
        last: int,
        delivery: Delivery,
        kind: int,
        moved: Transition,
        renewed: list[tuple[int, int, Delivery]],
    ) -> None:
        if kind == RENEW:
            renewed.append((first, last, delivery))
        else:
            self._move(first, last, delivery, _BECOMES[kind], moved, _REASONS[kind])

    def _move(
        self,
        first: int,
        last: int,
        delivery: Delivery,
        state: DeliveryState,
        moved: Transition,
        why: Reason,
        *,
        uncounted: bool = False,
    ) -> None:
        before = delivery.copy()
        if state is AVAILABLE:
            if uncounted:
                delivery.deliveries -= 1
            if last < self.start_offset:
                state, why = ARCHIVED, Reason.DELETED
            elif not uncounted and delivery.deliveries >= self.limits.deliveries:
                state = ARCHIVED
        if state is ARCHIVED and why in _LETTERS and self.limits.dead_letters:
            state = ARCHIVING
        delivery.state, delivery.member, delivery.moving = state, NO_MEMBER, True
        if state.is_final:
            self.complete_count += self._counted(first, last)
        moved.changes.append(Change(first, last, delivery, before, why))

    def _counted(self, first: int, last: int) -> int:
        """Number of these records that are at or behind the start offset; `complete_count` counts no others."""
        return max(0, last + 1 - max(first, self.start_offset))

    # what the share coordinator says

    def settle(self, moved: Transition) -> None:
        """Complete a transition that the share coordinator has stored."""
        for _, _, delivery, _, _ in moved.changes:
            delivery.moving = False
            if delivery.state is not ACQUIRED:
                delivery.deadline_ms = -1
        self._may_have_free = True
        self._advance()

    def undo(self, moved: Transition) -> None:
        """Undo a transition that the share coordinator has rejected: records get back their states, and locks their deadlines."""
        for first, last, delivery, before, _ in moved.changes:
            if delivery.state.is_final:
                self.complete_count -= self._counted(first, last)
            delivery.state, delivery.deliveries = before.state, before.deliveries
            delivery.member, delivery.moving = before.member, False
            if delivery.state is ACQUIRED:
                self._hold(first, last, delivery, before.deadline_ms)

    def _advance(self) -> None:
        """Advance the start offset over acknowledged and archived records, up to the gaps that are left."""
        completed, gap_start = 0, self.gap_start
        if gap_start is not None and self.batches and self.batches[0].first > self.start_offset:
            return
        for batch in self.batches:
            if gap_start is not None and batch.last >= gap_start:
                break
            if batch.offset_state is None:
                if not batch.batch_state.is_settled:
                    break
                self.complete_count -= self._counted(batch.first, batch.last)
            else:
                for offset in list(batch.offset_state):
                    if not batch.offset_state[offset].is_settled:
                        break
                    del batch.offset_state[offset]
                    batch.first = offset + 1
                    self.complete_count -= self._counted(offset, offset)
                if batch.offset_state:
                    break
            completed += 1
        if completed:
            del self.batches[:completed]
        start_offset = self.batches[0].first if self.batches else self.next_offset
        if gap_start is not None:
            start_offset = min(start_offset, gap_start)
        self.start_offset = max(self.start_offset, start_offset)

    # dead letters

    def archiving(self) -> list[tuple[int, int, Delivery]]:
        """The records that wait for their dead letters, also those that an earlier leader of the partition has not written."""
        return [run for batch in self.batches for run in batch.runs() if run[2].state is ARCHIVING]

    def lettered(self, first: int, last: int) -> Transition:
        """The letters of these records are written, or given up."""
        moved = Transition(start_offset=self.start_offset)
        for batch in self.batches:
            if batch.first > last or batch.last < first:
                continue
            for begin, end, delivery in batch.runs():
                if begin <= last and end >= first and delivery.state is ARCHIVING:
                    self._move(begin, end, delivery, ARCHIVED, moved, Reason.LETTER)
        moved.complete_count = self.complete_count
        return moved

    # times

    def next_deadline_ms(self) -> int | None:
        """Time at which the next lock ends; None without a lock."""
        locks = self._locks
        while locks:
            deadline_ms, _, _, _, delivery = locks[0]
            if delivery.state is ACQUIRED and delivery.deadline_ms == deadline_ms:
                return deadline_ms
            heapq.heappop(locks)
        return None

    def locked(self) -> list[tuple[int, int, Delivery]]:
        """The acquired records: first offset, last offset and state of each run."""
        return [run for batch in self.batches for run in batch.runs() if run[2].state is ACQUIRED]

    def expire(self, now_ms: int) -> list[Transition]:
        """Locks have ended: each is to be written down, and counts already."""
        ended: list[Transition] = []
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            _, _, first, last, delivery = heapq.heappop(self._locks)
            ended.append(self._expired(first, last, delivery))
        return ended

    def expire_of(self, members: Iterable[str]) -> list[Transition]:
        """The locks of these members have ended before their time, by an operator's hand."""
        whose = set(members)
        return [self._expired(*run) for run in self.locked() if run[2].member in whose and not run[2].moving]

    def _expired(self, first: int, last: int, delivery: Delivery) -> Transition:
        moved = Transition(start_offset=self.start_offset)
        self._move(first, last, delivery, AVAILABLE, moved, Reason.EXPIRED)
        delivery.moving = False
        delivery.deadline_ms = -1
        moved.complete_count = self.complete_count
        self._may_have_free = True
        return moved

    def releasing(self, member: str, pace: Pace) -> Generator[None, None, Transition]:
        """Release a member's records at the end of its session, in pieces of ``pace``."""
        moved, uncounted = Transition(), self.policy.closed_session_uncounted
        offset = self.start_offset
        while (batch := self._at(offset)) is not None:
            offset = batch.last + 1
            for at in (batch.first,) if batch.offset_state is None else tuple(batch.offset_state):
                if pace.full():
                    yield
                delivery = batch.batch_state if batch.offset_state is None else batch.offset_state.get(at)
                if delivery is None or delivery.member != member or delivery.state is not ACQUIRED:
                    continue
                last = batch.last if batch.offset_state is None else at
                self._move(at, last, delivery, AVAILABLE, moved, Reason.SESSION_CLOSED, uncounted=uncounted)
        moved.start_offset, moved.complete_count = self.start_offset, self.complete_count
        return moved

    # the log

    def without_records_below(self, offset: int) -> Transition:
        """Archive available records below ``offset``: the log starts there now, or compaction has removed them
        (SharePartition.updateCacheAndOffsets, maybeArchiveStaleBatches)."""
        moved = Transition(start_offset=self.start_offset)
        for batch in self.batches:
            if batch.first >= offset:
                break
            if batch.last >= offset and batch.offset_state is None and batch.batch_state.is_free:
                batch.parted()
            for first, last, delivery in batch.runs():
                if last < offset and delivery.is_free:
                    self._move(first, last, delivery, ARCHIVED, moved, Reason.DELETED)
        moved.complete_count = self.complete_count
        return moved

    def starts_at(self, offset: int) -> Transition:
        """The log starts at ``offset`` now: records below it are out of the way, acquired ones, too, until their locks end
        (SharePartition.updateCacheAndOffsets)."""
        moved = self.without_records_below(offset)
        for batch in self.batches:
            whole = batch.batch_state
            if batch.first < offset <= batch.last and batch.offset_state is None and not whole.moving:
                self._part(batch)
            for first, last, delivery in batch.runs():
                if delivery.state.is_final:
                    self.complete_count -= self._counted(first, min(last, offset - 1))
        self.start_offset, self.next_offset = max(self.start_offset, offset), max(self.next_offset, offset)
        moved.start_offset, moved.complete_count = self.start_offset, self.complete_count
        return moved

    def archive(self, ranges: Iterable[tuple[int, int]]) -> Transition:
        """Archive records of aborted transactions that were acquired at this moment."""
        moved = Transition(start_offset=self.start_offset)
        for begin, end in ranges:
            for batch in self.batches:
                if batch.first > end or batch.last < begin:
                    continue
                if batch.offset_state is None and begin <= batch.first and batch.last <= end:
                    if batch.batch_state.state is ACQUIRED and not batch.batch_state.moving:
                        self._move(batch.first, batch.last, batch.batch_state, ARCHIVED, moved, Reason.ABORTED)
                    continue
                if batch.offset_state is None:
                    self._part(batch)
                for offset, delivery in (batch.offset_state or {}).items():
                    if begin <= offset <= end and delivery.state is ACQUIRED and not delivery.moving:
                        self._move(offset, offset, delivery, ARCHIVED, moved, Reason.ABORTED)
        moved.complete_count = self.complete_count
        return moved


NOT_IN_FLIGHT = Refusal(
    Err.INVALID_RECORD_STATE, "Batch record not found. The request batch offsets are not found in the cache."
)
"""The refusal if no records are in flight (SharePartition.fetchSubMapForAcknowledgementBatch)."""

_START_NOT_IN_FLIGHT = Refusal(Err.UNKNOWN_SERVER_ERROR, None)
"""The same if some of the offsets are below the start offset: Kafka then looks up the run of the start offset, and an exception for
the missing one ends the whole request."""

_PAST = "Batch record not found. The {} offset in request is past acquired records."

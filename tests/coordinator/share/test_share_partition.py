"""A partition as a share group has it: who has what, what becomes of it, and what is written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from broker_sim.common.slices import Pace, at_once
from broker_sim.coordinator.share_partition.inflight import Acquired, Batch, Delivery, DeliveryState
from broker_sim.coordinator.share_partition.partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    Limits,
    PartitionPolicy,
    Refusal,
    SharePartition,
)
from broker_sim.coordinator.share_partition.transition import Transition
from broker_sim.coordinator.share_state.batches import StateBatch
from kafka_wire.errors import Err

LIMITS = Limits(lock_ms=1000, deliveries=5, in_flight=100)
NEW, OLD = PartitionPolicy(), PartitionPolicy(True, False, False, False, True)
AVAILABLE, ACQUIRED, ACKNOWLEDGED, _, ARCHIVED = DeliveryState
TWO_BATCHES = ((0, 4), (5, 9))


class Leader:
    """A share partition over a log of batches; what is to be written down is confirmed at once, unless it ``waits``."""

    def __init__(
        self, policy: PartitionPolicy = NEW, read: Sequence[tuple[int, int]] = TWO_BATCHES, **limits: Any
    ) -> None:
        self.share = SharePartition(policy, replace(LIMITS, **limits), 0, 0)
        self.read = list(read)
        self.now_ms = 0
        self.waits = False
        self.written: list[list[StateBatch]] = []

    def fetch(self, member: str = "ann", **how: Any) -> list[Acquired]:
        offset = self.share.fetch_offset()
        read = [one for one in self.read if one[1] >= offset]
        if not read:
            return []
        return self.share.acquire(member, read, self.now_ms, **{"batch_size": 500, "max_records": 500, **how})

    def say(self, *said: tuple[int, int, Sequence[int]], member: str = "ann") -> Transition | Refusal:
        job = self.share.acknowledging(member, [Acknowledgement(*one) for one in said], self.now_ms, Pace(10_000))
        moved = at_once(job)
        if isinstance(moved, Transition):
            self.write(moved)
        return moved

    def write(self, moved: Transition) -> None:
        if moved.changes:
            self.written.append(moved.batches)
        if not self.waits:
            self.share.settle(moved)

    def expire(self, after_ms: int) -> None:
        self.now_ms += after_ms
        for moved in self.share.expire(self.now_ms):
            self.write(moved)


def test_what_is_fetched_is_locked_as_one_run_and_nobody_else_gets_it() -> None:
    leader = Leader()
    assert leader.fetch() == [Acquired(0, 9, 1)]
    assert leader.fetch("bob") == []
    assert leader.share.next_deadline_ms() == 1000


def test_runs_end_where_batches_of_the_log_do() -> None:
    leader = Leader(read=[(0, 3), (4, 5), (6, 9), (10, 11)])
    assert leader.fetch(batch_size=3) == [Acquired(0, 3, 1), Acquired(4, 9, 1), Acquired(10, 11, 1)]
    assert Leader(read=[(0, 3), (4, 7)]).fetch(max_records=2) == [Acquired(0, 3, 1)]
    assert Leader(read=[(0, 3), (4, 7)]).fetch(max_records=2, exactly=True) == [Acquired(0, 1, 1)]


def test_accepting_moves_the_start_and_is_written_with_the_start_before_it() -> None:
    leader = Leader()
    leader.fetch()
    moved = leader.say((0, 1, [ACCEPT]))
    assert isinstance(moved, Transition)
    assert (moved.start_offset, moved.complete_count, leader.share.start_offset) == (0, 2, 2)
    assert leader.written == [[StateBatch(0, 1, ACKNOWLEDGED, 1)]], "neighbours are told as one"


def test_each_type_and_one_for_each_record() -> None:
    leader = Leader()
    leader.fetch()
    leader.say((0, 4, [ACCEPT, RELEASE, REJECT, GAP, ACCEPT]))
    became = [(0, 0, ACKNOWLEDGED, 1), (1, 1, AVAILABLE, 1), (2, 3, ARCHIVED, 1), (4, 4, ACKNOWLEDGED, 1)]
    assert leader.written == [[StateBatch(*one) for one in became]]
    assert leader.share.start_offset == 1
    assert leader.fetch() == [Acquired(1, 1, 2)]


def test_a_whole_run_is_acknowledged_as_one() -> None:
    leader = Leader()
    leader.fetch()
    leader.say((0, 9, [ACCEPT]))
    assert leader.written == [[StateBatch(0, 9, ACKNOWLEDGED, 1)]]
    assert (leader.share.start_offset, leader.share.batches, leader.share.complete_count) == (10, [], 0)


@pytest.mark.parametrize(
    ("said", "member", "error", "words"),
    [
        ((100, 100, [ACCEPT]), "ann", Err.INVALID_REQUEST, "The first offset in request is past"),
        ((5, 100, [ACCEPT]), "ann", Err.INVALID_REQUEST, "The last offset in request is past"),
        ((5, 5, [ACCEPT]), "bob", Err.INVALID_RECORD_STATE, "Member is not the owner"),
        ((3, 3, [ACCEPT]), "ann", Err.INVALID_RECORD_STATE, "not acquired"),
    ],
)
def test_refusals(said: tuple[int, int, list[int]], member: str, error: Err, words: str) -> None:
    leader = Leader()
    leader.fetch()
    leader.say((3, 3, [RELEASE]))
    refusal = leader.say(said, member=member)
    assert isinstance(refusal, Refusal)
    assert refusal.error is error
    assert words in (refusal.words or "")


def test_below_the_start_everything_has_been_said() -> None:
    leader = Leader()
    leader.fetch()
    leader.say((0, 4, [ACCEPT]))
    again = leader.say((0, 0, [REJECT]))
    assert isinstance(again, Transition)
    assert not again.changes


def test_a_request_with_one_bad_record_changes_nothing() -> None:
    leader = Leader()
    leader.fetch()
    leader.say((7, 7, [RELEASE]))
    refusal = leader.say((0, 1, [ACCEPT]), (6, 8, [ACCEPT]))
    assert isinstance(refusal, Refusal)
    assert isinstance(leader.say((0, 1, [ACCEPT])), Transition)
    assert isinstance(leader.say((6, 6, [ACCEPT])), Transition)
    assert leader.share.start_offset == 2


def test_a_lock_ends_and_the_record_comes_again_until_the_limit() -> None:
    leader = Leader(OLD, read=[(0, 0)], deliveries=2)
    assert leader.fetch() == [Acquired(0, 0, 1)]
    leader.expire(999)
    assert leader.written == []
    leader.expire(1)
    assert leader.written == [[StateBatch(0, 0, AVAILABLE, 1)]]
    assert leader.fetch("bob") == [Acquired(0, 0, 2)]
    leader.expire(1000)
    assert leader.written[1:] == [[StateBatch(0, 0, ARCHIVED, 2)]]
    assert leader.share.start_offset == 1


def test_released_at_the_limit_it_is_archived() -> None:
    leader = Leader(read=[(0, 0)], deliveries=2)
    leader.fetch()
    leader.say((0, 0, [RELEASE]))
    leader.fetch()
    leader.say((0, 0, [RELEASE]))
    assert leader.written == [[StateBatch(0, 0, AVAILABLE, 1)], [StateBatch(0, 0, ARCHIVED, 2)]]


def test_records_parted_from_a_run_keep_its_deadline() -> None:
    leader = Leader()
    leader.fetch()
    leader.now_ms = 400
    leader.say((0, 0, [ACCEPT]))
    leader.expire(600)
    assert [batches[0].first for batches in leader.written[1:]] == [*range(1, 10)]


def test_renewing_moves_the_deadline_and_writes_nothing() -> None:
    leader = Leader()
    leader.fetch()
    leader.now_ms = 900
    assert isinstance(leader.say((0, 9, [RENEW])), Transition)
    leader.expire(100)
    assert leader.written == []
    leader.expire(900)
    assert leader.written == [[StateBatch(0, 9, AVAILABLE, 1)]]


@pytest.mark.parametrize(("policy", "deliveries"), [(OLD, 0), (NEW, 1)])
def test_what_a_session_leaves_behind_counts_from_4_2_on(policy: PartitionPolicy, deliveries: int) -> None:
    leader = Leader(policy)
    leader.fetch()
    leader.write(at_once(leader.share.releasing("ann", Pace(10_000))))
    assert leader.written == [[StateBatch(0, 9, AVAILABLE, deliveries)]]
    assert leader.fetch("bob") == [Acquired(0, 9, deliveries + 1)]


def test_until_it_is_written_nobody_can_have_it() -> None:
    leader = Leader()
    leader.fetch()
    leader.waits = True
    moved = leader.say((0, 9, [RELEASE]))
    assert isinstance(moved, Transition)
    assert leader.fetch("bob") == []
    leader.share.settle(moved)
    assert leader.fetch("bob") == [Acquired(0, 9, 2)]


def test_what_could_not_be_written_has_not_been_and_its_lock_goes_on() -> None:
    leader = Leader()
    leader.fetch()
    leader.waits = True
    moved = leader.say((0, 9, [ACCEPT]))
    assert isinstance(moved, Transition)
    leader.share.undo(moved)
    assert (leader.share.start_offset, leader.share.complete_count) == (0, 0)
    assert leader.share.next_deadline_ms() == 1000
    leader.waits = False
    assert isinstance(leader.say((0, 9, [ACCEPT])), Transition)
    assert leader.share.start_offset == 10


def test_no_more_are_in_flight_than_the_group_allows() -> None:
    leader = Leader(read=[(at, at) for at in range(20)], in_flight=10)
    assert leader.fetch() == [Acquired(0, 9, 1)]
    assert not leader.share.may_acquire
    assert leader.fetch() == []
    leader.say((0, 0, [RELEASE]))
    assert leader.share.may_acquire
    assert leader.fetch() == [Acquired(0, 0, 2)]
    leader.say((0, 2, [ACCEPT]))
    assert leader.fetch() == [Acquired(10, 12, 1)]


def test_what_is_done_with_leaves_room_from_4_2_on() -> None:
    for policy, room in ((OLD, []), (NEW, [Acquired(10, 10, 1)])):
        leader = Leader(policy, read=[(at, at) for at in range(20)], in_flight=10)
        leader.fetch()
        leader.say((5, 5, [ACCEPT]))
        assert leader.fetch() == room


def test_bad_records_come_in_halves_and_at_last_alone() -> None:
    """As 4.4.0 delivered ten records whose locks always ended."""
    leader = Leader()
    got = []
    for _ in range(3):
        got.append(leader.fetch())
        leader.expire(1000)
    assert got == [[Acquired(0, 9, 1)], [Acquired(0, 9, 2)], [Acquired(0, 9, 3)]]
    assert [leader.fetch(), leader.fetch("bob")] == [[Acquired(0, 4, 4)], [Acquired(5, 9, 4)]]
    leader.expire(1000)
    assert [leader.fetch(), leader.fetch()] == [[Acquired(0, 0, 5)], [Acquired(1, 1, 5)]]


def test_it_goes_on_from_what_was_stored_and_gaps_are_undelivered() -> None:
    stored = [StateBatch(2, 3, ACKNOWLEDGED, 1), StateBatch(6, 6, AVAILABLE, 2), StateBatch(9, 9, ARCHIVED, 5)]
    share = SharePartition.loaded(NEW, LIMITS, 2, stored)
    assert (share.start_offset, share.next_offset, share.complete_count) == (4, 10, 1)
    got = share.acquire("ann", TWO_BATCHES, 0, batch_size=500, max_records=500)
    assert got == [Acquired(4, 5, 1), Acquired(6, 6, 3), Acquired(7, 8, 1)]


def test_what_the_log_has_lost_is_archived() -> None:
    leader = Leader()
    leader.fetch()
    leader.say((0, 3, [RELEASE]))
    leader.write(leader.share.without_records_below(3))
    assert leader.written[-1] == [StateBatch(0, 2, ARCHIVED, 1)]
    assert leader.share.start_offset == 3
    empty = SharePartition(NEW, LIMITS, 0, 0)
    empty.starts_at(7)
    assert (empty.start_offset, empty.next_offset) == (7, 7)


def test_records_that_the_log_has_lost_are_out_of_the_way_though_a_member_has_them() -> None:
    leader = Leader()
    leader.fetch(max_records=5)
    leader.say((4, 4, [ACCEPT]))
    leader.write(leader.share.starts_at(7))
    share = leader.share
    assert (share.start_offset, share.next_offset, share.complete_count, share.in_flight) == (7, 7, 0, 0)
    assert leader.fetch() == [Acquired(5, 9, 1)], "the batch of the log that has the offset"
    assert isinstance(leader.say((0, 3, [ACCEPT]), member="bob"), Transition)
    leader.expire(1000)
    expired = [one for batches in leader.written for one in batches if one.state != ACKNOWLEDGED]
    assert sorted((one.first, one.last, one.state) for one in expired) == [
        *((offset, offset, ARCHIVED) for offset in range(4)),
        (5, 9, AVAILABLE),
    ]


def test_loaded_gaps_are_acquired_in_runs_as_new_records_are_and_the_start_offset_waits_for_them() -> None:
    share = SharePartition.loaded(NEW, LIMITS, 0, [StateBatch(6, 7, ACKNOWLEDGED, 1)])
    read = ((0, 1), (2, 3), (4, 7), (8, 9))
    assert (share.gap_start, share.start_offset) == (0, 0)
    assert share.acquire("ann", read, 0, batch_size=2, max_records=3) == [Acquired(0, 1, 1), Acquired(2, 3, 1)]
    assert (share.gap_start, share.fetch_offset()) == (4, 4)
    said = [Acknowledgement(0, 3, [ACCEPT])]
    moved = at_once(share.acknowledging("ann", said, 0, Pace(10_000)))
    assert isinstance(moved, Transition)
    share.settle(moved)
    assert share.start_offset == 4
    assert share.acquire("ann", read[2:], 0, batch_size=2, max_records=500) == [Acquired(4, 5, 1), Acquired(8, 9, 1)]
    assert share.gap_start is None


def test_a_gap_of_the_log_is_not_in_flight_and_nothing_is_stored_of_it() -> None:
    leader = Leader(read=((0, 1), (4, 5)))
    assert [leader.fetch(max_records=1), leader.fetch(max_records=1)] == [[Acquired(0, 1, 1)], [Acquired(4, 5, 1)]]
    for said, error in (((2, 3), Err.INVALID_REQUEST), ((1, 2), Err.INVALID_REQUEST), ((6, 6), Err.INVALID_REQUEST)):
        refused = leader.say((*said, [ACCEPT]))
        assert isinstance(refused, Refusal)
        assert refused.error is error
    assert isinstance(leader.say((3, 4, [ACCEPT])), Transition)
    assert isinstance(leader.say((1, 5, [RELEASE])), Refusal)
    leader.say((0, 1, [ACCEPT]))
    assert leader.share.start_offset == 5
    assert leader.written == [[StateBatch(4, 4, ACKNOWLEDGED, 1)], [StateBatch(0, 1, ACKNOWLEDGED, 1)]]


def test_aborted_records_are_archived_as_soon_as_they_are_acquired() -> None:
    leader = Leader()
    leader.fetch()
    leader.write(leader.share.archive([(2, 3)]))
    assert leader.written == [[StateBatch(2, 3, ARCHIVED, 1)]]
    assert isinstance(leader.say((0, 1, [ACCEPT]), (4, 9, [ACCEPT])), Transition)
    assert leader.share.start_offset == 10


def test_random_histories_lose_nothing_and_give_nothing_twice() -> None:
    """Three members in whatever order: every record has one holder at most, is delivered within the limit, and ends."""
    for seed in range(60):
        rng = Random(f"share {seed}")
        policy = rng.choice([OLD, NEW])
        read = []
        while not read or read[-1][1] < 39:
            first = read[-1][1] + 1 if read else 0
            read.append((first, min(39, first + rng.randrange(0, 6))))
        leader = Leader(policy, read, in_flight=rng.choice([10, 100]))
        held: dict[int, str] = {}
        for _ in range(400):
            member = rng.choice(["ann", "bob", "cid"])
            match rng.randrange(5):
                case 0 | 1:
                    size, most = rng.choice([1, 4, 500]), rng.choice([1, 3, 500])
                    for one in leader.fetch(member, batch_size=size, max_records=most, exactly=rng.random() < 0.5):
                        for offset in range(one.first, one.last + 1):
                            assert offset not in held, (seed, offset)
                            assert 1 <= one.deliveries <= 5
                            held[offset] = member
                case 2:
                    mine = [offset for offset, holder in held.items() if holder == member]
                    if mine:
                        offset = rng.choice(mine)
                        kind = rng.choice([ACCEPT, RELEASE, REJECT])
                        assert isinstance(leader.say((offset, offset, [kind]), member=member), Transition), seed
                        del held[offset]
                case 3:
                    leader.write(at_once(leader.share.releasing(member, Pace(10_000))))
                    held = {offset: holder for offset, holder in held.items() if holder != member}
                case 4 if rng.random() < 0.3:
                    leader.expire(1000)
                    held.clear()
            share = leader.share
            stored = [batch for batches in leader.written for batch in batches]
            assert all(batch.state != ACQUIRED for batch in stored)
            assert share.complete_count == sum(
                last - first + 1 for batch in share.batches for first, last, one in batch.runs() if one.state.is_final
            )
            ends = [*[batch.first for batch in share.batches][1:], share.next_offset]
            assert [batch.last + 1 for batch in share.batches] == (ends if share.batches else []), "no gaps"
        for _ in range(200):
            leader.expire(1000)
            for one in leader.fetch("ann"):
                leader.say((one.first, one.last, [ACCEPT]))
        assert (leader.share.start_offset, leader.share.batches) == (40, []), seed


def test_each_batch_that_is_acknowledged_costs_a_look_at_its_own_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch may acquire tens of thousands of records as one run, and a request acknowledge them one by one."""

    class Looked(dict[int, Delivery]):
        looked = 0

        def __getitem__(self, offset: int) -> Delivery:
            Looked.looked += 1
            return super().__getitem__(offset)

        def items(self) -> Any:
            Looked.looked += len(self)
            return super().items()

    real = Batch.parted

    def parted(batch: Batch) -> dict[int, Delivery]:
        batch.offset_state = real(batch) if isinstance(batch.offset_state, Looked) else Looked(real(batch))
        return batch.offset_state

    monkeypatch.setattr(Batch, "parted", parted)
    many = 2000
    leader = Leader(read=((0, many - 1),), in_flight=many)
    assert leader.fetch(max_records=many) == [Acquired(0, many - 1, 1)]
    moved = leader.say(*((offset, offset, [ACCEPT]) for offset in range(many)))
    assert isinstance(moved, Transition)
    assert len(moved.changes) == many
    assert Looked.looked <= 6 * many


# ------------------------------------------------------------------------------------------------ in pieces


def test_what_is_acknowledged_in_pieces_is_nobody_else_s_meanwhile() -> None:
    leader = Leader()
    leader.fetch()
    job = leader.share.acknowledging("ann", [Acknowledgement(0, 4, [RELEASE])], 0, Pace(2))
    looked_at = 0
    for _ in job:
        looked_at += 1
        assert leader.fetch("bob") == []
        refused = at_once(leader.share.acknowledging("ann", [Acknowledgement(9, 9, [ACCEPT])], 0, Pace(100)))
        assert isinstance(refused, (Transition, Refusal))
        if isinstance(refused, Transition):
            leader.share.undo(refused)
    assert looked_at > 1


def test_a_lock_that_ends_between_the_pieces_ends_before_it_is_acknowledged() -> None:
    leader = Leader()
    leader.fetch()
    assert isinstance(leader.say((9, 9, [RELEASE])), Transition)  # its run is parted
    job = leader.share.acknowledging("ann", [Acknowledgement(0, 8, [ACCEPT])], 0, Pace(3))
    next(job)
    leader.expire(5000)
    told = at_once(job)
    assert isinstance(told, Refusal)
    assert told.error is Err.INVALID_RECORD_STATE
    leader.expire(5000)
    assert not leader.share.locked(), "what was taken back is locked no longer than it was"


def test_a_session_that_ends_gives_back_in_pieces() -> None:
    leader = Leader()
    leader.fetch()
    leader.say((9, 9, [RELEASE]))
    job = leader.share.releasing("ann", Pace(2))
    pieces = 0
    try:
        while True:
            next(job)
            pieces += 1
    except StopIteration as done:
        leader.write(done.value)
    assert pieces > 1
    assert leader.share.locked() == []

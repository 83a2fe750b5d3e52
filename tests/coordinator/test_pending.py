"""The life of a pending write, which the shards of all coordinators have in common: LogShard by itself."""

from __future__ import annotations

import random

import pytest

from broker_sim.coordinator.outcome import Append, Appended, Outcome
from broker_sim.coordinator.pending import LogShard, PendingWrite
from broker_sim.coordinator.share_state.shard import ShareStateShard
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.transaction.state import TransactionState
from kafka_wire.errors import NO_ERROR, Err

TIMEOUT_MS = 5000


class Noted(PendingWrite["Shard"]):
    """A write of ``records`` records; the shard notes what becomes of it by its ``name``."""

    def __init__(self, name: str, records: int = 1, *, counts_in_log: bool = False, awaited: bool = True) -> None:
        super().__init__(token=1)
        self.name, self.records, self.late, self.awaited = name, records, counts_in_log, awaited

    @property
    def count(self) -> int:
        return self.records

    def done(self, shard: Shard) -> None:
        shard.notes.append(f"{self.name} done at {self.last_offset}")

    def failed(self, shard: Shard, error: Err) -> None:
        shard.notes.append(f"{self.name} {error.name}")

    def counts_in_log(self, shard: Shard) -> bool:
        return self.late


class Shard(LogShard[Noted]):
    """A shard that does nothing but write."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    @property
    def append_timeout_ms(self) -> int:
        return TIMEOUT_MS

    def begin(self, now_ms: int = 0) -> None:
        self.now_ms, self.out, self.notes = now_ms, Outcome(), []

    def write(self, write: Noted) -> int:
        ticket = self.ticket()
        self.writes[ticket] = write
        self.out.appends.append(Append(ticket, []))
        return ticket


@pytest.fixture
def shard() -> Shard:
    return Shard()


def appended(shard: Shard, *tickets: int, last_offset: int, high_watermark: int, error: Err = NO_ERROR) -> list[str]:
    shard.begin()
    shard.appended(Appended(tickets[0], last_offset, error, high_watermark, tickets[1:]))
    return shard.notes


@pytest.mark.parametrize("kind", [ShardState, TransactionState, ShareStateShard])
def test_all_coordinators_have_this_life(kind: type[LogShard[Noted]]) -> None:
    for step in ("appended", "committed", "append_timed_out", "defer", "fail_pending"):
        assert getattr(kind, step) is getattr(LogShard, step)


def test_a_write_is_done_at_once_if_the_high_watermark_is_behind_it(shard: Shard) -> None:
    ticket = shard.write(Noted("a"))
    assert appended(shard, ticket, last_offset=0, high_watermark=1) == ["a done at 0"]
    assert (shard.in_flight, shard.is_behind, shard.out.timers) == (False, False, [])


def test_a_write_waits_for_the_high_watermark_and_a_timer(shard: Shard) -> None:
    ticket = shard.write(Noted("a"))
    assert appended(shard, ticket, last_offset=0, high_watermark=0) == []
    assert (shard.in_flight, shard.is_behind) == (True, True)
    assert shard.out.timers == [(("append", ticket), TIMEOUT_MS)]
    shard.begin()
    shard.committed(1, NO_ERROR)
    assert (shard.notes, shard.out.timers) == (["a done at 0"], [(("append", ticket), None)])
    assert not shard.is_behind


def test_writes_of_a_batch_have_their_own_offsets_and_their_order(shard: Shard) -> None:
    tickets = [shard.write(Noted("a", 2)), shard.write(Noted("b", 3)), shard.write(Noted("c"))]
    assert appended(shard, *tickets, last_offset=15, high_watermark=0) == []
    shard.begin()
    shard.committed(12, NO_ERROR)  # a follower has fetched a part of the batch
    assert shard.notes == ["a done at 11"]
    shard.committed(16, Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert shard.notes == ["a done at 11", "b NOT_ENOUGH_REPLICAS_AFTER_APPEND", "c NOT_ENOUGH_REPLICAS_AFTER_APPEND"]


def test_a_failed_append_fails_its_writes_and_the_replies_behind_them(shard: Shard) -> None:
    ticket = shard.write(Noted("a"))
    shard.defer(Noted("reply", 0))
    assert appended(shard, ticket, last_offset=-1, high_watermark=0, error=Err.NOT_ENOUGH_REPLICAS) == [
        "a NOT_ENOUGH_REPLICAS",
        "reply NOT_ENOUGH_REPLICAS",
    ]
    assert (shard.last_written, shard.in_flight) == (-1, False)


def test_a_reply_waits_for_the_append_of_its_step_or_for_the_one_before(shard: Shard) -> None:
    ticket = shard.write(Noted("a"))
    shard.defer(Noted("of this step", 0))
    assert appended(shard, ticket, last_offset=4, high_watermark=0) == []
    shard.defer(Noted("of a later one", 0))
    assert shard.out.timers == [(("append", n), TIMEOUT_MS) for n in (0, 1, 2)]
    shard.begin()
    shard.committed(5, NO_ERROR)
    assert shard.notes == ["a done at 4", "of this step done at 4", "of a later one done at 4"]


@pytest.mark.parametrize(
    ("counts_in_log", "later"), [(True, ["a REQUEST_TIMED_OUT", "a done at 0"]), (False, ["a REQUEST_TIMED_OUT"])]
)
def test_a_write_that_timed_out_counts_in_logr_or_not(shard: Shard, counts_in_log: bool, later: list[str]) -> None:
    ticket = shard.write(write := Noted("a", counts_in_log=counts_in_log))
    appended(shard, ticket, last_offset=0, high_watermark=0)
    shard.append_timed_out(("append", ticket))
    shard.append_timed_out(("append", 77))  # committed meanwhile
    shard.committed(1, NO_ERROR)
    assert shard.notes == later
    assert write.token is None, "its request is answered"


def test_a_write_that_nobody_awaits_has_no_timer(shard: Shard) -> None:
    ticket = shard.write(Noted("a", awaited=False))
    assert appended(shard, ticket, last_offset=0, high_watermark=0) == []
    assert shard.out.timers == []


def test_an_unloaded_shard_fails_what_is_pending(shard: Shard) -> None:
    shard.write(Noted("a"))
    shard.write(Noted("b"))
    shard.fail_pending()
    assert shard.notes == ["a NOT_LEADER_OR_FOLLOWER", "b NOT_LEADER_OR_FOLLOWER"]


@pytest.mark.parametrize("seed", range(50))
def test_each_write_ends_once_and_in_the_order_of_the_log(shard: Shard, seed: int) -> None:
    """Random histories of a log that fails, lags and commits late. As in the runtime, an append that moves the high watermark past
    earlier writes reports this before its own result."""
    chance, end, high_watermark = random.Random(seed), 0, 0
    notes: list[str] = []
    written: list[str] = []
    for number in range(60):
        shard.begin(number)
        act = chance.choice(["write", "write", "commit", "time out"])
        if act == "write":
            names = [f"{number}.{part}" for part in range(chance.randint(1, 3))]
            tickets = [shard.write(Noted(name)) for name in names]
            written += names
            error = Err.NOT_ENOUGH_REPLICAS if chance.random() < 0.2 else NO_ERROR
            if error is NO_ERROR:
                end += len(names)
                if chance.random() < 0.3:
                    high_watermark = end
                    shard.committed(high_watermark, NO_ERROR)
            last_offset = end - 1 if error is NO_ERROR else -1
            shard.appended(Appended(tickets[0], last_offset, error, high_watermark, tuple(tickets[1:])))
        elif act == "commit" and high_watermark < end:
            high_watermark = chance.randint(high_watermark + 1, end)
            shard.committed(high_watermark, NO_ERROR)
        elif shard.writes:
            shard.append_timed_out(("append", chance.choice(list(shard.writes))))
        notes += shard.notes
    shard.begin()
    shard.committed(end, NO_ERROR)
    notes += shard.notes
    assert sorted(note.split()[0] for note in notes) == sorted(written), "each ends, and none twice"
    offsets = [int(note.rpartition(" ")[2]) for note in notes if " done at " in note]
    assert offsets == sorted(offsets)
    assert not shard.writes

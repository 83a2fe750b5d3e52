"""The runtime carries a coordinator that it has never heard of: a ledger of accounts with a topic, a partitioner and a log."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.coordinator.outcome import (
    Append,
    Appended,
    AppendedElsewhere,
    BatchProducer,
    Committed,
    Event,
    Outcome,
    Request,
    TimerFired,
    TopicsChanged,
)
from broker_sim.coordinator.shard_loader import ShardLoader
from broker_sim.runtime.coordinator_kind import CoordinatorKind
from broker_sim.runtime.coordinator_runtime import CoordinatorRuntime
from kafka_wire.end_markers import marker_of
from kafka_wire.errors import Err
from kafka_wire.record_batch import ControlType, control_type
from tests.support.ctx import FakeContext, Sim

LEDGER = "__ledger"


class Loader(ShardLoader["Ledger"]):
    """Later records win."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts: dict[str, str] = {}

    def read(self, log_offset: int, key: bytes | None, value: bytes | None, producer_id: int) -> None:
        assert key is not None
        assert value is not None
        self.accounts[key.decode()] = value.decode()

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        raise AssertionError("a ledger has no transactions")

    def start(self, shard: Ledger, now_ms: int) -> Outcome:
        return shard.start(self.accounts, now_ms)

    def found(self) -> str:
        return f"{len(self.accounts)} accounts"


class Ledger:
    """``("put", account, value)`` writes; ``("send", key, topic, index, control)`` appends elsewhere; ``("wait", ms)`` answers then."""

    def __init__(self, partition: int) -> None:
        self.partition, self.high_watermark, self.last_written = partition, 0, -1
        self.accounts: dict[str, str] = {}
        self.waiting: dict[int, tuple[int, tuple[str, str] | None, int]] = {}  # ticket -> token, what to put, offset
        self.heard: list[Any] = []
        self.tickets = 0

    @property
    def in_flight(self) -> bool:
        return bool(self.waiting)

    def start(self, loaded: dict[str, str], now_ms: int) -> Outcome:
        self.accounts = loaded
        return Outcome()

    def stop(self) -> Outcome:
        out = Outcome()
        out.replies = [(token, Err.NOT_COORDINATOR) for token, _, _ in self.waiting.values()]
        return out

    def step(self, event: Event, now_ms: int) -> Outcome:
        out = Outcome()
        match event:
            case Request(token, _, ("put", account, value)):
                out.appends.append(Append(self.ticket(token, (account, value)), [(account.encode(), value.encode())]))
            case Request(token, _, ("send", key, topic, index, control)):
                producer = BatchProducer(77, 3, marker_of(key, b"\0" * 6) if control else None)
                out.appends.append(Append(self.ticket(token), [(key, b"\0" * 6)], to=(topic, index), producer=producer))
            case Request(token, _, ("wait", ms)):
                out.timers.append((("wait", token), now_ms + ms))
            case Request(token, _, ("give up",)):
                for ticket in list(self.waiting):
                    self.answer(out, ticket, Err.REQUEST_TIMED_OUT)
                out.replies.append((token, Err.NONE))
            case TimerFired(("wait", int(token))):
                out.replies.append((token, Err.NONE))
            case Appended(ticket, last_offset, error, high_watermark):
                token, put, _ = self.waiting[ticket]
                self.waiting[ticket] = token, put, last_offset
                if error is not Err.NONE:
                    self.answer(out, ticket, error)
                else:
                    self.last_written = last_offset
                self.settle(out, high_watermark)
            case Committed(high_watermark, _):
                self.settle(out, high_watermark)
            case AppendedElsewhere(ticket, error):
                self.answer(out, ticket, error)
            case TopicsChanged(topics):
                self.heard.append(dict(topics))
        return out

    def ticket(self, token: int, put: tuple[str, str] | None = None) -> int:
        self.tickets += 1
        self.waiting[self.tickets] = token, put, -1
        return self.tickets

    def settle(self, out: Outcome, high_watermark: int) -> None:
        self.high_watermark = max(self.high_watermark, high_watermark)
        for ticket, (_, put, offset) in list(self.waiting.items()):
            if put is not None and 0 <= offset < self.high_watermark:
                self.accounts[put[0]] = put[1]
                self.answer(out, ticket, Err.NONE)

    def answer(self, out: Outcome, ticket: int, error: Err) -> None:
        out.replies.append((self.waiting.pop(ticket)[0], error))


class Ledgers:
    """A cluster with the ledger's coordinators."""

    def __init__(self) -> None:
        self.sim = Sim(brokers=2, topics={LEDGER: 2, "data": 2})
        kind = CoordinatorKind(LEDGER, lambda key, count: len(key) % count, Ledger, Loader)
        self.runtime = CoordinatorRuntime(self.sim.state, kind)
        self.sim.state.on_topics_changed.append(self.runtime.topics_changed)
        self.runtime.start()

    def shard(self, key: str) -> Ledger:
        partition = self.runtime.partition_of(key)
        assert partition is not None
        found = self.runtime.locate(self.sim.state.brokers[partition.leader], key)
        assert isinstance(found, Ledger)
        return found

    def ask(self, key: str, *body: Any) -> FakeContext:
        ctx = FakeContext(self.sim.state.brokers[1], self.sim.coordinators, 0, 0, "c")
        self.runtime.submit(self.shard(key), ctx, body)  # type: ignore[arg-type]
        return ctx

    def partition(self, topic: str, index: int) -> Any:
        found = self.sim.state.partition(topic, index)
        assert found is not None
        return found


@pytest.fixture
def ledgers() -> Ledgers:
    return Ledgers()


def test_a_key_is_coordinated_where_the_partitioner_says_and_nowhere_else(ledgers: Ledgers) -> None:
    partition = ledgers.runtime.partition_of("abc")
    assert (partition.topic.name, partition.index) == (LEDGER, 1)  # type: ignore[union-attr]
    other = next(b for b in ledgers.sim.state.brokers.values() if b.node_id != partition.leader)  # type: ignore[union-attr]
    assert ledgers.runtime.locate(other, "abc") is Err.NOT_COORDINATOR
    assert ledgers.shard("abc").partition == 1


def test_what_is_appended_is_answered_when_it_is_committed_and_is_there_after_a_move(ledgers: Ledgers) -> None:
    partition = ledgers.partition(LEDGER, 0)
    assert ledgers.ask("ab", "put", "ab", "5").response is Err.NONE
    partition.high_watermark_frozen = True
    late = ledgers.ask("ab", "put", "ab", "6")
    assert late.response is None
    partition.high_watermark_frozen = False
    partition.high_watermark = partition.log_end_offset
    partition.wake()
    assert (late.response, ledgers.shard("ab").accounts) == (Err.NONE, {"ab": "6"})
    ledgers.runtime.reload(partition)
    ledgers.sim.clock.advance(1)
    assert ledgers.shard("ab").accounts == {"ab": "6"}


def test_a_shard_whose_writes_were_given_up_still_hears_that_its_log_is_committed(ledgers: Ledgers) -> None:
    partition = ledgers.partition(LEDGER, 0)
    partition.high_watermark_frozen = True
    late = ledgers.ask("ab", "put", "ab", "6")
    assert ledgers.ask("ab", "give up").response is Err.NONE
    shard = ledgers.shard("ab")
    assert (late.response, shard.in_flight, shard.high_watermark) == (Err.REQUEST_TIMED_OUT, False, 0)
    partition.unfreeze_high_watermark()
    assert shard.high_watermark == partition.high_watermark == 1


def test_who_waits_is_told_when_the_coordinator_moves(ledgers: Ledgers) -> None:
    partition = ledgers.partition(LEDGER, 0)
    partition.high_watermark_frozen = True
    waiting = ledgers.ask("ab", "put", "ab", "6")
    ledgers.runtime.reload(partition)
    assert waiting.response is Err.NOT_COORDINATOR


def test_timers_are_a_shards_own(ledgers: Ledgers) -> None:
    one, other = ledgers.ask("ab", "wait", 20), ledgers.ask("abc", "wait", 30)
    ledgers.sim.clock.advance(20)
    assert (one.response, other.response) == (Err.NONE, None)
    ledgers.sim.clock.advance(10)
    assert other.response is Err.NONE


@pytest.mark.parametrize("control", [False, True])
def test_an_outcome_appends_to_partitions_of_others_and_is_told_once_that_is_committed(
    ledgers: Ledgers, control: bool
) -> None:
    data = ledgers.partition("data", 1)
    data.high_watermark_frozen = True
    ctx = ledgers.ask("ab", "send", b"\0\0\0\1", "data", 1, control)
    ledgers.sim.clock.advance(1)
    assert (ctx.response, data.log_end_offset) == (None, 1)
    data.high_watermark_frozen = False
    data.high_watermark = 1
    data.wake()
    ledgers.sim.clock.advance(1)
    assert ctx.response is Err.NONE
    (batch,) = list(data.log.batches())
    header = batch.header
    assert (header.producer_id, header.producer_epoch, header.is_transactional, header.is_control) == (
        77,
        3,
        True,
        control,
    )
    assert next(iter(batch.records())).key == b"\0\0\0\1"
    assert control_type(b"\0\0\0\1") == ControlType.COMMIT


def test_it_is_told_why_not(ledgers: Ledgers) -> None:
    gone = ledgers.ask("ab", "send", b"\0\0\0\1", "nowhere", 1, True)
    ledgers.partition("data", 0).leader = -1
    leaderless = ledgers.ask("ab", "send", b"\0\0\0\1", "data", 0, True)
    # after the step that has asked for it, and without a turn of the loop
    assert (gone.response, leaderless.response) == (Err.UNKNOWN_TOPIC_OR_PARTITION, Err.LEADER_NOT_AVAILABLE)


def test_a_shard_that_has_moved_away_is_told_nothing(ledgers: Ledgers) -> None:
    data = ledgers.partition("data", 1)
    data.high_watermark_frozen = True
    ctx = ledgers.ask("ab", "send", b"\0\0\0\1", "data", 1, True)
    ledgers.runtime.reload(ledgers.partition(LEDGER, 0))
    data.high_watermark_frozen = False
    data.high_watermark = 1
    data.wake()
    ledgers.sim.clock.advance(1)
    assert ctx.response is Err.NOT_COORDINATOR


def test_every_shard_hears_of_topics_that_come_grow_and_go(ledgers: Ledgers) -> None:
    shards = [ledgers.shard("ab"), ledgers.shard("abc")]
    state = ledgers.sim.state
    state.create_topic("new", 2)
    state.create_partitions("new", 3)
    state.delete_topic("new")
    heard = [
        [{name: image and image.partitions for name, image in told.items()} for told in shard.heard] for shard in shards
    ]
    at_first = {"__ledger": 2, "data": 2}
    assert heard == [[at_first, {"new": 2}, {"new": 3}, {"new": None}]] * 2

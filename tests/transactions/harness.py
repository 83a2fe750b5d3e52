"""A transaction coordinator's shard in a world of the test's own: its log, the partitions that its markers go to, and the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_sim.coordinator.outcome import NO_CLIENT as CLIENT
from broker_sim.coordinator.outcome import (
    AllocateProducerId,
    Append,
    Appended,
    AppendedElsewhere,
    Committed,
    Event,
    Outcome,
    ProducerIdAllocated,
    Request,
    TimerFired,
    TimerKey,
)
from broker_sim.coordinator.transaction.commands import AddPartitions, EndTransaction, Granted, InitProducerId
from broker_sim.coordinator.transaction.policy import TransactionSettings, policy_of
from broker_sim.coordinator.transaction.records import TransactionRecord, decode
from broker_sim.coordinator.transaction.shard import TransactionShard
from broker_sim.coordinator.transaction.store import TransactionLoader
from broker_sim.coordinator.transaction.transaction import Partition, State, Stored
from kafka_wire.control_records import control_type
from kafka_wire.errors import Err

TX = "billing"
P0, P1 = ("orders", 0), ("orders", 1)


class World:
    """``release``: of Kafka. ``held``: appends to the shard's log are not committed before `commit`. ``refusing``: partition (None: the
    shard's own) -> what its next appends are answered."""

    def __init__(self, release: tuple[int, int] = (4, 1), **settings: Any) -> None:
        self.settings = TransactionSettings(policy=policy_of(release), **settings)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.markers: list[
            tuple[Partition, str, int, int, int]
        ] = []  # where, kind, producer id, epoch, coordinator's epoch
        self.refusing: dict[Partition | None, Err] = {}
        self.held = False
        self.high_watermark = 0
        self.now_ms = 1_000_000
        self.timers: dict[TimerKey, int] = {}
        self.answers: dict[int, Any] = {}
        self.tokens = 0
        self.producer_ids = 4000
        self.coordinator_epoch = 0
        self.events: list[tuple[int, Event]] = []  # since the last load, and what that found
        self.loaded: list[tuple[bytes, bytes | None]] = []
        self.after_step: Callable[[], object] = lambda: None
        self.shard = self._new_shard()
        self.load()

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(0, self.settings, self.coordinator_epoch)

    # requests

    def start(self, body: Any) -> int:
        """Send a request; its token."""
        self.tokens += 1
        self.step(Request(self.tokens, CLIENT, body))
        return self.tokens

    def ask(self, body: Any) -> Any:
        """The answer of one that is answered at once."""
        token = self.start(body)
        assert token in self.answers, "the request is parked"
        return self.answers[token]

    def init(self, expected: tuple[int, int] | None = None, timeout_ms: int = 60_000, tx: str = TX) -> Granted:
        granted = self.ask(InitProducerId(tx, timeout_ms, expected))
        assert isinstance(granted, Granted)
        return granted

    def add(self, producer: tuple[int, int], *partitions: Partition, flow: int = 0, tx: str = TX) -> set[Err]:
        answer = self.ask(AddPartitions(tx, *producer, list(partitions or (P0,)), client_version=flow))
        return set(answer.values())

    def verify(self, producer: tuple[int, int], *partitions: Partition, tx: str = TX) -> dict[Partition, Err]:
        answer: dict[Partition, Err] = self.ask(AddPartitions(tx, *producer, list(partitions), verify_only=True))
        return answer

    def end(self, producer: tuple[int, int], commit: bool = True, flow: int = 0, tx: str = TX) -> Granted:
        granted = self.ask(EndTransaction(tx, *producer, commit, flow))
        assert isinstance(granted, Granted)
        return granted

    # what there is

    @property
    def stored(self) -> Stored:
        return self.shard.transactions[TX].stored

    @property
    def state(self) -> State:
        return self.stored.state

    def records(self) -> list[TransactionRecord]:
        return [decode(*pair) for pair in self.log]

    def states(self) -> list[tuple[str, int]]:
        """State and epoch of every record of the log."""
        return [(r.value.state.kafka_name, r.value.epoch) if r.value else ("gone", -1) for r in self.records()]

    # the world

    def step(self, event: Event) -> None:
        self.events.append((self.now_ms, event))
        self.perform(self.shard.step(event, self.now_ms))
        self.after_step()

    def perform(self, out: Outcome) -> None:
        for key, deadline_ms in out.timers:
            if deadline_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = deadline_ms
        later: list[Callable[[], None]] = []
        for append in out.appends:
            if append.to is None:
                self._append(append)
            else:
                later.append(self._elsewhere(append, append.to))
        for token, answer in out.replies:
            assert token not in self.answers, "answered twice"
            self.answers[token] = answer
        for told in later:
            told()
        for request in out.requests:
            assert isinstance(request, AllocateProducerId)
            self.producer_ids += 1
            self.step(ProducerIdAllocated(request.event, self.producer_ids))

    def _append(self, append: Append) -> None:
        error = self.refusing.get(None, Err.NONE)
        if error is Err.NONE:
            self.log += append.records
            if not self.held:
                self.high_watermark = len(self.log)
        last = len(self.log) - 1 if error is Err.NONE else -1
        self.step(Appended(append.ticket, last, error, self.high_watermark))

    def _elsewhere(self, append: Append, to: Partition) -> Callable[[], None]:
        error = self.refusing.get(to, Err.NONE)
        if error is Err.NONE:
            ((key, value),) = append.records
            assert append.producer.marker is not None
            assert value is not None
            kind = "commit" if control_type(key) else "abort"
            epoch = int.from_bytes(value[2:], "big")
            self.markers.append((to, kind, append.producer.producer_id, append.producer.epoch, epoch))
        shard = self.shard

        def told() -> None:
            if self.shard is shard:
                self.step(AppendedElsewhere(append.ticket, error))

        return told

    def commit(self, error: Err = Err.NONE) -> None:
        """Advance the high watermark to the end of the log."""
        self.high_watermark = len(self.log)
        self.step(Committed(self.high_watermark, error))

    def advance(self, ms: int) -> None:
        """Let time pass."""
        until_ms = self.now_ms + ms
        while self.timers:
            due_ms, _, key = min((deadline, number, key) for number, (key, deadline) in enumerate(self.timers.items()))
            if due_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            del self.timers[key]
            self.step(TimerFired(key))
        self.now_ms = until_ms

    def load(self) -> None:
        """The coordinator moves: what it answers whoever waits, and a new one out of the log."""
        old, self.timers = self.shard, {}
        self.perform(old.stop())
        self.timers = {}
        self.events, self.loaded = [], list(self.log)
        self.began_ms, self.high_watermark = self.now_ms, len(self.log)
        self.shard, out = self.fresh()
        self.perform(out)

    def fresh(self) -> tuple[TransactionShard, Outcome]:
        """A shard as it was after the last load."""
        shard, loader = self._new_shard(), TransactionLoader()
        for offset, pair in enumerate(self.loaded):
            loader.add(offset, *pair)
        shard.high_watermark, shard.last_written = len(self.loaded), len(self.loaded) - 1
        return shard, shard.start(loader.finish(), self.began_ms)


__all__ = ["P0", "P1", "TX", "State", "World"]

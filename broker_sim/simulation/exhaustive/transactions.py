"""A transactional id with two producers that both believe it is theirs, in all orders: who is fenced, and what becomes of what
was open.

Each may begin, begin anew with the epoch it has (KIP-360), add partitions, commit and abort, and ask again what was not answered.
The coordinator's log may be stuck, refuse a record, or move; a marker may be refused by its partition, or arrive late from a former
coordinator. Checked at every step: the responses by state of a real broker, which are recorded independently of the coordinator; a
marker has the outcome in the log, and is not sent before it; a transaction is complete only when every partition has its marker; an
epoch is assigned to one producer. From every state: a new producer can commit, and open transactions are aborted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from broker_sim.coordinator.outcome import (
    AllocateProducerId,
    Append,
    AppendedElsewhere,
    Outcome,
    PersisterRequest,
    ProducerIdAllocated,
    TimerKey,
)
from broker_sim.coordinator.transaction.commands import AddPartitions, EndTransaction, Granted, InitProducerId
from broker_sim.coordinator.transaction.policy import TransactionSettings
from broker_sim.coordinator.transaction.records import TransactionRecord, decode
from broker_sim.coordinator.transaction.shard import TransactionShard
from broker_sim.coordinator.transaction.store import TransactionLoader
from broker_sim.coordinator.transaction.transaction import State, Stored, Transaction
from broker_sim.simulation.exhaustive.explorer import Action, Broken
from broker_sim.simulation.exhaustive.shard_environment import ShardEnvironment
from broker_sim.simulation.exhaustive.surroundings import Surroundings
from kafka_wire.control_records import ControlType, control_record
from kafka_wire.errors import Err

__all__ = ["TransactionWorld"]

ID = "tx"
PARTITIONS = {"p": ("t", 0), "q": ("t", 1)}
_TIMEOUT_MS = 60_000
_ROUNDS = 60
_DECIDED = {State.PREPARE_COMMIT: ControlType.COMMIT, State.PREPARE_ABORT: ControlType.ABORT}
_CLOSED = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
_ENDED = {State.COMPLETE_COMMIT: True, State.COMPLETE_ABORT: False}
_RULED = frozenset(
    {
        Err.NONE, Err.INVALID_TXN_STATE, Err.INVALID_PRODUCER_ID_MAPPING, Err.PRODUCER_FENCED, Err.INVALID_PRODUCER_EPOCH,
        Err.CONCURRENT_TRANSACTIONS,
    }
)  # fmt: skip
"""Errors that follow from the state of the transaction; all others from the state of the log."""


class _Marker(NamedTuple):
    """Transaction marker that is being sent. ``lasts``: its sender has not been replaced, and gets the result."""

    ticket: int
    at: str
    kind: ControlType
    producer_id: int
    epoch: int
    coordinator_epoch: int
    lasts: bool = True


@dataclass(slots=True)
class _Data:
    """State of the producer in a data partition: the epochs of the last marker."""

    coordinator_epoch: int = -1
    epoch: int = -1
    last: str = ""


class _TransactionGround(ShardEnvironment[TransactionShard]):
    """A shard of the transaction coordinator, and the partitions that its markers go to."""

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.coordinator_epoch = 0
        self.next_id = 100
        self.markers: list[_Marker] = []
        self.data = {name: _Data() for name in PARTITIONS}
        self.marked: set[str] = set()  # which have the marker of the decision that the log has now
        super().__init__()

    def made(self) -> TransactionShard:
        return TransactionShard(0, self.settings, self.coordinator_epoch)

    def ask_elsewhere(self, request: PersisterRequest | AllocateProducerId) -> None:
        assert isinstance(request, AllocateProducerId)
        self.next_id += 1
        self.step(ProducerIdAllocated(request.event, self.next_id))

    def begun(self, shard: TransactionShard) -> Outcome:
        loader = TransactionLoader()
        for offset, (key, value) in enumerate(self.log):
            loader.add(offset, key, value)
        return shard.start(loader.finish(), self.now_ms)

    @staticmethod
    @lru_cache(maxsize=100_000)
    def record(key: bytes, value: bytes | None) -> Any:
        return decode(key, value)

    def move(self, *, cut: bool) -> None:
        self.coordinator_epoch += 1
        self.markers = [marker._replace(lasts=False) for marker in self.markers]
        self.marked.clear()
        super().move(cut=cut)

    def decided(self) -> Any:
        """Value of the last committed record of the transactional id; None before the first."""
        return _value(self.record(*self.log[self.high_watermark - 1])) if self.high_watermark else None

    def append(self, append: Append) -> None:
        value = _value(self.record(*append.records[0]))
        if value is not None and self.refusing is None:
            if value.state in _DECIDED:
                self.marked = set()
            elif value.state in _ENDED:
                before = _value(self.record(*self.log[-1]))
                lacks = [
                    at
                    for at, partition in PARTITIONS.items()
                    if partition in before.partitions and at not in self.marked
                ]
                if lacks:
                    raise Broken(
                        "a transaction completes after its markers are written",
                        f"{value.state.name}, {lacks} lack theirs",
                    )
        super().append(append)

    def elsewhere(self, append: Append) -> None:
        at = next(name for name, partition in PARTITIONS.items() if partition == append.to)
        kind = next(kind for kind in (ControlType.COMMIT, ControlType.ABORT) if self._is(append, kind))
        marker = _Marker(
            append.ticket, at, kind, append.producer.producer_id, append.producer.epoch, self.coordinator_epoch
        )
        value = self.decided()
        said = None if value is None else (_DECIDED.get(value.state), value.producer_id, value.epoch)
        if value is None or said != (kind, marker.producer_id, marker.epoch) or append.to not in value.partitions:
            raise Broken("a marker matches the logged outcome", f"{marker}, the log has {value}")
        self.markers.append(marker)

    def _is(self, append: Append, kind: ControlType) -> bool:
        return append.records == [control_record(kind, self.coordinator_epoch)]

    def mark(self, marker: _Marker, error: Err) -> str:
        """The partition answers, with its own error if it has one; what it said."""
        self.markers.remove(marker)
        data = self.data[marker.at]
        if error is Err.NONE:
            if marker.coordinator_epoch < data.coordinator_epoch:
                error = Err.TRANSACTION_COORDINATOR_FENCED
            elif marker.epoch < data.epoch:
                error = Err.INVALID_PRODUCER_EPOCH
            else:
                self.data[marker.at] = _Data(marker.coordinator_epoch, marker.epoch, marker.kind.name)
                if marker.lasts:
                    self.marked.add(marker.at)
        if marker.lasts:
            self.step(AppendedElsewhere(marker.ticket, error))
        return error.name


def _known(stored: Stored) -> Stored:
    """Without what not every version of the records says."""
    return replace(stored, previous_producer_id=-1, next_producer_id=-1, client_version=0)


def _value(record: Any) -> Any:
    return record.value if isinstance(record, TransactionRecord) else None


@dataclass(slots=True)
class _Producer:
    """``flow``: 0, or 2 where each transaction has an epoch of its own. ``waits``: request and token."""

    name: str
    flow: int
    producer_id: int = -1
    epoch: int = -1
    waits: tuple[str, int] | None = None
    last_asked: str = ""


@dataclass(slots=True)
class _OpenRequest:
    """A request that has not been answered. ``rightly``: what it may be answered by the rules, None if they don't say."""

    producer: str
    what: str
    rightly: Err | None
    held: tuple[int, int] = (-1, -1)
    awaited: bool = True


class TransactionWorld(Surroundings):
    """``flows``: by producer; ``faults``: whether the coordinator's log and the partitions have any."""

    def __init__(self, settings: TransactionSettings, flows: Sequence[int] = (2, 2), *, faults: bool = True) -> None:
        super().__init__(faults=faults)
        self.environment: _TransactionGround = _TransactionGround(settings)
        self.producers = {name: _Producer(name, flow) for name, flow in zip("PQ", flows, strict=False)}
        self.asked: dict[int, _OpenRequest] = {}
        self.given: dict[tuple[int, int], str] = {}
        self.gave_up = False  # an append was late, and given up: what the log makes of it counts at the next load alone

    # --- what may happen

    def actions(self) -> Sequence[Action]:
        """See `explorer.World`."""
        actions: list[Action] = []
        for name, producer in self.producers.items():
            if producer.waits is not None:
                actions.append((name, "again"))
            else:
                actions.append((name, "init"))
                if producer.producer_id >= 0:
                    actions += [(name, what) for what in ("reinit", "add p", "add q", "commit", "abort")]
        for number, marker in enumerate(self.environment.markers):
            actions.append(("mark", str(number), "yes"))
            if self.faults and marker.lasts:
                actions.append(("mark", str(number), "no"))
        return [*actions, *self.around()]

    def take(self, action: Action, *, watched: bool = True) -> None:
        """See `explorer.World`."""
        self._watched = watched
        before = self._shown()
        stored = None if before is None else before.stored
        producer = self.producers.get(action[0])
        if producer is not None:
            self._ask(producer, producer.last_asked if action[1] == "again" else action[1])
        else:
            self.happen(action)
        self._receive()
        if watched:
            self._check_step(stored, moved=action[0] == "move")

    def _shown(self) -> Transaction | None:
        return self.environment.shard.transactions.get(ID)

    # --- producers

    def _ask(self, producer: _Producer, what: str) -> None:
        mine = producer.producer_id, producer.epoch
        body: Any
        if what in ("init", "reinit"):
            body = InitProducerId(ID, _TIMEOUT_MS, mine if what == "reinit" else None)
        elif what in ("commit", "abort"):
            body = EndTransaction(ID, *mine, what == "commit", producer.flow)
        else:
            body = AddPartitions(ID, *mine, [PARTITIONS[what[-1]]], client_version=producer.flow)
        rightly = self._rightly(producer, what) if self._watched else None
        for asked in self.asked.values():
            if asked.producer == producer.name:
                asked.awaited = False  # it asks again, on another connection
        self._trace(f"{producer.name}: {what} with {mine}")
        token = self.environment.request(body, 5, producer.name)
        self.asked[token] = _OpenRequest(producer.name, what, rightly, mine)
        producer.waits, producer.last_asked = (what, token), what

    def _rightly(self, producer: _Producer, what: str) -> Err | None:
        """By the state that the coordinator shows: section by section what a real broker was seen to answer."""
        shown = self._shown()
        busy = shown is not None and (shown.pending is not None or shown.stored.state in _DECIDED)
        if what == "init":
            return Err.CONCURRENT_TRANSACTIONS if busy or (shown and shown.stored.state is State.ONGOING) else Err.NONE
        if shown is None:
            return Err.NONE if what == "reinit" else Err.INVALID_PRODUCER_ID_MAPPING
        if what == "reinit":
            return self._rightly_again(shown, producer, busy=busy)
        policy = self.environment.settings.policy
        is_add = what.startswith("add")
        if is_add and busy and policy.pending_comes_first:
            return Err.CONCURRENT_TRANSACTIONS
        if producer.producer_id != shown.stored.producer_id:
            return Err.INVALID_PRODUCER_ID_MAPPING if shown.epoch > 0 else None
        if is_add:
            if producer.epoch != shown.epoch:
                return Err.PRODUCER_FENCED
            return Err.CONCURRENT_TRANSACTIONS if busy else Err.NONE
        return _rightly_ended(shown, producer, commit=what == "commit", pending=shown.pending is not None)

    @staticmethod
    def _rightly_again(shown: Transaction, producer: _Producer, *, busy: bool) -> Err | None:
        if shown.pending is not None:
            return Err.CONCURRENT_TRANSACTIONS
        if producer.producer_id != shown.stored.producer_id:
            return None
        if busy or shown.stored.state is State.ONGOING:
            return Err.CONCURRENT_TRANSACTIONS
        if producer.epoch in (shown.epoch, shown.last_epoch):
            return Err.NONE
        return Err.PRODUCER_FENCED if shown.epoch >= 0 else None

    def _receive(self) -> None:
        answers = self.environment.answers
        for token in [token for token in self.asked if token in answers]:
            asked, answer = self.asked.pop(token), answers.pop(token)
            error = _error(answer)
            self._trace(f"{asked.producer}: its {asked.what} is answered {error.name}")
            if self._watched and asked.rightly is not None and error in _RULED and error is not asked.rightly:
                self._fail(
                    "responses follow the coordinator's rules",
                    f"{asked.what} is answered {error.name}, the rules say {asked.rightly.name}",
                )
            producer = self.producers[asked.producer]
            if asked.awaited:
                producer.waits = None
            if error is Err.NONE:
                self._granted(producer, asked, answer)

    def _granted(self, producer: _Producer, asked: _OpenRequest, answer: Any) -> None:
        if asked.what in ("commit", "abort"):
            value = self.environment.decided()
            states = (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
            if self._watched and (value is None or (value.state in states) != (asked.what == "commit")):
                self._fail(
                    "a transaction ends as its producer was answered",
                    f"{asked.what} is answered NONE, the log has {value}",
                )
        if not isinstance(answer, Granted) or not asked.awaited or answer.producer_id < 0:
            return
        has = answer.producer_id, answer.epoch
        if self._watched and self.given.get(has, producer.name) != producer.name:
            self._fail(
                "a producer epoch is assigned once", f"{has} is {self.given[has]}'s, and is given to {producer.name}"
            )
        self.given[has] = producer.name
        producer.producer_id, producer.epoch = has

    # --- the world around

    def _fired(self, key: TimerKey) -> None:
        self.gave_up = self.gave_up or key[0] == "append"

    def _mark(self, number: str, how: str) -> None:
        marker = self.environment.markers[int(number)]
        late = "" if marker.lasts else "late "
        said = self.environment.mark(marker, Err.NONE if how == "yes" else Err.NOT_ENOUGH_REPLICAS)
        self._trace(f"the {late}{marker.kind.name} marker at {marker.at}: {said}")

    def _move(self, what: str) -> None:
        super()._move(what)
        self.gave_up = False

    # --- what must hold

    def _check_step(self, before: Stored | None, *, moved: bool) -> None:
        after = self._shown()
        if after is None or self.environment.held or self.gave_up:
            return
        value = self.environment.decided()
        if value is not None and _known(after.stored) != _known(value):
            self._fail("the coordinator's state matches the log", f"{after.stored}, the log has {value}")
        same = before is not None and before.producer_id == after.stored.producer_id and not moved
        if before is not None and same and after.stored.epoch < before.epoch:
            self._fail("producer epochs never decrease", f"from {before.epoch} to {after.stored.epoch}")

    def key(self) -> Hashable:
        """See `explorer.World`."""
        environment = self.environment
        markers = [
            (
                marker.at,
                marker.kind.name,
                marker.epoch,
                environment.coordinator_epoch - marker.coordinator_epoch,
                marker.lasts,
            )
            for marker in environment.markers
        ]
        data = [
            (transaction.epoch, environment.coordinator_epoch - transaction.coordinator_epoch, transaction.last)
            for transaction in environment.data.values()
        ]
        return environment.key(
            list(self.producers.values()), [(asked.producer, asked.what, asked.awaited) for asked in self.asked.values()],
            markers, data, sorted(environment.marked), self.gave_up,
        )  # fmt: skip

    # --- where it must come to

    def settle(self) -> None:
        """See `explorer.World`."""
        self._trace("from here on all goes well")
        self._watched = True
        self.environment.heal()
        self._receive()
        producer, plan = self.producers["P"], ["init", "add p", "commit"]
        for _ in range(_ROUNDS):
            while self.environment.markers:
                self.take(("mark", "0", "yes"))
            if producer.waits is None:
                if not plan:
                    break
                self.take((producer.name, plan[0]))
                if producer.waits is None and self._went_well():
                    plan.pop(0)
                    continue
            if self.environment.timers:
                self.take(("time",))
        stored = getattr(self._shown(), "stored", None)
        if (
            plan
            or stored is None
            or stored.state is not State.COMPLETE_COMMIT
            or self.environment.data["p"].last != "COMMIT"
        ):
            self._fail(
                "a restarted producer can commit", f"{plan} is left, the id is {stored}, {self.environment.data}"
            )
        self._silence()

    def _went_well(self) -> bool:
        return self.trace[-1].endswith(" NONE") or any(
            line.endswith(" NONE") and line.startswith("P: its") for line in self.trace[-2:]
        )

    def _silence(self) -> None:
        self._trace("from here on all are silent, with a transaction open")
        self.take(("P", "add q"))
        for _ in range(_ROUNDS):
            while self.environment.markers:
                self.take(("mark", "0", "yes"))
            if not self.environment.timers:
                break
            self.take(("time",))
        shown = self._shown()
        if self.environment.timers or shown is None or shown.stored.state is not State.COMPLETE_ABORT:
            self._fail(
                "open transactions are aborted on timeout",
                f"{shown and shown.stored}, timers {list(self.environment.timers)}",
            )


def _rightly_ended(shown: Transaction, producer: _Producer, *, commit: bool, pending: bool) -> Err | None:
    """EndTxn with the right producer id."""
    state, same = shown.stored.state, producer.epoch == shown.epoch
    repeats = producer.epoch == shown.epoch - 1
    if producer.flow < 2:
        if not same:
            return Err.PRODUCER_FENCED
        if pending or state in _DECIDED:
            return Err.CONCURRENT_TRANSACTIONS
        if state is State.ONGOING:
            return Err.NONE
        return Err.NONE if _ENDED.get(state) is commit else Err.INVALID_TXN_STATE
    if state in (State.ONGOING, State.EMPTY):
        if not same:
            return Err.PRODUCER_FENCED
        if pending:
            return Err.CONCURRENT_TRANSACTIONS
        return Err.NONE if state is State.ONGOING or not commit else Err.INVALID_TXN_STATE
    if state in _DECIDED:
        return Err.CONCURRENT_TRANSACTIONS if repeats else Err.PRODUCER_FENCED
    if not (same or repeats):
        return Err.PRODUCER_FENCED
    if pending:
        return Err.CONCURRENT_TRANSACTIONS
    if repeats:
        return Err.NONE if _ENDED[state] is commit else Err.INVALID_TXN_STATE
    return Err.INVALID_TXN_STATE if commit else Err.NONE


def _error(answer: Any) -> Err:
    if isinstance(answer, Granted):
        return answer.error
    assert isinstance(answer, dict)
    return Err(next(iter(answer.values())))

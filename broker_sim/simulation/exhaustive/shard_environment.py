"""A coordinator's shard under glass: a log that answers as the world says, timers that fire when it says so, requests by hand.

The parts between the core and the world in a broker - loop, sockets, files, batches - are left out. The result of an append is returned
at once, as by the runtime; its commit may be late, or the append may be refused.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar

from broker_sim.coordinator.outcome import (
    AllocateProducerId,
    Append,
    Appended,
    Client,
    Committed,
    Event,
    Outcome,
    PersisterRequest,
    Request,
    TimerFired,
    TimerKey,
)
from broker_sim.simulation.exhaustive.canonical import CanonicalNames, canonical
from broker_sim.simulation.exhaustive.explorer import Broken
from kafka_wire.errors import Err

__all__ = ["START_MS", "ShardEnvironment"]

START_MS = 10**12


class _Shard(Protocol):
    def step(self, event: Event, now_ms: int) -> Outcome: ...

    def stop(self) -> Outcome: ...


S = TypeVar("S", bound=_Shard)

_SLOW = frozenset({"expire", "transactions"})
"""Timers of days, and those of what is not played here."""


class ShardEnvironment(ABC, Generic[S]):
    """One shard with its log, timers and clock.

    ``held``: what is appended is not committed before `heal`; ``refusing``: what the next append is answered. ``answers`` are by
    token, and stay until the caller takes them out."""

    shard: S

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.high_watermark = 0
        self.held = False
        self.refusing: Err | None = None
        self.timers: dict[TimerKey, int] = {}
        self.answers: dict[int, Any] = {}
        self.issued: list[str] = []
        self._answered: set[int] = set()
        self._tokens = itertools.count()
        self._numbers = itertools.count()
        self._begin()

    # what a kind of coordinator is

    @abstractmethod
    def made(self) -> S:
        """A shard that knows nothing yet."""

    @abstractmethod
    def begun(self, shard: S) -> Outcome:
        """Let it take over what the log says."""

    @staticmethod
    @abstractmethod
    def record(key: bytes, value: bytes | None) -> Any:
        """A record of the log, in the core's words; asked for often."""

    def elsewhere(self, append: Append) -> None:
        """A shard appends to a partition that is not its own."""
        raise NotImplementedError(f"an append to {append.to}")

    def ask_elsewhere(self, request: PersisterRequest | AllocateProducerId) -> None:
        """A shard asks another component."""
        raise NotImplementedError(f"{request}")

    def new_id(self) -> str:
        """The random part of an id; never one that was there before."""
        made = f"{next(self._numbers):04d}"
        self.issued.append(made)
        return made

    # the world

    def _begin(self) -> None:
        self.shard = self.made()
        self._perform(self.begun(self.shard))

    def step(self, event: Event) -> None:
        """Step the shard, and do what it says."""
        self._perform(self.shard.step(event, self.now_ms))

    def request(self, body: Any, version: int, client_id: str) -> int:
        """A client asks; its token."""
        token = next(self._tokens)
        self.step(Request(token, Client(client_id, "/127.0.0.1", version), body))
        return token

    def _perform(self, outcome: Outcome) -> None:
        for key, deadline_ms in outcome.timers:
            if deadline_ms is None:
                self.timers.pop(key, None)
            elif key[0] not in _SLOW:
                self.timers.pop(key, None)  # those of one instant fire in the order in which they were armed
                self.timers[key] = deadline_ms
        for append in outcome.appends:
            if append.to is None:
                self.append(append)
            else:
                self.elsewhere(append)
        for token, answer in outcome.replies:
            if token in self._answered:
                raise Broken("a request is answered once", f"request {token} is answered again: {answer}")
            self._answered.add(token)
            self.answers[token] = answer
        for request in outcome.requests:
            self.ask_elsewhere(request)

    def append(self, append: Append) -> None:
        """The log takes it, or refuses it, and says so."""
        if self.refusing is not None:
            error, self.refusing = self.refusing, None
            self.step(Appended(append.ticket, -1, error))
            return
        self.log += append.records
        if not self.held:
            self.high_watermark = len(self.log)
        self.step(Appended(append.ticket, len(self.log) - 1, Err.NONE, self.high_watermark))

    def heal(self) -> None:
        """End the faults of the log: all appended records are committed."""
        self.held, self.refusing = False, None
        if self.high_watermark < len(self.log):
            self.high_watermark = len(self.log)
            self.step(Committed(self.high_watermark))

    def move(self, *, cut: bool) -> None:
        """The partition has another leader, which has all of the log, or with ``cut`` what was committed: its coordinator loads
        it."""
        outcome = self.shard.stop()
        outcome.appends.clear()
        self._perform(outcome)
        self.timers.clear()
        if cut:
            del self.log[self.high_watermark :]
        self.high_watermark = len(self.log)
        self.held, self.refusing = False, None
        self._begin()

    # time

    def next_timer(self) -> TimerKey | None:
        """The key of the timer that is due first; None if no timer is armed."""
        return min(self.timers, key=self.timers.__getitem__, default=None)

    def fire(self) -> TimerKey:
        """Let time pass until the next timer, and fire it."""
        key = self.next_timer()
        assert key is not None
        self.now_ms = max(self.now_ms, self.timers.pop(key))
        self.step(TimerFired(key))
        return key

    def may_pass(self, ms: int) -> bool:
        """Whether so much time can pass without a timer."""
        return all(deadline_ms > self.now_ms + ms for deadline_ms in self.timers.values())

    # what it is

    def key(self, *more: Any) -> Hashable:
        """Key of the state, equal for states from which the same can follow; ``more``: the world's own part of the state."""
        names = CanonicalNames(self.issued, self.now_ms, len(self.log))
        own = canonical(more, names)
        shard = canonical(self.shard, names)
        timers = tuple(
            [
                (canonical(key[0] if key[0] == "append" else key, names), at - self.now_ms)
                for key, at in self.timers.items()
            ]
        )
        return (own, shard, timers, self.held, self.refusing, self._logged(names))

    def _logged(self, names: CanonicalNames) -> Hashable:
        """Records that a load would find: the last committed record of each key, and all uncommitted ones."""
        last: dict[bytes, bytes | None] = {}
        for key, value in self.log[: self.high_watermark]:
            last.pop(key, None)
            last[key] = value
        tail = self.log[self.high_watermark :]
        return (
            tuple([canonical(self.record(key, value), names) for key, value in last.items()]),
            tuple([canonical(self.record(key, value), names) for key, value in tail]),
        )

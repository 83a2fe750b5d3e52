"""Share coordinators are asked in pieces, in the order in which the askers came."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_sim.coordinator.share_state.commands import Result
from broker_sim.runtime.share_state_coordinator import _PIECE, Persister
from kafka_wire.errors import Err


class Coordinators:
    """Take down what they are asked, and answer at once."""

    def __init__(self) -> None:
        self.state = SimpleNamespace(ensure_internal_topic=lambda topic: None)
        self.asked: list[int] = []

    def leading(self, key: int) -> str:
        return "shard"

    def command(self, shard: str, command: Any, answered: Any) -> None:
        self.asked.append(command.key)
        answered(SimpleNamespace(error=Err.NONE, key=command.key))


def commands(keys: range) -> list[Any]:
    return [SimpleNamespace(key=key) for key in keys]


async def test_others_are_served_between_the_pieces_and_nobody_overtakes() -> None:
    coordinators = Coordinators()
    persister = Persister(cast(Any, coordinators))
    answered: list[list[Result]] = []
    many = 5 * _PIECE
    persister.ask(commands(range(many)), answered.append)
    persister.ask(commands(range(many, many + 1)), answered.append)
    sizes = []
    while len(answered) < 2:
        sizes.append(len(coordinators.asked))
        await asyncio.sleep(0)
    assert max(after - before for before, after in pairwise(sizes)) <= _PIECE
    assert coordinators.asked == list(range(many + 1))
    assert [[cast(Any, one).key for one in answers] for answers in answered] == [list(range(many)), [many]]


async def test_what_was_not_asked_when_the_cluster_ends_never_is() -> None:
    coordinators = Coordinators()
    persister = Persister(cast(Any, coordinators))
    persister.ask(commands(range(2 * _PIECE)), lambda _: None)
    persister.close()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(coordinators.asked) < _PIECE + 1


class Moving(Coordinators):
    """Coordinators that are away at first; timers fire when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[SimpleNamespace] = []
        wire = SimpleNamespace(now_ms=lambda: 0, call_at_ms=self._call_at_ms)
        self.state = SimpleNamespace(ensure_internal_topic=lambda topic: None, clock=SimpleNamespace(wire=wire))
        self.away = True
        self.names: list[str] = []

    def leading(self, key: int) -> Any:
        return Err.NOT_COORDINATOR if self.away else "shard"

    def command(self, shard: str, command: Any, answered: Any) -> None:
        self.names.append(command.name)
        answered(SimpleNamespace(error=Err.NONE, key=command.key))

    def _call_at_ms(self, deadline_ms: int, callback: Any) -> Any:
        timer = SimpleNamespace(deadline_ms=deadline_ms, callback=callback, cancelled=False)
        timer.cancel = lambda: setattr(timer, "cancelled", True)
        self.timers.append(timer)
        return timer


@pytest.fixture
def moving(monkeypatch: pytest.MonkeyPatch) -> Moving:
    failing = lambda command, error, message="": SimpleNamespace(error=error, key=command.key)  # noqa: E731
    monkeypatch.setattr("broker_sim.runtime.share_state_coordinator.failed", failing)
    return Moving()


def named(name: str, key: int = 1) -> Any:
    return SimpleNamespace(key=key, name=name)


@pytest.mark.parametrize("by", ["a later command", "its timer"])
def test_a_command_that_is_tried_again_comes_before_later_ones(moving: Moving, by: str) -> None:
    """Seed 740539 of share-groups: a newer state was stored, then an older one that had waited for its coordinator."""
    persister, answered = Persister(cast(Any, moving)), list[str]()
    for name in ("first", "second"):
        persister.ask_one(named(name), lambda answer, name=name: answered.append(f"{name} {answer.error.name}"))
    persister.ask_one(named("of another partition", 2), lambda answer: None)
    assert (moving.names, len(moving.timers)) == ([], 2)
    moving.away = False
    if by == "its timer":
        moving.timers[0].callback()
    persister.ask_one(named("third"), lambda answer: answered.append("third"))
    assert moving.names == ["first", "second", "third"]
    assert answered == ["first NONE", "second NONE", "third"]
    assert moving.timers[0].cancelled


def test_a_command_is_given_up_after_its_attempts_and_the_next_one_begins(moving: Moving) -> None:
    persister, answered = Persister(cast(Any, moving)), list[str]()
    for name in ("first", "second"):
        persister.ask_one(named(name), lambda answer, name=name: answered.append(f"{name} {answer.error.name}"))
    for at in range(4):
        moving.timers[at].callback()
    assert [timer.deadline_ms for timer in moving.timers] == [1000, 2000, 4000, 8000, 1000]
    assert answered == ["first NOT_COORDINATOR"]
    persister.close()
    assert moving.timers[-1].cancelled

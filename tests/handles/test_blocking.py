"""The proxy for code without an event loop: everything happens on the other thread, plain values come back as they are."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import pytest

from broker_sim.api.blocking import Blocking
from broker_sim.journal import Seen
from kafka_wire.errors import Err


@dataclass(frozen=True)
class Fact:
    number: int


class Guard:
    """Entered and left asynchronously, and awaitable, as a broker that is taken down is."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []

    def note(self, what: str) -> None:
        self.log.append((what, threading.get_ident()))

    def __await__(self) -> Generator[Any, None, Guard]:
        self.note("awaited")
        return self._self().__await__()

    async def _self(self) -> Guard:
        return self

    async def __aenter__(self) -> Guard:
        self.note("entered")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.note("left" if kind is None else f"left by {kind.__name__}")


class Target:
    """Stand-in for a cluster."""

    def __init__(self) -> None:
        self.number = 3
        self.values = deque([1, 2])
        self.facts = {"a": Fact(1), "guards": [Guard()]}
        self.given: object = None
        self.listener: Callable[[], int] = lambda: self.number

    @property
    def where(self) -> int:
        return threading.get_ident()

    @property
    def seen(self) -> Seen:
        return Seen(event="response", error="NOT_COORDINATOR")

    async def wait(self, seconds: float = 0) -> int:
        await asyncio.sleep(0)
        return threading.get_ident()

    def guard(self) -> Guard:
        """Makes a guard."""
        return Guard()

    def fail(self) -> None:
        raise ValueError("no")

    def take(self, value: object) -> object:
        self.given = value
        return value

    def subscribe(self) -> Callable[[], int]:
        return lambda: threading.get_ident()

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __getitem__(self, key: str) -> str:
        return key * 2

    def __repr__(self) -> str:
        return "<target>"


class Thread:
    """A loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def _await(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(10)

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def thread() -> Iterator[Thread]:
    thread = Thread()
    yield thread
    thread.end()


@pytest.fixture
def target(thread: Thread) -> Any:
    return Blocking(thread, Target())


def test_everything_happens_on_the_other_thread(thread: Thread, target: Any) -> None:
    there = thread.thread.ident
    assert target.where == target.wait() == target.wait(seconds=1) == target.subscribe()() == there
    assert there != threading.get_ident()


def test_plain_values_come_as_they_are(target: Any) -> None:
    assert target.number == 3
    assert target.values == [1, 2]
    assert target.facts["a"] == Fact(1)
    assert isinstance(target.facts["guards"][0], Blocking)
    assert target.seen.error is Err.NOT_COORDINATOR
    assert target.listener() == 3
    target.number = 4
    assert target.number == 4


def test_containers_can_be_asked(target: Any) -> None:
    assert (len(target), list(target), target["x"], bool(target)) == (2, ["a", "b"], "xx", True)
    assert repr(target) == "<target>"
    assert "guard" in dir(target)
    assert target.guard.__doc__ == "Makes a guard."


def test_guards_are_entered_and_left_over_there(thread: Thread, target: Any) -> None:
    with target.guard() as guard:
        assert isinstance(guard, Blocking)
    assert guard.log == [(what, thread.thread.ident) for what in ("awaited", "entered", "left")]
    with pytest.raises(ZeroDivisionError), target.guard() as guard:
        _ = 1 // 0
    assert guard.log[-1][0] == "left by ZeroDivisionError"


def test_errors_come_through(target: Any) -> None:
    with pytest.raises(ValueError, match="no"):
        target.fail()
    with pytest.raises(AttributeError, match="nothing"):
        _ = target.nothing


def test_proxies_are_taken_off_on_the_way_in(target: Any) -> None:
    guard = target.guard()
    same = target.take(guard)
    assert same == guard
    assert hash(same) == hash(guard)
    assert same != target
    assert isinstance(object.__getattribute__(target, "_target").given, Guard)

"""The broker's clock: never back, timers not before their time, in order."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from broker_sim.common.clock import ManualClock, RealClock


class FakeLoop:
    """A loop of which only the clock counts; timers fire ``early`` seconds before their time, as libuv's may."""

    def __init__(self, early: float = 0.0) -> None:
        self.now, self.early = 1000.0, early
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> Any:
        self.timers.append((when, callback))
        return asyncio.Handle(callback, (), self)  # type: ignore[arg-type]

    def get_debug(self) -> bool:
        return False

    def fire(self) -> None:
        when, callback = self.timers.pop(0)
        self.now = max(self.now, when - self.early)
        callback()


def test_starts_at_the_machines_time_and_goes_with_the_loop() -> None:
    loop = FakeLoop()
    before_s = time.time()
    clock = RealClock(loop)  # type: ignore[arg-type]
    start = clock.now_ms()
    assert int(before_s * 1000) - 1 <= start <= time.time() * 1000 + 1
    loop.now += 1.5
    assert clock.now_ms() - start in (1499, 1500, 1501)


def test_the_machines_clock_may_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = RealClock(FakeLoop())  # type: ignore[arg-type]
    before = clock.now_ms()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert clock.now_ms() == before


def test_a_given_epoch_is_the_start() -> None:
    assert RealClock(FakeLoop(), epoch_ms=1_700_000_000_123).now_ms() in (1_700_000_000_122, 1_700_000_000_123)  # type: ignore[arg-type]


def test_a_timer_that_the_loop_fires_early_waits_on() -> None:
    loop = FakeLoop(early=0.0007)
    clock = RealClock(loop, epoch_ms=1_700_000_000_000)  # type: ignore[arg-type]
    fired: list[int] = []
    deadline = clock.now_ms() + 10
    clock.call_at_ms(deadline, lambda: fired.append(clock.now_ms()))
    loop.fire()
    assert fired == []
    loop.early = 0.0
    loop.now += 0.001
    loop.fire()
    assert len(fired) == 1
    assert fired[0] >= deadline


async def test_timers_of_a_real_loop() -> None:
    clock = RealClock()
    seen: list[str] = []
    done = asyncio.Event()
    now = clock.now_ms()
    clock.call_at_ms(now + 20, done.set)
    clock.call_at_ms(now + 10, seen.append, "second")
    clock.call_at_ms(now + 5, seen.append, "first")
    clock.call_at_ms(now - 5, seen.append, "past")
    cancelled = clock.call_at_ms(now + 7, seen.append, "never")
    cancelled.cancel()
    cancelled.cancel()
    assert seen == [], "a timer fired inside call_at_ms"
    await asyncio.wait_for(done.wait(), 60)
    assert clock.now_ms() >= now + 20
    assert seen == ["past", "first", "second"]


async def test_cancelling_after_it_fired_does_nothing() -> None:
    clock = RealClock()
    done = asyncio.Event()
    timer = clock.call_at_ms(clock.now_ms(), done.set)
    await asyncio.wait_for(done.wait(), 60)
    timer.cancel()


def test_manual_time_fires_in_order_at_each_ones_instant() -> None:
    clock = ManualClock(0)
    seen: list[tuple[str, int]] = []

    def note(name: str) -> None:
        seen.append((name, clock.now_ms()))

    clock.call_at_ms(20, note, "b")
    clock.call_at_ms(10, note, "a1")
    clock.call_at_ms(10, note, "a2")
    clock.call_at_ms(15, lambda: clock.call_at_ms(17, note, "armed meanwhile"))
    clock.call_at_ms(16, note, "cancelled").cancel()
    clock.call_at_ms(31, note, "later")
    clock.advance(30)
    assert seen == [("a1", 10), ("a2", 10), ("armed meanwhile", 17), ("b", 20)]
    assert clock.now_ms() == 30
    assert clock.next_deadline_ms() == 31


def test_manual_time_does_not_go_back() -> None:
    clock = ManualClock(100)
    clock.call_at_ms(50, lambda: None)
    assert clock.next_deadline_ms() == 100
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


@pytest.mark.real_time
@pytest.mark.skipif(sys.platform == "win32", reason="uvloop is not made for Windows")
def test_timers_on_uvloop_are_not_early() -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is an optional extra")

    async def check() -> None:
        clock = RealClock()
        late: list[int] = []
        done = asyncio.Event()
        start = clock.now_ms()
        for ms in range(1, 30):
            clock.call_at_ms(start + ms, lambda ms=ms: late.append(clock.now_ms() - start - ms))
        clock.call_at_ms(start + 31, done.set)
        await asyncio.wait_for(done.wait(), 60)
        assert len(late) == 29
        assert min(late) >= 0

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(check())

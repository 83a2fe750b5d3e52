"""Time, as the broker sees it: one wall clock in whole milliseconds that never goes back, and timers on that same
clock.

Rules:
1. Nothing else in the broker reads time or arms a timer; everything gets a :class:`Clock` from its cluster.
2. ``now_ms()`` never decreases, whatever the machine's wall clock does: the wall is read once and the loop's
   monotonic clock is added to it.
3. A timer fires once, not before its deadline as ``now_ms()`` tells it, and never inside ``call_at_ms`` itself, even
   where the deadline has passed. Timers with the same deadline fire in the order they were armed (on the real clock
   as far as the loop keeps it).

A virtual loop needs no clock of its own: :class:`RealClock` over a loop with virtual time *is* virtual time; give it
``epoch_ms``.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Clock", "ManualClock", "RealClock", "Timer"]


class Timer(Protocol):
    """What ``call_at_ms`` returns."""

    def cancel(self) -> None:
        """The callback will not be called. Cancelling twice, or after it fired, does nothing."""


class Clock(Protocol):
    """Wall time in ms and one-shot timers; see the rules above."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, never less than an earlier answer."""

    def call_at_ms(self, deadline_ms: int, callback: Callable[..., object], *args: Any) -> Timer:
        """Call ``callback(*args)`` once ``now_ms() >= deadline_ms``, from the loop."""


class RealClock:
    """The clock of an asyncio loop. ``epoch_ms``: the wall time that its start stands for (default: the machine's)."""

    __slots__ = ("_loop", "_loop_time", "_offset_s")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, *, epoch_ms: int | None = None) -> None:
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        self._loop_time = self._loop.time
        if getattr(type(self._loop), "time", None) is asyncio.BaseEventLoop.time:
            self._loop_time = time.monotonic  # what it would call, without the call of its own
        start_s = time.time() if epoch_ms is None else epoch_ms / 1000
        self._offset_s = start_s - self._loop_time()

    def now_ms(self) -> int:
        return int((self._loop_time() + self._offset_s) * 1000)

    def call_at_ms(self, deadline_ms: int, callback: Callable[..., object], *args: Any) -> Timer:
        return _LoopTimer(self, deadline_ms, callback, args)


class _LoopTimer:
    """A loop timer that looks at the clock again when it fires: loops round to their resolution (libuv to whole ms)."""

    __slots__ = ("_args", "_callback", "_clock", "_deadline_ms", "_handle")

    def __init__(
        self, clock: RealClock, deadline_ms: int, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self._clock, self._deadline_ms = clock, deadline_ms
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._handle = self._arm()

    def _arm(self) -> asyncio.TimerHandle:
        clock = self._clock
        return clock._loop.call_at(self._deadline_ms / 1000 - clock._offset_s, self._fire)

    def _fire(self) -> None:
        if self._callback is None:
            return
        if self._clock.now_ms() < self._deadline_ms:
            self._handle = self._arm()
            return
        callback, self._callback = self._callback, None
        callback(*self._args)

    def cancel(self) -> None:
        self._callback = None
        self._args = ()
        self._handle.cancel()


class ManualClock:
    """A clock that stands still until :meth:`advance`, which calls due timers one by one. Needs no loop."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._heap: list[_ManualTimer] = []
        self._armed = 0

    def now_ms(self) -> int:
        return self._now_ms

    def call_at_ms(self, deadline_ms: int, callback: Callable[..., object], *args: Any) -> Timer:
        self._armed += 1
        timer = _ManualTimer(max(deadline_ms, self._now_ms), self._armed, callback, args)
        heapq.heappush(self._heap, timer)
        return timer

    def next_deadline_ms(self) -> int | None:
        """The deadline of the timer that fires next; None where none is armed."""
        while self._heap and self._heap[0].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0].deadline_ms if self._heap else None

    def advance(self, ms: int) -> None:
        """Let ``ms`` milliseconds pass: every timer due by then fires at its own instant, armed meanwhile or not."""
        if ms < 0:
            raise ValueError(f"time does not go back: advance({ms})")
        target_ms = self._now_ms + ms
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= target_ms:
            timer = heapq.heappop(self._heap)
            self._now_ms = max(self._now_ms, timer.deadline_ms)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback(*timer.args)
        self._now_ms = target_ms


class _ManualTimer:
    __slots__ = ("args", "callback", "deadline_ms", "number")

    def __init__(self, deadline_ms: int, number: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.deadline_ms, self.number, self.args = deadline_ms, number, args
        self.callback: Callable[..., object] | None = callback

    def __lt__(self, other: _ManualTimer) -> bool:
        return (self.deadline_ms, self.number) < (other.deadline_ms, other.number)

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

"""Time, as the broker sees it: one wall clock in whole milliseconds that never goes back, and timers on that same
clock.

Rules:
1. Nothing else in the broker reads time or arms a timer; everything gets a :class:`Clock` from its cluster.
2. ``now_ms()`` never decreases, whatever the machine's wall clock does: the wall is read once and the loop's
   monotonic clock is added to it.
3. A timer fires once, not before its deadline by ``now_ms()``, and never inside ``call_at_ms`` itself, even
   where the deadline has passed. Timers with the same deadline fire in the order they were armed (on the real clock
   as far as the loop keeps it).

4. What a client measures with its own watch - a Fetch's max.wait, an idle connection - runs on the clock's ``wire``: real
   time even if the broker's clock is scaled or manual, else a client's poll would hang for ever. All other waits use the
   broker's clock: sessions, rebalances, a Produce's timeout, retention, the delays of faults.

A virtual loop needs no clock of its own: :class:`RealClock` over a loop with virtual time *is* virtual time; give it
``epoch_ms``.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self

from broker_sim.common.text import UsageError, unknown

__all__ = ["Clock", "ManualClock", "RealClock", "ScaledClock", "SteppedClock", "Timer", "clock_of", "stopwatch"]

FASTEST = 10_000
"""The greatest factor of a scaled clock."""


class Timer(Protocol):
    """A timer of a clock, as ``call_at_ms`` returns it; it can be cancelled."""

    def cancel(self) -> None:
        """The callback will not be called. Cancelling twice, or after it fired, does nothing."""


class Clock(Protocol):
    """Wall time in ms and one-shot timers; see the rules above."""

    @property
    def wire(self) -> Clock:
        """The clock of waits that a client measures too."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, never less than an earlier answer."""

    def call_at_ms(self, deadline_ms: int, callback: Callable[..., object], *args: Any) -> Timer:
        """Call ``callback(*args)`` once ``now_ms() >= deadline_ms``, from the loop."""

    def call_after_reading(self, callback: Callable[[], object]) -> bool:
        """Call ``callback()`` once all that lies in the loop's sockets by now has been read and handled. Returns False, without a
        call, on a clock that does not advance by itself: no timer can have become due before the sockets were read."""


class RealClock:
    """The clock of an asyncio loop. ``epoch_ms``: the wall clock time at its start, ms since 1970 (default: the machine's)."""

    __slots__ = ("_loop", "_loop_time", "_offset_s")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, *, epoch_ms: int | None = None) -> None:
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        self._loop_time = self._loop.time
        if getattr(type(self._loop), "time", None) is asyncio.BaseEventLoop.time:
            self._loop_time = time.monotonic  # what it would call, without the call of its own
        start_s = time.time() if epoch_ms is None else epoch_ms / 1000
        self._offset_s = start_s - self._loop_time()

    @property
    def wire(self) -> Self:
        return self

    def now_ms(self) -> int:
        return int((self._loop_time() + self._offset_s) * 1000)

    def call_at_ms(self, deadline_ms: int, callback: Callable[..., object], *args: Any) -> Timer:
        return _LoopTimer(self, self._loop, deadline_ms, callback, args)

    def call_after_reading(self, callback: Callable[[], object]) -> bool:
        return _call_after_reading(self._loop, callback)

    def loop_time_s(self, at_ms: int) -> float:
        """The loop's time at which it is ``at_ms``."""
        return at_ms / 1000 - self._offset_s


class ScaledClock:
    """A clock that runs ``rate`` times as fast as the loop's. ``epoch_ms``: the time at its start, ms since 1970
    (default: the machine's).
    """

    __slots__ = ("_loop", "_start_ms", "_start_s", "rate", "wire")

    def __init__(
        self, rate: float, loop: asyncio.AbstractEventLoop | None = None, *, epoch_ms: int | None = None
    ) -> None:
        if not 0 < rate <= FASTEST:
            raise UsageError(f"the factor {rate:g} of the clock is invalid (expected above 0 and at most {FASTEST})")
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        self.rate = rate
        self.wire = RealClock(self._loop, epoch_ms=epoch_ms)
        self._start_s, self._start_ms = self._loop.time(), self.wire.now_ms()

    def now_ms(self) -> int:
        return self._start_ms + int((self._loop.time() - self._start_s) * 1000 * self.rate)

    def call_at_ms(self, deadline_ms: int, callback: Callable[..., object], *args: Any) -> Timer:
        return _LoopTimer(self, self._loop, deadline_ms, callback, args)

    def call_after_reading(self, callback: Callable[[], object]) -> bool:
        return _call_after_reading(self._loop, callback)

    def loop_time_s(self, at_ms: int) -> float:
        """The loop's time at which it is ``at_ms``."""
        return self._start_s + (at_ms - self._start_ms) / 1000 / self.rate


def _call_after_reading(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> bool:
    """An event loop polls its sockets between two iterations: asyncio before the callbacks of the iteration, uvloop after them. So the
    second iteration from now comes after a poll; work that an iteration defers to its end is done one later."""
    loop.call_soon(loop.call_soon, loop.call_soon, callback)
    return True


class _LoopTimer:
    """A timer of the event loop that checks the clock again when it fires: loops round to their resolution (libuv to whole ms)."""

    __slots__ = ("_args", "_callback", "_clock", "_deadline_ms", "_handle", "_loop")

    def __init__(
        self,
        clock: RealClock | ScaledClock,
        loop: asyncio.AbstractEventLoop,
        deadline_ms: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        self._clock, self._loop, self._deadline_ms = clock, loop, deadline_ms
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._handle = self._arm()

    def _arm(self) -> asyncio.TimerHandle:
        return self._loop.call_at(self._clock.loop_time_s(self._deadline_ms), self._fire)

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
    """A clock that only :meth:`advance` moves, which calls the due timers one by one. Needs no loop."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._heap: list[_ManualTimer] = []
        self._armed = 0

    @property
    def wire(self) -> Clock:
        return self

    def now_ms(self) -> int:
        return self._now_ms

    def call_at_ms(self, deadline_ms: int, callback: Callable[..., object], *args: Any) -> Timer:
        self._armed += 1
        timer = _ManualTimer(max(deadline_ms, self._now_ms), self._armed, callback, args)
        heapq.heappush(self._heap, timer)
        return timer

    def call_after_reading(self, callback: Callable[[], object]) -> bool:
        return False

    def next_deadline_ms(self) -> int | None:
        """The deadline of the timer that fires next; None where none is armed."""
        while self._heap and self._heap[0].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0].deadline_ms if self._heap else None

    def armed(self) -> Iterator[tuple[int, Callable[..., object]]]:
        """Every armed (deadline, callback), the next one first."""
        for timer in sorted(self._heap):
            if timer.callback is not None:
                yield timer.deadline_ms, timer.callback

    def advance(self, ms: int) -> None:
        """Let ``ms`` milliseconds pass: every timer due by then fires at its own instant, armed meanwhile or not."""
        if ms < 0:
            raise ValueError(f"time does not go back: advance({ms})")
        target_ms = self._now_ms + ms
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= target_ms:
            self.move_to(deadline_ms)
            self._fire_next()
        self.move_to(target_ms)

    def move_to(self, now_ms: int) -> None:
        """Set the time to ``now_ms``, unless it is in the past, without firing timers."""
        self._now_ms = max(self._now_ms, now_ms)

    def fire_due(self) -> list[Callable[..., object]]:
        """Call the timers that are due by now, but not those that are armed meanwhile; returns whom it called."""
        last, fired = self._armed, []
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= self._now_ms:
            if self._heap[0].number > last:
                break
            callback = self._fire_next()
            if callback is not None:
                fired.append(callback)
        return fired

    def _fire_next(self) -> Callable[..., object] | None:
        timer = heapq.heappop(self._heap)
        callback, timer.callback = timer.callback, None
        if callback is not None:
            self._call(callback, timer.args)
        return callback

    def _call(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        callback(*args)


class SteppedClock(ManualClock):
    """A manual clock for a running event loop: a timer that is due when it is armed is called by the loop, at the same time; all
    other timers wait until the clock is advanced (``time_control``). ``now_ms``: the initial time, ms since 1970 (default: the
    machine's, as clients stamp their records with theirs).
    """

    def __init__(self, now_ms: int | None = None, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        self._wire = RealClock(self._loop)
        super().__init__(self._wire.now_ms() if now_ms is None else now_ms)
        self._called_soon = False

    @property
    def wire(self) -> Clock:
        return self._wire

    def call_at_ms(self, deadline_ms: int, callback: Callable[..., object], *args: Any) -> Timer:
        timer = super().call_at_ms(deadline_ms, callback, *args)
        if deadline_ms <= self._now_ms:
            self._soon()
        return timer

    def _soon(self) -> None:
        if not self._called_soon:
            self._called_soon = True
            self._loop.call_soon(self._due)

    def _due(self) -> None:
        self._called_soon = False
        self.fire_due()

    def _call(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Call a timer's callback as an event loop does: an exception is logged, and the other callbacks are still called."""
        try:
            callback(*args)
        except Exception as error:
            self._loop.call_exception_handler(
                {"message": f"a timer of the broker's clock failed: {callback!r}", "exception": error}
            )


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


def clock_of(text: str, *, now_ms: int | None = None) -> Callable[[], Clock]:
    """Return a function that creates the clock that ``text`` names, on the running loop: ``real``, ``scaled:10`` (ten times as fast),
    ``manual``. ``now_ms``: start time of a manual or scaled clock, if that is later than the machine's time. Raises UsageError.
    """
    kind, colon, factor = text.partition(":")
    if kind == "scaled":
        try:
            rate = float(factor) if colon else 10.0
        except ValueError:
            rate = 0.0
        if not 0 < rate <= FASTEST:
            raise UsageError(
                f"clock {text!r}: the factor in scaled:N must be above 0 and at most {FASTEST}, as in scaled:10"
            )
        return lambda: ScaledClock(rate, epoch_ms=_later(now_ms))
    if colon or kind not in ("real", "manual"):
        raise unknown("clock", text, ("real", "manual", "scaled:10"))
    if kind == "manual":
        return lambda: SteppedClock(_later(now_ms))
    return RealClock


def _later(now_ms: int | None) -> int | None:
    return None if now_ms is None or now_ms <= time.time() * 1000 else now_ms


def stopwatch() -> Callable[[], float]:
    """Returns a function that returns the seconds since this call, by the machine's clock: for progress output alone, not for
    brokers."""
    began = time.perf_counter()
    return lambda: time.perf_counter() - began

"""The broker's time in the user's hand: ``kafka.time``.

    Cluster(clock="manual")
    await kafka.time.advance("46s", expire=["consumer-2"])     # its session ends, the other members live on
    await kafka.time.advance("5m")                             # members that delayed the rebalance are removed
    kafka.time.next_timer()                                    # (1763730000000, "offset expiry of __consumer_offsets-12")

Rules:
1. Time that is moved passes through every instant at which something is due, in their order. What an instant has caused is done -
   answers written, callbacks called - before the next one comes.
2. Members that could send heartbeats stay alive, but for those in ``expire`` (``session_keepalive``). Members notice
   a rebalance and rejoin in real time. So before a rebalance timeout fires, the clock waits until the live members have rejoined, for
   ``wait`` of real time at most; members that have not are then removed, and reported.
3. What clients measure with their own watch (``Clock.wire``) runs in real time, and so do the clients.
4. It is a mistake, and said so, to move a clock that moves by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from broker_sim.common.clock import Clock, ManualClock, ScaledClock
from broker_sim.common.text import UsageError, duration_ms, duration_text

if TYPE_CHECKING:
    from broker_sim.journal import Journal
    from broker_sim.runtime.coordinators import Coordinators
    from broker_sim.runtime.session_keepalive import AwaitedRequest, SessionKeepAlive

__all__ = ["WAIT", "Livelock", "TimeControl"]

log = logging.getLogger("broker_sim.time")

WAIT = "10s"
"""Default real time in which living members may rejoin: three of the heartbeat intervals that clients begin with."""

LONGEST_MS = 3653 * 86_400_000
"""Ten years: more can't be moved at once."""

_BACK_MS = 1000
"""After a step members whose session expired rejoin this much later, in real time: the caller sees the group without them first.
Most clients need longer, since they notice it at their next heartbeat."""

_TURNS = 8
"""Turns of the loop after an instant at which a group's or a request's timer fired: the broker's own work needs no more."""

_ROUNDS = 10_000
"""So often may timers be armed for the very instant at which they are armed."""

_TEXTS = {
    "LogMaintenance._look_at_retention": "log retention",
    "LogMaintenance._look_for_dirt": "log cleaner",
    "_ProducerLooks.look": "producer id expiry",
    "Outages._balance": "election of preferred leaders",
    "Outages._notice": "session of a broker that is down",
    "_Delayed._timed_out": "timeout of a Produce",
    "_SlowLog._commit": "commit of a slow log",
    "PartitionFaults.set.<locals>.<lambda>": "end of a state",
    "_Apply.stuck.<locals>.<lambda>": "ISR of a stuck log shrinks",
}
"""Purposes of timers, by the name of the function that a timer calls."""

_ALARMS = "KeyedTimers._run"
"""Name of the function that a timer calls for the timers of groups, which have texts of their own."""

_BACKGROUND = ("log retention", "log cleaner", "producer id expiry")
_PERIODIC = (*_BACKGROUND, "offset expiry of ", "expiry of transactional ids of ")


class Livelock(RuntimeError):
    """Time can't advance: timers arm timers for the same instant, without end."""


class TimeControl:
    """A cluster's clock. ``coordinators``: those of its brokers, None while it is not running."""

    def __init__(self, clock: Clock, coordinators: Callable[[], Coordinators | None]) -> None:
        self._clock, self._coordinators = clock, coordinators
        self._moving = False
        self.journal: Journal | None = None

    @property
    def mode(self) -> str:
        """Mode of the brokers' clock: ``real``, ``scaled`` or ``manual``."""
        if isinstance(self._clock, ManualClock):
            return "manual"
        return "scaled" if isinstance(self._clock, ScaledClock) else "real"

    @property
    def rate(self) -> float:
        """Speed of the brokers' clock: 1, the factor of a scaled clock, 0 for a manual clock."""
        if isinstance(self._clock, ManualClock):
            return 0.0
        return self._clock.rate if isinstance(self._clock, ScaledClock) else 1.0

    def now_ms(self) -> int:
        """Milliseconds since 1970 for the brokers."""
        return self._clock.now_ms()

    def next_timer(self) -> tuple[int, str] | None:
        """The time of the next timer, in ms since 1970, and its purpose; None without an armed timer. With a real or scaled clock only
        the timers of coordinators are known."""
        timers: list[tuple[int, str]] = []
        coordinators = self._coordinators()
        timed: list[Any] = [] if coordinators is None else [*coordinators.made(), *coordinators.locks()]
        for runtime in timed:
            first = next(iter(runtime.timers), None)
            if first is not None:
                due_ms, (index, key) = first
                timers.append((due_ms, runtime.timer_text(index, key)))
        if isinstance(self._clock, ManualClock):
            others = ((due_ms, what) for due_ms, what in self._clock.armed() if _name(what) != _ALARMS)
            timers += [(due_ms, _text(what)) for due_ms, what in others][:1]
        return min(timers, default=None)

    async def advance(self, by: object, expire: str | Iterable[str] = (), *, wait: object = WAIT) -> list[str]:
        """Advance the clock by a number of seconds or ``"46s"``, ``"5m"``: at most ten years. Returns the fired timers, in order of
        their first firing (``"offset expiry of __consumer_offsets-3 (12 times)"``), without periodic log maintenance.

        ``expire``: member, client or instance ids of members that send nothing meanwhile, so that their sessions expire. ``wait``: real
        time that the other members of a group get to rejoin before the clock passes its rebalance timeout; with 0 members that have
        not rejoined are removed. The result and the log name them. Raises UsageError for a clock that isn't manual, an invalid
        duration, an unknown member, and a second call during the first. Raises Livelock.
        """
        clock = self._clock
        if not isinstance(clock, ManualClock):
            raise UsageError(
                f"advance needs a manual clock (clock='manual', serve --clock manual); this cluster's clock is {self.mode}"
            )
        ms, wait_ms = duration_ms(by, "advance"), duration_ms(wait, "wait")
        if ms > LONGEST_MS:
            raise UsageError(f"advance: {duration_text(ms)} is more than ten years, the maximum of one call")
        if self._moving:
            raise UsageError("another advance() is running; await it first")
        names = [expire] if isinstance(expire, str) else list(expire)
        keepalive = self._keepalive()
        target_ms = clock.now_ms() + ms
        if keepalive is not None:
            keepalive.begin(target_ms, names)
        elif names:
            raise UsageError(f"no member {names[0]!r}; the cluster has no groups")
        self._moving = True
        try:
            if self.journal is not None:
                self.journal.write("clock", action="advance", ms=ms, expire=names)
            return await self._move(clock, target_ms, keepalive, wait_ms)
        finally:
            self._moving = False
            for let_in in () if keepalive is None else keepalive.end():
                clock.wire.call_at_ms(clock.wire.now_ms() + _BACK_MS, let_in)

    def _keepalive(self) -> SessionKeepAlive | None:
        coordinators = self._coordinators()
        groups = None if coordinators is None else coordinators.made_groups
        return None if groups is None else groups.keepalive

    def _fired_besides(self) -> list[str]:
        """Descriptions of the timers of transactions and of share groups' locks that have fired since the last call."""
        coordinators = self._coordinators()
        texts: list[str] = []
        if coordinators is None:
            return texts
        for made in (coordinators.made_transactions, coordinators.made_shares):
            if made is not None:
                fired, made.fired = made.fired, []
                texts += fired or []
        return texts

    async def _move(
        self, clock: ManualClock, target_ms: int, keepalive: SessionKeepAlive | None, wait_ms: int
    ) -> list[str]:
        counts: dict[str, int] = {}
        rounds = 0
        waited: set[object] = set()  # timers that fire although the living have not rejoined
        await _turns(_TURNS)  # what is at hand comes before what time brings
        self._fired_besides()
        while True:
            if keepalive is not None:
                keepalive.expire_silent()
            due_ms = clock.next_deadline_ms()
            if due_ms is None or due_ms > target_ms:
                break
            late = [] if keepalive is None else keepalive.awaited_requests(due_ms)
            if keepalive is not None and not waited.issuperset(deadline.timer for deadline in late):
                waited.update(deadline.timer for deadline in await _rejoined(keepalive, due_ms, wait_ms))
                continue  # what is due has changed, or they are late
            rounds = rounds + 1 if due_ms == clock.now_ms() else 0
            if rounds > _ROUNDS:
                raise Livelock(f"{_ROUNDS} times at one instant a timer was armed for it: {next(iter(counts), '?')}")
            clock.move_to(due_ms)
            texts = [_text(what) for what in clock.fire_due() if _name(what) != _ALARMS]
            if keepalive is not None:
                texts += keepalive.fired
                keepalive.fired = []
                texts += [_removal_text(deadline, wait_ms) for deadline in keepalive.removed(late)]
            texts += self._fired_besides()
            for text in texts:
                if text not in _BACKGROUND:
                    counts[text] = counts.get(text, 0) + 1
            await _turns(1 if all(text.startswith(_PERIODIC) for text in texts) else _TURNS)
        clock.move_to(target_ms)
        return [text if count == 1 else f"{text} ({count} times)" for text, count in counts.items()]

    def __repr__(self) -> str:
        return f"<time {self.mode}, {self.now_ms()} ms>"


async def _rejoined(keepalive: SessionKeepAlive, due_ms: int, wait_ms: int) -> list[AwaitedRequest]:
    """Until no living member owes anything to a rebalance whose timer is due then, or ``wait_ms`` of real time have passed. Returns
    what is owed still."""
    heard = asyncio.Event()
    keepalive.after_request = heard.set
    try:
        async with asyncio.timeout(wait_ms / 1000):
            while keepalive.awaited_requests(due_ms):
                await heard.wait()
                heard.clear()
                await _turns(_TURNS)
                keepalive.expire_silent()
    except TimeoutError:
        pass
    finally:
        keepalive.after_request = None
    return keepalive.awaited_requests(due_ms)


def _removal_text(awaited: AwaitedRequest, wait_ms: int) -> str:
    passed = "rebalance timeout" if awaited.api == "JoinGroup" else "rebalance timeout for SyncGroup"
    had = (
        f"it had not sent its {awaited.api} within {duration_text(wait_ms)} of real time"
        if wait_ms
        else "it was not waited for"
    )
    text = f"{awaited.name} was removed from {awaited.group_id} because the step passed its {passed}; {had}"
    log.warning("%s", text)
    return text


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _name(callback: Callable[..., object]) -> str:
    return str(getattr(callback, "__qualname__", type(callback).__qualname__))


def _text(callback: Callable[..., object]) -> str:
    text: Any = getattr(getattr(callback, "__self__", None), "timer_text", None)
    return text if isinstance(text, str) else _TEXTS.get(_name(callback), _name(callback))

"""Keyed timers over one clock: thousands of sessions, each restarted at every heartbeat, cost one timer of the event loop.

Moving an armed key to a later time only stores the new deadline; its place in the order stays, and the deadline is checked when the
place is reached. So a heartbeat costs one look-up, or none if the ``Armed`` is at hand. ``cancel`` removes the key.

If the event loop was blocked past a deadline, by long callbacks or by a process without processor time, two rules hold. A session must
not expire while its member's heartbeat is unread in a socket: overdue timers fire only after the sockets were read once more
(``Clock.call_after_reading``). And a request that arrived after the deadline must not be handled before it: handlers of requests other
than heartbeats check ``overdue`` first, and wait with ``then``. Event loops guarantee neither: their order of timers and sockets
differs, and an overdue timer would also fire all timers that came due since the sockets were last read. Manual and virtual time, which
does not pass while code runs, is never overdue.

A deadline may be in the past: an interval that is over, a timeout below 0 from a client. Such a key fires at once. A key that arms
itself for the past each time that it fires would block the loop, and an advance of manual time; so a key that has fired in a pass over
due keys and arms itself for the past in it fires a millisecond later. For the present it may: a delay of 0 is over at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from sortedcontainers import SortedList

from broker_sim.common.clock import Clock, Timer

K = TypeVar("K", bound=Hashable)


class Armed(Generic[K]):
    """A key that is armed. ``deadline_ms`` may be moved on, never back, while it is ``alive``: not yet fired, not cancelled."""

    __slots__ = ("alive", "deadline_ms", "key", "place")

    def __init__(self, key: K, deadline_ms: int) -> None:
        self.key, self.deadline_ms, self.alive = key, deadline_ms, True
        self.place = (0, 0)  # when to look at it, and a number


class KeyedTimers(Generic[K]):
    """Calls ``fire(key)`` when ``clock.now_ms()`` has reached the key's deadline, in the order of (deadline, arming)."""

    def __init__(self, clock: Clock, fire: Callable[[K], None]) -> None:
        self._clock, self._fire = clock, fire
        self._armed: dict[K, Armed[K]] = {}
        self._order: SortedList = SortedList()  # (when to look at it, a number, the armed one)
        self._number = 0
        self._alarm: Timer | None = None
        self._alarm_ms = 0
        self._reading_ms: int | None = None  # what is due by then fires as soon as the sockets were read
        self._waiting: list[Callable[[], object]] = []
        self._fired: set[K] = set()  # in the pass over what is due that is on, if one is
        self._due_ms = 0  # what this pass takes

    def __len__(self) -> int:
        return len(self._armed)

    def __iter__(self) -> Iterator[tuple[int, K]]:
        """Every armed (deadline, key), the next one first."""
        return iter(sorted(((armed.deadline_ms, key) for key, armed in self._armed.items()), key=lambda pair: pair[0]))

    def armed(self, key: K) -> Armed[K] | None:
        """The key's `Armed`, whose deadline may be moved to a later time; None if it isn't armed."""
        return self._armed.get(key)

    def deadline_ms(self, key: K) -> int | None:
        """The deadline of ``key``, None if it isn't armed."""
        armed = self._armed.get(key)
        return None if armed is None else armed.deadline_ms

    def set(self, key: K, deadline_ms: int) -> None:
        """Arm ``key``, or move it."""
        if deadline_ms < self._due_ms and key in self._fired:
            deadline_ms = self._due_ms + 1
        armed = self._armed.get(key)
        if armed is None:
            armed = self._armed[key] = Armed(key, deadline_ms)
            self._enter(armed)
            return
        armed.deadline_ms = deadline_ms
        if deadline_ms < armed.place[0]:
            self._order.remove((*armed.place, armed))
            self._enter(armed)

    def cancel(self, key: K) -> None:
        """Disarm ``key``; nothing happens if it isn't armed."""
        armed = self._armed.pop(key, None)
        if armed is not None:
            armed.alive = False
            self._order.remove((*armed.place, armed))

    def clear(self) -> None:
        """Disarm all keys and cancel the loop's timer."""
        for armed in self._armed.values():
            armed.alive = False
        self._armed.clear()
        self._order.clear()
        self._waiting.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _enter(self, armed: Armed[K]) -> None:
        self._number += 1
        deadline_ms = armed.deadline_ms
        armed.place = (deadline_ms, self._number)
        self._order.add((deadline_ms, self._number, armed))
        if self._alarm is None or deadline_ms < self._alarm_ms:
            self._set_alarm(deadline_ms)

    def _set_alarm(self, deadline_ms: int) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = deadline_ms
        self._alarm = self._clock.call_at_ms(deadline_ms, self._run)

    def overdue(self) -> bool:
        """Whether a timer should have fired before this millisecond. If so, it has fired when a callback given to :meth:`then` is
        called."""
        if self._reading_ms is None:
            now = self._clock.now_ms()
            return self._late(now) and self._read_first(now)
        return True

    def then(self, callback: Callable[[], object]) -> None:
        """Call ``callback()`` once the timers that are overdue have fired."""
        self._waiting.append(callback)

    def _run(self) -> None:
        self._alarm = None
        now = self._clock.now_ms()
        if self._reading_ms is None and not (self._late(now) and self._read_first(now)):
            self._fire_due(now)

    def _late(self, now: int) -> bool:
        """Whether a deadline lies before the present millisecond."""
        order = self._order
        while order and order[0][0] < now:
            armed: Armed[K] = order[0][2]
            if armed.deadline_ms < now:
                return True
            order.pop(0)
            self._enter(armed)
        return False

    def _read_first(self, now: int) -> bool:
        if not self._clock.call_after_reading(self._caught_up):
            return False
        self._reading_ms = now
        return True

    def _caught_up(self) -> None:
        """Called when the sockets were read: fire what was due when the reading began, and nothing that came due since."""
        due_ms, self._reading_ms = self._reading_ms, None
        assert due_ms is not None
        self._fire_due(due_ms)
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def _fire_due(self, now: int) -> None:
        order, fired, self._due_ms = self._order, self._fired, now
        try:
            while order and order[0][0] <= now:
                armed: Armed[K] = order.pop(0)[2]
                if armed.deadline_ms > now:
                    self._enter(armed)
                else:
                    armed.alive = False
                    del self._armed[armed.key]
                    fired.add(armed.key)
                    self._fire(armed.key)
        finally:
            fired.clear()
        if order and (self._alarm is None or order[0][0] < self._alarm_ms):
            self._set_alarm(order[0][0])

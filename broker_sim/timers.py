"""Keyed timers over one clock: thousands of sessions that are moved at every heartbeat cost one loop timer.

``set`` on an armed key only notes the new deadline; its entry in the order stays where it is, and when that comes up the noted deadline
decides. So a heartbeat costs one dictionary write. ``cancel`` takes the entry out: a group that is gone leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from sortedcontainers import SortedList

from broker_sim.clock import Clock, Timer

K = TypeVar("K", bound=Hashable)


class KeyedTimers(Generic[K]):
    """Calls ``fire(key)`` when ``clock.now_ms()`` has reached the key's deadline, in the order of (deadline, arming)."""

    def __init__(self, clock: Clock, fire: Callable[[K], None]) -> None:
        self._clock, self._fire = clock, fire
        self._deadlines: dict[K, int] = {}
        self._entries: dict[K, tuple[int, int, K]] = {}  # (when to look at the key, a number, the key)
        self._order: SortedList = SortedList()  # the same entries
        self._number = 0
        self._alarm: Timer | None = None
        self._alarm_ms = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __iter__(self) -> Iterator[tuple[int, K]]:
        """Every armed (deadline, key), the next one first."""
        return iter(sorted(((deadline, key) for key, deadline in self._deadlines.items()), key=lambda pair: pair[0]))

    def deadline_ms(self, key: K) -> int | None:
        """When ``key`` will fire, None if it isn't armed."""
        return self._deadlines.get(key)

    def set(self, key: K, deadline_ms: int) -> None:
        """Arm ``key``, or move it."""
        self._deadlines[key] = deadline_ms
        entry = self._entries.get(key)
        if entry is None:
            self._enter(key, deadline_ms)
        elif deadline_ms < entry[0]:
            self._order.remove(entry)
            self._enter(key, deadline_ms)

    def cancel(self, key: K) -> None:
        """Disarm ``key``; nothing happens if it isn't armed."""
        if self._deadlines.pop(key, None) is not None:
            self._order.remove(self._entries.pop(key))

    def clear(self) -> None:
        """Disarm everything."""
        self._deadlines.clear()
        self._entries.clear()
        self._order.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _enter(self, key: K, deadline_ms: int) -> None:
        self._number += 1
        entry = self._entries[key] = (deadline_ms, self._number, key)
        self._order.add(entry)
        if self._alarm is None or deadline_ms < self._alarm_ms:
            self._set_alarm(deadline_ms)

    def _set_alarm(self, deadline_ms: int) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = deadline_ms
        self._alarm = self._clock.call_at_ms(deadline_ms, self._run)

    def _run(self) -> None:
        self._alarm = None
        now = self._clock.now_ms()
        order = self._order
        while order and order[0][0] <= now:
            key: K = order.pop(0)[2]
            del self._entries[key]
            deadline = self._deadlines[key]
            if deadline > now:
                self._enter(key, deadline)
            else:
                del self._deadlines[key]
                self._fire(key)
        if order and (self._alarm is None or order[0][0] < self._alarm_ms):
            self._set_alarm(order[0][0])

"""Keyed timers over one clock: thousands of sessions that are moved at every heartbeat cost one loop timer.

``set`` on an armed key only notes the new deadline; the heap keeps the old entry, and when that comes up the noted deadline decides.
So a heartbeat costs one dictionary write.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from broker_sim.clock import Clock, Timer

K = TypeVar("K", bound=Hashable)


class KeyedTimers(Generic[K]):
    """Calls ``fire(key)`` when ``clock.now_ms()`` has reached the key's deadline, in the order of (deadline, arming)."""

    def __init__(self, clock: Clock, fire: Callable[[K], None]) -> None:
        self._clock, self._fire = clock, fire
        self._deadlines: dict[K, int] = {}
        self._queued: dict[K, int] = {}  # key -> the earliest entry of it in the heap
        self._heap: list[tuple[int, int, K]] = []
        self._sequence = 0
        self._alarm: Timer | None = None
        self._alarm_ms = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def deadline_ms(self, key: K) -> int | None:
        """When ``key`` will fire, None if it isn't armed."""
        return self._deadlines.get(key)

    def set(self, key: K, deadline_ms: int) -> None:
        """Arm ``key``, or move it."""
        self._deadlines[key] = deadline_ms
        queued = self._queued.get(key)
        if queued is None or deadline_ms < queued:
            self._push(key, deadline_ms)

    def cancel(self, key: K) -> None:
        """Disarm ``key``; nothing happens if it isn't armed."""
        self._deadlines.pop(key, None)

    def clear(self) -> None:
        """Disarm everything."""
        self._deadlines.clear()
        self._queued.clear()
        self._heap.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _push(self, key: K, deadline_ms: int) -> None:
        self._queued[key] = deadline_ms
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, key))
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
        heap = self._heap
        while heap and heap[0][0] <= now:
            when, _, key = heapq.heappop(heap)
            if self._queued.get(key) == when:
                del self._queued[key]
            deadline = self._deadlines.get(key)
            if deadline is None:
                continue
            if deadline > now:
                if key not in self._queued:
                    self._push(key, deadline)
            elif deadline <= now:
                del self._deadlines[key]
                self._fire(key)
        if heap and (self._alarm is None or heap[0][0] < self._alarm_ms):
            self._set_alarm(heap[0][0])

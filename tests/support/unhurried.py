"""An event loop on real sockets whose time no stall can reach: for tests in which broker and clients share one process.

    with asyncio.Runner(loop_factory=UnhurriedLoop) as runner: ...

What passes is what the loop waited for with nothing else to do, as long as it meant to wait and no longer. So a process that is held up
for two seconds, wherever that hits it, has lost none of a session of 300 ms: what lies in the sockets comes first. And as everybody who
could send anything lives in this loop, an idle wait is cut short: PACE seconds pass in one.

The rest of a turn counts for TURN_S at most, so that a loop that is never idle has time all the same.

Not for clients in threads or other processes: they measure with a watch of their own. Who stops time in a test takes it from
``loop.time()``; ``time.monotonic()`` knows the machine's.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

PACE = 10.0
"""Seconds of the loop's time that pass in one idle second. The kernel needs far less than a tenth of the times that tests
measure to carry bytes over loopback."""

TURN_S = 0.001


class UnhurriedLoop(asyncio.SelectorEventLoop):
    """See the module. ``hurried = True`` makes it an ordinary one, for a test that turns out to have a peer elsewhere."""

    def __init__(self) -> None:
        self._waits = _Waits(selectors.DefaultSelector())
        super().__init__(self._waits)

    @property
    def hurried(self) -> bool:
        return self._waits.hurried

    @hurried.setter
    def hurried(self, value: bool) -> None:
        self._waits.hurried = value

    def time(self) -> float:
        """Seconds; see the module."""
        return self._waits.time()


def loops(
    item: pytest.Item, *, hurried: tuple[str, ...] = (), uvloop: tuple[str, ...] = ()
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the loop factories for ``pytest_asyncio_loop_factories``: an unhurried loop for all modules but ``hurried``, whose peers
    run in other threads or processes; modules in ``uvloop`` run on uvloop, too, where it is installed."""
    module = item.path.name
    found: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
        "asyncio": asyncio.new_event_loop if module in hurried else UnhurriedLoop
    }
    if module in uvloop:
        try:
            from uvloop import new_event_loop
        except ImportError:  # an optional extra
            pass
        else:
            found["uvloop"] = new_event_loop
    return found


class _Waits(selectors.BaseSelector):
    """The loop's selector, which sees every wait and how long it was meant to be."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._now_s = self._seen_s = time.monotonic()
        self.hurried = False

    def time(self) -> float:
        if self.hurried:
            self._look()
        return self._now_s

    def _look(self) -> float:
        """The seconds since the last look; on a hurried loop they have passed."""
        now_s = time.monotonic()
        spent_s, self._seen_s = now_s - self._seen_s, now_s
        if self.hurried:
            self._now_s += spent_s
        return spent_s

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.hurried:
            return self._selector.select(timeout)
        self._now_s += min(self._look(), TURN_S)
        ready = self._selector.select(None if timeout is None else timeout / PACE)
        waited_s = self._look()
        self._now_s += timeout if timeout is not None and not ready else min(waited_s, TURN_S)
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._selector.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._selector.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._selector.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._selector.get_map()

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._selector.get_key(fileobj)

    def close(self) -> None:
        self._selector.close()

"""Waits: a condition is looked at again whenever something happened, until it holds or a deadline of real time has passed.

Rules:
1. No polling and no sleeping: a condition is checked at the journal's events only. A change without an event can't be waited for.
2. A condition is looked at in a turn of the loop of its own, when the step that wrote the event is over. ``seen`` looks at each event
   itself, so that a state which lasts for a moment is not missed.
3. On timeout the error has the condition, the present state and the recent events (`WaitTimeout`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import duration_ms
from broker_sim.journal import WaitTimeout

if TYPE_CHECKING:
    from broker_sim.journal import Journal

__all__ = ["TIMEOUT", "WaitTimeout", "until"]

TIMEOUT = "10s"
"""Default timeout of a wait, in real time."""


async def until(
    condition: Callable[[], object],
    journal: Journal,
    timeout: object = TIMEOUT,
    what: str = "a condition",
    *,
    seen: Callable[[dict[str, Any]], object] | None = None,
    now: Callable[[], str] | None = None,
    group: str | None = None,
) -> None:
    """Return once ``condition()`` holds, or ``seen(event)`` for an event from now on.

    ``what``: the condition as text; ``now()``: returns the present state as text; ``group``: the id of the group whose history is
    in the error. Raises WaitTimeout after ``timeout`` of real time, UsageError for an invalid timeout.
    """
    timeout_ms = duration_ms(timeout, "timeout")
    changed = asyncio.Event()
    has_seen = False

    def look(event: dict[str, Any]) -> None:
        nonlocal has_seen
        if seen is not None and not has_seen and seen(event):
            has_seen = True
        changed.set()

    unsubscribe = journal.subscribe(look)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            while not (has_seen or condition()):
                await changed.wait()
                changed.clear()
    except TimeoutError:
        raise WaitTimeout(what, timeout_ms, now() if now is not None else "", journal.describe(group)) from None
    finally:
        unsubscribe()

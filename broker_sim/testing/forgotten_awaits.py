"""Detection of forgotten awaits: a wait without ``await`` checks nothing, so a test made of such waits would always pass.

    kafka.group("billing").stable(members=3)        # no await: the coroutine is thrown away

Python warns of that where few look, and in general terms. While an async test runs, `Unawaited` hears of every coroutine that ends
without having begun, and notes those of broker-sim that the test's own code made, with the line that made them.

    asyncio.create_task(kafka.group("billing").stable())    # the task is never awaited

That a wait goes on in a task when its test is over is as much of a mistake: `left_in_tasks`.

Rules:
1. Only what never began counts, and what is left in a task. A task that is cancelled, a coroutine that is closed, a wait that fails
   were ended on purpose.
2. What other libraries' coroutines do is theirs: Python's warning goes its usual way.
"""

from __future__ import annotations

import asyncio
import linecache
import sys
import warnings
from pathlib import Path
from types import CoroutineType
from typing import Any

__all__ = ["Unawaited", "left_in_tasks"]

_OURS = str(Path(__file__).parents[1])
_OF_HANDLES = (str(Path(_OURS, "api", "handles")), str(Path(_OURS, "journal")))
_DEPTH = 8
"""So many frames Python notes of each coroutine's making: ours, and the first of the user's."""

_HOOK = "_warn_unawaited_coroutine"
"""Function in ``warnings`` that the interpreter calls, since Python 3.7."""


class Unawaited:
    """Notes forgotten awaits from its making to ``stop()``, of the thread that made it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        """A text for each, in the order in which they ended."""
        self._warn: Any = getattr(warnings, _HOOK, None)
        self._depth = sys.get_coroutine_origin_tracking_depth()
        if self._warn is not None:
            setattr(warnings, _HOOK, self._note)
            sys.set_coroutine_origin_tracking_depth(max(_DEPTH, self._depth))

    def stop(self) -> None:
        """End the detection, and restore Python's handling of coroutines that were never awaited."""
        if self._warn is not None:
            setattr(warnings, _HOOK, self._warn)
            sys.set_coroutine_origin_tracking_depth(self._depth)

    def _note(self, coroutine: CoroutineType[Any, Any, Any]) -> None:
        made = coroutine.cr_origin or ()  # innermost first
        user = next(((file, line) for file, line, _ in made if not file.startswith(_OURS)), None)
        if user is None or not coroutine.cr_code.co_filename.startswith(_OURS):
            self._warn(coroutine)
            return
        within = [
            function
            for file, _, function in made[: [file for file, _, _ in made].index(user[0])]
            if file.startswith(_OURS)
        ]
        called = within[-1] if within else coroutine.__name__
        source = linecache.getline(*user).strip()
        self.lines.append(f"{_shown(user[0])}:{user[1]}: {called}() was not awaited, so it did nothing: {source}")

    def text(self) -> str:
        """For the report; "" where nothing was forgotten."""
        return "\n".join(["an await is missing:", *self.lines]) if self.lines else ""


def left_in_tasks(loop: asyncio.AbstractEventLoop) -> list[str]:
    """A text for each wait of broker-sim's that the user's code has made a task of, and that goes on in the loop. Where it was made is
    known of those alone that were made while there was an `Unawaited`."""
    texts = []
    for task in asyncio.all_tasks(loop):
        coroutine = task.get_coro()
        if not isinstance(coroutine, CoroutineType) or task.cancelling():
            continue
        made, file = coroutine.cr_origin or (), coroutine.cr_code.co_filename
        within = 1 if file.startswith(_OF_HANDLES) else 0  # such as `commit`, which makes its coroutine itself
        user = next(((of, line) for of, line, _ in made[: within + 1] if not of.startswith(_OURS)), None)
        if user is not None and file.startswith(_OURS):
            source = linecache.getline(*user).strip()
            texts.append(
                f"{_shown(user[0])}:{user[1]}: {coroutine.__name__}() runs in a task that is never awaited: {source}"
            )
    return sorted(texts)


def _shown(file: str) -> str:
    here = Path.cwd()
    return str(Path(file).relative_to(here)) if Path(file).is_relative_to(here) else file

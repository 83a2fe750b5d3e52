"""Progress of a run on stderr: one line for each step, with its result and its duration.

Rules:
1. On a terminal the line of the step that runs counts its seconds and Spark's tasks; elsewhere each step is one line, when it is done.
2. Nothing here waits for the work, and the work doesn't wait for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from broker_sim.common.clock import stopwatch

__all__ = ["Steps", "gateway_is_quiet"]

TICK_S = 0.5
CLEAR = "\r\x1b[K"
"""Begins a terminal's line anew."""


class ProgressStep:
    """The step that runs; `done` says what came of it."""

    def __init__(self) -> None:
        self.words = ""

    def done(self, words: str) -> None:
        self.words = words


class Steps:
    """Writes to ``stream``; ``tasks()`` returns (finished, all) of Spark's tasks that run now, or None."""

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self.stream, self.quiet = stream, quiet
        self.tty = not quiet and stream.isatty()
        self.tasks: Callable[[], tuple[int, int] | None] = lambda: None
        self._records: Callable[[], int] | None = None
        self.watch = stopwatch()

    @contextmanager
    def step(self, name: str) -> Iterator[ProgressStep]:
        """Around the work of a step."""
        watch, step, over = stopwatch(), ProgressStep(), threading.Event()
        ticker = threading.Thread(target=self._tick, args=(name, watch, over), daemon=True)
        if self.tty:
            ticker.start()
        try:
            yield step
        finally:
            over.set()
            self._records = None
            if self.tty:
                ticker.join()
                self._write(CLEAR)
        self.say(f"{name}: {step.words or 'done'} ({watch():.1f} s)")

    def counts_records(self, records: Callable[[], int]) -> None:
        """The step that runs shows how many records are done, as ``records()`` returns."""
        self._records = records

    def say(self, words: str) -> None:
        """Print a line of progress unless quiet."""
        if not self.quiet:
            self._write(f"{CLEAR if self.tty else ''}{words}\n")

    def _tick(self, name: str, watch: Callable[[], float], over: threading.Event) -> None:
        while not over.wait(TICK_S if watch() > TICK_S else 0.05):
            tasks = self.tasks()
            shown = f", {tasks[0]} of {tasks[1]} tasks" if tasks else ""
            records = self._records
            shown += f", {records():,} records" if records is not None else ""
            self._write(f"{CLEAR}{name} ... {watch():.0f} s{shown}")

    def _write(self, words: str) -> None:
        self.stream.write(words)
        self.stream.flush()


@contextmanager
def gateway_is_quiet() -> Iterator[None]:
    """In the block py4j logs nothing. What fails raises as well, and a Ctrl-C, which may come while it waits for the JVM, cost some 49
    lines of tracebacks on the root logger (``logging.exception`` in py4j's java_gateway.py and clientserver.py)."""

    def is_not_its(record: logging.LogRecord) -> bool:
        return _GATEWAY not in (record.name.partition(".")[0], *Path(record.pathname).parts)

    root, own = logging.getLogger(), logging.getLogger(_GATEWAY)
    propagated, own.propagate = (
        own.propagate,
        False,
    )  # once it has logged on the root logger, that writes for all others, too
    root.addFilter(is_not_its)
    try:
        yield
    finally:
        root.removeFilter(is_not_its)
        own.propagate = propagated


_GATEWAY = "py4j"


def tasks_of(spark: Any) -> Callable[[], tuple[int, int] | None]:
    """(finished, all) tasks of the stages that a session runs now."""

    def progress() -> tuple[int, int] | None:
        try:
            tracker = spark.sparkContext.statusTracker()
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        except Exception:  # a session that ends, or that has no tracker: progress is never worth an error
            return None
        known = [stage for stage in stages if stage is not None]
        return (sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)) if known else None

    return progress

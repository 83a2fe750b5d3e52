"""Alarms: SIGALRM, with which pytest-timeout and others end a test whose time is up.

The handler of an alarm raises wherever the main thread happens to be: in a finaliser, where the exception is lost; in a task, of
which it ends only that one; while patches are removed, which then stay for the following tests. And an alarm fires once. So:

1. While alarms are kept - a simulation from end to end, all seeds of a test - what the handler raises is kept first of all.
2. It is raised at once where the test's own code runs between two runs; and again by the next run, or at the end of the block, in
   case a finaliser has swallowed it.
3. Everywhere else it is raised by the loop, after the callback in which it came, or at the end of the block when all is as before.
4. Code that does not come back is interrupted a second later: ``watchdog``.
5. Only the main thread gets signals: a simulation in another thread keeps none. Signals without a pending alarm are not changed.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from broker_sim.common.code_owner import is_ours, is_users
from broker_sim.simulation.errors import caller

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.loop import SimLoop

__all__ = ["Alarms", "give_lines", "is_uninterrupted", "uninterrupted"]

F = TypeVar("F", bound=Callable[..., Any])

_UNINTERRUPTED: set[CodeType] = set()


def uninterrupted(function: F) -> F:
    """No alarm is raised in the function, nor in what it calls."""
    _UNINTERRUPTED.add(function.__code__)
    return function


def is_uninterrupted(frame: FrameType | None) -> bool:
    """Whether no exception may be raised in this frame: it runs this package's code, below no frame of the user's, or
    ``contextlib``'s, where a ``with`` may have entered its block without knowing it yet."""
    if frame is not None and frame.f_code.co_filename == contextlib.__file__:
        return True
    theirs = False
    while frame is not None:
        theirs = theirs or is_users(frame.f_code)
        if frame.f_code in _UNINTERRUPTED or (is_ours(frame.f_code) and not theirs):
            return True
        frame = frame.f_back
    return False


class Alarms:
    """In the block, and in those inside it that are of one with it, alarms are kept. ``error``: what the first one has raised."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.late = False
        """Whether it has not been raised yet."""
        self.loop: SimLoop | None = None
        """Of the simulation whose block runs; None before it has begun to and when it ends."""
        self._alarm: Any = None
        self._ours: Any = None

    def __enter__(self) -> Alarms:
        global _current
        if threading.current_thread() is not threading.main_thread():
            return self
        if _current is not None:
            return _current
        alarm = signal.getsignal(signal.SIGALRM) if hasattr(signal, "SIGALRM") else None
        if callable(alarm):
            self._alarm, self._ours = alarm, self._ring
            signal.signal(signal.SIGALRM, self._ours)
            _current = self  # not before: what rings between the two lines would leave it here for good
        return self

    @uninterrupted
    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        global _current
        if self._ours is None:
            return
        _current = None
        if signal.getsignal(signal.SIGALRM) is self._ours:
            signal.signal(signal.SIGALRM, self._alarm)
        self._ours = None
        self.due(error)

    def due(self, error: BaseException | None = None) -> None:
        """Raise what was kept, but for ``error``, which is on its way."""
        if self.error is not None and self.error is not error:
            self.late = False
            raise self.error

    def taken(self) -> None:
        """Forget the kept exception: its caller reports it."""
        self.error, self.late = None, False

    def _ring(self, number: int, frame: FrameType | None) -> None:
        try:
            self._alarm(number, frame)
        except BaseException as error:
            if self.error is None:
                self.error = error
                error.add_note(f"it rang{caller(frame) or ' outside of the code under test'}")
            if self.loop is not None:
                self.loop.forbidden = self.error
            self.late = self.loop is None or is_uninterrupted(frame)
            if not self.late:
                raise


_current: Alarms | None = None
"""Those that have the signal."""


def give_lines(error: BaseException) -> None:
    """Set the line of traceback entries without one to the previous line: a signal between two lines (at a loop's jump back) raises
    at line None, on which pytest fails."""
    entries: list[TracebackType] = []
    traceback = error.__traceback__
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    if all(entry.tb_lineno is not None for entry in entries):
        return
    for entry in reversed(entries):
        line = entry.tb_lineno or _line_before(entry.tb_frame.f_code, entry.tb_lasti)
        traceback = TracebackType(traceback, entry.tb_frame, entry.tb_lasti, line)
    error.__traceback__ = traceback


def _line_before(code: CodeType, at: int) -> int:
    lines = [line for start, _, line in code.co_lines() if line is not None and start <= at]
    return lines[-1] if lines else code.co_firstlineno

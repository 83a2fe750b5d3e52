"""Alarms: SIGALRM, with which pytest-timeout and others end a test whose time is up; SIGINT and SIGTERM, where they interrupt.

The handler of an alarm raises wherever the main thread happens to be: in a finaliser, where the exception is lost; in a task, of
which it ends only that one; between the creation of a coroutine and its first step; while patches are removed, which then stay for
the following tests. And an alarm fires once. So:

1. While alarms are kept - a simulation from end to end, all seeds of a test - what the handler raises is kept first of all.
2. It is raised at once where the test's own code runs between two runs; and again by the next run, or at the end of the block, in
   case a finaliser has swallowed it.
3. Everywhere else it is raised by the loop, after the callback in which it came, or at the end of the block when all is as before.
4. Code that does not come back is interrupted a second later: ``watchdog``. At a debugger's prompt Ctrl-C is the debugger's.
5. Only the main thread gets signals: a simulation in another thread keeps none. A signal without a handler in Python, as SIGINT in a
   worker process that ignores it, is not changed.
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

_SIGNALS = [getattr(signal, name) for name in ("SIGALRM", "SIGINT", "SIGTERM") if hasattr(signal, name)]
_DEBUGGERS = ("pdb", "bdb", "IPython", "pydevd", "debugpy")


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


def is_debugging(frame: FrameType | None) -> bool:
    """Whether this frame belongs to a debugger, or to what one has called."""
    while frame is not None:
        file = frame.f_code.co_filename
        if any(file.endswith(f"{name}.py") or f"/{name}/" in file for name in _DEBUGGERS):
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
        """Loop of the simulation whose block runs; None before its beginning and after its end."""
        self._handlers: dict[int, Any] = {}
        """Former handlers of the signals that are replaced."""
        self._ours = self._ring

    def __enter__(self) -> Alarms:
        global _current
        if threading.current_thread() is not threading.main_thread():
            return self
        if _current is not None:
            return _current
        try:
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._ours)
        except BaseException:  # of a signal that is not kept yet
            self._restore()
            raise
        if self._handlers:
            _current = self  # not before: what rings between the two lines would leave it here for good
        return self

    @uninterrupted
    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        global _current
        if not self._handlers:
            return
        _current = None
        self._restore()
        self.due(error)

    def _restore(self) -> None:
        try:
            with contextlib.ExitStack() as undo:  # a handler that is back may raise: the others come back all the same
                for number, handler in self._handlers.items():
                    if signal.getsignal(number) is self._ours:
                        undo.callback(signal.signal, number, handler)
        finally:
            self._handlers = {}

    def due(self, error: BaseException | None = None) -> None:
        """Raise what was kept, but for ``error``, which is on its way."""
        if self.error is not None and self.error is not error:
            self.late = False
            raise self.error

    def taken(self) -> None:
        """Forget the kept exception: its caller reports it."""
        self.error, self.late = None, False

    def _ring(self, number: int, frame: FrameType | None) -> None:
        handler, name = self._handlers[number], signal.Signals(number).name
        if name != "SIGALRM" and is_debugging(frame):
            handler(number, frame)
            return
        try:
            handler(number, frame)
        except BaseException as error:
            if self.error is None:
                self.error = error
                error.add_note(f"{name} came{caller(frame) or ' outside of the code under test'}")
            if self.loop is not None:
                self.loop.forbidden = self.error
            self.late = self.loop is None or is_uninterrupted(frame)
            if not self.late:
                raise


_current: Alarms | None = None
"""Alarms that have the signal; None for none."""


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

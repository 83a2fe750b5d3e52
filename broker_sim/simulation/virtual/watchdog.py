"""Code that does not come back: it computes without end, or waits for the real world where no pin reaches (a socket or lock in C).

Rules:
1. A thread outside of the simulation checks every second whether callbacks have run. If none has for ``patience_s`` real seconds, a
   signal interrupts the main thread, which raises `SimStuck`. It ends the run even if it is caught.
2. The time at a debugger's prompt does not count, nor that of the test's own code between two runs.
3. Once an alarm has rung (``alarms``), the first look that finds it waiting still has no patience: what it raised is raised there.
4. Signals reach the main thread alone: a simulation in another one, or on a system without them, is not guarded.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import duration_text
from broker_sim.simulation.errors import SimForbidden, SimStuck, caller
from broker_sim.simulation.virtual import patches
from broker_sim.simulation.virtual.alarms import Alarms, is_debugging, is_uninterrupted
from broker_sim.simulation.virtual.process import PROCESS

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.loop import SimLoop

__all__ = ["patience", "watchdog_paused"]

_LOOK_S = 1.0
_IDLE = 10
"""Looks without a simulation after which the thread ends."""
_LOOP = str(Path(__file__).with_name("loop.py"))
_THREADS = str(Path(__file__).parents[1] / "sync" / "threads.py")
_times, _gettime = os.times, getattr(time, "clock_gettime", None)
"""The real ones: what is looked at in the simulation's own thread has its time."""
_SHOWN = 6
"""Frames that the error shows."""


class _StuckThreadInterrupt(BaseException):
    """For code that swallows every Exception."""


class _Guard:
    """One simulation, as long as it is there."""

    def __init__(self, loop: SimLoop, alarms: Alarms, patience_s: float) -> None:
        self.loop, self.alarms, self.patience_s = loop, alarms, patience_s
        self.look_s = min(_LOOK_S, patience_s / 4)
        self.main = threading.get_ident()
        self.steps, self.waited_s = -1, 0.0
        self.readings = [(0.0, 0.0)] * 3
        """CPU seconds at the last looks: of the main thread, of all threads."""
        self.used_s = self.all_used_s = 0.0
        """CPU seconds before the first signal."""
        self.signals = 0
        self.calls = 0
        self.interrupting = False
        """Inside the signal handler, which may take longer than the time between two signals: it reads source files."""

    def look(self) -> None:
        """In the watchdog's thread: check once. It counts checks, not seconds, so that a stopped process does not count as stuck."""
        steps, running = self.loop.steps, self.loop.is_running()
        self.readings = [*self.readings[1:], (_thread_s(self.main), _process_s())]
        if steps != self.steps or not (running or self.alarms.late):
            self.steps, self.waited_s, self.signals, self.calls = steps, 0.0, 0, 0
            return
        self.waited_s += self.look_s
        natives = self.loop.native_threads
        if natives is not None and natives.forbidden(natives.names()) is not None:
            self.waited_s = self.patience_s
        if self.waited_s >= self.patience_s or self.alarms.error is not None:
            if self.signals == 0:  # before it is sent: what the handler does itself is not the code's
                (main_s, all_s), *_, (main_now_s, all_now_s) = self.readings
                self.used_s, self.all_used_s = main_now_s - main_s, all_now_s - all_s
            self.signals += 1
            if _watch.guard is self:  # it may have ended meanwhile; what arrives even later meets _ignore_late
                signal.pthread_kill(self.main, signal.SIGVTALRM)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGVTALRM in the main thread: raise the error of the stuck simulation."""
        if self.interrupting:  # else the error would name the handler as the code that does not come back
            return
        self.interrupting = True
        try:
            self._interrupt(frame)
        finally:
            self.interrupting = False

    def _interrupt(self, frame: FrameType | None) -> None:
        alarm = self.alarms.error
        if not self.loop.is_running():
            if self.alarms.late and not is_uninterrupted(frame):
                self.alarms.due()
            return
        interrupted, frame = frame, _running(frame)
        if is_debugging(frame):
            return
        stack = traceback.extract_stack(frame)
        self.calls += 1
        ends = self.alarms.loop is None
        busy = (self.used_s if frame is interrupted else self.all_used_s) > self.look_s / 64
        self.loop.forbidden = self._error(frame, stack, busy) if alarm is None or ends else alarm
        if self.calls > 2:
            raise _StuckThreadInterrupt
        raise self.loop.forbidden

    def _error(self, frame: FrameType | None, stack: traceback.StackSummary, busy: bool) -> SimForbidden:
        natives = self.loop.native_threads
        forbidden = None if natives is None else natives.forbidden(natives.names(), frame)
        return forbidden or self._stuck(frame, stack, busy)

    def _stuck(self, frame: FrameType | None, stack: traceback.StackSummary, busy: bool) -> SimStuck:
        process = PROCESS.get()
        host = f" on host {process.host}" if process is not None else ""
        what = "computes" if busy else "waits for the real world"
        instead = "let it yield: await asyncio.sleep(0) now and then" if busy else "use asyncio's means"
        sockets = [] if self.loop.native_sockets is None else self.loop.native_sockets.new()
        opened = f"; C code has opened {', '.join(sockets)}" if sockets else ""
        lasted = duration_text(self.patience_s * 1000)
        ours = max((at for at, frame in enumerate(stack) if frame.filename == _LOOP), default=-1)
        shown = "".join(traceback.format_list(stack[ours + 1 :][-_SHOWN:]))
        return SimStuck(
            f"code{host}{caller(frame)} {what}, for {lasted} of real time: {instead}; "
            f"simulate(patience=...) gives it more{opened}\n{shown}"
        )


def _running(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the simulation: in the main thread, or in the thread of the synchronous program that runs."""
    threads = patches.threads()
    if frame is None or frame.f_code.co_filename != _THREADS:
        return frame
    frames = sys._current_frames()
    theirs = [frames[ident] for ident in threads if ident in frames]
    return next((frame for frame in theirs if frame.f_code.co_filename != _THREADS), frame)


def _process_s() -> float:
    times = _times()
    return times.user + times.system


def _thread_s(ident: int) -> float:
    """CPU seconds of the main thread: what other threads of the process compute is not the simulation's. Of no other one is this
    asked, since it must not be of one that has just ended."""
    if _gettime is None or not hasattr(time, "pthread_getcpuclockid"):
        return _process_s()
    used: float = _gettime(time.pthread_getcpuclockid(ident))
    return used


class _Watch:
    """The thread, and what it looks at."""

    def __init__(self) -> None:
        self.guard: _Guard | None = None
        self.look_s = _LOOK_S
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def begin(self, guard: _Guard) -> None:
        with self._lock:
            self.guard, self.look_s = guard, guard.look_s
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="broker-sim patience", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        idle = 0
        while True:
            time.sleep(self.look_s)
            idle = 0 if self._look() else idle + 1
            if idle > _IDLE:
                with self._lock:
                    if self.guard is None:
                        self._thread = None
                        return

    def _look(self) -> bool:
        guard = self.guard  # known here alone: nothing of a simulation outlives it
        if guard is not None:
            guard.look()
        return guard is not None


_watch = _Watch()


@contextmanager
def watchdog_paused() -> Iterator[None]:
    """In this block the simulation itself waits, and the time does not count as stuck."""
    guard, _watch.guard = _watch.guard, None
    try:
        yield
    finally:
        if guard is not None:
            guard.waited_s = 0.0
            _watch.guard = guard


@contextmanager
def patience(loop: SimLoop, alarms: Alarms, patience_s: float) -> Iterator[None]:
    """Guard a simulation while the block runs; to be entered before anything is pinned, in a block that keeps ``alarms``."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_kill"):
        yield
        return
    guard = _Guard(loop, alarms, patience_s)
    before = signal.signal(signal.SIGVTALRM, guard.interrupt)
    _watch.begin(guard)
    try:
        yield
    finally:
        _watch.guard = None
        signal.signal(signal.SIGVTALRM, _handler_after(before))


def _handler_after(before: Any) -> Any:
    """The handler once the simulation has ended: the one before it, if a signal that arrives late does not end the process by it."""
    return before if callable(before) or before is signal.SIG_IGN else _ignore_late


def _ignore_late(number: int, frame: FrameType | None) -> None:
    """Take the place of the default action, which ends the process, from the first simulation on.

    The watchdog's thread may be about to send its signal when the simulation ends. A lock around both would be taken in the main
    thread, where the handler interrupts the wait for it. SIG_IGN would be inherited by every program that the process starts.
    """

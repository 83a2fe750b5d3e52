"""A world that goes on more than once: the process is forked between two instants of virtual time, and the copy follows another future.

    fork = Fork(loop)
    if fork.child:
        ...                                 # another future; at its end:
        fork.end(outcome)                   # which does not return
    outcome = fork.wait(60.0)               # the child's outcome; time does not pass here meanwhile

On virtual time a fork is exact: all that a world consists of is memory of its one thread. What is not can't be forked, and `why_not`
says so: threads, with which synchronous programs and C clients run, exist in the parent alone, and so do sockets and files
behind descriptors whose positions both would move. A simulated disk is memory. A worker of Spark's has its sockets to the JVM.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
from asyncio import events
from typing import Any, NoReturn

from broker_sim.simulation.virtual import patches
from broker_sim.simulation.virtual.loop import SimLoop
from broker_sim.simulation.virtual.watchdog import watchdog_paused

__all__ = ["CPU_S", "Fork", "Gone", "why_not"]

_fork, _kill, _wait, _leave = getattr(os, "fork", None), os.kill, os.waitpid, os._exit
_select, _now_s = select.select, time.monotonic
CPU_S = time.process_time
"""The real ones: this is the machinery's own."""

_CHUNK = 1 << 16


class Gone(Exception):
    """A child process sent no outcome: it died, or the wait timed out."""


def why_not(loop: SimLoop) -> str:
    """Reason why this world can't be forked; "" where it can."""
    if _fork is None:
        return "this system has no fork()"
    if patches.threads() or (loop.native_threads is not None and loop.native_threads.names()):
        return "threads are at work in it, and a fork has only one"
    return ""


class Fork:
    """Made in both processes. ``child``: whether this is the new one."""

    def __init__(self, loop: SimLoop) -> None:
        assert _fork is not None
        self._reading, self._writing = os.pipe()
        self._pid: int = _fork()
        self.child = self._pid == 0
        os.close(self._reading if self.child else self._writing)
        if self.child and loop.is_running():
            events._set_running_loop(
                loop
            )  # asyncio stores the process id with it, and in another process no loop is running

    def end(self, result: object) -> NoReturn:
        """Send the child's result to its parent, and exit, without undoing or flushing anything that the parent has, too."""
        code = 1
        try:
            with os.fdopen(self._writing, "wb") as out:
                pickle.dump(result, out)
            code = 0
        finally:
            _leave(code)

    def wait(self, within_s: float) -> Any:
        """In the parent: wait for the outcome that the child passed to ``end``. Raises Gone if the child dies, or after
        ``within_s`` real seconds."""
        parts: list[bytes] = []
        try:
            with watchdog_paused():
                until_s = _now_s() + within_s
                while True:
                    if not _select([self._reading], [], [], max(0.0, until_s - _now_s()))[0]:
                        raise Gone(f"nothing for {within_s:.0f} s")
                    part = os.read(self._reading, _CHUNK)
                    if not part:
                        break
                    parts.append(part)
        finally:
            os.close(self._reading)
            if not parts or part:
                _kill(self._pid, signal.SIGKILL)
            _, status = _wait(self._pid, 0)
        if status != 0:
            raise Gone(f"it ended with status {status}")
        return pickle.loads(b"".join(parts))

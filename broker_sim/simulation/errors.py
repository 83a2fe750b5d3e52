"""Errors that end a simulation: each is raised at once where a test in real time would hang."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from broker_sim.common.code_owner import is_users

__all__ = [
    "LibraryMoved",
    "SimDeadlock",
    "SimError",
    "SimForbidden",
    "SimLivelock",
    "SimStuck",
    "SimTimeLimit",
    "caller",
]


class SimError(RuntimeError):
    """An error within a simulated run, not in its arguments."""


class SimDeadlock(SimError):
    """No task is ready and no timer is armed: every task waits forever."""


class SimLivelock(SimError):
    """Callbacks run without end while time does not advance."""


class SimTimeLimit(SimError, AssertionError):
    """A wait reached its limit of virtual time."""


class SimForbidden(SimError):
    """Simulated code reached for the real world: it blocked, opened a socket, started a thread."""


class SimStuck(SimForbidden):
    """Simulated code did not yield for many real seconds: an endless computation, or a wait in C."""


class LibraryMoved(SimError):
    """A library changed where a simulation pins it: runs would not be repeatable."""


def caller(frame: FrameType | None = None) -> str:
    """`` at consumer.py:17``: the line of the user's code that called this, or that runs in ``frame``; "" without such code."""
    frame = frame or sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code):
            return f" at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""

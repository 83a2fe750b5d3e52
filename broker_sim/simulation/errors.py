"""What ends a simulation: each is an exception at once where a test in real time would hang."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType

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
    """Something is wrong with a simulated run, not with its set-up."""


class SimDeadlock(SimError):
    """Nothing is ready and no timer is armed: every task waits for ever."""


class SimLivelock(SimError):
    """Callbacks run without end and time does not pass."""


class SimTimeLimit(SimError, AssertionError):
    """What was waited for has not come in the virtual time it was given."""


class SimForbidden(SimError):
    """Simulated code reached for the real world: it blocked, opened a socket, started a thread."""


class SimStuck(SimForbidden):
    """Simulated code did not come back for many real seconds: it computes without end, or waits for the real world in C."""


class LibraryMoved(SimError):
    """A library has no longer the place where simulation pins it: a run could not be repeated."""


_OURS = str(Path(__file__).parents[2] / "broker_sim")
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib")})


def is_ours(frame: FrameType) -> bool:
    """Whether code of this package runs in ``frame``."""
    return frame.f_code.co_filename.startswith(_OURS)


def is_users(frame: FrameType) -> bool:
    """Whether the user's code runs in ``frame``: nobody's package."""
    return is_users_code(frame.f_code)


def is_users_code(code: CodeType) -> bool:
    """Whether it is the user's: nobody's package."""
    return not code.co_filename.startswith((_OURS, *_LIBRARIES, "<"))


def caller(frame: FrameType | None = None) -> str:
    """`` at consumer.py:17``: where the user's code stands that has called this, or that runs in ``frame``; "" for nowhere."""
    frame = frame or sys._getframe(1)
    while frame is not None:
        if is_users(frame):
            return f" at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""

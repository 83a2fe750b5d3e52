"""What ends a simulation: each is an exception at once where a test in real time would hang."""

from __future__ import annotations

__all__ = ["LibraryMoved", "SimDeadlock", "SimError", "SimForbidden", "SimLivelock", "SimStuck", "SimTimeLimit"]


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

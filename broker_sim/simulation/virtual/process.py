"""Simulated process of a callback: a context variable that tasks, timers and connections inherit.

Rules:
1. A process that has crashed never runs again: no callback, no ``finally``, nothing of it. Cancelling its tasks would let it clean up,
   which is an orderly exit and no crash.
2. A process that is paused (as by SIGSTOP) runs nothing either, but what came up meanwhile runs when it is resumed, in its order.
3. A host that is restarted runs another process: what belonged to the last one stays dead.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable

from broker_sim.simulation.virtual.lots import Stream

__all__ = ["PROCESS", "Process", "context_of"]

RUNNING, PAUSED, DEAD = 0, 1, 2


class Process:
    """``host``: the name of the machine it runs on. ``number``: which one it is there, from 1."""

    __slots__ = ("_chance", "_seed", "at_death", "host", "kept", "number", "state", "tasks")

    def __init__(self, host: str, number: int, seed: object) -> None:
        self.host, self.number, self.state = host, number, RUNNING
        self.kept: list[asyncio.Handle] = []
        """Callbacks that came up since it was paused; of a dead process they are kept so that nothing of it is finalised early."""
        self.tasks: list[asyncio.Task[object]] = []
        """The tasks it had when it died, for the same reason."""
        self.at_death: list[Callable[[Process], object]] = []
        """Callbacks of the kernel at the death of the process."""
        self._seed = f"{seed}/process {host} {number}"
        self._chance: Stream | None = None

    @property
    def chance(self) -> Stream:
        """Random stream of the process: draws by others do not change it."""
        if self._chance is None:
            self._chance = Stream(self._seed)
        return self._chance

    def __repr__(self) -> str:
        state = ("", " paused", " dead")[self.state]
        return f"<process {self.number} of {self.host}{state}>"


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("broker_sim_process", default=None)
"""Process whose code is running; None: the test's own."""


def context_of(process: Process | None) -> contextvars.Context:
    """A context in which code of ``process`` runs."""
    context = contextvars.copy_context()
    set_process: Callable[[Process | None], object] = PROCESS.set
    context.run(set_process, process)
    return context

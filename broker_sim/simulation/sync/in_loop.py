"""Threads that programs made of coroutines start: by executors, ``asyncio.to_thread`` or directly. They are threads of the simulation.

Rules:
1. A thread that code of a host starts in the loop runs as those of synchronous programs do (``threads``): one at a time, in
   virtual time.
2. The loop itself never waits for one: a call that would raises an error that names what to await instead. Only a thread that ends
   without the passing of time can be joined, as ``QueueListener.stop`` and the end of an executor's ``with`` do.
3. A lock that is created in the loop is simulated: a thread that waits while it owns the lock blocks no real thread.
4. ``run_in_executor`` is asyncio's: executors have the workers that they were given. The one by default is each process's own.
"""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.sync.programs import prepare
from broker_sim.simulation.sync.sockets import LoopSocket
from broker_sim.simulation.sync.threads import SimLock, SimRLock
from broker_sim.simulation.virtual.patches import current as current_patches
from broker_sim.simulation.virtual.process import PROCESS, Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_sim.simulation.virtual.patches import Patches

__all__ = ["end", "install"]

_WORKERS = 32
"""Default number of workers of an executor, the most that any machine has, whatever processors it has."""

_STEPS = 1000
"""So many turns threads may take until one that is joined has ended."""


def install() -> None:
    """For the simulation that has begun."""
    p = current_patches()
    assert p is not None
    for what in (_locks, _threads, _executors, _sockets):
        what(p)


def end(*, dead: bool = False) -> None:
    """The simulation ends, and its threads: first those of processes that have crashed."""
    p = current_patches()
    if p is not None and p.sync is not None:
        p.sync.end(dead=dead)


def _simulated(p: Patches) -> bool:
    """Whether simulated code asks, and not the test between two runs."""
    return bool(p.loop.is_running())


def _locks(p: Patches) -> None:
    def either(owner: Any, name: str, simulated: Callable[[], Any]) -> None:
        def make(*args: Any) -> Any:
            return simulated(*args) if _simulated(p) else p.real(owner, name)(*args)

        p.patch(owner, name, make)

    either(threading, "Lock", SimLock)
    either(threading, "RLock", SimRLock)
    either(queue, "SimpleQueue", queue._PySimpleQueue)  # type: ignore[attr-defined]


def _threads(p: Patches) -> None:
    Thread = threading.Thread
    real_init, real_alive = Thread.__init__, Thread.is_alive
    start_in_test = p.virtual.get(p.key(Thread, "start")) or Thread.start  # what the pins have it be
    join_another = p.virtual.get(p.key(Thread, "join")) or Thread.join

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        with p.lifted():
            real_init(self, *args, **kwargs)
        if _simulated(p) and kwargs.get("name") is None and not args[2:]:
            self.name = prepare().next_name()

    def start(self: Any) -> None:
        if not _simulated(p):
            start_in_test(self)
            return
        if hasattr(self, "_in_simulation"):
            raise RuntimeError("threads can only be started once")
        prepare().begin(self)

    def join(self: Any, timeout: float | None = None) -> Any:
        thread = getattr(self, "_in_simulation", None)
        if thread is None:
            return join_another(self, timeout)
        for _ in range(_STEPS):
            due = None if thread.done else prepare().next_due()
            if due is None:
                break
            due.take_turn()
        if thread.done:
            return None
        return p.loop.forbid(f"waiting in a coroutine for {thread}", "await asyncio.to_thread(thread.join)")

    def is_alive(self: Any) -> bool:
        thread = getattr(self, "_in_simulation", None)
        if thread is not None:
            return not thread.done
        with p.lifted():
            return bool(real_alive(self))

    for name, virtual in (("__init__", init), ("start", start), ("join", join), ("is_alive", is_alive)):
        p.patch(Thread, name, virtual)


def _executors(p: Patches) -> None:
    of_process: dict[Process | None, Executor] = {}

    def run(executor: Executor | None, function: Callable[..., Any], *args: Any) -> Any:
        if executor is None:
            process = PROCESS.get()
            executor = of_process.get(process)
            if executor is None:
                executor = of_process[process] = ThreadPoolExecutor(_WORKERS, "asyncio")
        elif isinstance(executor, ProcessPoolExecutor):
            p.loop.forbid("an executor of processes", "use threads, or let it be a program on another host")
        return asyncio.wrap_future(executor.submit(function, *args), loop=p.loop)

    p.loop.executed = run


def _sockets(p: Patches) -> None:
    real_new = socket.socket.__new__

    def new(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
        inside = cls is socket.socket and threading.get_ident() == p.thread and current_patches() is p and _simulated(p)
        return real_new(LoopSocket if inside else cls)

    p.put(socket.socket, "__new__", staticmethod(new))

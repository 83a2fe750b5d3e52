"""Operations that a simulation does not support: code that uses them gets an error with its place and the alternative."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.virtual.process import PROCESS

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.patches import Patches

try:
    import _posixsubprocess
except ImportError:  # Windows
    _posixsubprocess = None  # type: ignore[assignment]

__all__ = ["PINS"]


def _threads(p: Patches) -> None:
    """Only programs start threads, and these run in virtual time."""

    def start(thread: threading.Thread) -> None:
        p.loop.forbid(f"starting thread {thread.name} in the test", "let a program do it: its threads are virtual")

    p.patch(threading.Thread, "start", start)


def _blocking(p: Patches) -> None:
    """Waiting for another thread (queues, events, futures) is forbidden in coroutines, not in the test between two runs."""
    real_wait, real_join, loop = threading.Condition.wait, threading.Thread.join, p.loop

    def wait(self: threading.Condition, timeout: float | None = None) -> bool:
        if loop.is_running() and (timeout is None or timeout > 0):
            loop.forbid(
                "waiting for another thread (Event, Queue, Future.result)",
                "use asyncio's; await asyncio.wrap_future(future)",
            )
        return real_wait(self, timeout)

    def join(self: threading.Thread, timeout: float | None = None) -> None:
        if loop.is_running():
            loop.forbid(f"waiting for thread {self.name}", "use tasks, and await them")
        real_join(self, timeout)

    p.patch(threading.Condition, "wait", wait)
    p.patch(threading.Thread, "join", join)


def _loops(p: Patches) -> None:
    """No other event loop is created."""

    def no_loop() -> None:
        p.loop.forbid("making another event loop", "await it in the one that is running")

    def no_run(main: Any, **options: Any) -> None:
        if asyncio.iscoroutine(main):
            main.close()
        p.loop.forbid("asyncio.run", "await it in a program, sim.run it in a test")

    for module in (asyncio, asyncio.events):
        p.patch(module, "new_event_loop", no_loop)
    for module in (asyncio, asyncio.runners):
        p.patch(module, "run", no_run)


def _sockets(p: Patches) -> None:
    """No real socket is opened, and no host name is resolved."""

    def no_socket(*args: Any, **kwargs: Any) -> None:
        p.loop.forbid("opening a socket", "use asyncio's streams, loop.create_connection or loop.create_server")

    def no_lookup(*args: Any, **kwargs: Any) -> None:
        p.loop.forbid("looking up a name through socket", "use loop.getaddrinfo")

    def no_client(address: Any, *args: Any, **kwargs: Any) -> None:
        what = f"connecting to {address!r} (urllib, http.client and the like)"
        p.loop.forbid(what, "use asyncio.open_connection to a server that is a coroutine on another host")

    p.patch(socket, "create_connection", no_client)
    p.patch(socket.socket, "__init__", no_socket)
    p.patch(socket, "getaddrinfo", no_lookup)
    for name in ("gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo"):
        p.patch(socket, name, no_lookup)


def _programs(p: Patches) -> None:
    """Simulated programs can't start processes."""

    def no_program(self: Any, *args: Any, **kwargs: Any) -> None:
        self._child_created = False  # for its __del__
        p.loop.forbid("starting a program", "let it be a coroutine on a host")

    def no_process(name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: p.loop.forbid(f"starting a process ({name})", "let it be a coroutine on a host")

    p.patch(subprocess.Popen, "__init__", no_program)
    for name in ("fork", "forkpty", "system", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            p.patch(os, name, no_process(f"os.{name}"))
    if _posixsubprocess is not None:
        p.patch(_posixsubprocess, "fork_exec", no_process("multiprocessing"))
    multiprocessing = sys.modules.get("multiprocessing.process")
    if (
        multiprocessing is not None
    ):  # before it opens pipes, which it does not close again in another process: one's pid is virtual
        p.patch(multiprocessing.BaseProcess, "start", no_process("multiprocessing"))


def _alarms(p: Patches) -> None:
    """Programs can't set an alarm in real time or wait in ``select``; the test can."""
    loop = p.loop

    def not_for_programs(owner: Any, name: str, what: str, instead: str) -> None:
        def function(*args: Any, **kwargs: Any) -> Any:
            if PROCESS.get() is not None and loop.is_running():
                loop.forbid(f"{what} ({owner.__name__}.{name})", instead)
            return p.real(owner, name)(*args, **kwargs)

        if hasattr(owner, name):
            p.patch(owner, name, function)

    for name in ("alarm", "setitimer", "pause", "sigwait", "sigtimedwait", "sigwaitinfo"):
        not_for_programs(signal, name, "an alarm of real time", "use loop.call_later, or asyncio.timeout")
    for name in ("select", "poll", "epoll", "kqueue"):
        not_for_programs(select, name, "waiting for files", "use asyncio's streams")


PINS: dict[str, Callable[[Patches], None]] = {
    "threads": _threads,
    "blocking": _blocking,
    "loops": _loops,
    "sockets": _sockets,
    "programs": _programs,
    "alarms": _alarms,
}

"""Names of callbacks and tasks, and where tasks wait: for errors."""

from __future__ import annotations

import asyncio
from typing import Any

from broker_sim.simulation.virtual.process import RUNNING

__all__ = ["SHOWN", "callback_name", "owner_of", "tasks_text"]

SHOWN = 12
"""Tasks that an error names."""


def owner_of(handle: asyncio.Handle) -> object:
    """Object whose method a callback is: the task, where it is a task's step."""
    return getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]


def callback_name(handle: asyncio.Handle) -> str:
    """Name of a callback: of a task's step the task's, else the function's."""
    owner = owner_of(handle)
    if isinstance(owner, asyncio.Task):
        return _task_name(owner)
    callback: Any = handle._callback  # type: ignore[attr-defined]
    return str(getattr(callback, "__qualname__", type(callback).__qualname__))


def _task_name(task: asyncio.Task[Any]) -> str:
    process = getattr(task, "process", None)
    host = f"{process.host}: " if process is not None else ""
    coro = task.get_coro()
    return f"{host}{task.get_name()} {getattr(coro, '__qualname__', coro)}"


def _waits_at(task: asyncio.Task[Any]) -> str:
    """`` at FILE:LINE``: where the innermost coroutine of a task waits; for a task that runs a thread, what the thread waits for."""
    thread = getattr(task, "thread", None)
    if thread is not None:
        return f" waits for {thread.waits_for}{thread.place()}"
    coro: Any = task.get_coro()
    place = ""
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None) or getattr(coro, "ag_frame", None)
        if frame is not None:
            place = f" at {frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        coro = getattr(coro, "cr_await", None) or getattr(coro, "gi_yieldfrom", None) or getattr(coro, "ag_await", None)
    return place


def tasks_text(loop: asyncio.AbstractEventLoop) -> str:
    """The tasks that are not done, and where they wait, a line each."""
    tasks = sorted((t for t in asyncio.all_tasks(loop) if not t.done()), key=hash)
    alive = [t for t in tasks if (p := getattr(t, "process", None)) is None or p.state == RUNNING]
    lines = [f"  {_task_name(task)}{_waits_at(task)}" for task in alive[:SHOWN]]
    if len(alive) > SHOWN:
        lines.append(f"  and {len(alive) - SHOWN} more")
    if len(tasks) > len(alive):
        lines.append(f"  and {len(tasks) - len(alive)} on hosts that are paused or have crashed")
    return "\n".join(lines) if lines else "  (no task is left)"

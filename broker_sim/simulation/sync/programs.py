"""Start of a program that blocks: its simulation gets threads, on which blocking calls are virtual."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from broker_sim.simulation.sync.threads import Threads
from broker_sim.simulation.virtual.patches import current as current_patches

__all__ = ["in_thread", "prepare"]

T = TypeVar("T")


def prepare() -> Threads:
    """Let this simulation have threads. Raises LibraryMoved."""
    patches = current_patches()
    assert patches is not None
    if patches.sync is None:
        with patches.lifted():  # what is imported here and now draws nothing
            from broker_sim.simulation.sync.blocking import install
        patches.sync = Threads(patches)
        install(patches, patches.sync)
    return patches.sync


async def in_thread(function: Callable[[], T], name: str | None = None) -> T:
    """Run a function on a thread of the simulation, as code of the caller's host; returns its result, or raises its exception."""
    thread = prepare().make(function, name)
    result: T = await thread.begin()
    return result

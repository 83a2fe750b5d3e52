"""Settings of the process of `serve`, as far as the system has them: descriptors, signals. Windows has neither as others do."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster

OPEN_MAX = 10_240
"""Descriptors that macOS allows a process whose hard limit is unlimited (OPEN_MAX of syslimits.h)."""


def allow_many_connections() -> None:
    """Raise the limit of descriptors, of which a connection takes one: the usual soft limit of 1,024 is not what ends a broker's
    service."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (hard, OPEN_MAX) if soft != hard else ():
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return


def stop_on_signals(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Set ``stop`` on SIGINT and SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))


def prepare(cluster: Cluster, loop: asyncio.AbstractEventLoop) -> None:
    """Prepare quick requests and small memory, after the lines that clients wait for have been printed: while the clients start."""
    from broker_sim.common.process_memory import collect_rarely, give_back_now_and_then, keep_freed
    from broker_sim.requests.routes import load_handlers

    keep_freed()
    loop.call_soon(lambda: cluster.runtime)  # made now rather than in the first request
    _load_handlers(loop, load_handlers(), collect_rarely)
    give_back_now_and_then(loop, lambda: cluster.state.slices.busy)


def _load_handlers(loop: asyncio.AbstractEventLoop, modules: Iterator[str], then: Callable[[], None]) -> None:
    """Load the handlers' modules, one in each turn of the loop, so that the first clients are served in between; then call ``then``."""
    if next(modules, None) is None:
        then()
    else:
        loop.call_soon(_load_handlers, loop, modules, then)

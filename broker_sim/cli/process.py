"""What `serve` asks of the process it runs in, as far as the system has it: descriptors, signals. Windows has neither as others do."""

from __future__ import annotations

import asyncio
import contextlib
import signal

OPEN_MAX = 10_240
"""What macOS gives a process whose hard limit is unlimited (OPEN_MAX of syslimits.h)."""


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

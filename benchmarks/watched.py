"""``python -m benchmarks.watched FILE serve ...``: the command, with the longest callback of its event loop kept in FILE.

All other clients wait while a callback runs. Its CPU time (of the loop's thread) is the same on a machine that other processes use;
wall time is not. FILE is memory that both sides share: a double (seconds of CPU since it was last 0), and the callback's name.

asyncio runs every callback by `Handle._run`. uvloop's handles can't be replaced, so its loop is given callbacks that are measured; what
it calls by itself, without a handle, is `Connection.data_received` alone.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker_sim.cli.main import main
from broker_sim.network.connection import Connection

__all__ = ["SIZE", "longest", "reset"]

SIZE = 512
_SECONDS = struct.Struct("d")


def longest(memory: mmap.mmap) -> tuple[float, str]:
    """Seconds of CPU of the longest callback since `reset`, and which it was."""
    (seconds,) = _SECONDS.unpack_from(memory)
    return seconds, memory[_SECONDS.size : SIZE].rstrip(b"\0").decode(errors="replace")


def reset(memory: mmap.mmap) -> None:
    """Set all counters of the measurement to 0."""
    memory[:SIZE] = bytes(SIZE)


def shared(path: Path) -> mmap.mmap:
    """The memory behind `path`, which is made where it is not there."""
    if not path.exists():
        path.write_bytes(bytes(SIZE))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), SIZE)


class _Watch:
    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory

    def run(self, function: Callable[..., Any], named: object, *arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return function(*arguments)
        finally:
            took = time.thread_time() - began
            if took > _SECONDS.unpack_from(self._memory)[0]:
                _SECONDS.pack_into(self._memory, 0, took)
                name = repr(named).encode()[: SIZE - _SECONDS.size]
                self._memory[_SECONDS.size : SIZE] = name.ljust(SIZE - _SECONDS.size, b"\0")


def _watch_asyncio(watch: _Watch) -> None:
    run = asyncio.Handle._run
    asyncio.Handle._run = lambda handle: watch.run(run, handle._callback, handle)  # type: ignore[attr-defined, method-assign]


def _watch_uvloop(watch: _Watch) -> None:
    import uvloop

    class Watched(uvloop.Loop):
        def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_soon(watch.run, callback, callback, *args, context=context)

        def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_later(delay, watch.run, callback, callback, *args, context=context)

    received = Connection.data_received
    uvloop.Loop = Watched  # type: ignore[misc]
    Connection.data_received = lambda self, data: watch.run(received, received, self, data)  # type: ignore[method-assign]


if __name__ == "__main__":
    watch = _Watch(shared(Path(sys.argv[1])))
    (_watch_asyncio if "--no-uvloop" in sys.argv else _watch_uvloop)(watch)
    sys.exit(main(sys.argv[2:]))

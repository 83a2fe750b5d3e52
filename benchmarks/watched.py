"""``python -m benchmarks.watched FILE serve ...``: the command, on asyncio's loop, with the longest callback of the loop kept in FILE.

A callback is what everybody else waits for. Its CPU time says the same on a machine that others use; wall time does not.
FILE is memory that both sides share: a double (seconds of CPU since it was last 0), and the callback's name.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["SIZE", "longest", "reset"]

SIZE = 512
_SECONDS = struct.Struct("d")


def longest(memory: mmap.mmap) -> tuple[float, str]:
    """Seconds of CPU of the longest callback since `reset`, and which it was."""
    (seconds,) = _SECONDS.unpack_from(memory)
    return seconds, memory[_SECONDS.size : SIZE].rstrip(b"\0").decode(errors="replace")


def reset(memory: mmap.mmap) -> None:
    """From now on."""
    memory[:SIZE] = bytes(SIZE)


def shared(path: Path) -> mmap.mmap:
    """The memory behind `path`, which is made where it is not there."""
    if not path.exists():
        path.write_bytes(bytes(SIZE))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), SIZE)


def _watch(memory: mmap.mmap) -> None:
    run = asyncio.Handle._run
    now = time.thread_time

    def watched(handle: Any) -> None:
        began = now()
        run(handle)
        took = now() - began
        if took > _SECONDS.unpack_from(memory)[0]:
            _SECONDS.pack_into(memory, 0, took)
            name = repr(handle._callback).encode()[: SIZE - _SECONDS.size]
            memory[_SECONDS.size : SIZE] = name.ljust(SIZE - _SECONDS.size, b"\0")

    asyncio.Handle._run = watched  # type: ignore[method-assign]


if __name__ == "__main__":
    from broker_sim.cli.main import main

    _watch(shared(Path(sys.argv[1])))
    sys.exit(main([*sys.argv[2:], "--no-uvloop"]))

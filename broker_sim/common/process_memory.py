"""Release of the process's memory, by its C library and by Python's garbage collector.

glibc gives the top of its heap back to the kernel as soon as 128 KiB of it are free, and the kernel clears every page that it hands
out again: a broker that reads and frees buffers of 256 KiB pays for that with three page faults a Produce request. `keep_freed`
lets the heap keep what it has had, up to a bound.

What is kept for speed must not be kept for good: a topic that was deleted, or a thousand clients that went away, leave their
memory free in the heap, the most of it below something that lives. `give_back` returns it,
`give_back_now_and_then` does so while a server runs.
"""

from __future__ import annotations

import ctypes
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

KEPT_BYTES = 64 * 1024 * 1024
"""Free memory at the top of the heap that is kept."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MMAP_BYTES = (
    32 * 1024 * 1024
)  # the largest that glibc takes; it has a default that moves, which setting either one stops


def keep_freed() -> bool:
    """For a process of our own, before its first request; False where the C library is not glibc (then nothing is done)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES) and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))


UNUSED_BYTES = 24 * 1024 * 1024
"""So much free memory in the heap, at two looks in a row, is given back."""
DUE = 200
"""Looks at the younger half of the objects, after which one at all of them is due."""
LOOK_S = 5.0
"""Seconds between looks: half of it is how long what is free may have been in use, at the least."""


class _Mallinfo2(ctypes.Structure):
    """struct mallinfo2 of malloc.h: ten size_t, of which the ninth are the free bytes of the heap."""

    _fields_ = [(f"field_{number}", ctypes.c_size_t) for number in range(10)]


def free_bytes() -> int:
    """Unused bytes in the C library's heap; 0 if the library can't report it (glibc before 2.33, others)."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):
        return 0
    ask.restype = _Mallinfo2
    return int(ask().field_8)


def give_back() -> None:
    """Free pages of the heap go back to the kernel; nothing where the C library can't. Takes a millisecond for some 50 MiB."""
    try:
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
    except (AttributeError, OSError, TypeError):
        return


def give_back_now_and_then(loop: asyncio.AbstractEventLoop, is_busy: Callable[[], bool]) -> None:
    """Return memory to the system that was unused at two checks in a row; only for a process of our own. Ends with the loop.

    Without a garbage collection before: large objects - a log's records, pending responses - are in no cycles, and a full
    collection blocks all requests in proportion to the number of objects, 200 to 400 ms beside a request of a megabyte. The full
    collection that Python would start during such a request is made here, when it is due and no long request ``is_busy``.
    """

    def look(free_before: int) -> None:
        if gc.get_count()[2] > DUE and not is_busy():
            gc.collect()
        free = free_bytes()
        if min(free, free_before) >= UNUSED_BYTES:
            give_back()
            free = 0
        loop.call_later(LOOK_S, look, free)

    loop.call_later(LOOK_S, look, 0)


def collect_rarely() -> None:
    """For a process of our own, once everything is loaded: the garbage collector never looks again at what is there now, and less often
    than Python would at what comes. Members and groups live long: looking for cycles among them at every 700 new objects finds
    nothing, and costs a rebalance of a thousand members a twentieth of its time. A look at the younger half comes after
    100,000 new objects: that is 10 ms, while one after 400,000 kept everybody waiting for 75. All objects are looked at where
    `give_back_now_and_then` finds the time for it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 5, 20 * DUE)

"""How the process gets memory back: from its C library, and from Python's garbage collector.

glibc gives the top of its heap back to the kernel as soon as 128 KiB of it are free, and the kernel clears every page that it hands
out again: a broker that reads and frees buffers of 256 KiB pays for that with three page faults a Produce request. `keep_freed`
lets the heap keep what it has had, up to a bound.
"""

from __future__ import annotations

import gc

KEPT_BYTES = 64 * 1024 * 1024
"""Free memory at the top of the heap that is kept."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MMAP_BYTES = (
    32 * 1024 * 1024
)  # the largest that glibc takes; it has a default that moves, which setting either one stops


def keep_freed() -> bool:
    """For a process of our own, as early as can be; False where the C library is not glibc (then nothing is done)."""
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES) and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))


def collect_rarely() -> None:
    """For a process of our own, once everything is loaded: the garbage collector never looks again at what is there now, and less often
    than Python would at what comes. Members and groups live long: looking for cycles among them at every 700 new objects finds
    nothing, and costs a rebalance of a thousand members a twentieth of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)

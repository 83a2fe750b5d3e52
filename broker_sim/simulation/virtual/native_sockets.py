"""Sockets that C code opens for itself: they reach the real world past Python's module ``socket``, whose are refused.

Rules:
1. The system lists which descriptors of this process are sockets (Linux: ``/proc/self/fd``; elsewhere none is noticed). They are looked
   at when a simulation begins, whenever time has been let pass, at the end, and when code does not come back.
2. A new descriptor without a Python ``socket.socket`` makes the run unrepeatable (not pinned), with its peer as the reason. Sockets of
   Python may belong to another thread of the test, and the refusal of those of simulated code is reported elsewhere.
3. One that is opened and closed between two looks is not seen.
"""

from __future__ import annotations

import _socket
import contextlib
import gc
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.patches import Patches

__all__ = ["PINS", "NativeSockets"]

_DESCRIPTORS = "/proc/self/fd"


class NativeSockets:
    """Native sockets of this process that were not made by Python, or before the simulation."""

    def __init__(self, p: Patches) -> None:
        self.p = p
        self._known = set(self._all())

    def _all(self) -> dict[str, int]:
        """All sockets of this process with their descriptors, by ``socket:[inode]``; empty on systems without /proc."""
        sockets: dict[str, int] = {}
        with contextlib.suppress(OSError):  # not Linux
            for number in os.listdir(_DESCRIPTORS):
                with contextlib.suppress(OSError):  # it has been closed meanwhile
                    target = os.readlink(f"{_DESCRIPTORS}/{number}")
                    if target.startswith("socket:"):
                        sockets[target] = int(number)
        return sockets

    def new(self) -> list[str]:
        """A text for each: its descriptor, its own address and its peer's."""
        there = {name: number for name, number in self._all().items() if name not in self._known}
        if there:
            of_python = {thing.fileno() for thing in gc.get_objects() if issubclass(type(thing), socket.socket)}
            there = {name: number for name, number in there.items() if number not in of_python}
        return [f"socket {number} ({_way(number)})" for number in sorted(there.values())]

    def look(self) -> None:
        """After time has been let pass."""
        for text in self.new():
            self.p.not_pinned(f"C code has opened a socket of its own, {text}: what comes in there is the real world's")


def _way(number: int) -> str:
    try:
        copy = _socket.socket(fileno=os.dup(number))
    except OSError:
        return "closed meanwhile"
    try:
        here = _text(copy.getsockname())
        try:
            return f"{here} -> {_text(copy.getpeername())}"
        except OSError:
            return f"{here}, not connected"
    except OSError:
        return "of another kind"
    finally:
        copy.close()


def _text(address: Any) -> str:
    if isinstance(address, tuple):
        return f"{address[0]}:{address[1]}"
    return str(address) or "a pair"


def _native_sockets(p: Patches) -> None:
    """Sockets opened by C code set ``sim.pinned`` to False, and their peers are reported (Linux)."""
    p.loop.native_sockets = NativeSockets(p)


PINS: dict[str, Callable[[Patches], None]] = {"native sockets": _native_sockets}

"""Random streams of the simulation itself: for the place of a task in the queue, and for a process's randomness."""

from __future__ import annotations

import _random
import hashlib
import random

from broker_sim.simulation.virtual.in_place import unbound

__all__ = ["Lot", "Stream"]


class Stream(random.Random):
    """A generator with a seed: it is its own in every run, and a draw costs what it does outside of one. See ``chance``."""

    random = unbound(_random.Random, "random")
    getrandbits = unbound(_random.Random, "getrandbits")


class Lot:
    """Numbers of one task, from a text: a hundredth of the memory of a `random.Random`, of which there would be thousands."""

    __slots__ = ("_state",)

    _MASK = (1 << 64) - 1

    def __init__(self, place: str) -> None:
        self._state = int.from_bytes(hashlib.blake2b(place.encode(), digest_size=8).digest(), "big")

    def next(self) -> int:
        """From 0 to 2**64 - 1: SplitMix64's, which is a counter and a mixer."""
        self._state = z = (self._state + 0x9E3779B97F4A7C15) & self._MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & self._MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & self._MASK
        return z ^ (z >> 31)

"""Deeds of clients that draw them: each has a number and randomness of its own, so one can be left out and all others stay.

    number = deeds.begin("c1", rng)         # rng draws what belongs to this deed and to no other
    if deeds.does("c1", number):
        await something()

Numbers of a client count on when its process is another one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

__all__ = ["Deed", "Deeds"]

Deed = tuple[str, int]
"""A client and the number of one of its deeds, from 1."""


class Deeds:
    """Deeds of all clients of a run. ``only``: those that are done; None: all."""

    def __init__(self, seed: object, only: Iterable[Deed] | None = None) -> None:
        self._seed = seed
        self._only = None if only is None else frozenset(only)
        self._begun: Counter[str] = Counter()
        self.done: list[Deed] = []

    def life(self, client: str, rng: random.Random) -> None:
        """A client begins: ``rng`` draws its habits."""
        rng.seed(f"{self._seed}/{client}/life {self._begun[client]}")

    def begin(self, client: str, rng: random.Random) -> int:
        """The number of its next deed, from whose chance ``rng`` draws from now on."""
        self._begun[client] += 1
        number = self._begun[client]
        rng.seed(f"{self._seed}/{client}/{number}")
        return number

    def does(self, client: str, number: int) -> bool:
        """Whether a deed is done, and not left out; it is noted."""
        if self._only is not None and (client, number) not in self._only:
            return False
        self.done.append((client, number))
        return True

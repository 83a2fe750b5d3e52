"""Random generators by place: each place that draws has a generator of its own.

    chance = Chance.seeded("7 faults")
    chance.at("error NOT_COORDINATOR c1 Heartbeat").random()    # of that place; other draws don't change it

With one generator for all places a rule that is removed from a simulated run would change all other draws, and a failure could not be
shrunk.
"""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["Chance"]


class Chance:
    """Generators by their places' names; ``make`` is asked once for each."""

    def __init__(self, make: Callable[[str], random.Random]) -> None:
        self._make = make
        self._made: dict[str, random.Random] = {}

    @classmethod
    def seeded(cls, seed: object) -> Chance:
        """The same seed and place draw the same."""
        return cls(lambda place: random.Random(f"{seed} {place}"))

    @classmethod
    def of(cls, rng: random.Random) -> Chance:
        """One generator for all places."""
        return cls(lambda place: rng)

    @classmethod
    def system(cls) -> Chance:
        """Random numbers of the operating system, which no seed repeats."""
        return cls.of(random.SystemRandom())

    def at(self, place: str) -> random.Random:
        """The generator of a place."""
        rng = self._made.get(place)
        if rng is None:
            rng = self._made[place] = self._make(place)
        return rng

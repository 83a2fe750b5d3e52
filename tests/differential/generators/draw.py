"""The hand of the generators: dice, the versions that both sides speak, and the steps so far."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tests.differential.sequence import Step

Versions = Mapping[str, tuple[int, int]]
"""API name -> lowest and highest version, those that both sides advertise."""

T = TypeVar("T")


class Draw:
    """Chances, and `step`, which adds a request in a version that both sides speak (or does nothing where they have none)."""

    def __init__(self, rng: random.Random, versions: Versions, brokers: int = 1) -> None:
        self.rng = rng
        self.versions = versions
        self.nodes = list(range(1, brokers + 1))
        self.steps: list[Step] = []

    def often(self, probability: float) -> bool:
        return self.rng.random() < probability

    def one(self, items: Sequence[T]) -> T:
        return self.rng.choice(items)

    def mostly(self, usual: T, *others: T, odds: float = 0.9) -> T:
        """`usual`, or with what is left of the odds one of the others."""
        return usual if not others or self.often(odds) else self.rng.choice(others)

    def some(self, items: Sequence[T], low: int, high: int) -> list[T]:
        """`low` to `high` of the items, one perhaps twice."""
        return [self.rng.choice(items) for _ in range(self.rng.randint(low, high))]

    def version(self, api: str, low: int = 0, high: int = 99) -> int:
        """Draw one of the API's versions, the newest and the oldest more often."""
        first, last = self.versions[api]
        first, last = max(first, low), min(last, high)
        if first >= last:
            return last
        return self.rng.choice((first, last, self.rng.randint(first, last), self.rng.randint(first, last)))

    def has(self, api: str, version: int = 0) -> bool:
        return api in self.versions and self.versions[api][1] >= version

    def step(self, api: str, by: str = "a", version: int | None = None, /, **body: Any) -> Step | None:
        if api not in self.versions:
            return None
        made = Step(by=by, api=api, version=self.version(api) if version is None else version, body=body)
        self.steps.append(made)
        return made

    def world(self, *deed: Any) -> None:
        """Something is done to the cluster."""
        self.steps.append(Step(world=list(deed)))

    def until(self, units: float) -> None:
        self.steps.append(Step(until=units))

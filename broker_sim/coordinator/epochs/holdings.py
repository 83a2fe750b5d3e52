"""Current and target assignments of members: numbered units under a key.

The key is a topic id in consumer and share groups, a role and a subtopology in streams groups. The units are partitions (tasks) by
number. All mappings are read-only: a change makes new ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

Units = Mapping[K, tuple[int, ...]]
"""Key -> the numbers, ascending; no key without any."""

UnitEpochs = Mapping[K, Mapping[int, int]]
"""Key -> number -> the epoch at which the member was given it; no key without any."""


def units_of(pairs: Iterable[tuple[K, Iterable[int]]]) -> dict[K, tuple[int, ...]]:
    """Joins pairs of a key and numbers, in any order, to `Units`."""
    result: dict[K, set[int]] = {}
    for key, numbers in pairs:
        result.setdefault(key, set()).update(numbers)
    return {key: tuple(sorted(numbers)) for key, numbers in result.items() if numbers}


def units(owned: UnitEpochs[K]) -> dict[K, tuple[int, ...]]:
    """The owned units, without their epochs."""
    return {key: tuple(numbers) for key, numbers in owned.items()}


def covers(owned: UnitEpochs[K], some: Iterable[tuple[K, Iterable[int]]]) -> bool:
    """Whether all of ``some`` are owned."""
    return all(number in owned.get(key, ()) for key, numbers in some for number in numbers)


def touches(owned: UnitEpochs[K], some: Iterable[tuple[K, Iterable[int]]]) -> bool:
    """Whether any of ``some`` is owned."""
    return any(number in owned.get(key, ()) for key, numbers in some for number in numbers)


def size(some: Units[K] | UnitEpochs[K]) -> int:
    """Number of units of all keys."""
    return sum(len(numbers) for numbers in some.values())

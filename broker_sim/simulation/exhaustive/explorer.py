"""Exhaustive exploration of a small world, breadth first: `explore`.

A world is made anew and its actions are taken again for every state that is looked at. That costs a replay of some ten steps, a
tenth of what copying the objects costs, and nothing can be shared by mistake: a shard is a function of its events
(`coordinator.outcome`, rule 1).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from broker_sim.simulation.errors import SimError

__all__ = ["Action", "Broken", "Explored", "ModelState", "explore", "replay"]

Action = tuple[str, ...]
"""Action of a small world: its actor, and the step: ``("A", "join")``, ``("time",)``."""


class Broken(SimError, AssertionError):
    """A rule that must hold in every order of events does not: ``rule`` is its name, ``path`` what led there, ``then`` what
    `ModelState.settle` did from there on, where that broke it."""

    def __init__(self, rule: str, what: str) -> None:
        self.rule, self.what = rule, what
        self.path: tuple[Action, ...] = ()
        self.then: tuple[str, ...] = ()
        super().__init__(f"{rule}: {what}")


class ModelState(Protocol):
    """A small world in one of its states."""

    trace: list[str]
    """Events so far, in words."""

    def actions(self) -> Sequence[Action]:
        """Possible actions in this state, in a fixed order."""

    def take(self, action: Action, *, watched: bool = True) -> None:
        """Let it happen. ``watched``: and look whether all rules hold. Raises Broken."""

    def key(self) -> Hashable:
        """Equal where all that may come is equal."""

    def settle(self) -> None:
        """From here on there are no faults, or all clients have left: check whether the world reaches its required end. It is no use
        afterwards. Raises Broken."""


@dataclass(slots=True)
class Explored:
    """``depth``: up to which all was seen; ``is_whole``: nothing else can ever happen. ``states`` are different ones, ``steps``
    actions that were looked at."""

    depth: int = 0
    states: int = 1
    steps: int = 0
    cpu_s: float = 0.0
    is_whole: bool = False
    broken: Broken | None = None
    by_depth: list[int] = field(default_factory=list)


def replay(make: Callable[[], ModelState], path: Sequence[Action]) -> ModelState:
    """A new world after the actions of ``path``, whose steps are not checked again."""
    world = make()
    for action in path:
        world.take(action, watched=False)
    return world


def explore(
    make: Callable[[], ModelState],
    *,
    depth: int,
    cpu_s: float = float("inf"),
    steps: int = 2**62,
    begin: Sequence[Action] = (),
    note: Callable[[Explored], object] = lambda explored: None,
) -> Explored:
    """Everything that may happen within ``depth`` actions after ``begin``: the first ``steps`` of it, and for ``cpu_s`` seconds
    of CPU time at most. ``note`` is called whenever a depth is through, and now and then."""
    began_s, result = time.process_time(), Explored()
    seen: set[int] = {hash(replay(make, begin).key())}
    frontier: list[tuple[Action, ...]] = [tuple(begin)]
    while frontier and result.depth < depth:
        following: list[tuple[Action, ...]] = []
        for path in frontier:
            actions = list(replay(make, path).actions())
            for action in actions:
                world = replay(make, path)
                result.steps += 1
                try:
                    world.take(action)
                    key = hash(world.key())
                    if key in seen:
                        continue
                    seen.add(key)
                    result.states += 1
                    following.append((*path, action))
                    before = len(world.trace)
                    _settle(world, before)
                except Broken as broken:
                    broken.path = (*path, action)
                    result.broken = broken
                    result.cpu_s = time.process_time() - began_s
                    return result
            result.cpu_s = time.process_time() - began_s
            if result.cpu_s > cpu_s or result.steps >= steps:
                return result
            if result.steps % 1000 < len(actions):
                note(result)
        result.depth += 1
        result.by_depth.append(len(following))
        frontier = following
        note(result)
    result.is_whole = not frontier
    return result


def _settle(world: ModelState, before: int) -> None:
    try:
        world.settle()
    except Broken as broken:
        broken.then = tuple(world.trace[before:])
        raise

"""The fewest steps that still show a difference: a search that asks whether a smaller sequence shows it, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.differential.sequence import Sequence, Step

Shows = Callable[[Sequence], Awaitable[bool]]
TRIES = 120


async def shrink(sequence: Sequence, last: int, shows: Shows, tries: int = TRIES) -> Sequence:
    """A smallest sequence of `sequence`'s steps up to `last` for which `shows` holds, found in at most `tries` questions.

    First the steps behind the difference go, then ever smaller runs of steps, then what stands inside the bodies.
    """
    budget = [tries]

    async def holds(steps: list[Step]) -> bool:
        if budget[0] <= 0:
            return False
        budget[0] -= 1
        return await shows(sequence.with_steps(steps))

    best = list(sequence.steps)
    if last + 1 < len(best) and await holds(best[: last + 1]):
        best = best[: last + 1]
    best = await _fewer(best, holds)
    best = await _simpler(best, holds)
    return sequence.with_steps(best)


async def _fewer(best: list[Step], holds: Callable[[list[Step]], Awaitable[bool]]) -> list[Step]:
    size = max(len(best) // 2, 1)
    while True:
        at, changed = 0, False
        while at < len(best):
            less = best[:at] + best[at + size :]
            if less and await holds(less):
                best, changed = less, True
            else:
                at += size
        if size == 1 and not changed:
            return best
        size = max(size // 2, 1)


async def _simpler(best: list[Step], holds: Callable[[list[Step]], Awaitable[bool]]) -> list[Step]:
    """Items of lists and fields go that nobody needs."""
    for number in range(len(best) - 1, -1, -1):
        changed = True
        while changed:
            changed = False
            plain = best[number].plain()
            smaller = [{"wire": wire} for wire in _smaller(best[number].wire)] + [{"held": False}] * best[number].held
            for less in [*smaller, *({"body": body} for body in _smaller(best[number].body))]:
                step = Step(**{**plain, **less})
                if await holds([*best[:number], step, *best[number + 1 :]]):
                    best = [*best[:number], step, *best[number + 1 :]]
                    changed = True
                    break
    return best


def _smaller(tree: Any) -> list[Any]:
    """Trees with one item or one field less, at any depth."""
    out: list[Any] = []
    if isinstance(tree, dict):
        for key, value in tree.items():
            out.append({name: item for name, item in tree.items() if name != key})
            out += [{**tree, key: smaller} for smaller in _smaller(value)]
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            out.append(tree[:index] + tree[index + 1 :])
            out += [[*tree[:index], smaller, *tree[index + 1 :]] for smaller in _smaller(value)]
    return out

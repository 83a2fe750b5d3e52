"""Seeds go where nothing was yet: what runs have come to decides which plans are varied further.

    guide = Guide()
    case = guide.next(Case("group", 17))    # as it is, or a variation of a case that came to something new
    guide.note(run(case))

Rules:
1. What a run has come to are its features (`coverage`): steps of groups and transactions with their causes, errors by state, each with
   the faults that were on. They cost nothing that the journal does not cost anyway; runs without one have none, and are drawn by seed.
2. A clean case with a feature that no case had before is kept, with its plan. Runs of its workload vary one that is kept: the more it
   found, and the less often it was taken, the sooner. How often they do is learnt from what either way brought lately that was new:
   while most of what is drawn is, little is varied.
3. A variation is a change or two of the plan - a fault away, moved, lasting otherwise, taken from another plan, drawn anew beside
   another - in the same world, or in that of another seed.
4. What is chosen is drawn from the seed's number: the same outcomes in the same order give the same cases. On several processes the
   order is that of their ends; what fails is kept as a case, which is all of it.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

from broker_sim.simulation.faults.kinds import Fault
from broker_sim.simulation.sweeps.trial import Case, CaseOutcome
from broker_sim.simulation.sweeps.turns import flat

__all__ = ["Guide", "varied"]

_LEAST = 0.1
"""The share of either way, whatever it brought: what brings nothing now may do so later."""

_LATELY = 0.98
"""Factor by which earlier yields of a way are reduced with each of its runs."""

_KEPT = 300
"""Cases of a workload: those that found least go."""

_SAME_WORLD = 0.5


@dataclass(slots=True)
class _Kept:
    case: Case
    fresh: int
    tried: int = 0

    @property
    def weight(self) -> float:
        return self.fresh / (1 + self.tried)


@dataclass(slots=True)
class _Way:
    """Recent yield of a way to choose cases, and its CPU time. The initial yield is high, so that each way is tried."""

    features: float = 10.0
    cpu_s: float = 1.0

    @property
    def rate(self) -> float:
        return (self.features + 1) / (self.cpu_s + 0.1)

    def note(self, features: int, cpu_s: float) -> None:
        self.features = _LATELY * self.features + features
        self.cpu_s = _LATELY * self.cpu_s + cpu_s


class Guide:
    """See the module. ``known``: feature -> runs that came to it."""

    def __init__(self) -> None:
        self.known: Counter[str] = Counter()
        self._kept: dict[str, list[_Kept]] = {}
        self._brought = {False: _Way(), True: _Way()}  # drawn plans, varied ones

    @property
    def varies(self) -> float:
        """The share of runs that are variations, where there is something to vary."""
        drawn, varied = (self._brought[way].rate for way in (False, True))
        return min(max(varied / (drawn + varied), _LEAST), 1 - _LEAST)

    def note(self, outcome: CaseOutcome, *, varied: bool = False) -> int:
        """A run has ended; returns how many features it was the first with. ``varied``: its plan was a variation."""
        fresh = sum(feature not in self.known for feature in outcome.features)
        self._brought[varied].note(fresh, outcome.cpu_s)
        self.known.update(outcome.features)
        if fresh and outcome.failure is None:
            kept = self._kept.setdefault(outcome.case.workload, [])
            kept.append(_Kept(flat(outcome.case), fresh))
            if len(kept) > _KEPT:
                kept.remove(min(kept, key=lambda entry: entry.weight))
        return fresh

    def next(self, case: Case) -> Case:
        """The case to run in the turn of this one, which has no plan."""
        dice = random.Random(f"{case.seed}/guide")
        kept = self._kept.get(case.workload, [])
        if not kept or dice.random() >= self.varies:
            return case
        chosen = dice.choices(kept, [entry.weight for entry in kept])[0]
        chosen.tried += 1
        other = dice.choice(kept).case
        seed = chosen.case.seed if dice.random() < _SAME_WORLD else case.seed
        return replace(
            chosen.case, seed=seed, plan=varied(chosen.case.plan or (), other.plan or (), case.duration_s, dice)
        )


def varied(
    plan: tuple[Fault, ...], other: tuple[Fault, ...], duration_s: float, dice: random.Random
) -> tuple[Fault, ...]:
    """A plan with a change or two. ``other``: a plan that faults may be taken from."""
    faults = list(plan)
    for _ in range(dice.choice((1, 1, 2, 3))):
        way = dice.random()
        if not faults or (way < 0.3 and other):
            if other:
                faults.append(dice.choice(other))
            continue
        at = dice.randrange(len(faults))
        fault = faults[at]
        if way < 0.5:
            del faults[at]
        elif way < 0.75:  # near another one, or anywhere
            near_s = (
                dice.choice(faults).t_s + dice.gauss(0, 0.5) if dice.random() < 0.5 else dice.uniform(0, duration_s)
            )
            faults[at] = replace(fault, t_s=round(min(max(near_s, 0.0), duration_s), 3))
        elif "for_s" in fault.args:
            lasts_s = round(fault.args["for_s"] * dice.choice((0.25, 0.5, 2.0, 4.0)), 3)
            faults[at] = replace(fault, args={**fault.args, "for_s": lasts_s})
        else:
            faults.append(replace(fault, t_s=round(dice.uniform(0, duration_s), 3)))
    return tuple(sorted(faults, key=lambda fault: fault.t_s))

"""A failing case made small: fewer faults first (ddmin), then shorter ones at round times, fewer clients, no jitter.

Every step is a run that must fail with the same line as the first (`trial.signature`), else it could slip to another failure. The steps
are a function of the case and of what the runs say: the same case is shrunk to the same one every time. ``budget`` counts runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from broker_sim.simulation.faults.kinds import Fault
from broker_sim.simulation.sweeps.trial import Case, Outcome, run, settled

__all__ = ["BUDGET", "SPANS", "Shrunk", "ddmin", "rounded", "shrink"]

BUDGET = 150
"""Runs that shrinking may take."""

SPANS = ("for_s", "hang_s")
"""Arguments that say how long a fault lasts."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shrunk:
    """``outcome``: of the smallest case found. ``before``: faults there were. ``done``: no step was left out for the budget."""

    outcome: Outcome
    before: int
    runs: int
    done: bool

    @property
    def case(self) -> Case:
        """The smallest case."""
        return self.outcome.case


class _Spent(Exception):
    """The budget is."""


def ddmin(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """A part of ``items`` of which each single one is needed for ``fails`` (Zeller's delta debugging). ``fails(items)`` is taken for
    granted."""
    kept, parts = tuple(items), 2
    if kept and fails(()):
        return ()
    while len(kept) >= 2:
        size = math.ceil(len(kept) / parts)
        chunks = [(at, at + size) for at in range(0, len(kept), size)]
        candidates = [kept[a:b] for a, b in chunks] if parts == 2 else []
        candidates += [kept[:a] + kept[b:] for a, b in chunks] if parts > 2 else []
        smaller = next((one for one in candidates if fails(one)), None)
        if smaller is not None:
            kept, parts = smaller, 2 if parts == 2 else max(parts - 1, 2)
        elif parts >= len(kept):
            break
        else:
            parts = min(len(kept), 2 * parts)
    return kept


class _Shrinking:
    def __init__(self, case: Case, failure: str, budget: int, attempt: Callable[[Case], Outcome]) -> None:
        self.failure, self.budget, self.attempt = failure, budget, attempt
        self.runs = 0
        self.best = case
        self.outcome: Outcome | None = None
        self._known: dict[str, bool] = {}

    def fails(self, case: Case) -> bool:
        """Whether it fails as the first one did; then it is the best until now."""
        name = json.dumps(case.to_dict())
        if name not in self._known:
            if self.runs >= self.budget:
                raise _Spent
            self.runs += 1
            outcome = self.attempt(case)
            self._known[name] = outcome.failure == self.failure
            if self._known[name]:
                self.outcome, self.best = outcome, case
        return self._known[name]

    def fewer(self) -> None:
        case = self.best
        ddmin(case.plan or (), lambda plan: self.fails(replace(case, plan=plan)))

    def with_fault(self, at: int, fault: Fault) -> Case:
        plan = list(self.best.plan or ())
        plan[at] = fault
        return replace(self.best, plan=tuple(plan))

    def simpler_faults(self) -> None:
        """Halve how long each lasts while that goes, then round its numbers."""
        for at in range(len(self.best.plan or ())):
            for name in SPANS:
                for _ in range(6):
                    fault = (self.best.plan or ())[at]
                    if fault.args.get(name, 0) < 0.5:
                        break
                    half = {**fault.args, name: round(fault.args[name] / 2, 1)}
                    if not self.fails(self.with_fault(at, replace(fault, args=half))):
                        break
            for rounder in rounded((self.best.plan or ())[at]):
                if self.fails(self.with_fault(at, rounder)):
                    break

    def simpler_world(self) -> None:
        """No jitter, tasks in their order, fewer clients, a shorter run."""
        self.fails(replace(self.best, calm=True))
        self.fails(replace(self.best, order="fifo"))
        members = self.best.members or 1
        for fewer in range(1, members):
            if self.fails(replace(self.best, members=fewer)):
                break
        ends = [fault.t_s + fault.args.get("for_s", 0) for fault in self.best.plan or ()]
        for duration_s in _shorter(self.best.duration_s, max(ends, default=0)):
            if self.fails(replace(self.best, duration_s=duration_s)):
                break


def rounded(fault: Fault) -> Iterator[Fault]:
    """Its numbers with fewer digits, the roundest first."""
    for digits in (0, 1):
        args = {
            name: round(value, digits) if isinstance(value, float) and round(value, digits) > 0 else value
            for name, value in fault.args.items()
        }
        rounded = replace(fault, t_s=float(round(fault.t_s, digits)), args=args)
        if rounded != fault:
            yield rounded


def _shorter(now_s: float, needed_s: float) -> Iterable[float]:
    return [s for s in dict.fromkeys((math.ceil(needed_s), math.ceil(needed_s) + 5, now_s // 2)) if 0 < s < now_s]


def shrink(case: Case, failure: str, *, budget: int = BUDGET, attempt: Callable[[Case], Outcome] = run) -> Shrunk:
    """The smallest case found that still fails with the line ``failure``; it is the given one where nothing smaller does."""
    case = settled(case)
    work = _Shrinking(case, failure, budget, attempt)
    before, done = len(case.plan or ()), True
    try:
        work.fewer()
        work.simpler_world()
        work.simpler_faults()
        work.fewer()
    except _Spent:
        done = False
    outcome = work.outcome or attempt(case)
    return Shrunk(outcome, before, work.runs, done)

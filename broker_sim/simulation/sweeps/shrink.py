"""A failing case made small: fewer faults first (ddmin), then less chance, fewer clients, fewer of their deeds, fewer brokers, all of
it sooner, and what is left shorter and at round times.

Everything is drawn by its place (the fault, the client and its deed, the task, the connection), so what is taken away leaves the draws
of the rest as they were. What the rest does is another matter, as it lives in the same world: so each step is tried, and kept or not.

Every step is a run that must fail with the same line as the first (`trial.signature`), else it could slip to another failure. The steps
are a function of the case and of what the runs say: the same case is shrunk to the same one every time. ``budget`` counts runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from broker_sim.simulation.faults.kinds import Fault
from broker_sim.simulation.sweeps.trial import Case, CaseOutcome, run, settled
from broker_sim.simulation.sweeps.turns import Branch, flat
from broker_sim.simulation.workloads.catalogue import WORKLOADS

__all__ = ["BUDGET", "SPANS", "Shrunk", "ddmin", "rounded", "shrink"]

BUDGET = 150
"""Runs that shrinking may take."""

SPANS = ("for_s", "hang_s")
"""Arguments that say how long a fault lasts."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shrunk:
    """``outcome``: of the smallest case found. ``before``: faults there were. ``done``: no step was left out for the budget."""

    outcome: CaseOutcome
    before: int
    runs: int
    done: bool

    @property
    def case(self) -> Case:
        """The smallest case so far that fails in the same way."""
        return self.outcome.case


class BudgetSpent(Exception):
    """The budget of runs or of time is spent."""


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
        smaller = next((candidate for candidate in candidates if fails(candidate)), None)
        if smaller is not None:
            kept, parts = smaller, 2 if parts == 2 else max(parts - 1, 2)
        elif parts >= len(kept):
            break
        else:
            parts = min(len(kept), 2 * parts)
    return kept


class _CaseShrinker:
    def __init__(self, case: Case, failure: str, budget: int, attempt: Callable[[Case], CaseOutcome]) -> None:
        self.failure, self.budget, self.attempt = failure, budget, attempt
        self.runs = 0
        self.best = case
        self.outcome: CaseOutcome | None = None
        self._known: dict[str, bool] = {}

    def fails(self, case: Case) -> bool:
        """Whether it fails as the first one did; then it is the best until now."""
        name = json.dumps(case.to_dict())
        if name not in self._known:
            if self.runs >= self.budget:
                raise BudgetSpent
            self.runs += 1
            outcome = self.attempt(case)
            self._known[name] = outcome.failure == self.failure
            if self._known[name]:
                self.outcome, self.best = outcome, case
        return self._known[name]

    def so(self, **changes: Any) -> bool:
        """Whether the best until now fails with these changes, too."""
        return self.fails(replace(self.best, **changes))

    def go(self) -> None:
        """Simplify the case, one kind of step after the other, until no smaller case fails."""
        self.no_turns()
        self.fewer_faults()
        self.less_chance()
        self.fewer_clients()
        self.fewer_deeds()
        self.so(brokers=1)
        self.sooner()
        self.simpler_faults()
        self.fewer_faults()

    def no_turns(self) -> None:
        """Put all faults into one plan; where the case fails with its turns alone, remove faults from each turn."""
        if not self.best.turns or self.fails(flat(self.best)):
            return
        for at, turn in enumerate(self.best.turns):
            ddmin(turn.plan or (), lambda plan, at=at: self.so(turns=self._with_turn(at, plan)))  # type: ignore[misc]

    def _with_turn(self, at: int, plan: tuple[Fault, ...]) -> tuple[Branch, ...]:
        turns = list(self.best.turns)
        turns[at] = replace(turns[at], plan=plan)
        return tuple(turns)

    def fewer_faults(self) -> None:
        ddmin(self.best.plan or (), lambda plan: self.so(plan=plan))

    def less_chance(self) -> None:
        """No jitter and tasks in their order: everywhere, or at fewer hosts."""
        calm, ordered = self.so(calm=True), self.so(order="fifo")
        if not (calm and ordered):
            hosts = self.best.noisy if self.best.noisy is not None else self._clients()
            ddmin(hosts, lambda noisy: self.so(noisy=noisy))

    def _clients(self) -> tuple[str, ...]:
        case = self.best
        there = WORKLOADS[case.workload].hosts(case.members)
        return tuple(name for name in there if name not in case.absent)

    def fewer_clients(self) -> None:
        everybody = self._clients()
        ddmin(everybody, lambda kept: self.so(absent=tuple(name for name in everybody if name not in kept)))

    def fewer_deeds(self) -> None:
        """Remove deeds of clients that draw them. The deeds of a case that was not run here are unknown."""
        if self.outcome is not None and self.outcome.deeds:
            ddmin(tuple(self.outcome.deeds), lambda deeds: self.so(deeds=deeds))

    def sooner(self) -> None:
        """All faults come earlier, what lies between them is shorter, and so is the run. A turn has its time in the run as it is."""
        if self.best.turns:
            return
        for _ in range(4):
            plan = self.best.plan or ()
            first = min((fault.t_s for fault in plan), default=0.0)
            if first < 0.5 or not self._moved([fault.t_s - first / 2 for fault in plan]):
                break
        for at in range(1, len(self.best.plan or ())):
            plan = self.best.plan or ()
            gap = plan[at].t_s - plan[at - 1].t_s
            if gap >= 1:
                self._moved([fault.t_s - (gap / 2 if number >= at else 0) for number, fault in enumerate(plan)])
        ends = [fault.t_s + fault.args.get("for_s", 0) for fault in self.best.plan or ()]
        for duration_s in _shorter(self.best.duration_s, max(ends, default=0)):
            if self.so(duration_s=duration_s):
                break

    def _moved(self, times: Sequence[float]) -> bool:
        """Whether it fails with the faults at other times."""
        plan = tuple(replace(fault, t_s=round(t_s, 1)) for fault, t_s in zip(self.best.plan or (), times, strict=True))
        return self.so(plan=plan)

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


def rounded(fault: Fault) -> Iterator[Fault]:
    """Variants of a fault whose numbers have fewer digits, the roundest first."""
    for digits in (0, 1):
        args = {
            name: round(value, digits) if isinstance(value, float) and round(value, digits) > 0 else value
            for name, value in fault.args.items()
        }
        rounded = replace(fault, t_s=float(round(fault.t_s, digits)), args=args)
        if rounded != fault:
            yield rounded


def _shorter(now_s: float, needed_s: float) -> Iterable[float]:
    """The shortest first: when the last fault is over, some seconds more."""
    least = max(1, math.ceil(needed_s))
    return [float(s) for s in dict.fromkeys((least, least + 1, least + 3, least + 7, now_s // 2)) if s < now_s]


def _quickly(case: Case) -> CaseOutcome:
    return run(case, quick=True)


def shrink(
    case: Case, failure: str, *, budget: int = BUDGET, attempt: Callable[[Case], CaseOutcome] = _quickly
) -> Shrunk:
    """The smallest case found that still fails with the line ``failure``; it is the given one where nothing smaller does."""
    case = settled(case)
    work = _CaseShrinker(case, failure, budget, attempt)
    before, done = len(case.plan or ()), True
    try:
        work.go()
    except BudgetSpent:
        done = False
    outcome = work.outcome or attempt(case)
    return Shrunk(outcome, before, work.runs, done)

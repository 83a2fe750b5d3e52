"""From a rare moment many futures are followed for the price of one beginning: the world is forked there (`virtual.forking`).

    follow = Follow()                       # one for a sweep's worker: it knows which moments there have been
    outcome = run(case, follow=follow)
    outcome.futures                         # what came of each; its case is the whole of it, for `--replay`, too

Rules:
1. A moment is rare by what is open in it (`coverage.OPEN`: a rebalance, a transaction that is prepared and not complete, a partition
   that is not released, a log that loads, ...) and by the faults that are on meanwhile. The first of its kind is followed,
   and those that come after it are not.
2. A run is forked at most ``most`` times, into ``branches`` futures each, in its safety phase alone; a future is not forked again.
3. A future is a case with one more turn (`turns`), and nothing else: run from the beginning it is the same run, to the hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.virtual.forking import CPU_S, Fork, Gone, why_not

if TYPE_CHECKING:
    from broker_sim.simulation.sweeps.coverage import Coverage
    from broker_sim.simulation.sweeps.trial import Case, CaseOutcome
    from broker_sim.simulation.sweeps.turns import Turned
    from broker_sim.simulation.world import Simulation

__all__ = ["Follow", "Followed"]

_SILENT_S = 120.0
"""Real seconds after which a future without a result is given up."""


@dataclass(slots=True)
class Follow:
    """Policy for the moments from which more than one future is run. ``known``: moments that have been followed, by kind. ``at``:
    follow these (`Turn.at_s`) and no others."""

    branches: int = 3
    most: int = 2
    known: Counter[str] = field(default_factory=Counter)
    at: tuple[float, ...] | None = None


class Followed:
    """One run under this policy, and in a forked process the future of it. ``case`` is settled; ``future_of(case, at_s, branch)``: the
    case of a future."""

    def __init__(self, follow: Follow, case: Case, future_of: Callable[[Case, float, int], Case]) -> None:
        self._follow, self._case, self._future_of = follow, case, future_of
        self._left = follow.most
        self._futures: list[Any] = []
        self._fork: Fork | None = None  # of which this process is the child
        self._not_before_s = max((turn.at_s for turn in case.turns), default=-1.0)
        self._asked_s: float | None = None
        self._sim: Simulation
        self._turned: Turned

    def begins(self, sim: Simulation, turned: Turned, coverage: Coverage) -> None:
        """The plan is at work."""
        self._sim, self._turned = sim, turned
        if why_not(sim.loop):
            return
        if self._follow.at is None:
            coverage.opened = self._opened
        else:
            for at_s in self._follow.at:
                sim.loop.pause(turned.at(at_s), lambda at_s=at_s: self._part(at_s))  # type: ignore[misc]

    def _opened(self, what: str, faults: str) -> None:
        """Something is open now. Looked at in every step of it: cheap where it is known."""
        now_s, key = self._turned.now_s, f"{what} | {faults}"
        known = self._follow.known
        if self._left <= 0 or self._asked_s is not None or key in known or self._fork is not None:
            return
        if not self._not_before_s < now_s < self._case.duration_s:
            return
        known[key] += 1
        self._asked_s, self._left = now_s, self._left - 1
        self._sim.loop.pause(self._turned.at(now_s), lambda: self._part(now_s))

    def _part(self, at_s: float) -> None:
        """Fork the futures of this moment; everything due up to now has been done."""
        self._asked_s = None
        if self._fork is not None or why_not(self._sim.loop):
            return
        for branch in range(self._follow.branches):
            case = self._future_of(self._case, at_s, branch)
            fork = Fork(self._sim.loop)
            if fork.child:
                self._fork, self._case, self._futures = fork, case, []
                self._turned.take(case.turns[-1])
                return
            try:
                self._futures.append(fork.wait(_SILENT_S))
            except Gone as error:
                self._futures.append((case, str(error)))

    def ends(self, outcome: CaseOutcome) -> None:
        """The run is over and its world still there. Of a future this is the end of the process."""
        if self._fork is not None:
            outcome.case, outcome.cpu_s = self._case, CPU_S()
            self._fork.end(outcome)
        for future in self._futures:
            if isinstance(future, tuple):
                case, why = future
                future = type(outcome)(case, failure="a future that tells nothing", text=why)
            outcome.futures.append(future)

    def leaves(self) -> None:
        """End the process of a forked future, whatever has been raised: it must not run its parent's further work."""
        if self._fork is not None:
            self._fork.end(None)

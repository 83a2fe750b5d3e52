"""Turns of a world away from what its seed has drawn: from that moment on it has other faults, and other randomness.

    case = replace(case, turns=(Branch(4.25, 2),))        # the third future of what it was after 4.25 s
    turned = Turned(sim, settled(case), injection, notify) # takes each turn when time has come to it

Rules:
1. A turn is taken when all is done that was to be done up to its time, and nothing later has begun: a process that is forked there
   (`forking`) and a run from the beginning take it at the same point, and are the same run from there, to the hash.
2. Faults that have begun go on; of those to come none comes, but the turn's own.
3. What the connections and tasks that there are draw from now on, and those to come, is drawn from the seed and the path of turns.
4. Checks that depend on the plan get the new plan when the turn is taken, and not before, so that a fork and a run from the beginning
   have the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError
from broker_sim.simulation.faults.kinds import Fault, FaultPlan, Injection, from_json, to_json
from broker_sim.simulation.faults.swarm import Targets, draw

if TYPE_CHECKING:
    from broker_sim.simulation.sweeps.trial import Case
    from broker_sim.simulation.world import Simulation

__all__ = ["Branch", "Turned", "drawn", "flat", "path_of", "turn_from"]

_SOON_S = 3.0
"""Every other future has its faults within that time: they are to meet what makes the moment rare."""


@dataclass(frozen=True, slots=True)
class Branch:
    """``at_s``: virtual seconds after the plan began; ``branch``: which of the futures, from 0; ``plan``: its faults, at times as
    those of the case's own; None: those that the seed and the path draw."""

    at_s: float
    branch: int
    plan: tuple[Fault, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `turn_from` is the way back."""
        return {"at_s": self.at_s, "branch": self.branch, "plan": None if self.plan is None else to_json(self.plan)}


def turn_from(value: object) -> Branch:
    """The turn of `Branch.to_dict`. Raises UsageError."""
    if not isinstance(value, Mapping) or not isinstance(value.get("at_s"), int | float):
        raise UsageError("a turn has at_s, branch and plan")
    plan = value.get("plan")
    return Branch(float(value["at_s"]), int(value.get("branch", 0)), None if plan is None else tuple(from_json(plan)))


def path_of(turns: tuple[Branch, ...]) -> str:
    """Text of the turns that a world has taken, a part of the seed for everything drawn from then on."""
    return "/".join(f"{turn.at_s!r}:{turn.branch}" for turn in turns)


def drawn(seed: object, turns: tuple[Branch, ...], duration_s: float, targets: Targets) -> tuple[Fault, ...]:
    """The faults of the last of these turns."""
    last, name = turns[-1], f"{seed}/turn/{path_of(turns)}"
    rest_s = max(0.0, duration_s - last.at_s)
    soon_s = min(rest_s, _SOON_S / targets.pace)
    plan: FaultPlan = []
    for number in range(4):  # a swarm may draw none at all
        if not plan:
            plan = draw(f"{name}/{number}", rest_s if last.branch % 2 else soon_s, targets)
    return tuple(replace(fault, t_s=round(fault.t_s + last.at_s, 3)) for fault in plan)


def flat(case: Case) -> Case:
    """The case, settled, with the faults of all its turns in one plan, and no turn: the same faults at the same times, but chance
    goes on as it was. So it may be another run."""
    plan = case.plan or ()
    for turn in case.turns:
        plan = (*(fault for fault in plan if fault.t_s <= turn.at_s), *(turn.plan or ()))
    return replace(case, plan=plan, turns=())


class Turned:
    """The turns of a run, each with its plan. ``notify``: called at each turn with all faults of the run from then on, past and
    future ones."""

    def __init__(
        self, sim: Simulation, case: Case, injection: Injection, notify: Callable[[tuple[Fault, ...]], object]
    ) -> None:
        self._sim, self._case, self._injection, self._notify = sim, case, injection, notify
        self._began = sim.loop.time()
        self.taken: tuple[Branch, ...] = ()
        for turn in case.turns:
            sim.loop.pause(self._began + turn.at_s, lambda turn=turn: self.take(turn))  # type: ignore[misc]

    @property
    def now_s(self) -> float:
        """Virtual seconds since the plan began, as turns have them."""
        return self._sim.loop.time() - self._began

    def at(self, at_s: float) -> float:
        """The loop's time of a branch, in seconds."""
        return self._began + at_s

    def take(self, turn: Branch) -> None:
        """Part from what was to come."""
        self.taken = (*self.taken, turn)
        self._injection.instead(turn.plan or ())
        self._notify(flat(replace(self._case, turns=self.taken)).plan or ())
        seed = f"{self._case.seed}/turn/{path_of(self.taken)}"
        self._sim.network.draw_anew(seed)
        self._sim.loop.draw_anew(seed)

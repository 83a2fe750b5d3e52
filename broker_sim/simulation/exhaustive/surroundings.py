"""Environment of the clients of every small world: the log, and the time."""

from __future__ import annotations

from typing import Any, NoReturn

from broker_sim.coordinator.outcome import TimerKey
from broker_sim.simulation.exhaustive.explorer import Action, Broken
from broker_sim.simulation.exhaustive.shard_environment import ShardEnvironment
from kafka_wire.errors import Err

__all__ = ["Surroundings"]


class Surroundings:
    """The part of a small world outside of its clients: log, time, topics. ``faults``: whether its log may fail. An action that is
    not a client's calls the method of its first word with a ``_`` before it, and the other words as arguments."""

    environment: ShardEnvironment[Any]

    def __init__(self, *, faults: bool) -> None:
        self.faults = faults
        self.trace: list[str] = []
        self._watched = True

    def around(self) -> list[Action]:
        """Possible actions of the log and its faults, and the next timer."""
        environment = self.environment
        actions: list[Action] = [("time",)] if environment.timers else []
        if not self.faults:
            return actions
        if environment.held:
            return [*actions, ("heal",), ("move", "cut"), ("move", "all")]
        refuses: list[Action] = [("refuse",)] if environment.refusing is None else []
        return [*actions, ("stick",), *refuses, ("move", "all")]

    def happen(self, action: Action) -> None:
        """Let one of these happen."""
        getattr(self, f"_{action[0]}")(*action[1:])

    def _time(self) -> None:
        key = self.environment.fire()
        self._trace(f"time passes: {' '.join(map(str, key))}")
        self._fired(key)

    def _fired(self, key: TimerKey) -> None:
        """Called after a timer has fired."""

    def _stick(self) -> None:
        self.environment.held = True
        self._trace("the log is stuck: nothing is committed")

    def _refuse(self) -> None:
        self.environment.refusing = Err.NOT_ENOUGH_REPLICAS
        self._trace("the log will refuse the next append")

    def _heal(self) -> None:
        self._trace("the log continues")
        self.environment.heal()

    def _move(self, what: str) -> None:
        self._trace("the coordinator moves" + (", to a replica with what was committed" if what == "cut" else ""))
        self.environment.move(cut=what == "cut")

    def _trace(self, what: str) -> None:
        self.trace.append(what)

    def _fail(self, rule: str, what: str) -> NoReturn:
        raise Broken(rule, what)

"""A workload of raw protocol clients: the members of a group, with or without the hostile client.

The world of `aiokafka_workload` in a tenth of Kafka's times and without aiokafka: what goes wrong comes from the plan alone, so it can
be shrunk. Without a journal the brokers take their short ways, and what clients are answered is checked where they hear it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.checks.answers import Answers
from broker_sim.simulation.checks.invariants import Invariants
from broker_sim.simulation.checks.liveness import NotAlive
from broker_sim.simulation.workloads.cooperative import Cooperative
from broker_sim.simulation.workloads.hostile import Hostile, read_twice
from broker_sim.simulation.workloads.raw import (
    CONFIG,
    GROUP,
    HEALING_S,
    PATIENCE_S,
    Member,
    RawContext,
    UncheckedAnswers,
)

if TYPE_CHECKING:
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.faults.kinds import Fault, Injection
    from broker_sim.simulation.sweeps.trial import Case
    from broker_sim.simulation.workloads.aiokafka_workload import InvariantWatch
    from broker_sim.simulation.workloads.catalogue import Workload
    from broker_sim.simulation.workloads.deeds import Deed
    from broker_sim.simulation.world import Simulation

__all__ = ["LATE", "NETWORK", "WireWorkload"]

_LOOK_S = 0.5
_QUIET_S = 2.0
_OVERDUE_S = 1.0

NETWORK = {"cut", "link", "pause", "crash", "restart", "reset", "rule"}
LATE = ("deferred requests are answered",)
"""Invariants that faults of the network break: the client sees a response late because of its way."""

_STATIC = 0.3
"""Probability that the last member is a static one."""


def _waived(watch: InvariantWatch, plan: Iterable[Fault]) -> frozenset[str]:
    return watch.waive.union(LATE if any(fault.kind in NETWORK for fault in plan) else ())


class WireWorkload:
    """The workload of a classic group of raw clients: its cluster, members, hostile client and checks."""

    def __init__(self, sim: Simulation, case: Case, workload: Workload, watch: InvariantWatch) -> None:
        self.sim, self.watch = sim, watch
        self.kafka: SimCluster = sim.cluster(
            workload.brokers, dict(workload.topics), journal=case.journal is not False, as_version=case.release,
            config={**CONFIG, "offsets.topic.replication.factor": 3, "default.replication.factor": 3, **workload.config},
        )  # fmt: skip
        self.kafka.state.ensure_offsets_topic()
        waive = _waived(watch, case.plan or ())
        kind: type[Answers] = (
            UncheckedAnswers if self.kafka.observed else Answers
        )  # a journal hears what clients hear, and more
        self.answers = kind(self.kafka.state, lambda: sim.elapsed_s, watch.breach, waive=waive)
        self.invariants = Invariants(self.kafka, watch.breach, waive=watch.waive) if self.kafka.observed else None
        self.context = RawContext(sim, self.kafka, self.answers, only=case.deeds)
        dice = random.Random(f"{case.seed}/rough")
        static = dice.random() < _STATIC and not workload.cooperative
        count = min(workload.members, case.members or workload.members)
        make = Cooperative if workload.cooperative else Member
        self.members: list[Member] = [
            make(self.context, f"c{number}", "fixed" if static and number == count else None)
            for number in range(1, count + 1)
            if f"c{number}" not in case.absent
        ]
        for name in case.absent:
            sim.host(name)
        for member in self.members:
            sim.host(member.name).spawn(member.run)
        self.hostile = Hostile(self.context, "hostile") if workload.hostile and "hostile" not in case.absent else None
        if self.hostile is not None:
            sim.host("hostile").spawn(self.hostile.run)
        self._look_later()

    def _look_later(self) -> None:
        def look() -> None:
            if not self.context.settled:
                self.answers.overdue()
                self._look_later()

        self.sim.loop.call_later(_OVERDUE_S, look)

    @property
    def waived(self) -> Counter[str]:
        """Breaches of invariants that are waived."""
        return self.answers.waived if self.invariants is None else self.invariants.answers.waived

    @property
    def done(self) -> list[Deed]:
        """The deeds of clients that draw them."""
        return self.context.deeds.done

    def turns(self, plan: tuple[Fault, ...]) -> None:
        """Waive the invariants that these faults may break."""
        self.answers.waive = _waived(self.watch, plan)
        if self.invariants is not None:
            self.invariants.answers.waive = self.watch.waive

    def hangs(self) -> dict[str, Callable[[float], object]]:
        """Applications that can hang, none: clients fall silent in other ways."""
        return {}

    def finish(self) -> None:
        """The hostile client has ended."""
        if self.hostile is not None:
            self.hostile.over = True
            self.sim.crash("hostile", reset=True)
            self.hostile.forget()

    def settle(self, injection: Injection) -> float:
        """Wait until all members are in one generation and stay there; then read what is committed, before and after a move.
        Returns the virtual seconds that the first took. Raises NotAlive, InvariantBroken."""
        sim, began_s = self.sim, self.sim.elapsed_s
        limit_s = began_s + HEALING_S + 3 * PATIENCE_S
        quiet_s, before = sim.elapsed_s, self._beats()
        while sim.elapsed_s - quiet_s < _QUIET_S:
            sim.run_for(_LOOK_S)
            self.watch.check()
            beats = self._beats()
            generations = {member.generation for member in self.members}
            if len(generations) > 1 or any(now == then for now, then in zip(beats, before, strict=True)):
                quiet_s = sim.elapsed_s
                if quiet_s > limit_s:
                    raise self._not_alive(limit_s - began_s)
            before = beats
        took_s = quiet_s - began_s
        partition = self.answers.partition(GROUP)
        assert partition is not None
        self.context.settled, self.watch.stops = True, False
        sim.run(read_twice(self.context, partition), within=30)
        self.watch.check()
        if self.invariants is not None:
            self.invariants.finish()
        self.watch.check()
        return took_s

    def _beats(self) -> list[int]:
        return [member.beats for member in self.members]

    def _not_alive(self, within_s: float) -> NotAlive:
        lines: list[Any] = [f"{within_s:g} s after everything was healed:"]
        lines += [
            f"  {m.name} {m.member or '-'}, generation {m.generation}, {m.beats} Heartbeats" for m in self.members
        ]
        heard = self.answers if self.invariants is None else self.invariants.answers
        lines += ["", *(f"  {ask}" for ask in heard.history(GROUP))]
        error = NotAlive("\n".join(map(str, lines)))
        error.lacking = "members"
        return error

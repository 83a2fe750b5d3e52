"""A cluster whose configuration the seed draws, and the probers on it: a world of a sweep, as `Stage` and `Rough` are.

The brokers' number, replication, how often logs are looked at, how much is remembered: all of it is drawn from the case's seed and from
nothing else. After the healing the probers go on for a while: then every answer must be exact.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.checks.leaders import Leaders
from broker_sim.simulation.workloads.probing.groups import GroupProber
from broker_sim.simulation.workloads.probing.lives import MemberProber
from broker_sim.simulation.workloads.probing.prober import Calm, Prober
from broker_sim.simulation.workloads.probing.reading import (
    INITIAL_DELAY,
    INITIAL_DELAY_MS,
    INITIAL_DELAY_SINCE,
    ReadingProber,
)
from broker_sim.simulation.workloads.probing.topics import TopicProber
from broker_sim.simulation.workloads.probing.transactions import TransactionProber
from broker_sim.simulation.workloads.raw import RawContext, UncheckedAnswers
from kafka_wire.api_keys import release

if TYPE_CHECKING:
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.faults.kinds import Fault, Injection
    from broker_sim.simulation.sweeps.trial import Case
    from broker_sim.simulation.workloads.aiokafka_workload import InvariantWatch
    from broker_sim.simulation.workloads.catalogue import Workload
    from broker_sim.simulation.workloads.deeds import Deed
    from broker_sim.simulation.world import Simulation

__all__ = ["Probing"]

_LOOK_S = 0.25
_SETTLING_S = 8.0
"""So long they go on when all is healed: first what was in doubt is settled."""

_KINDS: dict[str, type[Prober]] = {
    "groups": GroupProber,
    "lives": MemberProber,
    "logs": ReadingProber,
    "topics": TopicProber,
    "transactions": TransactionProber,
}


def _drawn_config(dice: random.Random, as_version: str) -> dict[str, object]:
    config: dict[str, object] = {
        "log.retention.check.interval.ms": dice.choice((500, 1000)),
        "offsets.topic.num.partitions": dice.choice((1, 5, 50)),
        "group.initial.rebalance.delay.ms": dice.choice((0, 100, 400)),
        "group.min.session.timeout.ms": 500,
        "offsets.commit.timeout.ms": 2000,
        "auto.create.topics.enable": dice.random() < 0.5,
    }
    if release(as_version) >= INITIAL_DELAY_SINCE:
        config[INITIAL_DELAY] = dice.choice((0, 1000, INITIAL_DELAY_MS))
    return config


class Probing:
    """The workload of probers: a cluster whose configuration the seed draws, and the probers on it."""

    def __init__(self, sim: Simulation, case: Case, workload: Workload, watch: InvariantWatch) -> None:
        self.sim, self.watch = sim, watch
        dice = random.Random(f"{case.seed}/probing")
        factor = dice.randint(1, min(3, workload.brokers))
        replication = {"default.replication.factor": factor, "offsets.topic.replication.factor": factor}
        self.kafka: SimCluster = sim.cluster(
            workload.brokers, dict(workload.topics), journal=case.journal is not False, as_version=case.release,
            config={**replication, **_drawn_config(dice, case.release), **workload.config},
            disk=bool(workload.disk), sync=workload.disk == "synced",
        )  # fmt: skip
        self.kafka.on_loss = watch.breach
        self.kafka.state.ensure_offsets_topic()
        unheard = UncheckedAnswers(self.kafka.state, lambda: sim.elapsed_s, lambda error: None)
        self.context = RawContext(sim, self.kafka, unheard, only=case.deeds)
        began_s = sim.elapsed_s
        self.calm = Calm(case.plan or (), lambda: sim.elapsed_s - began_s)
        self.leaders = Leaders(lambda: None if self.kafka.dead else self.kafka.state, watch.breach)
        self.probers: list[Prober] = []
        for number, kind in enumerate(workload.probers[: case.members or len(workload.probers)], 1):
            if f"c{number}" in case.absent:
                sim.host(f"c{number}")
                continue
            prober = _KINDS[kind](self.context, f"c{number}", self.calm, watch.breach)
            self.probers.append(prober)
            sim.host(prober.name).spawn(prober.run)
        self._look_later()

    def _look_later(self) -> None:
        def look() -> None:
            if not self.context.settled:
                self.leaders.look()
                self._look_later()

        self.sim.loop.call_later(_LOOK_S, look)

    @property
    def waived(self) -> Counter[str]:
        """Nothing is: what a plan explains is not asked for."""
        return Counter()

    @property
    def done(self) -> list[Deed]:
        """The deeds of clients that draw them."""
        return self.context.deeds.done

    def turns(self, plan: tuple[Fault, ...]) -> None:
        """Calm is what these faults leave."""
        self.calm.plan(plan)

    def hangs(self) -> Mapping[str, Callable[[float], object]]:
        """Empty: probers have no application that could hang."""
        return {}

    def finish(self) -> None:
        """Nothing more is broken than what is."""

    def settle(self, injection: Injection) -> float:
        """Let them go on, now that nothing is wrong. Returns the virtual seconds. Raises InvariantBroken."""
        self.calm.healed()
        self.sim.run_for(_SETTLING_S)
        self.watch.check()
        for prober in self.probers:
            prober.over = True
        self.context.settled = True
        return _SETTLING_S

    def checked_by_prober(self) -> dict[str, Any]:
        """For who wants to know how much was looked at."""
        return {prober.name: prober.checked for prober in self.probers}

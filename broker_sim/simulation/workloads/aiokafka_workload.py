"""A workload of aiokafka clients at work: its cluster, its programs, what must hold in its safety and in its liveness phase."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any

from broker_sim.simulation.checks.invariants import InvariantBroken, Invariants
from broker_sim.simulation.checks.ledger import DeliveryLedger
from broker_sim.simulation.checks.liveness import ExpectedGroup, bound_s, converge, safe
from broker_sim.simulation.workloads.admin import Admin
from broker_sim.simulation.workloads.catalogue import REBALANCE_S, REQUEST_S, SESSION_S, GroupSpec, Workload
from broker_sim.simulation.workloads.hostile import Hostile
from broker_sim.simulation.workloads.programs import Consumer, Producer
from broker_sim.simulation.workloads.raw import RawContext, UncheckedAnswers

if TYPE_CHECKING:
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.faults.kinds import Fault, Injection
    from broker_sim.simulation.sweeps.trial import Case
    from broker_sim.simulation.workloads.deeds import Deed
    from broker_sim.simulation.world import Simulation

__all__ = ["AiokafkaWorkload", "InvariantWatch", "consumer_options", "through"]

_REST_S = 5.0
"""An application without records commits its position after that time."""

_METADATA_S = 10.0
"""Age at which clients ask for metadata again."""

_NOTED_S = 0.3
"""So often the hostile client looks who is there."""


class InvariantWatch:
    """Breaches of invariants in a run: the first one ends it. ``waive``: invariants whose breaches are counted, and end nothing."""

    def __init__(self, sim: Simulation, waive: Collection[str] = ()) -> None:
        self.sim, self.waive = sim, frozenset(waive)
        self.waived: Counter[str] = Counter()
        self.broken: InvariantBroken | None = None
        self.stops = True
        """Whether a breach ends what runs."""

    def breach(self, error: InvariantBroken) -> None:
        """Note a broken invariant; the first one ends the run, unless it is waived."""
        if error.name in self.waive:
            self.waived[error.name] += 1
        elif self.broken is None:
            self.broken = error
            if self.stops and self.sim.loop.is_running():
                self.sim.loop.stop()

    def check(self) -> None:
        """Raise InvariantBroken where one is."""
        if self.broken is not None:
            raise self.broken


class AiokafkaWorkload:
    """See the module. ``case.journal`` False leaves the brokers unwatched, on their short ways, until a fault needs the journal."""

    def __init__(self, sim: Simulation, case: Case, workload: Workload, watch: InvariantWatch) -> None:
        self.sim, self.case, self.workload, self.watch = sim, case, workload, watch
        factor = min(3, workload.brokers)
        replication = {"default.replication.factor": factor, "offsets.topic.replication.factor": factor}
        self.kafka: SimCluster = sim.cluster(
            brokers=workload.brokers, topics=dict(workload.topics), as_version=case.release, journal=case.journal is not False,
            config={**replication, **workload.config}, disk=bool(workload.disk), sync=workload.disk == "synced",
        )  # fmt: skip
        self.kafka.on_loss = watch.breach
        self.kafka.state.ensure_offsets_topic()
        self.ledger = DeliveryLedger(watch.breach)
        self.invariants = (
            Invariants(self.kafka, watch.breach, waive=watch.waive, ledger=self.ledger) if self.kafka.observed else None
        )
        self.consumers: list[Consumer] = []
        self._teams: dict[str, int] = {}
        """Members of each group."""
        self._seats = 0
        for name in case.absent:
            sim.host(name)
        self._contexts: list[RawContext] = []
        for team in workload.teams:
            self._start_team(team, min(team.members, case.members or team.members))
        self.producers = [
            self._producer(number, topic)
            for number, topic in enumerate(workload.produced, 1)
            if f"p{number}" not in case.absent
        ]
        self._over: list[Admin | Hostile] = []
        if workload.admin and "admin" not in case.absent:
            admin = Admin(self._context("admin"), workload)
            sim.host("admin").spawn(admin.run)
            self._over.append(admin)
        if workload.hostile and "hostile" not in case.absent:
            self._start_hostile()

    # --- who is there

    def _start_team(self, team: GroupSpec, count: int) -> None:
        pattern = None if team.pattern is None else re.compile(team.pattern)
        for topic in self.workload.topics:
            if topic in team.topics or (pattern is not None and pattern.match(topic)):
                self.ledger.reads(team.group, topic)
        for number in range(count):
            self._seats += 1
            host = self.sim.host(f"c{self._seats}")
            if host.name in self.case.absent:
                continue
            self._teams[team.group] = self._teams.get(team.group, 0) + 1
            mine = [] if not team.assigned else self._share(team, number, count)
            consumer = Consumer(
                self.sim, host, self.kafka.bootstrap, team.group, team.topics, team.work_s, team.commit_every_s,
                consumer_options(team, host.name), pattern=team.pattern, assigned=mine, gave=self.ledger.gave,
                rest_s=_REST_S,
            )  # fmt: skip
            host.spawn(through(consumer.run))
            self.consumers.append(consumer)

    def _share(self, team: GroupSpec, number: int, count: int) -> list[tuple[str, int]]:
        every = [(topic, index) for topic in team.topics for index in range(self.workload.topics[topic])]
        return every[number::count]

    def _producer(self, number: int, topic: str) -> Producer:
        host = self.sim.host(f"p{number}")
        options = {"request_timeout_ms": round(REQUEST_S * 1000), "metadata_max_age_ms": round(_METADATA_S * 1000)}
        if self.workload.idempotent:
            options["enable_idempotence"] = True
        producer = Producer(self.sim, host, self.kafka.bootstrap, topic, self.workload.every_s, options=options)
        host.spawn(through(producer.run))
        return producer

    def _context(self, name: str) -> RawContext:
        """For clients that speak the protocol themselves; what they hear the journal checks."""
        unheard = UncheckedAnswers(self.kafka.state, lambda: self.sim.elapsed_s, lambda error: None)
        partitions = self.workload.topics.get("orders", 1)
        self._contexts.append(RawContext(self.sim, self.kafka, unheard, partitions, guest=True, only=self.case.deeds))
        return self._contexts[-1]

    def _start_hostile(self) -> None:
        context = self._context("hostile")
        hostile = Hostile(context, "hostile")
        self._over.append(hostile)

        async def look() -> None:
            while not hostile.over:
                for member_id, instance, generation in self._present():
                    context.note(member_id, instance, generation)
                await asyncio.sleep(_NOTED_S)

        async def live() -> None:
            await asyncio.gather(hostile.run(), look())

        for task in (look, live):  # the order of tasks is drawn by their names: a recorded seed has these
            task.__qualname__ = f"Stage._start_hostile.<locals>.{task.__name__}"
        self.sim.host("hostile").spawn(live)

    def _present(self) -> list[tuple[str, str | None, int]]:
        """The members of the first group, as its coordinator knows them."""
        name = self.workload.teams[0].group
        partition = self.kafka.runtime.partition_of(name)
        shard = None if partition is None else self.kafka.runtime.shard(partition.index)
        group = None if shard is None else shard.classic(name)
        if group is None:
            return []
        return [(member.member_id, member.instance_id, group.generation) for member in group.members.values()]

    @property
    def waived(self) -> Counter[str]:
        """Breaches of invariants that are waived."""
        return Counter() if self.invariants is None else self.invariants.answers.waived

    @property
    def done(self) -> list[Deed]:
        """The deeds of clients that draw them."""
        return [deed for context in self._contexts for deed in context.deeds.done]

    # --- the two phases

    def turns(self, plan: tuple[Fault, ...]) -> None:
        """Waive the invariants that the watch waives for these faults."""
        if self.invariants is not None:
            self.invariants.answers.waive = self.watch.waive

    def hangs(self) -> dict[str, Callable[[float], object]]:
        """Function for each client's host that lets the application hang for so many seconds."""

        def hang(consumer: Consumer) -> Callable[[float], object]:
            return lambda hang_s: setattr(consumer, "hang_s", hang_s)

        return {member.host.name: hang(member) for member in self.consumers}

    def finish(self) -> None:
        """Only pending records are still produced; clients that break rules or topics have ended."""
        for producer in self.producers:
            producer.count = producer.sent + 1
        for consumer in self._over:
            consumer.over = True
            self.sim.crash(consumer.name, reset=True)

    def settle(self, injection: Injection) -> float:
        """All is healed: wait until everything is well. Returns the virtual seconds that it took. Raises NotAlive, Unsafe,
        InvariantBroken."""
        workload = self.workload
        work_s = max(team.work_s for team in workload.teams)
        within_s = bound_s(session_s=SESSION_S, rebalance_s=REBALANCE_S, request_s=REQUEST_S, work_s=work_s)
        within_s += max((f.args["hang_s"] for f in injection.begun if f.kind == "hang"), default=0.0)
        within_s += 2 * _METADATA_S * (workload.admin + workload.hostile)
        took_s = converge(self.sim, self.kafka, self._expected(), within_s, self._unfinished)
        if self.invariants is not None:
            self.invariants.finish()
        self.watch.check()
        safe(self.consumers, self.producers, self.kafka)
        return took_s

    def _expected(self) -> list[ExpectedGroup]:
        groups = []
        for team in self.workload.teams:
            there = self._teams.get(team.group, 0)
            if not there:
                continue
            members = 0 if team.assigned else there
            groups.append(ExpectedGroup(team.group, members, team.topics, None if team.assigned else "Stable"))
        return groups

    def _unfinished(self) -> str | None:
        self.watch.check()
        for producer in self.producers:
            missing = (producer.count or 0) - producer.sent
            if missing > 0:
                last = producer.failures[-1:] or [""]
                return f"{missing} records were never acknowledged to the producer {last[0]}"
        return None


def consumer_options(team: GroupSpec, name: str) -> dict[str, Any]:
    """An aiokafka consumer's, for a member of a team on the host of that name."""
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    options = {
        "session_timeout_ms": round(SESSION_S * 1000),
        "max_poll_interval_ms": round(REBALANCE_S * 1000),
        "rebalance_timeout_ms": round(REBALANCE_S * 1000),
        "request_timeout_ms": round(REQUEST_S * 1000),
        "metadata_max_age_ms": round(_METADATA_S * 1000),
        "partition_assignment_strategy": [assignors[team.strategy]],
    }
    return {**options, "group_instance_id": name} if team.static else options


def through(program: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], Coroutine[Any, Any, None]]:
    """A program that restarts when its client's ``stop()`` raises CancelledError without a cancellation: aiokafka 0.14's does if it was
    about to rejoin or to fetch again."""

    async def run_through() -> None:
        while True:
            try:
                return await program()
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
            await asyncio.sleep(1)

    return run_through

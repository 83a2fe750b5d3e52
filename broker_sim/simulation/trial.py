"""One run of a sweep: a workload, a fault plan, the healing, what must hold then. A `Case` is all of it as data, and the same case is
the same run.

    outcome = run(Case("group", seed=7))
    outcome.failure         # None, or what went wrong, in a line that two runs with the same cause share

A case without a plan has its seed draw one. A failure is kept with its plan: a bare seed means nothing under another version.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_sim.journal.files import plain
from broker_sim.simulation.faults import Fault, FaultPlan, Injection, from_json, inject, to_json
from broker_sim.simulation.invariants import InvariantBroken, Invariants
from broker_sim.simulation.liveness import Expected, NotAlive, Unsafe, bound_s, converge, safe
from broker_sim.simulation.network import Link
from broker_sim.simulation.swarm import Targets, draw
from broker_sim.simulation.workloads import Consumer, Producer
from broker_sim.simulation.world import Simulation, simulate
from broker_sim.words import UsageError, unknown

if TYPE_CHECKING:
    from broker_sim.simulation.cluster import SimCluster

__all__ = ["WORKLOADS", "Case", "Outcome", "Workload", "case_from", "plan_of", "run"]

SESSION_S, REBALANCE_S, REQUEST_S = 10.0, 20.0, 12.0
"""The clients' timeouts: short ones, so that thirty seconds hold a life."""

_GROUP, _TOPIC = "billing", "orders"

_WAIVED = ("parked requests are answered", "member ids are never reused")
"""Invariants that a plan breaks rightly: rules hang requests; a static member has its old id again if the new one can't be stored."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Who works on what. ``static``: the consumers have instance ids; ``commit_every_s``: they leave the commit to auto-commit."""

    name: str
    story: str
    brokers: int = 3
    partitions: int = 6
    members: int = 3
    every_s: float = 0.4
    work_s: float = 0.0
    commit_every_s: float | None = None
    static: bool = False
    strategy: str = "range"
    replication: int = 3


WORKLOADS: dict[str, Workload] = {
    each.name: each
    for each in (
        Workload("group", "three consumers that commit after each batch, three brokers"),
        Workload("alone", "the same on one broker", brokers=1, replication=1),
        Workload("auto", "consumers that leave the commit to auto-commit", commit_every_s=2.0),
        Workload("static", "static members, which come back to what they had", static=True),
        Workload("sticky", "five consumers, sticky assignor, slow work", members=5, work_s=0.3, strategy="sticky", partitions=8),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A run as data. ``members``, ``as_version``, ``order``, ``plan``: None leaves them to the workload and to the seed. ``calm``: no
    jitter, no chunks."""

    workload: str
    seed: int
    duration_s: float = 30.0
    members: int | None = None
    as_version: str | None = None
    order: str | None = None
    calm: bool = False
    plan: tuple[Fault, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `case_from` is the way back."""
        told = {name: getattr(self, name) for name in self.__slots__ if name != "plan"}
        return {**told, "plan": None if self.plan is None else to_json(self.plan)}


def case_from(value: Mapping[str, Any]) -> Case:
    """The case of `Case.to_dict`; more keys may stand beside. Raises UsageError."""
    try:
        given = {name: value[name] for name in Case.__slots__ if name in value and name != "plan"}
        plan = value.get("plan")
        case = Case(**given, plan=None if plan is None else tuple(from_json(plan)))
    except TypeError as error:
        raise UsageError(f"no case of a sweep: {error}") from None
    if case.workload not in WORKLOADS:
        raise unknown("workload", case.workload, WORKLOADS)
    return case


@dataclass(slots=True)
class Outcome:
    """What came of a run. ``failure``: its kind in a line; ``text``: all there is to tell. ``events``: of the journal, if asked for."""

    case: Case
    failure: str | None = None
    text: str = ""
    begun: int = 0
    virtual_s: float = 0.0
    healed_s: float = 0.0
    cpu_s: float = 0.0
    steps: int = 0
    journal_hash: str = ""
    schedule_hash: str = ""
    events: list[str] = field(default_factory=list)


# --- a workload at work --------------------------------------------------------------------------------------------------


class _World:
    """A workload's cluster and programs."""

    def __init__(self, sim: Simulation, case: Case, workload: Workload) -> None:
        self.sim, self.workload = sim, workload
        self.kafka: SimCluster = sim.cluster(
            brokers=workload.brokers,
            topics={_TOPIC: workload.partitions},
            as_version=case.as_version,
            config={
                "default.replication.factor": workload.replication,
                "offsets.topic.replication.factor": workload.replication,
            },
        )
        self.consumers = [self._consumer(number) for number in range(1, (case.members or workload.members) + 1)]
        host = sim.host("p")
        options = {"request_timeout_ms": round(REQUEST_S * 1000), "metadata_max_age_ms": 10_000}
        self.producer = Producer(sim, host, self.kafka.bootstrap, _TOPIC, workload.every_s, options=options)
        host.spawn(_through(self.producer.run))

    def _consumer(self, number: int) -> Consumer:
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        workload, host = self.workload, self.sim.host(f"c{number}")
        # the sticky one keeps its memory on the class, where all members of a process would share it
        assignor = (
            type("Sticky", (StickyPartitionAssignor,), {}) if workload.strategy == "sticky" else RangePartitionAssignor
        )
        options = {
            "session_timeout_ms": round(SESSION_S * 1000),
            "max_poll_interval_ms": round(REBALANCE_S * 1000),
            "rebalance_timeout_ms": round(REBALANCE_S * 1000),
            "request_timeout_ms": round(REQUEST_S * 1000),
            "metadata_max_age_ms": 10_000,
            "partition_assignment_strategy": [assignor],
        }
        if workload.static:
            options["group_instance_id"] = host.name
        one = Consumer(
            self.sim, host, self.kafka.bootstrap, _GROUP, [_TOPIC], workload.work_s, workload.commit_every_s, options
        )
        host.spawn(_through(one.run))
        return one

    def hangs(self) -> dict[str, Callable[[float], object]]:
        """What lets each client's application hang."""

        def hang(one: Consumer) -> Callable[[float], object]:
            return lambda hang_s: setattr(one, "hang_s", hang_s)

        return {one.host.name: hang(one) for one in self.consumers}

    def finish(self) -> None:
        """Nothing more is produced than what is on its way."""
        self.producer.count = self.producer.sent + 1

    def unfinished(self) -> str | None:
        """What its programs have not done."""
        missing = (self.producer.count or 0) - self.producer.sent
        last = self.producer.failures[-1:] or [""]
        return f"{missing} records were never acknowledged to the producer {last[0]}" if missing > 0 else None


def _through(program: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], Coroutine[Any, Any, None]]:
    """A program that begins again when its client's stop() raises CancelledError though nobody has cancelled it: aiokafka 0.14's does
    where it was about to rejoin, or to fetch again."""

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


def targets_of(case: Case) -> Targets:
    """What can be hit in a case's world."""
    workload = WORKLOADS[case.workload]
    members = tuple(f"c{number}" for number in range(1, (case.members or workload.members) + 1))
    logs = tuple(f"{_TOPIC}-{index}" for index in range(workload.partitions))
    brokers = tuple(f"broker-{number}" for number in range(1, workload.brokers + 1))
    return Targets((_GROUP,), logs, brokers, (*members, "p"), members)


def plan_of(case: Case) -> FaultPlan:
    """The case's plan, or the one that its seed draws."""
    return list(case.plan) if case.plan is not None else draw(case.seed, case.duration_s, targets_of(case))


def settled(case: Case) -> Case:
    """The case with nothing left to its seed but chance."""
    dice = random.Random(f"{case.seed}/case")
    version, order = dice.choice(("3.4", "4.1")), dice.choice(("fifo", "tasks"))
    return replace(
        case, as_version=case.as_version or version, order=case.order or order, plan=tuple(plan_of(case)),
        members=case.members or WORKLOADS[case.workload].members,
    )  # fmt: skip


# --- the run -------------------------------------------------------------------------------------------------------------


class _Heard(logging.Handler):
    """Errors that the brokers log: none of them is part of an incident."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def run(case: Case, *, events: bool = False) -> Outcome:
    """Run a case. ``events``: keep the journal's events, as text. Raises UsageError for a case that can't be."""
    if case.workload not in WORKLOADS:
        raise unknown("workload", case.workload, WORKLOADS)
    case = settled(case)
    outcome = Outcome(case)
    heard, clients = _Heard(), logging.getLogger("aiokafka")
    brokers, level = logging.getLogger("broker_sim"), clients.level
    brokers.addHandler(heard)
    clients.setLevel(logging.CRITICAL + 1)
    began_s = time.process_time()
    link = Link(jitter_ms=0.0, chunks=0.0) if case.calm else None
    try:
        with simulate(case.seed, order=case.order or "fifo", link=link) as sim:
            try:
                _lives(sim, case, outcome, heard)
            except (Exception, ExceptionGroup) as error:
                outcome.failure, outcome.text = signature(error), _text_of(error)
            outcome.virtual_s, outcome.steps = sim.elapsed_s, sim.loop.steps
            outcome.journal_hash, outcome.schedule_hash = sim.journal_hash, sim.schedule_hash
            if events:
                encode = json.JSONEncoder(default=plain).encode
                outcome.events = [encode(event) for event in sim.journal.events]
    finally:
        brokers.removeHandler(heard)
        clients.setLevel(level)
    outcome.cpu_s = time.process_time() - began_s
    return outcome


def _lives(sim: Simulation, case: Case, outcome: Outcome, heard: _Heard) -> None:
    """A start, the safety phase with its faults, then the healing and the liveness phase."""
    workload = WORKLOADS[case.workload]
    world = _World(sim, case, workload)
    watch = _Watch(sim, world.kafka)
    injection: Injection = inject(sim, case.plan or (), hangs=world.hangs())
    try:
        sim.run_for(case.duration_s)
        watch.check()
        _brokers_are_well(heard)
        world.finish()
        injection.heal()
        within_s = bound_s(session_s=SESSION_S, rebalance_s=REBALANCE_S, request_s=REQUEST_S, work_s=workload.work_s)
        hung_s = max((f.args["hang_s"] for f in injection.begun if f.kind == "hang"), default=0.0)
        expected = [Expected(_GROUP, len(world.consumers), (_TOPIC,))]

        def unfinished() -> str | None:
            watch.check()
            return world.unfinished()

        outcome.healed_s = converge(sim, world.kafka, expected, within_s + hung_s, unfinished)
        watch.finish()
        safe(world.consumers, [world.producer], world.kafka)
        _brokers_are_well(heard)
    finally:
        outcome.begun = len(injection.begun)


class _Watch:
    """The invariants, of a cluster that is new."""

    def __init__(self, sim: Simulation, kafka: SimCluster) -> None:
        self._broken: InvariantBroken | None = None
        self._sim = sim
        kafka.state.ensure_offsets_topic()
        self._invariants = Invariants(kafka, self._breach)

    def _breach(self, error: InvariantBroken) -> None:
        if error.name not in _WAIVED:
            self._broken = error
            if self._sim.loop.is_running():
                self._sim.loop.stop()

    def check(self) -> None:
        """Raise InvariantBroken where one is."""
        if self._broken is not None:
            raise self._broken

    def finish(self) -> None:
        """Compare what the brokers know with their logs."""
        self._invariants.finish()
        self.check()


def _brokers_are_well(heard: _Heard) -> None:
    for record in heard.records:
        error = record.exc_info[1] if record.exc_info else None
        raise BrokerError(f"{record.name}: {record.getMessage()}") from error


class BrokerError(AssertionError):
    """A broker logged an error."""


def signature(error: BaseException) -> str:
    """A line that two failures of one cause share: what it is, and where it was raised."""
    if isinstance(error, NotAlive):
        return f"not alive: {error.lacking}"
    if isinstance(error, InvariantBroken):
        return f"invariant: {error.name}"
    if isinstance(error, Unsafe):
        return f"unsafe: {error.broken}"
    cause = error.__cause__ if isinstance(error, BrokerError) and error.__cause__ else error
    frames = traceback.extract_tb(cause.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    broker = "broker: " if isinstance(error, BrokerError) else ""
    return f"{broker}{type(cause).__name__}{where}"


def _text_of(error: BaseException) -> str:
    if isinstance(error, NotAlive | Unsafe | InvariantBroken):
        return str(error)
    return "".join(traceback.format_exception(error))

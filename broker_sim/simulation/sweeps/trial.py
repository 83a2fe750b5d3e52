"""One run of a sweep: a workload, a fault plan, the healing, what must hold then. A `Case` is all of it as data, and the same case is
the same run.

    outcome = run(Case("group", seed=7))
    outcome.failure         # None, or what went wrong, in a line that two runs with the same cause share

A case without a plan has its seed draw one. A failure is kept with its plan: a bare seed means nothing under another version.
"""

from __future__ import annotations

import gc
import json
import logging
import random
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from broker_sim.common.text import UsageError, unknown
from broker_sim.config.settings import DEFAULT_VERSION
from broker_sim.journal.files import plain
from broker_sim.simulation.checks.answers import CHECKS
from broker_sim.simulation.checks.invariants import InvariantBroken
from broker_sim.simulation.checks.liveness import NotAlive, Unsafe
from broker_sim.simulation.faults.disks import is_of_the_disk
from broker_sim.simulation.faults.kinds import Fault, FaultPlan, Injection, from_json, inject, to_json
from broker_sim.simulation.faults.swarm import draw, habits
from broker_sim.simulation.reports.moment import moment, value_at
from broker_sim.simulation.reports.records import in_question
from broker_sim.simulation.sweeps.coverage import Coverage, hits_of
from broker_sim.simulation.sweeps.futures import Follow, Followed
from broker_sim.simulation.sweeps.turns import Branch, Turned, drawn, turn_from
from broker_sim.simulation.virtual.network import Link
from broker_sim.simulation.workloads.aiokafka_workload import AiokafkaWorkload, InvariantWatch
from broker_sim.simulation.workloads.bank.world import Bank
from broker_sim.simulation.workloads.catalogue import WORKLOADS, Workload
from broker_sim.simulation.workloads.deeds import Deed
from broker_sim.simulation.workloads.epoch_world import ByEpochs
from broker_sim.simulation.workloads.probing.world import Probing
from broker_sim.simulation.workloads.share_world import Shares
from broker_sim.simulation.workloads.streams_world import ByStreams
from broker_sim.simulation.workloads.wire_workload import WireWorkload
from broker_sim.simulation.world import EPOCH_MS, Simulation, simulate
from kafka_wire.api_keys import release

__all__ = [
    "WORKLOADS",
    "Case",
    "CaseOutcome",
    "RunningWorkload",
    "Workload",
    "case_from",
    "plan_of",
    "run",
    "verdict_row",
]

_HANGING = {"hang", "drop", "drop_after", "delay", "reply_delay", "truncate", "split"}
"""Verdicts of rules that keep an answer from being given."""


_READ = frozenset(CHECKS)
"""APIs of which `Invariants` reads requests and answers; of all others checks know no more than that they came, and their errors."""

_TIDY_EVERY = 8
_untidy = 0


@dataclass(frozen=True, slots=True)
class Case:
    """A run as data. ``members``, ``as_version``, ``order``, ``journal``, ``plan``: None leaves them to the workload and to the seed.
    ``calm``: no jitter, no chunks. ``journal`` False: the brokers are not observed, and use their fast paths.

    What shrinking takes away: ``absent``: clients that are not there; ``brokers``: fewer than the workload has; ``noisy``: hosts whose
    tasks and connections are left to chance, ``deeds``: those of clients that draw them (`workloads.deeds`) which are done; None: all.
    ``turns``: where it parts from what the seed and the plan say (`turns`).
    """

    workload: str
    seed: int
    duration_s: float = 30.0
    members: int | None = None
    as_version: str | None = None
    order: str | None = None
    calm: bool = False
    journal: bool | None = None
    plan: tuple[Fault, ...] | None = None
    absent: tuple[str, ...] = ()
    brokers: int | None = None
    noisy: tuple[str, ...] | None = None
    deeds: tuple[Deed, ...] | None = None
    turns: tuple[Branch, ...] = ()

    @property
    def release(self) -> str:
        """The Kafka that its brokers behave as."""
        return self.as_version or DEFAULT_VERSION

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `case_from` is the way back."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name not in ("plan", "turns")}
        turns = [turn.to_dict() for turn in self.turns]
        return {**fields, "plan": None if self.plan is None else to_json(self.plan), "turns": turns}


def case_from(value: Mapping[str, Any]) -> Case:
    """The case of `Case.to_dict`; more keys may stand beside. Raises UsageError."""
    try:
        given = {name: value[name] for name in Case.__slots__ if name in value and name not in ("plan", "turns")}
        plan = value.get("plan")
        lists = {name: tuple(given[name]) for name in ("absent", "noisy") if given.get(name) is not None}
        if given.get("deeds") is not None:
            lists["deeds"] = tuple((str(client), int(number)) for client, number in given["deeds"])
        turns = tuple(turn_from(turn) for turn in value.get("turns") or ())
        case = Case(**{**given, **lists}, plan=None if plan is None else tuple(from_json(plan)), turns=turns)
    except (TypeError, ValueError) as error:
        raise UsageError(f"not a saved failure of a sweep: {error}") from None
    if case.workload not in WORKLOADS:
        raise unknown("workload", case.workload, WORKLOADS)
    return case


@dataclass(slots=True)
class CaseOutcome:
    """Result of a run, plain data. ``failure``: its kind in a line; ``text``: the whole report. ``invariant``: the broken one, if that
    is the failure. ``hits``: faults that were injected, by name; ``reached``: the run's coverage (`coverage`); ``waived``: breaches
    that its plan explains. ``events``: of the journal, if requested."""

    case: Case
    failure: str | None = None
    text: str = ""
    invariant: str | None = None
    begun: int = 0
    virtual_s: float = 0.0
    healed_s: float = 0.0
    cpu_s: float = 0.0
    steps: int = 0
    journal_hash: str = ""
    schedule_hash: str = ""
    hits: dict[str, int] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)
    waived: dict[str, int] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    """Features of the run, finer than ``reached``: see `coverage`."""
    futures: list[CaseOutcome] = field(default_factory=list)
    """Results of worlds that were forked from the run (`futures`), without ``events``, ``moment`` and ``records``."""
    events: list[str] = field(default_factory=list)
    deeds: list[Deed] = field(default_factory=list)
    """Deeds of clients that draw them."""
    moment: list[str] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    """State of the world at the failure (``moment``), and records in question (`reports`); if requested."""


def plan_of(case: Case) -> FaultPlan:
    """The case's plan, or the one that its seed draws."""
    if case.plan is not None:
        return list(case.plan)
    return habits(case.seed) + draw(case.seed, case.duration_s, WORKLOADS[case.workload].targets(case.members))


def settled(case: Case) -> Case:
    """The case with nothing left to its seed but chance."""
    workload, dice = WORKLOADS[case.workload], random.Random(f"{case.seed}/case")
    version: str = dice.choice(workload.versions)
    order = dice.choice(("fifo", "tasks"))
    if case.as_version is not None and release(case.as_version) >= release(workload.since):
        version = case.as_version
    journal = dice.random() >= (0.5 if workload.raw else 0.2)
    return replace(
        case, as_version=version, order=case.order or order, plan=tuple(plan_of(case)),
        members=case.members or workload.members, journal=journal if case.journal is None else case.journal,
        turns=_with_plans(case),
    )  # fmt: skip


def _with_plans(case: Case) -> tuple[Branch, ...]:
    targets = WORKLOADS[case.workload].targets(case.members)
    return tuple(
        replace(turn, plan=drawn(case.seed, case.turns[: number + 1], case.duration_s, targets))
        if turn.plan is None
        else turn
        for number, turn in enumerate(case.turns)
    )


def future_of(case: Case, at_s: float, branch: int) -> Case:
    """A settled case that parts from this one, which is settled, at ``at_s``."""
    turned = replace(case, turns=(*case.turns, Branch(at_s, branch)))
    return replace(turned, turns=_with_plans(turned))


def waived(plan: Iterable[Fault]) -> tuple[str, ...]:
    """Invariants that a plan breaks rightly: rules let requests hang, or come late; a disk that stalls stalls everything."""
    hangs = any(
        (fault.kind == "rule" and _HANGING.intersection(fault.args)) or fault.args.get("what") == "stalls"
        for fault in plan
    )
    return ("deferred requests are answered",) if hangs else ()


# --- the run -------------------------------------------------------------------------------------------------------------


class RunningWorkload(Protocol):
    """A workload at work: `AiokafkaWorkload`, `WireWorkload`, `ByEpochs`, `Shares`, `Probing`, `Bank`."""

    @property
    def waived(self) -> Counter[str]:
        """Breaches of invariants that are waived."""

    @property
    def done(self) -> list[Deed]:
        """The deeds of clients that draw them."""

    def turns(self, plan: tuple[Fault, ...]) -> None:
        """Take other faults for the run (`turns`); the checks waive the invariants that these break."""

    def hangs(self) -> Mapping[str, Callable[[float], object]]:
        """Function for each client that lets its application hang for so many seconds."""

    def finish(self) -> None:
        """The safety phase is over, the healing comes next."""

    def settle(self, injection: Injection) -> float:
        """All is healed: see that it comes back, and what has become of it. Returns how many virtual seconds that took."""


class _Heard(logging.Handler):
    """Errors that the brokers log: none of them is part of an incident."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Visitor(Protocol):
    """Observer of a run, called while the world exists."""

    def begins(self, sim: Simulation) -> None:
        """A world, before anything is in it."""

    def ends(self, failure: str | None, text: str) -> None:
        """Called when the run has failed, or ended well; the world still exists."""


def run(
    case: Case,
    *,
    events: bool = False,
    quick: bool = False,
    visitor: Visitor | None = None,
    follow: Follow | None = None,
) -> CaseOutcome:
    """Run a case. ``events``: keep the journal's events, as text, and if it fails a report about the world. With a
    ``visitor`` it takes its time. ``quick``: leave out what no check uses: bodies of requests in the journal, and its hash; the run
    and its checks are the same. ``follow``: the times from which more than one future is run (`futures`). Raises UsageError for an
    invalid case. Log handlers and levels are restored in any case: a worker runs thousands of cases in one process."""
    if case.workload not in WORKLOADS:
        raise unknown("workload", case.workload, WORKLOADS)
    case = settled(case)
    outcome = CaseOutcome(case)
    heard, clients = _Heard(), logging.getLogger("aiokafka")
    brokers, level = logging.getLogger("broker_sim"), clients.level
    brokers.addHandler(heard)
    clients.setLevel(logging.CRITICAL + 1)
    began_s = time.process_time()
    link = Link(jitter_ms=0.0, chunks=0.0) if case.calm else None
    followed = None if follow is None else Followed(follow, case, future_of)
    try:
        with simulate(
            case.seed, order=case.order or "fifo", link=link, invariants=False, noisy=case.noisy,
            patience="30s" if visitor is None else "24h",
        ) as sim:  # fmt: skip
            if visitor is not None:
                visitor.begins(sim)
            sim.hashes = not quick
            try:
                _lives(sim, case, outcome, heard, _READ if quick else None, followed)
            except (Exception, ExceptionGroup) as error:
                _fails(outcome, error)
            outcome.virtual_s, outcome.steps = sim.elapsed_s, sim.loop.steps
            outcome.journal_hash, outcome.schedule_hash = sim.journal_hash, sim.schedule_hash
            if followed is not None:
                followed.ends(outcome)
            if visitor is not None:
                visitor.ends(outcome.failure, outcome.text)
            if events and outcome.failure is not None and sim.clusters:
                _describe(sim, outcome)
            if events and sim.clusters[0].observed:
                encode = json.JSONEncoder(default=plain).encode
                outcome.events = [encode(event) for event in sim.journal.events]
    except (Exception, ExceptionGroup) as error:  # errors of a world at its end
        _fails(outcome, error)
    finally:
        if followed is not None:
            followed.leaves()
        brokers.removeHandler(heard)
        clients.setLevel(level)
    _tidy()
    outcome.cpu_s = time.process_time() - began_s
    return outcome


def _describe(sim: Simulation, outcome: CaseOutcome) -> None:
    kafka = sim.clusters[0]
    outcome.moment = moment(sim)
    if kafka.observed:
        outcome.records = in_question(kafka.journal.events, EPOCH_MS, lambda log, offset: value_at(kafka, log, offset))


def _fails(outcome: CaseOutcome, error: BaseException) -> None:
    """The first error of a run is its failure."""
    if outcome.failure is None:
        outcome.failure, outcome.text = signature(error), _text_of(error)
        outcome.invariant = error.name if isinstance(error, InvariantBroken) else None


def _tidy() -> None:
    """Collect garbage now and then: an ended simulation is garbage in cycles, and none of it is collected during a run."""
    global _untidy
    _untidy += 1
    if _untidy >= _TIDY_EVERY:
        _untidy = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()


def verdict_row(outcome: CaseOutcome) -> dict[str, Any]:
    """An outcome as a flat row of plain values: ``seed``, ``workload``, ``verdict`` ("clean" or "failed"), ``failure`` and
    ``invariant`` (None if it has none), ``as_version``, ``duration_s``, ``journal`` (whether the brokers were watched),
    ``faults``, ``schedule`` (the fault plan, JSON), ``steps``, ``journal_hash``, ``schedule_hash``, ``virtual_s``, ``healed_s``,
    ``cpu_s``, and as JSON ``hits``, ``reached`` and ``waived``."""
    case = outcome.case
    return {
        "seed": case.seed, "workload": case.workload, "verdict": "clean" if outcome.failure is None else "failed",
        "failure": outcome.failure, "invariant": outcome.invariant, "as_version": case.as_version, "duration_s": case.duration_s,
        "journal": bool(case.journal), "faults": outcome.begun, "schedule": json.dumps(to_json(case.plan or ())),
        "steps": outcome.steps, "journal_hash": outcome.journal_hash, "schedule_hash": outcome.schedule_hash,
        "virtual_s": round(outcome.virtual_s, 6), "healed_s": round(outcome.healed_s, 6), "cpu_s": round(outcome.cpu_s, 6),
        "hits": json.dumps(outcome.hits), "reached": json.dumps(outcome.reached), "waived": json.dumps(outcome.waived),
    }  # fmt: skip


def _lives(
    sim: Simulation,
    case: Case,
    outcome: CaseOutcome,
    heard: _Heard,
    read: frozenset[str] | None,
    followed: Followed | None,
) -> None:
    """A start, the safety phase with its faults, then the healing and the liveness phase. Counts are written in ``finally``, since the
    report of a failed run needs them."""
    workload = WORKLOADS[case.workload]
    if case.brokers is not None:
        workload = replace(workload, brokers=case.brokers)
    watch = InvariantWatch(sim, waived(case.plan or ()))
    raw: Any = (
        ByStreams
        if workload.streams
        else Shares
        if workload.shares
        else ByEpochs
        if workload.by_epochs
        else WireWorkload
    )
    kind: Any = Bank if workload.bank else Probing if workload.probers else raw if workload.raw else AiokafkaWorkload
    world: RunningWorkload = kind(sim, case, workload, watch)
    coverage = Coverage(sim.clusters[0])
    if read is not None:
        sim.clusters[0].record_bodies(read)
    injection: Injection = inject(sim, case.plan or (), hangs=world.hangs())
    coverage.lasting = injection.lasting

    def turns(plan: tuple[Fault, ...]) -> None:
        watch.waive = frozenset(waived(plan))
        world.turns(plan)

    turned = Turned(sim, case, injection, turns)
    if followed is not None:
        followed.begins(sim, turned, coverage)
    try:
        sim.run_for(case.duration_s)
        watch.check()
        _brokers_are_well(heard)
        world.finish()
        injection.heal()
        outcome.healed_s = world.settle(injection)
        _brokers_are_well(heard)
    finally:
        outcome.begun = len(injection.begun)
        outcome.deeds = list(world.done)
        outcome.hits, outcome.reached = hits_of(injection), dict(coverage.reached)
        outcome.features = frozenset(coverage.features)
        if injection.buggify is not None:
            outcome.hits |= {f"site {name}": count for name, count in injection.buggify.fired.items()}
        outcome.waived = dict(watch.waived + world.waived)


def _brokers_are_well(heard: _Heard) -> None:
    for record in heard.records:
        if is_of_the_disk(record):
            continue
        error = record.exc_info[1] if record.exc_info else None
        raise BrokerError(f"{record.name}: {record.getMessage()}") from error


class BrokerError(AssertionError):
    """A broker logged an error."""


def signature(error: BaseException) -> str:
    """A line that two failures of one cause share: what it is, and where it was raised."""
    if isinstance(error, NotAlive | Unsafe | InvariantBroken):
        return error.line
    cause = error.__cause__ if isinstance(error, BrokerError) and error.__cause__ else error
    frames = traceback.extract_tb(cause.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    broker = "broker: " if isinstance(error, BrokerError) else ""
    return f"{broker}{type(cause).__name__}{where}"


def _text_of(error: BaseException) -> str:
    if isinstance(error, NotAlive | Unsafe | InvariantBroken):
        return str(error)
    return "".join(traceback.format_exception(error))

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from broker_sim.common.text import UsageError, unknown
from broker_sim.journal.files import plain
from broker_sim.simulation.checks.invariants import InvariantBroken
from broker_sim.simulation.checks.liveness import NotAlive, Unsafe
from broker_sim.simulation.faults.disks import is_of_the_disk
from broker_sim.simulation.faults.kinds import Fault, FaultPlan, Injection, from_json, inject, to_json
from broker_sim.simulation.faults.swarm import draw, habits
from broker_sim.simulation.sweeps.coverage import Coverage, hits_of
from broker_sim.simulation.virtual.network import Link
from broker_sim.simulation.workloads.aiokafka_workload import Stage, Watch
from broker_sim.simulation.workloads.catalogue import WORKLOADS, Workload
from broker_sim.simulation.workloads.wire_workload import Rough
from broker_sim.simulation.world import Simulation, simulate

__all__ = ["WORKLOADS", "Case", "Outcome", "Workload", "World", "case_from", "plan_of", "run", "verdict_row"]

_HANGING = {"hang", "drop", "drop_after", "delay", "reply_delay", "truncate", "split"}
"""Verdicts of rules that keep an answer from being given."""


_TIDY_EVERY = 8
_untidy = 0


@dataclass(frozen=True, slots=True)
class Case:
    """A run as data. ``members``, ``as_version``, ``order``, ``journal``, ``plan``: None leaves them to the workload and to the seed.
    ``calm``: no jitter, no chunks. ``journal`` False: nobody watches the brokers, they take their short ways."""

    workload: str
    seed: int
    duration_s: float = 30.0
    members: int | None = None
    as_version: str | None = None
    order: str | None = None
    calm: bool = False
    journal: bool | None = None
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
    """What came of a run, plain data. ``failure``: its kind in a line; ``text``: all there is to tell. ``invariant``: what is broken,
    if that is it. ``hits``: faults that came about, by what they are; ``reached``: what the run has seen (`coverage`); ``waived``:
    breaches that its plan explains. ``events``: of the journal, if asked for."""

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
    events: list[str] = field(default_factory=list)


def plan_of(case: Case) -> FaultPlan:
    """The case's plan, or the one that its seed draws."""
    if case.plan is not None:
        return list(case.plan)
    return habits(case.seed) + draw(case.seed, case.duration_s, WORKLOADS[case.workload].targets(case.members))


def settled(case: Case) -> Case:
    """The case with nothing left to its seed but chance."""
    workload, dice = WORKLOADS[case.workload], random.Random(f"{case.seed}/case")
    version, order = dice.choice(("3.4", "4.1")), dice.choice(("fifo", "tasks"))
    journal = dice.random() >= (0.5 if workload.raw else 0.2)
    return replace(
        case, as_version=case.as_version or version, order=case.order or order, plan=tuple(plan_of(case)),
        members=case.members or workload.members, journal=journal if case.journal is None else case.journal,
    )  # fmt: skip


def waived(case: Case) -> tuple[str, ...]:
    """Invariants that the case's plan breaks rightly: rules let requests hang, or come late; a disk that stalls stalls everything."""
    hangs = any(
        (fault.kind == "rule" and _HANGING.intersection(fault.args)) or fault.args.get("what") == "stalls"
        for fault in case.plan or ()
    )
    return ("parked requests are answered",) if hangs else ()


# --- the run -------------------------------------------------------------------------------------------------------------


class World(Protocol):
    """A workload at work: `Stage`, `Rough`."""

    @property
    def waived(self) -> Counter[str]:
        """Breaches of invariants that are waived."""

    def hangs(self) -> dict[str, Callable[[float], object]]:
        """What lets each client's application hang."""

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
        with simulate(case.seed, order=case.order or "fifo", link=link, invariants=False) as sim:
            try:
                _lives(sim, case, outcome, heard)
            except (Exception, ExceptionGroup) as error:
                _fails(outcome, error)
            outcome.virtual_s, outcome.steps = sim.elapsed_s, sim.loop.steps
            outcome.journal_hash, outcome.schedule_hash = sim.journal_hash, sim.schedule_hash
            if events and sim.clusters[0].observed:
                encode = json.JSONEncoder(default=plain).encode
                outcome.events = [encode(event) for event in sim.journal.events]
    except (Exception, ExceptionGroup) as error:  # what a world tells when it ends
        _fails(outcome, error)
    finally:
        brokers.removeHandler(heard)
        clients.setLevel(level)
    _tidy()
    outcome.cpu_s = time.process_time() - began_s
    return outcome


def _fails(outcome: Outcome, error: BaseException) -> None:
    """The first error of a run is its failure."""
    if outcome.failure is None:
        outcome.failure, outcome.text = signature(error), _text_of(error)
        outcome.invariant = error.name if isinstance(error, InvariantBroken) else None


def _tidy() -> None:
    """A simulation is garbage when it has ended, in cycles, and collects none of itself: now and then somebody has to."""
    global _untidy
    _untidy += 1
    if _untidy >= _TIDY_EVERY:
        _untidy = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()


def verdict_row(outcome: Outcome) -> dict[str, Any]:
    """An outcome as a flat row of plain values: ``seed``, ``workload``, ``verdict`` ("clean" or "failed"), ``failure`` and
    ``invariant`` (None where there is none), ``as_version``, ``duration_s``, ``journal`` (whether the brokers were watched),
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


def _lives(sim: Simulation, case: Case, outcome: Outcome, heard: _Heard) -> None:
    """A start, the safety phase with its faults, then the healing and the liveness phase."""
    workload = WORKLOADS[case.workload]
    watch = Watch(sim, waived(case))
    world: World = (Rough if workload.raw else Stage)(sim, case, workload, watch)
    coverage = Coverage(sim.clusters[0])
    injection: Injection = inject(sim, case.plan or (), hangs=world.hangs())
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
        outcome.hits, outcome.reached = hits_of(injection), dict(coverage.reached)
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

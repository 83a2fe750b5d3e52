"""One test with many seeds: the first that fails, its faults made few and simple, and whether it can be repeated at all.

    search = Search(program, faults=Swarm(during="30s"))      # program(sim) raises if something is wrong
    found = search.first(range(200))                        # None, or a `FoundFailure`

Rules:
1. Every seed is a world of its own; nothing is carried over.
2. The first seed and a share of the others are run twice and compared, event by event. Runs that differ are a failure: what they say
   holds for one of them alone.
3. A failure is repeated before it is shrunk: one that does not recur is reported as not repeatable.
4. Made small is what fails with the same line (`failure_line`): fewer faults by ddmin, then less chance, shorter faults at round
   times. ``budget`` counts runs, ``budget_s`` seconds of this process on a CPU (and real ones, ten times as many).
"""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from broker_sim.simulation.checks.answers import InvariantBroken
from broker_sim.simulation.checks.liveness import NotAlive, Unsafe
from broker_sim.simulation.faults.kinds import Fault, FaultPlan
from broker_sim.simulation.faults.plans import Plan, plan_from
from broker_sim.simulation.reports.moment import moment, value_at
from broker_sim.simulation.reports.parting import parting
from broker_sim.simulation.reports.records import in_question
from broker_sim.simulation.sweeps.shrink import SPANS, BudgetSpent, ddmin, rounded
from broker_sim.simulation.virtual.alarms import Alarms
from broker_sim.simulation.virtual.recording import CAUSES, NotRepeatable, RunRecording
from broker_sim.simulation.world import EPOCH_MS, Simulation, simulate

__all__ = ["FoundFailure", "Interrupted", "Search", "SeedRun", "failure_line"]

_REAL = 10
"""Real seconds for each CPU second of a budget."""

_OURS = str(Path(__file__).parents[1])

_NEIGHBOURS = 8
"""Runs that are looked at beside a failure."""

Placed = tuple[int, Fault]
"""A fault of the n-th plan of a run."""


def failure_line(error: BaseException) -> str:
    """A line that two failures of one cause share: what it is, and where it was raised, as far as that is not in the simulation."""
    if isinstance(error, NotAlive | Unsafe | InvariantBroken):
        return error.line
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


@dataclass(slots=True)
class SeedRun:
    """Result of one run. ``events``: of its journals, if it failed. ``placed``: the faults of the plan; ``begun``: those injected."""

    seed: object
    error: BaseException | None = None
    failure: str | None = None
    placed: list[Placed] = field(default_factory=list)
    begun: list[Placed] = field(default_factory=list)
    skipped: list[tuple[Fault, str]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    loose: list[dict[str, Any]] = field(default_factory=list)
    """Unhandled errors: `Simulation.errors`."""
    elapsed_s: float = 0.0
    schedule_hash: str = ""
    not_pinned: list[str] = field(default_factory=list)
    """Reasons why another process may run otherwise: `Simulation.not_pinned`."""
    hosts: list[str] = field(default_factory=list)
    """Hosts of programs: jitter and a random order of tasks can be applied to each."""
    moment: list[str] = field(default_factory=list)
    """State of the world at the failure: `reports.moment`."""
    records: list[str] = field(default_factory=list)
    """Records in question: `reports.records`."""


@dataclass(slots=True)
class FoundFailure:
    """A failure. ``clean``: seeds before it. ``run``: the last run that fails with this line, the smallest; ``faults`` its faults, of
    ``before`` that there were; ``runs``: that it took, ``done``: no step was left out. ``options``: of `simulate`, simplified;
    ``given``: whether there were ``faults`` beside those that the body injects."""

    seed: object
    clean: int
    failure: str
    error: BaseException
    run: SeedRun
    before: int
    runs: int = 0
    done: bool = True
    options: dict[str, Any] = field(default_factory=dict)
    given: bool = True
    beside: list[str] = field(default_factory=list)
    """Difference from the nearest run that passes: `reports.parting`."""

    @property
    def faults(self) -> FaultPlan:
        """Faults of the smallest run."""
        return [fault for _, fault in self.run.begun]


class Interrupted(Exception):
    """An alarm has ended a run; its cause is what that raised. Ctrl-C is no such one: KeyboardInterrupt goes through."""


class Search:
    """``body(sim)`` with ``faults`` and ``options`` of `simulate`. ``caught``: what is a failure; anything else goes through, and
    what an alarm raises as `Interrupted`. ``between``: called before every run. Raises UsageError for an invalid plan."""

    def __init__(
        self,
        body: Callable[[Simulation], object],
        *,
        faults: Plan = None,
        repeat: float = 0.05,
        budget: int = 100,
        budget_s: float = 30.0,
        caught: tuple[type[BaseException], ...] = (Exception,),
        between: Callable[[], object] = lambda: None,
        **options: Any,
    ) -> None:
        self.body, self.faults, self.options = body, faults, options
        self.repeat, self.budget, self.budget_s = repeat, budget, budget_s
        self.caught, self.between = caught, between
        self._alarms = Alarms()
        self.runs, self.virtual_s = 0, 0.0
        """Number of runs, and the sum of their virtual seconds."""
        if faults is not None:
            plan_from(faults)

    def first(self, seeds: Iterable[object]) -> FoundFailure | None:
        """The first seed that fails, made small; None where all are clean."""
        with Alarms() as self._alarms:
            return self._first(seeds)

    def _first(self, seeds: Iterable[object]) -> FoundFailure | None:
        for clean, seed in enumerate(seeds):
            twice = self.repeat > 0 and (clean == 0 or random.Random(f"{seed}/twice").random() < self.repeat)
            recording = RunRecording() if twice else None
            run = self.run(seed, recording=recording)
            if run.error is None and recording is not None:
                self._compare(run, recording)
            if run.error is not None:
                return self._made_small(run, clean)
        return None

    def run(
        self,
        seed: object,
        *,
        placed: Sequence[Placed] | None = None,
        recording: RunRecording | None = None,
        keep: bool = False,
        **options: Any,
    ) -> SeedRun:
        """One run. ``placed``: these faults and no others. ``keep``: its events, though it is clean.
        ``recording`` with a run to compare with: NotRepeatable ends it."""
        self.between()
        self.runs += 1
        run = SeedRun(seed)
        instead = None if placed is None else _by_plan(placed)
        alarms = self._alarms
        try:
            with simulate(
                seed, faults=self.faults, instead=instead, recording=recording, **{**self.options, **options}
            ) as sim:
                try:
                    if recording is not None:
                        _stop_at_a_difference(sim, recording)
                    self.body(sim)
                    sim.settle()
                    if recording is not None:
                        recording.end()
                except BaseException:
                    run.events = _events(sim)
                    run.moment = moment(sim)
                    run.records = _records(sim)
                    raise
                finally:
                    self._take(run, sim)
                if keep:
                    run.events = _events(sim)
        except BaseException as error:
            if error is alarms.error:
                alarms.taken()
                error.add_note(f"seed {seed!r} was running")
                if isinstance(error, KeyboardInterrupt):  # whoever asked for it wants no failure made small before
                    raise
                raise Interrupted from error
            if not isinstance(error, self.caught):
                raise
            run.error, run.failure = error, failure_line(error)
        return run

    def _take(self, run: SeedRun, sim: Simulation) -> None:
        faults = sim.faults
        run.placed = [(n, fault) for n, plan in enumerate(faults.plans) for fault in plan]
        run.begun = [(n, fault) for n, injection in enumerate(faults.injections) for fault in injection.begun]
        run.skipped, run.loose = faults.skipped, sim.errors
        run.hosts = [name for name in sim.hosts if not any(name in cluster.hosts for cluster in sim.clusters)]
        run.elapsed_s, run.schedule_hash, run.not_pinned = sim.elapsed_s, sim.schedule_hash, sim.not_pinned
        self.virtual_s += run.elapsed_s

    # --- the same again

    def _compare(self, run: SeedRun, recording: RunRecording) -> None:
        """A run that was clean: ``run`` fails where a second one is not the same."""
        second = RunRecording(recording)
        again = self.run(run.seed, recording=second)
        difference = second.difference
        if difference is None and again.error is not None:
            difference = f"the second one failed: {again.failure}"
        if difference is None and again.schedule_hash != run.schedule_hash:
            difference = "the same events, but not the same schedule of the event loop"
        if difference is not None:
            run.events = again.events
            self._is_not_repeatable(run, difference)

    def _is_not_repeatable(self, run: SeedRun, difference: str) -> None:
        error = NotRepeatable(f"not deterministic: seed {run.seed!r} was run twice; {difference}\n{CAUSES}")
        run.error, run.failure = error, "not deterministic"

    # --- small

    def _made_small(self, run: SeedRun, clean: int) -> FoundFailure:
        assert run.error is not None
        assert run.failure is not None
        given = self.faults is not None
        finding = FoundFailure(
            run.seed, clean, run.failure, run.error, run, len(run.begun), options={**self.options}, given=given
        )
        if isinstance(run.error, NotRepeatable) or self.budget <= 0:
            return finding
        try:
            again = self.run(run.seed)
        except Interrupted:
            finding.done = False
            return finding
        if again.failure != run.failure:
            self._does_not_come_again(finding, again)
        else:
            _SeedShrinker(self, finding).go()
        return finding

    def _does_not_come_again(self, finding: FoundFailure, again: SeedRun) -> None:
        first = RunRecording()
        self.run(finding.seed, recording=first)
        second = RunRecording(first)
        self.run(finding.seed, recording=second)
        text = f"the first time: {finding.failure}; then: {again.failure or 'clean'}"
        if second.difference is not None:
            text += f"\nof two more runs, {second.difference}"
        cause = finding.error
        self._is_not_repeatable(finding.run, text)
        assert finding.run.error is not None
        finding.error, finding.failure = finding.run.error, "not deterministic"
        finding.error.__cause__ = cause


class _SeedShrinker:
    """Makes ``finding`` smaller, step by step."""

    def __init__(self, search: Search, finding: FoundFailure) -> None:
        self.search, self.found = search, finding
        self.best: tuple[Placed, ...] = tuple(finding.run.placed)
        self._options: dict[str, Any] = {}
        self._began_s, self._began_cpu_s = _wall_s(), _cpu_s()
        self._known: dict[str, bool] = {}

    def go(self) -> None:
        """Until nothing smaller fails, or the budget is spent."""
        try:
            self.fails(tuple(self.found.run.begun))
            ddmin(self.best, self.fails)
            self.simpler_world()
            self.simpler_faults()
            self.found.beside = self.beside()
        except (BudgetSpent, Interrupted):
            self.found.done = False

    def beside(self) -> list[str]:
        """A run that passes and has one thing otherwise: without a fault, the last one first, or with chance at one host more or less.
        Where none of the first few passes there is nothing to be seen beside it."""
        ways: list[tuple[str, tuple[Placed, ...], dict[str, Any]]] = [
            (f"without {fault.text}", (*self.best[:at], *self.best[at + 1 :]), {})
            for at, (_, fault) in reversed(list(enumerate(self.best)))
        ]
        noisy = self._options.get("noisy", self.search.options.get("noisy"))
        for host in ["test", *self.found.run.hosts]:
            if noisy is not None and host in noisy:
                fewer = tuple(name for name in noisy if name != host)
                ways.append((f"without the jitter and the order of tasks of {host}", self.best, {"noisy": fewer}))
            elif noisy is not None:
                ways.append((f"with the jitter of {host}", self.best, {"noisy": (*noisy, host)}))
        for what, placed, options in ways[:_NEIGHBOURS]:
            run = self.search.run(self.found.seed, placed=placed, keep=True, **{**self._options, **options})
            if run.error is None:
                begun_ms = self.search.options.get("epoch_ms", EPOCH_MS)
                return parting(self.found.run.events, run.events, what, begun_ms)
        return []

    def fails(self, placed: tuple[Placed, ...], **options: Any) -> bool:
        """Whether it fails with the same line; then it is the best until now."""
        options = {**self._options, **options}
        name = repr((placed, sorted(options.items(), key=str)))
        if name not in self._known:
            finding, search = self.found, self.search
            if finding.runs >= search.budget or self._late():
                raise BudgetSpent
            finding.runs += 1
            run = search.run(finding.seed, placed=placed, **options)
            self._known[name] = run.failure == finding.failure
            if self._known[name]:
                assert run.error is not None
                self.best, self._options = placed, options
                finding.run, finding.error, finding.options = run, run.error, {**finding.options, **options}
        return self._known[name]

    def _late(self) -> bool:
        """CPU seconds make the same report on a busy machine; real ones end what waits for the real world in every run."""
        budget_s = self.search.budget_s
        return _cpu_s() - self._began_cpu_s > budget_s or _wall_s() - self._began_s > _REAL * budget_s

    def simpler_world(self) -> None:
        """No jitter and tasks in their order: everywhere, or at fewer hosts."""
        ordered = {"order": "fifo"} if self.search.options.get("order", "fifo") != "fifo" else {}
        if self.fails(self.best, **ordered, noisy=()):
            return
        if ordered:
            self.fails(self.best, **ordered)
        ddmin(["test", *self.found.run.hosts], lambda noisy: self.fails(self.best, noisy=noisy))

    def simpler_faults(self) -> None:
        """Each shorter while that goes, then its numbers rounder."""
        for at in range(len(self.best)):
            for name in SPANS:
                for _ in range(6):
                    fault = self.best[at][1]
                    if fault.args.get(name, 0) < 0.5:
                        break
                    half = {**fault.args, name: round(fault.args[name] / 2, 1)}
                    if not self.fails(self._with(at, replace(fault, args=half))):
                        break
            for rounder in rounded(self.best[at][1]):
                if self.fails(self._with(at, rounder)):
                    break

    def _with(self, at: int, fault: Fault) -> tuple[Placed, ...]:
        return (*self.best[:at], (self.best[at][0], fault), *self.best[at + 1 :])


def _events(sim: Simulation) -> list[dict[str, Any]]:
    return [event for cluster in sim.clusters if cluster.observed for event in cluster.journal.events]


def _records(sim: Simulation) -> list[str]:
    begun_ms = round(sim.loop.epoch_s * 1000)
    return [
        line
        for cluster in sim.clusters
        if cluster.observed
        for line in in_question(cluster.journal.events, begun_ms, partial(value_at, cluster))
    ]


def _by_plan(placed: Sequence[Placed]) -> list[FaultPlan]:
    plans: list[FaultPlan] = [[] for _ in range(max((n for n, _ in placed), default=-1) + 1)]
    for number, fault in placed:
        plans[number].append(fault)
    return plans


def _stop_at_a_difference(sim: Simulation, recording: RunRecording) -> None:
    def look() -> None:
        if recording.difference is not None:
            raise NotRepeatable(f"{sim.elapsed_s:.6f} s from the beginning: {recording.difference}")

    sim.loop.after_turn = look


def _wall_s() -> float:
    return os.times().elapsed  # no simulation runs


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system

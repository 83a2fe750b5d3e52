"""Many seeds, on several processes: what fails is shrunk and kept.

Rules:
1. Every worker has its hash seed pinned: a run is the same in whichever of them it is.
2. A share of the runs is repeated, and the two journals compared: a difference is a failure, reported with the first different event.
3. A failure is kept as its fault list (``corpus``): JSON files that `replay` takes, and the next sweep with this corpus runs first.
4. One failure of each kind is shrunk and kept, the first by its seed among those in hand; the others are counted.
5. With ``rows`` each run appends a line of JSON to a file (`trial.verdict_row`) at its end; the next sweep with the same file skips
   the runs in it, so an interrupted sweep can be resumed.
6. ``guided``: what runs have come to decides which plans are varied (`guide`). ``fork``: so many futures are followed from rare moments
   (`futures`), each of them a run. What fails so is no seed's plan: it needs a corpus to be run again from.
"""

from __future__ import annotations

import json
import math
import os
import platform
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from broker_sim.common.buggify import SITES
from broker_sim.common.text import UsageError
from broker_sim.simulation.reports.parting import parting
from broker_sim.simulation.sweeps.coverage import EXPECTED
from broker_sim.simulation.sweeps.futures import Follow
from broker_sim.simulation.sweeps.guide import Guide
from broker_sim.simulation.sweeps.shrink import BUDGET, shrink
from broker_sim.simulation.sweeps.trial import Case, CaseOutcome, case_from, run, verdict_row
from broker_sim.simulation.sweeps.workers import WorkQueue, pool
from broker_sim.simulation.world import EPOCH_MS

__all__ = [
    "Failure", "SweepOptions", "SweepSummary", "draw", "draw_case", "keep", "kept_cases",
    "note", "read_case", "replay", "shrunk", "sweep",
]  # fmt: skip

_NEIGHBOURS = 6
"""Runs that are looked at beside a failure."""


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """``seeds``: the numbers. ``repeat``: the share that is done twice. ``most``: kinds of failures after which it ends; ``wall_s``:
    real seconds after which nothing more is begun. ``timeline``: where pictures of failures are drawn."""

    workloads: tuple[str, ...]
    seeds: range
    jobs: int = 1
    duration_s: float = 30.0
    as_version: str | None = None
    shrink: bool = False
    budget: int = BUDGET
    corpus: Path | None = None
    repeat: float = 0.05
    most: int = 10
    wall_s: float = math.inf
    rows: Path | None = None
    timeline: Path | None = None
    guided: bool = False
    fork: int = 0


@dataclass(slots=True)
class Failure:
    """A kind of failure, by its first case. ``shrunk``: the case has been made small, from ``before`` faults. ``old``: its file was in
    the corpus before. ``picture``: the timeline of its groups, for a terminal; ``drawn``: for a browser."""

    failure: str
    text: str
    case: Case
    count: int = 1
    shrunk: bool = False
    before: int = 0
    shrinking_runs: int = 0
    file: Path | None = None
    old: bool = False
    picture: str = ""
    drawn: tuple[Path, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `read_case` takes it."""
        return {
            **self.case.to_dict(), "failure": self.failure, "count": self.count, "shrunk": self.shrunk, "faults_before": self.before,
            "python": platform.python_version(), "text": self.text,
        }  # fmt: skip


@dataclass(slots=True)
class SweepSummary:
    """Progress and result of a sweep. ``wall_s``: real seconds; ``cpu_s``: of the runs alone. ``hits``, ``reached``, ``waived``: the
    sums of the runs' (`trial.CaseOutcome`); ``by_workload``: runs and failures. ``skipped``: runs that had been done before."""

    wanted: int = 0
    runs: int = 0
    repeated: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    faults: int = 0
    failed: int = 0
    skipped: int = 0
    futures: int = 0
    """Number of runs that were forked from another one."""
    features: set[str] = field(default_factory=set)
    """Features of the runs: see `coverage`."""
    hits: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    waived: Counter[str] = field(default_factory=Counter)
    by_workload: dict[str, list[int]] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    mended: list[Path] = field(default_factory=list)
    """Files of the corpus that fail no more."""
    interrupted: bool = False

    @property
    def pace(self) -> float:
        """Virtual seconds per real second."""
        return self.virtual_s / self.wall_s if self.wall_s else 0.0

    @property
    def unreached(self) -> list[str]:
        """Expected coverage that this sweep has not reached (`coverage.EXPECTED`)."""
        return [name for name in EXPECTED if name not in self.reached]

    @property
    def unhit(self) -> list[str]:
        """Sites of ``buggify`` that have not fired."""
        return [name for name in SITES if f"site {name}" not in self.hits]

    @property
    def left_s(self) -> float:
        """Real seconds that it will go on for at this pace."""
        return (self.wanted - self.runs - self.skipped) * self.wall_s / self.runs if self.runs else math.inf

    def to_dict(self) -> dict[str, Any]:
        """The summary as an object that can be written as JSON."""
        names = (
            "wanted",
            "runs",
            "skipped",
            "repeated",
            "futures",
            "faults",
            "failed",
            "interrupted",
            "unreached",
            "unhit",
        )
        numbers = {name: getattr(self, name) for name in names}
        numbers["features"] = len(self.features)
        counts = {name: dict(sorted(getattr(self, name).items())) for name in ("hits", "reached", "waived")}
        times = {name: round(getattr(self, name), 2) for name in ("virtual_s", "cpu_s", "wall_s")}
        failures = [
            {**failure.to_dict(), "file": str(failure.file) if failure.file else None}
            for failure in self.failures.values()
        ]
        runs = {name: {"runs": runs, "failed": failed} for name, (runs, failed) in sorted(self.by_workload.items())}
        return {
            **numbers,
            **times,
            **counts,
            "workloads": runs,
            "failures": failures,
            "mended": [str(path) for path in self.mended],
        }


# --- in the workers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Job:
    case: Case
    twice: bool
    file: Path | None = None
    fork: int = 0


_follow = Follow()
"""Policy for futures in this worker: rare moments are rare among its own runs."""


@dataclass(frozen=True, slots=True)
class _Result:
    outcome: CaseOutcome
    difference: str | None = None


def _work(job: _Job) -> _Result:
    follow = None
    if job.fork:
        _follow.branches, follow = job.fork, _follow
    first = run(job.case, events=job.twice, quick=not job.twice, follow=follow)
    if not job.twice:
        return _Result(first)
    second = run(job.case, events=True)
    difference = first_difference(first, second)
    first.events.clear()
    return _Result(first, difference)


def first_difference(outcome: CaseOutcome, other: CaseOutcome) -> str | None:
    """First difference between two runs of a case; None where they are the same."""
    if (outcome.journal_hash, outcome.schedule_hash) == (other.journal_hash, other.schedule_hash):
        return None
    for number, (first, second) in enumerate(zip_longest(outcome.events, other.events, fillvalue="(none)"), 1):
        if first != second:
            return f"event {number} of the journal is\n  {first}\nand the second time\n  {second}"
    return f"the journals are the same, the schedules are not: {outcome.steps} callbacks, then {other.steps}"


def shrunk(case: Case, failure: str, budget: int) -> Failure:
    """The failure with the smallest case that fails in the same way."""
    small = shrink(case, failure, budget=budget)
    return Failure(failure, small.outcome.text, small.case, shrunk=True, before=small.before, shrinking_runs=small.runs)


# --- the sweep -----------------------------------------------------------------------------------------------------------


_Key = tuple[str, int, float, str | None]
"""Workload, seed, duration, and the version where it is given."""


def _done(rows: Path | None, as_version: str | None) -> set[_Key]:
    """The runs that a file of rows has. Raises UsageError for one that is none."""
    keys: set[_Key] = set()
    if rows is None or not rows.exists():
        return keys
    for number, line in enumerate(rows.read_text().splitlines(), 1):
        try:
            row = json.loads(line)
            if as_version in (None, row["as_version"]):
                keys.add((row["workload"], row["seed"], row["duration_s"], as_version))
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{rows}, line {number}: not a row of a sweep") from None
    return keys


def _jobs(
    options: SweepOptions,
    kept: Sequence[tuple[Path, Case]],
    done: set[_Key],
    summary: SweepSummary,
    guide: Guide | None,
) -> Iterator[_Job]:
    for path, case in kept:
        yield _Job(case, False, path)
    for seed in options.seeds:
        workload = options.workloads[seed % len(options.workloads)]
        if (workload, seed, options.duration_s, options.as_version) in done:
            summary.skipped += 1
            continue
        twice = random.Random(f"{seed}/twice").random() < options.repeat
        case = Case(workload, seed, options.duration_s, as_version=options.as_version)
        yield _Job(case if guide is None else guide.next(case), twice, fork=0 if twice else options.fork)


def _wall_s() -> float:
    return os.times().elapsed  # of the machine: no simulation runs in this process


def sweep(options: SweepOptions, progress: Callable[[SweepSummary], object] = lambda summary: None) -> SweepSummary:
    """Run the corpus and all seeds. ``progress`` is called as runs end. Raises UsageError for an invalid corpus, or for options
    that need a corpus to save failures, without one."""
    if (options.guided or options.fork) and options.corpus is None:
        raise UsageError(
            "--guided and --fork need --corpus DIR: a failure they find is not the plan of a seed, and is replayed from its file there"
        )
    kept = kept_cases(options.corpus)
    summary = SweepSummary(wanted=len(kept) + len(options.seeds))
    began_s = _wall_s()
    guide = Guide() if options.guided else None
    jobs = _jobs(options, kept, _done(options.rows, options.as_version), summary, guide)
    with pool(options.jobs) as workers, WorkQueue(workers) as work, _lines(options.rows) as write:
        running: dict[Future[_Result], _Job] = {}
        try:
            while len(summary.failures) < options.most:
                late = _wall_s() - began_s >= options.wall_s
                for job in () if late else islice(jobs, 2 * options.jobs - len(running)):
                    work.check()
                    running[work.submit(_work, job)] = job
                if not running:
                    break
                for future in sorted(work.done(), key=lambda done: running[done].case.seed):
                    job, result = running.pop(future), future.result()
                    note(summary, result.outcome, twice=job.twice, difference=result.difference, file=job.file)
                    write(json.dumps(verdict_row(result.outcome)))
                    for outcome in (result.outcome, *result.outcome.futures):
                        if guide is not None:
                            guide.note(outcome, varied=job.case.plan is not None)
                    for outcome in result.outcome.futures:
                        summary.wanted += 1
                        summary.futures += 1
                        note(summary, outcome)
                _keep_all(summary, options)
                summary.wall_s = _wall_s() - began_s
                progress(summary)
            if options.shrink:
                _shrink_all(work, summary, options)
            _draw_all(work, summary, options)
        except KeyboardInterrupt:
            summary.interrupted = True
    summary.wall_s = _wall_s() - began_s
    return summary


@contextmanager
def _lines(file: Path | None) -> Iterator[Callable[[str], object]]:
    """Return a function that appends a line to a file, at once."""
    if file is None:
        yield lambda line: None
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:

        def write(line: str) -> None:
            out.write(line + "\n")
            out.flush()

        yield write


def _keep_all(summary: SweepSummary, options: SweepOptions) -> None:
    """At once: a sweep that is killed loses nothing that it found."""
    for failure in summary.failures.values():
        if options.corpus is not None and failure.file is None:
            keep(failure, options.corpus)


def note(
    summary: SweepSummary,
    outcome: CaseOutcome,
    *,
    twice: bool = False,
    difference: str | None = None,
    file: Path | None = None,
) -> None:
    """A run has ended. ``twice``: it was done twice; ``difference``: what differed then; ``file``: of the corpus, whose case it is."""
    summary.runs += 1
    summary.repeated += twice
    summary.virtual_s += outcome.virtual_s * (1 + twice)
    summary.cpu_s += outcome.cpu_s * (1 + twice)
    summary.faults += outcome.begun
    summary.features |= outcome.features
    for name in ("hits", "reached", "waived"):
        getattr(summary, name).update(getattr(outcome, name))
    counts = summary.by_workload.setdefault(outcome.case.workload, [0, 0])
    counts[0] += 1
    counts[1] += outcome.failure is not None or difference is not None
    failure, text = outcome.failure, outcome.text
    if difference is not None:
        failure, text = "not deterministic", difference
    if failure is None:
        if file is not None:
            summary.mended.append(file)
        return
    summary.failed += 1
    known = summary.failures.get(f"{outcome.case.workload}: {failure}")
    if known is not None:
        known.count += 1
    else:
        first_failure = Failure(failure, text, outcome.case, file=file, old=file is not None)
        summary.failures[f"{outcome.case.workload}: {failure}"] = first_failure


def _shrink_all(work: WorkQueue, summary: SweepSummary, options: SweepOptions) -> None:
    """Shrink the failures of a sweep, but for those of the corpus, which are small, and those that are not deterministic."""
    asked = {
        name: work.submit(shrunk, failure.case, failure.failure, options.budget)
        for name, failure in summary.failures.items()
        if not failure.old and failure.failure != "not deterministic"
    }
    for name, small in zip(asked, work.results(asked.values()), strict=True):
        large = summary.failures[name]
        small.count, small.file = large.count, large.file
        summary.failures[name] = small
        if options.corpus is not None:
            keep(small, options.corpus)


def _draw_all(work: WorkQueue, summary: SweepSummary, options: SweepOptions) -> None:
    """The timelines of what failed, each by one more run."""
    asked = {name: work.submit(draw_case, failure.case, options.timeline) for name, failure in summary.failures.items()}
    for name, drawn in zip(asked, work.results(asked.values()), strict=True):
        summary.failures[name].picture, summary.failures[name].drawn = drawn


def draw_case(case: Case, directory: Path | None = None, width: int = 100) -> tuple[str, tuple[Path, ...]]:
    """Run a case, and draw the timeline of each of its groups: in characters, one below the other, and for a browser into files of
    ``directory``, which are named. Nothing where there was no journal."""
    from broker_sim.explain.picture import html
    from broker_sim.explain.terminal import timeline

    failing = run(replace(case, journal=True), events=True)
    events = [json.loads(event) for event in failing.events]
    groups = sorted({event["group"] for event in events if event["event"] == "group"})
    files = []
    for group in groups if directory is not None else ():
        assert directory is not None
        directory.mkdir(parents=True, exist_ok=True)
        files.append(directory / f"{case.workload}-{case.seed}-{re.sub(r'[^a-zA-Z0-9]+', '-', group)}.html")
        files[-1].write_text(html(events, group, f"{case.workload}, seed {case.seed}: {group}"), encoding="utf-8")
    lines = [*_shown_lines(failing.records), *_shown_lines(_beside(failing, events)), *_shown_lines(failing.moment)]
    return "\n".join([*lines, *(timeline(events, group, width) for group in groups)]), tuple(files)


def _shown_lines(lines: list[str]) -> list[str]:
    return [*lines, ""] if lines else []


def _beside(failing: CaseOutcome, events: list[dict[str, Any]]) -> list[str]:
    """Difference from a clean run that has one thing otherwise: no fault of its plan, the last first, without a single deed, or with
    randomness at one host fewer, or with or without jitter. None of those tried may be clean: then the list is empty."""
    if failing.failure is None:
        return []
    case = failing.case
    plan, noisy = case.plan or (), case.noisy
    ways = [
        (f"without {plan[at].text}", replace(case, plan=(*plan[:at], *plan[at + 1 :])))
        for at in reversed(range(len(plan)))
    ]
    deeds = case.deeds or ()
    ways += [
        (f"without deed {deeds[at][1]} of {deeds[at][0]}", replace(case, deeds=(*deeds[:at], *deeds[at + 1 :])))
        for at in reversed(range(len(deeds)))
    ]
    ways += [
        (
            f"without the jitter and the order of tasks of {host}",
            replace(case, noisy=tuple(n for n in noisy or () if n != host)),
        )
        for host in noisy or ()
    ]
    ways.append(
        ("with jitter", replace(case, calm=False)) if case.calm else ("without jitter", replace(case, calm=True))
    )
    for what, other in ways[:_NEIGHBOURS]:
        outcome = run(other, events=True)
        if outcome.failure is None:
            return parting(events, [json.loads(event) for event in outcome.events], what, EPOCH_MS)
    return []


# --- the corpus ----------------------------------------------------------------------------------------------------------


def keep(failure: Failure, corpus: Path) -> Path:
    """Write a failure's file, again where it has one. Raises OSError."""
    if failure.file is None:
        corpus.mkdir(parents=True, exist_ok=True)
        slug = re.sub(r"[^a-z0-9]+", "-", failure.failure.lower()).strip("-")[:60]
        failure.file = corpus / f"{failure.case.workload}-{slug}-{failure.case.seed}.json"
    failure.file.write_text(json.dumps(failure.to_dict(), indent=1) + "\n")
    return failure.file


def kept_cases(corpus: Path | None) -> list[tuple[Path, Case]]:
    """A corpus, by the names of its files. Raises UsageError for a file that is none of its."""
    return [(path, read_case(path)) for path in sorted(corpus.glob("*.json"))] if corpus is not None else []


def read_case(path: Path) -> Case:
    """The case of a corpus file. Raises UsageError, in one line, for a file that is none."""
    try:
        value = json.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{path} does not contain a saved failure of a sweep")
    try:
        return case_from(value)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def draw(path: Path, directory: Path | None = None) -> tuple[str, tuple[Path, ...]]:
    """As `draw_case` of a corpus file, in such a process. Raises UsageError."""
    case = read_case(path)
    with pool(1) as workers:
        return workers.submit(draw_case, case, directory).result()


def replay(path: Path) -> CaseOutcome:
    """Run a corpus file again, in a process with the hash seed pinned. Raises UsageError."""
    case = read_case(path)
    with pool(1) as workers:
        return workers.submit(_work, _Job(case, False)).result().outcome

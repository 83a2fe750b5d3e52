"""Scenarios with many seeds, in virtual time, on several processes: do their verdicts hold whatever the latencies and the order?

    found = sweep(Path("incident.yaml"), range(200), jobs=4)
    found.codes                                                 # Counter({0: 198, 1: 2})
    found.failures[0].report                                    # of the first seed that broke it

Rules:
1. A seed draws each message's latency, when clients are up, and every chance of brokers and clients. A run with that seed alone is the
   same: ``broker-sim run FILE --virtual --seed N``.
2. A share of the seeds is run twice; a different run is also a failure.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from broker_sim.common.text import UsageError
from broker_sim.scenario.model import read
from broker_sim.scenario.runner import BROKEN, HELD, LATE, ScenarioOptions
from broker_sim.scenario.virtual import check, play
from broker_sim.simulation.errors import SimError
from broker_sim.simulation.sweeps.workers import WorkQueue, pool

__all__ = ["Failed", "Sweep", "show", "sweep", "text_of"]

_TWICE = 0.05
_SHOWN = 12
"""Seeds that are named, and lines of the first report that are shown for a verdict."""

_WORDS = {HELD: "held", BROKEN: "broken", LATE: "late"}


@dataclass(frozen=True, slots=True)
class Failed:
    """A seed whose verdict did not hold. ``code``: as of ``broker-sim run``."""

    seed: int
    code: int
    report: str


@dataclass(slots=True)
class Sweep:
    """The results of many seeds. ``sequences``: how many seeds had the same sequence of group states, by its hash; ``wall_s``,
    ``cpu_s``: real seconds of the whole, CPU seconds of the runs."""

    path: Path
    wanted: int
    name: str = ""
    runs: int = 0
    repeated: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    sequences: Counter[str] = field(default_factory=Counter)
    failures: list[Failed] = field(default_factory=list)
    virtual_s: float = 0.0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    interrupted: bool = False

    @property
    def code(self) -> int:
        """The exit code of the sweep: the largest one of its seeds."""
        return max(self.codes, default=HELD)

    def to_dict(self) -> dict[str, Any]:
        """The result as an object that can be written as JSON."""
        return {
            "scenario": self.name,
            "wanted": self.wanted,
            "runs": self.runs,
            "repeated": self.repeated,
            **{word: self.codes[code] for code, word in _WORDS.items()},
            "group_state_sequences": len(self.sequences),
            "failures": [
                {"seed": failure.seed, "verdict": _WORDS[failure.code], "report": failure.report}
                for failure in self.failures
            ],
            **{name: round(getattr(self, name), 2) for name in ("virtual_s", "wall_s", "cpu_s")},
            "interrupted": self.interrupted,
        }


@dataclass(frozen=True, slots=True)
class _Run:
    """Result of one seed, as it is passed between processes."""

    seed: int
    name: str
    code: int
    report: str
    sequence: str
    virtual_s: float
    cpu_s: float
    twice: bool


def _play(path: Path, seed: int, given: Mapping[str, Any]) -> _Run:
    """Run one seed of a scenario in a worker process; returns its result."""
    began = os.times()
    twice = random.Random(f"{seed}/twice").random() < _TWICE
    name, code, report, sequence, virtual_s, hashes = path.stem, BROKEN, "", "", 0.0, []
    try:
        for _ in range(1 + twice):
            outcome = play(read(path), ScenarioOptions(seed=seed, **given))
            name, code, virtual_s = outcome.name, outcome.code, virtual_s + outcome.seconds
            report = outcome.report() if code else ""
            sequence = hashlib.sha256("\n".join(outcome.group_states).encode()).hexdigest()
            hashes.append((outcome.journal_hash, outcome.schedule_hash))
    except SimError as error:
        code, report = BROKEN, f"{type(error).__name__}: {error}"
    except UsageError as error:
        raise UsageError(str(error)) from None  # of a kind that can cross processes
    if len({*hashes}) > 1:
        code, report = (
            BROKEN,
            f"not the same run when it is played again: broker-sim run {path} --virtual --seed {seed} --repeat 2",
        )
    ended = os.times()
    return _Run(
        seed, name, code, report, sequence, virtual_s, ended.user + ended.system - began.user - began.system, twice
    )


def sweep(
    path: Path, seeds: range, *, jobs: int = 1, progress: Callable[[Sweep], object] = lambda sweep: None, **given: Any
) -> Sweep:
    """Play it with every seed. ``given``: `ScenarioOptions`' ``as_version`` and ``clients``. Raises UsageError, ClusterError."""
    check(read(path), ScenarioOptions(seed=0, **given))
    result = Sweep(path, len(seeds))
    began_s, waiting = os.times().elapsed, iter(seeds)
    with pool(min(jobs, len(seeds))) as workers, WorkQueue(workers) as work:
        running: set[Future[_Run]] = set()
        try:
            while True:
                for seed in islice(waiting, 2 * jobs - len(running)):
                    work.check()
                    running.add(work.submit(_play, path, seed, given))
                if not running:
                    break
                done = work.done()
                running -= done
                for run in sorted((future.result() for future in done), key=lambda run: run.seed):
                    _note(result, run)
                result.wall_s = os.times().elapsed - began_s
                progress(result)
        except KeyboardInterrupt:
            result.interrupted = True
    result.failures.sort(key=lambda failure: failure.seed)
    return result


def _note(result: Sweep, run: _Run) -> None:
    result.name = run.name
    result.runs += 1
    result.repeated += run.twice
    result.codes[run.code] += 1
    result.sequences[run.sequence] += 1
    result.virtual_s += run.virtual_s
    result.cpu_s += run.cpu_s
    if run.code:
        result.failures.append(Failed(run.seed, run.code, run.report))


def text_of(result: Sweep) -> str:
    """The result of a sweep as lines of text."""
    counts = ", ".join(
        f"{result.codes[code]} {word}" for code, word in _WORDS.items() if result.codes[code] or not code
    )
    ended = " (interrupted)" if result.interrupted else ""
    pace = result.virtual_s / (result.wall_s or 1.0)
    lines = [
        f"{result.name}: {result.runs} seeds{ended}: {counts}; different sequences of group states: {len(result.sequences)}",
        f"{result.virtual_s:.0f} virtual s in {result.wall_s:.1f} s, {pace:.0f} virtual s/s; "
        f"{result.repeated} runs repeated as a check",
    ]
    for code, word in _WORDS.items():
        these = [failure for failure in result.failures if failure.code == code]
        if these:
            more = f" and {len(these) - _SHOWN} more" if len(these) > _SHOWN else ""
            lines += ["", f"{word} with the seeds {', '.join(str(failure.seed) for failure in these[:_SHOWN])}{more}"]
            lines.append(f"  again: broker-sim run {result.path} --virtual --seed {these[0].seed}")
            lines += [f"  {line}" for line in these[0].report.splitlines()[:_SHOWN]]
    return "\n".join(lines)


def show(
    paths: Sequence[Path], seeds: range, *, jobs: int, quiet: bool = False, as_json: bool = False, **given: Any
) -> int:
    """Sweep each file, print its result, and return the worst code. ``given``: as `sweep`. Raises UsageError, ClusterError."""
    worst = HELD
    for path in paths:
        line = _SweepProgress(quiet=quiet)
        result = sweep(path, seeds, jobs=jobs, progress=line.show, **given)
        line.end()
        sys.stdout.write((json.dumps(result.to_dict()) if as_json else text_of(result)) + "\n")
        sys.stdout.flush()
        worst = max(worst, result.code)
        if result.interrupted:
            raise KeyboardInterrupt
    return worst


class _SweepProgress:
    """The progress: one line of a terminal that is written again and again, else nothing."""

    def __init__(self, *, quiet: bool) -> None:
        self._shows = not quiet and sys.stderr.isatty()

    def show(self, result: Sweep) -> None:
        if self._shows:
            sys.stderr.write(
                f"\r\x1b[K{result.path.stem}: {result.runs}/{result.wanted} seeds, {len(result.failures)} failed"
            )
            sys.stderr.flush()

    def end(self) -> None:
        if self._shows:
            sys.stderr.write("\r\x1b[K")

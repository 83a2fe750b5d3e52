"""Measures one row: every system in turn, run after run, then the medians and the verdicts on the goals."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.load import LoadFailed, cpu_us, kload, measured
from benchmarks.programs import Unavailable
from benchmarks.rows import BenchmarkRow, Goal
from benchmarks.systems import Running, System

BROKER_CORE, LOAD_CORE = 0, 1
_WARM_UP_S = 5.0


@dataclass
class Measured:
    """Results of a system's runs of a row."""

    values: list[float] = field(default_factory=list)
    cpus_us: list[float] = field(default_factory=list)
    missing: str = ""

    @property
    def value(self) -> float:
        """Median in the row's measure."""
        return statistics.median(self.values) if self.values else 0.0

    @property
    def cpu_us(self) -> float:
        """Median CPU of the broker per request."""
        return statistics.median(self.cpus_us) if self.cpus_us else 0.0


@dataclass(frozen=True)
class Verdict:
    """One goal for one of our systems; ``by_cpu`` is the ratio of CPU per request (theirs / ours)."""

    system: str
    peer: str
    ratio: float
    by_cpu: float
    goal: float

    @property
    def passed(self) -> bool:
        """Whether the goal is reached."""
        return self.ratio >= self.goal


def measure(
    row: BenchmarkRow, ours: list[System], runs: int, seconds: float, say: Callable[[str], None]
) -> dict[str, Measured]:
    """Run the row; a system that is not installed or fails has ``missing`` set."""
    systems = [*ours, *row.peers]
    results = {system.name: Measured() for system in systems}
    with contextlib.ExitStack() as stack:
        kept: dict[str, Running] = {}
        for number in range(runs):
            for system in systems:
                outcome = results[system.name]
                if outcome.missing:
                    continue
                say(f"{row.title}: run {number + 1} of {runs}, {system.name}")
                try:
                    if not system.warm:
                        with system.running(BROKER_CORE) as broker:
                            _run(row, system, broker, seconds, outcome, fill=True)
                        continue
                    fresh = system.name not in kept
                    if not fresh:
                        os.kill(kept[system.name].pid, signal.SIGCONT)
                    if fresh:
                        kept[system.name] = stack.enter_context(system.running(BROKER_CORE))
                        _warm_up(row, system, kept[system.name], seconds)
                    _run(row, system, kept[system.name], seconds, outcome, fill=fresh)
                    os.kill(kept[system.name].pid, signal.SIGSTOP)  # its background work is not the others' burden
                except (Unavailable, LoadFailed, RuntimeError) as error:
                    outcome.missing = str(error)
    return results


def _run(row: BenchmarkRow, system: System, broker: Running, seconds: float, outcome: Measured, *, fill: bool) -> None:
    if row.before and fill:
        kload(broker, LOAD_CORE, [*row.before, *system.load_flags])
    result = kload(broker, LOAD_CORE, _arguments(row, system, seconds))
    outcome.values.append(measured(result, row.measure))
    outcome.cpus_us.append(cpu_us(result, row.measure))


def _warm_up(row: BenchmarkRow, system: System, broker: Running, seconds: float) -> None:
    if row.timed:  # a JVM compiles what it runs often
        if row.before:
            kload(broker, LOAD_CORE, [*row.before, *system.load_flags])
        kload(broker, LOAD_CORE, _arguments(row, system, max(seconds, _WARM_UP_S)))


def _arguments(row: BenchmarkRow, system: System, seconds: float) -> list[str]:
    timed = ["--seconds", str(seconds)] if row.timed else []
    return [*row.load, *timed, *system.load_flags]


def verdicts(row: BenchmarkRow, results: dict[str, Measured], ours: list[System]) -> list[Verdict]:
    """Verdicts on the row's goals: each of our systems against the best of a goal's peers."""
    return [
        verdict
        for goal in row.goals
        for system in ours
        if (verdict := _verdict(row, results, system.name, goal)) is not None
    ]


def _verdict(row: BenchmarkRow, results: dict[str, Measured], name: str, goal: Goal) -> Verdict | None:
    mine = results[name]
    peers = [(results[peer].value, peer) for peer in goal.peers if results[peer].values]
    if not mine.values or not peers:
        return None
    less_is_better = row.measure == "wall_ms"
    value, peer = min(peers) if less_is_better else max(peers)
    ratio = value / mine.value if less_is_better else mine.value / value
    by_cpu = results[peer].cpu_us / mine.cpu_us if mine.cpu_us else 0.0
    return Verdict(name, peer, ratio, by_cpu, goal.ratio)

"""Cost of virtual time: CPU seconds of simulated lives, and how many of them are the clients' own.

The clients are aiokafka's, unmodified: their share is the floor that no broker or loop gets below. It is found by sampling: a signal
every millisecond of CPU time, whose frame tells whose code is running.

    python -m benchmarks --only simulation
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from benchmarks.scale import Figure
from broker_sim.simulation import Simulation, simulate
from tests.simulation.workload import begin, twenty_minutes

_EVERY_S = 0.001
_LONG_POLL: dict[str, Any] = {"fetch_max_wait_ms": 30_000}

FOUNDING_CPU_S, REBALANCE_CPU_MS, RUN_CPU_MS, BEGIN_CPU_MS = 1.0, 50.0, 1000 / 30, 10.0
"""The limits."""


class Shares:
    """Samples by whose code was running."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def note(self, signum: int, frame: FrameType | None) -> None:
        """Handle the profiling signal: count the sample."""
        self.counts[_whose(frame)] += 1

    def of(self, name: str) -> float:
        """The share of samples in a part, from 0 to 1."""
        return self.counts[name] / (sum(self.counts.values()) or 1)

    @property
    def text(self) -> str:
        """In percent, the largest first."""
        return ", ".join(f"{name} {self.of(name):.0%}" for name, _ in self.counts.most_common())


def _whose(frame: FrameType | None) -> str:
    """Return the owner of the innermost code that has one: asyncio's code is its caller's."""
    while frame is not None:
        path = frame.f_code.co_filename
        if "/aiokafka/" in path or path.endswith("workloads/programs.py"):
            return "clients"
        if "/broker_sim/simulation/" in path:
            return "loop and network"
        if "/broker_sim/" in path or "/kafka_wire/" in path or path.startswith("<"):
            return "broker"
        frame = frame.f_back
    return "else"


@contextmanager
def _sampled() -> Iterator[Shares]:
    shares = Shares()
    before = signal.signal(signal.SIGPROF, shares.note)
    signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)
    try:
        yield shares
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _cpu(live: Callable[[Simulation], object], times: int) -> float:
    """CPU seconds of the fastest run; the seeds are 1, 2, 3 ..."""
    best = float("inf")
    for seed in range(1, times + 1):
        began = time.process_time()
        with simulate(seed) as sim:
            live(sim)
        best = min(best, time.process_time() - began)
    return best


def _figures(name: str, live: Callable[[Simulation], object], limit: float, unit: str, times: int) -> list[Figure]:
    """Measure the cost of a life, and that as a multiple of its clients' share."""
    _cpu(live, 1)  # imports, and compiles codecs
    cpu_s = _cpu(live, times)
    with _sampled() as shares:
        _cpu(live, times)
    scale = 1000 if unit == "CPU ms" else 1
    whole = Figure(f"simulation: {name}", cpu_s * scale, unit, limit, shares.text)
    ratio = 1 / (shares.of("clients") or 1)
    return [
        whole,
        Figure("  whole / clients' own share", ratio, "x", 0, f"the clients alone: {cpu_s * scale / ratio:.3g} {unit}"),
    ]


def _thirty_seconds(options: dict[str, Any]) -> Callable[[Simulation], object]:
    def live(sim: Simulation) -> None:
        begin(sim, **options)
        sim.run_for(30)

    return live


def _long_rebalance(options: dict[str, Any]) -> Callable[[Simulation], object]:
    """Two members, one of which hangs while a third one comes: its rebalance timeout of 300 s."""

    def live(sim: Simulation) -> None:
        group = begin(
            sim, members=2, every_s=1e6, max_poll_interval_ms=300_000, rebalance_timeout_ms=300_000, **options
        )
        sim.run_until(lambda: group.stable(2), within="1m")
        sim.pause("c1")
        sim.run_for(1)
        sim.resume("c1")
        group.consumers[0].hang_s = 1e6
        sim.run_for(300)

    return live


def _beginning() -> float:
    """CPU seconds of an empty simulation: many at once, as some clocks have long ticks."""
    began = time.process_time()
    for seed in range(100):
        with simulate(seed) as sim:
            sim.cluster()
    return (time.process_time() - began) / 100


def _measure() -> Iterator[Figure]:
    for suffix, options in (("", {}), (", fetch_max_wait_ms=30000", _LONG_POLL)):
        yield from _figures(
            f"20 minutes of 3 consumers and a producer{suffix}",
            lambda sim, options=options: twenty_minutes(sim, **options),  # type: ignore[misc]
            FOUNDING_CPU_S, "CPU s", 2,
        )  # fmt: skip
        yield from _figures(f"30 s of 4 clients{suffix}", _thirty_seconds(options), RUN_CPU_MS, "CPU ms", 12)
        yield from _figures(f"300 s of 2 consumers{suffix}", _long_rebalance(options), REBALANCE_CPU_MS, "CPU ms", 3)
    yield Figure("simulation: beginning and end", _beginning() * 1000, "CPU ms", BEGIN_CPU_MS)


def simulation() -> list[Figure]:
    """Measure all figures in a process of their own: its hash seed is pinned, its signals are its own. Raises CalledProcessError."""
    command = [sys.executable, "-m", "benchmarks.simulation"]
    done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0"}, stdout=subprocess.PIPE, check=True)
    return [Figure(**fields) for fields in map(json.loads, done.stdout.splitlines())]


def main() -> None:
    """A figure a line, as JSON."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL + 1)
    for figure in _measure():
        print(json.dumps(dataclasses.asdict(figure)), flush=True)


if __name__ == "__main__":
    main()

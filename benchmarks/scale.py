"""Absolute measurements: start-up, memory, and whether a request costs the same in a large cluster as in a small one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compare import BROKER_CORE, LOAD_CORE
from benchmarks.load import kload
from benchmarks.systems import Running, System, free_port
from broker_sim import Cluster

GROUPS = (10, 1_000, 10_000)
CONNECTIONS = (10, 500, 2_000)
_STARTS = 60


@dataclass(frozen=True)
class Figure:
    """One number with what it must not exceed; ``limit`` 0: it is only shown."""

    title: str
    value: float
    unit: str
    limit: float
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether it keeps within its limit."""
        return self.limit == 0 or self.value <= self.limit


def start_up(system: System, runs: int) -> list[Figure]:
    """Process start to the bootstrap line, as a multiple of ``python -c "import asyncio"`` of the same Python, in turns."""
    bare: list[float] = []
    ready: list[float] = []
    pinned = ["taskset", "-c", str(BROKER_CORE)]
    for _ in range(max(runs, 5)):
        command = system.command(Path(tempfile.gettempdir()), free_port())
        began = time.perf_counter()
        subprocess.run([*pinned, command[0], "-c", "import asyncio"], stdin=subprocess.DEVNULL, check=True)
        bare.append(time.perf_counter() - began)
        ready.append(_time_to_ready([*pinned, *command], system.ready))
    ratio = statistics.median(ready) / statistics.median(bare)
    note = f"{statistics.median(ready) * 1000:.0f} ms against {statistics.median(bare) * 1000:.0f} ms"
    return [Figure(f"{system.name}: process start to the bootstrap line", ratio, "x import asyncio", 1.8, note)]


def cluster_start() -> Figure:
    """Milliseconds until `async with Cluster()` runs its block, on an event loop that is running: median of fifty."""

    async def starts() -> list[float]:
        taken = []
        for _ in range(_STARTS):
            began = time.perf_counter()
            async with Cluster(topics={"orders": 6}):
                taken.append(time.perf_counter() - began)
        return taken[_STARTS // 6 :]  # the first ones import modules

    ms = statistics.median(asyncio.run(starts())) * 1000
    return Figure("Cluster() in a running test", ms, "ms", 3, "one broker, a topic of 6 partitions")


def _time_to_ready(command: list[str], ready: str) -> float:
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tempfile.gettempdir(),  # not where Python would find another package of that name first
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if ready in line:
                return time.perf_counter() - began
        raise RuntimeError(f"{command[3:]} ended before it was ready")
    finally:
        if process.poll() is None:
            os.kill(process.pid, 15)
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def memory(system: System) -> list[Figure]:
    """RSS when idle, and what each of 10,000 groups of one member adds."""
    most = GROUPS[-1]
    with system.running(BROKER_CORE) as broker:
        idle = _rss_mib(broker.pid)
        result = kload(broker, LOAD_CORE, ["memory", "--groups", str(most)])
        rss = result["extra"]["rss_mib"]
    kib_each = (rss[str(most)] - rss["0"]) * 1024 / most
    return [
        Figure(f"{system.name}: memory when idle", idle, "MiB", 60),
        Figure(f"{system.name}: each of {most:,} one-member groups", kib_each, "KiB", 8),
    ]


def transactional_ids(system: System) -> list[Figure]:
    """Measure the RSS that each of 10,000 transactional ids adds with one transaction, the log of it included."""
    most = GROUPS[-1]
    with system.running(BROKER_CORE) as broker:
        rss = kload(broker, LOAD_CORE, ["transactional-ids", "--groups", str(most)])["extra"]["rss_mib"]
    kib_each = (rss[str(most)] - rss["0"]) * 1024 / most
    return [Figure(f"{system.name}: each of {most:,} transactional ids", kib_each, "KiB", 4)]


def transactions(system: System, runs: int, seconds: float) -> list[Figure]:
    """Broker CPU of a transaction, as a multiple of that of the same batch and offset without one; in turns."""
    costs: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for _ in range(runs):
        for flow, costs_us in costs.items():
            with system.running(BROKER_CORE) as broker:
                costs_us.append(
                    _cpu(broker, ["transaction", "--flow", str(flow), "--records", "10", "--seconds", str(seconds)])
                )
    bare, *those = (statistics.median(values) for values in costs.values())
    return [
        Figure(
            f"{system.name}: a transaction of version {flow} against none",
            cost / bare,
            "x",
            3,
            f"{cost:.0f} us against {bare:.0f} us",
        )
        for flow, cost in enumerate(those, 1)
    ]


def flatness(system: System, seconds: float, say: Callable[[str], None]) -> list[Figure]:
    """Broker CPU of a Heartbeat and of an OffsetCommit over the number of groups and of connections, as growth from the smallest."""
    out: list[Figure] = []
    for load in (["heartbeat"], ["commit", "--partitions", "10"]):
        say(f"{system.name}: {load[0]} among {GROUPS} groups")
        costs = [_cost_among_groups(system, load, groups, seconds) for groups in GROUPS]
        out.append(_growth(system, load[0], "groups", GROUPS, costs))
        say(f"{system.name}: {load[0]} over {CONNECTIONS} connections")
        costs = [_cost_over_connections(system, load, connections, seconds) for connections in CONNECTIONS]
        out.append(_growth(system, load[0], "connections", CONNECTIONS, costs))
    return out


def _growth(system: System, what: str, of: str, sizes: tuple[int, ...], costs: list[float]) -> Figure:
    note = ", ".join(f"{size:,}: {cost:.1f} us" for size, cost in zip(sizes, costs, strict=True))
    title = f"{system.name}: {what}, CPU at {sizes[-1]:,} against {sizes[0]:,} {of}"
    return Figure(title, costs[-1] / costs[0], "x", 1.5, note)


def _cost_among_groups(system: System, load: list[str], groups: int, seconds: float) -> float:
    with system.running(BROKER_CORE) as broker:
        kload(broker, LOAD_CORE, ["memory", "--groups", str(groups)])
        return _cpu(broker, [*load, "--conns", "8", "--inflight", "16", "--seconds", str(seconds)])


def _cost_over_connections(system: System, load: list[str], connections: int, seconds: float) -> float:
    with system.running(BROKER_CORE) as broker:
        arguments = ["--conns", str(connections), "--inflight", "1", "--warm", "20", "--seconds", str(seconds)]
        return _cpu(broker, [*load, *arguments])


def _cpu(broker: Running, arguments: list[str]) -> float:
    return float(kload(broker, LOAD_CORE, arguments)["broker_cpu_us_per_req"])


def _rss_mib(pid: int) -> float:
    time.sleep(0.3)  # let it come to rest: the bootstrap line is not the last thing a start does
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return float(line.split()[1]) / 1024
    return 0.0

"""Runs the load generator against a broker and reads its one line of JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from benchmarks.programs import built
from benchmarks.systems import Running

Result = dict[str, Any]


class LoadFailed(Exception):
    """kload could not do its work, or the broker answered errors."""


def kload(broker: Running, core: int, arguments: Sequence[str], *, timeout_s: float = 180) -> Result:
    """One run on ``core``; the result line of benchmarks/kload/stats.go. Raises LoadFailed for any error in it."""
    command = ["taskset", "-c", str(core), str(built("kload")), *arguments]
    command += ["--addr", broker.address, "--pid", str(broker.pid)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if not done.stdout.strip():
        raise LoadFailed(f"{' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    result: Result = json.loads(done.stdout.splitlines()[-1])
    if result["errors"]:
        raise LoadFailed(f"{' '.join(arguments)}: {result['errors']}")
    return result


def measured(result: Result, measure: str) -> float:
    """The figure of a row's ``measure``: requests/s, MB/s, or ms until a group is stable again."""
    if measure == "req_s":
        return float(result["req_s"])
    return float(result["extra"]["mb_s" if measure == "mb_s" else "wall_ms_median"])


def cpu_us(result: Result, measure: str) -> float:
    """Broker CPU per request in us; for a rebalance the CPU of one whole rebalance."""
    if measure == "wall_ms":
        return float(result["extra"]["cpu_ms_median"]) * 1000
    return float(result.get("broker_cpu_us_per_req", 0))

"""``python -m benchmarks``: measure and print the table."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.compare import BROKER_CORE, LOAD_CORE, Verdict, measure, verdicts
from benchmarks.hostile import hostile
from benchmarks.loading import loading
from benchmarks.mutants import mutants
from benchmarks.pipeline import pipeline
from benchmarks.programs import Unavailable, built
from benchmarks.rows import rows
from benchmarks.scale import Figure, cluster_start, flatness, memory, start_up, transactional_ids, transactions
from benchmarks.seam import seam
from benchmarks.simulation import simulation
from benchmarks.systems import System, has_uvloop, simulator

_EXAMPLES = """\
examples:
  python -m benchmarks                       the whole table: three runs of 3 s for each system (about 20 minutes)
  python -m benchmarks --quick               one run of 1 s each: a look, not a measurement
  python -m benchmarks --only heartbeat --only commit
  python -m benchmarks --only rebalance --runs 5 --json results.json
  python -m benchmarks --only start --runs 15 --python installed/bin/python
"""

_SCALE = ("start", "memory", "flat", "loading", "hostile", "seam", "simulation", "pipeline", "mutants")
_WITHOUT_LOAD = ("loading", "simulation", "pipeline", "hostile", "mutants")


def main() -> int:
    """Exit code: 0 all goals reached, 1 some missed, 2 it could not be measured."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers are ended
    try:
        for program in (
            ("kload", "kfake") if any(not prefix.startswith(_WITHOUT_LOAD) for prefix in arguments.only or [""]) else ()
        ):
            _say(f"building {program}")
            built(program)
    except Unavailable as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    ours = [simulator(uvloop=name == "uvloop") for name in arguments.loops]
    out: dict[str, Any] = {"rows": [], "figures": []}
    missed = _rows(arguments, ours, out) + _figures(arguments, ours, out)
    if arguments.json is not None:
        Path(arguments.json).write_text(json.dumps(out, indent=1) + "\n")
    print(f"\n{missed} goals missed" if missed else "\nall goals reached")
    return 1 if missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the simulator against other brokers, as ratios in one run.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [*(row.name for row in rows()), *_SCALE]
    parser.add_argument("--quick", action="store_true", help="one short run each")
    parser.add_argument("--only", action="append", metavar="NAME", help=f"rows that begin so: {', '.join(names)}")
    parser.add_argument("--runs", type=int, default=3, help="runs of each system (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a run (default: %(default)s)")
    parser.add_argument(
        "--loop",
        action="append",
        dest="loops",
        choices=("asyncio", "uvloop"),
        help="event loop to measure the simulator on; repeatable (default: both, where uvloop is installed)",
    )
    parser.add_argument(
        "--python",
        default=sys.executable,
        metavar="FILE",
        help="interpreter whose broker-sim is started for start: one that is installed as users install it loads less than a "
        "checkout's (default: this one)",
    )
    parser.add_argument("--no-kafka", action="store_true", help="leave Apache Kafka out (no JVM)")
    parser.add_argument("--json", metavar="FILE", help="write every run's figures")
    arguments = parser.parse_args()
    if arguments.loops is None:
        arguments.loops = ["asyncio", "uvloop"] if has_uvloop() else ["asyncio"]
    if arguments.quick:
        arguments.runs, arguments.seconds = 1, 1.0
    unknown = [only for only in arguments.only or () if not any(name.startswith(only) for name in names)]
    if unknown:
        parser.error(f"no row begins with {unknown[0]!r}; there are: {', '.join(names)}")
    if (os.cpu_count() or 1) <= max(BROKER_CORE, LOAD_CORE):
        parser.error("two cores are needed: one for the broker, one for the load")
    return arguments


def _wanted(arguments: argparse.Namespace, name: str) -> bool:
    return not arguments.only or any(name.startswith(only) for only in arguments.only)


def _rows(arguments: argparse.Namespace, ours: list[System], out: dict[str, Any]) -> int:
    missed = 0
    for row in rows():
        if not _wanted(arguments, row.name):
            continue
        if arguments.no_kafka:
            row = row.without("Kafka")
        mine = [simulator(uvloop="uvloop" in system.name, disk=row.disk, as_version=row.as_version) for system in ours]
        results = measure(row, mine, arguments.runs, arguments.seconds, _say)
        row_verdicts: list[Verdict] = verdicts(row, results, mine)
        print(report.row_text(row, results, row_verdicts), end="\n\n", flush=True)
        out["rows"].append(report.row_json(row, results, row_verdicts))
        missed += sum(not verdict.passed for verdict in row_verdicts)
    return missed


def _figures(arguments: argparse.Namespace, ours: list[System], out: dict[str, Any]) -> int:
    missed: list[Figure] = []
    for figure in _measured(arguments, ours):
        _say("")
        print(report.figure_text(figure), flush=True)
        out["figures"].append(report.figure_json(figure))
        if not figure.passed:
            missed.append(figure)
    if missed:
        print("\nmissed, the farthest first:")
    for figure in sorted(missed, key=lambda entry: entry.value / entry.limit, reverse=True):
        print(report.figure_text(figure))
    return len(missed)


def _measured(arguments: argparse.Namespace, ours: list[System]) -> Iterator[Figure]:
    """Each figure as soon as it is measured."""
    for system, loop in zip(ours, arguments.loops, strict=True):
        if _wanted(arguments, "start"):
            _say(f"{system.name}: start-up")
            yield from start_up(simulator(uvloop=loop == "uvloop", python=arguments.python), arguments.runs)
        if _wanted(arguments, "memory"):
            _say(f"{system.name}: memory")
            yield from memory(system)
            yield from transactional_ids(system)
        if _wanted(arguments, "transaction"):
            _say(f"{system.name}: what a transaction costs")
            yield from transactions(system, arguments.runs, arguments.seconds)
        if _wanted(arguments, "flat"):
            yield from flatness(system, arguments.seconds, _say)
        if _wanted(arguments, "hostile"):
            yield from hostile(system)
    if _wanted(arguments, "start"):
        yield cluster_start()
    if _wanted(arguments, "loading"):
        yield from loading(_say, kafka=not arguments.no_kafka)
    if _wanted(arguments, "seam"):
        _say("what unused seams cost")
        yield seam()
    if _wanted(arguments, "simulation"):
        _say("simulated lives")
        yield from simulation()
    if "mutants" in (arguments.only or ()):  # it takes as long as all the others
        _say("mutants")
        yield mutants()
    if _wanted(arguments, "pipeline"):
        yield from pipeline(_say)


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}\r", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

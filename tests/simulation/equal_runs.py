"""Whether the simulations run as they did at another revision: for changes that are to change nothing that a client sees.

    python -m tests.simulation.equal_runs HEAD~3
    python -m tests.simulation.equal_runs v0.1.0 group tellers --seeds 200 --seconds 5

Each seed of each workload runs with the code of that revision and with that of the working tree, in processes of their own. Compared
are the verdict, the SHA-256 of the bytes that brokers and clients sent, and those of the journal and of the schedule (`Simulation`):
runs whose bytes are equal and whose schedule is not took other ways inside. Exit status 1 if a run differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_RECORD = """
import hashlib, json, sys
from broker_sim.simulation.sweeps.trial import Case, run
from broker_sim.simulation.virtual.transport import SimTransport
from broker_sim.simulation.workloads.catalogue import WORKLOADS

assert __import__("broker_sim").__file__.startswith(sys.argv[1])
real, sent = SimTransport.write, hashlib.sha256()

def write(self, data):
    sent.update(b"%d " % len(data))
    sent.update(data)
    real(self, data)

SimTransport.write = write
for workload in sys.argv[5:] or WORKLOADS:
    for seed in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
        sent = hashlib.sha256()
        done = run(Case(workload, seed, float(sys.argv[4])))
        row = {"workload": workload, "seed": seed, "failure": done.failure, "bytes": sent.hexdigest()}
        print(json.dumps({**row, "journal": done.journal_hash, "schedule": done.schedule_hash}), flush=True)
"""
_COMPARED = ("failure", "bytes", "journal", "schedule")


def _recording(tree: Path, arguments: argparse.Namespace) -> subprocess.Popen[str]:
    """A process that runs the seeds with the code in ``tree`` and prints a line of JSON each."""
    numbers = arguments.first, arguments.seeds, arguments.seconds
    path = os.pathsep.join([str(tree), str(tree / "protocol")])
    return subprocess.Popen(
        [sys.executable, "-c", _RECORD, str(tree), *map(str, numbers), *arguments.workloads],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tree,
        stdout=subprocess.PIPE,
        text=True,
    )


def _differences(arguments: argparse.Namespace, before: Path) -> Iterator[tuple[str, list[str]]]:
    """Each run, and what differs in it. Raises CalledProcessError if one of the two recordings fails."""
    with _recording(before, arguments) as old, _recording(ROOT, arguments) as new:
        assert old.stdout is not None
        assert new.stdout is not None
        for lines in zip_longest(old.stdout, new.stdout, fillvalue="{}"):
            then, now = map(json.loads, lines)
            found = [name for name in _COMPARED if then.get(name, "none") != now.get(name, "none")]
            run = then or now
            yield f"{run['workload']} {run['seed']}", found
    for process in (old, new):
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, process.args[:2])


def main() -> int:
    """Print each run that differs, and how many there were."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.equal_runs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("revision", help="a revision of git to compare the working tree with")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="workloads to run (default: all)")
    parser.add_argument("--seeds", type=int, default=20, help="seeds of each workload (20)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seconds", type=float, default=3.0, help="virtual seconds with faults (3)")
    arguments = parser.parse_args()
    runs = different = 0
    with tempfile.TemporaryDirectory(prefix="broker-sim-equal-") as folder:
        archive = subprocess.run(["git", "archive", arguments.revision], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        for name, found in _differences(arguments, Path(folder)):
            runs += 1
            different += bool(found)
            if found:
                print(f"{name}: {', '.join(found)}")
            elif sys.stderr.isatty():
                print(f"\r{runs} runs, {different} different", end="", file=sys.stderr)
    print(f"{runs} runs, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

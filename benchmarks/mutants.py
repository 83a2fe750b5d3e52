"""Share of a fixed sample of mutants that a general sweep misses: it may only fall. See tests/mutation.

python -m benchmarks --only mutants
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.scale import Figure
from tests.mutation.mutants import Mutant
from tests.mutation.score import Scored, table

_SAMPLE = ("--count", "25", "--budget", "20", "--seed", "benchmark")

MISSED = 80.0
"""Percent of the sample that may be missed: it was 79 when this was written. Equivalent mutants, and those that nothing reaches, are
among it."""


def _read(line: str) -> Scored:
    row = json.loads(line)
    return Scored(Mutant(**row.pop("mutant")), **row)


def mutants() -> Figure:
    """Measure the share of missed mutants, in some minutes. Raises CalledProcessError: the sweep fails without a mutant, too."""
    with tempfile.TemporaryDirectory() as directory:
        rows = Path(directory) / "rows.jsonl"
        command = [sys.executable, "-m", "tests.mutation", *_SAMPLE, "--rows", str(rows)]
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0"}, stdout=subprocess.DEVNULL, check=True)
        scored = [_read(line) for line in rows.read_text().splitlines()]
    *rooms, (_, count, caught, _, unreached, share) = table(scored)
    by_room = ", ".join(f"{room} {part:.0%}" for room, *_, part in rooms)
    note = f"{caught} of {count} found, {unreached} not reached; found by room: {by_room}"
    return Figure("mutants that a general sweep misses", (1 - share) * 100, "%", MISSED, note)

"""The tool that makes mutants and lets the sweep look for them."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.mutants import KINDS, ROOMS, ROOT, all_mutants, mutants_of, mutated
from tests.mutation.score import Scored, table


@pytest.mark.slow
def test_every_mutant_of_a_module_is_another_program() -> None:
    path = ROOT / "coordinator/classic/group.py"
    original = ast.unparse(ast.parse(path.read_text()))
    found = list(mutants_of(path))
    changed = [ast.unparse(mutated(mutant)[0]) for mutant in found[::7]]
    assert original not in changed
    assert [mutant.name for mutant in found] == [mutant.name for mutant in mutants_of(path)]


@pytest.mark.slow
def test_every_room_has_mutants_and_every_kind_is_made() -> None:
    found = all_mutants()
    assert {mutant.room for mutant in found} == set(ROOMS)
    assert {mutant.kind for mutant in found} == set(KINDS)


def test_a_mutant_of_another_source_is_refused() -> None:
    mutant = next(mutants_of(ROOT / "coordinator/classic/group.py"))
    other = type(mutant)(mutant.room, mutant.file, 10**6, mutant.kind, mutant.where, 1, 1, mutant.before)
    with pytest.raises(LookupError, match="not there any more"):
        mutated(other)


def test_what_no_run_comes_to_and_what_cannot_start_is_told_apart() -> None:
    mutant = next(mutants_of(ROOT / "coordinator/classic/group.py"))
    verdicts = ("found", "survived", "not reached", "stillborn")
    rows = table([Scored(mutant, verdict) for verdict in verdicts])
    assert rows[-1] == ("all", 3, 1, 1, 1, pytest.approx(1 / 3))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_general_sweep_finds_a_mutant_that_forgets_the_generation(tmp_path: Path) -> None:
    """Through the command, in processes of their own: one mutant that any run meets, and one that changes nothing."""
    rows = tmp_path / "rows.jsonl"
    command = [sys.executable, "-m", "tests.mutation", "--budget", "1", "--room", "coordinator", "--rows", str(rows)]
    command += ["--only", "ClassicGroup.begin_generation"]
    done = subprocess.run(
        command, cwd=ROOT.parent, capture_output=True, text=True, timeout=590, env={**os.environ, "PYTHONHASHSEED": "0"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = [json.loads(line)["verdict"] for line in rows.read_text().splitlines()]
    assert "found" in verdicts, done.stdout

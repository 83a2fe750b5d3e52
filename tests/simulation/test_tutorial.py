"""docs/simulation.md does what it says: its files and tests run, its report is the one that is printed, its numbers are about right."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "simulation.md").read_text()

BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
FILES = [block for block in BLOCKS if block.startswith("# file: ")]


def write(block: str, folder: Path) -> None:
    (folder / block.splitlines()[0].removeprefix("# file: ")).write_text(block)


def run_pytest(folder: Path, *arguments: str) -> str:
    """As in a shell of somebody who has installed the package."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", *arguments]
    done = processes.run(command, cwd=folder, env=environment)
    return done.stdout + done.stderr


def without_numbers(text: str) -> str:
    return re.sub(r"\d+", "0", text)


@pytest.mark.slow
def test_the_tutorial_finds_its_bug_and_its_report_is_as_shown(tmp_path: Path) -> None:
    for block in FILES[:2]:
        write(block, tmp_path)
    told = run_pytest(tmp_path)
    assert "1 failed" in told
    shown = re.search(r"^```text\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert shown is not None
    lines = without_numbers(told).splitlines()
    for line in shown[1].splitlines()[:4]:
        assert without_numbers(line) in lines, told


@pytest.mark.long
def test_the_tutorials_cure_is_one(tmp_path: Path) -> None:
    for block in FILES[1:]:
        write(block, tmp_path)
    assert "1 passed" in run_pytest(tmp_path, "--sim-seeds", "8")


@pytest.mark.slow
def test_the_readmes_example_is_the_file_that_runs(tmp_path: Path) -> None:
    file = (ROOT / "examples" / "test_simulated.py").read_text()
    readme = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"^```python\n(@pytest.mark.sim.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    head, tail = re.split(r"^ *\.\.\. .*\n", block, maxsplit=1, flags=re.MULTILINE)
    assert head in file
    assert tail in file
    (tmp_path / "test_simulated.py").write_text(file)
    assert "1 passed" in run_pytest(tmp_path, "--sim-seeds", "5")


@pytest.mark.parametrize("block", [block for block in BLOCKS if block not in FILES])
def test_the_other_examples_run(block: str) -> None:
    names: dict[str, Any] = {}
    exec(compile(block, "docs/simulation.md", "exec"), names)


def test_what_it_names_is_there() -> None:
    from broker_sim import simulation
    from broker_sim.testing import pytest_simulation

    with simulation.simulate(0) as sim:
        sim.cluster()
        assert [name for name in re.findall(r"`sim\.(\w+)", TEXT) if not hasattr(sim, name)] == []
    for name in re.findall(r"`(Sim[A-Z]\w+)`", TEXT):
        assert name in simulation.__all__
    table = TEXT[TEXT.index("### The mark") : TEXT.index("### Programs")]
    listed = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert listed == set(pytest_simulation.OPTIONS) - {"epoch_ms"}
    for option in re.findall(r"`(--sim-\w+)", TEXT):
        assert option in (ROOT / "broker_sim" / "testing" / "pytest_plugin.py").read_text()

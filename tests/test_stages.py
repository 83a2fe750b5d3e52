"""Complete report on the checks before a change lands: stages with tests that fail, hang, or fail now and then."""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import stages
from tests.stages import Result, Stage, report, run

PLUGINS = ("tests.support.outcomes", "pytest_timeout", "xdist")
PYTEST = (sys.executable, "-m", "pytest", "-q", *(word for name in PLUGINS for word in ("-p", name)))

NOW_AND_THEN = '''
import pathlib
import pytest

def tried(name):
    """How often this test was run."""
    file = pathlib.Path(__file__).with_name(name)
    count = int(file.read_text()) + 1 if file.exists() else 1
    file.write_text(str(count))
    return count
'''


class Project:
    """A folder with tests, and its stages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text("[pytest]\n")

    def stage(self, name: str, text: str, *, again: bool = False) -> Stage:
        """A stage of one file of tests."""
        (self.folder / f"test_{name}.py").write_text(NOW_AND_THEN + text)
        return Stage(name, (*PYTEST, f"test_{name}.py"), PYTEST if again else None)

    def run(self, stage: Stage) -> Result:
        return run(stage, self.folder, lambda line: None)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PYTHONPATH", str(stages.ROOT))
    monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", str(tmp_path))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a run takes a third of the time
    return Project(tmp_path)


def fails_until(number: int) -> str:
    return f'def test_late():\n    assert tried("late") >= {number}\n\ndef test_other():\n    tried("other")\n'


@pytest.mark.slow
def test_each_stage_runs_and_what_failed_in_each_is_listed(project: Project) -> None:
    """Also what hangs, with where it does, and a file that can't be loaded."""
    planted = [
        project.stage("one", "def test_wrong():\n    assert 1 == 2\n\ndef test_right(): pass\n"),
        project.stage("two", "import time\n\n@pytest.mark.timeout(0.2)\ndef test_hangs():\n    time.sleep(600)\n"),
        project.stage("three", "import no_such_module\n"),
        project.stage("four", "def test_wrong_too():\n    raise ValueError('always')\n", again=True),
        project.stage("five", "def test_right(): pass\n", again=True),
        Stage("six", (sys.executable, "-c", "raise SystemExit(3)")),
    ]
    lines, green = report([project.run(stage) for stage in planted])
    assert not green
    text = re.sub(r" +\d+ s  ", " S  ", "\n".join(lines))
    told = [line.strip() for line in text.splitlines()]
    assert told[:2] == [
        "one      red S  1 passed, 1 failed, 0 skipped",
        "FAILED test_one.py::test_wrong: assert 1 == 2",
    ]
    assert "FAILED test_two.py::test_hangs: Failed: Timeout (>0.2s) from pytest-timeout." in told
    assert "FAILED test_three.py: E   ModuleNotFoundError: No module named 'no_such_module'" in told
    assert "FAILED test_four.py::test_wrong_too: ValueError: always" in told
    assert "five     green S  1 passed, 0 failed, 0 skipped" in told
    assert told[-1].startswith("FAILED exit code 3: ")


@pytest.mark.parametrize(("right_from", "failures"), [(2, 1), (3, 2)])
def test_what_passes_alone_in_the_end_is_unsteady_and_the_run_is_green(
    project: Project, right_from: int, failures: int
) -> None:
    result = project.run(project.stage("real", fails_until(right_from), again=True))
    assert (result.code, result.failed, result.passed) == (0, {}, 2)
    assert result.unsteady == {"test_real.py::test_late": failures}
    assert (project.folder / "other").read_text() == "1", "what passed was run again"
    lines, green = report([result])
    assert green
    assert lines[1].strip().startswith("unsteady: test_real.py::test_late failed")


@pytest.mark.slow
def test_what_fails_three_times_is_red(project: Project) -> None:
    result = project.run(project.stage("real", fails_until(4), again=True))
    assert (project.folder / "late").read_text() == "3"
    assert (result.code, list(result.failed), result.unsteady) == (1, ["test_real.py::test_late"], {})


def test_where_time_is_nobodys_nothing_is_run_twice(project: Project) -> None:
    result = project.run(project.stage("steady", fails_until(2)))
    assert (project.folder / "late").read_text() == "1"
    assert list(result.failed) == ["test_steady.py::test_late"]


def test_more_than_five_that_fail_at_once_are_not_run_again(project: Project) -> None:
    text = '@pytest.mark.parametrize("n", range(6))\ndef test_late(n):\n    assert tried(str(n)) > 1\n'
    result = project.run(project.stage("real", text, again=True))
    assert len(result.failed) == 6
    assert {(project.folder / str(n)).read_text() for n in range(6)} == {"1"}
    assert "more than 5" in "\n".join(report([result])[0])


def test_what_a_listed_stage_finds_is_told_and_nothing_is_red(project: Project) -> None:
    sweep = Stage("seeds", (sys.executable, "-c", "raise SystemExit(1)"), is_listed=True)
    lines, green = report([project.run(sweep)])
    assert green
    assert re.match(r"seeds    found +\d+ s ", lines[0])
    assert lines[1].strip().startswith("FAILED exit code 1: ")


def test_the_sweep_has_other_seeds_each_day() -> None:
    today, tomorrow = (stages._sweep(datetime.date(2026, 11, day), 2) for day in (29, 30))
    assert "20261129000000..20261130000000" in today
    assert "20261130000000..20261131000000" in tomorrow


@pytest.mark.parametrize(("each", "green"), [([3, 2], True), ([3, 3], False)])
def test_more_than_five_unsteady_ones_in_all_are_red(each: list[int], green: bool) -> None:
    results = [
        Result(Stage(f"stage-{number}", (), ()), unsteady={f"test_{n}": 1 for n in range(count)})
        for number, count in enumerate(each)
    ]
    assert report(results)[1] is green


@pytest.mark.parametrize(("ci", "code"), [("true", 5), ("", 0)])
def test_a_stage_without_a_test_is_red_where_all_have_to_run(
    project: Project, monkeypatch: pytest.MonkeyPatch, ci: str, code: int
) -> None:
    """At a desk -k names a test of one stage, and the others have none."""
    monkeypatch.setenv("CI", ci)
    assert project.run(project.stage("real", "", again=True)).code == code


def test_runs_that_tests_start_are_not_counted(project: Project) -> None:
    (project.folder / "inner").mkdir()
    (project.folder / "inner" / "test_inner.py").write_text("def test_inner():\n    assert False\n")
    command = [*PYTEST, "inner"]
    text = f"import subprocess\n\ndef test_outer():\n    assert subprocess.run({command}).returncode == 1\n"
    result = project.run(project.stage("outer", text))
    assert (result.code, result.passed, result.failed) == (0, 1, {})


@pytest.mark.slow
@pytest.mark.parametrize("side_by_side", [(), ("-n", "2")])
def test_side_by_side_or_not_the_same_is_told(project: Project, side_by_side: tuple[str, ...]) -> None:
    stage = project.stage("one", "def test_wrong():\n    assert 1 == 2\n\ndef test_right(): pass\n")
    result = project.run(Stage(stage.name, (*stage.command, *side_by_side)))
    assert (result.code, result.passed, result.failed) == (1, 1, {"test_one.py::test_wrong": "assert 1 == 2"})


def test_every_test_has_one_stage() -> None:
    """Tests that make test leaves out, and no others, are in one of the stages of real time; recorded cases alone are in none."""
    makefile = (stages.ROOT / "Makefile").read_text()
    foreign = re.search(r"^FOREIGN := (.*)$", makefile, re.MULTILINE)
    assert foreign is not None
    every = stages.stages(1).values()
    marks = [stage.command[stage.command.index("-m", 3) + 1] for stage in every if stage.again is not None]
    names = ["real_kafka", "clients", "real_time", "spark", "browser"]
    for number in range(2 ** len(names)):
        marked = {name: bool(number >> index & 1) for index, name in enumerate(names)}
        matched = sum(matches(one, marked) for one in marks)
        assert matched == (1 if matches(foreign[1], marked) else 0), marked
    assert matches(marks[1], {"real_kafka": True})
    assert not any(matches(one, {"real_kafka": True, "recorded": True}) for one in marks)


def matches(expression: str, marked: dict[str, bool]) -> bool:
    """As pytest's -m does."""
    found: Callable[[str], str] = lambda name: str(marked.get(name, False))  # noqa: E731
    words = [
        word if word in ("and", "or", "not", "(", ")") else found(word) for word in re.findall(r"[()]|\w+", expression)
    ]
    return bool(eval(" ".join(words)))

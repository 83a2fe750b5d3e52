"""The parts of `make test`: each test and each source file belongs to one, and a change runs those that it concerns."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.parts import CHECKED, ELSEWHERE, PARTS, ROOT, changed_since, command, concerned

NO_TESTS = {"__init__.py", "conftest.py", "orders.py", "parts.py", "stages.py", "support"}
"""Modules that every test uses, and the programs that run them; `support` has one test of its own."""


def tracked(folder: str) -> list[str]:
    listed = subprocess.run(("git", "ls-files", folder), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return listed.stdout.splitlines()


def test_each_test_is_in_one_part() -> None:
    there = {path.split("/")[1] for path in tracked("tests")} - NO_TESTS
    listed = Counter([*ELSEWHERE, *CHECKED, *(path for part in PARTS.values() for path in part.tests)])
    assert {path for path, count in listed.items() if count > 1} == set()
    assert set(listed) == there


def test_each_source_file_concerns_a_part_and_no_source_is_missing() -> None:
    source = [
        *tracked("broker_sim"),
        *tracked("protocol"),
        *tracked("packages"),
        *tracked("scenarios"),
        *tracked("image"),
    ]
    named = tuple(path for part in PARTS.values() for path in part.source)
    assert [path for path in source if path != "broker_sim/py.typed" and not path.startswith(named)] == []
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        (["broker_sim/network/connection.py"], ["broker"]),
        (["broker_sim/explain/model.py"], ["interfaces", "pipeline"]),
        (["tests/simulation/test_bank.py", "broker_sim/pipeline/run.py"], ["simulation", "pipeline"]),
        (["tests/support/ctx.py"], list(PARTS)),
        (["pyproject.toml"], list(PARTS)),
        (["docs/api.md", "README.md", "tests/clients/clients.py", "tests/test_tidy.py"], []),
        ([], []),
    ],
)
def test_a_change_runs_the_parts_that_it_concerns(changed: list[str], parts: list[str]) -> None:
    assert concerned(changed) == parts


def test_what_has_changed_is_committed_or_not(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        given = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(("git", *given, *words), cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)

    git("init", "--quiet")
    for name in ("kept", "edited", "committed"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    (tmp_path / "committed").write_text("2")
    git("commit", "--quiet", "-am", "second")
    (tmp_path / "edited").write_text("2")
    (tmp_path / "new").write_text("1")
    assert changed_since("HEAD~1", tmp_path) == ["committed", "edited", "new"]
    with pytest.raises(subprocess.CalledProcessError):
        changed_since("nowhere", tmp_path)


def test_a_part_is_run_without_what_needs_more_than_python() -> None:
    words = command(["pipeline"], 3, ["-k", "lag"])
    assert words[-5:] == ["-k", "lag", "tests/incidents", "tests/pipeline", "tests/reproduce"]
    assert words[words.index("-n") + 1] == "3"
    assert "real_kafka" in words[words.index("-m", 3) + 1]

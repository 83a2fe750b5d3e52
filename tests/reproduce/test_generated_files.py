"""The files of a reproduction: Python and YAML can read them, whatever the names in the log are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from broker_sim.cli.main import main
from broker_sim.pipeline.finding import Finding
from broker_sim.reproduce.generated_scenario import GeneratedScenario, test_of
from broker_sim.reproduce.incident import SelectedIncident
from broker_sim.scenario.commands import shipped
from broker_sim.scenario.model import read
from broker_sim.scenario.runner import ScenarioOptions
from broker_sim.scenario.virtual import play
from tests.pipeline.cut_logs import renamed_directory

test_of.__test__ = False  # type: ignore[attr-defined]

NAMES = (
    "a\nb",
    "a\rb",
    "a\0b",
    'a"b',
    "a'b",
    "a\\",
    'a"""b',
    "# a",
    ": a",
    "- a",
    "{a}",
    "a\u2028\x85\x0c\x1bb",
    "\ufeffa",
    "😀",
    "\U000e0001",
    "%d",
    "",
)


def incident(name: str) -> SelectedIncident:
    return SelectedIncident(Finding("departed", "note", 1, f"{name} left {name}.", group=name), name, 0, 1)


def named(examples: tuple[str, ...]):  # type: ignore[no-untyped-def]
    """Any name, and these."""

    def decorated(test):  # type: ignore[no-untyped-def]
        for name in examples:
            test = example(name=name)(test)
        return given(name=st.text())(test)

    return decorated


@named(NAMES)
def test_the_test_file_is_python_and_names_the_group(name: str) -> None:
    module = ast.parse(test_of(incident(name)).encode())
    (function,) = (node for node in module.body if isinstance(node, ast.FunctionDef))
    constants = [node.value for node in ast.walk(function.body[-1]) if isinstance(node, ast.Constant)]
    assert constants == ["departed", name]
    assert "\n\nRuns incident.yaml in virtual time" in (ast.get_docstring(module) or "")


@named(NAMES)
def test_the_scenario_is_yaml_with_the_names(name: str) -> None:
    table = {
        "name": name,
        "clients": [{"name": f"1: {name}", "group": name}],
        "steps": [{"do": {"log": f"offsets({name})"}}],
    }
    text = GeneratedScenario(table, {}).scenario(f"2026-11-29  {name} left {name}.")
    assert text.startswith("# 2026-11-29  ")
    assert yaml.safe_load(text) == table


@pytest.mark.slow
def test_names_that_no_scenario_can_have_are_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play(read(shipped() / "crash-without-leave.yaml"), ScenarioOptions(data=tmp_path / "data"))
    renamed_directory(tmp_path / "data", tmp_path / "renamed", "\0")
    given = ["--input", str(tmp_path / "renamed"), "--out", str(tmp_path / "out"), "--group", "billing\0", "--quiet"]
    assert main(["reproduce", *given]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "not reproduced: billing\\x00: no scenario has its names: " in line
    assert "is not a text without NUL characters" in line
    assert not (tmp_path / "out").exists()

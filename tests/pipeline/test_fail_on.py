"""``pipeline run --fail-on``: an exit code for who runs it at night, by severity or by kind."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import broker_sim.pipeline
from broker_sim.cli.main import main
from broker_sim.pipeline import run
from broker_sim.pipeline.finding import KINDS, SEVERITIES, Finding, matching
from tests.pipeline.facts import facts

FOUND = [
    Finding("regression", "bad", 600, "billing went back.", group="billing"),
    Finding("storm", "warn", 110, "audit had 13 generations.", group="audit"),
    Finding("misplaced groups", "note", 40, "The groups lie oddly."),
    Finding("nothing", "good", 0, "Nothing unusual."),
]


@pytest.mark.parametrize(
    ("wanted", "kinds"),
    [
        ([], []),
        (["bad"], ["regression"]),
        (["warn"], ["regression", "storm"]),
        (["note"], ["regression", "storm", "misplaced groups"]),
        (["storm"], ["storm"]),
        (["bad", "misplaced groups"], ["regression", "misplaced groups"]),
        (["stuck"], []),
    ],
)
def test_a_severity_means_it_or_worse_and_a_kind_itself(wanted: list[str], kinds: list[str]) -> None:
    assert [one.kind for one in matching(FOUND, wanted)] == kinds


def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str) -> int:
    outcome = run.RunResult(facts(), FOUND, "file:///report.html")
    monkeypatch.setattr(run, "pipeline", lambda options, steps: outcome)
    return main(["pipeline", "run", "--input", str(tmp_path), "--out", str(tmp_path / "report"), *words])


def test_a_matching_finding_gives_exit_code_4_and_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, tmp_path) == 0
    assert command(monkeypatch, tmp_path, "--fail-on", "stuck") == 0
    capsys.readouterr()
    assert command(monkeypatch, tmp_path, "--fail-on", "bad", "--fail-on", "storm") == 4
    told = capsys.readouterr()
    assert "billing went back." in told.out, "the findings are told all the same"
    assert (
        told.err.splitlines()[-1] == "broker-sim pipeline run: --fail-on bad storm: regression (billing), storm (audit)"
    )


def test_an_unknown_kind_is_refused_before_any_input_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        command(monkeypatch, tmp_path, "--fail-on", "strom")
    assert left.value.code == 2
    assert "did you mean 'storm'?" in capsys.readouterr().err


def test_every_kind_of_finding_is_described() -> None:
    told = {
        node.args[0].value
        for path in Path(broker_sim.pipeline.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "Finding"
        and isinstance(node.args[0], ast.Constant)
    }
    assert told == set(KINDS)
    assert not told & set(SEVERITIES)

"""--since, --until, --group: what of an input is looked at, on both engines."""

from __future__ import annotations

import fnmatch
import json
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from broker_sim.common.text import UsageError
from broker_sim.pipeline import scope as scopes
from broker_sim.pipeline.commands import moment
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.progress import Steps
from broker_sim.pipeline.run import RunOptions, RunResult, pipeline
from broker_sim.pipeline.scope import Scope, literally, pattern_of
from tests.incidents.run_pipeline import recorded, unpack

STUCK = "stuck-shrunk-3.4.0-2"
"""scores-batch, plans-v2 and teams-sync have a stuck offsets partition from 09:34:36 to 09:35:05; quotes-batch is healthy."""
DURING, BEHIND = moment("2026-11-24T09:34:50"), moment("2026-11-24T09:35:20")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recorded")
    return {path.name: path for path in (unpack(packed, folder) for packed in recorded())}


def told(folder: Path, out: Path, scope: Scope) -> RunResult:
    options = RunOptions(
        str(out),
        str(folder / "data"),
        look_for_journal=False,
        broker_logs=(str(folder / "logs" / "brokers"),),
        client_logs=(str(folder / "logs" / "clients"),),
        overwrite=True,
        engine="duckdb",
        scope=scope,
    )
    return pipeline(options, Steps(sys.stderr, quiet=True))


def table(out: Path, name: str) -> list[dict[str, Any]]:
    """Return a table's rows, without columns of type datetime, which engines write in time zones of their own: those in ms remain."""
    (folder,) = (out / "tables" / name).iterdir()
    files = sorted(folder.glob("*.parquet"))
    rows = [row for file in files for row in parquet.read_table(file, partitioning=None).to_pylist()]
    plain = [{key: value for key, value in row.items() if not isinstance(value, datetime)} for row in rows]
    return sorted(plain, key=lambda row: json.dumps(row, default=str, sort_keys=True))


def of_kind(outcome: RunResult, kind: str) -> list[Finding]:
    return [one for one in outcome.findings if one.kind == kind]


# ------------------------------------------------------------------------------------------------ patterns


@pytest.mark.parametrize(
    "glob", ["billing", "bill*", "b?lling", "*", "", "a.b", "a+b(c)", "[ab]*", "[!a]*", "x[", "[]", "größe-*", "a\\b"]
)
def test_a_pattern_matches_as_in_a_shell(glob: str) -> None:
    names = ("billing", "bxlling", "a.b", "aXb", "a+b(c)", "", "b", "x[", "[]", "größe-1", "a\\b", "bill\ning")
    ours = re.compile(pattern_of(glob).replace(r"\z", r"\Z"))
    assert {name for name in names if ours.match(name)} == {name for name in names if fnmatch.fnmatchcase(name, glob)}


@pytest.mark.parametrize("name", ["a*b", "a?b", "[ab]", "x[", "plain"])
def test_a_name_is_fitted_by_itself_alone(name: str) -> None:
    ours = re.compile(pattern_of(literally(name)).replace(r"\z", r"\Z"))
    assert [one for one in ("a*b", "aab", "a?b", "[ab]", "a", "x[", "plain") if ours.match(one)] == [name]


def test_nothing_lies_between_a_moment_and_an_earlier_one() -> None:
    with pytest.raises(
        UsageError, match=r"nothing lies between --since 2026-11-24 09:35:20.000 and --until 2026-11-24 09:34:50"
    ):
        Scope(BEHIND, DURING)


# ------------------------------------------------------------------------------------------------ a time


@pytest.mark.slow
def test_later_records_than_until_are_ignored(kept: dict[str, Path], tmp_path: Path) -> None:
    outcome = told(kept[STUCK], tmp_path, Scope(None, DURING))
    assert max(row["record_ts_ms"] for row in table(tmp_path, "offset_log")) <= DURING
    assert max(row["ts_ms"] for row in table(tmp_path, "log_lines") if row["ts_ms"]) <= DURING
    stuck = of_kind(outcome, "stuck")
    assert len(stuck) == 3
    assert all(one.to_ms is None and " since 09:34:" in one.text for one in stuck)
    assert not of_kind(outcome, "session expired")  # at 09:34:51
    assert outcome.to_dict()["scope"] == "until 2026-11-24 09:34:50.000"


@pytest.mark.slow
def test_findings_that_began_before_the_window_say_so_and_earlier_ones_are_left_out(
    kept: dict[str, Path], tmp_path: Path
) -> None:
    within = told(kept[STUCK], tmp_path / "within", Scope(DURING, None))
    stuck = of_kind(within, "stuck")
    assert len(stuck) == 3
    assert all("It began before the window that was asked for (2026-11-24 09:34:50.000)" in one.text for one in stuck)
    assert all("began before" not in one.text for one in of_kind(within, "session expired"))
    assert not of_kind(within, "departed")  # at 09:34:25
    behind = told(kept[STUCK], tmp_path / "behind", Scope(BEHIND, None))
    assert not of_kind(behind, "stuck")
    assert behind.findings[0].kind == "nothing"
    assert "from 2026-11-24 09:35:20.000" in behind.findings[0].text
    assert behind.facts.from_ms == BEHIND
    lag = table(tmp_path / "behind", "lag")
    assert min(row["window_start_ms"] + row["window_ms"] for row in lag) > BEHIND


@pytest.mark.slow
def test_the_last_records_before_the_window_are_read(
    kept: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each partition of each group has its last commit, and each group its last record; so nothing is taken for new."""
    monkeypatch.setattr(scopes, "CONTEXT_MS", 2000)
    told(kept[STUCK], tmp_path / "all", Scope())
    outcome = told(kept[STUCK], tmp_path / "late", Scope(BEHIND, None))
    everything, late = table(tmp_path / "all", "offset_log"), table(tmp_path / "late", "offset_log")
    assert len(late) < len(everything) / 2
    early = [row for row in late if row["record_ts_ms"] < BEHIND - 2000]
    last = {}
    for row in sorted(everything, key=lambda row: (row["log_partition"], row["log_offset"])):
        if row["record_ts_ms"] < BEHIND - 2000:
            last[row["log_partition"], row["group"], row["topic"], row["partition"], row["kind"]] = row["log_offset"]
    assert {
        (row["log_partition"], row["group"], row["topic"], row["partition"], row["kind"]): row["log_offset"]
        for row in early
    } == last
    assert not table(tmp_path / "late", "rebalances")
    assert outcome.findings[0].kind == "nothing"
    states = {row["group"]: (row["state"], row["members"]) for row in table(tmp_path / "all", "groups")}
    assert {row["group"]: (row["state"], row["members"]) for row in table(tmp_path / "late", "groups")} == states


def test_a_window_after_the_log_end_is_reported_in_a_line(kept: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"--since 2026-11-25 00:00:00\.000: what was read ends before, at 2026-11-24 09:35:34"
    ):
        told(kept[STUCK], tmp_path, Scope(moment("2026-11-25")))


# ------------------------------------------------------------------------------------------------ groups


@pytest.mark.slow
def test_a_scope_of_groups_has_no_findings_that_need_other_groups(kept: dict[str, Path], tmp_path: Path) -> None:
    outcome = told(kept[STUCK], tmp_path, Scope(groups=("scores-*", "quotes-batch")))
    assert {row["group"] for row in table(tmp_path, "offset_log")} == {"scores-batch", "quotes-batch"}
    (stuck,) = of_kind(outcome, "stuck")
    assert (stuck.group, stuck.log_partition) == ("scores-batch", 6)
    assert not {one.kind for one in outcome.findings} & {"no records", "hotspot", "misplaced groups"}
    assert "teams-sync" not in outcome.text()
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "only groups scores-*, quotes-batch" in page


@pytest.mark.slow
def test_selected_groups_have_the_same_findings_as_among_others(kept: dict[str, Path], tmp_path: Path) -> None:
    """The tables of one group are those that it has in a run of all."""
    folder = kept["membership-3.4.0-2"]
    told(folder, tmp_path / "all", Scope())
    told(folder, tmp_path / "one", Scope(groups=("feeds-batch",)))
    for name in ("rebalances", "offset_regressions", "member_churn", "groups", "offset_stalls", "offset_log"):
        everything = [row for row in table(tmp_path / "all", name) if row["group"] == "feeds-batch"]
        assert table(tmp_path / "one", name) == everything, name


def test_a_missing_group_is_reported_in_a_line(kept: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--group scors-\*: no group of the input matches"):
        told(kept[STUCK], tmp_path, Scope(groups=("scores-*", "scors-*")))

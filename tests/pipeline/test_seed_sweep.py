"""``broker-sim simulate --engine spark``: the rows of the local engine, its findings, and a check that runs are the same elsewhere."""

from __future__ import annotations

import io
import itertools
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker_sim.common.text import UsageError
from broker_sim.pipeline.progress import Steps
from broker_sim.pipeline.tables.seed_verdicts import SEED_VERDICTS
from broker_sim.simulation.sweeps import on_spark
from broker_sim.simulation.sweeps.on_spark import TASK_S, Plan, SparkSweep, row_of, sized, sweep_on_spark
from broker_sim.simulation.sweeps.sweep import SweepOptions, read_case, sweep
from broker_sim.simulation.sweeps.trial import Case, run, verdict_row
from tests.simulation import planted

QUICK = SweepOptions(("alone", "group"), range(10, 22), duration_s=6.0, repeat=0.0)
TIMES = ("cpu_s",)


@contextmanager
def forgetful() -> Iterator[None]:
    """A coordinator that starts from its log forgets all offsets."""
    with pytest.MonkeyPatch.context() as patch:
        planted.commits_are_not_loaded(patch)
        yield


@contextmanager
def moody() -> Iterator[None]:
    """Let the outcome of a run depend on the moment."""
    real = on_spark.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_spark, "run", lambda case: tampered(real(case)))
        yield


def tampered(outcome: Any) -> Any:
    return replace(outcome, journal_hash=os.urandom(8).hex()) if outcome.case.seed == 13 else outcome


@pytest.fixture(autouse=True)
def _workers_know_what_is_planted() -> Iterator[None]:
    """Tests are no part of what Spark's workers can import."""
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    modules = (planted, sys.modules[__name__])
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


def swept(options: SweepOptions, out: Path | None = None, **more: Any) -> SparkSweep:
    steps = Steps(io.StringIO(), quiet=True)
    return sweep_on_spark(options, steps, out=None if out is None else str(out), **more)


def held(spark: Any, out: Path, table: str = SEED_VERDICTS.name) -> list[dict[str, Any]]:
    rows = spark.read.parquet(str(out / "tables" / table)).orderBy("seed", "pass")
    return [row.asDict() for row in rows.collect()]


def test_a_task_has_five_seconds_of_work_unless_cores_had_none() -> None:
    assert sized(0.005, 1_000_000, 8) == (1000, 1000)
    assert sized(0.005, 1_000_001, 8) == (1001, 1000)
    assert sized(60.0, 10, 2) == (1, 10)
    assert sized(0.1, 30, 4) == (8, 4)
    assert sized(0.1, 3, 4) == (1, 3)
    assert sized(0.0, 0, 4) == (1, 1)
    for cost_s, seeds, cores in itertools.product((0.01, 0.2, 3.0), (100, 5_000, 77_777), (1, 2, 64)):
        per_task, tasks = sized(cost_s, seeds, cores)
        assert per_task * tasks >= seeds
        assert seeds * cost_s / tasks >= min(TASK_S, seeds * cost_s / cores) * 0.99


def test_the_table_has_the_columns_of_a_row_of_the_local_engine() -> None:
    row = row_of(run(Case("alone", 1, 2.0)), Plan("r", ("alone",), 2.0, None))
    assert set(row) == set(SEED_VERDICTS.names)
    assert set(verdict_row(run(Case("alone", 1, 2.0)))) <= set(SEED_VERDICTS.names)


@pytest.mark.spark
def test_rows_are_those_of_the_local_engine(spark: Any, tmp_path: Path) -> None:
    lines = tmp_path / "rows.jsonl"
    local = sweep(replace(QUICK, rows=lines))
    found = swept(QUICK, tmp_path / "out", run_id="friday")

    names = [name for name in verdict_row(run(Case("alone", 1, 2.0))) if name not in TIMES]
    here = {row["seed"]: row for row in map(json.loads, lines.read_text().splitlines())}
    rows = held(spark, tmp_path / "out")
    there = {row["seed"]: row for row in rows if row["pass"] == 1}
    assert sorted(there) == list(QUICK.seeds)
    assert len(rows) == len(there) + found.again[0]
    for seed, row in here.items():
        made = [name for name in names if name != "journal_hash" or row[name]]  # a first pass here makes no hash
        assert {name: there[seed][name] for name in made} == {name: row[name] for name in made}
    assert all(row["journal_hash"] for row in rows if row["journal"]), "executors' runs are compared by it"
    assert {row["run_id"] for row in rows} == {"friday"}
    assert [row["seed"] for row in rows if row["pass"] == 2], "some were run again"
    for name in ("runs", "failed", "faults", "hits", "reached", "waived", "by_workload", "failures"):
        told = getattr(found.summary, name)
        assert told == getattr(local, name) or name == "faults", name
    assert held(spark, tmp_path / "out", "failures") == []


@pytest.mark.spark
def test_a_planted_bug_is_found_shrunk_kept_and_run_first_the_next_time(spark: Any, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    bad = SweepOptions(("alone",), range(10, 40), duration_s=12.0, shrink=True, budget=12, corpus=corpus)
    found = swept(bad, tmp_path / "out", world=forgetful)

    summary = found.summary
    assert summary.failed >= 1
    lost = [each for each in summary.failures.values() if each.failure in planted.LOST]
    assert lost, list(summary.failures)
    assert all(each.shrunk and len(each.case.plan or ()) <= each.before for each in lost)
    rows = held(spark, tmp_path / "out", "failures")
    assert sum(each.count for each in summary.failures.values()) == len(rows) == summary.failed
    assert all(row["verdict"] == "failed" and json.loads(row["schedule"]) and row["text"] for row in rows)
    with forgetful():
        assert run(read_case(lost[0].file)).failure == lost[0].failure  # type: ignore[arg-type]

    again = swept(replace(bad, seeds=range(1), shrink=False), world=forgetful)
    assert any(each.old for each in again.summary.failures.values())
    mended = swept(replace(bad, seeds=range(1), shrink=False))
    assert len(mended.summary.mended) == len(list(corpus.glob("*.json")))


@pytest.mark.spark
def test_a_run_that_differs_on_another_machine_is_a_failure(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_spark, "AGAIN", 1.0)
    monkeypatch.setattr(on_spark, "TASK_S", 0.001)
    monkeypatch.setattr(on_spark, "PART_TASKS", 1)  # parts of two seeds
    found = swept(SweepOptions(("alone",), range(10, 19), duration_s=3.0), world=moody)
    [failure] = found.summary.failures.values()
    assert (failure.failure, failure.case.seed, failure.count) == ("not deterministic", 13, 1)
    assert "journal_hash: " in failure.text
    assert found.again[0] == found.summary.repeated == found.summary.runs == 9


def test_options_of_the_local_engine_alone_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    from broker_sim.cli.main import main

    for words in (["--rows", "x.jsonl"], ["--for", "10m"], ["--timeline", "d"]):
        assert main(["simulate", "alone", "--seeds", "0..4", "--engine", "spark", *words]) == 2
        assert f"{words[0]} is for the local engine only" in capsys.readouterr().err
    assert main(["simulate", "incident.yaml", "--engine", "spark"]) == 2
    assert "no scenario files" in capsys.readouterr().err


def test_an_out_with_something_in_it_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        swept(QUICK, tmp_path)

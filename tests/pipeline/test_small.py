"""``broker-sim pipeline run`` without Spark: which engine is taken, what it writes, and what is said where it can't be done."""

from __future__ import annotations

import errno
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from broker_sim.cli.main import main
from broker_sim.common.text import UsageError
from broker_sim.pipeline import journal_files
from broker_sim.pipeline.duck import columns
from broker_sim.pipeline.duck import functions as f
from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.run import LARGE, RunOptions, engine_for
from broker_sim.scenario.commands import shipped
from tests.incidents.run_pipeline import recorded, unpack
from tests.support import processes

STUCK = "stuck-offsets-partition-3.4"


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """README's example."""
    folder = tmp_path_factory.mktemp("incident")
    played = ["run", str(shipped() / f"{STUCK}.yaml"), "--virtual", "--quiet"]
    assert main([*played, "--data", str(folder / "data"), "--journal", str(folder / "journal")]) == 0
    return folder


@pytest.mark.slow
def test_the_example_of_the_readme_without_spark(incident: Path, tmp_path: Path) -> None:
    """In a process of its own, which may import neither PySpark nor pandas."""
    program = (
        "import sys\n"
        "class Without:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name.partition('.')[0] in ('pyspark', 'pandas', 'py4j'): raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "from broker_sim.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = ["pipeline", "run", "--input", str(incident / "data"), "--out", str(tmp_path / "out"), "--json"]
    done = processes.run([sys.executable, "-c", program, *command])
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [(one["kind"], one["group"]) for one in told["findings"]] == [("stuck", "billing")]
    assert told["rows"]["rebalances"] == 5
    tables = {path.parent.parent.name for path in (tmp_path / "out" / "tables").glob("*/run_id=data/*.parquet")}
    assert tables == set(told["rows"])
    assert "<svg" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_journal_alone_a_log_alone(incident: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, given in enumerate(
        (["--journal", str(incident / "journal")], ["--input", str(incident / "data"), "--no-journal"])
    ):
        command = ["pipeline", "run", *given, "--engine", "duckdb", "--out", str(tmp_path / str(number)), "--json"]
        assert main(command) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["groups"] == 2
        assert told["rows"]["lag"] > 0


@pytest.mark.slow
def test_unreadable_input_is_reported(incident: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shutil

    data = tmp_path / "data"
    shutil.copytree(incident / "data", data)
    with next((data / "__consumer_offsets-9").glob("*.log")).open("ab") as file:
        file.write(b"\x00" * 7 + b"\x50" + b"\x00\x00\x00\x40" + b"junk" * 16)
    (tmp_path / "journal-000001.ndjson").write_text('{"seq": 1, "ts_ms": 5, "event": "mark", "text": "x"}\nno line\n')
    command = ["pipeline", "run", "--input", str(data), "--journal", str(tmp_path / "journal-000001.ndjson")]
    assert main([*command, "--out", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"]["skipped"] == 2


@pytest.mark.parametrize(
    ("options", "size", "engine"),
    [
        ({}, LARGE - 1, "duckdb"),
        ({}, LARGE, "spark"),
        ({"engine": "duckdb"}, LARGE * 10, "duckdb"),
        ({"engine": "spark"}, 1, "spark"),
        ({"master": "local[2]"}, 1, "spark"),
        ({"conf": {"spark.driver.memory": "4g"}}, 1, "spark"),
        ({"out": "hdfs://name/out"}, 1, "spark"),
    ],
)
def test_which_engine(options: dict[str, Any], size: int, engine: str) -> None:
    assert engine_for(RunOptions(**{"out": "out", **options}), size) == engine


def test_duckdb_can_t_go_elsewhere() -> None:
    for more in ({"master": "yarn"}, {"out": "hdfs://name/out"}, {"conf": {"a": "b"}}):
        with pytest.raises(UsageError, match="is for Spark"):
            engine_for(RunOptions(**{"out": "out", "engine": "duckdb", **more}), 1)


def test_without_duckdb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, incident: Path, capsys: Any) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "duckdb" else found(name, *more)
    )
    assert engine_for(RunOptions("out"), 1) == "spark"
    command = ["pipeline", "run", "--input", str(incident / "data"), "--out", str(tmp_path / "out")]
    assert main([*command, "--engine", "duckdb"]) == 2
    said = capsys.readouterr().err
    assert said == "broker-sim pipeline run: duckdb not installed; this needs: pip install 'broker-sim[pipeline]'\n"
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------------------------ the engine's own rules


def test_a_condition_is_no_truth_value() -> None:
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(f.col("a") == 1)


def test_types() -> None:
    assert columns.sql_type("array<struct<a:int,b:array<string>>>") == 'STRUCT("a" INTEGER, "b" VARCHAR[])[]'
    with pytest.raises(ValueError, match="no type"):
        columns.sql_type("int int")


def test_names_and_texts_of_anybody() -> None:
    import pyarrow

    frame = DuckSession().of_arrow(pyarrow.table({"group": ["it's", 'say "x"', None]}))
    found = frame.where(f.col("group").isin("it's", 'say "x"')).orderBy("group").collect()
    assert [row.group for row in found] == ["it's", 'say "x"']


def test_a_column_that_would_be_there_twice() -> None:
    import pyarrow

    one = DuckSession().of_arrow(pyarrow.table({"a": [1], "b": [2]}))
    with pytest.raises(ValueError, match="twice: b"):
        one.join(one, "a")


@pytest.mark.slow
def test_an_unreadable_journal_that_was_not_named_does_not_prevent_reading_the_log(tmp_path: Path) -> None:
    """A journal that was found is reported as skipped; one that was named is refused, in a line."""
    folder = unpack(next(one for one in recorded() if "moves" in one.name), tmp_path)
    (folder / "data" / "journal").mkdir()
    (folder / "data" / "journal" / "journal-000001.ndjson").write_text("no event\n" * 9)
    given = ["pipeline", "run", "--input", str(folder / "data"), "--out", str(tmp_path / "out"), "--quiet"]
    assert main([*given, "--engine", "duckdb"]) == 0
    told = (tmp_path / "out" / "findings.txt").read_text(encoding="utf-8")
    assert "journal-000001.ndjson is no journal: none of its first lines is an event" in told
    assert "went to other leaders" in told
    assert main([*given, "--overwrite", "--journal", str(folder / "data" / "journal")]) == 2


def test_a_journal_without_read_permission_is_reported_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal-000001.ndjson"
    journal.write_text('{"seq": 1, "ts_ms": 1, "event": "mark"}\n')

    def closed(name: str) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", name)

    monkeypatch.setattr(journal_files, "Source", closed)
    given = ["pipeline", "run", "--journal", str(journal), "--out", str(tmp_path / "out"), "--engine", "duckdb"]
    assert main(given) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"broker-sim pipeline run: {journal} is not readable: Permission denied"
    )

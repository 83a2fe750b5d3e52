"""``broker-sim pipeline run``: on runs whose truth is known, and on all that can be wrong with what it is given."""

from __future__ import annotations

import io
import json
import re
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker_sim.cli.main import main
from broker_sim.common.text import UsageError
from broker_sim.pipeline import session
from broker_sim.pipeline.output import MADE, MARKER, Folder
from broker_sim.pipeline.progress import Steps
from broker_sim.pipeline.run import SMALL, settings
from broker_sim.pipeline.tables.lag import journal_ends
from broker_sim.pipeline.tables.offset_log import journal_log
from broker_sim.pipeline.tables.offset_regressions import offset_regressions
from broker_sim.storage import partition_for
from tests.pipeline.support_journal import mark_ms, played_text
from tests.support.processes import DEADLINE_S

STORY = """
name: offsets that go back
description: A group's offsets go back in each of the ways that there are, and then its offsets partition is stuck.
cluster: {brokers: 1, as_version: "3.4", commit_timeout: 1s, min_session_timeout: 1s}
topics:
  - {name: orders, partitions: 2, records: 60}
clients:
  - {name: app-1, group: billing, topics: [orders], session_timeout: 6s, heartbeat_interval: 300ms}
  - {name: app-2, group: billing, topics: [orders], session_timeout: 6s, heartbeat_interval: 300ms, start: false}
  - {name: other, group: audit, topics: [orders], session_timeout: 6s, heartbeat_interval: 300ms}
steps:
  - name: work
    when: {group: {billing: {state: Stable, members: 1, lag_below: 1}, audit: {state: Stable, members: 1, lag_below: 1}}}
  - name: rewind
    do: {send: OffsetCommit, group: billing, member: app-1, generation: now, offsets: {orders-0: 7}, answer: NONE}
  - name: join
    do: {client: app-2, action: start}
  - name: again
    when: {group: billing, state: Stable, members: 2}
  - name: rebalanced
    do: {send: OffsetCommit, group: billing, member: app-1, generation: now, offsets: {orders-0: 3}, answer: NONE}
  - name: jam
    do: {log: offsets(billing), state: stuck}
  - name: in vain
    do: {send: OffsetCommit, group: billing, member: app-1, generation: now, offsets: {orders-0: 9}, answer: REQUEST_TIMED_OUT}
  - name: heal
    do: {log: offsets(billing), state: online}
expect:
  - within: 20s
    group: {billing: {state: Stable, members: 2}}
"""
PARTITION = partition_for("billing", 50)
RECORDS = 60


@dataclass
class Ran:
    """A run of the command: what it was given, what it wrote, what it said."""

    data: Path
    out: Path
    events: list[dict[str, Any]]
    code: int
    stdout: str
    stderr: str

    def rows(self, spark: Any, table: str) -> list[dict[str, Any]]:
        frame = spark.read.parquet(f"{self.out}/tables/{table}")
        return [row.asDict(recursive=True) for row in frame.collect()]

    @property
    def page(self) -> str:
        return (self.out / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A cluster's directory (data, and journal beside it) after the story."""
    place = tmp_path_factory.mktemp("story")
    outcome = played_text(STORY, data=place / "data", journal=place / "journal")
    assert outcome.code == 0, outcome.report()
    return place, list(outcome.events)


def command(*words: str) -> tuple[int, str, str]:
    """``broker-sim pipeline run ..`` in this process: (exit code, stdout, stderr)."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        patch.setattr("sys.stderr", err)
        try:
            code = main(["pipeline", "run", *words])
        except SystemExit as left:
            code = int(str(left.code))
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def ran(spark: Any, story: tuple[Path, list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    place, events = story
    out = tmp_path_factory.mktemp("out") / "report"
    words = ("--input", f"{place}/data", "--out", str(out), "--run-id", "monday", "--engine", "spark")
    return Ran(place / "data", out, events, *command(*words))


# ------------------------------------------------------------------------------------------------ a run with its truth


@pytest.mark.spark
def test_a_run_writes_all_its_tables(ran: Ran, spark: Any) -> None:
    assert (ran.code, ran.stderr.count("Traceback")) == (0, 0), ran.stderr
    assert {path.name for path in ran.out.iterdir()} == {*MADE, MARKER}
    tables = {path.name for path in (ran.out / "tables").iterdir()}
    assert tables == {
        *("events", "offset_log", "skipped", "lag", "offset_regressions", "offset_deletions"),
        *(
            "coordinator_hotspots",
            "rebalances",
            "groups",
            "offset_resets",
            "offset_stalls",
            "coordinator_moves",
            "transactions",
            "share_deliveries",
        ),
        *("member_churn", "duplicate_windows", "stuck_partitions", "commit_refusals", "offset_skips", "data_losses"),
    }
    for table in tables:
        (folder,) = (ran.out / "tables" / table).iterdir()
        assert folder.name == "run_id=monday"
        files = list(folder.glob("*.parquet"))
        assert 1 <= len(files) <= (4 if table in ("events", "offset_log") else 1)


@pytest.mark.spark
def test_a_run_prints_its_steps_and_ends_with_the_findings(ran: Ran) -> None:
    assert [line.partition(":")[0] for line in ran.stderr.splitlines() if not line.startswith("  ")] == [
        *("starting Spark", "reading the journal", "reading __consumer_offsets", "condensing", "tables", "report"),
    ]
    lines = (ran.data.parent / "journal" / "journal-000001.ndjson").read_text().count("\n")
    assert f"reading the journal: {lines} events" in ran.stderr
    assert ran.stdout.startswith((ran.out / "findings.txt").read_text())
    assert ran.stdout.rstrip().endswith("/report.html")


@pytest.mark.spark
def test_the_stuck_partition_is_found_with_its_group_and_times(ran: Ran, spark: Any) -> None:
    (row,) = ran.rows(spark, "stuck_partitions")
    jam, heal = mark_ms(ran.events, "jam"), mark_ms(ran.events, "heal")
    assert (row["log_partition"], row["groups"]) == (PARTITION, ["billing"])
    assert jam <= row["from_ms"] <= heal <= row["to_ms"]
    found = json.loads((ran.out / "findings.json").read_text())
    stuck = next(one for one in found["findings"] if one["kind"] == "stuck")
    assert stuck["text"].startswith("billing could not commit between ")
    assert f"its offsets partition {PARTITION} committed no append" in stuck["text"]
    assert stuck["at_ms"] == row["from_ms"]
    assert "its offsets partition" in ran.page


@pytest.mark.spark
def test_decreased_offsets_are_those_of_the_script(ran: Ran, spark: Any) -> None:
    rows = sorted(ran.rows(spark, "offset_regressions"), key=lambda row: row["log_offset"])
    told = [(row["from_offset"], row["to_offset"], row["how"], row["reset"], row["members"]) for row in rows]
    before = [
        event["offsets"]["orders-0"]
        for event in ran.events
        if event["event"] == "offsets" and event["group"] == "billing"
    ]
    assert told[0] == (max(before[: before.index(7)]), 7, "rewind", False, 1)
    assert (told[1][1:3], told[1][4]) == ((3, "rebalance"), 2)
    assert {row["group"] for row in rows} == {"billing"}
    times = {mark_ms(ran.events, name) for name in ("rewind", "rebalanced")}
    assert all(any(0 <= row["at_ms"] - at <= 1000 for at in times) for row in rows[:2])
    assert rows[1]["to_generation"] > rows[1]["from_generation"]


@pytest.mark.spark
def test_the_lag_at_the_end_is_the_number_of_unread_records(ran: Ran, spark: Any) -> None:
    last: dict[tuple[str, int], dict[str, Any]] = {}
    for row in sorted(ran.rows(spark, "lag"), key=lambda row: row["window_start_ms"]):
        last[row["group"], row["partition"]] = row
    ends = {0: RECORDS // 2, 1: RECORDS // 2}
    published: dict[tuple[str, int], int] = {}
    for event in ran.events:
        if event["event"] == "offsets":
            for name, offset in event["offsets"].items():
                published[event["group"], int(name[-1])] = offset
    assert {key: row["committed"] for key, row in last.items()} == published
    assert {row["source"] for row in last.values()} == {"log"}
    assert {key: row["lag"] for key, row in last.items()} == {
        key: ends[key[1]] - offset for key, offset in published.items()
    }


@pytest.mark.spark
def test_groups_are_in_the_partition_of_their_hash(ran: Ran, spark: Any) -> None:
    rows = {row["log_partition"]: row for row in ran.rows(spark, "coordinator_hotspots")}
    assert {number: row["busiest_group"] for number, row in rows.items()} == {
        partition_for(group, 50): group for group in ("billing", "audit")
    }
    assert {row["partitions"] for row in rows.values()} == {50}
    assert sum(row["records"] for row in rows.values()) == len(ran.rows(spark, "offset_log"))
    folders = {number: ran.data / f"__consumer_offsets-{number}" for number in rows}
    sizes = {number: sum(file.stat().st_size for file in folder.glob("*.log")) for number, folder in folders.items()}
    assert {number: row["bytes"] for number, row in rows.items()} == sizes


# ------------------------------------------------------------------------------------------------ bad input


@pytest.fixture(scope="module")
def damaged(spark: Any, story: tuple[Path, list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The same, with a corrupt batch, a foreign topic's folder, a line cut in half and one of a newer schema."""
    place, events = story
    here = tmp_path_factory.mktemp("damaged")
    shutil.copytree(place, here, dirs_exist_ok=True)
    segment = here / "data" / f"__consumer_offsets-{PARTITION}" / f"{0:020}.log"
    log = bytearray(segment.read_bytes())
    log[70] ^= 0xFF  # within the first batch
    segment.write_bytes(log)
    foreign = here / "data" / "__transaction_state-3"
    foreign.mkdir()
    (foreign / f"{0:020}.log").write_bytes(b"not what it seems")
    (journal,) = (here / "journal").iterdir()
    lines = journal.read_bytes().splitlines()
    lines[9] = lines[9][: len(lines[9]) // 2]
    newer = {"seq": len(lines) + 1, "ts_ms": events[-1]["ts_ms"], "event": "moon_phase", "phase": "full"}
    journal.write_bytes(b"\n".join([*lines, json.dumps(newer).encode()]) + b"\n")
    out = here / "out"
    return Ran(here / "data", out, events, *command("--input", f"{here}/data", "--out", str(out)))


@pytest.mark.spark
def test_damaged_input_is_skipped_with_its_position_and_the_rest_is_read(damaged: Ran, spark: Any) -> None:
    assert damaged.code == 0, damaged.stderr
    skipped = damaged.rows(spark, "skipped")
    (segment,) = (row for row in skipped if f"__consumer_offsets-{PARTITION}" in row["file"])
    (foreign,) = (row for row in skipped if "__transaction_state-3" in row["file"])
    (journal,) = (row for row in skipped if "ndjson" in row["file"])
    assert "no whole batch" in foreign["reason"]
    assert segment["position"] == 0
    assert "crc" in segment["reason"].lower()
    assert journal["position"] > 0
    assert f"__consumer_offsets-{PARTITION}" in damaged.page
    assert re.search(r"\d+ pieces of the input could not be read: .+", damaged.stdout)
    (row,) = damaged.rows(spark, "stuck_partitions")
    assert row["groups"] == ["billing"]
    newer = [row for row in damaged.rows(spark, "events") if row["type"] == "moon_phase"]
    assert [row["unknown"] for row in newer] != [None]
    assert len(newer) == 1


@pytest.mark.spark
def test_a_copy_of_the_offsets_folders_alone_claims_no_lag(spark: Any, story: tuple[Path, Any], tmp_path: Path) -> None:
    place, _ = story
    for folder in (place / "data").glob("__consumer_offsets-*"):
        shutil.copytree(folder, tmp_path / "copy" / folder.name)
    code, said, steps = command("--input", f"{tmp_path}/copy", "--out", f"{tmp_path}/out", "--json")
    assert code == 0, steps
    rows = [row.asDict() for row in spark.read.parquet(f"{tmp_path}/out/tables/lag").collect()]
    assert rows
    assert {(row["end"], row["lag"], row["source"]) for row in rows} == {(None, None, None)}
    told = json.loads(said)
    assert (told["run_id"], told["journal"], told["rows"]["events"]) == ("copy", None, 0)
    assert told["groups"] == 2
    page = (tmp_path / "out" / "report.html").read_text()
    assert "No log end is known" in page
    assert "There is no journal" in page


def regressions(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("group", "topic", "partition", "from_offset", "to_offset", "how")
    return [tuple(row[name] for name in names) for row in sorted(rows, key=lambda row: row["log_offset"])]


@pytest.mark.spark
def test_a_journal_has_the_same_regressions_and_commits_as_the_log(ran: Ran, spark: Any) -> None:
    events = spark.read.parquet(f"{ran.out}/tables/events")
    log = journal_log(events)
    alone = [row.asDict() for row in offset_regressions(log, "journal").collect()]
    assert regressions(alone) == regressions(ran.rows(spark, "offset_regressions"))
    ends = {(row.topic, row.partition): row.end for row in journal_ends(events).orderBy("at_ms", "end").collect()}
    assert ends == {("orders", 0): RECORDS // 2, ("orders", 1): RECORDS // 2}


@pytest.mark.spark
@pytest.mark.long
def test_a_journal_alone_is_enough_for_a_report(spark: Any, ran: Ran, story: tuple[Path, Any], tmp_path: Path) -> None:
    place, _ = story
    code, _, steps = command("--journal", f"{place}/journal", "--out", f"{tmp_path}/out")
    assert code == 0, steps
    assert "records, from the journal: there is no log" in steps
    alone = [row.asDict() for row in spark.read.parquet(f"{tmp_path}/out/tables/offset_regressions").collect()]
    assert regressions(alone) == regressions(ran.rows(spark, "offset_regressions"))
    assert {row["source"] for row in alone} == {"journal"}
    assert {row.source for row in spark.read.parquet(f"{tmp_path}/out/tables/lag").collect()} <= {"journal", None}


# ------------------------------------------------------------------------------------------------ refused before Spark


def refused(*words: str) -> str:
    """The one line on stderr of a command that is refused."""
    code, stdout, stderr = command(*words)
    assert (code, stdout) == (2, "")
    assert stderr.count("\n") == 1
    return stderr.strip()


def test_a_folder_without_segments_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "orders-0").mkdir()
    said = refused("--input", f"{tmp_path}/in", "--out", f"{tmp_path}/out")
    assert "no directory __consumer_offsets-N in it, and no journal in or beside it" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to read; give --input DIR, --journal PATH, --broker-log PATH or --client-log PATH"),
        (("--input", "nowhere"), "--input nowhere: no such directory"),
        (("--journal", "nowhere.ndjson"), "nowhere.ndjson"),
        (("--input", ".", "--run-id", "a/b"), "--run-id 'a/b': not a name (expected letters, digits"),
        (("--input", ".", "--window", "soon"), "'soon' is not a duration"),
        (("--input", ".", "--conf", "x"), "'x' is not KEY=VALUE"),
    ],
)
def test_wrong_arguments_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(*words, "--out", "out")
    assert list(tmp_path.iterdir()) == []


def test_an_output_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-1").mkdir()
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("three years")
    said = refused("--input", str(tmp_path), "--out", str(out))
    assert "the folder exists and is not empty; --overwrite replaces what an earlier run made in it" in said
    said = refused("--input", str(tmp_path), "--out", str(out), "--overwrite")
    assert "no run of the pipeline made this folder" in said
    assert (out / "thesis.txt").read_text() == "three years"
    assert "that is a file, not a folder" in refused("--input", str(tmp_path), "--out", str(out / "thesis.txt"))


@pytest.mark.parametrize("out", ["/dev/null/report", "/proc/none/report"])
def test_a_folder_that_cannot_be_created_is_reported_before_spark_starts(out: str, tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-1").mkdir()
    said = refused("--input", str(tmp_path), "--out", out)
    assert said.startswith(f"broker-sim pipeline run: --out {out}: ")
    assert "starting Spark" not in said


def test_trying_to_write_leaves_nothing(tmp_path: Path) -> None:
    Folder.local(str(tmp_path / "a" / "b")).check(overwrite=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").mkdir()
    Folder.local(str(tmp_path / "a" / "b")).check(overwrite=False)
    assert [path.name for path in tmp_path.rglob("*")] == ["a"]


def test_overwriting_removes_only_the_files_of_a_run(tmp_path: Path) -> None:
    folder = Folder.local(str(tmp_path / "out"))
    folder.prepare("monday", overwrite=False)
    (tmp_path / "out" / "tables" / "lag").mkdir(parents=True)
    folder.write("report.html", "x")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        folder.check(overwrite=False)
    (tmp_path / "out" / MARKER).write_text(json.dumps({"made": [*MADE, "notes.txt", "../x"]}))
    folder.prepare("tuesday", overwrite=True)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {MARKER, "notes.txt"}


def test_a_missing_java_is_one_line_and_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")
    (tmp_path / "__consumer_offsets-1").mkdir()
    monkeypatch.setattr(pyspark.SparkSession, "getActiveSession", classmethod(lambda cls: None))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(session, "_candidates", lambda environ, places: [])
    monkeypatch.delenv("JAVA_HOME", raising=False)
    code, stdout, stderr = command("--input", str(tmp_path), "--out", f"{tmp_path}/out", "--engine", "spark")
    assert (code, stdout) == (2, "")
    assert stderr.count("\n") == 1, stderr
    assert "Spark needs Java 17 or newer" in stderr
    assert not (tmp_path / "out").exists()


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["pipeline", "--help"], ["pipeline", "run", "--help"]):
        with pytest.raises(SystemExit) as left:
            main(words)
        assert left.value.code == 0
        assert "examples:\n  broker-sim pipeline run --input ./kafka-data --out ./report" in capsys.readouterr().out


def test_spark_s_settings_are_those_of_the_input_s_size_and_a_cluster_s_are_left_alone() -> None:
    small, large = settings(None, SMALL - 1), settings("local[2]", SMALL)
    assert set(large) == {"spark.driver.extraJavaOptions"}
    assert small["spark.sql.adaptive.enabled"] == "false"
    assert settings("spark://host:7077", 0) == {}


# ------------------------------------------------------------------------------------------------ progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_line_a_step_and_silent_where_asked() -> None:
    plain, quiet = io.StringIO(), io.StringIO()
    for stream, silent in ((plain, False), (quiet, True)):
        with Steps(stream, quiet=silent).step("reading") as step:
            step.done("7 rows")
    assert plain.getvalue() == "reading: 7 rows (0.0 s)\n"
    assert quiet.getvalue() == ""


def test_a_failed_step_is_not_reported_as_done() -> None:
    stream = io.StringIO()
    with pytest.raises(RuntimeError), Steps(stream).step("reading"):
        raise RuntimeError
    assert stream.getvalue() == ""


def test_on_a_terminal_the_running_step_is_shown_and_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    steps = Steps(stream)
    seen = threading.Event()

    def tasks() -> tuple[int, int]:
        seen.set()
        return 3, 8

    steps.tasks = tasks
    with steps.step("reading") as step:
        assert seen.wait(DEADLINE_S), "the running step was not shown"
        step.done("7 rows")
    assert re.search(r"reading \.\.\. \d+ s, 3 of 8 tasks", stream.getvalue())
    assert stream.getvalue().rpartition("\r\x1b[K")[2].startswith("reading: 7 rows (")

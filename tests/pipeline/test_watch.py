"""``broker-sim pipeline watch``: each line once, whatever happens in between; stuck partitions are reported at once."""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from broker_sim import Cluster, ClusterThread
from broker_sim.common.text import UsageError
from broker_sim.pipeline.progress import Steps
from broker_sim.pipeline.schemas import OFFSET_LOG
from broker_sim.pipeline.streams import AppendedStream, StreamFailed
from broker_sim.pipeline.stuck_alerts import StuckAlerts, StuckPeriod
from broker_sim.pipeline.tables.events import EVENTS
from broker_sim.pipeline.tables.stuck_partitions import HOMES, stuck_partitions
from broker_sim.pipeline.watching import LEDGER, PipelineWatch, WatchOptions
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.pipeline.support_journal import all_played, arrow, frame, line, write
from tests.support.wire import Wire

WAIT_S = 180.0


# ------------------------------------------------------------------------------------------------ alerts


@pytest.mark.spark
def test_jams_are_the_periods_of_the_table_whatever_the_batches(spark: Any) -> None:
    runs = {name: events for name, events in all_played().items() if events}
    table = stuck_partitions(frame(spark, **runs), least_ms=0).where("evidence in ('appends', 'answers')")
    told: dict[str, list[tuple[Any, ...]]] = {name: [] for name in runs}
    for row in table.where("log_partition is not null").orderBy("run_id", "log", "from_ms", "to_ms").collect():
        errors, groups = sorted(row.errors), sorted(row.groups)
        told[row.run_id].append((row.log, row.from_ms, row.to_ms, row.attempts, row.waiting, errors, groups))

    assert sum(map(len, told.values())) > 5
    for name, events in runs.items():
        rows = arrow(events, name).to_pylist()
        for size in (len(rows), 7):
            assert periods(rows, size) == told[name], (name, size)


def periods(rows: list[dict[str, Any]], size: int) -> list[tuple[Any, ...]]:
    """The periods that `StuckAlerts` finds in a run's events, in batches of ``size``; the groups' partitions are known beforehand."""
    ended: list[StuckPeriod] = []
    alerts = StuckAlerts(lambda text: None, ended.append)
    alerts.homes.update({row["group"]: row["log"] for row in rows if row["type"] in HOMES})
    for begin in range(0, len(rows), size):
        alerts.add_rows(rows[begin : begin + size])
    found = [
        (one.log, one.from_ms, one.to_ms, one.attempts, one.waiting, sorted(one.errors), sorted(one.groups))
        for one in [*ended, *alerts.open]
    ]
    return sorted(found, key=lambda one: (one[0], one[1], one[2] or 0))


def sign(seq: int, ts_ms: int, kind: str = "append", **fields: Any) -> dict[str, Any]:
    row = {"type": kind, "journal": 1, "seq": seq, "ts_ms": ts_ms, "log": "__consumer_offsets-12", "error": None}
    return {**row, "high_watermark": 0, "last_offset": 5, "groups": ["billing"], **fields}


def home(seq: int, group: str) -> dict[str, Any]:
    return sign(seq, 0, "group", group=group)


def test_a_stuck_partition_is_reported_once_after_its_minimum_and_again_at_its_end() -> None:
    told: list[str] = []
    alerts = StuckAlerts(told.append)
    alerts.add_rows([home(1, "billing"), home(2, "audit"), home(3, "shop")])

    alerts.add_rows([sign(4, 10_000)])
    alerts.older(900)
    assert told == []
    alerts.older(1000)
    alerts.older(5000)
    alerts.add_rows([sign(5, 14_000, error="NOT_ENOUGH_REPLICAS")])
    alerts.add_rows([sign(6, 51_000, "committed", high_watermark=6)])

    assert told == [
        "00:00:10.000  __consumer_offsets-12 commits no append (2 other groups in it: audit and shop): 1"
        " attempt of billing, since then",
        "00:00:51.000  __consumer_offsets-12 commits appends again, after 41 s",
    ]


def test_a_stuck_partition_within_one_batch_is_reported_at_its_end_and_not_of_the_past() -> None:
    batch = [sign(1, 1_000, error="NOT_ENOUGH_REPLICAS"), sign(2, 4_000, "committed", high_watermark=9)]
    short = [sign(3, 5_000), sign(4, 5_200, "committed", high_watermark=9)]
    told: list[str] = []
    StuckAlerts(told.append).add_rows([*batch, *short])
    assert told == [
        "00:00:01.000  __consumer_offsets-12 committed no append: 1 attempt of billing, answered NOT_ENOUGH_REPLICAS, for 3 s"
    ]
    told.clear()
    StuckAlerts(told.append).add_rows(batch, past=True)
    assert told == []


# ------------------------------------------------------------------------------------------------ appended once


@pytest.mark.spark
def test_a_batch_that_was_interrupted_is_done_again_and_not_doubled(spark: Any, tmp_path: Path) -> None:
    journal = write(tmp_path / "journal" / "journal-000001.ndjson.part", marks(1, 10))
    events = appended(spark, tmp_path)

    def crash(batch: Any) -> None:
        raise RuntimeError("the machine is switched off, after the batch was written")

    with pytest.raises(RuntimeError, match="switched off"):
        drained(spark, events, journal.parent, crash)
    assert seqs(events) == list(range(1, 11)), "it was written, but Spark does not know"
    with journal.open("ab") as file:
        file.writelines(line(event) + b"\n" for event in marks(11, 15))

    for _ in range(2):
        drained(spark, appended(spark, tmp_path), journal.parent, lambda batch: None)
    assert seqs(events) == list(range(1, 16))


def marks(first: int, last: int) -> list[dict[str, Any]]:
    return [{"seq": n, "ts_ms": 1000 * n, "event": "mark", "text": str(n)} for n in range(first, last + 1)]


def appended(spark: Any, tmp_path: Path) -> AppendedStream:
    out = tmp_path / "out" / "events"
    return AppendedStream(spark, EVENTS, "run", out.as_uri(), (tmp_path / "checkpoint").as_uri(), threading.RLock())


def drained(spark: Any, events: AppendedStream, journal: Path, then: Any) -> None:
    """Read the journal to its end with ``then`` for each batch, and stop; raises the error of a batch."""
    spark.sparkContext.setLogLevel("OFF")  # Spark tells what a batch raises
    try:
        events.begin(spark.readStream.format("sim_journal").option("runId", "run").load(str(journal)), 100, then)
        try:
            events.caught_up()
        except Exception:
            events.check()
            raise
    finally:
        events.stop()
        spark.sparkContext.setLogLevel("ERROR")


def seqs(events: AppendedStream) -> list[int]:
    return [row.seq for row in events.frame().select("seq").orderBy("seq").collect()]


@pytest.mark.spark
def test_a_stream_that_ends_by_itself_reports_why_in_a_line(spark: Any, tmp_path: Path) -> None:
    journal = write(tmp_path / "journal" / "journal-000001.ndjson", marks(1, 3)).parent
    events = appended(spark, tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "events").write_text("in the way")
    with pytest.raises(StreamFailed) as failed:
        drained(spark, events, journal, lambda batch: None)
    assert str(failed.value).count("\n") == 0


# ------------------------------------------------------------------------------------------------ the whole


async def live(bootstrap: str, offsets: Iterable[int]) -> None:
    """A group commits these offsets."""
    wire = await Wire.connect(bootstrap)
    while (await wire.send(FindCoordinatorRequest("billing"), 2)).error_code != 0:
        await asyncio.sleep(0)  # the first one has the offsets topic created
    for offset in offsets:
        assert (await committed(wire, offset)).topics[0].partitions[0].error_code == 0
    await wire.close()


def committed(wire: Wire, offset: int) -> asyncio.Future[Any]:
    """The answer to a commit."""
    topic = OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, offset)])
    return wire.start(OffsetCommitRequest("billing", topics=[topic]), 8)


def watched(data: Path, out: Path) -> list[str]:
    """Read what is there; returns what was told."""
    told: list[str] = []
    options = WatchOptions(str(out), str(data), for_ms=0, every_ms=100)
    PipelineWatch(options, told.append, Steps(io.StringIO(), quiet=True)).run()
    return told


@pytest.mark.spark
@pytest.mark.long
def test_a_restarted_watch_continues_and_has_the_result_of_a_run(spark: Any, tmp_path: Path) -> None:
    from broker_sim.pipeline import run

    data, out, told = tmp_path / "data", tmp_path / "watched", []
    for offsets in ((1, 2, 3, 4, 5), (6, 7, 8, 2)):
        with ClusterThread(topics={"orders": 2}, data_dir=data, journal=data / "journal") as kafka:
            asyncio.run(live(kafka.bootstrap, offsets))
        told += watched(data, out)
    assert len(told) == 1
    assert "billing" in told[0], "its offset went back"
    assert watched(data, out) == [], "nothing is new, nothing is told"

    again = tmp_path / "run"
    run.pipeline(run.RunOptions(str(again), str(data)), Steps(io.StringIO(), quiet=True))
    for table in (
        "events",
        "offset_log",
        "lag",
        "offset_regressions",
        "rebalances",
        "member_churn",
        "stuck_partitions",
    ):
        assert held(spark, out, table) == held(spark, again, table), table
    assert len(held(spark, out, "offset_log")) == 9
    for name in ("report.html", "findings.txt", "findings.json"):
        assert (out / name).stat().st_size > 0


def held(spark: Any, out: Path, table: str) -> list[str]:
    """A table's rows, as texts."""
    rows = spark.read.parquet(str(out / "tables" / table))
    names = [name for name in rows.columns if name not in ("batch", "body")]
    return sorted(json.dumps(row.asDict(recursive=True), default=str) for row in rows.select(*names).collect())


@pytest.mark.parametrize(
    "change", ["run_id", "input", "checkpoint gone", "something else's", "a file", "checkpoint of another"]
)
def test_an_out_that_belongs_to_something_else_is_refused_before_spark_starts(tmp_path: Path, change: str) -> None:
    out, data = tmp_path / "out", tmp_path / "data"
    (data / "journal").mkdir(parents=True)
    write(data / "journal" / "journal-000001.ndjson", marks(1, 2))
    ledger: dict[str, Any] = {"run_id": "data", "input": str(data), "journal": None, "checkpoint": None}
    (out / "checkpoint" / "journal").mkdir(parents=True)
    (out / LEDGER).write_text(json.dumps(ledger))
    options = {"out": str(out), "input": str(data)}
    if change == "run_id":
        options["run_id"], says = "another", "had 'data' as run-id, not 'another'"
    elif change == "input":
        options["input"], options["run_id"], says = str(data / "journal"), "data", "as input, not"
    elif change == "checkpoint gone":
        (out / "checkpoint" / "journal").rename(tmp_path / "elsewhere")
        (out / "checkpoint").rmdir()
        says = "the checkpoint of its watch is missing"
    elif change == "something else's":
        (out / LEDGER).unlink()
        says = "the folder exists and was not made by a watch; nothing was changed"
    elif change == "a file":
        options["out"], says = str(data / "journal" / "journal-000001.ndjson"), "not made by a watch"
    else:
        options["out"], options["checkpoint"] = str(tmp_path / "new"), str(out / "checkpoint")
        says = "it belongs to another --out"

    with pytest.raises(UsageError, match=re.escape(says)):
        PipelineWatch(WatchOptions(**options), print, Steps(io.StringIO(), quiet=True)).run()  # type: ignore[arg-type]


def test_missing_input_is_reported_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from broker_sim.cli.main import main

    out = str(tmp_path / "out")
    assert main(["pipeline", "watch", "--input", str(tmp_path / "nowhere"), "--out", out]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["pipeline", "watch", "--input", str(tmp_path), "--out", out, "--for", "0s"]) == 2
    assert "no journal in or beside it" in capsys.readouterr().err
    assert OFFSET_LOG.name == "offset_log"


# ------------------------------------------------------------------------------------------------ as a process


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(500)
async def test_a_stuck_partition_is_reported_while_it_is_stuck_and_a_signal_ends_the_watch(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    command = [sys.executable, "-m", "broker_sim", "pipeline", "watch", "--input", str(data), "--out", str(out)]
    settings = {"topics": {"orders": 2}, "data_dir": data, "journal": data / "journal"}
    async with Cluster(**settings, config={"offsets.commit.timeout.ms": 1000}) as kafka:  # type: ignore[arg-type]
        await live(kafka.bootstrap, (1, 2, 3))
        watch = subprocess.Popen(
            [*command, "--master", "local[2]"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            await asyncio.to_thread(said, watch.stderr, "following __consumer_offsets")
            await there(out / "tables" / "events", "*/batch=*/_SUCCESS")
            wire = await Wire.connect(kafka.bootstrap)
            async with kafka.offsets_log("billing").stuck():
                began = time.monotonic()
                commit = committed(wire, 4)
                text = await asyncio.to_thread(said, watch.stdout, "commits no append")
                print(f"told {time.monotonic() - began:.1f} s after the commit: {text}")
                await commit
            assert "of billing" in text
            await asyncio.to_thread(said, watch.stdout, "commits appends again")
            await wire.close()
            watch.send_signal(signal.SIGTERM)
            code = await asyncio.to_thread(watch.wait, WAIT_S)
        finally:
            if watch.poll() is None:
                watch.kill()
            _, errors = await asyncio.to_thread(watch.communicate)
    assert code == 0, errors
    assert "Exception" not in errors
    findings = json.loads((out / "findings.json").read_text())["findings"]
    assert [one["kind"] for one in findings].count("stuck") == 1


async def there(folder: Path, pattern: str) -> None:
    """Until there is such a file."""
    deadline = time.monotonic() + WAIT_S
    while not any(folder.glob(pattern)):
        assert time.monotonic() < deadline, f"waited {WAIT_S} s for {folder}/{pattern}"
        await asyncio.sleep(0.1)


def said(stream: Any, words: str) -> str:
    """The first line with these words."""
    for text in stream:
        if words in text:
            return str(text).strip()
    raise AssertionError(f"it ended without saying {words!r}")

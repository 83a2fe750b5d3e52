"""A watch over a bad minute: what fails is tried again, and what it knows can be scraped."""

from __future__ import annotations

import io
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker_sim.common.text import UsageError
from broker_sim.pipeline import watching
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.inputs import Inputs
from broker_sim.pipeline.metrics import METRICS, Metrics, MetricsSnapshot, address
from broker_sim.pipeline.progress import Steps
from broker_sim.pipeline.run import JobFailed
from broker_sim.pipeline.streams import StreamFailed
from broker_sim.pipeline.watching import PipelineWatch, WatchOptions
from tests.incidents import run_pipeline
from tests.incidents.run_pipeline import unpack
from tests.pipeline.support_journal import write
from tests.pipeline.test_watch import appended, marks, seqs
from tests.support.processes import DEADLINE_S

LOG = "__consumer_offsets-12"


# ------------------------------------------------------------------------------------------------ again


class Stream:
    """A stream that fails when it is told to."""

    def __init__(self) -> None:
        self.batches, self.begun_again = 0, 0
        self.error: Exception | None = None

    def check(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error

    def restart(self) -> None:
        self.begun_again += 1


class Bad:
    """A watch without Spark, on a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, retries: int) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(watching, "stopwatch", self.stopwatch)
        self.said = io.StringIO()
        self.watch = PipelineWatch(WatchOptions("out", retries=retries), print, Steps(self.said, quiet=False))
        self.watching: Any = watching._WatchSession.__new__(watching._WatchSession)
        self.watching.watch, self.watching.steps, self.watching.options = (
            self.watch,
            self.watch.steps,
            self.watch.options,
        )
        self.watching._patience = {name: watching._RetryLimit(retries) for name in ("journal", "offsets", "tables")}
        self.watching._watch_s = self.stopwatch()
        self.stream = Stream()

    def stopwatch(self) -> Callable[[], float]:
        began_s = self.now_s
        return lambda: self.now_s - began_s

    def look(self, error: Exception | None = None) -> None:
        if error is not None:
            self.stream.error = error
        self.watching._see_to("offsets", self.stream)


def test_a_stream_that_failed_begins_again_after_a_pause_that_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Bad(monkeypatch, retries=10)
    for pause_s in (1, 2, 4, 8, 16, 32, 60, 60):
        bad.look(StreamFailed("Python worker failed to connect back"))
        begun = bad.stream.begun_again
        bad.now_s += pause_s - 0.01
        bad.look()
        assert bad.stream.begun_again == begun
        bad.now_s += 0.02
        bad.look()
        assert bad.stream.begun_again == begun + 1
    assert (
        "__consumer_offsets failed and is tried again in 4 s: Python worker failed to connect back"
        in bad.said.getvalue()
    )
    assert bad.watch.metrics.values()["broker_sim_watch_retries_total"] == [(("offsets",), 8)]


def test_it_ends_where_it_fails_too_often_without_a_batch_between(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Bad(monkeypatch, retries=2)
    for _ in range(5):  # a batch each time
        bad.look(StreamFailed("busy"))
        bad.now_s += 100
        bad.look()
        bad.stream.batches += 1
        bad.look()
    for _ in range(2):
        bad.look(StreamFailed("busy"))
        bad.now_s += 100
        bad.look()
    with pytest.raises(StreamFailed, match="the disk is gone"):
        bad.look(StreamFailed("the disk is gone"))


def test_invalid_arguments_are_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Bad(monkeypatch, retries=10)
    with pytest.raises(UsageError):
        bad.look(UsageError("no such column"))
    assert bad.said.getvalue() == ""


def test_tables_that_could_not_be_made_are_made_another_time(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Bad(monkeypatch, retries=1)
    failing = [JobFailed("Spark failed: no space left on device")]

    def make(*, last: bool) -> None:
        if failing:
            raise failing.pop()

    bad.watching._make_now = make
    bad.watching._make()
    assert bad.watching._next_s == 1.0
    assert "making the tables failed and is tried again in 1 s: Spark failed: no space left" in bad.said.getvalue()
    bad.watching._make()
    failing.append(JobFailed("again"))
    bad.watching._make()
    failing.append(JobFailed("twice"))
    with pytest.raises(JobFailed, match="twice"):
        bad.watching._make()


def test_the_last_tables_are_not_tried_again_and_our_own_mistakes_never(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Bad(monkeypatch, retries=9)
    for error, last in ((JobFailed("at the end"), True), (ZeroDivisionError("ours"), False)):

        def make(*, last: bool, error: Exception = error) -> None:
            raise error

        bad.watching._make_now = make
        with pytest.raises(type(error)):
            bad.watching._make(last=last)


@pytest.mark.spark
def test_a_stream_resumes_where_it_failed_and_has_each_line_once(spark: Any, tmp_path: Path) -> None:
    journal = write(tmp_path / "journal" / "journal-000001.ndjson", marks(1, 30)).parent
    events, fails = appended(spark, tmp_path), [True]

    def then(batch: Any) -> None:
        if fails.pop():
            fails.append(False)
            raise StreamFailed("once")
        fails.append(False)

    spark.sparkContext.setLogLevel("OFF")
    try:
        events.begin(spark.readStream.format("sim_journal").option("runId", "run").load(str(journal)), 100, then)
        with pytest.raises(Exception, match="once"):
            events.caught_up()
        with pytest.raises(StreamFailed, match="once"):
            events.check()
        events.restart()
        events.caught_up()
        events.check()
    finally:
        events.stop()
        spark.sparkContext.setLogLevel("ERROR")
    assert seqs(events) == list(range(1, 31))


# ------------------------------------------------------------------------------------------------ logs of brokers and clients


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_growing_and_rolled_logs_give_the_findings_of_a_run(spark: Any, tmp_path: Path) -> None:
    """A real cluster whose follower froze. When the watch is begun its broker has logged nothing of it yet, and its offsets log has
    nothing new afterwards: what the lines tell is told all the same, once, and the same as by a run."""
    packed = Path(__file__).parents[1] / "incidents" / "recorded" / "stuck-shrunk-3.4.0-2.tar.xz"
    folder, logs = unpack(packed, tmp_path), tmp_path / "logs"
    given = sorted((folder / "logs" / "brokers").glob("node-*/server.log"))
    for path in given:
        begun = path.read_text().splitlines(keepends=True)[:20]
        (logs / path.parent.name).mkdir(parents=True)
        (logs / path.parent.name / "server.log").write_text("".join(begun))

    def watched() -> list[str]:
        told: list[str] = []
        options = WatchOptions(str(tmp_path / "out"), str(folder / "data"), broker_logs=(str(logs),), for_ms=0)
        PipelineWatch(options, told.append, Steps(io.StringIO(), quiet=True)).run()
        return told

    before = watched()
    assert not [line for line in before if "logged it" in line], "the offsets log alone shows one of three partitions"
    for path in given:
        rolled = logs / path.parent.name / "server.log"
        rolled.rename(rolled.with_name("server.log.2026-11-24-09"))
        rolled.write_text("".join(path.read_text().splitlines(keepends=True)[20:]))
    after = watched()
    stuck = [line for line in after if "could not commit" in line]
    assert stuck
    assert "its leader logged it" in stuck[0]
    assert not set(after) & set(before), "a finding is told once"

    (folder / "logs" / "brokers").rename(tmp_path / "more")  # the run has the same files
    logs.rename(folder / "logs" / "brokers")
    told = run_pipeline.findings_of(folder, tmp_path / "run", client_logs=False)
    made = json.loads((tmp_path / "out" / "findings.json").read_text())["findings"]
    known = [(one["kind"], one["group"], one["log_partition"], one["at_ms"]) for one in told]
    assert [(one["kind"], one["group"], one["log_partition"], one["at_ms"]) for one in made] == known
    kinds = {row.what for row in spark.read.parquet(str(tmp_path / "out" / "tables" / "log_lines")).collect()}
    assert {"refused", "preparing"} <= kinds


def test_a_missing_log_is_reported_before_spark_starts(tmp_path: Path) -> None:
    options = WatchOptions(str(tmp_path / "out"), str(tmp_path), broker_logs=(str(tmp_path / "server.log"),))
    with pytest.raises(UsageError, match=r"--broker-log .*server\.log: there is no such file or folder"):
        PipelineWatch(options, print, Steps(io.StringIO(), quiet=True)).run()


def test_logs_deleted_meanwhile_are_reported_once_and_their_lines_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "server.log"
    log.write_text("nothing\n")
    bad = Bad(monkeypatch, retries=1)
    bad.watching.options = WatchOptions("out", str(tmp_path), broker_logs=(str(log),))
    bad.watching.inputs, bad.watching._missed = Inputs("run", None, None), ""
    bad.watching._update_line_files()
    (kept,) = bad.watching.inputs.lines
    log.unlink()
    for _ in range(3):
        bad.watching._update_line_files()
    assert bad.watching.inputs.lines == (kept,)
    assert bad.said.getvalue().count("there is no such file or folder any more") == 1


# ------------------------------------------------------------------------------------------------ metrics


def scraped(metrics: Metrics) -> dict[str, dict[tuple[str, ...], float]]:
    with (
        metrics.served("127.0.0.1", 0) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S) as answer,
    ):
        text = answer.read().decode()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sample.labels[name] for name in METRICS[sample.name][1])
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_metrics_of_a_watch_are_scraped() -> None:
    began_s = time.monotonic()
    metrics = Metrics()
    nothing = scraped(metrics)
    assert set(nothing) == {"broker_sim_group_lag_left_out"}
    odd = 'a "group"\nof \\ two lines'
    metrics.tables(
        MetricsSnapshot(
            {("billing", "orders", 0): 41, (odd, "orders", 1): 7},
            3,
            {"billing": 5},
            [("storm", "warn"), ("storm", "warn"), ("stuck", "bad")],
            1_700_000_000_500,
        )
    )
    metrics.stuck([LOG])
    for _ in range(2):
        metrics.batch("journal")
    metrics.retried("tables")
    found = scraped(metrics)
    assert set(found) == set(METRICS)
    assert found["broker_sim_group_lag"] == {("billing", "orders", "0"): 41, (odd, "orders", "1"): 7}
    assert found["broker_sim_group_lag_left_out"] == {(): 3}
    assert found["broker_sim_group_rebalances_total"] == {("billing",): 5}
    assert found["broker_sim_findings"] == {("storm", "warn"): 2, ("stuck", "bad"): 1}
    assert found["broker_sim_offsets_partition_stuck"] == {(LOG,): 1}
    assert found["broker_sim_watch_batches_total"] == {("journal",): 2}
    assert found["broker_sim_watch_read_until_seconds"] == {(): 1_700_000_000.5}
    assert 0 <= found["broker_sim_watch_tables_age_seconds"][()] <= time.monotonic() - began_s


def test_each_metric_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text(encoding="utf-8")
    for name, (_, labels, says) in METRICS.items():
        assert f"| `{name}` | {', '.join(labels)} | {says} |" in text


def test_ended_findings_have_no_series() -> None:
    metrics = Metrics()
    metrics.tables(MetricsSnapshot({("billing", "orders", 0): 41}))
    metrics.stuck([LOG])
    metrics.tables(MetricsSnapshot({("audit", "orders", 0): 1}))
    metrics.stuck([])
    found = scraped(metrics)
    assert found["broker_sim_group_lag"] == {("audit", "orders", "0"): 1}
    assert "broker_sim_offsets_partition_stuck" not in found


def test_a_port_in_use_is_reported_before_spark_starts() -> None:
    with Metrics().served("127.0.0.1", 0) as port:
        watch = PipelineWatch(
            WatchOptions("out", "in", metrics=("127.0.0.1", port)), print, Steps(io.StringIO(), quiet=True)
        )
        with pytest.raises(UsageError, match=f"--metrics 127.0.0.1:{port}: "):
            watch.run()


def test_it_is_closed_when_the_watch_ends() -> None:
    before = set(threading.enumerate())  # one of another test may be about to end
    with Metrics().served("127.0.0.1", 0) as port:
        assert not set(threading.enumerate()) <= before
    assert set(threading.enumerate()) <= before
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("9404", ("127.0.0.1", 9404)),
        ("0.0.0.0:9404", ("0.0.0.0", 9404)),
        ("[::1]:9404", ("::1", 9404)),
        ("host", None),
        ("host:", None),
        ("1:99999", None),
        ("", None),
    ],
)
def test_addresses(text: str, meant: tuple[str, int] | None) -> None:
    if meant is not None:
        assert address(text) == meant
        return
    with pytest.raises(UsageError, match="is not PORT or HOST:PORT"):
        address(text)


@pytest.mark.spark
def test_metrics_have_the_last_rows_of_the_tables(spark: Any) -> None:
    lag = spark.createDataFrame(
        [("billing", "orders", 0, 1000, 5), ("billing", "orders", 0, 2000, 9), ("billing", "orders", 1, 1000, None),
         ("audit", "orders", 0, 1000, 40)],
        "`group` string, topic string, partition int, window_start_ms bigint, lag bigint",
    )  # fmt: skip
    rebalances = spark.createDataFrame([("billing",), ("billing",), ("audit",)], "`group` string")
    found = [Finding("storm", "warn", 1.0, "words"), Finding("nothing", "good", 0.0, "words")]
    snapshot = MetricsSnapshot.of(lag, rebalances, found, 7)
    assert snapshot == MetricsSnapshot(
        {("audit", "orders", 0): 40, ("billing", "orders", 0): 9}, 0, {"billing": 2, "audit": 1}, [("storm", "warn")], 7
    )

"""A watch: streams over the journal and `__consumer_offsets`, what they bring appended, all else made of that; findings as they come.

Rules:
1. What comes is appended to OUT/tables/events and OUT/tables/offset_log, each line and record once, over restarts (`streams.py`).
2. All other tables are functions of these two. They are made again, whole, from all that was appended, by the very code of `run`: so
   nothing that crosses a batch (a rebalance that goes on, a member's tenure) is kept anywhere else, and they are what `run` would make
   of the same input. That takes the longer the more there is, so it is done a fifth of the time at most, and at the end.
3. What is stuck can't wait for that: `stuck_alerts.py` reads each batch as it arrives.
4. A finding is reported once, also across restarts: OUT/findings.json has the reported ones.
5. OUT and checkpoint belong together: a watch goes on where both are as the last one left them, else it refuses.
6. It ends after the batch that is under way, and then makes the tables once more; asked twice, it ends without.
7. If Spark fails - a worker that doesn't come up on a busy machine, a disk that is full for a while - the failure is logged in one line
   and Spark is called again after a pause that doubles; `WatchOptions.retries` failures without a success between them end the watch.
   Nothing is lost or written twice (rule 1). Invalid arguments are not tried again.
8. Logs of brokers and clients are read again, whole, each time the tables are made, and the folders that were named are looked through
   for new ones: a log that is rolled goes on under its new name, and a deleted one is reported as skipped. Where they alone have grown
   the tables are made, too: a stuck partition of a real cluster is one that nothing is written to.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from broker_sim.common.clock import stopwatch
from broker_sim.common.commandline import handling
from broker_sim.common.text import UsageError, clock, duration_text
from broker_sim.explain.phrases import count
from broker_sim.pipeline import files
from broker_sim.pipeline import inputs as places
from broker_sim.pipeline.lines import reading
from broker_sim.pipeline.lines.reading import LineFile
from broker_sim.pipeline.metrics import Metrics, MetricsSnapshot
from broker_sim.pipeline.output import Folder, is_remote
from broker_sim.pipeline.progress import Steps
from broker_sim.pipeline.run import JobFailed, PipelineRun, RunOptions, at_work, spark_s_reason
from broker_sim.pipeline.schemas import OFFSET_LOG, SKIPPED, TableSchema
from broker_sim.pipeline.tables.events import EVENTS, skipped
from broker_sim.pipeline.tables.offset_log import journal_log, offset_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from broker_sim.pipeline.findings import Finding
    from broker_sim.pipeline.inputs import Inputs
    from broker_sim.pipeline.streams import AppendedStream

__all__ = ["LEDGER", "PipelineWatch", "WatchOptions"]

LEDGER = "broker-sim-watch.json"
"""In OUT: which input and which checkpoint it belongs to."""

TICK_S = 0.1
POLL_INTERVAL_S = 1.0
"""An input that isn't there yet is looked for so often."""

SHARE = 4
"""The tables are made again when so many times as long has passed as it took, and `LEAST_PAUSE_S`."""

LEAST_PAUSE_S = 5.0

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""Before what failed is tried again: the first time, and at most."""

SETTINGS = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.codegen.wholeStage": False,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
}
"""Small batches, over and over: to plan and to compile them costs more than to run them. That way it is half (measured)."""

OF_LINES = ("broker log", "client log", "together")
"""Evidence of stuck partitions without a journal."""

_ONCE = ("lag", "hotspot", "misplaced groups", "churn", "unreadable input")
"""Kinds of findings that last: they are reported once, whenever they began."""


@dataclass(frozen=True)
class WatchOptions:
    """Options of a watch: see ``broker-sim pipeline watch --help``."""

    out: str
    input: str | None = None
    journal: str | None = None
    broker_logs: tuple[str, ...] = ()
    client_logs: tuple[str, ...] = ()
    checkpoint: str | None = None
    every_ms: int = 1000
    for_ms: int | None = None
    retries: int = 10
    metrics: tuple[str, int] | None = None
    run_id: str | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


class PipelineWatch:
    """``report(line)`` prints a finding; ``steps``: progress. `stop` may be called from any thread."""

    def __init__(self, options: WatchOptions, report: Callable[[str], object], steps: Steps) -> None:
        self.options, self.report, self.steps = options, report, steps
        self.metrics = Metrics()
        self._over = threading.Event()
        self._reported: set[str] = set()

    def stop(self) -> None:
        """End it, as a signal does."""
        self._over.set()

    def run(self) -> None:
        """Until it is stopped. Raises UsageError, JobFailed, StreamFailed."""
        if self.options.metrics is None:
            self._run()
            return
        host, port = self.options.metrics
        with self.metrics.served(host, port) as port:
            self.steps.say(f"metrics at http://{f'[{host}]' if ':' in host else host}:{port}/metrics")
            self._run()

    def _run(self) -> None:
        from broker_sim.pipeline.session import is_running, need_pyspark, spark_session

        inputs = _inputs(self.options)
        remote = is_remote(self.options.out)
        if not remote:
            _belongs(Folder.local(self.options.out), _ledger(self.options, inputs))
        need_pyspark()
        ours = not is_running()
        with self.steps.step("starting Spark") as step:
            conf = {**SETTINGS, **self.options.conf}
            # A failure is reported here in a line, when it is retried or ends the watch; Spark would log each with a hundred.
            spark = spark_session(self.options.master, "broker-sim pipeline watch", conf, log_level="OFF")
            step.done(f"{spark.version}, {spark.sparkContext.master}")
        with at_work(spark, stop=ours), _signals(self.stop):
            folder = Folder.remote(self.options.out, spark) if remote else Folder.local(self.options.out)
            _WatchSession(self, spark, folder, inputs).all()

    def over(self, wait_s: float) -> bool:
        """Whether it is stopped; waits up to ``wait_s`` for it."""
        return self._over.wait(wait_s)

    def report_new(self, findings: list[Finding], *, stuck: bool) -> None:
        """Report findings that are new. ``stuck``: also those of stuck partitions."""
        for finding in sorted(findings, key=lambda finding: finding.at_ms or 0):
            if finding.kind != "nothing" and _key(finding.to_dict()) not in self._reported:
                self._reported.add(_key(finding.to_dict()))
                if finding.kind != "stuck" or stuck:
                    self.report(
                        f"{clock(finding.at_ms)}  {finding.text}" if finding.at_ms is not None else finding.text
                    )

    def restore_reported(self, text: str | None) -> None:
        """``text``: findings.json of an earlier watch."""
        if text is not None:
            self._reported.update(_key(finding) for finding in json.loads(text)["findings"])


def _key(finding: Mapping[str, Any]) -> str:
    """Key of a finding, which is equal in later reports of the same finding."""
    began = None if finding["kind"] in _ONCE else finding["at_ms"]
    return json.dumps([finding["kind"], finding["group"], finding["log_partition"], began])


def _signals(stop: Callable[[], object]) -> AbstractContextManager[None]:
    """SIGINT and SIGTERM end the watch."""

    def ended(number: int, frame: object) -> None:
        stop()
        signal.signal(number, signal.default_int_handler)  # a second signal interrupts the tables

    return handling(ended, signal.SIGINT, signal.SIGTERM)


# ------------------------------------------------------------------------------------------------ what belongs together


def _inputs(options: WatchOptions) -> Inputs:
    """Find the inputs of a watch; only the run's name if the folders exist but have no input yet. Raises UsageError."""
    lines = _lines(options)
    try:
        inputs = places.find(options.input, options.journal, options.run_id)
        return replace(inputs, lines=lines)
    except UsageError:
        known = [name for name in (options.input, options.journal) if name is not None]
        there = [files.entry(name) for name in known]
        if options.for_ms == 0 or not known or not all(folder is not None and folder.is_dir for folder in there):
            raise
        return places.Inputs(places.run_name(options.run_id, known[0]), None, None, lines=lines)


def _lines(options: WatchOptions) -> tuple[LineFile, ...]:
    """The files of brokers' and clients' logs as they are now. Raises UsageError."""
    line_files = (*reading.find(options.broker_logs, "broker"), *reading.find(options.client_logs, "client"))
    return tuple(replace(file, path=places.everywhere(file.path)) for file in line_files)


def _ledger(options: WatchOptions, inputs: Inputs) -> dict[str, Any]:
    checkpoint = Folder.local(options.checkpoint).where if options.checkpoint else None
    return {"run_id": inputs.run_id, "input": options.input, "journal": options.journal, "checkpoint": checkpoint}


def _belongs(folder: Folder, ledger: Mapping[str, Any]) -> bool:
    """Whether OUT is that of an earlier watch of the same. Raises UsageError for one that is something else's."""
    names = folder.names()
    text = None if names is None else folder.read(LEDGER)
    where = Folder.local(ledger["checkpoint"]) if ledger["checkpoint"] else None
    if text is None:
        if names is None or names:
            raise UsageError(f"--out {folder.path}: the folder exists and was not made by a watch; nothing was changed")
        if where is not None and where.names():
            raise UsageError(f"--checkpoint {where.path}: it belongs to another --out; nothing was changed")
        return False
    known = json.loads(text)
    for name, value in ledger.items():
        if known.get(name) != value:
            raise UsageError(
                f"--out {folder.path}: the watch that made it had {known.get(name)!r} as {name.replace('_', '-')}, not {value!r};"
                " choose another --out"
            )
    if "checkpoint" not in (names or ()) and not (where is not None and where.names()):
        raise UsageError(f"--out {folder.path}: the checkpoint of its watch is missing; choose another --out")
    return True


# ------------------------------------------------------------------------------------------------ watching


class _WatchSession:
    """A watch in its session."""

    def __init__(self, watch: PipelineWatch, spark: SparkSession, folder: Folder, inputs: Inputs) -> None:
        from broker_sim.pipeline.streams import AppendedStream
        from broker_sim.pipeline.stuck_alerts import StuckAlerts

        self.watch, self.spark, self.folder, self.inputs = watch, spark, folder, inputs
        self.steps, self.options = watch.steps, watch.options
        self.lock = threading.RLock()
        self.alerts = StuckAlerts(watch.report)
        checkpoint = _ledger(self.options, inputs)["checkpoint"] or f"{folder.where}/checkpoint"

        def appended(table: TableSchema, name: str) -> AppendedStream:
            return AppendedStream(
                spark, table, inputs.run_id, folder.table(table.name, inputs.run_id), f"{checkpoint}/{name}", self.lock
            )

        self.events, self.log = appended(EVENTS, "journal"), appended(OFFSET_LOG, "offsets")
        self._patience = {name: _RetryLimit(self.options.retries) for name in ("journal", "offsets", "tables")}
        self._looked = self._quiet = stopwatch()
        self._made: tuple[object, ...] | None = None
        self._stuck: set[str] = set()
        """Offsets partitions that are stuck according to logs."""
        self._missed = ""
        self._next_s = 0.0
        self._watch_s = stopwatch()

    def all(self) -> None:
        ledger = _ledger(self.options, self.inputs)
        if _belongs(self.folder, ledger):
            self.watch.restore_reported(self.folder.read("findings.json"))
        else:
            self.folder.prepare(self.inputs.run_id, overwrite=False)
            self.folder.write(LEDGER, json.dumps(ledger) + "\n")
        if self.events.is_there():
            self.alerts.add(self.events.frame(), past=True)
        try:
            self._begin()
            self._follow()
        finally:
            for stream in (self.events, self.log):
                stream.stop()
        self._make(last=True)

    def _follow(self) -> None:
        if self.options.for_ms == 0:
            for stream in (self.events, self.log):
                stream.caught_up()
            return
        while not self.watch.over(TICK_S):
            if self.options.for_ms is not None and self._watch_s() * 1000 >= self.options.for_ms:
                return
            if not (self.events.begun and self.log.begun) and self._looked() > POLL_INTERVAL_S:
                self._looked = stopwatch()
                self._begin()
            for name, stream in (("journal", self.events), ("offsets", self.log)):
                self._see_to(name, stream)
            if self.lock.acquire(blocking=False):
                try:
                    self.alerts.older(self._quiet() * 1000)
                finally:
                    self.lock.release()
            self.watch.metrics.stuck(self._stuck.union(period.log for period in self.alerts.open if period.reported))
            if self._watch_s() >= self._next_s:
                self._make()

    def _see_to(self, name: str, stream: AppendedStream) -> None:
        """Begin a stream again that has ended by itself. Raises StreamFailed, or what our own code raised, where that was too often."""
        patience = self._patience[name]
        if patience.waits_s is not None:
            if patience.since() >= patience.waits_s:
                patience.waits_s = None
                stream.restart()
            return
        if stream.batches > patience.batches:  # it works
            for _ in range(stream.batches - patience.batches):
                self.watch.metrics.batch(name)
            patience.worked(stream.batches)
        try:
            stream.check()
        except UsageError:
            raise
        except Exception as error:
            patience.failed(error)
            self._report_failure(
                f"the stream of {'the journal' if name == 'journal' else '__consumer_offsets'}", name, error
            )

    def _report_failure(self, what: str, name: str, error: Exception) -> None:
        self.watch.metrics.retried(name)
        why = spark_s_reason(error) or str(error) or type(error).__name__
        waits = duration_text(round((self._patience[name].waits_s or 0) * 1000))
        self.steps.say(f"{what} failed and is tried again in {waits}: {why}")

    def _begin(self) -> None:
        """The streams whose input is there by now."""
        inputs = _inputs(self.options)
        self.spark.sparkContext.setLocalProperty(
            "spark.scheduler.pool", "streams"
        )  # a share of the cores while tables are made
        try:
            self._begin_with(inputs)
        finally:
            self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]
        self.inputs = inputs

    def _begin_with(self, inputs: Inputs) -> None:
        reader = self.spark.readStream.option("runId", self.inputs.run_id)
        if inputs.journal is not None and not self.events.begun:
            frame = reader.format("sim_journal").option("body", "false").load(inputs.journal)
            self.events.begin(frame, self.options.every_ms, self._on_events)
            self.steps.say(f"following the journal {inputs.journal}")
        reader = self.spark.readStream.option("runId", self.inputs.run_id)
        if inputs.log is not None and not self.log.begun:
            self.log.begin(
                reader.format("consumer_offsets").load(inputs.log), self.options.every_ms, lambda batch: None
            )
            self.steps.say(f"following __consumer_offsets in {inputs.log}")

    def _on_events(self, batch: DataFrame) -> None:
        """A batch of events, on a thread of Spark's that holds the lock."""
        self.alerts.add(batch)
        self._quiet = stopwatch()

    def _make(self, *, last: bool = False) -> None:
        """`_make_now`; where Spark fails, it is done another time. Raises what failed too often, or when it was the last time."""
        patience = self._patience["tables"]
        try:
            self._make_now(last=last)
        except Exception as error:
            if last or (spark_s_reason(error) is None and not isinstance(error, JobFailed)):
                raise
            patience.failed(error)
            self._next_s = self._watch_s() + (patience.waits_s or 0)
            self._report_failure("making the tables", "tables", error)
        else:
            patience.worked(0)

    def _make_now(self, *, last: bool) -> None:
        """The tables, the report and the findings, if anything has come since the last time; given up for the last ones."""
        batches = (self.events.batches, self.log.batches)
        self._update_line_files()
        state = (*batches, *((file.path, file.size) for file in self.inputs.lines))
        if state == self._made or (batches == (0, 0) and not self.inputs.lines):
            return
        took, over = stopwatch(), (lambda: False) if last else (lambda: self.watch.over(0))
        try:
            with self.steps.step("tables and report") as step:
                with self.lock:
                    events, log = self.events.frame(), self.log.frame()
                again = _RepeatedRun(self, events, log, over)
                made = again.all()
                step.done(count(len(made.findings), "finding"))
        except _WatchEnded:
            return
        if self.options.metrics is not None:
            lag, rebalances = again.tables["lag"], again.tables["rebalances"]
            self.watch.metrics.tables(MetricsSnapshot.of(lag, rebalances, made.findings, made.facts.to_ms))
        self._stuck = {row["log"] for row in made.facts.stuck if row["to_ms"] is None and row["evidence"] in OF_LINES}
        self.watch.report_new(made.findings, stuck=self.inputs.journal is None)
        self._made = state
        self._next_s = self._watch_s() + max(SHARE * took(), LEAST_PAUSE_S)

    def _update_line_files(self) -> None:
        """Update the list of brokers' and clients' logs. If a name matches no file any more, its files are reported as deleted."""
        try:
            self.inputs = replace(self.inputs, lines=_lines(self.options))
        except UsageError as error:
            if str(error) != self._missed:
                self._missed = str(error)
                self.steps.say(f"{error} any more")


class _RetryLimit:
    """Limit of failures in a row. ``waits_s``: seconds from the start of `since` to the next attempt."""

    def __init__(self, most: int) -> None:
        self.most, self.failures, self.batches = most, 0, 0
        self.waits_s: float | None = None
        self.since = stopwatch()

    def failed(self, error: Exception) -> None:
        """Once more. Raises ``error`` where that was too often."""
        self.failures += 1
        if self.failures > self.most:
            raise error
        self.waits_s = min(FIRST_WAIT_S * 2 ** (self.failures - 1), LONGEST_WAIT_S)
        self.since = stopwatch()

    def worked(self, batches: int) -> None:
        self.failures, self.batches, self.waits_s = 0, batches, None


class _WatchEnded(Exception):
    """The watch is over: the tables will be made for the last time."""


class _RepeatedRun(PipelineRun):
    """`run` over what was appended, into the same folder, unless it is ``over`` meanwhile."""

    def __init__(self, watching: _WatchSession, events: DataFrame, log: DataFrame, over: Callable[[], bool]) -> None:
        options = RunOptions(watching.options.out, watching.options.input, watching.options.journal)
        quiet = Steps(watching.steps.stream, quiet=True)
        super().__init__(watching.spark, watching.inputs, watching.folder, options, quiet)
        self._appended, self._over = {"events": events, "offset_log": log}, over

    def _read(self) -> None:
        events, log = self._appended["events"], self._appended["offset_log"]
        unread = skipped(events)
        if self.inputs.log is not None:
            reader = self.spark.read.format("consumer_offsets_skipped").option("runId", self.inputs.run_id)
            unread = unread.unionByName(SKIPPED.conform(reader.load(self.inputs.log)))
        states = self._states()
        if states:
            unread = unread.unionByName(SKIPPED.frame(self.spark, states))
        log = offset_log(log) if self.inputs.log is not None else journal_log(events)
        self.tables = {"events": events, "offset_log": log}
        if self.inputs.lines:
            unread = unread.unionByName(self._lines(log))
        self._keep(SKIPPED, unread, 1)
        self._let_go()
        self._span(events, log)

    def _write(self, rows: DataFrame, where: str) -> None:
        """Readers of the folder see the old table or the new one."""
        if self._over():
            raise _WatchEnded
        new = f"{self.folder.where}/tables/_new/{where.removeprefix(self.folder.where)}"
        rows.write.mode("overwrite").parquet(new)
        jvm: Any = self.spark.sparkContext._jvm
        old, made = jvm.org.apache.hadoop.fs.Path(where), jvm.org.apache.hadoop.fs.Path(new)
        system = old.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration())
        system.mkdirs(old.getParent())
        system.delete(old, True)
        system.rename(made, old)

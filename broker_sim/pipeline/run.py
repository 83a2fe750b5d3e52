"""``broker-sim pipeline run``: from a data directory and a journal to Parquet tables, a report and findings.

Rules:
1. Invalid arguments are reported before an engine starts. The output folder is changed after that, and the input never.
2. Each input is decoded once: what the sources give is written as Parquet first, and all that follows reads those columns again. So
   memory stays flat, and a table's lineage is short.
3. A table is written before the report is drawn; an interrupted run leaves whole tables, and a marker by which it can be overwritten.
4. Less than `LARGE` bytes of input are computed in this process, on DuckDB: Spark takes a minute for what takes DuckDB seconds. What
   is larger, or lies where Spark alone gets at it, goes to Spark. The tables are the same functions (`engine.py`).
5. Without a journal the journal's tables are empty, without a log the log's are made of what the journal knows (`journal_log`);
   without both there are lines of brokers and clients, and their tables.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_sim.common.clock import stopwatch
from broker_sim.common.text import UsageError, clock, date, visible
from broker_sim.explain.phrases import count
from broker_sim.pipeline import files, findings, inputs
from broker_sim.pipeline.aborted_transactions import aborts_of
from broker_sim.pipeline.derived import derived, tables_of_tables
from broker_sim.pipeline.duck.frames import Frame
from broker_sim.pipeline.duck.session import DuckSession, is_installed, need_duckdb
from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.engine import on_its_engine
from broker_sim.pipeline.facts import ReportFacts
from broker_sim.pipeline.journal_files import lines_of as journal_lines
from broker_sim.pipeline.log_parts import frame_of, write_parts
from broker_sim.pipeline.offset_logs import FoundLogs, find_logs
from broker_sim.pipeline.output import Folder, is_remote
from broker_sim.pipeline.progress import Steps, tasks_of
from broker_sim.pipeline.schemas import OFFSET_LOG, SKIPPED, TableSchema
from broker_sim.pipeline.scope import ALL, Scope, pattern_of
from broker_sim.pipeline.segments import Skipped
from broker_sim.pipeline.share_logs import rows_of_shares
from broker_sim.pipeline.tables import events as journal
from broker_sim.pipeline.tables.coordinator_hotspots import LOG_SIZES
from broker_sim.pipeline.tables.lag import LOG_ENDS, journal_ends, window_ms_for
from broker_sim.pipeline.tables.offset_log import journal_log, offset_log
from broker_sim.pipeline.transaction_logs import rows_of_data, rows_of_journal, rows_of_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from broker_sim.pipeline.tables.condensed import Condensed

__all__ = [
    "JobFailed",
    "PipelineRun",
    "RunOptions",
    "RunResult",
    "at_work",
    "engine_for",
    "pipeline",
    "settings",
    "spark_s_reason",
]


SMALL = 32 << 20
"""Bytes of input below which queries are not worth being compiled."""
COMPILED = 256 << 20
"""Bytes of input from which on Java's second compiler is worth its time: a log of 366 MiB is read in 20 s in place of 33 s."""
AT_ONCE = 2
"""Tables that Spark makes at the same time."""
LARGE = 4 << 30
"""Bytes of input from which on Spark is the engine, unless ``--engine`` is given. DuckDB's memory does not grow with them, but one
process decodes them: a gigabyte of the offsets log takes about a minute, and Spark is quicker from some eight cores on."""


class JobFailed(RuntimeError):
    """Spark gave up; its reason in one line."""


@dataclass(frozen=True)
class RunOptions:
    """Options of a run: see ``broker-sim pipeline run --help``."""

    out: str
    input: str | None = None
    journal: str | None = None
    look_for_journal: bool = True
    broker_logs: tuple[str, ...] = ()
    client_logs: tuple[str, ...] = ()
    overwrite: bool = False
    run_id: str | None = None
    window_ms: int | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    engine: str = "auto"
    scope: Scope = ALL


@dataclass(frozen=True)
class RunResult:
    """Result of a run. ``report``: the page's address for a browser."""

    facts: ReportFacts
    findings: list[findings.Finding]
    report: str

    def text(self) -> str:
        """The findings and the report's address, as printed to a terminal."""
        return f"{findings.text(self.findings)}\n{self.report}\n"

    def to_dict(self) -> dict[str, Any]:
        """For programs; also the content of findings.json."""
        return {
            "run_id": self.facts.run_id,
            "input": self.facts.input,
            "journal": self.facts.journal,
            "scope": self.facts.scope,
            "from_ms": self.facts.from_ms,
            "to_ms": self.facts.to_ms,
            "groups": self.facts.groups,
            "commits": self.facts.commits,
            "rows": self.facts.counts,
            "findings": [finding.to_dict() for finding in self.findings],
            "report": self.report,
        }


def pipeline(options: RunOptions, steps: Steps) -> RunResult:
    """Run everything. Raises UsageError, JobFailed."""
    folder = None if is_remote(options.out) else Folder.local(options.out)
    for what, path in (("--journal", options.journal), *((_LINES, path) for path in _line_files(options))):
        if path is not None and is_remote(path):
            raise UsageError(f"{what} {path}: that is read from this machine's disks; copy it to one")
    if options.input is not None and is_remote(options.input):
        engine_for(options, LARGE)
        _check_remote(options, options.input)
        if folder is not None:
            folder.check(overwrite=options.overwrite)
        return _on_spark(options, None, folder, steps)
    run_inputs = _inputs_of(options)
    if folder is not None:
        folder.check(overwrite=options.overwrite)
    if engine_for(options, run_inputs.size) == "duckdb":
        with _in_process() as session:
            steps.say(f"DuckDB: {session.version}, {_mib(run_inputs.size)}")
            assert folder is not None
            folder.prepare(run_inputs.run_id, overwrite=options.overwrite)
            return PipelineRun(session, run_inputs, folder, options, steps).all()
    return _on_spark(options, run_inputs, folder, steps)


_LINES = "--broker-log, --client-log"


def _line_files(options: RunOptions) -> tuple[str, ...]:
    return (*options.broker_logs, *options.client_logs)


def _inputs_of(options: RunOptions) -> inputs.Inputs:
    """Find the inputs of a run. A journal is looked for on this machine alone. Raises UsageError."""
    return inputs.find(
        options.input,
        options.journal,
        options.run_id,
        look=options.look_for_journal and not (options.input is not None and is_remote(options.input)),
        broker_logs=options.broker_logs,
        client_logs=options.client_logs,
    )


def _check_remote(options: RunOptions, name: str) -> None:
    """Check an address before Spark starts. Raises UsageError."""
    from broker_sim.pipeline.hadoop_files import check
    from broker_sim.pipeline.session import is_running, need_pyspark, own_jars

    need_pyspark()
    if not is_running() and "PYSPARK_GATEWAY_PORT" not in os.environ:
        check(name, options.conf, own_jars)


def engine_for(options: RunOptions, size: int) -> str:
    """`duckdb` or `spark`, for an input of so many bytes. Raises UsageError for an engine that can't do it, or isn't there."""
    elsewhere = "--master" if options.master else "--conf" if options.conf else ""
    for what, path in (("--out", options.out), ("--input", options.input or "")):
        if not elsewhere and is_remote(path):
            elsewhere = f"{what} {path}"
    if options.engine == "duckdb":
        need_duckdb()
        if elsewhere:
            raise UsageError(
                f"--engine duckdb computes in this process and has this machine's disks alone; {elsewhere} is for Spark"
            )
    small = not elsewhere and size < LARGE and "PYSPARK_GATEWAY_PORT" not in os.environ
    return (
        "duckdb" if options.engine == "duckdb" or (options.engine == "auto" and small and is_installed()) else "spark"
    )


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB of input"


@contextmanager
def _in_process() -> Iterator[Any]:
    session = DuckSession()
    try:
        yield session
    finally:
        session.stop()


def _on_spark(options: RunOptions, run_inputs: inputs.Inputs | None, folder: Folder | None, steps: Steps) -> RunResult:
    """``found`` None: the input is where Spark's file systems get at it, and is looked at when Spark runs."""
    from broker_sim.pipeline.session import is_running, need_pyspark, spark_session

    need_pyspark()
    ours = not is_running()
    with steps.step("starting Spark") as step:
        spark = spark_session(
            options.master,
            "broker-sim pipeline",
            {**settings(options.master, LARGE if run_inputs is None else run_inputs.size), **options.conf},
        )
        size = "" if run_inputs is None else f", {_mib(run_inputs.size)}"
        step.done(f"{spark.version}, {spark.sparkContext.master}{size}")
    steps.tasks = tasks_of(spark)
    with at_work(spark, stop=ours), _elsewhere(spark, run_inputs is None):
        run_inputs = run_inputs or _inputs_of(options)
        folder = folder or Folder.remote(options.out, spark)
        folder.prepare(run_inputs.run_id, overwrite=options.overwrite)
        return PipelineRun(spark, run_inputs, folder, options, steps).all()


@contextmanager
def _elsewhere(spark: SparkSession, remote: bool) -> Iterator[None]:
    if not remote:
        yield
        return
    from broker_sim.pipeline.hadoop_files import HadoopFiles

    with files.through(HadoopFiles(spark)):
        yield


@contextmanager
def at_work(spark: SparkSession, *, stop: bool) -> Iterator[None]:
    """Context for work with a session, which is stopped afterwards if ``stop``. Raises JobFailed if Spark fails."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped,unused-ignore]

    try:
        yield
    except Exception as error:
        reason = spark_s_reason(error)
        if reason is None:
            raise
        raise JobFailed(reason) from error
    finally:
        if stop:
            with suppress(Py4JError):  # after Ctrl-C the JVM may close the connection; its process ends with this one
                spark.stop()


def settings(master: str | None, size: int) -> dict[str, str]:
    """Settings on one machine for inputs of so many bytes. A run is many queries, each of them new, so that the slow compilers cost
    more than they give: Java's second one below `COMPILED`, and for small inputs Spark's own code generation."""
    if size >= COMPILED or not (master or "local").startswith("local") or "PYSPARK_GATEWAY_PORT" in os.environ:
        return {}
    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"}
    if size < SMALL:
        quick |= {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
        quick |= {"spark.sql.adaptive.enabled": "false"}
        quick["spark.driver.extraJavaOptions"] += " -XX:+UseSerialGC"
    return quick


def spark_s_reason(error: Exception) -> str | None:
    """One line of an exception that Spark or Java raised, None for any other."""
    if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
        return None
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = [line for line in lines if line.startswith(("Caused by:", "broker_sim.", "pyspark.errors"))]
    return f"Spark failed: {(found[-1] if found else lines[0] if lines else type(error).__name__)[:500]}"


class PipelineRun:
    """One making of everything, in a session of Spark's or DuckDB's. `watching` makes it again and again of what streams brought."""

    def __init__(
        self, spark: SparkSession, run_inputs: inputs.Inputs, folder: Folder, options: RunOptions, steps: Steps
    ) -> None:
        self.spark, self.inputs, self.folder, self.options, self.steps = spark, run_inputs, folder, options, steps
        self.on_spark = not isinstance(spark, DuckSession)
        self.facts = ReportFacts(run_inputs.run_id, options.input, run_inputs.journal, scope=options.scope.text())
        self.facts.logged = run_inputs.log is not None
        self.facts.whole = not (options.scope.groups or options.scope.since_ms is not None)
        self.tables: dict[str, DataFrame] = {}
        self._seen: DataFrame | None = None
        self._deliveries: list[dict[str, Any]] = []
        self._held: list[DataFrame] = []
        self._files: tuple[str, ...] = ()
        """Files of the offset_log, if this process and Spark's workers can read them."""
        self._in_order = False
        """Whether the rows of an offset_log come in the order of the log."""

    def all(self) -> RunResult:
        from broker_sim.pipeline.collect import collect

        self._read()
        self._make()
        with self.steps.step("report") as step:
            facts = collect(self.tables, self.facts)
            outcome = self._report(facts)
            step.done(count(len(outcome.findings), "finding"))
        return outcome

    # --- in and out -----------------------------------------------------------------------------------------------------

    @on_its_engine
    def _keep(self, table: TableSchema, frame: DataFrame, files: int | None = None) -> DataFrame:
        """Write a table; from now on it is read from there."""
        where = self.folder.table(table.name, self.inputs.run_id)
        rows = table.conform(frame).drop("run_id")
        if isinstance(rows, Frame):
            kept = rows.session.written(rows, where)
        else:
            self._write(rows if files is None else rows.coalesce(files), where)
            kept = self.spark.read.schema(rows.schema).parquet(where)
        self.tables[table.name] = kept.select(f.lit(self.inputs.run_id).alias("run_id"), *kept.columns)
        return self.tables[table.name]

    def _write(self, rows: DataFrame, where: str) -> None:
        rows.write.mode("overwrite").parquet(where)

    def _read(self) -> None:
        run_id = self.inputs.run_id
        passed_over = [{"run_id": run_id, "file": file, "reason": why} for file, why in self.inputs.unread]
        skipped = SKIPPED.frame(self.spark, passed_over)
        events = journal.EVENTS.frame(self.spark)
        if self.inputs.journal is not None:
            with self.steps.step("reading the journal") as step:
                source = self.spark.read.format("sim_journal").option("runId", run_id).option("body", "false")
                events = source.load(self.inputs.journal)
                events = self._keep(journal.EVENTS, self.options.scope.events(events))
                skipped = skipped.unionByName(journal.skipped(events))
                self.facts.counts["events"] = events.count()
                step.done(count(self.facts.counts["events"], "event"))
        else:
            events = self._keep(journal.EVENTS, events, 1)
        with self.steps.step("reading __consumer_offsets") as step:
            if self.inputs.log is not None:
                unread = self._offsets(self.inputs.log)
                skipped = skipped.unionByName(SKIPPED.conform(unread))
            else:
                self._keep(OFFSET_LOG, self.options.scope.log(journal_log(events)))
            log = self.tables["offset_log"]
            self.facts.counts["offset_log"] = log.count()
            instead = "" if self.inputs.log else ", from the journal: there is no log" if self.inputs.journal else ""
            step.done(f"{count(self.facts.counts['offset_log'], 'record')}{instead}")
        if self.inputs.lines:
            skipped = skipped.unionByName(self._lines(log))
        of_states = self._states()
        if of_states:
            skipped = skipped.unionByName(SKIPPED.frame(self.spark, of_states))
        self._keep(SKIPPED, skipped, 1)
        self._let_go()
        self._span(events, log)
        self._need_groups(log)

    def _let_go(self) -> None:
        """Unpersist DataFrames that two tables shared and that are written: a watch makes them again and again in one session."""
        while self._held:
            self._held.pop().unpersist()

    def _offsets(self, where: str) -> DataFrame:
        """Keep the records of a log directory; returns what of it can't be read."""
        run_id, scope = self.inputs.run_id, self.options.scope
        found = find_logs([where], run_id)
        if not is_remote(where) and not is_remote(self.folder.where):
            return self._parts_of(found)
        from broker_sim.pipeline.hadoop_files import offset_rows

        if is_remote(where):
            rows, unread = offset_rows(self.spark, found.logs, run_id)
        else:
            sources = (
                self.spark.read.format(name).option("runId", run_id)
                for name in ("consumer_offsets", "consumer_offsets_skipped")
            )
            rows, unread = (source.load(where) for source in sources)
        self._keep(OFFSET_LOG, scope.log(offset_log(rows, run_id, distinct=True)))
        self._in_order = scope.since_ms is None
        others = [{"run_id": run_id, **skipped._asdict()} for skipped in found.skipped] if is_remote(where) else []
        return unread.unionByName(SKIPPED.frame(self.spark, others)) if others else unread

    def _parts_of(self, found: FoundLogs) -> DataFrame:
        """As `_offsets`, of logs on a disk: their records are written where they are decoded."""
        run_id, scope = self.inputs.run_id, self.options.scope
        name = f".{OFFSET_LOG.name}" if scope else OFFSET_LOG.name
        where = self.folder.table(name, run_id)
        folder = files.local_path(where)
        assert folder is not None
        parts = write_parts(self.spark, found, folder, run_id, self.steps.counts_records)
        whole = frame_of(self.spark, parts, where, run_id)
        if scope:
            self._keep(OFFSET_LOG, scope.log(whole))
            self._in_order = scope.since_ms is None
            shutil.rmtree(Path(folder).parent)
        else:
            self.tables[OFFSET_LOG.name], self._files = whole, parts.files
        frame: DataFrame = SKIPPED.frame(
            self.spark, [{"run_id": run_id, **skipped._asdict()} for skipped in parts.skipped]
        )
        return frame

    @on_its_engine
    def _lines(self, log: DataFrame) -> DataFrame:
        """Make the table of brokers' and clients' log lines; return rows about unreadable files and parts of them."""
        from broker_sim.pipeline.tables.log_lines import LOG_LINES, UNREAD, aligned, log_lines, with_groups

        with self.steps.step("reading log lines") as step:
            raw = log_lines(self.spark, self.inputs.lines, self.inputs.run_id).persist()
            self._held.append(raw)
            unread = f.col("what") == UNREAD
            found = aligned(with_groups(raw.where(~unread), log), log)
            lines = self._keep(LOG_LINES, self.options.scope.lines(found, log))
            rows = raw.where(unread).select("run_id", "file", f.col("detail").alias("reason"))
            self.facts.counts["log_lines"] = lines.count()
            if self.facts.lines_alone:
                self.facts.groups = lines.where(f.col("group").isNotNull()).select("group").distinct().count()
            self.facts.lines = [file.path for file in self.inputs.lines]
            step.done(f"{count(self.facts.counts['log_lines'], 'line')} of {count(len(self.inputs.lines), 'file')}")
        return SKIPPED.conform(rows)

    @on_its_engine
    def _span(self, events: DataFrame, log: DataFrame) -> None:
        """From when to when there is anything."""
        both = events.select("ts_ms").unionByName(log.select(f.col("record_ts_ms").alias("ts_ms")))
        if self.inputs.log is None and self.inputs.journal is None:
            both = self.tables["log_lines"].select("ts_ms")
        row = both.where(f.col("ts_ms") >= 0).agg(f.min("ts_ms").alias("first"), f.max("ts_ms").alias("last")).first()
        self.facts.from_ms, self.facts.to_ms = (row.first, row.last) if row is not None else (None, None)
        since_ms = self.options.scope.since_ms
        if since_ms is not None and self.facts.from_ms is not None and self.facts.to_ms is not None:
            if self.facts.to_ms < since_ms:
                raise UsageError(
                    f"--since {date(since_ms)} {clock(since_ms)}: what was read ends before, at {date(self.facts.to_ms)}"
                    f" {clock(self.facts.to_ms)} UTC"
                )
            self.facts.from_ms = max(self.facts.from_ms, since_ms)

    @on_its_engine
    def _need_groups(self, log: DataFrame) -> None:
        """Raises UsageError for a --group that matches no group."""
        named = log.select("group")
        if "log_lines" in self.tables:
            named = named.unionByName(self.tables["log_lines"].select("group"))
        for pattern in self.options.scope.groups:
            if not named.where(f.col("group").rlike(pattern_of(pattern))).limit(1).count():
                raise UsageError(f"--group {visible(pattern)}: no group of the input matches")

    # --- the tables -----------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        """All tables, two at a time: while one is planned, the other one computes."""
        window_ms = self.options.window_ms or window_ms_for((self.facts.to_ms or 0) - (self.facts.from_ms or 0))
        short = self._condensed(window_ms)
        with self.steps.step("tables") as step:
            made = self._all_of(self._tables(window_ms, short))
            made |= self._all_of(
                tables_of_tables(self.tables["offset_log"] if short is None else short.rows, self.tables)
            )
            step.done(f"{len(made)} with {count(sum(made.values()), 'row')}")
        self._let_go()
        self.facts.counts |= made

    def _all_of(self, tables: Mapping[TableSchema, Callable[[], DataFrame]]) -> dict[str, int]:
        """A table's name -> its rows."""
        with ThreadPoolExecutor(AT_ONCE if self.on_spark else 1) as pool:
            made = [pool.submit(self._write_table, table, make) for table, make in tables.items()]
            try:
                rows = [table.result() for table in made]
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        return {table.name: number for table, number in zip(tables, rows, strict=True)}

    def _write_table(self, table: TableSchema, make: Callable[[], DataFrame]) -> int:
        watch = stopwatch()
        number = self._keep(table, self.options.scope.filtered(table.name, make()), 1).count()
        self.steps.say(f"  {table.name}: {count(number, 'row')} ({watch():.1f} s)")
        return number

    def _condensed(self, window_ms: int) -> Condensed | None:
        """The log without commits that tell nothing: what tables are made of. None of a journal: its records have no order."""
        if self.inputs.log is None:
            return None
        from broker_sim.pipeline.tables.condensed import condensed

        with self.steps.step("condensing") as step:
            short = condensed(
                self.tables["offset_log"],
                window_ms,
                ordered=self._in_order,
                files=self._files,
                run_id=self.inputs.run_id,
            )
            self._held.append(short.kept)
            step.done(f"{count(short.rows.count(), 'record')} left")
        return short

    def _tables(self, window_ms: int, short: Condensed | None) -> dict[TableSchema, Callable[[], DataFrame]]:
        events, log = self.tables["events"], self.tables["offset_log"]
        ends = self.options.scope.ends(self._ends(events, window_ms))
        rows = [{"run_id": self.inputs.run_id, "log_partition": at, "bytes": size} for at, size in self.inputs.sizes]
        sizes = LOG_SIZES.frame(self.spark, rows) if rows else None
        return derived(
            events,
            log,
            ends,
            window_ms,
            logged=self.inputs.log is not None,
            journaled=self.inputs.journal is not None,
            sizes=sizes,
            lines=self.tables.get("log_lines"),
            seen=self._seen,
            shares=self._shared(log),
            short=short,
        )

    def _states(self) -> list[dict[str, Any]]:
        """Reads the logs of the other coordinators, and the journal of transactions; returns rows about what was unreadable."""
        from broker_sim.pipeline.log_ends import data_folders
        from broker_sim.pipeline.tables.transactions import SEEN, seen_rows

        where, rows, unread = self.inputs.log, list[dict[str, Any]](), list[Skipped]()
        if self.inputs.journal is not None:
            rows += rows_of_journal(journal_lines(self.inputs.journal))
        if where is not None and self.inputs.folders and self.inputs.folders[0] != where:
            rows += [*rows_of_state(self.inputs.states, unread.append), *rows_of_data(data_folders(where))]
            self._deliveries = self.options.scope.shared(rows_of_shares(self.inputs.shares, unread.append))
        result = seen_rows(self.options.scope.seen(rows), self.inputs.run_id, states=bool(self.inputs.states))
        self._seen = SEEN.frame(self.spark, result)
        self.facts.aborts = list(aborts_of(result))
        return [{"run_id": self.inputs.run_id, **skipped._asdict()} for skipped in unread]

    def _shared(self, log: DataFrame) -> DataFrame | None:
        """Share groups' deliveries, their topics by name."""
        from broker_sim.pipeline.tables.share_deliveries import SEEN, topic_names

        if not self._deliveries:
            return None
        names = topic_names(log)
        result = [
            {**row, "run_id": self.inputs.run_id, "topic": names.get(row["topic_id"])} for row in self._deliveries
        ]
        frame: DataFrame = SEEN.frame(self.spark, result)
        return frame

    def _ends(self, events: DataFrame, window_ms: int) -> DataFrame:
        """Log ends of the segments, and of the journal for partitions that have no segments."""
        from broker_sim.pipeline.log_ends import log_ends

        ends: DataFrame = LOG_ENDS.frame(self.spark)
        if self.inputs.log is not None and len(self.inputs.folders) and self.inputs.folders[0] != self.inputs.log:
            ends = log_ends(self.spark, self.inputs.log, self.inputs.run_id, min(window_ms, 1000))
        if self.inputs.journal is None:
            return ends
        other = journal_ends(events).join(
            ends.select("topic", "partition").distinct(), ["topic", "partition"], "left_anti"
        )
        return ends.unionByName(LOG_ENDS.conform(other))

    # --- the report -----------------------------------------------------------------------------------------------------

    def _report(self, facts: ReportFacts) -> RunResult:
        from broker_sim.pipeline.report.page import html

        result = self.options.scope.edge(findings.findings(facts))
        outcome = RunResult(facts, result, f"{self.folder.where}/report.html")
        self.folder.write("report.html", html(facts, result))
        self.folder.write("findings.txt", findings.text(result))
        self.folder.write("findings.json", json.dumps(outcome.to_dict(), indent=1) + "\n")
        return outcome

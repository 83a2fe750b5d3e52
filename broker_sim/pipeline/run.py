"""``broker-sim pipeline run``: from a data directory and a journal to Parquet tables, a report and findings.

Rules:
1. What is wrong with the arguments is told before Spark starts. The output folder is touched after that, and the input never.
2. Each input is decoded once: what the sources give is written as Parquet first, and all that follows reads those columns again. So
   memory stays flat, and a table's lineage is short.
3. A table is written before the report is drawn; an interrupted run leaves whole tables, and a marker by which it can be overwritten.
4. Without a journal the journal's tables are empty, without a log the log's are made of what the journal knows (`journal_log`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker_sim.common.clock import stopwatch
from broker_sim.explain.phrases import count
from broker_sim.pipeline import findings as told
from broker_sim.pipeline import inputs
from broker_sim.pipeline.facts import Facts
from broker_sim.pipeline.output import Folder, is_remote
from broker_sim.pipeline.progress import Steps, tasks_of
from broker_sim.pipeline.schemas import OFFSET_LOG, SKIPPED, Table
from broker_sim.pipeline.tables.coordinator_hotspots import COORDINATOR_HOTSPOTS, LOG_SIZES, coordinator_hotspots
from broker_sim.pipeline.tables.lag import LAG, LOG_ENDS, journal_ends, lag, window_ms_for
from broker_sim.pipeline.tables.offset_log import journal_log, offset_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["JobFailed", "Options", "Outcome", "Run", "at_work", "derived", "pipeline", "settings", "spark_s_reason"]


SMALL = 32 << 20
"""Bytes of input below which queries are not worth being compiled."""
AT_ONCE = 2
"""Tables that are made at the same time."""


class JobFailed(RuntimeError):
    """Spark gave up; its reason in one line."""


@dataclass(frozen=True)
class Options:
    """What a user may say of a run: see ``broker-sim pipeline run --help``."""

    out: str
    input: str | None = None
    journal: str | None = None
    look_for_journal: bool = True
    overwrite: bool = False
    run_id: str | None = None
    window_ms: int | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a run came to. ``report``: where the page is, as an address for a browser."""

    facts: Facts
    findings: list[told.Finding]
    report: str

    def text(self) -> str:
        """For a terminal."""
        return f"{told.text(self.findings)}\n{self.report}\n"

    def to_dict(self) -> dict[str, Any]:
        """For programs; also what stands in findings.json."""
        return {
            "run_id": self.facts.run_id,
            "input": self.facts.input,
            "journal": self.facts.journal,
            "from_ms": self.facts.from_ms,
            "to_ms": self.facts.to_ms,
            "groups": self.facts.groups,
            "commits": self.facts.commits,
            "rows": self.facts.counts,
            "findings": [one.to_dict() for one in self.findings],
            "report": self.report,
        }


def pipeline(options: Options, steps: Steps) -> Outcome:
    """Run everything. Raises UsageError, JobFailed."""
    from broker_sim.pipeline.session import is_running, need_pyspark, spark_session

    found = inputs.find(options.input, options.journal, options.run_id, look=options.look_for_journal)
    folder = None if is_remote(options.out) else Folder.local(options.out)
    if folder is not None:
        folder.check(overwrite=options.overwrite)
    need_pyspark()
    ours = not is_running()
    with steps.step("starting Spark") as step:
        spark = spark_session(
            options.master, "broker-sim pipeline", {**settings(options.master, found.size), **options.conf}
        )
        step.done(f"{spark.version}, {spark.sparkContext.master}")
    steps.tasks = tasks_of(spark)
    with at_work(spark, stop=ours):
        folder = folder or Folder.remote(options.out, spark)
        folder.prepare(found.run_id, overwrite=options.overwrite)
        return Run(spark, found, folder, options, steps).all()


@contextmanager
def at_work(spark: SparkSession, *, stop: bool) -> Iterator[None]:
    """What is done with a session, which is stopped afterwards if it is ours to ``stop``. Raises JobFailed where Spark gives up."""
    try:
        yield
    except Exception as error:
        reason = spark_s_reason(error)
        if reason is None:
            raise
        raise JobFailed(reason) from error
    finally:
        if stop:
            spark.stop()


def settings(master: str | None, size: int) -> dict[str, str]:
    """Settings on one machine for inputs of so many bytes. A run is many queries, each of them new, so that the slow compilers cost
    more than they give: Java's second one in any case, and for small inputs Spark's own code generation."""
    if not (master or "local").startswith("local") or "PYSPARK_GATEWAY_PORT" in os.environ:
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
    told_ = [line for line in lines if line.startswith(("Caused by:", "broker_sim.", "pyspark.errors"))]
    return f"Spark failed: {(told_[-1] if told_ else lines[0] if lines else type(error).__name__)[:500]}"


def derived(
    events: DataFrame,
    log: DataFrame,
    ends: DataFrame,
    window_ms: int,
    *,
    logged: bool = True,
    sizes: DataFrame | None = None,
) -> dict[Table, Callable[[], DataFrame]]:
    """The tables that are made of EVENTS, OFFSET_LOG and LOG_ENDS. ``logged``: whether ``log`` is one; else it is a `journal_log`.
    ``sizes``: LOG_SIZES."""
    from broker_sim.pipeline.tables.duplicate_windows import DUPLICATE_WINDOWS, duplicate_windows
    from broker_sim.pipeline.tables.member_churn import MEMBER_CHURN, member_churn
    from broker_sim.pipeline.tables.offset_deletions import OFFSET_DELETIONS, offset_deletions
    from broker_sim.pipeline.tables.offset_regressions import OFFSET_REGRESSIONS, offset_regressions
    from broker_sim.pipeline.tables.rebalances import REBALANCES, rebalances
    from broker_sim.pipeline.tables.stuck_partitions import STUCK_PARTITIONS, stuck_partitions

    real, source = (log, "log") if logged else (None, "journal")
    return {
        LAG: lambda: lag(log, ends, window_ms),
        OFFSET_REGRESSIONS: lambda: offset_regressions(log, source),
        OFFSET_DELETIONS: lambda: offset_deletions(log, source),
        COORDINATOR_HOTSPOTS: lambda: coordinator_hotspots(log, source, sizes),
        REBALANCES: lambda: rebalances(events, real),
        MEMBER_CHURN: lambda: member_churn(events, real),
        DUPLICATE_WINDOWS: lambda: duplicate_windows(events),
        STUCK_PARTITIONS: lambda: stuck_partitions(events, real),
    }


class Run:
    """One making of everything, in a session. `watching` makes it again and again of what its streams have brought."""

    def __init__(
        self, spark: SparkSession, found: inputs.Inputs, folder: Folder, options: Options, steps: Steps
    ) -> None:
        self.spark, self.inputs, self.folder, self.options, self.steps = spark, found, folder, options, steps
        self.facts = Facts(found.run_id, options.input, found.journal)
        self.tables: dict[str, DataFrame] = {}

    def all(self) -> Outcome:
        from broker_sim.pipeline.collect import collect

        self._read()
        self._make()
        with self.steps.step("report") as step:
            facts = collect(self.tables, self.facts)
            outcome = self._report(facts)
            step.done(count(len(outcome.findings), "finding"))
        return outcome

    # --- in and out -----------------------------------------------------------------------------------------------------

    def _keep(self, table: Table, frame: DataFrame, files: int | None = None) -> DataFrame:
        """Write a table; from now on it is read from there."""
        from pyspark.sql import functions as f

        where = self.folder.table(table.name, self.inputs.run_id)
        rows = table.conform(frame).drop("run_id")
        self._write(rows if files is None else rows.coalesce(files), where)
        kept = self.spark.read.schema(rows.schema).parquet(where)
        self.tables[table.name] = kept.select(f.lit(self.inputs.run_id).alias("run_id"), *kept.columns)
        return self.tables[table.name]

    def _write(self, rows: DataFrame, where: str) -> None:
        rows.write.mode("overwrite").parquet(where)

    def _read(self) -> None:
        from broker_sim.pipeline.tables import events as journal

        run_id, skipped = self.inputs.run_id, SKIPPED.frame(self.spark)
        events = journal.EVENTS.frame(self.spark)
        if self.inputs.journal is not None:
            with self.steps.step("reading the journal") as step:
                source = self.spark.read.format("sim_journal").option("runId", run_id).option("body", "false")
                events = source.load(self.inputs.journal)
                events = self._keep(journal.EVENTS, events)
                skipped = skipped.unionByName(journal.skipped(events))
                self.facts.counts["events"] = events.count()
                step.done(count(self.facts.counts["events"], "event"))
        else:
            events = self._keep(journal.EVENTS, events, 1)
        with self.steps.step("reading __consumer_offsets") as step:
            if self.inputs.log is not None:
                source = self.spark.read.format("consumer_offsets").option("runId", run_id)
                log = self._keep(OFFSET_LOG, offset_log(source.load(self.inputs.log), run_id, distinct=True))
                gone = self.spark.read.format("consumer_offsets_skipped").option("runId", run_id).load(self.inputs.log)
                skipped = skipped.unionByName(SKIPPED.conform(gone))
            else:
                log = self._keep(OFFSET_LOG, journal_log(events))
            self.facts.counts["offset_log"] = log.count()
            instead = "" if self.inputs.log else ", from the journal: there is no log"
            step.done(f"{count(self.facts.counts['offset_log'], 'record')}{instead}")
        self._keep(SKIPPED, skipped, 1)
        self._span(events, log)

    def _span(self, events: DataFrame, log: DataFrame) -> None:
        """From when to when there is anything."""
        from pyspark.sql import functions as f

        both = events.select("ts_ms").unionByName(log.select(f.col("record_ts_ms").alias("ts_ms")))
        row = both.where("ts_ms >= 0").agg(f.min("ts_ms").alias("first"), f.max("ts_ms").alias("last")).first()
        self.facts.from_ms, self.facts.to_ms = (row.first, row.last) if row is not None else (None, None)

    # --- the tables -----------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        """All tables, two at a time: while one is planned, the other one computes."""
        tables = self._tables()
        with self.steps.step("tables") as step, ThreadPoolExecutor(AT_ONCE) as pool:
            made = [pool.submit(self._one, table, make) for table, make in tables.items()]
            try:
                rows = [each.result() for each in made]
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
            step.done(f"{len(rows)} with {count(sum(rows), 'row')}")
        self.facts.counts |= {table.name: number for table, number in zip(tables, rows, strict=True)}

    def _one(self, table: Table, make: Callable[[], DataFrame]) -> int:
        watch = stopwatch()
        number = self._keep(table, make(), 1).count()
        self.steps.say(f"  {table.name}: {count(number, 'row')} ({watch():.1f} s)")
        return number

    def _tables(self) -> dict[Table, Callable[[], DataFrame]]:
        events, log = self.tables["events"], self.tables["offset_log"]
        window_ms = self.options.window_ms or window_ms_for((self.facts.to_ms or 0) - (self.facts.from_ms or 0))
        rows = [{"run_id": self.inputs.run_id, "log_partition": at, "bytes": size} for at, size in self.inputs.sizes]
        sizes = LOG_SIZES.frame(self.spark, rows) if rows else None
        return derived(
            events, log, self._ends(events, window_ms), window_ms, logged=self.inputs.log is not None, sizes=sizes
        )

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

    def _report(self, facts: Facts) -> Outcome:
        from broker_sim.pipeline.report.page import html

        found = told.findings(facts)
        outcome = Outcome(facts, found, f"{self.folder.where}/report.html")
        self.folder.write("report.html", html(facts, found))
        self.folder.write("findings.txt", told.text(found))
        self.folder.write("findings.json", json.dumps(outcome.to_dict(), indent=1) + "\n")
        return outcome

"""Stuck offsets partitions from logs without a journal: Spark collects their signs, `pipeline.log_stuck` reads them.

Rules:
1. Signs are few beside commits: lines about offsets partitions, clients' failed commits, and pauses of groups that are unusually long.
   They are collected in one task for each run; of the many commits there are summaries (`condensed`).
2. A pause is unusual where it is three times as long as nine of ten pauses of its group, and four seconds: offsets.commit.timeout.ms
   less a little. A group whose pace is that of the timeout (auto.commit.interval.ms, 5 s by default) shows nothing by its rhythm.
3. A pause in which the group rebalanced, or had no members, is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.engine import on_its_engine
from broker_sim.pipeline.log_stuck import Pace, periods_of
from broker_sim.pipeline.schemas import INT, LONG, RUN_ID, STRING, ArrayOf, ColumnSpec, TableSchema
from broker_sim.pipeline.tables.condensed import summaries_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SIGNS", "stuck_in_logs"]

STUCK = (
    "timed out|TimedOut|TIMED_OUT|oordinator is not available|oordinator not"
    " available|COORDINATOR_NOT_AVAILABLE|CoordinatorNotAvailable"
    "|NotEnoughReplicas|NOT_ENOUGH_REPLICAS|n-sync replicas|committing offsets"
)
"""Errors at the client if the coordinator could not commit, a regular expression."""

SIGNS = TableSchema(
    "signs",
    (
        RUN_ID,
        ColumnSpec("sort", INT, "0 a line, 1 a pause, 2 a group's pace"),
        ColumnSpec("log_partition", INT, "partition of `__consumer_offsets`"),
        ColumnSpec("group", STRING, "group id"),
        ColumnSpec("what", STRING, "kind of line"),
        ColumnSpec("ts_ms", LONG, "when it was written"),
        ColumnSpec("offset", LONG, "of `ISR shrinks`: the high watermark"),
        ColumnSpec("waits_ms", LONG, "when the record there was written"),
        ColumnSpec("number", LONG, "as in log_lines; of a pause its place among those of the group"),
        ColumnSpec("detail", STRING, "as in log_lines"),
        ColumnSpec("at", STRING, "FILE:LINE"),
        ColumnSpec("from_ms", LONG, "of a pause: the commit before it; of a pace the first commit"),
        ColumnSpec("to_ms", LONG, "of a pause: the commit behind it; of a pace the last commit"),
        ColumnSpec("from_offset", LONG, "log offset of the commit before"),
        ColumnSpec("to_offset", LONG, "log offset of the commit behind"),
        ColumnSpec("advance", LONG, "by how much the commit behind it moved the group's offsets"),
        ColumnSpec("usual", LONG, "by how much commits move them usually"),
        ColumnSpec("expected", LONG, "by how much the group's mean rate would have moved them meanwhile"),
    ),
    "What may show that a partition was stuck.",
)

PERIODS = TableSchema(
    "periods",
    (
        RUN_ID,
        *(ColumnSpec(name, STRING, "as in stuck_partitions") for name in ("log", "evidence", "certainty")),
        ColumnSpec("log_partition", INT, "as in `stuck_partitions`"),
        *(ColumnSpec(name, LONG, "as in `stuck_partitions`") for name in ("from_ms", "to_ms", "last_ms", "attempts")),
        *(
            ColumnSpec(name, ArrayOf(STRING), "as in `stuck_partitions`")
            for name in ("errors", "groups", "evidence_lines")
        ),
        ColumnSpec("evidence_offsets", ArrayOf(LONG), "as in `stuck_partitions`"),
    ),
)


@on_its_engine
def stuck_in_logs(log: DataFrame, lines: DataFrame, groups: DataFrame) -> DataFrame:
    """PERIODS of an offset_log, of LOG_LINES (which may be empty) and of its groups' pauses (`Condensed.groups`)."""
    signs = SIGNS.conform(_signs(log, lines)).unionByName(_pauses(groups))
    in_order = signs.repartition("run_id").sortWithinPartitions(
        "run_id", "sort", "log_partition", "group", "number", "ts_ms"
    )
    periods = in_order.mapInArrow(_batches, PERIODS.schema_for(in_order))
    return _with_ends(periods, log)


def _signs(log: DataFrame, lines: DataFrame) -> DataFrame:
    at = f.concat_ws(":", "file", "line").alias("at")
    of_partition = lines.where(
        f.col("what").isin("refused", "ISR shrinks", "ISR grows", "ISR")
        & (f.col("topic") == "__consumer_offsets")
        & f.col("ts_ms").isNotNull()
    ).select("run_id", f.col("partition").alias("log_partition"), "what", "ts_ms", "offset", "number", "detail", at)
    first = log.select(
        "run_id", "log_partition", f.col("log_offset").alias("offset"), f.col("record_ts_ms").alias("waits_ms")
    )
    of_broker = of_partition.join(
        first.join(
            f.broadcast(of_partition.select("run_id", "log_partition", "offset").distinct()),
            ["run_id", "log_partition", "offset"],
        ),
        ["run_id", "log_partition", "offset"],
        "left",
    )
    homes = (
        log.where(f.col("group").isNotNull())
        .groupBy("run_id", "group")
        .agg(f.max("log_partition").alias("log_partition"))
    )
    failed = lines.where(
        f.col("what").isin("commit failed", "coordinator lost")
        & f.col("ts_ms").isNotNull()
        & f.col("detail").rlike(STUCK)
    )
    of_clients = failed.join(homes, ["run_id", "group"]).select(
        "run_id", "log_partition", "group", "what", "ts_ms", "detail", at
    )
    back = lines.where(f.col("what").isin("coordinator found", "synced") & (f.col("source") == "client"))
    back = back.where(f.col("ts_ms").isNotNull()).join(homes, ["run_id", "group"])
    back = back.select("run_id", "log_partition", "group", "what", "ts_ms", at)
    epochs = (
        log.where((f.col("leader_epoch") > 0) & f.col("record_ts_ms").isNotNull())
        .groupBy("run_id", "log_partition", "leader_epoch")
        .agg(f.min("record_ts_ms").alias("ts_ms"))
        .select("run_id", "log_partition", "ts_ms", f.lit("epoch").alias("what"))
    )
    signs = of_broker.unionByName(of_clients, allowMissingColumns=True).unionByName(back, allowMissingColumns=True)
    return signs.unionByName(epochs, allowMissingColumns=True).withColumn("sort", f.lit(0))


def _pauses(groups: DataFrame) -> DataFrame:
    """Pauses that are unusual, and the paces of groups that commit regularly, as SIGNS: of the summaries of their blocks."""
    where = ["run_id", "log_partition", "group"]
    rows = groups.select(*where, "log_offset", "detail")
    in_order = rows.repartition(*where).sortWithinPartitions(*where, "log_offset")
    return in_order.mapInArrow(_paces, SIGNS.schema_for(in_order))


def _paces(batches: Iterable[Any]) -> Iterator[Any]:
    """On the workers: summaries of one group after the other."""
    import pyarrow

    for where, summaries in summaries_of(batches, "run_id", "log_partition", "group"):
        pace = Pace()
        for summary in summaries:
            pace.add(summary)
        signs = [{**where, **sign} for sign in pace.signs()]
        if signs:
            yield pyarrow.RecordBatch.from_pylist(signs, SIGNS.arrow())


def _batches(batches: Iterable[Any]) -> Iterator[Any]:
    """On one worker for each run."""
    import pyarrow

    by_run: dict[str, list[list[dict[str, Any]]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            by_run.setdefault(row["run_id"], [[], [], []])[row["sort"]].append(row)
    for run_id, (signs, pauses, paces) in by_run.items():
        rows = [{"run_id": run_id, **row} for row in periods_of(signs, pauses, paces)]
        if rows:
            yield pyarrow.RecordBatch.from_pylist(rows, PERIODS.arrow())


def _with_ends(periods: DataFrame, log: DataFrame) -> DataFrame:
    """The end of a period without a line about it: the first record after its last sign, if there is one."""
    records = log.select("run_id", "log_partition", "record_ts_ms")
    key = ["run_id", "log_partition", "from_ms"]
    open_ = periods.where(f.col("to_ms").isNull()).select(*key, "last_ms")
    behind = (
        records.join(f.broadcast(open_), ["run_id", "log_partition"])
        .where(f.col("record_ts_ms") > f.col("last_ms"))
        .groupBy(*key)
        .agg(f.min("record_ts_ms").alias("next_ms"))
    )
    result = periods.join(behind, key, "left")
    return result.withColumn("to_ms", f.coalesce("to_ms", "next_ms")).drop("next_ms")

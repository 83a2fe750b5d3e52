"""The table coordinator_moves: partitions of `__consumer_offsets` that got another leader, and with it their groups' coordinator.

Rules:
1. A batch carries the epoch of the leader that wrote it. Epochs rise with each election, also where the same broker is elected again.
   So a move happened between the last record of the epoch before and the first record of a higher epoch.
2. Brokers' lines (elected, loaded) have the exact moment, the broker, and how long the load took. If no record was written after a
   move, only lines show it.
3. The first election of a partition is no move.
4. Under 3.x a broker that leads already is elected anew where the ISR changes: `node` is then `from_node`, and the groups' coordinator
   stays where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.pipeline.engine import Window, on_its_engine
from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.schemas import BOOLEAN, INT, LONG, RUN_ID, STRING, ArrayOf, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.columns import moments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["COORDINATOR_MOVES", "coordinator_moves"]

COORDINATOR_MOVES = TableSchema(
    "coordinator_moves",
    (
        RUN_ID,
        ColumnSpec("log_partition", INT, "partition of `__consumer_offsets`; never null", "both"),
        *moment("at", "when it was elected, by a broker's line; else the first record of the epoch", "both"),
        *moment("after", "the last record of the previous epoch; null if it has none", "offset_log"),
        ColumnSpec("from_epoch", INT, "leader epoch before; null if known from log lines only", "offset_log"),
        ColumnSpec("to_epoch", INT, "leader epoch now; never null", "both"),
        ColumnSpec("log_offset", LONG, "the first record of it; null if known from log lines only", "offset_log"),
        ColumnSpec("gap_ms", LONG, "from the last record before to the first after", "offset_log"),
        ColumnSpec("node", INT, "the broker that was elected", "broker log"),
        ColumnSpec(
            "from_node",
            INT,
            "the broker that was elected before, as far as the log lines show; `node` itself if it keeps the leadership in a new epoch",
            "broker log",
        ),
        ColumnSpec("loaded_ms", LONG, "duration of the coordinator load", "broker log"),
        ColumnSpec(
            "unclean",
            BOOLEAN,
            "whether a broker logged an election outside of the in-sync replicas",
            "broker log",
        ),
        ColumnSpec("evidence_lines", ArrayOf(STRING), "log lines about it, FILE:LINE", "broker log"),
    ),
    "One row for each new leader epoch of a partition of `__consumer_offsets`.",
)

_WHERE = ["run_id", "log_partition"]
_NEAR_MS = 60_000


@on_its_engine
def coordinator_moves(log: DataFrame, lines: DataFrame) -> DataFrame:
    """COORDINATOR_MOVES of an offset_log and of LOG_LINES (which may be empty)."""
    records = log.where(
        f.col("leader_epoch").isNotNull() & (f.col("leader_epoch") >= 0) & f.col("record_ts_ms").isNotNull()
    )
    epochs = records.groupBy(*_WHERE, "leader_epoch").agg(
        f.min("log_offset").alias("log_offset"),
        f.min_by("record_ts_ms", "log_offset").alias("first_ms"),
        f.max_by("record_ts_ms", "log_offset").alias("last_ms"),
    )
    in_turn = Window.partitionBy(*_WHERE).orderBy("leader_epoch")
    moves = (
        epochs.withColumn("from_epoch", f.lag("leader_epoch").over(in_turn))
        .withColumn("after_ms", f.lag("last_ms").over(in_turn))
        .where(f.col("from_epoch").isNotNull())
        .withColumnRenamed("leader_epoch", "to_epoch")
    )
    logged = _logged_elections(lines)
    both = moves.join(logged, [*_WHERE, "to_epoch"], "full")
    at_ms = f.coalesce("said_ms", "first_ms")
    return COORDINATOR_MOVES.conform(
        both.where(f.col("from_epoch").isNotNull() | (f.col("to_epoch") > 0)).select(
            *_WHERE,
            *moments("at", at_ms),
            *moments("after", f.col("after_ms")),
            "from_epoch",
            "to_epoch",
            "log_offset",
            (f.col("first_ms") - f.col("after_ms")).alias("gap_ms"),
            "node",
            "from_node",
            "loaded_ms",
            f.coalesce("unclean", f.lit(False)).alias("unclean"),
            "evidence_lines",
        )
    )


def _logged_elections(lines: DataFrame) -> DataFrame:
    """By partition and epoch: when a broker was elected, its id, and how long its load took."""
    mine = lines.where(
        (f.col("source") == "broker") & (f.col("topic") == "__consumer_offsets") & f.col("partition").isNotNull()
    ).withColumn("at", f.concat_ws(":", "file", "line"))
    # 3.4 logs the epoch when it begins to load, not when it has loaded
    in_order = Window.partitionBy("run_id", "partition", "file").orderBy("ts_ms", "line")
    epoch = f.last(f.when(f.col("what").isin("loading", "elected"), f.col("epoch")), ignorenulls=True).over(in_order)
    led = mine.where(f.col("what").isin("elected", "loading", "loaded")).withColumn(
        "to_epoch", f.coalesce("epoch", epoch)
    )
    elections = (
        led.where(f.col("to_epoch").isNotNull())
        .groupBy("run_id", f.col("partition").alias("log_partition"), "to_epoch")
        .agg(
            f.min("ts_ms").alias("said_ms"),
            f.max("node").alias("node"),
            f.max(f.when(f.col("what") == "loaded", f.col("number"))).alias("loaded_ms"),
            f.array_sort(f.collect_set("at")).alias("evidence_lines"),
        )
    )
    elections = elections.withColumn("from_node", f.lag("node").over(Window.partitionBy(*_WHERE).orderBy("to_epoch")))
    unclean = mine.where(f.col("what") == "unclean").select(
        "run_id", f.col("partition").alias("log_partition"), f.col("ts_ms").alias("unclean_ms")
    )
    near = elections.join(unclean, _WHERE, "left").withColumn(
        "near", f.coalesce(f.abs(f.col("said_ms") - f.col("unclean_ms")) <= _NEAR_MS, f.lit(False))
    )
    return near.groupBy(*_WHERE, "to_epoch").agg(
        f.first("said_ms").alias("said_ms"),
        f.first("node").alias("node"),
        f.first("from_node").alias("from_node"),
        f.first("loaded_ms").alias("loaded_ms"),
        f.first("evidence_lines").alias("evidence_lines"),
        f.max("near").alias("unclean"),
    )

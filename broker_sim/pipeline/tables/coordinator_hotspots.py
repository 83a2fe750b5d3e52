"""The table coordinator_hotspots: how groups and records lie on the partitions of ``__consumer_offsets``, each led by one coordinator.

Rules:
1. A group belongs to partition |hash(group id)| mod N, the hash being Java's String.hashCode and N the number of partitions. It is
   computed in Spark's own expressions, so that no Python runs on the workers; a test holds it to the broker's own.
2. A group that lies elsewhere means another N. The N that explains every group is looked for: Kafka's 50, else the smallest up to 1000
   (three groups at least have to agree: fewer prove nothing).
3. Shares are of the records that are left: compaction removes the busiest groups' records first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.engine import on_its_engine
from broker_sim.pipeline.finding import WITNESSES
from broker_sim.pipeline.schemas import DOUBLE, INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema
from broker_sim.pipeline.tables.columns import records

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

__all__ = ["COORDINATOR_HOTSPOTS", "LOG_SIZES", "coordinator_hotspots", "java_hash"]

USUAL = 50
"""Kafka's default of offsets.topic.num.partitions."""
LARGEST = 1000

COORDINATOR_HOTSPOTS = TableSchema(
    "coordinator_hotspots",
    (
        RUN_ID,
        ColumnSpec("source", STRING, "`log`, or `journal` where there is no log", ""),
        ColumnSpec("log_partition", INT, "partition of `__consumer_offsets`", "offset_log"),
        ColumnSpec("groups", LONG, "groups with records in it", "offset_log"),
        ColumnSpec("records", LONG, "records in it, control records included", "offset_log"),
        ColumnSpec("bytes", LONG, "bytes of its segment files; null where they are not known", "files"),
        ColumnSpec("share", DOUBLE, "of all records, 0 to 1", "offset_log"),
        ColumnSpec("busiest_group", STRING, "the group with the most records in it; null without groups", "offset_log"),
        ColumnSpec("busiest_records", LONG, "records of that group", "offset_log"),
        ColumnSpec(
            "partitions",
            INT,
            "the number of partitions for which every group is in the partition of its hash; null if no number up to 1000 fits",
            "offset_log",
        ),
        ColumnSpec("misplaced", LONG, "groups in it that N, or 50 where N is null, has elsewhere", "offset_log"),
    ),
    "One row for each partition of `__consumer_offsets` with records.",
)


def java_hash(text: SparkColumn) -> SparkColumn:
    """|String.hashCode| of Java as Utils.abs gives it, as a bigint: over UTF-16 code units, 0 for the number without a counterpart."""
    units = f.hex(f.encode(text, "UTF-16BE"))
    total = f.aggregate(
        f.when(f.length(text) > 0, f.sequence(f.lit(1), f.length(units), f.lit(4))).otherwise(
            f.array().cast("array<int>")
        ),
        f.lit(0).cast("bigint"),
        lambda so_far, at: (so_far * 31 + f.conv(f.substr(units, at, f.lit(4)), 16, 10).cast("bigint")).bitwiseAND(
            f.lit(0xFFFFFFFF).cast("bigint")
        ),
    )
    half = 1 << 31
    return f.when(total == half, f.lit(0).cast("bigint")).when(total > half, f.lit(1 << 32) - total).otherwise(total)


LOG_SIZES = TableSchema(
    "log_sizes",
    (RUN_ID, COORDINATOR_HOTSPOTS["log_partition"], COORDINATOR_HOTSPOTS["bytes"]),
    "How large the partitions of `__consumer_offsets` are.",
)


@on_its_engine
def coordinator_hotspots(log: DataFrame, source: str = "log", sizes: DataFrame | None = None) -> DataFrame:
    """COORDINATOR_HOTSPOTS of an offset_log, or of a `journal_log`; ``sizes``: LOG_SIZES."""
    held = log.groupBy("run_id", "log_partition", "group").agg(f.sum(records(log)).alias("records"))
    counted = held.join(f.broadcast(_runs(held)), "run_id")
    here = f.when(f.col("group").isNotNull(), java_hash(f.col("group")) % f.coalesce("partitions", f.lit(USUAL)))
    rows = counted.groupBy("run_id", "log_partition").agg(
        f.count("group").alias("groups"),
        f.sum("records").alias("records"),
        f.max(f.when(f.col("group").isNotNull(), f.struct("records", "group"))).alias("busiest"),
        f.first("partitions").alias("partitions"),
        f.first("total").alias("total"),
        f.count(f.when(here != f.col("log_partition"), 1)).alias("misplaced"),
    )
    rows = rows.select(
        "*",
        f.lit(source).alias("source"),
        (f.col("records") / f.col("total")).alias("share"),
        f.col("busiest.group").alias("busiest_group"),
        f.col("busiest.records").alias("busiest_records"),
    )
    if sizes is not None:
        rows = rows.join(f.broadcast(sizes), ["run_id", "log_partition"], "left")
    return COORDINATOR_HOTSPOTS.conform(rows)


def _runs(held: DataFrame) -> DataFrame:
    """(run_id, total, partitions): a run's records, and the N that explains every group of it; null where none does."""
    place = f.when(
        f.col("group").isNotNull(),
        f.struct(java_hash(f.col("group")).alias("hash"), f.col("log_partition").alias("at")),
    )
    runs = held.groupBy("run_id").agg(
        f.sum("records").alias("total"),
        f.max("log_partition").alias("highest"),
        f.collect_list(place).alias("groups"),
    )

    def explains(number: SparkColumn) -> SparkColumn:
        return f.forall("groups", lambda group: group["hash"] % number == group["at"])

    first = f.col("highest") + 1
    tried = f.when(first <= LARGEST, f.sequence(first, f.lit(LARGEST))).otherwise(f.array().cast("array<int>"))
    smallest = f.get(f.filter(tried, explains), f.lit(0))
    enough = f.size("groups") >= WITNESSES
    return runs.select(
        "run_id", "total", f.when(explains(f.lit(USUAL)), USUAL).when(enough, smallest).alias("partitions")
    )

"""The table offset_log: what the source `consumer_offsets` gives, once for each record; and the commits in it that count.

Rules:
1. A record is (run, log partition, log offset). Copies of it (a replica's, a file that the cleaner was about to replace, a segment read
   twice) are one row, so that the function may be applied to its own result, and to the union of two reads.
2. Order is that of the log: log_partition and log_offset, never a timestamp.
3. With a journal and without a log, `journal_log` derives the log's records from the journal; the numbers of its events are their
   offsets.
4. A commit within a transaction counts in the place of its txn_commit; with a txn_abort, or with no marker yet, it does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.explain.rebalances import DEAD, EMPTY, STABLE
from broker_sim.pipeline.engine import Window, backwards, on_its_engine
from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.modern_groups import EPOCHS
from broker_sim.pipeline.schemas import BOOLEAN, INT, LONG, OFFSET_LOG, RUN_ID, STRING, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.columns import records

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

__all__ = ["COMMITS", "OFFSET_LOG", "commits", "journal_log", "offset_log"]

COMMITS = TableSchema(
    "commits",
    (
        RUN_ID,
        ColumnSpec("log_partition", INT, "partition of `__consumer_offsets`", "offset_log"),
        ColumnSpec(
            "effect_offset",
            LONG,
            "where it took effect: its log offset, or that of its transaction's marker",
            "offset_log",
        ),
        ColumnSpec("log_offset", LONG, "the record's own offset", "offset_log"),
        *moment(
            "at",
            "when it took effect: the timestamp of the record there; of its value where that has none",
            "offset_log",
        ),
        ColumnSpec("group", STRING, "group id", "offset_log"),
        ColumnSpec("topic", STRING, "topic", "offset_log"),
        ColumnSpec("partition", INT, "partition", "offset_log"),
        ColumnSpec("committed_offset", LONG, "null where the offset was deleted", "offset_log"),
        ColumnSpec("deleted", BOOLEAN, "whether it is a tombstone", "offset_log"),
        ColumnSpec(
            "committed_leader_epoch",
            INT,
            "leader epoch of the topic's partition that the client knew; -1 for none",
            "offset_log",
        ),
        ColumnSpec(
            "records", LONG, "commits that the row represents, where the log is condensed; else 1", "offset_log"
        ),
    ),
    "The commits and deletions of offsets that took effect; of a transaction the last one of each partition.",
)


@on_its_engine
def offset_log(raw: DataFrame, run_id: str | None = None, *, distinct: bool = False) -> DataFrame:
    """Each record once, with the columns of OFFSET_LOG. ``run_id``: in place of the one that the source gave. ``distinct``: ``raw`` is
    one read of one log directory, which has each record once already (the source sees to that): nothing has to be compared."""
    frame = OFFSET_LOG.conform(raw)
    if run_id is not None:
        frame = frame.withColumn("run_id", f.lit(run_id))
    return frame if distinct else frame.dropDuplicates(["run_id", "log_partition", "log_offset"])


@on_its_engine
def journal_log(events: DataFrame) -> DataFrame:
    """Rows of OFFSET_LOG from a journal's EVENTS: the offsets that were published, groups as often as they became Stable, Empty or
    nothing, which is when their records are written, and each step of an epoch-based group in the place of its records (`EPOCHS`).
    ``log_offset`` is the event's number (journal, then seq). So a journal without a log has the tables of a log."""
    place = (f.col("journal").cast("bigint") * (1 << 40) + f.col("seq")).alias("log_offset")
    shared: list[str | SparkColumn] = [
        "run_id",
        f.col("coordinator_partition").alias("log_partition"),
        place,
        f.col("ts_ms").alias("record_ts_ms"),
        "group",
    ]
    changes = events.where(f.col("coordinator_partition").isNotNull() & f.col("group").isNotNull())
    offsets = changes.where(f.col("type").isin("offsets", "offsets_deleted")).select(
        *shared, "type", "text", f.explode("partitions").alias("p")
    )
    offsets = offsets.select(
        *("run_id", "log_partition", "log_offset", "record_ts_ms", "group"),
        f.when(f.col("p.offset").isNull(), "commit_tombstone").otherwise("commit").alias("kind"),
        f.when(f.col("type") == "offsets_deleted", f.col("text")).alias("detail"),
        f.col("p.topic").alias("topic"),
        f.col("p.partition").alias("partition"),
        f.col("p.offset").alias("committed_offset"),
    )
    moved = ~f.col("state_from").eqNullSafe(f.col("state_to")) | ~f.col("generation_from").eqNullSafe(
        f.col("generation")
    )
    stored = f.coalesce(f.col("state_to").isin(STABLE, EMPTY, DEAD), f.lit(True))
    unknown = f.lit(None).cast(OFFSET_LOG.element("members"))
    # a group that is converted to the consumer protocol continues there, one whose coordinator is unloaded at the next
    continues = f.coalesce(f.col("cause").isin("converted", "unloaded"), f.lit(False))
    moved = moved & ~(continues & f.col("state_to").isNull())
    groups = changes.where((f.col("type") == "group") & moved & stored).select(
        *shared,
        f.when(f.coalesce("state_to", f.lit(DEAD)) == DEAD, "group_tombstone").otherwise("group").alias("kind"),
        "generation",
        "protocol",
        "leader",
        f.array_repeat(unknown, f.coalesce("size_after", f.lit(0))).alias("members"),
    )
    by_epochs = changes.where((f.col("type") == "epochs") & ~f.col("cause").eqNullSafe("unloaded")).select(
        *shared,
        f.lit("other").alias("kind"),
        f.lit(EPOCHS).alias("record_type"),
        f.when(f.col("state_to") != DEAD, f.col("generation")).alias("generation"),
        "protocol_type",
        "detail",
        f.array_repeat(unknown, f.coalesce("size_after", f.lit(0))).alias("members"),
    )
    return OFFSET_LOG.conform(
        OFFSET_LOG.conform(offsets)
        .unionByName(OFFSET_LOG.conform(groups))
        .unionByName(OFFSET_LOG.conform(by_epochs))
        .withColumn("record_ts", f.timestamp_millis("record_ts_ms"))
    )


@on_its_engine
def commits(log: DataFrame) -> DataFrame:
    """The table COMMITS, from an offset_log, or a CONDENSED."""
    log = log.withColumn("records", records(log))
    for name in ("effect_offset", "effect_ms"):
        log = log if name in log.columns else log.withColumn(name, f.lit(None).cast("bigint"))
    kinds = ("commit", "commit_tombstone")
    at = f.coalesce("record_ts_ms", "commit_ts_ms")
    in_transaction, is_commit = f.coalesce("is_txn", f.lit(False)), f.col("kind").isin(*kinds)
    plain = log.where(is_commit & (~in_transaction | (f.col("effect_offset") >= 0)))
    plain = plain.withColumn("at_ms", f.coalesce(f.col("effect_ms"), at))
    plain = plain.withColumn("effect_offset", f.coalesce("effect_offset", "log_offset"))
    not_known = in_transaction & f.col("effect_offset").isNull()
    within = log.where(f.col("kind").isin("txn_commit", "txn_abort") | (is_commit & not_known))
    after = backwards("run_id", "log_partition", "producer_id", order="log_offset")
    marker = f.when(
        f.col("kind").isin("txn_commit", "txn_abort"),
        f.struct(f.col("kind"), f.col("log_offset"), at.alias("at_ms")),
    )
    ended = within.withColumn("end", f.last(marker, ignorenulls=True).over(after))
    ended = ended.where(f.col("kind").isin(*kinds) & (f.col("end.kind") == "txn_commit"))
    ended = ended.withColumn("effect_offset", f.col("end.log_offset")).withColumn("at_ms", f.col("end.at_ms"))
    of_key = Window.partitionBy("run_id", "log_partition", "effect_offset", "group", "topic", "partition")
    ended = (
        ended.withColumn("last", f.max("log_offset").over(of_key))
        .where(f.col("log_offset") == f.col("last"))
        .drop("last")
    )
    both = plain.unionByName(ended.drop("end"))
    both = both.withColumn("at", f.timestamp_millis("at_ms")).withColumn("deleted", f.col("kind") == "commit_tombstone")
    return COMMITS.conform(both)

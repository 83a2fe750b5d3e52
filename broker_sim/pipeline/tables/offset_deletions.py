"""The table offset_deletions: committed offsets that expired or were deleted, and the next commits of their consumers.

Rules:
1. A row is a tombstone that took effect on an offset, from any writer: expiry, a deleted group, a deleted topic and OffsetDelete write
   the same record (GroupMetadataManager.cleanupGroupMetadata, OffsetMetadataManager), so `how` has no more than the log shows.
2. ``group_ended`` is exact: the group's own tombstone is the group's next record. ``how`` weighs the idle time against Kafka's default
   offsets.retention.minutes; a cluster that keeps offsets for less time has `deleted`, and the idle time in another column.
3. What was committed before is known as far as the log still has it: of a cleaned segment nothing but the tombstone may be left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.pipeline.engine import Window, backwards, on_its_engine
from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.schemas import BOOLEAN, INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.offset_log import commits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["OFFSET_DELETIONS", "RETENTION_MS", "offset_deletions"]

RETENTION_MS = 7 * 86_400_000
"""Kafka's default offsets.retention.minutes."""

NEAR_MS = 1000
"""A record and the journal's event of it are no farther apart, if their clocks are."""

OFFSET_DELETIONS = TableSchema(
    "offset_deletions",
    (
        RUN_ID,
        ColumnSpec("source", STRING, "`log`, or `journal` where there is no log", ""),
        ColumnSpec("group", STRING, "group id", "offset_log"),
        ColumnSpec("topic", STRING, "topic", "offset_log"),
        ColumnSpec("partition", INT, "partition", "offset_log"),
        ColumnSpec("log_partition", INT, "partition of `__consumer_offsets`", "offset_log"),
        ColumnSpec("log_offset", LONG, "of the tombstone; order by it", "offset_log"),
        *moment("at", "when it took effect", "offset_log"),
        ColumnSpec(
            "last_offset", LONG, "the committed offset before; null if the log does not contain it", "offset_log"
        ),
        *moment("last_commit", "when that was committed; null if last_commit is", "offset_log"),
        ColumnSpec("idle_ms", LONG, "at - last_commit; null if that is", "offset_log"),
        ColumnSpec("group_ended", BOOLEAN, "whether the group itself ended with it", "offset_log"),
        ColumnSpec("next_offset", LONG, "offset that was committed next; null if none was", "offset_log"),
        *moment("next_commit", "when that was; null if none was", "offset_log"),
        ColumnSpec(
            "how",
            STRING,
            "`expired` (nothing was committed for 7 days, the default offsets.retention.minutes, or longer), `deleted` (sooner: group,"
            " topic or offset was deleted, or the retention is shorter); null if the last commit is not known",
            "offset_log",
        ),
        ColumnSpec(
            "reason",
            STRING,
            "`expired`, `requested` (OffsetDelete, DeleteGroups), `topic deleted`, `unknown`; null from a log without a journal",
            "journal",
        ),
    ),
    "One row for each committed offset that was deleted or expired.",
)

_KEY = ("run_id", "group", "topic", "partition")


@on_its_engine
def offset_deletions(log: DataFrame, source: str = "log", events: DataFrame | None = None) -> DataFrame:
    """OFFSET_DELETIONS of an offset_log, or of a `journal_log`; ``events``: of the journal beside the log, which has the reason."""
    order = Window.partitionBy(*_KEY).orderBy("effect_offset", "log_offset")
    commit = f.struct("deleted", "committed_offset", "at_ms")
    seen = commits(log).select(
        "*",
        f.lag(commit).over(order).alias("before"),
        f.lead(commit).over(order).alias("after"),
    )
    # a tombstone behind a tombstone deletes nothing (Kafka 3 writes them for offsets that it never published)
    why = log.where((f.col("kind") == "commit_tombstone") & f.col("detail").isNotNull())
    keys = ["run_id", "log_partition", "log_offset", "group", "topic", "partition"]
    seen = seen.join(why.select(*keys, f.col("detail").alias("reason")), keys, "left")
    deleted = seen.where("deleted").where(~f.coalesce("before.deleted", f.lit(False)))
    if events is not None and source == "log":
        deleted = _with_reasons(deleted.drop("reason"), events)
    idle = f.col("at_ms") - f.col("before.at_ms")
    result = _with_ends(deleted, log).select(
        "*",
        f.lit(source).alias("source"),
        f.col("before.committed_offset").alias("last_offset"),
        f.col("before.at_ms").alias("last_commit_ms"),
        f.timestamp_millis("before.at_ms").alias("last_commit"),
        idle.alias("idle_ms"),
        f.col("after.committed_offset").alias("next_offset"),
        f.col("after.at_ms").alias("next_commit_ms"),
        f.timestamp_millis("after.at_ms").alias("next_commit"),
        f.when(idle >= RETENTION_MS, "expired").when(idle.isNotNull(), "deleted").alias("how"),
    )
    return OFFSET_DELETIONS.conform(result)


def _with_reasons(deleted: DataFrame, events: DataFrame) -> DataFrame:
    """With the ``reason`` of the journal's event of the same offset that is nearest in time."""
    deletions = events.where(f.col("type") == "offsets_deleted").select(
        "run_id",
        "group",
        f.col("text").alias("reason"),
        f.col("ts_ms").alias("told_ms"),
        f.explode("partitions").alias("p"),
    )
    deletions = deletions.select(
        "run_id", "group", f.col("p.topic").alias("topic"), f.col("p.partition").alias("partition"), "reason", "told_ms"
    )
    apart = f.abs(f.col("at_ms") - f.col("told_ms"))
    near = deleted.select(*_KEY, "log_offset", "at_ms").join(deletions, list(_KEY)).where(apart <= NEAR_MS)
    reasons = near.groupBy(*_KEY, "log_offset").agg(f.min_by("reason", apart).alias("reason"))
    return deleted.join(reasons, [*_KEY, "log_offset"], "left")


def _with_ends(deleted: DataFrame, log: DataFrame) -> DataFrame:
    """With ``group_ended``: the next record of the group that is no tombstone of an offset is the group's own tombstone."""
    where = ["run_id", "log_partition", "group"]
    asks = deleted.select(*where, f.col("log_offset").alias("place"), f.struct(*deleted.columns).alias("deletion"))
    # few groups lose offsets: found by their tombstones, as `deleted` itself would be computed twice
    losing = log.where(f.col("kind") == "commit_tombstone").select(*where).distinct()
    others = log.where(f.col("kind").isin("group", "group_tombstone", "commit")).join(losing, where, "left_semi")
    both = others.select(*where, f.col("log_offset").alias("place"), f.col("kind").alias("next_kind")).unionByName(
        asks, allowMissingColumns=True
    )
    next_kind = f.last("next_kind", ignorenulls=True).over(backwards(*where, order="place"))
    ended = f.coalesce(next_kind == "group_tombstone", f.lit(False))
    return (
        both.withColumn("group_ended", ended).where(f.col("deletion").isNotNull()).select("deletion.*", "group_ended")
    )

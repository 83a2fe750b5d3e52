"""The table offset_resets: offsets that were reset while the group had no members: to earlier ones, so that records are read
again, or to later ones, so that records are skipped.

Rules:
1. A member's commit is refused unless its group has it (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID). So a commit to a group that has had
   members and has none now was made without one: by kafka-consumer-groups --reset-offsets, an admin client (AlterConsumerGroupOffsets),
   or a consumer that uses assign() under the group's name.
2. Offsets that one request sets are written in one batch, with one timestamp: they are one row.
3. A commit of the same offset is no reset.
4. A compacted log lacks records of groups. If the next record of the group does not follow the one without members, by its generation
   or epoch, the group may have had members in between, and it is unknown who committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.pipeline.engine import Window, backwards, on_its_engine
from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.schemas import INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.columns import moments
from broker_sim.pipeline.tables.groups import sizes
from broker_sim.pipeline.tables.offset_log import commits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["OFFSET_RESETS", "offset_resets"]

OFFSET_RESETS = TableSchema(
    "offset_resets",
    (
        RUN_ID,
        ColumnSpec("group", STRING, "group id", "offset_log"),
        ColumnSpec("log_partition", INT, "partition of `__consumer_offsets`", "offset_log"),
        ColumnSpec("log_offset", LONG, "of the first record of it; order by it", "offset_log"),
        *moment("at", "when it took effect", "offset_log"),
        ColumnSpec("partitions", LONG, "how many were set", "offset_log"),
        ColumnSpec(
            "back",
            LONG,
            "by how many offsets committed offsets decreased, in all partitions; at most so many records are read again",
            "offset_log",
        ),
        ColumnSpec(
            "skipped",
            LONG,
            "by how many offsets, of all partitions that were set to later ones; at most so many records are not read",
            "offset_log",
        ),
        ColumnSpec(
            "unknown",
            LONG,
            "partitions without an earlier offset in the log: there was none, or it was cleaned; the direction is unknown",
            "offset_log",
        ),
        ColumnSpec("topic", STRING, "topic of the partition with the largest difference", "offset_log"),
        ColumnSpec("partition", INT, "that partition", "offset_log"),
        ColumnSpec(
            "from_offset",
            LONG,
            "its offset before; null where the log holds none, although there may have been one",
            "offset_log",
        ),
        ColumnSpec("to_offset", LONG, "its offset now", "offset_log"),
        *moment("empty_since", "since when the group had no members", "offset_log"),
    ),
    "One row for each reset of the offsets of a group without members.",
)

_KEY = ("run_id", "log_partition", "group", "topic", "partition")
_PER = ("run_id", "log_partition", "group")


@on_its_engine
def offset_resets(log: DataFrame) -> DataFrame:
    """The table OFFSET_RESETS, from an offset_log."""
    of_key = Window.partitionBy(*_KEY).orderBy("effect_offset", "log_offset")
    taken = commits(log).withColumn("before", f.lag("committed_offset").over(of_key))
    changed = taken.where(f.col("committed_offset").isNotNull()).where(
        ~f.col("committed_offset").eqNullSafe(f.col("before"))
    )
    states = sizes(log)
    had = states.where(f.col("members") > 0).select(*_PER).distinct()
    following = f.last("generation", ignorenulls=True).over(backwards(*_PER, order="log_offset"))
    gap = following > f.coalesce(f.col("generation"), f.lit(0)) + f.when(f.col("kind") == "classic", 1).otherwise(2)
    states = states.withColumn("gap", f.coalesce(gap, f.lit(False)))
    state = f.struct("members", "at_ms", "ended", "gap")
    marks = states.select(*_PER, f.col("log_offset").alias("place"), state.alias("state"))
    moves = changed.join(f.broadcast(had), list(_PER), "left_semi").select(
        *_PER,
        f.col("effect_offset").alias("place"),
        f.struct("topic", "partition", "before", "committed_offset", "log_offset", "at_ms").alias("move"),
    )
    so_far = Window.partitionBy(*_PER).orderBy("place").rowsBetween(Window.unboundedPreceding, 0)
    both = marks.unionByName(moves, allowMissingColumns=True).withColumn(
        "state", f.last("state", ignorenulls=True).over(so_far)
    )
    none = (f.col("state.members") == 0) & ~f.col("state.gap")
    outside = both.where(f.col("move").isNotNull() & none).select(*_PER, "state", "move.*")
    by = f.col("committed_offset") - f.coalesce("before", f.col("committed_offset"))
    farthest = f.max(f.struct(f.abs(by).alias("by"), "topic", "partition", "before", "committed_offset"))
    rows = outside.groupBy(*_PER, "at_ms").agg(
        f.min("log_offset").alias("log_offset"),
        f.count("*").alias("partitions"),
        f.sum(f.greatest(f.lit(0) - by, f.lit(0))).alias("back"),
        f.sum(f.greatest(by, f.lit(0))).alias("skipped"),
        f.count(f.when(f.col("before").isNull(), 1)).alias("unknown"),
        farthest.alias("far"),
        f.max("state.at_ms").alias("empty_since_ms"),
    )
    return OFFSET_RESETS.conform(
        rows.select(
            *_PER,
            "log_offset",
            *moments("at", f.col("at_ms")),
            "partitions",
            "back",
            "skipped",
            "unknown",
            f.col("far.topic").alias("topic"),
            f.col("far.partition").alias("partition"),
            f.col("far.before").alias("from_offset"),
            f.col("far.committed_offset").alias("to_offset"),
            *moments("empty_since", f.col("empty_since_ms")),
        )
    )

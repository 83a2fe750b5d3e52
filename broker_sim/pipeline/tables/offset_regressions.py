"""The table offset_regressions: committed offsets that decreased: from and to which offset, between which generations.

Rules:
1. An offset decreased if it is less than the last one that took effect before, in the order of the log, not of timestamps.
2. The generation of a commit is that of the group's last record before it in the same log partition, or its epoch where the coordinator
   assigns (KIP-848). The log has nothing better: commits carry no generation.
3. ``how`` has only what the log shows. It is null without the group's record, which was cleaned or never written.
4. A commit carries the leader epoch of the record that it follows (KIP-320). If the offset decreased and that epoch increased, the
   topic's log was truncated: a leader without the records was elected, and consumers returned to the offset at which the logs diverge.
5. ``next_offset`` shows whether it lasted: an old batch that is committed late, or a commit that overtakes another, is corrected by the
   next one, and no record is read again unless the group rebalances in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.pipeline.engine import Window, on_its_engine
from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.schemas import BOOLEAN, INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.group_states import group_states
from broker_sim.pipeline.tables.offset_log import commits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["OFFSET_REGRESSIONS", "offset_regressions"]

OFFSET_REGRESSIONS = TableSchema(
    "offset_regressions",
    (
        RUN_ID,
        ColumnSpec("source", STRING, "`log`, or `journal` where there is no log", ""),
        ColumnSpec("group", STRING, "group id", "offset_log"),
        ColumnSpec("topic", STRING, "topic", "offset_log"),
        ColumnSpec("partition", INT, "partition", "offset_log"),
        ColumnSpec("log_partition", INT, "partition of `__consumer_offsets`", "offset_log"),
        ColumnSpec("log_offset", LONG, "of the commit with the lower offset; order by it", "offset_log"),
        ColumnSpec("before_log_offset", LONG, "of the commit before it", "offset_log"),
        *moment("at", "when it took effect", "offset_log"),
        *moment("before", "when the commit before it took effect", "offset_log"),
        ColumnSpec("from_offset", LONG, "offset committed before", "offset_log"),
        ColumnSpec("to_offset", LONG, "offset committed now; less than that", "offset_log"),
        ColumnSpec(
            "by",
            LONG,
            "from_offset - to_offset: at most so many records are read again, for compacted ones and markers have offsets, too",
            "offset_log",
        ),
        ColumnSpec(
            "from_generation",
            INT,
            "the group's generation at the commit before; null if its record is missing",
            "offset_log",
        ),
        ColumnSpec("to_generation", INT, "the group's generation now; null if its record is missing", "offset_log"),
        ColumnSpec("members", INT, "members of the group then; null if its record is missing", "offset_log"),
        ColumnSpec(
            "reset",
            BOOLEAN,
            "whether the offset was set from outside: the group had no members; null if not known",
            "offset_log",
        ),
        ColumnSpec(
            "how",
            STRING,
            "`reset` (the group had no members), `deleted` (the offset had been deleted in between), `truncated` (the topic's log"
            " was cut),"
            " `rebalance` (a generation began in between), `regrouped` (the same generation, but with a record of the"
            " group in between: a static member that came back, or a group that was deleted and created again; from a log"
            " only), `rewind` (same generation, no record in between: a member committed it); null if"
            " unknown",
            "offset_log",
        ),
        ColumnSpec("next_offset", LONG, "offset that was committed next; null if none was", "offset_log"),
        ColumnSpec("next_ms", LONG, "when that was, ms since 1970", "offset_log"),
    ),
    "One row for each commit of an offset that is less than the one before it.",
)

_KEY = ("run_id", "group", "topic", "partition")


@on_its_engine
def offset_regressions(log: DataFrame, source: str = "log") -> DataFrame:
    """OFFSET_REGRESSIONS of an offset_log, or of a `journal_log`."""
    back = _backwards(commits(log))
    falls = _with_generations(back, group_states(log))
    gone_back = f.col("members") == 0
    stands_between = (f.col("from_generation") == f.col("to_generation")) & (
        f.col("to_records") > f.col("from_records")
    )
    how = (
        f.when(f.col("was_deleted"), "deleted")
        .when(gone_back, "reset")
        .when((f.col("from_epoch") >= 0) & (f.col("to_epoch") > f.col("from_epoch")), "truncated")
        .when(f.col("from_generation") != f.col("to_generation"), "rebalance")
        .when(stands_between & (f.lit(source) == "log"), "regrouped")
        .when(f.col("from_generation") == f.col("to_generation"), "rewind")
    )
    falls = falls.select(
        "*",
        f.lit(source).alias("source"),
        f.timestamp_millis("before_ms").alias("before"),
        (f.col("from_offset") - f.col("to_offset")).alias("by"),
        gone_back.alias("reset"),
        how.alias("how"),
    )
    return OFFSET_REGRESSIONS.conform(falls)


def _backwards(taken: DataFrame) -> DataFrame:
    """Commits that are less than the last one before them; with it."""
    order = Window.partitionBy(*_KEY).orderBy("effect_offset", "log_offset")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    last = f.when(~f.col("deleted"), f.struct("committed_offset", "log_offset", "at_ms", "committed_leader_epoch"))
    seen = taken.select(
        "*",
        f.last(last, ignorenulls=True).over(earlier).alias("last"),
        f.coalesce(f.lag("deleted").over(order), f.lit(False)).alias("was_deleted"),
        f.lead(f.struct("committed_offset", "at_ms")).over(order).alias("next"),
    )
    return seen.where(f.col("committed_offset") < f.col("last.committed_offset")).select(
        *_KEY,
        "log_partition",
        "log_offset",
        "at",
        "at_ms",
        "was_deleted",
        f.col("committed_offset").alias("to_offset"),
        f.col("last.committed_offset").alias("from_offset"),
        f.col("last.log_offset").alias("before_log_offset"),
        f.col("last.at_ms").alias("before_ms"),
        f.col("last.committed_leader_epoch").alias("from_epoch"),
        f.col("committed_leader_epoch").alias("to_epoch"),
        f.col("next.committed_offset").alias("next_offset"),
        f.col("next.at_ms").alias("next_ms"),
    )


def _with_generations(back: DataFrame, states: DataFrame) -> DataFrame:
    """The group's generation at both commits: of its last record before them. Both sides are few: changes of groups, and falls."""
    ended = f.col("kind") == "group_tombstone"
    state = f.struct(
        f.when(~ended, f.col("generation")).alias("generation"),
        f.when(ended, 0).otherwise(f.size("members")).alias("members"),
    )
    where = ["run_id", "log_partition", "group"]
    groups = states.select(*where, f.col("log_offset").alias("place"), state.alias("state"))
    # each fall asks twice: at the commit before it, and at its own
    fall = f.struct(*(name for name in back.columns if name not in where))
    asks = back.select(
        *where, fall.alias("fall"), f.posexplode(f.array("before_log_offset", "log_offset")).alias("side", "place")
    )
    before = Window.partitionBy(*where).orderBy("place").rowsBetween(Window.unboundedPreceding, 0)
    answered = (
        groups.unionByName(asks, allowMissingColumns=True)
        .withColumn("records", f.count("state").over(before))
        .withColumn("state", f.last("state", ignorenulls=True).over(before))
        .where(f.col("fall").isNotNull())
    )
    then, now = f.col("side") == 0, f.col("side") == 1
    falls = answered.groupBy(*where, f.col("fall.log_offset"), f.col("fall.topic"), f.col("fall.partition")).agg(
        f.first("fall").alias("fall"),
        f.max(f.when(then, f.col("state.generation"))).alias("from_generation"),
        f.max(f.when(now, f.col("state.generation"))).alias("to_generation"),
        f.max(f.when(now, f.col("state.members"))).alias("members"),
        f.max(f.when(then, f.col("records"))).alias("from_records"),
        f.max(f.when(now, f.col("records"))).alias("to_records"),
    )
    return falls.select(*where, "fall.*", "from_generation", "to_generation", "members", "from_records", "to_records")

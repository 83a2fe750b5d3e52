"""The table groups: one row for each group of the log, with its last state; `sizes`, its number of members, record by record.

Rules:
1. A classic group's members are in its record; of KIP-848, share and streams groups each member has records of its own, which are
   counted. A group that has offsets and never had a member commits without joining (assign()), or a tool wrote them: `simple`.
2. ``state`` is the last that the log shows: `members` (it has some), `empty` (it has had members), `ended` (its tombstone, or
   that of its last offset, came last), `simple`.
3. From a journal alone (`journal_log`) members are known by their number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.pipeline.engine import Window, on_its_engine
from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.modern_groups import EPOCHS, WITH_MEMBERS
from broker_sim.pipeline.schemas import INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.columns import moments, records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["GROUPS", "groups", "sizes"]

_STATE_TEXT = (
    "`members`, `empty`, `ended` or `simple`, at the end of the log; `unknown` if the log begins later than its members, and those that"
    " it has were removed"
)
_FIRST_EPOCHS = 2
"""A consumer, share or streams group begins with epoch 1; since 4.2 its first record may have epoch 2."""

GROUPS = TableSchema(
    "groups",
    (
        RUN_ID,
        ColumnSpec("group", STRING, "group id; never null", "offset_log"),
        ColumnSpec("log_partition", INT, "its partition of `__consumer_offsets`", "offset_log"),
        ColumnSpec("kind", STRING, "`classic`, `consumer` (KIP-848), `share`, `streams` or `simple`", "offset_log"),
        ColumnSpec("protocol_type", STRING, "of a classic group: `consumer`, `connect`, ..", "offset_log"),
        ColumnSpec("state", STRING, _STATE_TEXT, "offset_log"),
        *moment("state_since", "since when; null for `simple`", "offset_log"),
        ColumnSpec("state_offset", LONG, "of the record with that state", "offset_log"),
        ColumnSpec("members", INT, "at the end of the log; null for `simple` and `unknown`", "offset_log"),
        ColumnSpec("generation", INT, "the last one, or the last epoch", "offset_log"),
        ColumnSpec("generations", LONG, "how many left a record", "offset_log"),
        ColumnSpec("commits", LONG, "committed offsets, as records", "offset_log"),
        ColumnSpec("partitions", LONG, "partitions of which it committed offsets", "offset_log"),
        *moment("first", "its first record that is left", "offset_log"),
        *moment("last_commit", "its last commit", "offset_log"),
        *moment("last", "its last record", "offset_log"),
    ),
    "One row for each group of the log.",
)

_PER = ("run_id", "log_partition", "group")


@on_its_engine
def sizes(log: DataFrame) -> DataFrame:
    """Each record that has members of a group: run_id, log_partition, group, log_offset, at_ms, members (null if the log does not show
    whether there are any), generation (null: its tombstone), kind."""
    at = f.col("record_ts_ms").alias("at_ms")
    ended = f.col("kind") == "group_tombstone"
    classic = log.where(f.col("kind").isin("group", "group_tombstone") & f.col("group").isNotNull()).select(
        *_PER,
        "log_offset",
        at,
        f.when(ended, 0).otherwise(f.size("members")).alias("members"),
        f.when(~ended, f.col("generation")).alias("generation"),
        f.lit("classic").alias("kind"),
        "protocol_type",
        ended.alias("ended"),
    )
    known = f.regexp_extract("record_type", WITH_MEMBERS, 1)
    modern = log.where((f.col("kind") == "other") & f.col("group").isNotNull() & (f.coalesce(known, f.lit("")) != ""))
    is_member = f.col("record_type").rlike("MemberMetadata$")
    there = f.when(is_member, f.col("value_version").isNotNull().cast("int"))
    of_member = Window.partitionBy(*_PER, "member", "record_type").orderBy("log_offset")
    of_group = Window.partitionBy(*_PER).orderBy("log_offset")
    change = f.when(is_member, there - f.coalesce(f.lag(there).over(of_member), f.lit(0))).otherwise(0)
    # a log that begins later lacks members that joined before: their number is known since the first epoch, or a deletion
    over = ~is_member & f.col("value_version").isNull()
    first = f.first(f.when(~is_member, f.col("generation")), ignorenulls=True).over(of_group)
    known_since = f.coalesce(first <= _FIRST_EPOCHS, f.lit(False)) | (f.max(over.cast("int")).over(of_group) == 1)
    counts = modern.withColumn("change", change)
    counts = counts.withColumn("members", f.sum("change").over(of_group).cast("int")).withColumn("since", known_since)
    counted = counts.select(
        *_PER,
        "log_offset",
        at,
        f.when((f.col("members") > 0) | f.col("since"), f.col("members")).alias("members"),
        f.when(~is_member, f.col("generation")).alias("generation"),
        f.lower(known).alias("kind"),
        f.lit(None).cast("string").alias("protocol_type"),
        over.alias("ended"),
    )
    ended = f.col("generation").isNull()
    steps = log.where(
        (f.col("kind") == "other") & (f.col("record_type") == EPOCHS) & f.col("group").isNotNull()
    ).select(
        *_PER,
        "log_offset",
        at,
        f.size("members").alias("members"),
        "generation",
        f.last("protocol_type", ignorenulls=True).over(of_group).alias("kind"),
        f.lit(None).cast("string").alias("protocol_type"),
        ended.alias("ended"),
    )
    return classic.unionByName(counted).unionByName(steps.withColumn("kind", f.coalesce("kind", f.lit("consumer"))))


@on_its_engine
def groups(log: DataFrame) -> DataFrame:
    """GROUPS of an offset_log, or of a `journal_log`. Two aggregations, joined: states come from steps, counts from all records, since
    a simple group has commits and no step."""
    steps = sizes(log)
    order = Window.partitionBy(*_PER).orderBy("log_offset")
    state = f.when(f.col("ended"), "ended").when(f.col("members") > 0, "members").when(f.col("members") == 0, "empty")
    state = f.coalesce(state, f.lit("unknown"))
    steps = steps.withColumn("state", state)
    turned = ~f.col("state").eqNullSafe(f.lag("state").over(order))
    states = (
        steps.withColumn("turned", turned)
        .groupBy(*_PER)
        .agg(
            f.max_by("kind", "log_offset").alias("kind"),
            f.max_by("protocol_type", "log_offset").alias("protocol_type"),
            f.max_by("state", "log_offset").alias("state"),
            f.max_by("members", "log_offset").alias("members"),
            f.max(f.when(f.col("turned"), f.struct("log_offset", "at_ms"))).alias("since"),
            f.max_by("generation", f.when(f.col("generation").isNotNull(), f.col("log_offset"))).alias("generation"),
            f.count_distinct("generation").alias("generations"),
            f.max("log_offset").alias("state_at"),
        )
    )
    commit = f.col("kind") == "commit"
    lives = (
        log.where(f.col("group").isNotNull())
        .groupBy(*_PER)
        .agg(
            f.coalesce(f.sum(f.when(commit, records(log))), f.lit(0)).alias("commits"),
            f.count_distinct(f.when(commit, f.struct("topic", "partition"))).alias("partitions"),
            f.min("record_ts_ms").alias("first_ms"),
            f.max(f.when(commit, f.col("record_ts_ms"))).alias("last_commit_ms"),
            f.max("record_ts_ms").alias("last_ms"),
            f.max_by("kind", "log_offset").alias("last_kind"),
            f.max_by("record_ts_ms", "log_offset").alias("end_ms"),
            f.max("log_offset").alias("end_offset"),
        )
    )
    both = lives.join(states, list(_PER), "left")
    over = (f.col("last_kind") == "commit_tombstone") & (f.coalesce("members", f.lit(0)) == 0)
    return GROUPS.conform(
        both.select(
            *_PER,
            f.coalesce("kind", f.lit("simple")).alias("kind"),
            "protocol_type",
            f.when(over, "ended").otherwise(f.coalesce("state", f.lit("simple"))).alias("state"),
            *moments(
                "state_since", f.when(over & f.col("state").isNull(), f.col("end_ms")).otherwise(f.col("since.at_ms"))
            ),
            f.when(over & f.col("state").isNull(), f.col("end_offset"))
            .otherwise(f.col("since.log_offset"))
            .alias("state_offset"),
            "members",
            "generation",
            f.coalesce("generations", f.lit(0)).alias("generations"),
            "commits",
            "partitions",
            *moments("first", f.col("first_ms")),
            *moments("last_commit", f.col("last_commit_ms")),
            *moments("last", f.col("last_ms")),
        )
    )

"""`rebalances`: every rebalance of every group: when it began, why and by whom, how long each phase took, how it ended.

Rules:
1. A rebalance begins where a step of the coordinator enters PreparingRebalance, or passes through it (the generation went up). Its
   window closes with the new generation; it ends at Stable or Empty, when the group is gone or moved away, or "failed" when the next
   one begins before: as in `broker_sim.explain`.
2. From a log alone only those are known whose group record is left in it. Then nothing is known of when the window opened or of
   sessions: that members are gone is told, not why. `missing_before` says how many generations in between left no record: they failed,
   or compaction took them.
3. What the journal tells of a generation is not told by the log again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.explain.model import COMPLETING, DEAD, EMPTY, PREPARING, STABLE
from broker_sim.pipeline.schemas import BOOLEAN, INT, LONG, OFFSET_LOG, RUN_ID, STRING, Column, ListOf, Table, moment
from broker_sim.pipeline.tables.columns import ids, moments, none_of, word
from broker_sim.pipeline.tables.events import EVENTS, in_order

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

__all__ = ["CAUSES", "REBALANCES", "rebalances"]

CAUSES = {
    "first": "join",
    "joined": "join",
    "replaced": "join",
    "left": "leave",
    "expired": "session timeout",
    "changed": "metadata change",
    "leader_rejoined": "metadata change",
    "sync_timeout": "sync failed",
    "append_failed": "sync failed",
    "loaded": "load",
    "too_large": "load",
    "no_room": "no room",
}
"""What `broker_sim.explain` calls a cause -> what the table calls it; any other is `unknown`."""

_BOTH = "both"

REBALANCES = Table(
    "rebalances",
    (
        RUN_ID,
        Column("group", STRING, "group id; never null", _BOTH),
        Column("coordinator_partition", INT, "its partition of `__consumer_offsets`", _BOTH),
        Column("generation", INT, "the generation that it led to; null if its window never closed", _BOTH),
        Column("generation_before", INT, "the one before; null if it isn't known", _BOTH),
        *moment("started", "when the window opened; null if that isn't known", "journal"),
        *moment(
            "closed",
            "when the window closed: all were in, or the timer fired; null if it didn't, or isn't known",
            _BOTH,
        ),
        *moment("ended", "when it was over; null if it goes on", _BOTH),
        Column(
            "end",
            STRING,
            "`stable`, `empty`, `failed` (the next one began before), `moved`, `dead`; null: goes on",
            _BOTH,
        ),
        Column("preparing_ms", LONG, "how long members were waited for: closed - started", "journal"),
        Column("completing_ms", LONG, "from there until the assignment was stored, or the next one began", _BOTH),
        Column(
            "stable_ms",
            LONG,
            "how long it was Stable afterwards (from the log alone: at most); null if it still is, or never was",
            _BOTH,
        ),
        Column(
            "cause",
            STRING,
            "`join`, `leave`, `session timeout`, `metadata change`, `sync failed` (a member didn't send SyncGroup in time, or the log"
            " didn't take the assignment), `load`, `no room`, `unknown`; from the log alone also `gone` (a leave or a session timeout)"
            " and `rejoin` (the same members again)",
            _BOTH,
        ),
        Column("cause_detail", STRING, "the same in the words of `events.cause`; from the log null", "journal"),
        Column("who", ListOf(STRING), "member ids: who came, went or rejoined first", _BOTH),
        Column("who_clients", ListOf(STRING), "their client ids, in the same order", _BOTH),
        Column("error", STRING, "the log's error, where the cause is that it took no assignment", "journal"),
        Column("size_before", INT, "members before", _BOTH),
        Column("size_after", INT, "members in the new generation; null if the window never closed", _BOTH),
        Column(
            "members_before", ListOf(STRING), "member ids; of more than 64 those of which the first step told", _BOTH
        ),
        Column("members_after", ListOf(STRING), "member ids; of more than 64 those of which the last step told", _BOTH),
        Column(
            "timed_out",
            ListOf(STRING),
            "members that were removed as they did not rejoin in time; null if the window never closed",
            "journal",
        ),
        Column("from_empty", BOOLEAN, "whether the group had no members before", _BOTH),
        Column(
            "whole",
            BOOLEAN,
            "false where the journal began in its middle, or the log has no record of the one before",
            _BOTH,
        ),
        Column(
            "missing_before", INT, "generations before it of which the log has no record; null from a journal", "log"
        ),
        Column("source", STRING, "`journal` or `log`; never null", ""),
    ),
    "One row for each rebalance, order by run_id, group and generation_before (from the journal: started_ms).",
)


def rebalances(events: DataFrame, offset_log: DataFrame | None = None) -> DataFrame:
    """`REBALANCES` of the journal's events, and of the log's group records of the generations that the journal doesn't tell."""
    told = _of_journal(EVENTS.only(["type", *_STEP]).conform(events))
    if offset_log is None:
        return told
    logged = _of_log(OFFSET_LOG.conform(offset_log))
    known = told.select("run_id", "group", "generation").where("generation is not null")
    return told.unionByName(
        logged.join(known, ["run_id", "group", "generation"], "left_anti").select(*REBALANCES.names)
    )


# ------------------------------------------------------------------------------------------------ from the journal


def _of_journal(events: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    of_group = Window.partitionBy("run_id", "group").orderBy(*in_order())
    of_one = Window.partitionBy("run_id", "group", "number")
    steps = (
        events.where((F.col("type") == "group") & F.col("group").isNotNull())
        .select(*_STEP)
        .withColumn("at", F.struct("journal", "seq"))
        .withColumn("old", F.coalesce("state_from", F.lit(DEAD)))
        .withColumn("new", F.coalesce("state_to", F.lit(DEAD)))
        .withColumn("middle", (F.row_number().over(of_group) == 1) & _in_the_middle())
        .withColumn("number", F.sum((F.col("middle") | _begins()).cast("int")).over(of_group))
        .where("number > 0")
        .withColumn("over", F.when(_ends_as().isNotNull(), F.struct("at", "ts_ms", _ends_as().alias("end"))))
        .withColumn("over", F.min("over").over(of_one))
    )
    first = F.struct("middle", "old", *(name for name in _STEP if name not in ("run_id", "group")))
    closes = F.col("new").isin(COMPLETING, STABLE, EMPTY) & (F.col("over").isNull() | (F.col("at") <= F.col("over.at")))
    closed = F.struct("at", "ts_ms", "generation", "size_after", "cause", "members_before", "members_after")
    found = steps.groupBy("run_id", "group", "number").agg(
        F.min_by(first, "at").alias("f"),
        F.min("over").alias("over"),
        F.min(F.when(closes & ~F.col("cause").isin("loaded", "unloaded"), closed)).alias("closed"),
        F.min(F.when((F.col("at") > F.col("over.at")) & (F.col("new") != STABLE), F.col("ts_ms"))).alias("left_ms"),
    )
    following = Window.partitionBy("run_id", "group").orderBy("number")
    return _told(found.withColumn("next_ms", F.lead("f.ts_ms").over(following)))


_STEP = (
    "run_id",
    "group",
    "journal",
    "seq",
    "ts_ms",
    "coordinator_partition",
    "state_from",
    "generation_from",
    "generation",
    "state_to",
    "size_before",
    "size_after",
    "members_before",
    "members_after",
    "cause",
    "cause_members",
    "error",
)


def _begins() -> SparkColumn:
    """Rule 1."""
    from pyspark.sql import functions as F

    went_up = F.coalesce(F.col("generation") > F.col("generation_from"), F.lit(False))
    return ((F.col("new") == PREPARING) | went_up) & (F.col("old") != PREPARING)


def _in_the_middle() -> SparkColumn:
    """Whether the first step that the journal tells of a group finds it in a rebalance. A journal that is begun late shows the groups
    that are there as loaded."""
    from pyspark.sql import functions as F

    shown = F.col("state_from").isNull() & F.col("cause").isin("loaded", "too_large")
    return F.col("old").isin(PREPARING, COMPLETING) | (shown & F.col("new").isin(PREPARING, COMPLETING))


def _ends_as() -> SparkColumn:
    """How a rebalance ends with this step; null if it doesn't."""
    from pyspark.sql import functions as F

    return (
        F.when(F.col("cause").isin("loaded", "unloaded"), "moved")
        .when(F.col("new") == DEAD, "dead")
        .when(F.col("new") == STABLE, "stable")
        .when(F.col("new") == EMPTY, "empty")
    )


def _told(found: DataFrame) -> DataFrame:
    """The table's columns."""
    from pyspark.sql import functions as F

    known = ~F.col("f.middle")
    in_completing = F.col("f.middle") & (F.col("f.old") == COMPLETING)
    ended_ms = F.coalesce(F.col("over.ts_ms"), F.col("next_ms"))
    end = F.coalesce(F.col("over.end"), F.when(F.col("next_ms").isNotNull(), "failed"))
    closed_ms = F.when(~in_completing, F.col("closed.ts_ms"))
    detail = F.when(known, F.col("f.cause"))
    timeout = F.when(detail == "append_failed", F.coalesce(F.col("f.error"), F.lit("REQUEST_TIMED_OUT")))
    who = F.when(known, F.col("f.cause_members"))
    nobody = none_of(EVENTS, "members_before")
    seen = F.concat(F.coalesce("f.members_before", nobody), F.coalesce("f.members_after", nobody))
    silent = F.array_except(ids("closed.members_before", "member"), ids("closed.members_after", "member"))
    return REBALANCES.conform(
        found.select(
            "run_id",
            "group",
            F.col("f.coordinator_partition").alias("coordinator_partition"),
            F.when(in_completing, F.col("f.generation_from")).otherwise(F.col("closed.generation")).alias("generation"),
            F.when(in_completing, F.col("f.generation_from") - 1)
            .otherwise(F.coalesce(F.col("f.generation_from"), F.when(known, 0), F.col("f.generation")))
            .alias("generation_before"),
            *moments("started", F.when(known, F.col("f.ts_ms"))),
            *moments("closed", closed_ms),
            *moments("ended", ended_ms),
            end.alias("end"),
            F.when(known, closed_ms - F.col("f.ts_ms")).alias("preparing_ms"),
            F.when(F.col("closed.at") != F.col("over.at"), ended_ms - closed_ms)
            .when(F.col("over").isNull(), ended_ms - closed_ms)
            .alias("completing_ms"),
            F.when(end == "stable", F.coalesce("left_ms", "next_ms") - ended_ms).alias("stable_ms"),
            F.when(detail.isNotNull(), F.coalesce(word(CAUSES, detail), F.lit("unknown"))).alias("cause"),
            detail.alias("cause_detail"),
            who.alias("who"),
            _clients(who, seen, "member").alias("who_clients"),
            timeout.alias("error"),
            F.col("f.size_before").alias("size_before"),
            F.when(~in_completing, F.col("closed.size_after")).alias("size_after"),
            ids("f.members_before", "member").alias("members_before"),
            F.when(~in_completing, ids("closed.members_after", "member")).alias("members_after"),
            F.when(F.col("closed.cause") == "timer", silent)
            .when(F.col("closed").isNotNull(), F.array())
            .alias("timed_out"),
            F.when(known, F.coalesce(F.col("f.size_before"), F.lit(0)) == 0).alias("from_empty"),
            known.alias("whole"),
            F.lit("journal").alias("source"),
        )
    )


def _clients(who: SparkColumn, members: SparkColumn, name: str) -> SparkColumn:
    """The client ids of those whose ids are ``who``."""
    from pyspark.sql import functions as F

    def client(one: SparkColumn) -> SparkColumn:
        return F.get(F.filter(members, lambda member: member[name] == one), F.lit(0))["client_id"]

    return F.transform(who, client)


# ------------------------------------------------------------------------------------------------ from the log


def _of_log(log: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    of_group = Window.partitionBy("run_id", "group").orderBy("log_offset")
    records = (
        log.where(F.col("kind").isin("group", "group_tombstone") & F.col("group").isNotNull())
        .withColumn("before", F.lag(F.struct("kind", "generation", "members")).over(of_group))
        .withColumn(
            "left_ms", F.first(_over(), ignorenulls=True).over(of_group.rowsBetween(1, Window.unboundedFollowing))
        )
        .withColumn("fresh", F.col("before.kind") == "group_tombstone")
        .where((F.col("kind") == "group") & (F.col("generation") > 0))
        .where(F.col("before").isNull() | F.col("fresh") | (F.col("generation") != F.col("before.generation")))
    )
    none = none_of(OFFSET_LOG, "members")
    known = F.col("before.generation").isNotNull()
    first = F.col("generation") == 1
    records = (
        records.withColumn("old", F.when(known, F.coalesce("before.members", none)).when(first | F.col("fresh"), none))
        .withColumn("new", F.coalesce("members", none))
        .withColumn("came", F.array_except(ids("new", "member_id"), ids("old", "member_id")))
        .withColumn("gone", F.array_except(ids("old", "member_id"), ids("new", "member_id")))
    )
    return _logged(records, known)


def _over() -> SparkColumn:
    """When what the group was before this record was over, at the latest: null unless it is of another generation, without members, or
    the group's tombstone.

    That record tells since when the group is in its state, which is nearer to the truth than when it was written; before it the group
    may have been preparing already, which a log does not show.
    """
    from pyspark.sql import functions as F

    return F.when(
        (F.col("kind") == "group_tombstone")
        | (F.size(F.coalesce("members", none_of(OFFSET_LOG, "members"))) == 0)
        | ~F.col("generation").eqNullSafe(F.col("before.generation")),
        F.least(F.coalesce("state_ts_ms", "record_ts_ms"), "record_ts_ms"),
    )


def _logged(records: DataFrame, known: SparkColumn) -> DataFrame:
    """The table's columns."""
    from pyspark.sql import functions as F

    instances = F.array_intersect(_instances("new", "came"), _instances("old", "gone"))
    instances = F.filter(instances, lambda one: one.isNotNull())
    same = (F.size("came") == 0) & (F.size("gone") == 0)
    cause = (
        F.when(F.col("old").isNull(), "unknown")
        .when((F.size("came") > 0) & ((F.size("gone") == 0) | (F.size(instances) > 0)), "join")
        .when((F.size("gone") > 0) & (F.size("came") == 0), "gone")
        .when(same & (_subscribed("old") != _subscribed("new")), "metadata change")
        .when(same & (_assigned("old") != _assigned("new")), "metadata change")
        .when(same, "rejoin")
        .otherwise("unknown")
    )
    who = (
        F.when(cause == "join", F.col("came")).when(cause == "gone", F.col("gone")).otherwise(F.concat("came", "gone"))
    )
    seen = F.concat("old", "new")
    empty = F.size("new") == 0
    closed_ms = F.when(empty, F.coalesce("state_ts_ms", "record_ts_ms")).otherwise(F.col("state_ts_ms"))
    before = F.when(known, F.col("before.generation")).when(F.col("generation") == 1, 0)
    return REBALANCES.conform(
        records.select(
            "run_id",
            "group",
            F.col("log_partition").alias("coordinator_partition"),
            "generation",
            before.alias("generation_before"),
            *moments("closed", closed_ms),
            *moments("ended", F.col("record_ts_ms")),
            F.when(empty, "empty").otherwise("stable").alias("end"),
            F.when(~empty, F.greatest(F.col("record_ts_ms") - F.col("state_ts_ms"), F.lit(0))).alias("completing_ms"),
            F.when(
                ~empty & F.col("left_ms").isNotNull(), F.greatest(F.col("left_ms") - F.col("record_ts_ms"), F.lit(0))
            ).alias("stable_ms"),
            cause.alias("cause"),
            who.alias("who"),
            _clients(who, seen, "member_id").alias("who_clients"),
            F.size("old").alias("size_before"),
            F.size("new").alias("size_after"),
            ids("old", "member_id").alias("members_before"),
            ids("new", "member_id").alias("members_after"),
            (F.size("old") == 0).alias("from_empty"),
            (F.col("old").isNotNull() & (F.col("generation") == before + 1)).alias("whole"),
            F.when(before.isNotNull(), F.greatest(F.col("generation") - before - 1, F.lit(0))).alias("missing_before"),
            F.lit("log").alias("source"),
        )
    )


def _instances(members: str, ids: str) -> SparkColumn:
    """The instance ids of those of the members that have one of these ids."""
    from pyspark.sql import functions as F

    wanted = F.filter(F.col(members), lambda one: F.array_contains(F.col(ids), one["member_id"]))
    return F.transform(wanted, lambda one: one["group_instance_id"])


def _subscribed(members: str) -> SparkColumn:
    """All topics that members subscribe to."""
    from pyspark.sql import functions as F

    return F.array_sort(
        F.array_distinct(F.flatten(F.transform(F.col(members), lambda one: F.coalesce(one["topics"], F.array()))))
    )


def _assigned(members: str) -> SparkColumn:
    """All partitions that members were given, of groups of consumers."""
    from pyspark.sql import functions as F

    def of_topic(topic: SparkColumn) -> SparkColumn:
        return F.transform(topic["partitions"], lambda index: F.concat_ws("-", topic["topic"], index.cast("string")))

    def of_member(member: SparkColumn) -> SparkColumn:
        return F.flatten(F.transform(F.coalesce(member["assigned"], F.array()), of_topic))

    return F.array_sort(F.flatten(F.transform(F.col(members), of_member)))

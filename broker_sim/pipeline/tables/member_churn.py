"""`member_churn`: how many members of each group joined and left, and how long they stayed; `memberships`: each of them.

Rules:
1. A membership is one member id. A static member that comes back under a new id has a new membership, counted as a replacement and
   neither as a join nor as a departure.
2. A coordinator that moves or loads neither adds nor removes members.
3. A tenure is known if both its ends are: a member that was present when the journal began, or still is, has none.
4. A log alone shows that members departed, not why: expirations and leaves are null then. Members that joined and left between two
   records are not seen. All types of groups are included: consumer (KIP-848), share and streams groups by their epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker_sim.pipeline.engine import Window, on_its_engine
from broker_sim.pipeline.engine import functions as F
from broker_sim.pipeline.schemas import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    OFFSET_LOG,
    RUN_ID,
    STRING,
    ColumnSpec,
    TableSchema,
    moment,
)
from broker_sim.pipeline.tables.columns import ids, moments, none_of, or_none, word
from broker_sim.pipeline.tables.events import EVENTS
from broker_sim.pipeline.tables.group_states import group_states
from broker_sim.pipeline.tables.offset_log import journal_log

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

__all__ = ["MEMBERSHIPS", "MEMBER_CHURN", "member_churn", "memberships"]

_BOTH = "both"

MEMBERSHIPS = TableSchema(
    "memberships",
    (
        RUN_ID,
        ColumnSpec("group", STRING, "group id; never null", _BOTH),
        ColumnSpec("member", STRING, "member id; never null", _BOTH),
        ColumnSpec("client_id", STRING, "as the client sent it", _BOTH),
        ColumnSpec("client_host", STRING, "as Kafka shows it", _BOTH),
        ColumnSpec("instance", STRING, "group.instance.id; null for a dynamic member", _BOTH),
        *moment("joined", "when it joined; null if it was a member before the beginning", _BOTH),
        *moment("left", "when it left or was removed; null if it still is a member", _BOTH),
        ColumnSpec(
            "why",
            STRING,
            "`leave`, `session timeout`, `rebalance timeout` (did not rejoin, or revoke, in time), `sync timeout`, `max size reached`,"
            " `replaced`, `other`; from the"
            " log alone `departed` or `replaced`; null if it still is a member",
            _BOTH,
        ),
        ColumnSpec("replaces", BOOLEAN, "whether it took the place of a static member with another id", _BOTH),
        ColumnSpec("tenure_ms", LONG, "left - joined", _BOTH),
        ColumnSpec("source", STRING, "`journal` or `log`; never null", ""),
    ),
    "One row for each member id of each group.",
)

MEMBER_CHURN = TableSchema(
    "member_churn",
    (
        RUN_ID,
        ColumnSpec("group", STRING, "group id; never null", _BOTH),
        ColumnSpec("members", LONG, "member ids that were seen", _BOTH),
        ColumnSpec("static_members", LONG, "instance ids that were seen", _BOTH),
        ColumnSpec("joins", LONG, "members that were added, replacements not counted", _BOTH),
        ColumnSpec("replacements", LONG, "static members that rejoined under a new member id", _BOTH),
        ColumnSpec("leaves", LONG, "members that sent LeaveGroup", "journal"),
        ColumnSpec("expirations", LONG, "members whose session timed out", "journal"),
        ColumnSpec("static_expirations", LONG, "of them the static members", "journal"),
        ColumnSpec("timeouts", LONG, "members that did not rejoin, revoke, or send SyncGroup, in time", "journal"),
        ColumnSpec("departures", LONG, "members that were removed for any reason, replacements not counted", _BOTH),
        ColumnSpec("present", LONG, "members at the end", _BOTH),
        ColumnSpec("mean_tenure_ms", DOUBLE, "mean of the tenures that are known; null if none is", _BOTH),
        ColumnSpec("shortest_tenure_ms", LONG, "the shortest of them", _BOTH),
        ColumnSpec("tenures", INT, "how many are known", _BOTH),
        ColumnSpec("source", STRING, "`journal` or `log`; never null", ""),
    ),
    "One row for each group.",
)

_NEEDED = (
    *("run_id", "journal", "seq", "ts_ms", "type", "group", "cause", "members_before", "members_after"),
    *("coordinator_partition", "state_to", "generation", "protocol_type", "detail", "size_after"),
)

_WHY = {
    "left": "leave",
    "session_expired": "session timeout",
    "rebalance_timer": "rebalance timeout",
    "revocation_timeout": "rebalance timeout",
    "sync_timeout": "sync timeout",
    "max_size_reached": "max size reached",
    "replaced": "replaced",
}


@on_its_engine
def member_churn(events: DataFrame, offset_log: DataFrame | None = None) -> DataFrame:
    """`MEMBER_CHURN`; the log is read for groups that the journal does not have."""

    def number(condition: SparkColumn) -> SparkColumn:
        return F.sum(F.when(condition, 1).otherwise(0))

    def counted(condition: SparkColumn) -> SparkColumn:
        return F.when(F.col("source") == "journal", number(condition))

    why = F.col("why")
    return MEMBER_CHURN.conform(
        memberships(events, offset_log)
        .groupBy("run_id", "group", "source")
        .agg(
            F.count("*").alias("members"),
            F.count_distinct("instance").alias("static_members"),
            number(F.col("joined_ms").isNotNull() & ~F.col("replaces")).alias("joins"),
            number(F.col("replaces")).alias("replacements"),
            counted(why == "leave").alias("leaves"),
            counted(why == "session timeout").alias("expirations"),
            counted((why == "session timeout") & F.col("instance").isNotNull()).alias("static_expirations"),
            counted(why.isin("rebalance timeout", "sync timeout")).alias("timeouts"),
            number(why.isNotNull() & (why != "replaced")).alias("departures"),
            number(why.isNull()).alias("present"),
            F.avg("tenure_ms").alias("mean_tenure_ms"),
            F.min("tenure_ms").alias("shortest_tenure_ms"),
            F.count("tenure_ms").alias("tenures"),
        )
    )


@on_its_engine
def memberships(events: DataFrame, offset_log: DataFrame | None = None) -> DataFrame:
    """`MEMBERSHIPS`; the log is read for groups that the journal does not have."""
    memberships = _of_journal(EVENTS.only(_NEEDED).conform(events))
    if offset_log is None:
        return memberships
    logged = _of_log(OFFSET_LOG.conform(offset_log))
    return memberships.unionByName(
        logged.join(memberships.select("run_id", "group").distinct(), ["run_id", "group"], "left_anti")
    )


def _of_journal(events: DataFrame) -> DataFrame:
    of_group = events.where((F.col("type") == "group") & F.col("group").isNotNull())
    classic = of_group.select(
        "run_id",
        "group",
        "ts_ms",
        "cause",
        (F.col("journal").cast("bigint") * (1 << 40) + F.col("seq")).alias("at"),
        _members(or_none(EVENTS, "members_before"), member="member", instance="instance").alias("old"),
        _members(or_none(EVENTS, "members_after"), member="member", instance="instance").alias("new"),
        F.coalesce(F.col("cause").isin("loaded", "unloaded", "converted"), F.lit(False)).alias("moved"),
    )
    by_epochs = journal_log(EVENTS.conform(events.where(F.col("type") == "epochs")))
    return _memberships(classic.unionByName(_of_states(group_states(by_epochs))), "journal")


def _of_log(log: DataFrame) -> DataFrame:
    return _memberships(_of_states(group_states(log)), "log")


def _of_states(states: DataFrame) -> DataFrame:
    """Steps, from state to state of a group (`group_states`)."""
    of_group = Window.partitionBy("run_id", "group").orderBy("log_offset")
    there = (F.col("generation") > 1) | (F.col("detail") == "loaded")
    return (
        states.withColumn("now", or_none(OFFSET_LOG, "members"))
        .withColumn("was", F.lag("now").over(of_group))
        .withColumn("first", F.row_number().over(of_group) == 1)
        .withColumn("was", F.when(F.col("first"), none_of(OFFSET_LOG, "members")).otherwise(F.col("was")))
        .select(
            "run_id",
            "group",
            F.col("record_ts_ms").alias("ts_ms"),
            F.coalesce("detail", F.lit("departed")).alias("cause"),
            F.col("log_offset").alias("at"),
            _members(F.col("was"), member="member_id", instance="group_instance_id").alias("old"),
            _members(F.col("now"), member="member_id", instance="group_instance_id").alias("new"),
            F.coalesce(F.col("first") & there, F.lit(False)).alias("moved"),  # members that were present already
        )
    )


def _members(members: SparkColumn, *, member: str, instance: str) -> SparkColumn:
    """Structs of members with the same fields from either source."""
    return F.transform(
        members,
        lambda entry: F.struct(
            entry[member].alias("member"),
            entry["client_id"].alias("client_id"),
            entry["client_host"].alias("client_host"),
            entry[instance].alias("instance"),
        ),
    )


def _memberships(steps: DataFrame, source: str) -> DataFrame:
    """From steps with ``old`` and ``new`` members, ``at`` (their order), ``ts_ms``, ``cause``, ``moved`` (no member joined or left)."""

    def instances(members: str, others: str) -> SparkColumn:
        return F.transform(F.filter(F.col(members), _not_in(others)), lambda entry: entry["instance"])

    replaced = F.array_intersect(instances("new", "old"), instances("old", "new"))
    steps = steps.withColumn("replaced", F.filter(replaced, lambda instance: instance.isNotNull()))
    changes = steps.select(
        "run_id",
        "group",
        "ts_ms",
        "at",
        "moved",
        "cause",
        "replaced",
        F.explode(F.array_union(ids("old", "member"), ids("new", "member"))).alias("member"),
        F.col("old"),
        F.col("new"),
    )
    was = F.get(F.filter("old", lambda entry: entry["member"] == F.col("member")), F.lit(0))
    now = F.get(F.filter("new", lambda entry: entry["member"] == F.col("member")), F.lit(0))
    changes = changes.withColumn("was", was).withColumn("now", now).drop("old", "new")
    joined = F.col("was").isNull() & ~F.col("moved")
    left = F.col("now").isNull() & ~F.col("moved")
    back = F.array_contains("replaced", F.coalesce(F.col("now"), F.col("was"))["instance"])
    why = F.when(back, "replaced").otherwise(_words(F.col("cause")))
    result = changes.groupBy("run_id", "group", "member").agg(
        F.min_by(F.coalesce("now", "was"), "at").alias("m"),
        F.min(F.when(joined, F.col("ts_ms"))).alias("joined_ms"),
        F.max(F.when(left, F.struct("at", "ts_ms", why.alias("why")))).alias("departure"),
        F.coalesce(F.bool_or(joined & back), F.lit(False)).alias("replaces"),
    )
    return MEMBERSHIPS.conform(
        result.select(
            "run_id",
            "group",
            "member",
            F.col("m.client_id").alias("client_id"),
            F.col("m.client_host").alias("client_host"),
            F.col("m.instance").alias("instance"),
            *moments("joined", F.col("joined_ms")),
            *moments("left", F.col("departure.ts_ms")),
            F.col("departure.why").alias("why"),
            "replaces",
            (F.col("departure.ts_ms") - F.col("joined_ms")).alias("tenure_ms"),
            F.lit(source).alias("source"),
        )
    )


def _not_in(others: str) -> Callable[[SparkColumn], SparkColumn]:
    """Whether a member's id is none of those of ``others``."""
    return lambda entry: ~F.exists(F.col(others), lambda other: other["member"] == entry["member"])


def _words(cause: SparkColumn) -> SparkColumn:
    return F.when(cause == "departed", "departed").otherwise(F.coalesce(word(_WHY, cause), F.lit("other")))

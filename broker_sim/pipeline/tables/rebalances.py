"""`rebalances`: every rebalance of every group: when it began, why and by whom, how long each phase took, how it ended.

Rules:
1. Spark brings together what is told of one group, in its order; `pipeline.rebalance_rows` reads it and makes the rows, with the one
   reader that explanations use as well. A step costs Python some 50 us, and steps are few beside requests and commits.
2. From a log alone only those are known whose group record is left in it. Then nothing is known of when the window opened or of
   sessions: that members are gone is told, not why. `missing_before` says how many generations in between left no record: they failed,
   or compaction took them.
3. What the journal tells of a generation is not told by the log again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.rebalance_rows import rebalances_of
from broker_sim.pipeline.schemas import (
    BOOLEAN,
    INT,
    LONG,
    OFFSET_LOG,
    RUN_ID,
    STRING,
    Column,
    ListOf,
    Table,
    moment,
)
from broker_sim.pipeline.tables.columns import moments
from broker_sim.pipeline.tables.events import EVENTS

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

__all__ = ["REBALANCES", "TOLD", "rebalances"]

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
            "members that were removed as they did not rejoin in time; null if the window never closed, or nobody saw it close",
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


TOLD = Table(
    "told",
    (
        RUN_ID,
        Column("group", STRING, "group id"),
        Column("of_log", BOOLEAN, "a record, and not a step"),
        Column("journal", INT, "its journal; 0 for records"),
        Column("place", LONG, "its seq; of a record its offset"),
        Column("ts_ms", LONG, "when it happened, or was written"),
        Column("coordinator_partition", INT, "the group's partition of `__consumer_offsets`"),
        Column("state_from", STRING, "before the step"),
        Column("state_to", STRING, "after it"),
        Column("generation_from", INT, "before the step"),
        Column("generation", INT, "after it; of a record its own, null for a tombstone"),
        Column("size_before", INT, "members before the step"),
        Column("size_after", INT, "members after it"),
        Column("members_before", STRING, "JSON of those that the step tells of: member, client_id"),
        Column("members_after", STRING, "the same; of a record all, with instance, topics and assigned"),
        Column("cause", STRING, "as in `events`"),
        Column("cause_members", STRING, "JSON of that in `events`"),
        Column("error", STRING, "as in `events`"),
        Column("state_ms", LONG, "of a record: since when the group is in its state"),
    ),
    "What is told of groups: steps of the journal and records of the log. Order by run_id, group, of_log, journal and place.",
)
"""What has parts is JSON: after each row Spark 4.2 asks Arrow how large the batch has become, which for arrays goes through all of its
rows again (66,000 steps with arrays took 20 s, with JSON 2 s)."""

_MOMENTS = ("started", "closed", "ended")
_FOUND = REBALANCES.only(name for name in REBALANCES.names if name not in _MOMENTS)
"""What Python makes: Spark adds the moments for people."""
_ROWS = 2000
"""Rows that Spark is handed at once."""


def rebalances(events: DataFrame, offset_log: DataFrame | None = None) -> DataFrame:
    """`REBALANCES` of the journal's events, and of the log's group records of the generations that the journal doesn't tell."""
    told = _steps(events)
    if offset_log is not None:
        told = told.unionByName(_records(offset_log))
    in_order = told.repartition("run_id", "group").sortWithinPartitions("run_id", "group", "of_log", "journal", "place")
    found = in_order.mapInArrow(_batches, _FOUND.spark())
    for name in _MOMENTS:
        found = found.withColumn(name, moments(name, found[f"{name}_ms"])[0])
    return REBALANCES.conform(found)


def _steps(events: DataFrame) -> DataFrame:
    """The journal's steps, as `TOLD`."""
    from pyspark.sql import functions as F

    needed = [name for name in TOLD.names if name in EVENTS.names]
    steps = EVENTS.only(["type", "seq", *needed]).conform(events)
    return TOLD.conform(
        steps.where((F.col("type") == "group") & F.col("group").isNotNull())
        .withColumn("members_before", _json("members_before", member="member"))
        .withColumn("members_after", _json("members_after", member="member"))
        .withColumn("cause_members", F.to_json("cause_members"))
        .withColumn("of_log", F.lit(False))
        .withColumnRenamed("seq", "place")
    )


def _records(log: DataFrame) -> DataFrame:
    """The log's records of groups, as `TOLD`."""
    from pyspark.sql import functions as F

    return TOLD.conform(
        OFFSET_LOG.conform(log)
        .where(F.col("kind").isin("group", "group_tombstone") & F.col("group").isNotNull())
        .select(
            "run_id",
            "group",
            F.lit(True).alias("of_log"),
            F.lit(0).alias("journal"),
            F.col("log_offset").alias("place"),
            F.col("record_ts_ms").alias("ts_ms"),
            F.col("log_partition").alias("coordinator_partition"),
            F.when(F.col("kind") == "group", F.col("generation")).alias("generation"),
            _json(
                "members", member="member_id", instance="group_instance_id", topics="topics", assigned="assigned"
            ).alias("members_after"),
            F.col("state_ts_ms").alias("state_ms"),
        )
    )


def _json(members: str, **names: str) -> SparkColumn:
    """An array of members as JSON: their client ids, and of what they have besides what is named."""
    from pyspark.sql import functions as F

    def each(one: SparkColumn) -> SparkColumn:
        return F.struct(
            one["client_id"].alias("client_id"), *(one[theirs].alias(ours) for ours, theirs in names.items())
        )

    return F.to_json(F.transform(F.col(members), each))


def _batches(batches: Iterable[Any]) -> Iterator[Any]:
    """On the workers: Arrow batches of `TOLD`, in order, to those of `_FOUND`."""
    import pyarrow

    schema = _FOUND.arrow()
    rows = rebalances_of(row for batch in batches for row in batch.to_pylist())
    while some := list(islice(rows, _ROWS)):
        yield pyarrow.RecordBatch.from_pylist(some, schema)

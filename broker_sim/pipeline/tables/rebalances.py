"""`rebalances`: every rebalance of every group: when it began, its cause, the duration of each phase, and how it ended.

Rules:
1. Spark collects the input rows of one group, in their order; `pipeline.rebalance_rows` reads it and makes the rows, with the
   reader that explanations use as well. A step costs Python some 50 us, and steps are few beside requests and commits.
2. From a log alone only those are known whose group record it still has. Then the beginning of the join phase and expired sessions are
   unknown: removed members are known, the cause is not. `missing_before` is the number of generations in between without a record:
   they failed, or compaction removed their records.
3. A generation of the journal gets no second row from the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.engine import Window, on_its_engine
from broker_sim.pipeline.engine import functions as F
from broker_sim.pipeline.modern_groups import EPOCHS
from broker_sim.pipeline.modern_groups import RECORDS as MODERN
from broker_sim.pipeline.rebalance_rows import CLOSED, GROWN, JOINS, rebalances_of
from broker_sim.pipeline.schemas import (
    BOOLEAN,
    INT,
    LONG,
    OFFSET_LOG,
    RUN_ID,
    STRING,
    ArrayOf,
    ColumnSpec,
    StructOf,
    TableSchema,
    moment,
)
from broker_sim.pipeline.tables.columns import moments, records
from broker_sim.pipeline.tables.events import EVENTS, PER_JOURNAL

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

__all__ = ["REBALANCES", "REBALANCE_INPUT", "closings", "modern_records", "rebalances"]

_BOTH = "both"

REBALANCES = TableSchema(
    "rebalances",
    (
        RUN_ID,
        ColumnSpec("group", STRING, "group id; never null", _BOTH),
        ColumnSpec("coordinator_partition", INT, "its partition of `__consumer_offsets`", _BOTH),
        ColumnSpec("generation", INT, "the resulting generation; null if its join phase never ended", _BOTH),
        ColumnSpec("generation_before", INT, "the one before; null if it isn't known", _BOTH),
        *moment("started", "when the join phase began; null if unknown", "journal"),
        *moment(
            "closed",
            "when the join phase ended: all members had joined, or the timer fired; null if it did not end, or if unknown",
            _BOTH,
        ),
        *moment("ended", "when it ended; null if it has not", _BOTH),
        ColumnSpec(
            "end",
            STRING,
            "`stable`, `empty`, `failed` (the next one began before), `moved`, `dead`; null: in progress",
            _BOTH,
        ),
        ColumnSpec("preparing_ms", LONG, "how long members were waited for: closed - started", "journal"),
        ColumnSpec("completing_ms", LONG, "from there until the assignment was stored, or the next one began", _BOTH),
        ColumnSpec(
            "stable_ms",
            LONG,
            "how long it was Stable afterwards (from the log alone: at most); null if it still is, or never was",
            _BOTH,
        ),
        ColumnSpec(
            "cause",
            STRING,
            "`join`, `leave`, `poll timeout` (the client said so as it left; `likely`: it left after a silence of"
            " max.poll.interval.ms, for whatever reason), `rebalance timeout` (it did not revoke its partitions in time), `session"
            " timeout`, `metadata change`, `downgrade` (to the classic protocol, as the last member of the consumer protocol"
            " left: ``who``), `sync failed` (a member didn't send SyncGroup in time, or the log"
            " didn't take the assignment), `load`, `max size reached`, `unknown`; from the log alone also `departed` (a leave or a"
            " session timeout) and `rejoin` (the same members again)",
            _BOTH,
        ),
        ColumnSpec(
            "cause_changes",
            ArrayOf(STRING),
            "of a metadata change what has changed: `orders: 2 to 6 partitions`, `orders: 4 partitions new` (or removed),"
            " `web-1: subscribed to payments` (or unsubscribed from), `web-1: revoked orders-0`, `assignor: range to uniform`; null"
            " where that isn't known",
            _BOTH,
        ),
        ColumnSpec(
            "cause_detail",
            STRING,
            "the same in the words of `events.cause`; from the log null, with a broker's lines in their words",
            _BOTH,
        ),
        ColumnSpec("protocol_type", STRING, "`consumer`, `connect`, `sr` ..; null where it isn't known", _BOTH),
        ColumnSpec("who", ArrayOf(STRING), "member ids that were added, removed or rejoined first", _BOTH),
        ColumnSpec("who_clients", ArrayOf(STRING), "their client ids, in the same order", _BOTH),
        ColumnSpec(
            "error", STRING, "error of the append, if the cause is that the assignment was not stored", "journal"
        ),
        ColumnSpec("size_before", INT, "members before", _BOTH),
        ColumnSpec("size_after", INT, "members of the new generation; null if the join phase never ended", _BOTH),
        ColumnSpec("members_before", ArrayOf(STRING), "member ids; of more than 64 those in the first step", _BOTH),
        ColumnSpec("members_after", ArrayOf(STRING), "member ids; of more than 64 those in the last step", _BOTH),
        ColumnSpec(
            "timed_out",
            ArrayOf(STRING),
            "members that were removed as they did not rejoin in time; null if the join phase did not end, or its end was not recorded",
            "journal",
        ),
        ColumnSpec(
            "held_by",
            STRING,
            "what it waited for the longest: `session` (that expired), `rebalance timeout` (members that did not rejoin), `rejoin` (of"
            " the last member), `leave`, `pending member`, `initial delay`, `leader` (its assignment), `sync` (SyncGroups that did not"
            " come), `log` (that stored it),"
            " `unknown`; null without steps or lines about it",
            "journal",
        ),
        ColumnSpec("held_ms", LONG, "how long it waited for that", "journal"),
        ColumnSpec("held_who", ArrayOf(STRING), "member ids of the members that it waited for", "journal"),
        ColumnSpec("held_clients", ArrayOf(STRING), "their client ids, in the same order", "journal"),
        ColumnSpec(
            "held_closed",
            ArrayOf(STRING),
            "of them the members whose connection had been closed before, without a LeaveGroup: until their sessions expired, or for"
            " JoinGroups and SyncGroups that did not come",
            "journal",
        ),
        ColumnSpec(
            "waits",
            ArrayOf(
                StructOf(
                    (
                        ColumnSpec("what", STRING, "as `held_by`"),
                        ColumnSpec("ms", LONG, "how long"),
                        ColumnSpec("who", ArrayOf(STRING), "member ids"),
                        ColumnSpec("clients", ArrayOf(STRING), "their client ids, in the same order"),
                        ColumnSpec("closed", ArrayOf(STRING), "as `held_closed`"),
                    )
                )
            ),
            "all that it waited for, in order; of consumer, share and streams groups the members that were removed"
            " (`session`, `leave`, `rebalance timeout`, `removed`: the log does not show which) before they reached it, and since when"
            " they had lacked an epoch; null where nothing is known",
            _BOTH,
        ),
        ColumnSpec(
            "bounces",
            ArrayOf(
                StructOf(
                    (
                        ColumnSpec("instance", STRING, "its group.instance.id"),
                        ColumnSpec("client", STRING, "client id of the member that came"),
                        ColumnSpec("former", STRING, "its member id before"),
                        ColumnSpec("member", STRING, "its member id since then"),
                        ColumnSpec("at_ms", LONG, "when it came back, ms since 1970"),
                        ColumnSpec(
                            "away_ms",
                            LONG,
                            "since the last commit of its partitions, or since it left for a while; null if neither is in the log",
                        ),
                        ColumnSpec("removed", BOOLEAN, "whether the group had removed it before"),
                        ColumnSpec("log_offset", LONG, "of the record that shows it"),
                    )
                )
            ),
            "static members that came back under another member id in this generation or with it",
            "log",
        ),
        ColumnSpec("from_empty", BOOLEAN, "whether the group had no members before", _BOTH),
        ColumnSpec(
            "whole",
            BOOLEAN,
            "false if the journal began within it, or the log has no record of the previous generation",
            _BOTH,
        ),
        ColumnSpec(
            "missing_before", INT, "generations before it of which the log has no record; null from a journal", "log"
        ),
        ColumnSpec(
            "source", STRING, "`journal`, `log`, or `broker log` if only a broker's lines have it; never null", ""
        ),
        ColumnSpec(
            "cause_certainty",
            STRING,
            "`certain` (journal, broker's line, or what the records leave no doubt of), `likely` (from what was committed); null"
            " where no"
            " cause is known",
            _BOTH,
        ),
        ColumnSpec(
            "started_after_ms", LONG, "from the log: when the group's record before was written, the earliest", "log"
        ),
        ColumnSpec(
            "waited_ms",
            LONG,
            "from the log: how long members that had committed regularly had not committed when the join phase ended; null where that"
            " shows no"
            " waiting",
            "log",
        ),
        ColumnSpec(
            "waited_for",
            ArrayOf(STRING),
            "client ids of the members that committed last before it ended; if the coordinator assigns, of those that reached the epoch"
            " last",
            _BOTH,
        ),
        ColumnSpec(
            "revoked_by",
            STRING,
            "where the coordinator assigns: client id of the member that took longest to revoke",
            _BOTH,
        ),
        ColumnSpec("revoked_ms", LONG, "how long that took, from when it was asked to; null if none had to", _BOTH),
        ColumnSpec(
            "revoked_tasks", ArrayOf(STRING), "of a streams group: the active tasks that these are, `0_3`", _BOTH
        ),
        ColumnSpec(
            "topology_ready",
            BOOLEAN,
            "of a streams group: whether all topics of its topology existed as required",
            _BOTH,
        ),
        ColumnSpec(
            "kind",
            STRING,
            "`classic`, `consumer` (KIP-848), `share` or `streams`; null if only a broker's lines have it",
            _BOTH,
        ),
        ColumnSpec("log_offset", LONG, "of its record in `__consumer_offsets`", "log"),
        ColumnSpec("evidence_lines", ArrayOf(STRING), "broker's log lines about it, FILE:LINE", "broker log"),
    ),
    "One row for each rebalance, order by run_id, group and generation_before (from the journal: started_ms).",
)


REBALANCE_INPUT = TableSchema(
    "rebalances_input",
    (
        RUN_ID,
        ColumnSpec("group", STRING, "group id"),
        ColumnSpec("of_log", BOOLEAN, "a record, and not a step"),
        ColumnSpec("journal", INT, "its journal; 0 for records"),
        ColumnSpec("place", LONG, "its seq; of a record its offset"),
        ColumnSpec("ts_ms", LONG, "when it happened, or was written"),
        ColumnSpec("coordinator_partition", INT, "the group's partition of `__consumer_offsets`"),
        ColumnSpec("state_from", STRING, "before the step"),
        ColumnSpec("state_to", STRING, "after it"),
        ColumnSpec("generation_from", INT, "before the step"),
        ColumnSpec("generation", INT, "after it; of a record its own, null for a tombstone"),
        ColumnSpec("size_before", INT, "members before the step"),
        ColumnSpec("size_after", INT, "members after it"),
        ColumnSpec("members_before", STRING, "JSON of those that the step shows: member, client_id"),
        ColumnSpec("members_after", STRING, "the same; of a record all, with instance, topics and assigned"),
        ColumnSpec("cause", STRING, "as in `events`"),
        ColumnSpec("cause_members", STRING, "JSON of that in `events`"),
        ColumnSpec("cause_changes", STRING, "JSON of that in `events`"),
        ColumnSpec("error", STRING, "as in `events`"),
        ColumnSpec("leader", STRING, "member id of the leader after the step"),
        ColumnSpec("protocol_type", STRING, "`consumer`, `connect` .."),
        ColumnSpec("state_ms", LONG, "of a record: when the group entered its state"),
        ColumnSpec(
            "what",
            STRING,
            "kind of a log line, or of a record of a KIP-848 group; `connection closed`; null for steps and classic groups' records",
        ),
        ColumnSpec("at", STRING, "of a log line: FILE:LINE"),
        ColumnSpec(
            "detail", STRING, "of a log line, or of a record of a consumer, share or streams group: its content"
        ),
        ColumnSpec(
            "progress",
            STRING,
            "of a record: JSON of what was committed since the group's record before: name (`orders-0`) and seen, which is first"
            " ms, last ms, commits, last offset, and the last ms of those outside of transactions (null: none)",
        ),
    ),
    "Input of the table `rebalances`: steps of the journal and records of the log. Order by run_id, group, of_log, journal and place.",
)
"""Columns with parts are JSON: after each row Spark 4.2 asks Arrow how large the batch has become, which for arrays goes through all
of its rows again (66,000 steps with arrays took 20 s, with JSON 2 s)."""

_MOMENTS = ("started", "closed", "ended")
_REBALANCE_ROWS = REBALANCES.only(name for name in REBALANCES.names if name not in _MOMENTS)
"""Schema of the rows that Python makes: Spark adds the timestamp columns."""
_ROWS = 2000
"""Rows that Spark is handed at once."""


@on_its_engine
def rebalances(events: DataFrame, offset_log: DataFrame | None = None, lines: DataFrame | None = None) -> DataFrame:
    """`REBALANCES` of the journal's events, of the log's group records of the generations that the journal doesn't have, and of what
    brokers' ``lines`` (LOG_LINES) add to them."""
    rows = _steps(events).unionByName(_epochs(events)).unionByName(closings(events))
    rows = rows.unionByName(_joins(events)).unionByName(_grown(events))
    if offset_log is not None:
        rows = rows.unionByName(_records(offset_log)).unionByName(modern_records(offset_log))
    if lines is not None:
        rows = rows.unionByName(_lines(lines))
    in_order = rows.repartition("run_id", "group").sortWithinPartitions("run_id", "group", "of_log", "journal", "place")
    result = in_order.mapInArrow(_batches, _REBALANCE_ROWS.schema_for(in_order))
    for name in _MOMENTS:
        result = result.withColumn(name, moments(name, result[f"{name}_ms"])[0])
    return REBALANCES.conform(result)


def _steps(events: DataFrame) -> DataFrame:
    """The journal's steps, as `REBALANCE_INPUT`."""
    needed = [name for name in REBALANCE_INPUT.names if name in EVENTS.names]
    steps = EVENTS.only(["type", "seq", *needed]).conform(events)
    return REBALANCE_INPUT.conform(
        steps.where((F.col("type") == "group") & F.col("group").isNotNull())
        .withColumn("members_before", _json("members_before", member="member"))
        .withColumn("members_after", _json("members_after", member="member", deferred="deferred"))
        .withColumn("cause_members", F.to_json("cause_members"))
        .withColumn("cause_changes", F.to_json("cause_changes"))
        .withColumn("of_log", F.lit(False))
        .withColumnRenamed("seq", "place")
    )


def _epochs(events: DataFrame) -> DataFrame:
    """The journal's steps of epoch-based groups, in the columns of `_steps`."""
    steps = EVENTS.only([*PER_JOURNAL, "type", "seq", "ts_ms", "group", "coordinator_partition", "detail"]).conform(
        events
    )
    return REBALANCE_INPUT.conform(
        steps.where((F.col("type") == "epochs") & F.col("group").isNotNull())
        .withColumn("of_log", F.lit(False))
        .withColumn("what", F.lit(EPOCHS))
        .withColumnRenamed("seq", "place")
    )


def _joins(events: DataFrame) -> DataFrame:
    """JoinGroups of members that have an id, with the partitions that they own, in the columns of `_steps`."""
    asked = EVENTS.only([*PER_JOURNAL, "type", "api", "seq", "ts_ms", "group", "member", "detail"]).conform(events)
    known = F.col("member").isNotNull() & F.col("detail").isNotNull() & F.col("group").isNotNull()
    return REBALANCE_INPUT.conform(
        asked.where((F.col("type") == "request") & (F.col("api") == "JoinGroup") & known)
        .withColumn("of_log", F.lit(False))
        .withColumn("what", F.lit(JOINS))
        .withColumnRenamed("member", "cause_members")
        .withColumnRenamed("seq", "place")
    )


def _grown(events: DataFrame) -> DataFrame:
    """Topics of which an answer to a Metadata shows more partitions than any before, for each group that reads them."""
    some = EVENTS.only([*PER_JOURNAL, "type", "api", "seq", "ts_ms", "group", "members_after", "partitions"]).conform(
        events
    )
    answers = some.where((F.col("type") == "response") & (F.col("api") == "Metadata") & F.col("partitions").isNotNull())
    partitions = answers.select(*PER_JOURNAL, "seq", "ts_ms", F.explode("partitions").alias("p"))
    sizes = partitions.groupBy(*PER_JOURNAL, "seq", "ts_ms", F.col("p.topic").alias("topic")).agg(
        F.count("*").alias("size")
    )
    earlier = Window.partitionBy("run_id", "topic").orderBy("journal", "seq").rowsBetween(Window.unboundedPreceding, -1)
    sizes = sizes.withColumn("before", F.max("size").over(earlier)).where(F.col("size") > F.col("before"))
    members = some.where((F.col("type") == "group") & F.col("members_after").isNotNull()).select(
        "run_id", "group", F.explode("members_after").alias("m")
    )
    read = members.select("run_id", "group", F.explode("m.topics").alias("topic")).distinct()
    return REBALANCE_INPUT.conform(
        sizes.join(read, ["run_id", "topic"]).select(
            *("run_id", "group", "journal", "ts_ms"),
            F.lit(False).alias("of_log"),
            F.col("seq").alias("place"),
            F.lit(GROWN).alias("what"),
            F.col("topic").alias("cause_members"),
            F.col("before").cast("int").alias("size_before"),
            F.col("size").cast("int").alias("size_after"),
        )
    )


@on_its_engine
def closings(events: DataFrame) -> DataFrame:
    """Closings of the connections over which members (``cause_members``) sent their last requests, as `REBALANCE_INPUT` in the place of
    the closing."""
    some = EVENTS.only([*PER_JOURNAL, "type", "seq", "ts_ms", "group", "member", "connection", "action"]).conform(
        events
    )
    asked = some.where((F.col("type") == "request") & F.col("group").isNotNull() & F.col("member").isNotNull())
    last = asked.groupBy(*PER_JOURNAL, "group", "member").agg(F.max_by("connection", "seq").alias("connection"))
    closed = some.where((F.col("type") == "connection") & (F.col("action") == "closed"))
    both = closed.select(*PER_JOURNAL, "connection", "seq", "ts_ms").join(last, [*PER_JOURNAL, "connection"])
    return REBALANCE_INPUT.conform(
        both.select(
            *("run_id", "group", "journal", "ts_ms"),
            F.lit(False).alias("of_log"),
            F.col("seq").alias("place"),
            F.lit(CLOSED).alias("what"),
            F.col("member").alias("cause_members"),
        )
    )


_LINES = (
    *("preparing", "closed", "assigned", "empty", "not rejoined", "left", "session timeout"),
    *("fenced", "modern left", "converted"),
)


def _lines(lines: DataFrame) -> DataFrame:
    """Lines of brokers about classic groups' rebalances, and of clients about a late poll (``detail``: the client's id), as
    `REBALANCE_INPUT`: before the records, in the order of their moments."""
    is_sign = F.when(F.col("source") == "broker", F.col("what").isin(*_LINES)).otherwise(
        F.col("what") == "poll timeout"
    )
    return REBALANCE_INPUT.conform(
        lines.where(is_sign & F.col("group").isNotNull() & F.col("ts_ms").isNotNull()).select(
            *("run_id", "group", "generation", "what", "ts_ms"),
            F.when(F.col("source") == "broker", F.col("detail")).otherwise(F.col("client_id")).alias("detail"),
            F.lit(True).alias("of_log"),
            F.lit(-1).alias("journal"),
            (F.col("ts_ms") * 1_000_000 + F.col("line") % 1_000_000).alias("place"),
            F.col("partition").alias("coordinator_partition"),
            F.col("number").alias("size_after"),
            F.col("member").alias("cause_members"),
            F.concat_ws(":", "file", "line").alias("at"),
        )
    )


def modern_records(log: DataFrame) -> DataFrame:
    """Records of KIP-848, share and streams groups that say who is in them and which epoch they have, as `REBALANCE_INPUT`."""
    records = OFFSET_LOG.only(
        [
            "run_id",
            "group",
            "log_offset",
            "log_partition",
            "record_ts_ms",
            "record_type",
            "generation",
            "member",
            "detail",
            "kind",
        ]
    ).conform(log)
    return REBALANCE_INPUT.conform(
        records.where(
            (F.col("kind") == "other") & F.col("group").isNotNull() & F.col("record_type").rlike(MODERN)
        ).select(
            *("run_id", "group", "generation", "detail"),
            F.lit(True).alias("of_log"),
            F.lit(0).alias("journal"),
            F.col("log_offset").alias("place"),
            F.col("record_ts_ms").alias("ts_ms"),
            F.col("log_partition").alias("coordinator_partition"),
            F.col("member").alias("cause_members"),
            F.col("record_type").alias("what"),
        )
    )


def _progress(log: DataFrame) -> DataFrame:
    """By run, log partition, group and number of the group's record: what was committed since the record before, as JSON."""
    so_far = Window.partitionBy("run_id", "log_partition", "group").orderBy("log_offset")
    is_record = F.col("kind").isin("group", "group_tombstone")
    rows = log.where((is_record | (F.col("kind") == "commit")) & F.col("group").isNotNull()).select(
        *(
            "run_id",
            "log_partition",
            "group",
            "log_offset",
            "kind",
            "record_ts_ms",
            "committed_offset",
            "records",
            "is_txn",
        ),
        F.concat_ws("-", "topic", F.col("partition").cast("string")).alias("name"),
        F.sum(is_record.cast("int")).over(so_far).alias("number"),
    )
    where = ["run_id", "log_partition", "group", "number"]
    committed = (
        rows.where(~is_record & F.col("record_ts_ms").isNotNull())
        .groupBy(*where, "name")
        .agg(
            F.min("record_ts_ms").alias("first"),
            F.max("record_ts_ms").alias("last"),
            F.sum("records").alias("times"),
            F.max_by("committed_offset", "log_offset").alias("offset"),
            F.max(F.when(~F.coalesce("is_txn", F.lit(False)), F.col("record_ts_ms"))).alias("plain"),
        )
    )
    entry = F.struct("name", F.array("first", "last", "times", "offset", "plain").alias("seen"))
    progress = committed.groupBy(*where).agg(F.to_json(F.collect_list(entry)).alias("progress"))
    records = rows.where(is_record).select(
        "run_id", "log_partition", "group", "log_offset", (F.col("number") - 1).alias("number")
    )
    return records.join(progress, where).drop("number")


_WEIGHTED = TableSchema(
    "weighted", (*OFFSET_LOG.columns, ColumnSpec("records", LONG, "how many records it represents"))
)


def _records(log: DataFrame) -> DataFrame:
    """The log's records of groups, as `REBALANCE_INPUT`."""
    log = _WEIGHTED.conform(log.withColumn("records", records(log)))
    key = ["run_id", "log_partition", "group", "log_offset"]
    return REBALANCE_INPUT.conform(
        log.where(F.col("kind").isin("group", "group_tombstone") & F.col("group").isNotNull())
        .join(_progress(log), key, "left")
        .select(
            "progress",
            "run_id",
            "group",
            F.lit(True).alias("of_log"),
            F.lit(0).alias("journal"),
            F.col("log_offset").alias("place"),
            F.col("record_ts_ms").alias("ts_ms"),
            F.col("log_partition").alias("coordinator_partition"),
            F.when(F.col("kind") == "group", F.col("generation")).alias("generation"),
            "protocol_type",
            _json(
                "members",
                member="member_id",
                instance="group_instance_id",
                topics="topics",
                assigned="assigned",
                session_ms="session_timeout_ms",
                rebalance_ms="rebalance_timeout_ms",
            ).alias("members_after"),
            F.col("state_ts_ms").alias("state_ms"),
        )
    )


def _json(members: str, **names: str) -> SparkColumn:
    """An array of members as JSON: their client ids, and of what they have besides what is named."""

    def each(fields_of: SparkColumn) -> SparkColumn:
        return F.struct(
            fields_of["client_id"].alias("client_id"),
            *(fields_of[theirs].alias(ours) for ours, theirs in names.items()),
        )

    return F.to_json(F.transform(F.col(members), each))


def _batches(batches: Iterable[Any]) -> Iterator[Any]:
    """On the workers: Arrow batches of `REBALANCE_INPUT`, in order, to those of `_REBALANCE_ROWS`."""
    import pyarrow

    schema = _REBALANCE_ROWS.arrow()
    rows = rebalances_of(row for batch in batches for row in batch.to_pylist())
    while some := list(islice(rows, _ROWS)):
        yield pyarrow.RecordBatch.from_pylist(some, schema)

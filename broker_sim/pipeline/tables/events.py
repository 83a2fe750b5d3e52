"""`events`: the journal as columns, one row for each line; and the views of it that the other tables are made of.

    events = spark.read.format("sim_journal").load("JOURNAL")
    calls(events)          requests with their answers
    by_partition(events)   a row for each partition of an event
    skipped(events)        lines that could not be read

Rules:
1. The order of events is (run_id, journal, seq), never the time: see `in_order`. Request numbers, connections and
   rules are unique within (run_id, journal).
2. An event with exactly one partition has it in topic, partition and offset; all its partitions are in `partitions`. `by_partition`
   explodes these, and resolves the names of topics that a client named by their ids.
3. `cause` and `cause_members` are the cause of a step of the coordinator, as `broker_sim.explain` has it.
4. Times are those of the broker's clock: virtual ones in a simulation and under a manual clock, else wall clock. No other time is
   stored in a journal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.pipeline.engine import functions as F
from broker_sim.pipeline.engine import on_its_engine
from broker_sim.pipeline.schemas import (
    INT,
    LONG,
    RUN_ID,
    SKIPPED,
    STRING,
    ArrayOf,
    ColumnSpec,
    StructOf,
    TableSchema,
    moment,
)
from broker_sim.pipeline.tables.columns import word
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

__all__ = [
    "EVENTS",
    "MEMBER",
    "PARTITION",
    "PER_JOURNAL",
    "by_partition",
    "calls",
    "error_name",
    "in_order",
    "skipped",
]

_LINE, _REQUEST, _GROUP, _APPEND = "line", "request", "group", "append"
_GROUPS = "group, epochs"
_BODY = "request, response: body"

PARTITION = StructOf(
    (
        ColumnSpec("group", STRING, "group id, where one request names several groups", _BODY),
        ColumnSpec("topic", STRING, "topic; null if the client sent only its id", _BODY),
        ColumnSpec("topic_id", STRING, "its id, as Kafka prints it; null if the client sent the name", _BODY),
        ColumnSpec("partition", INT, "partition", _BODY),
        ColumnSpec(
            "offset",
            LONG,
            "committed (OffsetCommit, OffsetFetch, `offsets`; null where deleted), asked for (Fetch, DeleteRecords), found"
            " (ListOffsets; of its request the timestamp, -1 for the log's end), written to (Produce's answer)",
            _BODY,
        ),
        ColumnSpec("leader_epoch", INT, "of the committed offset, else that the client knows", _BODY),
        ColumnSpec("high_watermark", LONG, "from responses to Fetch", _BODY),
        ColumnSpec("records", LONG, "how many records were sent (Produce) or handed out (Fetch's answer)", _BODY),
        ColumnSpec("error_code", INT, "of this partition, in answers", _BODY),
        ColumnSpec("log_start", LONG, "where the log begins, from responses to Fetch and DeleteRecords", _BODY),
    )
)

MEMBER = StructOf(
    (
        ColumnSpec("member", STRING, "member id", _GROUP),
        ColumnSpec("client_id", STRING, "as the client sent it", _GROUP),
        ColumnSpec("client_host", STRING, "as Kafka shows it: `/127.0.0.1`", _GROUP),
        ColumnSpec("instance", STRING, "group.instance.id, null for a dynamic member", _GROUP),
        ColumnSpec("deferred", STRING, "`JoinGroup` or `SyncGroup` if that request is deferred", _GROUP),
        ColumnSpec("session_timeout_ms", LONG, "session timeout, ms", _GROUP),
        ColumnSpec("rebalance_timeout_ms", LONG, "rebalance timeout, ms", _GROUP),
        ColumnSpec("topics", ArrayOf(STRING), "subscribed topics, null if the subscription can't be parsed", _GROUP),
        ColumnSpec("assignment", ArrayOf(STRING), "its partitions (`orders-0`), null without one", _GROUP),
    )
)

EVENTS = TableSchema(
    "events",
    (
        RUN_ID,
        ColumnSpec(
            "journal",
            INT,
            "which journal of the run: a process that writes into an earlier one's directory begins a new one, in which seq, requests"
            " and connections count from 1 again. The number of its first file; never null",
            "file name",
        ),
        ColumnSpec(
            "seq", LONG, "number of the event in its journal, without a gap; null for skipped lines alone", _LINE
        ),
        *moment("ts", "the broker's clock", _LINE),
        ColumnSpec(
            "type", STRING, "kind of event (docs/journal.md), or `skipped`: the line can't be read; never null", _LINE
        ),
        ColumnSpec(
            "broker",
            INT,
            "node id: of the request's broker (request), the stopped broker (broker), the leader (leader; -1 for none)",
            _LINE,
        ),
        ColumnSpec("connection", LONG, "number of the connection", "connection, request"),
        ColumnSpec(
            "client_id",
            STRING,
            "as the client sent it; of `client` events the scenario's name for it",
            "request, client",
        ),
        ColumnSpec("client_host", STRING, "as Kafka shows it", "request, connection"),
        ColumnSpec("request", LONG, "number of the request that it is, answers, hit or follows from", _LINE),
        ColumnSpec("requests", ArrayOf(LONG), "the requests whose records were appended", _APPEND),
        ColumnSpec(
            "api", STRING, "Kafka's name of the API; of a `group` event that of its cause", "request, response, group"
        ),
        ColumnSpec("api_key", INT, "its key", "request, response, group"),
        ColumnSpec("api_version", INT, "version of the request", _REQUEST),
        ColumnSpec("group", STRING, "group id, where there is exactly one", _LINE),
        ColumnSpec("groups", ArrayOf(STRING), "group ids, of events that may have several", "append, committed"),
        ColumnSpec(
            "member",
            STRING,
            "member id: of the request, of the answer (JoinGroup), of the timer, of the cause of a `group` event",
            _LINE,
        ),
        ColumnSpec("instance", STRING, "group.instance.id of the request", _REQUEST),
        ColumnSpec("transactional_id", STRING, "transactional id, where there is exactly one", _LINE),
        ColumnSpec("producer_epoch", INT, "of a request with one transactional id", _BODY),
        ColumnSpec(
            "generation",
            INT,
            "of the request, of the answer (JoinGroup), of the group after the step; of `epochs` its epoch",
            _LINE,
        ),
        ColumnSpec("topic", STRING, "if the event is about one partition", _LINE),
        ColumnSpec("partition", INT, "if the event is about one partition", _LINE),
        ColumnSpec("offset", LONG, "if the event is about one partition", _LINE),
        ColumnSpec(
            "partitions", ArrayOf(PARTITION), "all partitions of the event, in its order; null without one", _LINE
        ),
        ColumnSpec(
            "named_topics",
            ArrayOf(
                StructOf((ColumnSpec("topic", STRING, "topic", _BODY), ColumnSpec("topic_id", STRING, "its id", _BODY)))
            ),
            "names and ids of topics that occur for the first time in this piece of the file; else null",
            _BODY,
        ),
        ColumnSpec("error", STRING, "name of the first error that isn't NONE", "response, append, load"),
        ColumnSpec("error_code", INT, "its code; 0 for an answer without an error", "response, append, load"),
        ColumnSpec(
            "errors",
            ArrayOf(STRING),
            "of a response with an error: the names of all its errors, each once; `partitions` has those of its partitions",
            "response: body",
        ),
        ColumnSpec("took_ms", LONG, "from request to answer", "response"),
        ColumnSpec(
            "action",
            STRING,
            "opened, closed, set, healed, down, started ..; of `data_loss` tail or head; of `delivery` acquired, released, ..;"
            " of an answer what became of it where it did"
            " not go out whole",
            _LINE,
        ),
        ColumnSpec("log", STRING, "partition, by the name of its directory: `__consumer_offsets-12`", _LINE),
        ColumnSpec("coordinator_partition", INT, "12, where log is one of `__consumer_offsets`", _LINE),
        ColumnSpec("state_from", STRING, "state of the group before the step; null if it did not exist", _GROUP),
        ColumnSpec(
            "state_to", STRING, "state of the group after the step; null if it was deleted, `Dead` in `epochs`", _GROUPS
        ),
        ColumnSpec("generation_from", INT, "generation before the step", _GROUP),
        ColumnSpec("leader", STRING, "member id of the leader after the step", _GROUP),
        ColumnSpec(
            "protocol_type",
            STRING,
            "`consumer`, `connect` ..; null where the group has none; of `epochs` `consumer`, `share` or `streams`,"
            " null without members",
            _GROUPS,
        ),
        ColumnSpec("protocol", STRING, "the selected assignor", _GROUPS),
        ColumnSpec("size_before", INT, "members before the step; null if the group did not exist", _GROUP),
        ColumnSpec("size_after", INT, "members after the step; null if the group was deleted", _GROUPS),
        ColumnSpec(
            "members_before",
            ArrayOf(MEMBER),
            "them; of groups of more than 64 those that the step changed or removed",
            _GROUP,
        ),
        ColumnSpec(
            "members_after",
            ArrayOf(MEMBER),
            "them; of groups of more than 64 those that the step changed or added",
            _GROUP,
        ),
        ColumnSpec(
            "cause",
            STRING,
            "why the step happened: `first_member`, `joined`, `left`, `session_expired`, `metadata_changed`, `leader_rejoined`,"
            " `rejoined`, `replaced`, `sync_timeout`, `append_failed`, `appended`, `rebalance_timer`, `pending_expired`,"
            " `max_size_reached`, `loaded`, `over_capacity` (loaded with more than group.max.size members), `unloaded`,"
            " `deleted`, `converted` (to the consumer protocol, or back), `unknown`; of `epochs` `loaded`, `unloaded`, and of timers"
            " `session_expired`, `revocation_timeout`",
            _GROUPS,
        ),
        ColumnSpec("cause_members", ArrayOf(STRING), "member ids that were added, removed, or caused the step", _GROUP),
        ColumnSpec("timer", STRING, "kind of timer, as in the event `timer` of the journal", "timer, group, epochs"),
        ColumnSpec("fault", LONG, "number of the rule", "fault, fault_added, fault_removed"),
        ColumnSpec("condition", STRING, "state of a log partition: `stuck`, `loading` ..", "state"),
        ColumnSpec("kinds", ArrayOf(STRING), "kinds of the appended records: offsets, group, tombstone", _APPEND),
        ColumnSpec("records", LONG, "how many were appended, or read by a load", "append, load"),
        ColumnSpec(
            "base_offset", LONG, "of the first record; -1 where nothing was written", "append, data_loss, delivery"
        ),
        ColumnSpec(
            "last_offset", LONG, "of the last record; -1 where nothing was written", "append, data_loss, delivery"
        ),
        ColumnSpec("high_watermark", LONG, "of the partition after it", "append, committed"),
        ColumnSpec("epoch", INT, "leader epoch", "leader"),
        ColumnSpec("reports", STRING, "what a scenario's client reported: read, committed, assigned ..", "client"),
        ColumnSpec(
            "text",
            STRING,
            "a mark, a client's words, a rule, why a leader changed, why a connection was refused, or closed by the broker; the"
            " client's own reason for a join or leave; why a line was skipped",
            _LINE,
        ),
        ColumnSpec(
            "cause_changes",
            ArrayOf(STRING),
            "of a member that joins again what of its metadata is new: `web-1: subscribed to payments`; null where the step shows none",
            _GROUP,
        ),
        ColumnSpec(
            "detail",
            STRING,
            "of `epochs` the whole line: what each member holds; of a JoinGroup JSON of the partitions that its member owns",
            "epochs, request",
        ),
        ColumnSpec(
            "unknown",
            ArrayOf(STRING),
            "kind or fields unknown to this version (written by a newer one); else null",
            _LINE,
        ),
        ColumnSpec("file", STRING, "the file that the line is in", "file"),
        ColumnSpec("position", LONG, "byte at which the line begins", "file"),
        ColumnSpec("bytes", LONG, "of a skipped line: how many bytes it has", "file"),
        ColumnSpec(
            "body", STRING, "the whole line, including everything without a column; null with option body=false", "file"
        ),
    ),
    "One row for each event of a journal. Which columns are filled depends on `type`. Order by run_id, journal and seq.",
)

PER_JOURNAL = ("run_id", "journal")
"""Within these request numbers are unique."""


def in_order(*more: str) -> list[str]:
    """The columns that put events of one run (and of one value of ``more``) in order."""
    return [*more, "journal", "seq"]


@on_its_engine
def skipped(events: DataFrame) -> DataFrame:
    """The lines that could not be read, as `SKIPPED`: file, byte, reason."""
    return SKIPPED.conform(
        events.where(F.col("type") == "skipped").select(
            "run_id", "file", "position", "bytes", F.col("text").alias("reason")
        )
    )


@on_its_engine
def calls(events: DataFrame, *apis: str) -> DataFrame:
    """One row for each request (of ``apis``, or all) with its answer: the request's columns, and ``answered_seq``, ``answered_ms``,
    ``error``, ``errors``, ``error_code``, ``took_ms``, ``action``, ``answer`` (the answer's partitions), ``answer_member``,
    ``answer_generation``; all null where it was not answered."""
    wanted = F.col("api").isin(list(apis)) if apis else F.lit(True)
    of_answer = ["error", "errors", "error_code", "took_ms", "action"]
    requests = events.where((F.col("type") == "request") & wanted).drop(*of_answer)
    answers = events.where((F.col("type") == "response") & wanted).select(
        *PER_JOURNAL,
        "request",
        *of_answer,
        F.col("seq").alias("answered_seq"),
        F.col("ts_ms").alias("answered_ms"),
        F.col("partitions").alias("answer"),
        F.col("member").alias("answer_member"),
        F.col("generation").alias("answer_generation"),
    )
    return requests.join(answers, [*PER_JOURNAL, "request"], "left")


@on_its_engine
def by_partition(events: DataFrame, names: DataFrame | None = None) -> DataFrame:
    """One row for each partition that an event speaks of: the event's columns without ``partitions``, with topic, topic_id, partition,
    offset, leader_epoch, high_watermark, records, log_start and partition_error_code of it. ``names`` (default: ``events``): where
    topic names are looked up of events that have ids alone."""
    parts = events.where(F.col("partitions").isNotNull()).withColumn("p", F.explode("partitions"))
    own = [name for name in events.columns if name not in _OF_PARTITION]
    rows = parts.select(
        *(F.col(name) for name in own if name != "group"),
        F.coalesce(F.col("p.group"), F.col("group")).alias("group"),
        F.col("p.topic").alias("topic"),
        F.col("p.topic_id").alias("topic_id"),
        F.col("p.partition").alias("partition"),
        F.col("p.offset").alias("offset"),
        F.col("p.leader_epoch").alias("leader_epoch"),
        F.col("p.high_watermark").alias("high_watermark"),
        F.col("p.records").alias("records"),
        F.col("p.error_code").alias("partition_error_code"),
        F.col("p.log_start").alias("log_start"),
    )
    known = _topic_names(events if names is None else names)
    return (
        rows.join(F.broadcast(known), ["run_id", "topic_id"], "left")
        .withColumn("topic", F.coalesce(F.col("topic"), F.col("named")))
        .drop("named")
    )


def error_name(code: SparkColumn) -> SparkColumn:
    """The name of an error's code; null for 0 and for a code that is not known."""
    return word(_ERRORS, code)


_ERRORS = {int(error): error.name for error in Err if int(error)}
_OF_PARTITION = {"partitions", "topic", "partition", "offset", "high_watermark", "records"}


def _topic_names(events: DataFrame) -> DataFrame:
    """Topic names by id, from Metadata: run_id, topic_id, named."""
    topics = events.where(F.col("named_topics").isNotNull()).select("run_id", F.explode("named_topics").alias("t"))
    return topics.groupBy("run_id", F.col("t.topic_id").alias("topic_id")).agg(F.max("t.topic").alias("named"))

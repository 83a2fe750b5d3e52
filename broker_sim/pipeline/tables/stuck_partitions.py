"""`stuck_partitions`: partitions in which no append was committed although clients tried, from the attempts alone.

Rules:
1. A fault's own event is not read: the evidence exists on a real cluster, too. A partition without an attempt is not stuck.
   One exception: a Produce whose response a rule on requests delays or drops waits for the rule, and not for the partition.
2. A success is an append that is committed, at once or later, and a Produce response without an error. An attempt without success is an
   append that the log refuses or that waits to be committed, a Produce that is refused or waits, and a response with which the
   coordinator is not available (`UNAVAILABLE`).
3. A period lasts from the first attempt without success to the next success; last_success, before it, is the earliest time at
   which it may have begun. Without any attempt to write, if clients only got COORDINATOR errors (evidence `answers`), any other
   answer of the coordinator but that to a Heartbeat ends it; if they only looked for the coordinator, a FindCoordinator that finds
   one does, too. A client that looks for the coordinator of a partition that was not there before meets no incident: Kafka creates
   the internal topic at the first FindCoordinator, which it refuses.
4. Lines of brokers and clients (`broker log`, `client log`), groups of a partition that slow down together (`rhythm`), and one that
   repeats a commit (`repeated`) are read by `pipeline.log_stuck`.
5. From a log alone (evidence `silence`) no attempts are known: that a partition, busy before and after, got no records for long while
   others did, without a missing record in between, is only a hint. A log with a stuck high watermark shows nothing. A period that a
   tombstone or a group's record ends or begins does not count: no client had anything to commit, or the group had no members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.pipeline.engine import Window, on_its_engine
from broker_sim.pipeline.engine import functions as F
from broker_sim.pipeline.schemas import INT, LONG, OFFSET_LOG, RUN_ID, STRING, ArrayOf, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.columns import moments
from broker_sim.pipeline.tables.condensed import SILENCE_MS, Condensed, condensed
from broker_sim.pipeline.tables.events import EVENTS, PER_JOURNAL, by_partition, error_name
from broker_sim.pipeline.tables.log_lines import LOG_LINES
from broker_sim.pipeline.tables.silences import silences
from broker_sim.pipeline.tables.stuck_in_logs import stuck_in_logs
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

__all__ = ["APIS", "ASKING", "STUCK_PARTITIONS", "UNAVAILABLE", "coordinators", "stuck_partitions"]

UNAVAILABLE = (
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR",
    "REQUEST_TIMED_OUT",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE",
    "KAFKA_STORAGE_ERROR",
    "INVALID_COMMIT_OFFSET_SIZE",
    "UNKNOWN_SERVER_ERROR",
)
"""Errors for a group whose log, or coordinator, is not available."""

_OF_THE_REQUEST = [
    int(error)
    for error in (
        *(Err.INVALID_PRODUCER_EPOCH, Err.PRODUCER_FENCED, Err.INVALID_PRODUCER_ID_MAPPING, Err.UNKNOWN_PRODUCER_ID),
        *(Err.OUT_OF_ORDER_SEQUENCE_NUMBER, Err.DUPLICATE_SEQUENCE_NUMBER, Err.INVALID_TXN_STATE),
        *(Err.CONCURRENT_TRANSACTIONS, Err.TRANSACTION_ABORTABLE, Err.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        *(Err.TOPIC_AUTHORIZATION_FAILED, Err.CLUSTER_AUTHORIZATION_FAILED),
        *(
            Err.MESSAGE_TOO_LARGE,
            Err.RECORD_LIST_TOO_LARGE,
            Err.CORRUPT_MESSAGE,
            Err.INVALID_RECORD,
            Err.INVALID_TIMESTAMP,
        ),
        *(Err.UNSUPPORTED_COMPRESSION_TYPE, Err.UNSUPPORTED_FOR_MESSAGE_FORMAT, Err.INVALID_REQUIRED_ACKS),
    )
]
"""Errors of a Produce that say nothing of the partition: its producer or its records were refused."""

APIS = (
    "JoinGroup",
    "SyncGroup",
    "LeaveGroup",
    "OffsetCommit",
    "TxnOffsetCommit",
    "OffsetFetch",
    "OffsetDelete",
    "DeleteGroups",
)
"""APIs whose responses depend on a group's log."""

ASKING = (*APIS, "Heartbeat", "FindCoordinator")
"""APIs whose responses show only that there is a coordinator."""

HOMES = ("group", "epochs", "offsets")
"""Types of events that show in which offsets partition a group lives."""

COMMITS = ("OffsetCommit", "TxnOffsetCommit")

EXISTS = (*HOMES, "append", "committed", "load")
"""Types of events that show that a partition of `__consumer_offsets` is there."""

_NEEDED = (
    *(
        "run_id",
        "journal",
        "seq",
        "ts_ms",
        "type",
        "api",
        "request",
        "group",
        "groups",
        "error",
        "errors",
        "took_ms",
        "action",
        "log",
    ),
    *("partitions", "named_topics", "last_offset", "high_watermark"),
)
"""Columns of the events that are looked at: plans of all of them take their time."""

_BOTH = "both"

STUCK_PARTITIONS = TableSchema(
    "stuck_partitions",
    (
        RUN_ID,
        ColumnSpec(
            "log", STRING, "the partition, by the name of its directory: `__consumer_offsets-12`; never null", _BOTH
        ),
        ColumnSpec("log_partition", INT, "12, where it is one of `__consumer_offsets`; else null", _BOTH),
        *moment(
            "from", "the first attempt that had no success; from the log the last record before; never null", _BOTH
        ),
        *moment("to", "the next success; null if it is still stuck", _BOTH),
        *moment("last_success", "the last success before; null if there was no success", _BOTH),
        ColumnSpec("stuck_ms", LONG, "to - from; to the run's last event where it is still stuck", _BOTH),
        ColumnSpec("silence_ms", LONG, "to - last_success; null if there was no success before", _BOTH),
        ColumnSpec("attempts", LONG, "failed attempts; null if unknown", "journal"),
        ColumnSpec("commits", LONG, "refused OffsetCommits and TxnOffsetCommits among them", "journal"),
        ColumnSpec("waiting", LONG, "those that were appended and not committed, or got no response", "journal"),
        ColumnSpec("errors", ArrayOf(STRING), "the errors, each once, sorted", "journal"),
        ColumnSpec(
            "groups",
            ArrayOf(STRING),
            "groups of the attempts, sorted; null if unknown",
            "journal",
        ),
        ColumnSpec(
            "others", LONG, "records that other partitions took meanwhile; evidence `silence` alone has it", "log"
        ),
        ColumnSpec(
            "evidence",
            STRING,
            "`appends`, `produce`, `answers` (journal), `broker log`, `client log`, `together` (groups that stopped with those of"
            " another partition that has lines), `rhythm` (groups that slowed down together), `repeated` (the only group"
            " of it repeated a commit after a timeout, and had read on) or `silence`: see the rules; never null",
            _BOTH,
        ),
        ColumnSpec("certainty", STRING, "`certain`, `likely` or `possible`; never null", _BOTH),
        ColumnSpec(
            "evidence_lines",
            ArrayOf(STRING),
            "log lines about it, FILE:LINE, of a client FILE:LINE (GROUP); null from a journal",
            "log lines",
        ),
        ColumnSpec(
            "evidence_offsets", ArrayOf(LONG), "records of the partition that show it; null from a journal", "log"
        ),
    ),
    "One row for each period in which every append to a partition failed or was not committed.",
)


@on_its_engine
def stuck_partitions(
    events: DataFrame,
    offset_log: DataFrame | None = None,
    lines: DataFrame | None = None,
    short: Condensed | None = None,
    *,
    least_ms: int = 1000,
    least_silence_ms: int = SILENCE_MS,
) -> DataFrame:
    """`STUCK_PARTITIONS`. ``lines``: LOG_LINES of brokers and clients; ``short``: `condensed` of the log, if it was made already;
    ``least_ms``: shorter periods are left out; ``least_silence_ms``: nor shorter silences of a log that has no journal."""
    events = EVENTS.only(_NEEDED).conform(events)
    log = None if offset_log is None else OFFSET_LOG.conform(offset_log)
    logs = coordinators(events, log)
    writes, failures, produce = _appends(events), _not_produced(events, least_ms), _produced(events, least_ms)
    refusals = _refusals(events).join(F.broadcast(logs), ["run_id", "group"])
    suspects = writes.where("bad").select("run_id", "log").union(refusals.select("run_id", "log"))
    suspects = F.broadcast(suspects.union(failures.select("run_id", "log")).distinct())
    signs = writes.unionByName(produce).join(suspects, ["run_id", "log"], "left_semi").unionByName(failures)
    answers = _of_existing(_refused(refusals), events).unionByName(_available(events, refusals))
    periods = _periods(signs.unionByName(answers), events, least_ms)
    if log is None:
        return periods
    without = events.select("run_id").distinct()
    short = condensed(log, 1 << 40, silence_ms=least_silence_ms) if short is None else short
    # a journal knows better
    log, partitions, groups = (
        frame.join(without, "run_id", "left_anti") for frame in (log, short.partitions, short.groups)
    )
    quiet = _silences(log, partitions, least_silence_ms)
    return periods.unionByName(quiet).unionByName(_of_logs(log, lines, groups))


def _of_logs(log: DataFrame, lines: DataFrame | None, groups: DataFrame) -> DataFrame:
    """Periods from logs alone, see `stuck_in_logs`."""
    periods = stuck_in_logs(log, LOG_LINES.none_like(log) if lines is None else lines, groups)
    until = F.coalesce("to_ms", "last_ms")
    return STUCK_PARTITIONS.conform(
        periods.select(
            *("run_id", "log", "log_partition", "attempts", "errors", "groups", "evidence", "certainty"),
            *moments("from", F.col("from_ms")),
            *moments("to", F.col("to_ms")),
            (until - F.col("from_ms")).alias("stuck_ms"),
            *("evidence_lines", "evidence_offsets"),
        )
    )


@on_its_engine
def coordinators(events: DataFrame, offset_log: DataFrame | None = None) -> DataFrame:
    """run_id, group, log: the `__consumer_offsets` partition of each group, as the coordinator's own events, or records, show it."""
    assigned = events.where(F.col("type").isin(*HOMES) & F.col("group").isNotNull() & F.col("log").isNotNull())
    partitions = assigned.groupBy("run_id", "group").agg(F.max("log").alias("log"))
    if offset_log is None:
        return partitions
    logged = (
        offset_log.where(F.col("group").isNotNull())
        .groupBy("run_id", "group")
        .agg(F.concat(F.lit("__consumer_offsets-"), F.max("log_partition").cast("string")).alias("logged"))
    )
    both = partitions.join(logged, ["run_id", "group"], "full")
    return both.select("run_id", "group", F.coalesce("log", "logged").alias("log"))


# ------------------------------------------------------------------------------------------------ signs
#
# A sign: run_id, log, journal, seq, ts_ms (when it was logged), since_ms (when the attempt was made), ok, bad, waits, error, groups,
# evidence, commit (of an OffsetCommit or TxnOffsetCommit), lookup (of an API that only looks for the coordinator).


def _sign(evidence: str, **columns: SparkColumn) -> list[SparkColumn]:
    values = {"evidence": F.lit(evidence), "commit": F.lit(False), "lookup": F.lit(False), **columns}
    return [F.col("run_id"), F.col("journal"), *(value.alias(name) for name, value in values.items())]


def _appends(events: DataFrame) -> DataFrame:
    taken = F.col("error").isNull() & (F.col("high_watermark") > F.col("last_offset"))
    ok = F.coalesce((F.col("type") == "committed") | taken, F.lit(False))
    return events.where(F.col("type").isin("append", "committed") & F.col("log").isNotNull()).select(
        *_sign(
            "appends",
            log=F.col("log"),
            seq=F.col("seq"),
            ts_ms=F.col("ts_ms"),
            since_ms=F.col("ts_ms"),
            ok=ok,
            bad=~ok,
            waits=~ok & F.col("error").isNull(),
            error=F.col("error"),
            groups=F.col("groups"),
        )
    )


def _refusals(events: DataFrame) -> DataFrame:
    """The responses with an error of UNAVAILABLE for a group: run_id, group, journal, seq, ts_ms, took_ms,
    error."""
    responses = events.where((F.col("type") == "response") & F.col("error").isNotNull() & F.col("api").isin(*ASKING))
    responses = responses.where(F.col("action").isNull()).withColumn("error", _unavailable())
    responses = responses.where(F.col("error").isNotNull()).select(
        *PER_JOURNAL, "request", "seq", "ts_ms", "error", "took_ms", "api"
    )
    return _asked(events).join(F.broadcast(responses), [*PER_JOURNAL, "request"])


def _unavailable() -> SparkColumn:
    """The first error of a response that is in UNAVAILABLE: it may have others, for other partitions."""
    return F.get(F.filter("errors", lambda name: name.isin(*UNAVAILABLE)), F.lit(0))


def _asked(events: DataFrame) -> DataFrame:
    asked = events.where((F.col("type") == "request") & F.col("api").isin(*ASKING) & F.col("group").isNotNull())
    return asked.select(*PER_JOURNAL, "request", "group")


def _refused(refusals: DataFrame) -> DataFrame:
    return refusals.select(
        *_sign(
            "answers",
            log=F.col("log"),
            seq=F.col("seq"),
            ts_ms=F.col("ts_ms"),
            since_ms=F.col("ts_ms") - F.coalesce("took_ms", F.lit(0)),
            ok=F.lit(False),
            bad=F.lit(True),
            waits=F.lit(False),
            error=F.col("error"),
            groups=F.array("group"),
            commit=F.col("api").isin(*COMMITS),
            lookup=~F.col("api").isin(*APIS),
        )
    )


def _of_existing(refused: DataFrame, events: DataFrame) -> DataFrame:
    """Without the attempts of clients that looked for the coordinator of a partition before the journal shows that it exists."""
    there = events.where(F.col("type").isin(*EXISTS) & F.col("log").isNotNull())
    there = there.groupBy("run_id", "log").agg(F.min(F.struct("journal", "seq")).alias("first"))
    first = F.col("first")
    later = (F.col("journal") > first["journal"]) | (
        (F.col("journal") == first["journal"]) & (F.col("seq") > first["seq"])
    )
    signs = refused.join(F.broadcast(there), ["run_id", "log"], "left")
    return signs.where(~F.col("lookup") | F.coalesce(later, F.lit(False))).drop("first")


def _available(events: DataFrame, refusals: DataFrame) -> DataFrame:
    """The other answers to groups of which some are refusals."""
    groups = refusals.select("run_id", "group", "log").distinct()
    there = F.col("api").isin(*APIS, "FindCoordinator") & F.col("action").isNull()
    responses = events.where((F.col("type") == "response") & there)
    responses = responses.where(_unavailable().isNull())
    asked = _asked(events).join(F.broadcast(groups), ["run_id", "group"])
    both = responses.select(*PER_JOURNAL, "request", "seq", "ts_ms", "api").join(asked, [*PER_JOURNAL, "request"])
    return both.select(
        *_sign(
            "answers",
            log=F.col("log"),
            seq=F.col("seq"),
            ts_ms=F.col("ts_ms"),
            since_ms=F.col("ts_ms"),
            ok=F.lit(True),
            bad=F.lit(False),
            waits=F.lit(False),
            error=F.lit(None).cast("string"),
            groups=F.array("group"),
            lookup=~F.col("api").isin(*APIS),
        )
    )


def _not_produced(events: DataFrame, least_ms: int) -> DataFrame:
    """Produces that were refused; and those that wait, or waited long, as attempts at the time when they came."""
    keys = [*PER_JOURNAL, "request"]
    produce = events.where(F.col("api") == "Produce")
    asked, responses = produce.where(F.col("type") == "request"), produce.where(F.col("type") == "response")
    late = responses.where(
        (F.col("took_ms") >= least_ms) & F.exists("partitions", lambda partition: partition["error_code"] == 0)
    )
    unanswered = asked.select(*keys).join(responses.select(*keys), keys, "left_anti")
    waiting = asked.join(F.broadcast(unanswered.union(late.select(*keys))), keys, "left_semi")
    by_rule = events.where((F.col("type") == "fault") & F.col("request").isNotNull())
    waiting = waiting.join(F.broadcast(by_rule.select(*keys).distinct()), keys, "left_anti")
    refused = by_partition(responses.where(F.col("error").isNotNull()), events).where(
        (F.col("partition_error_code") != 0) & ~F.col("partition_error_code").isin(*_OF_THE_REQUEST)
    )
    return _of_produce(by_partition(waiting, events).unionByName(refused), least_ms)


def _produced(events: DataFrame, least_ms: int) -> DataFrame:
    """Produce requests whose records were appended."""
    responses = events.where((F.col("type") == "response") & (F.col("api") == "Produce"))
    return _of_produce(by_partition(responses, events).where(F.col("partition_error_code") == 0), least_ms)


def _of_produce(rows: DataFrame, least_ms: int) -> DataFrame:
    asked = F.col("type") == "request"
    refused = ~asked & (F.col("partition_error_code") != 0)
    return rows.where(F.col("topic").isNotNull()).select(
        *_sign(
            "produce",
            log=F.concat_ws("-", "topic", F.col("partition").cast("string")),
            seq=F.col("seq"),
            ts_ms=F.col("ts_ms"),
            since_ms=F.col("ts_ms") - F.coalesce("took_ms", F.lit(0)),
            ok=~asked & ~refused,
            bad=asked | refused,
            waits=asked | (refused & (F.col("took_ms") >= least_ms)),
            error=F.when(refused, error_name(F.col("partition_error_code"))),
            groups=F.array().cast("array<string>"),
        )
    )


# ------------------------------------------------------------------------------------------------ periods


def _periods(signs: DataFrame, events: DataFrame, least_ms: int) -> DataFrame:
    """STUCK_PARTITIONS of the signs: periods between successes, of ``least_ms`` or more. Window functions number the periods before one
    aggregation, since a join of each failure with the next success would be quadratic in a partition that is stuck for long."""
    ordered = Window.partitionBy("run_id", "log").orderBy("journal", "seq")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    hard = F.col("evidence") != "answers"

    def last(what: SparkColumn) -> SparkColumn:
        return F.coalesce(F.max(F.when(what, F.col("place"))).over(before), F.lit(0))

    # a refused or waiting write is open until the next success of a write: answers don't end it; nor does a coordinator that is found
    # end what requests to it began
    signs = signs.withColumn("place", F.row_number().over(ordered))
    signs = signs.withColumn("jammed", last(hard & F.col("bad")) > last(hard & F.col("ok")))
    firm = ~F.col("lookup")
    signs = signs.withColumn("refused", last(firm & F.col("bad")) > last(firm & F.col("ok")))
    signs = signs.withColumn("closes", F.col("ok") & (hard | (~F.col("jammed") & (firm | ~F.col("refused")))))
    signs = signs.withColumn("period", F.coalesce(F.sum(F.col("closes").cast("int")).over(before), F.lit(0)))
    # who finds a coordinator that loads has had no success of it yet
    signs = signs.withColumn("last_ms", F.max(F.when(F.col("closes") & firm, F.col("ts_ms"))).over(before))
    signs = signs.withColumn("written_ms", F.max(F.when(hard & F.col("ok"), F.col("ts_ms"))).over(before))
    signs = signs.withColumn("open", last(F.col("bad")) > last(F.col("closes")))
    bad = F.col("bad")
    few = signs.where(bad | (F.col("closes") & F.col("open")))  # most successes end nothing
    periods = few.groupBy("run_id", "log", "period").agg(
        F.min(F.when(bad, F.greatest("since_ms", F.coalesce("last_ms", "since_ms")))).alias("from_ms"),
        F.min(F.when(F.col("closes"), F.col("ts_ms"))).alias("to_ms"),
        F.min("last_ms").alias("last_ms"),
        F.min("written_ms").alias("written_ms"),
        F.sum(F.when(bad, 1).otherwise(0)).alias("attempts"),
        F.sum(F.when(bad & F.col("commit"), 1).otherwise(0)).alias("commits"),
        F.sum(F.when(bad & F.col("waits"), 1).otherwise(0)).alias("waiting"),
        F.array_sort(F.collect_set("error")).alias("errors"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_set(F.when(bad, F.col("groups")))))).alias("groups"),
        F.max(F.when(bad & hard, F.col("evidence"))).alias("hard"),
    )
    ends = events.groupBy("run_id").agg(F.max("ts_ms").alias("end_ms"))
    periods = periods.join(F.broadcast(ends), "run_id")
    until = F.coalesce("to_ms", "end_ms")
    last_success = F.when(F.col("hard").isNotNull(), F.col("written_ms")).otherwise(F.col("last_ms"))
    return STUCK_PARTITIONS.conform(
        periods.where(until - F.col("from_ms") >= least_ms).select(
            "run_id",
            "log",
            F.regexp_extract("log", r"^__consumer_offsets-(\d+)$", 1).try_cast("int").alias("log_partition"),
            *moments("from", F.col("from_ms")),
            *moments("to", F.col("to_ms")),
            *moments("last_success", last_success),
            (until - F.col("from_ms")).alias("stuck_ms"),
            (until - last_success).alias("silence_ms"),
            "attempts",
            "commits",
            "waiting",
            "errors",
            "groups",
            F.coalesce("hard", F.lit("answers")).alias("evidence"),
            F.lit("certain").alias("certainty"),
        )
    )


# ------------------------------------------------------------------------------------------------ from the log


def _silences(log: DataFrame, partitions: DataFrame, least_ms: int) -> DataFrame:
    quiet = silences(log, partitions, least_ms)
    return STUCK_PARTITIONS.conform(
        quiet.select(
            "run_id",
            F.concat(F.lit("__consumer_offsets-"), F.col("log_partition").cast("string")).alias("log"),
            "log_partition",
            *moments("from", F.col("from_ms")),
            *moments("to", F.col("to_ms")),
            *moments("last_success", F.col("from_ms")),
            F.col("pause_ms").alias("stuck_ms"),
            F.col("pause_ms").alias("silence_ms"),
            "others",
            F.lit("silence").alias("evidence"),
            F.lit("possible").alias("certainty"),
        )
    )

"""From the tables to `ReportFacts`: the little that a report needs, chosen by the engine, so that it fits whatever the tables hold.

Rules:
1. What has the most trouble is taken, and what is left out is counted.
2. Every query here reads tables that are written, never their lineage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from broker_sim.common.answers import ABOUT_ONE
from broker_sim.pipeline.assignments import TYPES, assignments
from broker_sim.pipeline.engine import Window, on_its_engine
from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.facts import ReportFacts, Row
from broker_sim.pipeline.refused_clients import FENCED_ERRORS
from broker_sim.pipeline.share_findings import RETURNS
from broker_sim.pipeline.tables.columns import place, seq_of
from broker_sim.pipeline.tables.events import EVENTS, PER_JOURNAL, calls
from broker_sim.pipeline.tables.lag import group_lag
from broker_sim.pipeline.tables.member_churn import memberships
from broker_sim.pipeline.tables.rebalances import closings
from broker_sim.pipeline.tables.share_deliveries import topic_names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["collect"]

MOST_GROUPS = 300
"""Groups of which rebalances are taken, those with the most trouble first: up to MOST_REBALANCES of each, and MOST_IN_ALL."""
MOST_REBALANCES, MOST_IN_ALL = 400, 24_000
MOST_STUCK = 200
MOST_REGRESSIONS = 1000
MOST_DELETIONS = 200
MOST_SILENCES = 50
MOST_DUPLICATES = 100
MOST_REFUSALS = 300
MOST_SKIPS = 200
MOST_BEYOND = 200
MOST_STATES = 5000
MOST_MARKS = 2000
MARKS = ("deleted", "offsets deleted", "expired", "seek", "reset", "truncated", "out of range", "unclean")
"""Kinds of lines about changes of offsets."""
REFUSED = ("authentication failed", "handshake failed", "invalid receive", "producer fenced")
"""Kinds of lines about clients that could not be served."""
MOST_REFUSED = 300
_TRANSACTIONAL = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
_SENT_AGAIN = (
    *("CONCURRENT_TRANSACTIONS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
    *("OPERATION_NOT_ATTEMPTED", "REQUEST_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER"),
)
"""Answers that are no refusal: the client sends the request again, or another partition's error is the reason."""
MOST_RESETS = 200
MOST_STALLS = 200
MOST_MOVES = 200
MOST_TRANSACTIONS = 200
MOST_DELIVERIES = 1000
MOST_RETURNED = 5000
MOST_ASSIGNED, MOST_ASSIGNMENTS = 60, 20_000
"""Consumer, share and streams groups of which assignments are taken, and so many of their records."""
MOST_CHURN = 200
MOST_SKIPPED = 200
MOST_LAGS = 60
MOST_KEYS = 9
MOST_NEIGHBOURS = 1000


@on_its_engine
def collect(tables: Mapping[str, DataFrame], facts: ReportFacts) -> ReportFacts:
    """Fill ``facts`` from the tables by their names; ``facts`` has its name, inputs and span already."""
    facts.counts |= {name: table.count() for name, table in tables.items() if name not in facts.counts}
    _stuck(tables["stuck_partitions"], facts)
    facts.regressions = _top(facts, tables, "offset_regressions", MOST_REGRESSIONS, f.desc("by"), f.col("log_offset"))
    facts.deletions = _deletions(tables["offset_deletions"], facts)
    facts.duplicates = _top(facts, tables, "duplicate_windows", MOST_DUPLICATES, f.col("evidence"), f.desc("records"))
    facts.churn = _top(
        facts, tables, "member_churn", MOST_CHURN, f.desc("expirations"), f.desc("joins"), f.col("group")
    )
    _of_groups(tables, facts)
    facts.skipped = _top(facts, tables, "skipped", MOST_SKIPPED, f.col("file"), f.col("position"))
    facts.hotspots = _rows(tables["coordinator_hotspots"].orderBy("log_partition"))
    _of_log(tables["offset_log"], facts)
    _rebalances(tables["rebalances"], facts)
    _assignments(tables["offset_log"], facts)
    if facts.logged and facts.journal is None and not facts.aborts and not facts.counts.get("transactions"):
        facts.aborts = _aborts(tables["offset_log"])
    _lag(tables["lag"], facts)
    _committed(tables["lag"], facts)
    facts.beyond = _beyond(tables["lag"])
    facts.below = _below(tables["lag"])
    return facts


def _of_groups(tables: Mapping[str, DataFrame], facts: ReportFacts) -> None:
    """Collect the groups' states, refused commits, skips, losses, resets, stalls and log lines; a table that was not made is empty."""

    def top(name: str, most: int, *order: Column) -> list[Row]:
        return _top(facts, tables, name, most, *order) if name in tables else []

    facts.states = {row["group"]: row for row in top("groups", MOST_STATES, f.desc("commits"), f.col("group"))}
    facts.refusals = top("commit_refusals", MOST_REFUSALS, f.desc("commits"), f.col("group"), f.col("topic"))
    chosen = f.coalesce(f.col("began") == "first", f.lit(False))  # which nothing is lost by
    facts.skips = top("offset_skips", MOST_SKIPS, chosen, f.desc("by"), f.col("group"), f.col("at_ms"))
    facts.losses = top("data_losses", MOST_SKIPS, f.desc("offsets"), f.col("at_ms"), f.col("group"))
    facts.resets = top("offset_resets", MOST_RESETS, f.desc(f.col("back") + f.col("skipped")), f.col("at_ms"))
    facts.stalls = top("offset_stalls", MOST_STALLS, f.desc("stalled_ms"), f.col("group"))
    if "log_lines" in tables:
        lines = tables["log_lines"].where(f.col("what").isin(*MARKS) & f.col("ts_ms").isNotNull())
        facts.marks = _rows(lines.orderBy("ts_ms").limit(MOST_MARKS))
        crashes = tables["log_lines"].where(f.col("what").isin("crashed", "restarts") & f.col("ts_ms").isNotNull())
        facts.crashes = _rows(
            crashes.where(f.col("group").isNotNull()).orderBy("ts_ms", "file", "line").limit(MOST_MARKS)
        )
        failed = tables["log_lines"].where((f.col("what") == "commit failed") & f.col("ts_ms").isNotNull())
        facts.failed_commits = _rows(
            failed.where(f.col("group").isNotNull()).select("group", "ts_ms").orderBy("ts_ms").limit(MOST_MARKS)
        )
    facts.disconnected = _disconnected(tables) if facts.stalls else []
    facts.refused_clients = _refused_clients(tables)
    facts.refused_instances = _refused_instances(tables)
    facts.moves = top("coordinator_moves", MOST_MOVES, f.desc("unclean"), f.col("at_ms"), f.col("log_partition"))
    facts.transactions = top("transactions", MOST_TRANSACTIONS, f.desc("open_ms"), f.col("from_ms"))
    given_up = f.coalesce(f.col("outcome").isin("archived", "reset"), f.lit(False))
    facts.deliveries = top(
        "share_deliveries", MOST_DELIVERIES, f.desc(given_up), f.desc("deliveries"), f.col("first_ms")
    )
    facts.returned = _returned(tables) if facts.deliveries else []


def _returned(tables: Mapping[str, DataFrame]) -> list[Row]:
    """Journal events `delivery` with which records of share groups became available again; [] without a journal."""
    if "events" not in tables:
        return []
    events = EVENTS.conform(tables["events"])
    ends = events.where((f.col("type") == "delivery") & f.col("action").isin(*RETURNS))
    columns = (
        "run_id",
        "group",
        "topic",
        "partition",
        "base_offset",
        "last_offset",
        "action",
        "member",
        "ts_ms",
        "seq",
    )
    beats = events.where((f.col("type") == "request") & (f.col("api") == "ShareGroupHeartbeat"))
    named = beats.groupBy("run_id", "group", "member").agg(f.max("client_id").alias("client_id"))
    both = ends.select(*columns).join(named, ["run_id", "group", "member"], "left")
    return _rows(both.orderBy("ts_ms", "seq").limit(MOST_RETURNED))


def _rows(frame: DataFrame) -> list[Row]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def _top(facts: ReportFacts, tables: Mapping[str, DataFrame], name: str, most: int, *order: Column) -> list[Row]:
    """The first rows of a table in that order; how many are left out is noted."""
    if not facts.counts[name]:
        return []
    if facts.counts[name] > most:
        facts.left_out[name] = facts.counts[name] - most
    return _rows(tables[name].orderBy(*order).limit(most))


def _stuck(table: DataFrame, facts: ReportFacts) -> None:
    """Collect stuck partitions: those that attempts prove, and apart from them the silences, which are only possible ones."""
    silent = f.col("certainty") == "possible"  # a silence, or one group that slowed down
    proven = table.where(~silent)
    rows = _rows(proven.orderBy(f.desc("stuck_ms")).limit(MOST_STUCK + 1))
    facts.counts["stuck_partitions"] = len(rows) if len(rows) <= MOST_STUCK else proven.count()
    if len(rows) > MOST_STUCK:
        facts.left_out["stuck_partitions"] = facts.counts["stuck_partitions"] - MOST_STUCK
    facts.stuck = sorted(rows[:MOST_STUCK], key=lambda row: row["from_ms"])
    facts.silences = _rows(table.where(silent).orderBy(f.desc("silence_ms")).limit(MOST_SILENCES))


def _aborts(log: DataFrame) -> list[Row]:
    """Producers with aborted transactions that committed offsets, with the numbers of their markers in the offsets log."""
    ends = log.where(f.col("kind").isin("txn_commit", "txn_abort"))
    at_ms = f.when(f.col("kind") == "txn_abort", f.col("record_ts_ms"))
    counted = ends.groupBy("producer_id").agg(
        f.count(at_ms).alias("aborts"),
        f.count("*").alias("ended"),
        f.min(at_ms).alias("first_ms"),
        f.max(at_ms).alias("last_ms"),
    )
    held = log.where(f.col("is_txn") & f.col("group").isNotNull())
    groups = held.groupBy("producer_id").agg(f.array_sort(f.collect_set("group")).alias("groups"))
    found = counted.where(f.col("aborts") > 0).join(groups, ["producer_id"])
    rows = _rows(found.orderBy(f.desc("aborts"), "producer_id").limit(MOST_TRANSACTIONS))
    return [{"transactional_id": None, "longest_ms": None, **row} for row in rows]


def _refused_clients(tables: Mapping[str, DataFrame]) -> list[Row]:
    """Refusals of brokers' and clients' log lines, and those of the journal."""
    rows: list[Row] = []
    of_all = (f.count("*").alias("times"), f.min("ts_ms").alias("from_ms"), f.max("ts_ms").alias("to_ms"))
    if "log_lines" in tables:
        lines = tables["log_lines"].where(f.col("what").isin(*REFUSED))
        grouped = lines.groupBy("source", "what", "client_id", "address", "member", "detail").agg(
            *of_all, f.min_by(f.concat_ws(":", "file", "line"), "line").alias("line")
        )
        rows += _rows(grouped.orderBy(f.desc("times"), "from_ms").limit(MOST_REFUSED))
    if "events" in tables:
        events = tables["events"]
        refused = events.where((f.col("type") == "connection") & (f.col("action") == "refused"))
        host = f.regexp_extract("client_host", r"^/?(.*?)(?::[0-9]+)?$", 1)
        columns = refused.select("client_id", host.alias("address"), f.col("text").alias("detail"), "ts_ms")
        grouped = columns.groupBy("client_id", "address", "detail").agg(*of_all)
        found = _rows(grouped.orderBy(f.desc("times"), "from_ms").limit(MOST_REFUSED))
        rows += [{"source": "journal", "what": None, "member": None, "line": None, **row} for row in found]
        rows += _refused_transactions(events)
    return rows


def _refused_transactions(events: DataFrame) -> list[Row]:
    """Transactional requests that were refused, those of one producer's process and one error together. What the client sends again by
    itself is none, and commits that were refused for a topic are in `commit_refusals`."""
    asked = calls(EVENTS.conform(events), *_TRANSACTIONAL).where(f.col("transactional_id").isNotNull())
    host = f.regexp_extract("client_host", r"^/?(.*?)(?::[0-9]+)?$", 1).alias("address")
    columns = ("client_id", host, f.col("transactional_id").alias("member"), f.col("producer_epoch").alias("process"))
    parts = asked.select(
        *columns,
        "api",
        f.col("answered_ms").alias("ts_ms"),
        place("answered_seq").alias("place"),
        f.explode("errors").alias("detail"),
    )
    parts = parts.where(~f.col("detail").isin(*_SENT_AGAIN))
    parts = parts.where((f.col("api") != "TxnOffsetCommit") | ~f.col("detail").isin(*ABOUT_ONE))
    grouped = parts.groupBy("client_id", "address", "member", "process", "detail").agg(
        f.array_sort(f.collect_set("api")).alias("apis"),
        f.count("*").alias("times"),
        f.min("ts_ms").alias("from_ms"),
        f.max("ts_ms").alias("to_ms"),
        f.min("place").alias("place"),
    )
    found = _rows(grouped.orderBy(f.desc("times"), "from_ms", "detail").limit(MOST_REFUSED))
    of_journal = {"source": "journal", "line": None}
    return [
        {**of_journal, "seq": seq_of(row["place"]), "what": _what_was_refused(row["detail"]), **row} for row in found
    ]


def _what_was_refused(error: str) -> str:
    return "producer fenced" if error in FENCED_ERRORS else "transaction refused"


def _disconnected(tables: Mapping[str, DataFrame]) -> list[Row]:
    """Members at the end whose connection was closed (``closed_ms``): their sessions have not expired yet."""
    if "events" not in tables:
        return []
    events = tables["events"]
    closed = {(row["run_id"], row["group"], row["cause_members"]): row["ts_ms"] for row in _rows(closings(events))}
    if not closed:
        return []
    present = _rows(memberships(events).where(f.col("left_ms").isNull()))
    known = ((row, closed.get((row["run_id"], row["group"], row["member"]))) for row in present)
    return [{**row, "closed_ms": closed_ms} for row, closed_ms in known if closed_ms is not None]


def _refused_instances(tables: Mapping[str, DataFrame]) -> list[Row]:
    """Static members that were refused as another one has their group.instance.id, with the membership of that one (``holder``)."""
    if "events" not in tables:
        return []
    events = tables["events"]
    refused = events.where((f.col("type") == "response") & (f.col("error") == "UNRELEASED_INSTANCE_ID"))
    asked = events.where((f.col("type") == "request") & f.col("instance").isNotNull())
    asked = asked.select(*PER_JOURNAL, "request", "group", "instance", "client_id", "client_host")
    both = refused.select(*PER_JOURNAL, "request", "ts_ms").join(asked, [*PER_JOURNAL, "request"])
    grouped = both.groupBy("group", "instance", "client_id", "client_host").agg(
        f.count("*").alias("times"), f.min("ts_ms").alias("from_ms"), f.max("ts_ms").alias("to_ms")
    )
    rows = _rows(grouped.orderBy(f.desc("times"), "from_ms").limit(MOST_REFUSED))
    if not rows:
        return []
    held = _rows(memberships(events).where(f.col("instance").isNotNull()).orderBy("joined_ms"))
    return [{**row, "holder": _holder_of(row, held)} for row in rows]


def _holder_of(row: Row, held: list[Row]) -> Row | None:
    """The membership that had an instance id when another client was first refused it."""
    return next(
        (
            one
            for one in held
            if (one["group"], one["instance"]) == (row["group"], row["instance"])
            and (one["joined_ms"] is None or one["joined_ms"] <= row["from_ms"])
            and (one["left_ms"] is None or one["left_ms"] >= row["from_ms"])
        ),
        None,
    )


def _deletions(table: DataFrame, facts: ReportFacts) -> list[Row]:
    """Deleted offsets by group and moment (offsets that go together are written in one batch): the latest and largest ones."""
    if not facts.counts["offset_deletions"]:
        return []
    grouped = table.groupBy("group", "log_partition", "at_ms", "group_ended").agg(
        f.count("*").alias("offsets"),
        f.min(f.struct("topic", "partition")).alias("example"),
        f.min("idle_ms").alias("idle_ms"),
        f.when(f.count("how") == f.count("*"), f.min("how")).alias("how"),
        f.collect_set(f.concat_ws("-", "topic", f.col("partition").cast("string"))).alias("logs"),
        f.count("next_commit_ms").alias("returned"),
        f.min("next_commit_ms").alias("next_commit_ms"),
        f.min("reason").alias("reason"),
        f.min("log_offset").alias("first_offset"),
    )
    return _rows(grouped.orderBy(f.desc("returned"), f.desc("offsets"), "at_ms", "group").limit(MOST_DELETIONS))


def _of_log(log: DataFrame, facts: ReportFacts) -> None:
    """Collect records and commits of each log partition, the number of groups, and the groups of the partitions that were stuck."""
    commit = f.col("kind") == "commit"
    if not facts.whole and facts.from_ms is not None:  # what is there of the time before is context
        commit = commit & (f.col("record_ts_ms") >= facts.from_ms)
    facts.partitions = _rows(
        log.groupBy("log_partition")
        .agg(
            f.count("*").alias("records"),
            f.min("log_offset").alias("first_offset"),
            f.max("log_offset").alias("last_offset"),
            f.count(f.when(commit, 1)).alias("commits"),
        )
        .orderBy("log_partition")
    )
    facts.commits = sum(row["commits"] for row in facts.partitions)
    facts.groups = max(sum(row["groups"] or 0 for row in facts.hotspots), facts.groups)
    stuck = sorted({row["log_partition"] for row in facts.stuck if row["log_partition"] is not None})
    if stuck:
        living = log.where(f.col("log_partition").isin(stuck) & f.col("group").isNotNull())
        for row in living.select("log_partition", "group").distinct().orderBy("group").limit(MOST_NEIGHBOURS).collect():
            facts.neighbours.setdefault(row.log_partition, []).append(row.group)


def _rebalances(table: DataFrame, facts: ReportFacts) -> None:
    """Rebalances of the groups with the most trouble: those that a stuck partition hit, that failed, that rebalanced often."""
    if not facts.counts["rebalances"]:
        return
    hit = sorted({group for row in facts.stuck for group in row["groups"] or ()})[:1000]
    fallen = list(dict.fromkeys(row["group"] for row in facts.regressions))[:1000]
    began = f.coalesce("started_ms", "closed_ms", "ended_ms", f.lit(0))
    trouble = (
        f.count(f.when(f.col("end") == "failed", 1)) * 20
        + f.count("*")
        + f.max(f.col("group").isin(hit).cast("int")) * 1_000_000
        + f.max(f.col("group").isin(fallen).cast("int")) * 1000
        + f.max((~f.coalesce(f.col("topology_ready"), f.lit(True))).cast("int")) * 1000
        + f.max(f.coalesce(f.col("ended_ms") - f.col("started_ms"), f.lit(0))) / 1000
    )
    ranked = (
        table.groupBy("group")
        .agg(trouble.alias("trouble"), f.count("*").alias("rows"))
        .orderBy(f.desc("trouble"), "group")
    )
    names, room = [], MOST_IN_ALL
    for row in ranked.limit(MOST_GROUPS).collect():
        room -= min(row.rows, MOST_REBALANCES)
        if room >= 0:
            names.append(row.group)
    of_group = Window.partitionBy("group").orderBy(began)
    kept = table.where(f.col("group").isin(names)).withColumn("number", f.row_number().over(of_group))
    facts.rebalances = _rows(kept.where(f.col("number") <= MOST_REBALANCES).drop("number"))
    facts.rebalances.sort(key=lambda row: (row["group"], row["started_ms"] or row["closed_ms"] or 0))


def _assignments(log: DataFrame, facts: ReportFacts) -> None:
    """Collect assignments of the groups whose coordinator assigns, those with the most rebalances first."""
    epochs: dict[str, int] = {}
    for row in facts.rebalances:
        if row["kind"] in ("consumer", "share", "streams"):
            epochs[row["group"]] = epochs.get(row["group"], 0) + 1
    groups = sorted(epochs, key=lambda group: (-epochs[group], group))[:MOST_ASSIGNED]
    if not groups:
        return
    if len(epochs) > len(groups):
        facts.left_out["assignments"] = len(epochs) - len(groups)
    records = log.where(f.col("group").isin(groups) & f.col("record_type").rlike(TYPES))
    rows = _rows(
        records.select("log_partition", "log_offset", "record_ts_ms", "group", "record_type", "member", "detail")
        .orderBy("log_partition", "log_offset")
        .limit(MOST_ASSIGNMENTS)
    )
    facts.assignments = assignments(rows, topic_names(log))


def _lag(table: DataFrame, facts: ReportFacts) -> None:
    """The groups that were the furthest behind; where no lag is known, those that committed the most."""
    by_group = group_lag(table).persist()
    try:
        per_group = by_group.groupBy("group").agg(f.max("lag").alias("lag"), f.sum("commits").alias("commits"))
        count = per_group.count()
        chosen = per_group.orderBy(f.desc_nulls_last("lag"), f.desc("commits"), "group").limit(MOST_LAGS).collect()
        if count > len(chosen):
            facts.left_out["lag"] = count - len(chosen)
        names = [row.group for row in chosen]
        facts.lag = {name: [] for name in names}
        for row in _rows(by_group.where(f.col("group").isin(names)).orderBy("window_start_ms")):
            facts.lag[row["group"]].append(row)
    finally:
        by_group.unpersist()


def _beyond(table: DataFrame) -> list[Row]:
    """Offsets that were committed beyond their log's end."""
    some = table.where(f.col("lag") < 0).groupBy("group", "topic", "partition")
    first = f.min_by(f.struct("lag", "window_start_ms", "committed", "end"), "window_start_ms").alias("first")
    result = some.agg(first).select("group", "topic", "partition", "first.*")
    return _rows(result.orderBy("lag", "group", "topic", "partition").limit(MOST_BEYOND))


def _below(table: DataFrame) -> list[Row]:
    """Offsets below their log's start, as last committed."""
    some = table.where(f.col("below_start") > 0).groupBy("group", "topic", "partition")
    last = f.max_by(f.struct("below_start", "window_start_ms", "committed", "start"), "window_start_ms").alias("last")
    result = some.agg(last).select("group", "topic", "partition", "last.*")
    return _rows(result.orderBy(f.desc("below_start"), "group", "topic", "partition").limit(MOST_BEYOND))


def _committed(table: DataFrame, facts: ReportFacts) -> None:
    """Partitions whose offsets decreased the most, filled up with the busiest ones of the groups that are shown."""
    fallen: dict[tuple[str, str, int], int] = {}
    for row in facts.regressions:
        key = (row["group"], row["topic"], row["partition"])
        fallen[key] = fallen.get(key, 0) + row["by"]
    keys = sorted(fallen, key=lambda key: -fallen[key])
    if len(keys) > MOST_KEYS:
        facts.left_out["committed"] = len(keys) - MOST_KEYS
    keys = keys[:MOST_KEYS]
    if len(keys) < MOST_KEYS // 3 and facts.lag:
        busy = (
            table.where(f.col("group").isin(list(facts.lag)))
            .groupBy("group", "topic", "partition")
            .agg(f.sum("commits").alias("n"))
        )
        more = busy.orderBy(f.desc("n"), "group", "topic", "partition").limit(MOST_KEYS // 3).collect()
        keys += [key for row in more if (key := (row.group, row.topic, row.partition)) not in keys]
    facts.committed = {key: [] for key in keys}
    if not keys:
        return
    of_groups = table.where(f.col("group").isin(sorted({key[0] for key in keys})))
    wanted = f.struct("group", "topic", "partition").isin([_struct(key) for key in keys])
    for row in _rows(of_groups.where(wanted).orderBy("window_start_ms")):
        facts.committed[row["group"], row["topic"], row["partition"]].append(row)


def _struct(key: Sequence[Any]) -> Any:
    group, topic, partition = key
    return f.struct(f.lit(group).alias("group"), f.lit(topic).alias("topic"), f.lit(partition).alias("partition"))

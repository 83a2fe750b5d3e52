"""The table transactions: those of a journal, of `__transaction_state`, of data topics and of the offsets log that lasted long, are
open, or ended otherwise than by their producers.

Rules:
1. The journal's transactions come first, then those of the coordinator's log; a producer's open transaction in a data topic, or in
   `__consumer_offsets`, is added if it is in neither.
2. Long is ten seconds, and ten times the median of all that are over. A program that commits a transaction each ten minutes, as stream
   processors with checkpoints do, is never long by its own median. Transactions that were fenced, timed out or hang, and
   those whose markers took ten seconds, are included whatever their duration.
3. `open_ms` of an open transaction ends with the last record of `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.engine import on_its_engine
from broker_sim.pipeline.schemas import BOOLEAN, INT, LONG, RUN_ID, STRING, ArrayOf, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.columns import moments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SEEN", "TRANSACTIONS", "seen_rows", "transactions"]

LONG_MS, TIMES = 10_000, 10
_SOURCES = "journal, transaction_state"
_KEY = ("run_id", "producer_id", "key", "from_ms")
SLACK_MS = 1000
"""Two coordinators' clocks, of the transaction and of the group, may differ by so much."""

TRANSACTIONS = TableSchema(
    "transactions",
    (
        RUN_ID,
        ColumnSpec("transactional_id", STRING, "null where the coordinator's log is not there", "transaction_state"),
        ColumnSpec("producer_id", LONG, "its producer; never null", "all"),
        *moment("from", "when it began", "all"),
        *moment("to", "when its markers were written; null if it is open", "all"),
        ColumnSpec("open_ms", LONG, "how long; to the end of what was read where it is open", "all"),
        ColumnSpec("end", STRING, "`committed`, `aborted`; null if it is open", "all"),
        ColumnSpec(
            "decided_ms", LONG, "when its end was decided: markers followed; null where that is not known", _SOURCES
        ),
        ColumnSpec(
            "result",
            STRING,
            "`commit`, `abort`, `fenced` (aborted, as a producer came with the same id), `timed out`; null if it is open, or hangs",
            _SOURCES,
        ),
        ColumnSpec("began_by", STRING, "client id of the producer that began it", "journal"),
        ColumnSpec(
            "ended_by",
            STRING,
            "client id of the producer that ended it, `broker-sim` for an abort from the test, the command line or HTTP; null if the "
            "coordinator did",
            "journal",
        ),
        ColumnSpec(
            "cause",
            STRING,
            "what kept its producer from ending one that timed out or is open: a rule, a refused EndTxn, its last request, the clock",
            "journal",
        ),
        ColumnSpec(
            "blocked", ArrayOf(STRING), "last stable offsets that waited for it: `orders-0 at 120`", "journal, data"
        ),
        ColumnSpec("blocked_ms", LONG, "the longest of them", "journal, data"),
        ColumnSpec(
            "readers",
            ArrayOf(STRING),
            "client ids of read_committed readers that waited for a second or more",
            "journal",
        ),
        ColumnSpec(
            "hangs", BOOLEAN, "whether it is unknown to its coordinator, so that it stays open; null if unknown", "all"
        ),
        ColumnSpec(
            "lost_abort", BOOLEAN, "it began after its own abort, and the next commit applied to it (KIP-890)", "all"
        ),
        ColumnSpec("timeout_ms", LONG, "transaction.timeout.ms; null where it is not known", "transaction_state"),
        ColumnSpec("partitions", ArrayOf(STRING), "partitions in it, `orders-0`", "all"),
        ColumnSpec("groups", ArrayOf(STRING), "groups whose offsets are committed in it", "offset_log"),
        ColumnSpec(
            "log_partition", INT, "partition of `__consumer_offsets` with offsets in it; the first", "offset_log"
        ),
        ColumnSpec("log_offset", LONG, "the first of those records", "offset_log"),
        ColumnSpec("evidence_lines", ArrayOf(STRING), "log lines about it, FILE:LINE", "log lines"),
        ColumnSpec("source", STRING, "`journal`, `state`, `data` or `offsets`; never null", ""),
    ),
    "One row for each transaction that was long, is open, or was ended by something else than its producer.",
)

_SEEN = (
    *("run_id", "transactional_id", "producer_id", "from_ms", "to_ms", "end", "timeout_ms", "partitions", "source"),
    *(
        "decided_ms",
        "result",
        "began_by",
        "ended_by",
        "cause",
        "blocked",
        "blocked_ms",
        "readers",
        "hangs",
        "lost_abort",
    ),
)
SEEN = TableSchema(
    "transactions_seen",
    (
        *(TRANSACTIONS[name] for name in _SEEN),
        ColumnSpec("until_ms", LONG, "the last moment of its source, for one that is open", "all"),
    ),
    "Transactions as their sources have them.",
)
"""Schema of the rows that `pipeline.transaction_logs` yields."""


def seen_rows(rows: Iterable[Mapping[str, Any]], run_id: str, *, states: bool = True) -> list[dict[str, Any]]:
    """Rows of SEEN: the journal counts for an id that it has; a producer's open transaction in several data partitions is one,
    and none where the coordinator's log has it. ``states``: whether that log was read: then a transaction that it lacks has no
    coordinator."""
    all_rows = [dict(row) for row in rows]
    result = [row for row in all_rows if row["source"] == "journal"]
    ids = {row.get("transactional_id") for row in result}
    strays = {(row["producer_id"], place) for row in result if row.get("hangs") for place in row["partitions"]}
    result += [row for row in all_rows if row["source"] == "state" and row["transactional_id"] not in ids]
    known: dict[int, list[dict[str, Any]]] = {}
    for row in result:
        if row.get("transactional_id") is not None:
            known.setdefault(row["producer_id"], []).append(row)
    open_: dict[tuple[int, bool, str | None], dict[str, Any]] = {}
    for row in (row for row in all_rows if row["source"] == "data"):
        place = row["partitions"][0]
        owner = None if row.get("late") else _owner(known.get(row["producer_id"], ()), row)
        if owner is not None:
            _block(owner, row)
        elif (row["producer_id"], place) in strays or (row["end"] is not None and not row.get("late")):
            continue
        else:
            late = bool(row.get("late"))
            transaction = open_.setdefault((row["producer_id"], late, row["end"]), {**row, "partitions": []})
            transaction["partitions"] = [*transaction["partitions"], place]
            transaction["from_ms"] = min(transaction["from_ms"], row["from_ms"])
            transaction["hangs"] = True if late or states else None
            transaction["lost_abort"] = late and row["end"] == "committed"
            _block(transaction, row)
    return [{name: row.get(name) for name in SEEN.names} | {"run_id": run_id} for row in (*result, *open_.values())]


def _owner(known: Iterable[dict[str, Any]], row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The transaction of the producer that has written this: of those that were open then, as far as clocks agree, the one whose
    markers were written with the marker here. A producer's own clock stamps its records, brokers' clocks the rest."""
    place, from_ms, to_ms = row["partitions"][0], row["from_ms"], row["to_ms"]
    candidates = [
        candidate
        for candidate in known
        if place in candidate["partitions"]
        and candidate["from_ms"] - SLACK_MS <= from_ms
        and (candidate["to_ms"] is None or candidate["to_ms"] + SLACK_MS >= from_ms)
    ]

    def apart(candidate: Mapping[str, Any]) -> tuple[bool, int]:
        both_over = candidate["to_ms"] is not None and to_ms is not None
        return not both_over and candidate["to_ms"] is not to_ms, abs(
            candidate["to_ms"] - to_ms if both_over else candidate["from_ms"] - from_ms
        )

    return min(candidates, key=apart, default=None)


def _block(transaction: dict[str, Any], row: Mapping[str, Any]) -> None:
    """Add the partition whose last stable offset a transaction held, and for how long; not to one of a journal, which has both."""
    if transaction["source"] == "journal":
        return
    until_ms = row["to_ms"] if row["to_ms"] is not None else row.get("until_ms")
    blocked_from_ms = row.get("blocked_from_ms")
    if blocked_from_ms is not None and until_ms is not None:
        transaction["blocked"] = [
            *(transaction.get("blocked") or ()),
            f"{row['partitions'][0]} at {row['first_offset']}",
        ]
        transaction["blocked_ms"] = max(transaction.get("blocked_ms") or 0, until_ms - blocked_from_ms)


@on_its_engine
def transactions(log: DataFrame, seen: DataFrame, lines: DataFrame) -> DataFrame:
    """TRANSACTIONS of an offset_log, of SEEN and of LOG_LINES (both may be empty)."""
    ends = log.groupBy("run_id").agg(f.max("record_ts_ms").alias("end_ms"))
    unknown = _open(log).join(seen.where(f.col("end").isNull()), ["run_id", "producer_id"], "left_anti")
    both = SEEN.conform(seen).unionByName(SEEN.conform(unknown.withColumn("source", f.lit("offsets"))))
    both = both.join(f.broadcast(ends), "run_id", "left")
    both = both.withColumn("end_ms", f.coalesce("end_ms", "until_ms"))
    both = both.withColumn("open_ms", f.coalesce("to_ms", "end_ms") - f.col("from_ms"))
    over = both.where(f.col("end").isNotNull())
    usual = over.groupBy("run_id").agg(f.percentile_approx("open_ms", 0.5).alias("usual_ms"))
    lasted = (f.col("open_ms") >= LONG_MS) & (f.col("open_ms") >= TIMES * f.coalesce("usual_ms", f.lit(0)))
    odd = f.coalesce(f.col("result").isin("fenced", "timed out"), f.lit(False)) | f.coalesce(
        f.col("hangs"), f.lit(False)
    )
    late = f.coalesce(f.col("to_ms") - f.col("decided_ms") >= LONG_MS, f.lit(False))
    long = both.join(f.broadcast(usual), "run_id", "left").where(lasted | odd | late)
    long = long.withColumn("key", f.coalesce("transactional_id", f.lit("")))
    result = long.join(_groups(long, log), list(_KEY), "left").join(_timeout_lines(long, lines), list(_KEY), "left")
    result = result.withColumn("from", moments("from", f.col("from_ms"))[0]).withColumn(
        "to", moments("to", f.col("to_ms"))[0]
    )
    return TRANSACTIONS.conform(result)


def _open(log: DataFrame) -> DataFrame:
    """Producers whose committed offsets have no marker behind them, and since when."""
    where = ["run_id", "log_partition", "producer_id"]
    ended = log.where(f.col("kind").isin("txn_commit", "txn_abort"))
    markers = ended.groupBy(*where).agg(f.max("log_offset").alias("marked"))
    open_ = _offsets(log).join(markers, where, "left").where(f.col("log_offset") > f.coalesce("marked", f.lit(-1)))
    return open_.groupBy("run_id", "producer_id").agg(f.min("record_ts_ms").alias("from_ms"))


def _offsets(log: DataFrame) -> DataFrame:
    return log.where(f.col("is_txn") & f.col("kind").isin("commit", "commit_tombstone"))


def _groups(long: DataFrame, log: DataFrame) -> DataFrame:
    """By _KEY: the groups whose offsets were committed in a transaction, and where."""
    asked = long.select(*_KEY, f.coalesce("to_ms", "end_ms").alias("until_ms"))
    within = _offsets(log).join(f.broadcast(asked), ["run_id", "producer_id"])
    return (
        within.where(
            (f.col("record_ts_ms") >= f.col("from_ms") - SLACK_MS) & (f.col("record_ts_ms") <= f.col("until_ms"))
        )
        .groupBy(*_KEY)
        .agg(
            f.array_sort(f.collect_set("group")).alias("groups"),
            f.min("log_partition").alias("log_partition"),
            f.min_by("log_offset", f.struct("log_partition", "log_offset")).alias("log_offset"),
        )
    )


def _timeout_lines(long: DataFrame, lines: DataFrame) -> DataFrame:
    """By _KEY: lines about its abort by timeout."""
    asked = long.where(f.col("to_ms").isNotNull()).select(*_KEY, "to_ms")
    timeouts = lines.where(f.col("what") == "transaction timeout").select(
        *("run_id", "ts_ms"), f.col("member").alias("key"), f.concat_ws(":", "file", "line").alias("at")
    )
    near = timeouts.join(f.broadcast(asked), ["run_id", "key"]).where(f.abs(f.col("ts_ms") - f.col("to_ms")) <= LONG_MS)
    return near.groupBy(*_KEY).agg(f.array_sort(f.collect_set("at")).alias("evidence_lines"))

"""The table offset_skips: records that a member of a group skipped: it did not receive them, and fetched later ones.

Rules:
1. As in `explain.offsets`. A client skips records if it fetches from a later offset than last time although no response in between had
   records; or if its first Fetch of a partition is from a later offset than the committed one: then the error of its OffsetFetch, if
   there was one, is in the row.
2. A difference of offsets is not a number of records: compacted ones and markers have offsets, too. ``by`` is the upper bound.
3. A Fetch with an error has no position, except OFFSET_OUT_OF_RANGE if the client then fetches later offsets: those records are
   deleted.
4. A reader is known by client id and host; its group by the requests that it makes as a member. From a journal only.
5. Where a member begins at a log's end and the group had no committed offset (``began``), `explain.beginnings` has the records before
   it: that is the row, instead of that of rule 1 for the same Fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.pipeline.engine import Window, on_its_engine
from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.schemas import BOOLEAN, INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.beginnings import beginnings
from broker_sim.pipeline.tables.columns import moments, place
from broker_sim.pipeline.tables.events import EVENTS, PER_JOURNAL, by_partition, calls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["OFFSET_SKIPS", "offset_skips"]

OFFSET_SKIPS = TableSchema(
    "offset_skips",
    (
        RUN_ID,
        ColumnSpec("group", STRING, "group id; never null", "journal"),
        ColumnSpec("client_id", STRING, "client that read", "journal"),
        ColumnSpec("client_host", STRING, "its host", "journal"),
        ColumnSpec("topic", STRING, "topic", "journal"),
        ColumnSpec("partition", INT, "partition", "journal"),
        *moment("at", "when it fetched the records after them", "journal"),
        ColumnSpec("from_offset", LONG, "the first skipped offset", "journal"),
        ColumnSpec("to_offset", LONG, "the offset where it continued", "journal"),
        ColumnSpec("by", LONG, "to_offset - from_offset: at most so many records", "journal"),
        ColumnSpec("committed", BOOLEAN, "whether from_offset was the group's committed offset", "journal"),
        ColumnSpec(
            "out_of_range", BOOLEAN, "whether its last Fetch before was answered OFFSET_OUT_OF_RANGE", "journal"
        ),
        ColumnSpec(
            "lookup_error",
            STRING,
            "where it was its first Fetch of the partition: the top-level error of its last OffsetFetch; null without one",
            "journal",
        ),
        ColumnSpec(
            "began",
            STRING,
            "where the group had no committed offset, and the member had asked for the log's end, as auto.offset.reset=latest does:"
            " `first`, the partition was there before the group read the topic, so nothing is lost; `grown`, the topic got it"
            " afterwards; `reached`, the group had got to from_offset before; else null",
            "journal",
        ),
    ),
    "One row for each range of offsets that a member of a group skipped. From a journal only.",
)

_OUT_OF_RANGE = 1
_MEMBERS = (
    *("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "TxnOffsetCommit"),
    *("ConsumerGroupHeartbeat", "StreamsGroupHeartbeat"),
)
_READER = ("run_id", "client_id", "client_host")
_WHERE = ("topic", "partition")


@on_its_engine
def offset_skips(events: DataFrame) -> DataFrame:
    """The table OFFSET_SKIPS, from EVENTS of a journal."""
    events = EVENTS.conform(events)
    known = ~f.col("committed_offset").isNull()
    groups = _groups(events)
    moves = _moves(_positions(events)).join(groups, list(_READER))
    commits = _commits(events)
    read = commits.select("run_id", "group", "topic").distinct()
    both = moves.join(read, ["run_id", "group", "topic"], "left_semi").unionByName(commits, allowMissingColumns=True)
    so_far = (
        Window.partitionBy("run_id", "group", *_WHERE)
        .orderBy("place")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    committed = f.last(f.when(known, f.col("committed_offset")), ignorenulls=True).over(so_far)
    rows = both.withColumn("stored", f.coalesce(committed, f.lit(-1))).where(f.col("offset").isNotNull())
    base = f.greatest(f.coalesce("before", f.lit(-1)), f.col("stored"))
    rows = rows.withColumn("base", base).where((f.col("base") >= 0) & (f.col("base") < f.col("offset")))
    rows = _with_lookups(rows, events)
    result = OFFSET_SKIPS.conform(
        rows.select(
            *("run_id", "group", "client_id", "client_host", *_WHERE),
            *moments("at", f.col("ts_ms")),
            f.col("base").alias("from_offset"),
            f.col("offset").alias("to_offset"),
            (f.col("offset") - f.col("base")).alias("by"),
            (f.col("base") == f.col("stored")).alias("committed"),
            f.coalesce(f.col("error_before") == _OUT_OF_RANGE, f.lit(False)).alias("out_of_range"),
            f.when(f.col("before").isNull() & (f.col("answered") != ""), f.col("answered")).alias("lookup_error"),
        )
    )
    begun = beginnings(events, groups).select(
        *("run_id", "group", "client_id", "client_host", *_WHERE, "from_offset", "to_offset", "began"),
        *moments("at", f.col("at_ms")),
        (f.col("to_offset") - f.col("from_offset")).alias("by"),
        f.lit(False).alias("committed"),
        f.lit(False).alias("out_of_range"),
    )
    same = Window.partitionBy(*_READER, "group", *_WHERE, "to_offset")
    both = result.unionByName(OFFSET_SKIPS.conform(begun)).withColumn("at_end", f.max("began").over(same))
    return OFFSET_SKIPS.conform(both.where(f.col("began").isNotNull() | f.col("at_end").isNull()))


def _positions(events: DataFrame) -> DataFrame:
    """Offsets that clients fetched (``offset``), and marks of responses with records (``given``), in the order of ``place``."""
    fetches = events.where(f.col("api") == "Fetch")
    asked = by_partition(fetches.where(f.col("type") == "request"), events)
    responses = by_partition(fetches.where(f.col("type") == "response"), events)
    key = [*PER_JOURNAL, "request"]
    answers = responses.select(
        *key, *_WHERE, place().alias("place"), "records", f.col("partition_error_code").alias("error")
    )
    clients = fetches.where(f.col("type") == "request").select(*key, "client_id", "client_host")
    given = answers.where((f.coalesce("error", f.lit(0)) == 0) & (f.col("records") > 0)).join(clients, key)
    asks = asked.select(*key, "client_id", "client_host", *_WHERE, place().alias("place"), "ts_ms", "offset")
    asks = asks.join(answers.drop("place", "records"), [*key, *_WHERE], "left")
    asks = asks.where(f.coalesce("error", f.lit(0)).isin(0, _OUT_OF_RANGE) & f.col("topic").isNotNull())
    rows = asks.select(*_READER, *_WHERE, "place", "ts_ms", "offset", f.coalesce("error", f.lit(0)).alias("error"))
    return rows.unionByName(given.select(*_READER, *_WHERE, "place", f.lit(1).alias("given")), allowMissingColumns=True)


def _moves(positions: DataFrame) -> DataFrame:
    """Asks at another offset than the last one, ``before``, since which nothing was given."""
    per = Window.partitionBy(*_READER, *_WHERE).orderBy("place")
    so_far = per.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counted = positions.withColumn("given", f.sum(f.coalesce("given", f.lit(0))).over(so_far))
    asks = counted.where(f.col("offset").isNotNull()).withColumn("next", f.lead("offset").over(per))
    asks = asks.where((f.col("error") == 0) | (f.col("next") > f.col("offset")))
    moves = asks.withColumn("before", f.lag("offset").over(per)).withColumn("error_before", f.lag("error").over(per))
    moves = moves.withColumn("given_before", f.lag("given").over(per))
    first = f.col("before").isNull()
    return moves.where(first | ((f.col("offset") > f.col("before")) & (f.col("given") == f.col("given_before")))).drop(
        "given", "given_before", "next", "error"
    )


def _with_lookups(rows: DataFrame, events: DataFrame) -> DataFrame:
    """With ``answered``: the error of the reader's last OffsetFetch before, if it applies to the whole group; "" for none."""
    looked = calls(events, "OffsetFetch").where(f.col("answered_seq").isNotNull())
    whole = f.col("error").isNotNull() & (f.coalesce(f.size("answer"), f.lit(0)) <= 0)
    answers = looked.select(
        *(*_READER, "group"),
        place("answered_seq").alias("place"),
        f.when(whole, f.col("error")).otherwise("").alias("answered"),
    )
    so_far = (
        Window.partitionBy(*_READER, "group").orderBy("place").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    both = rows.unionByName(answers, allowMissingColumns=True)
    looked_up = both.withColumn("answered", f.last("answered", ignorenulls=True).over(so_far))
    return looked_up.where(f.col("offset").isNotNull())


def _groups(events: DataFrame) -> DataFrame:
    """The groups of which clients are members."""
    asked = events.where((f.col("type") == "request") & f.col("api").isin(*_MEMBERS) & f.col("group").isNotNull())
    return asked.where(f.col("member").isNotNull()).select(*_READER, "group").distinct()


def _commits(events: DataFrame) -> DataFrame:
    commits = by_partition(events.where(f.col("type") == "offsets"), events)
    return commits.select("run_id", "group", *_WHERE, place().alias("place"), f.col("offset").alias("committed_offset"))

"""Groups that begin to read at a log's end, as rows of `offset_skips`: `explain.beginnings` finds them in rows in their order.

Rules:
1. `explain.beginnings` has the definition. From a journal only.
2. A group is read if one of its members requested a log's end with ListOffsets. Of such a log the Fetches and commits up to its last
   ListOffsets count, and the first ones after it: later ones are no beginning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from broker_sim.explain.beginnings import LATEST, Beginning, Beginnings, Reader
from broker_sim.pipeline.engine import Window, on_its_engine
from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.schemas import INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema
from broker_sim.pipeline.tables.columns import place
from broker_sim.pipeline.tables.events import PER_JOURNAL, by_partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["BEGINNINGS", "beginnings"]

BEGINNINGS = TableSchema(
    "beginnings",
    (
        RUN_ID,
        ColumnSpec("group", STRING, "group id"),
        ColumnSpec("client_id", STRING, "client id of the member"),
        ColumnSpec("client_host", STRING, "from where"),
        ColumnSpec("topic", STRING, "topic"),
        ColumnSpec("partition", INT, "partition"),
        ColumnSpec("at_ms", LONG, "when that was answered, ms since 1970"),
        ColumnSpec("from_offset", LONG, "the first offset that no member was given"),
        ColumnSpec("to_offset", LONG, "where it begins"),
        ColumnSpec("began", STRING, "as `explain.beginnings` has it"),
    ),
    "One row for each partition that a member began to read at its log's end, where the group had no committed offset.",
)
_INPUT = TableSchema(
    "beginnings_input",
    (
        RUN_ID,
        ColumnSpec("group", STRING, "group id"),
        ColumnSpec("place", LONG, "order of the events"),
        ColumnSpec("what", STRING, "kind of the row"),
        ColumnSpec("ts_ms", LONG, "when"),
        ColumnSpec("client_id", STRING, "of a member, or of the client that sent the request"),
        ColumnSpec("client_host", STRING, "the same"),
        ColumnSpec("topic", STRING, "topic"),
        ColumnSpec("partition", INT, "partition"),
        ColumnSpec("offset", LONG, "asked from, listed or committed"),
        ColumnSpec("records", LONG, "of a Fetch how many records came; of a topic how many partitions it has"),
        ColumnSpec("log_start", LONG, "log start offset of a Fetch response"),
        ColumnSpec("detail", STRING, "of a step of an epoch-based group the line; why an offset was deleted"),
    ),
    "What `explain.beginnings` reads, group by group.",
)
_READER = ("run_id", "client_id", "client_host")
_LOG = ("topic", "partition")
_MEMBER, _EPOCHS, _SIZE, _LISTED, _FETCHED, _COMMITTED, _DELETED = (
    *("member", "epochs", "size", "listed", "fetched"),
    *("committed", "deleted"),
)


@on_its_engine
def beginnings(events: DataFrame, groups: DataFrame) -> DataFrame:
    """BEGINNINGS of EVENTS; ``groups``: run_id, client_id, client_host and group of members."""
    listed = _listed(events).join(groups, list(_READER))
    ended = listed.where(f.col("offset").isNotNull())
    asked = ended.groupBy("run_id", "group", *_LOG).agg(f.max("place").alias("until"))
    topics = asked.select("run_id", "group", "topic").distinct()
    ids = asked.select("run_id", "group").distinct()
    signs = _INPUT.conform(listed).unionByName(_fetched(events, groups, listed, asked))
    signs = signs.unionByName(_offsets(events, asked)).unionByName(_sizes(events, topics))
    signs = signs.unionByName(_members(events).join(topics, ["run_id", "group", "topic"], "left_semi"))
    signs = signs.unionByName(_epochs(events)).join(ids, ["run_id", "group"], "left_semi").select(*_INPUT.names)
    in_order = signs.repartition("run_id", "group").sortWithinPartitions("run_id", "group", "place")
    return BEGINNINGS.conform(in_order.mapInArrow(_batches, BEGINNINGS.schema_for(in_order)))


def _listed(events: DataFrame) -> DataFrame:
    """Answers of ListOffsets, with the offset if it is the log's end, in the columns of `_INPUT`."""
    calls, key = events.where(f.col("api") == "ListOffsets"), [*PER_JOURNAL, "request", *_LOG]
    asked = by_partition(calls.where(f.col("type") == "request"), events)
    asked = asked.select(*key, "client_id", "client_host", f.col("offset").alias("stamp"))
    answered = by_partition(calls.where(f.col("type") == "response"), events)
    answered = answered.select(
        *key, place().alias("place"), "ts_ms", "offset", f.col("partition_error_code").alias("error")
    )
    latest = (f.col("stamp") == LATEST) & (f.coalesce("error", f.lit(0)) == 0)
    both = answered.join(asked, key).select(
        *(*_READER, *_LOG, "place", "ts_ms"),
        f.lit(_LISTED).alias("what"),
        f.when(latest, f.col("offset")).alias("offset"),
    )
    return both.where(f.col("topic").isNotNull())


def _fetched(events: DataFrame, groups: DataFrame, listed: DataFrame, asked: DataFrame) -> DataFrame:
    """Fetches that were answered without an error, of members and of logs whose end was asked for."""
    calls, key = events.where(f.col("api") == "Fetch"), [*PER_JOURNAL, "request"]
    answers = calls.where((f.col("type") == "response") & (f.coalesce("error_code", f.lit(0)) == 0))
    partitions = by_partition(calls.where(f.col("type") == "response"), events).select(
        *(*key, *_LOG, "records", "log_start"), f.col("partition_error_code").alias("error")
    )
    rows = by_partition(calls.where(f.col("type") == "request"), events)
    rows = rows.select(*key, "client_id", "client_host", *_LOG, "offset").join(groups, list(_READER))
    rows = rows.join(asked, ["run_id", "group", *_LOG])
    rows = rows.join(answers.select(*key, place().alias("place"), "ts_ms"), key)
    rows = rows.join(partitions, [*key, *_LOG], "left").where(f.coalesce("error", f.lit(0)) == 0)
    names = (*_READER, "group", *_LOG, "place", "ts_ms", "offset", "records", "log_start", "until")
    rows = rows.select(*names, f.lit(_FETCHED).alias("what"))
    both = rows.unionByName(listed.where(f.col("offset").isNotNull()), allowMissingColumns=True)
    per = Window.partitionBy(*_READER, "group", *_LOG).orderBy("place")
    both = both.withColumn("before", f.lag("what").over(per)).where(f.col("what") == _FETCHED)
    return _INPUT.conform(both.where((f.col("place") < f.col("until")) | (f.col("before") == _LISTED)))


def _offsets(events: DataFrame, asked: DataFrame) -> DataFrame:
    """Offsets of the groups that were published or deleted."""
    changed = by_partition(events.where(f.col("type").isin("offsets", "offsets_deleted")), events)
    rows = changed.select(
        *("run_id", "group", *_LOG, "ts_ms", "offset", place().alias("place"), f.col("text").alias("detail")),
        f.when(f.col("type") == "offsets", _COMMITTED).otherwise(_DELETED).alias("what"),
    ).join(asked, ["run_id", "group", *_LOG])
    before = f.lag("place").over(Window.partitionBy("run_id", "group", *_LOG).orderBy("place"))
    rows = rows.withColumn("before", f.coalesce(before, f.lit(0)))
    return _INPUT.conform(rows.where(f.col("before") < f.col("until")))


def _sizes(events: DataFrame, topics: DataFrame) -> DataFrame:
    """Number of a topic's partitions in answers to Metadata, where it grew, for each group that reads the topic."""
    answers = events.where(
        (f.col("type") == "response") & (f.col("api") == "Metadata") & f.col("partitions").isNotNull()
    )
    partitions = answers.select("run_id", place().alias("place"), f.explode("partitions").alias("p"))
    sizes = partitions.groupBy("run_id", "place", f.col("p.topic").alias("topic")).agg(f.count("*").alias("records"))
    earlier = Window.partitionBy("run_id", "topic").orderBy("place").rowsBetween(Window.unboundedPreceding, -1)
    sizes = sizes.withColumn("before", f.coalesce(f.max("records").over(earlier), f.lit(0)))
    sizes = sizes.where(f.col("records") > f.col("before")).join(topics, ["run_id", "topic"])
    return _INPUT.conform(sizes.withColumn("what", f.lit(_SIZE)))


def _members(events: DataFrame) -> DataFrame:
    """Members of classic groups and what they subscribe to, where it is seen first."""
    steps = events.where((f.col("type") == "group") & f.col("members_after").isNotNull())
    members = steps.select("run_id", "group", place().alias("place"), f.explode("members_after").alias("m"))
    members = members.select(
        *("run_id", "group", "place", f.col("m.client_id").alias("client_id")),
        f.col("m.client_host").alias("client_host"),
        f.explode("m.topics").alias("topic"),
    )
    subscribed = members.groupBy(*_READER, "group", "topic").agg(f.min("place").alias("place"))
    return _INPUT.conform(subscribed.withColumn("what", f.lit(_MEMBER)))


def _epochs(events: DataFrame) -> DataFrame:
    """Steps of epoch-based groups."""
    steps = events.where((f.col("type") == "epochs") & f.col("group").isNotNull())
    return _INPUT.conform(
        steps.select("run_id", "group", "ts_ms", "detail", place().alias("place"), f.lit(_EPOCHS).alias("what"))
    )


def _batches(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow

    rows = (row for batch in batches for row in batch.to_pylist())
    for (run_id, group), mine in groupby(rows, key=lambda row: (row["run_id"], row["group"])):
        result = [{"run_id": run_id, "group": group, **_columns(beginning)} for beginning in _beginnings_of(mine)]
        if result:
            yield pyarrow.RecordBatch.from_pylist(result, BEGINNINGS.arrow())


def _beginnings_of(rows: Iterable[dict[str, Any]]) -> Iterator[Beginning]:
    """Beginnings of one group, in order."""
    group = Beginnings()
    for row in rows:
        reader: Reader = (row["client_id"] or "", row["client_host"] or "")
        log, offset, at = f"{row['topic']}-{row['partition']}", row["offset"], (row["ts_ms"], row["place"])
        match row["what"]:
            case "member":
                group.member(reader, [row["topic"]])
            case "epochs":
                for member in json.loads(row["detail"]).get("members") or ():
                    group.member(
                        (member.get("client_id") or "", member.get("client_host") or ""), member.get("topics") or ()
                    )
            case "size":
                group.has(row["topic"], row["records"])
            case "listed":
                group.listed(reader, log, offset)
            case "deleted":
                group.deleted(log, row["detail"] or "unknown")
            case "committed" if offset is not None:
                member = group.committed(log, offset, *at)
                yield from [] if member is None else [member]
            case "fetched" if offset is not None:
                member = group.fetched(reader, log, offset, row["records"] or 0, row["log_start"], *at)
                yield from [] if member is None else [member]


def _columns(beginning: Beginning) -> dict[str, Any]:
    topic, _, partition = beginning.log.rpartition("-")
    return {
        "client_id": beginning.reader[0] or None,
        "client_host": beginning.reader[1] or None,
        "topic": topic,
        "partition": int(partition),
        "at_ms": beginning.ts_ms,
        "from_offset": beginning.from_offset,
        "to_offset": beginning.to_offset,
        "began": beginning.how,
    }

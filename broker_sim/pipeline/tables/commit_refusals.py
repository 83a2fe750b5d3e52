"""The table commit_refusals: commits that a coordinator refused, by client that sent them, topic and error.

Rules:
1. A commit has an error code for each partition: it may be refused for one topic and accepted for another. So a row is of one error of
   one topic, with the number of its commits that were accepted for others (`in_part`), and those topics (`taken_topics`).
2. NONE means accepted; whether it was stored as well is in `offsets` of the journal and in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.engine import on_its_engine
from broker_sim.pipeline.schemas import LONG, RUN_ID, STRING, ArrayOf, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.columns import moments
from broker_sim.pipeline.tables.events import EVENTS, PER_JOURNAL, by_partition, error_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["COMMIT_REFUSALS", "commit_refusals"]

COMMIT_REFUSALS = TableSchema(
    "commit_refusals",
    (
        RUN_ID,
        ColumnSpec("group", STRING, "group id; never null", "journal"),
        ColumnSpec("client_id", STRING, "client that sent them", "journal"),
        ColumnSpec("member", STRING, "its member id; null for a commit of no member", "journal"),
        ColumnSpec("topic", STRING, "the topic that was refused", "journal"),
        ColumnSpec("error", STRING, "Kafka's name of the error", "journal"),
        ColumnSpec("commits", LONG, "how many OffsetCommits and TxnOffsetCommits were answered so", "journal"),
        ColumnSpec("in_part", LONG, "how many of them were taken for other partitions", "journal"),
        ColumnSpec("taken_topics", ArrayOf(STRING), "the topics of those; null for none", "journal"),
        *moment("first", "when the first of them was answered", "journal"),
        *moment("last", "when the last of them was", "journal"),
    ),
    "One row for each client, member, topic and error of commits that were refused. From a journal only.",
)

_APIS = ("OffsetCommit", "TxnOffsetCommit")


@on_its_engine
def commit_refusals(events: DataFrame) -> DataFrame:
    """The table COMMIT_REFUSALS, from EVENTS of a journal."""
    key = [*PER_JOURNAL, "request"]
    events = EVENTS.conform(events)
    of_commits = events.where(f.col("api").isin(*_APIS))
    asked = of_commits.where((f.col("type") == "request") & f.col("group").isNotNull())
    answered = of_commits.where((f.col("type") == "response") & f.col("error").isNotNull() & f.col("action").isNull())
    senders = asked.select(*key, "group", "client_id", "member")
    parts = by_partition(answered, of_commits).select(
        *key, "ts_ms", "topic", f.col("partition_error_code").alias("code")
    )
    good = parts.where(f.col("code") == 0).groupBy(*key).agg(f.collect_set("topic").alias("taken"))
    bad = parts.where(f.col("code") != 0).groupBy(*key, "topic", "code").agg(f.min("ts_ms").alias("ts_ms"))
    refused = bad.join(senders, key).join(good, key, "left")
    columns = ("run_id", "group", "client_id", "member", "topic", "code")
    result = refused.groupBy(*columns).agg(
        f.count("*").alias("commits"),
        f.count("taken").alias("in_part"),
        f.array_sort(f.array_distinct(f.flatten(f.collect_set("taken")))).alias("several"),
        f.min("ts_ms").alias("first_ms"),
        f.max("ts_ms").alias("last_ms"),
    )
    result = result.withColumn("error", error_name(f.col("code")))
    result = result.withColumn("taken_topics", f.when(f.size("several") > 0, f.col("several")))
    for name in ("first", "last"):
        result = result.withColumn(name, moments(name, result[f"{name}_ms"])[0])
    return COMMIT_REFUSALS.conform(result)

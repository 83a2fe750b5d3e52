"""The table share_deliveries: share groups' (KIP-932) records that were released, archived, or skipped by a start offset reset.

Rules:
1. `pipeline.share_logs` reads `__share_group_state`; the names of its topics come from other logs: a share group's own
   ShareGroupStatePartitionMetadata, a commit that carries a topic's id. A topic in none of them has its id as its name.
2. Most records are delivered once and acknowledged: they have no row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker_sim.pipeline.engine import functions as f
from broker_sim.pipeline.engine import on_its_engine
from broker_sim.pipeline.schemas import INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.columns import moments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SEEN", "SHARE_DELIVERIES", "share_deliveries", "topic_names"]

_STATE = "share_group_state"

SHARE_DELIVERIES = TableSchema(
    "share_deliveries",
    (
        RUN_ID,
        ColumnSpec("group", STRING, "share group; never null", _STATE),
        ColumnSpec("topic", STRING, "topic; null if no log has the name of its id", "offset_log"),
        ColumnSpec("topic_id", STRING, "its id, as Kafka prints it", _STATE),
        ColumnSpec("partition", INT, "partition of it", _STATE),
        ColumnSpec("from_offset", LONG, "the first record; of a `reset` the start offset before", _STATE),
        ColumnSpec("to_offset", LONG, "the one behind the last; of a `reset` the start offset now", _STATE),
        ColumnSpec("records", LONG, "to_offset - from_offset; null for a `reset`", _STATE),
        ColumnSpec("returns", INT, "how often they were made available again", _STATE),
        ColumnSpec("deliveries", INT, "how often they were delivered in all, as far as Kafka counts it", _STATE),
        ColumnSpec(
            "outcome",
            STRING,
            "`acknowledged`, `archived` (rejected, or at the delivery limit: no member gets them again), `passed` (the"
            " start offset passed them), `reset` (a request set the start offset); null: they are available for delivery again",
            _STATE,
        ),
        *moment("first", "when they were first made available again; if never, when they were archived", _STATE),
        *moment("last", "when the outcome was written; before that, when they were last released", _STATE),
        ColumnSpec("log_partition", INT, "partition of `__share_group_state`", "folder name"),
        ColumnSpec("log_offset", LONG, "of the first record there about it", _STATE),
    ),
    "One row for each range of records of a share group that were redelivered, archived or passed over together.",
)

SEEN = TableSchema(
    "shares_seen",
    tuple(SHARE_DELIVERIES[name] for name in SHARE_DELIVERIES.names if name not in ("first", "last")),
    "The same, without the moments for people.",
)


@on_its_engine
def share_deliveries(seen: DataFrame) -> DataFrame:
    """SHARE_DELIVERIES of SEEN, which `share_logs.rows_of_shares` and `topic_names` make."""
    dated = seen.withColumn("first", moments("first", f.col("first_ms"))[0])
    return SHARE_DELIVERIES.conform(dated.withColumn("last", moments("last", f.col("last_ms"))[0]))


@on_its_engine
def topic_names(log: DataFrame) -> dict[str, str]:
    """Topic id -> name, as far as an offset_log has them."""
    named = log.where((f.col("record_type") == "ShareGroupStatePartitionMetadata") & f.col("detail").isNotNull())
    names: dict[str, str] = {}
    for row in named.select("detail").distinct().collect():
        value: Mapping[str, Any] = json.loads(row["detail"])
        for name in ("initializingTopics", "initializedTopics", "deletingTopics"):
            names |= {topic["topicId"]: topic["topicName"] for topic in value.get(name) or ()}
    commits = log.where(f.col("topic_id").isNotNull()).select("topic_id", "topic").distinct()
    names |= {row["topic_id"]: row["topic"] for row in commits.collect()}
    return names

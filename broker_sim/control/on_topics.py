"""Operations on topics: list, show, create, fill, read, grow, delete."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError
from broker_sim.control.resolve import topic_of
from broker_sim.control.shapes import RECORD, TOPIC
from broker_sim.control.table import TIMEOUT, operation
from broker_sim.fields.field import Field
from broker_sim.fields.kafka import ISOLATION, READ_COMMITTED
from broker_sim.fields.kinds import Choice, Count, MapOf, SettingValue, Text

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.api.handles.records import StoredRecord
    from broker_sim.metadata.cluster_state import Topic

MAX_PARTITIONS = 10_000
MAX_FILL = 1_000_000
MAX_FILL_BYTES = 256 << 20
"""Maximum size of the values of one fill: the broker does nothing else meanwhile, and keeps them in memory."""

TOPIC_NAME = Field("topic", Text(), "the topic's name", required=True, example="orders")


def shown(topic: Topic) -> dict[str, Any]:
    """A topic as JSON; see shapes.TOPIC."""
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": len(topic.partitions[0].replicas),
        "records": sum(partition.high_watermark - partition.log_start_offset for partition in topic.partitions),
        "internal": topic.internal,
    }


@operation("topic.list", "GET /topics", answer={"topics": [TOPIC]})
async def list_topics(cluster: Cluster, given: dict[str, Any]) -> Any:
    """List all topics, internal ones included."""
    return {"topics": [shown(topic) for topic in cluster.state.topics.values()]}


@operation("topic.get", "GET /topics/{topic}", TOPIC_NAME, answer=TOPIC)
async def get_topic(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Show a topic: partitions, replication factor, number of records."""
    return shown(topic_of(cluster, given["topic"]))


@operation(
    "topic.create",
    "POST /topics",
    TOPIC_NAME,
    Field("partitions", Count(1, MAX_PARTITIONS), "number of partitions (default: num.partitions)", example=6),
    Field("replication_factor", Count(1, 1000), "number of replicas (default: default.replication.factor)"),
    Field("configs", MapOf(SettingValue()), "topic settings by Kafka's names", example={"cleanup.policy": "compact"}),
    answer=TOPIC,
)
async def create_topic(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Create a topic; without a number of partitions it gets the broker's default."""
    topic = cluster.create_topic(
        given["topic"],
        given.get("partitions", -1),
        replication_factor=given.get("replication_factor", -1),
        configs=given.get("configs"),
    )
    return shown(topic)


RECORDS = Field(
    "records", Count(1, MAX_FILL), "number of records, round robin over the partitions", example=600, required=True
)
VALUE_BYTES = Field("value_bytes", Count(0, 1 << 20), "size of each value in bytes (default: a short text)")


def examine_fill(given: dict[str, Any]) -> None:
    if given["records"] * given.get("value_bytes", 0) > MAX_FILL_BYTES:
        raise UsageError(f"records times value_bytes is more than {MAX_FILL_BYTES >> 20} MiB; use several calls")


@operation(
    "topic.fill",
    "POST /topics/{topic}/records",
    TOPIC_NAME,
    RECORDS,
    VALUE_BYTES,
    answer=TOPIC,
    examine=examine_fill,
)
async def fill_topic(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Append records to a topic, as a producer does."""
    topic = topic_of(cluster, given["topic"])
    cluster.topic(topic.name).fill(given["records"], value_bytes=given.get("value_bytes"))
    return shown(topic)


TEXT, BASE64 = "text", "base64"
MAX_SHOWN_BYTES = 16 << 20
"""Maximum size of the keys, values and headers in one answer."""
ISOLATION_LEVEL = Field(
    "isolation", ISOLATION, "a consumer's isolation.level: with or without records of open and aborted transactions",
    default=READ_COMMITTED,
)  # fmt: skip


def _shown_record(record: StoredRecord, encoding: str) -> dict[str, Any]:
    """A record as JSON; see shapes.RECORD."""

    def text(data: bytes | None) -> str | None:
        if data is None:
            return None
        return base64.b64encode(data).decode() if encoding == BASE64 else data.decode("utf-8", "backslashreplace")

    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [{"key": name, "value": text(value)} for name, value in record.headers],
        "producer_id": record.producer_id,
        "transactional": record.transactional,
    }


def _size(record: StoredRecord) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


@operation(
    "topic.records",
    "GET /topics/{topic}/records",
    TOPIC_NAME,
    Field("partition", Count(0), "of this partition alone", example=0),
    Field("offset", Count(0), "from this offset on (default: from the first record on)"),
    Field("limit", Count(1, 10_000), "at most so many records", default=100),
    ISOLATION_LEVEL,
    Field(
        "encoding",
        Choice((TEXT, BASE64)),
        "of keys and values; in a text, bytes that are no UTF-8 are \\xNN",
        default=TEXT,
    ),
    answer={"records": [RECORD], "more": "boolean"},
)
async def read_records(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Show a topic's records, as a consumer gets them; more: there are others behind them."""
    handle = cluster.topic(topic_of(cluster, given["topic"]).name)
    limit, size = given["limit"], 0
    found = handle.records(
        given.get("partition"), offset=given.get("offset"), limit=limit + 1, isolation=given["isolation"]
    )
    rows: list[dict[str, Any]] = []
    for record in found[:limit]:
        size += _size(record)
        if rows and size > MAX_SHOWN_BYTES:
            break
        rows.append(_shown_record(record, given["encoding"]))
    return {"records": rows, "more": len(found) > len(rows)}


@operation(
    "topic.wait",
    "GET /topics/{topic}/wait",
    TOPIC_NAME,
    Field("records", Count(1), "number of records", required=True, example=3),
    ISOLATION_LEVEL,
    TIMEOUT,
    answer=TOPIC,
    waits=True,
)
async def wait_for_records(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait until a topic has so many records."""
    topic = topic_of(cluster, given["topic"])
    await cluster.topic(topic.name).wait(given["records"], isolation=given["isolation"], timeout=given["timeout"])
    return shown(topic)


@operation(
    "topic.grow",
    "POST /topics/{topic}/partitions",
    TOPIC_NAME,
    Field("partitions", Count(1, MAX_PARTITIONS), "the new number of partitions", example=12, required=True),
    answer=TOPIC,
)
async def grow_topic(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Add partitions to a topic; clients see them when they refresh their metadata."""
    topic = topic_of(cluster, given["topic"])
    cluster.topic(topic.name).grow_to(given["partitions"])
    return shown(topic)


@operation("topic.delete", "DELETE /topics/{topic}", TOPIC_NAME, answer={"deleted": "string"})
async def delete_topic(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Delete a topic with all its records."""
    topic = topic_of(cluster, given["topic"])
    cluster.topic(topic.name).delete()
    return {"deleted": topic.name}

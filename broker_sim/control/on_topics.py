"""Operations on topics: list, show, create, fill, grow, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError
from broker_sim.control.resolve import topic_of
from broker_sim.control.shapes import TOPIC
from broker_sim.control.table import operation
from broker_sim.fields.field import Field
from broker_sim.fields.kinds import Count, MapOf, SettingValue, Text

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.metadata.cluster_state import Topic

MAX_PARTITIONS = 10_000
MAX_FILL = 1_000_000
MAX_FILL_BYTES = 256 << 20
"""Of values in one fill: the broker does nothing else meanwhile, and keeps them in memory."""

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

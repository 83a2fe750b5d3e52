"""Operations on topics, and on the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_sim.control.shapes import EVENT, TOPIC
from broker_sim.control.table import Parameter, operation

if TYPE_CHECKING:
    from broker_sim.cluster import Cluster

MAX_PARTITIONS = 10_000
MAX_FILL = 10_000_000
TOPIC_NAME = Parameter("topic", "str", "the topic's name", required=True, example="orders")


@operation("topic.list", "GET /topics", answer={"topics": [TOPIC]})
async def list_topics(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Every topic."""
    raise NotImplementedError


@operation(
    "topic.create",
    "POST /topics",
    TOPIC_NAME,
    Parameter("partitions", "int", "how many (default: num.partitions)", least=1, most=MAX_PARTITIONS, example=6),
    Parameter(
        "replication_factor",
        "int",
        "how many brokers hold each (default: default.replication.factor)",
        least=1,
        most=1000,
    ),
    Parameter("configs", "map", "topic settings by Kafka's names"),
    answer=TOPIC,
)
async def create_topic(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Create a topic."""
    raise NotImplementedError


@operation(
    "topic.fill",
    "POST /topics/{topic}/records",
    TOPIC_NAME,
    Parameter(
        "records", "int", "how many records, spread over the partitions in turn", required=True, least=1, most=MAX_FILL
    ),
    Parameter("value_bytes", "int", "size of a record's value (default: a short text)", least=0, most=1 << 20),
    answer=TOPIC,
)
async def fill_topic(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Append records to a topic, as a producer would."""
    raise NotImplementedError


@operation(
    "topic.grow",
    "POST /topics/{topic}/partitions",
    TOPIC_NAME,
    Parameter("partitions", "int", "the new number of partitions", required=True, least=1, most=MAX_PARTITIONS),
    answer=TOPIC,
)
async def grow_topic(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Let a topic grow to more partitions."""
    raise NotImplementedError


@operation("topic.delete", "DELETE /topics/{topic}", TOPIC_NAME, answer={"deleted": "string"})
async def delete_topic(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Delete a topic with all its records."""
    raise NotImplementedError


@operation(
    "journal.read",
    "GET /journal",
    Parameter("since", "int", "only events with a later seq", default=0, least=0),
    Parameter("limit", "int", "at most that many, the latest", least=1, most=1_000_000),
    Parameter("event", "str", "only this kind of event, as in request or group"),
    Parameter("api", "str", "only requests and responses of this API; * stands for anything", example="OffsetCommit"),
    Parameter("group", "str", "only what concerns this group; * stands for anything", example="billing"),
    Parameter("request", "int", "only what belongs to this request", least=1),
    answer={"events": [EVENT]},
)
async def read_journal(cluster: Cluster, given: dict[str, Any]) -> Any:
    """What has happened, oldest first. Over HTTP: one JSON object a line; with follow=true it goes on with what happens next."""
    raise NotImplementedError


@operation(
    "journal.mark",
    "POST /journal/marks",
    Parameter("text", "str", "the note", required=True, example="deploy began"),
    answer=EVENT,
)
async def mark_journal(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Write a note into the journal; timelines show it."""
    raise NotImplementedError

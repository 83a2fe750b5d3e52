"""Partitions that the tasks of each member read, by its user endpoint, for Kafka Streams' interactive queries.

Source: EndpointToPartitionsManager, StreamsGroup.buildEndpointToPartitions (4.4).
"""

from __future__ import annotations

from collections.abc import Iterable

from broker_sim.coordinator.classic.vote import java_order
from broker_sim.coordinator.streams.group import ACTIVE, StreamsGroup
from broker_sim.coordinator.streams.topology import Configured
from broker_sim.coordinator.topics import Topics
from kafka_wire.messages import offsets_log as log
from kafka_wire.messages.k88_streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition


def partitions_by_endpoint(
    group: StreamsGroup, member_id: str, configured: Configured, topics: Topics
) -> list[EndpointToPartitions]:
    """An entry for each member that has an endpoint; that of ``member_id`` last."""
    others = [other for other in java_order(group.latest.members) if other != member_id]
    rows = []
    for holder_id in (*others, member_id):
        endpoint = group.latest.members[holder_id].user_endpoint
        if endpoint is not None:
            rows.append(_row(group, holder_id, endpoint, configured, topics))
    return rows


def _row(
    group: StreamsGroup, member_id: str, endpoint: log.Endpoint, configured: Configured, topics: Topics
) -> EndpointToPartitions:
    active: dict[str, set[int]] = {}
    standby: dict[str, set[int]] = {}
    for key, numbers in group.latest.current(member_id).assigned.items():
        (active if key.role == ACTIVE else standby).setdefault(key.subtopology, set()).update(numbers)
    return EndpointToPartitions(
        Endpoint(endpoint.host, endpoint.port),
        _partitions(active, configured, topics),
        _partitions(standby, configured, topics),
    )


def _partitions(tasks: dict[str, set[int]], configured: Configured, topics: Topics) -> list[TopicPartition]:
    rows = []
    for name in java_order(tasks):
        subtopology = configured.subtopologies.get(name)
        read: Iterable[str] = (
            ()
            if subtopology is None
            else java_order({*subtopology.source_topics, *subtopology.repartition_source_topics})
        )
        for topic in read:
            image = topics.by_name.get(topic)
            numbers = sorted(number for number in tasks[name] if image is not None and number < image.partitions)
            if numbers:
                rows.append(TopicPartition(topic, numbers))
    return rows

"""Topics as the coordinators' shards see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker_sim.coordinator.topics import TopicImage

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import ClusterState
    from broker_sim.metadata.topics import Topic

__all__ = ["topic_images"]


def topic_images(state: ClusterState, names: Iterable[str]) -> dict[str, TopicImage | None]:
    """Topics by name, None for a deleted one; with the racks of each partition's replicas if any broker has a rack."""
    rack_of = {node: broker.rack for node, broker in state.brokers.items() if broker.rack is not None}

    def racks(topic: Topic) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(sorted(rack_of[node] for node in p.replicas if node in rack_of)) for p in topic.partitions)

    return {
        name: None
        if (topic := state.topics.get(name)) is None
        else TopicImage(topic.topic_id, len(topic.partitions), racks(topic) if rack_of else ())
        for name in names
    }

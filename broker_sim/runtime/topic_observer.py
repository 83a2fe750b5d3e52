"""Writes the events of topics into the journal: created, grown, deleted, and by which request of which client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from broker_sim.journal import Journal

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import ClusterState

__all__ = ["TopicObserver"]

_ASKED_FOR = ("CreateTopics", "CreatePartitions", "DeleteTopics")


class TopicObserver:
    """The journal's eye on the topics of a cluster. ``handled()``: the fields ``request``, ``api``, ``client_id`` of the request whose
    handler runs now; {} outside of a handler."""

    def __init__(self, journal: Journal, state: ClusterState, handled: Callable[[], dict[str, object]]) -> None:
        self._journal, self._handled = journal, handled
        self._partitions = {name: len(topic.partitions) for name, topic in state.topics.items()}
        state.on_topics_changed.append(self._changed)

    def _changed(self, changed: Mapping[str, int | None]) -> None:
        by = self._handled()
        for topic, partitions in changed.items():
            before = self._partitions.pop(topic, 0)
            if partitions is not None:
                self._partitions[topic] = partitions
            action = "deleted" if partitions is None else "partitions added" if before else "created"
            more = {"automatic": True} if action == "created" and by and by["api"] not in _ASKED_FOR else {}
            self._journal.write(
                "topic", topic=topic, action=action, partitions=partitions or 0, partitions_before=before, **by, **more
            )

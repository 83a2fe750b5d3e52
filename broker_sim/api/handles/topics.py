"""A topic in the user's hand: fill it, let it grow, delete it, look at its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.api.handles.logs import LogHandle
from broker_sim.api.handles.partitions import Value, fill_partition, find_partition, find_topic, values
from broker_sim.common.text import UsageError
from broker_sim.metadata.cluster_state import KafkaError

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster

__all__ = ["TopicHandle"]


class TopicHandle:
    """One topic of ``cluster``. Raises UsageError if it does not exist."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        find_topic(cluster.state, name)
        self._cluster, self.name = cluster, name

    @property
    def partitions(self) -> int:
        """The topic's number of partitions. Raises UsageError for a topic that does not exist."""
        return len(find_topic(self._cluster.state, self.name).partitions)

    def log(self, partition: int) -> LogHandle:
        """The log of one partition."""
        return LogHandle(self._cluster, find_partition(self._cluster.state, self.name, partition))

    def fill(self, count: int, *, value: Value | None = None, value_bytes: int | None = None) -> TopicHandle:
        """Append ``count`` records to the partitions in turn; record ``n`` has the key ``key-n`` and by default the value
        ``<topic>-n``."""
        partitions = find_topic(self._cluster.state, self.name).partitions
        now_ms, make = self._cluster.state.clock.now_ms(), values(self.name, value, value_bytes)
        for index, partition in enumerate(partitions):
            share = len(range(index, count, len(partitions)))
            fill_partition(partition, share, now_ms, first=index, step=len(partitions), value=make)
        return self

    def grow_to(self, partitions: int) -> TopicHandle:
        """Add partitions up to that number. Clients see them after their next metadata refresh."""
        try:
            self._cluster.state.create_partitions(self.name, partitions)
        except KafkaError as error:
            raise UsageError(f"topic {self.name!r}: {error.message or error.error.name}") from None
        return self

    def delete(self) -> None:
        """Delete it with all its records, as DeleteTopics does; the offsets committed for it are deleted too. The handle can't be used
        afterwards. Raises UsageError if it is deleted already."""
        topic = find_topic(self._cluster.state, self.name)
        try:
            self._cluster.state.delete_topic(topic.name)
        except KafkaError as error:
            raise UsageError(f"topic {self.name!r}: {error.message or error.error.name}") from None

    def __repr__(self) -> str:
        return f"<topic {self.name!r}>"

"""A topic in the user's hand: fill it, read its records, let it grow, delete it, look at its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Self

from broker_sim.api.handles.logs import LogHandle
from broker_sim.api.handles.partitions import Value, fill_partition, find_partition, find_topic, values
from broker_sim.api.wait import TIMEOUT, until
from broker_sim.common.text import UsageError
from broker_sim.fields.kafka import ISOLATION, READ_COMMITTED
from broker_sim.metadata.cluster_state import KafkaError

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.api.handles.records import StoredRecord
    from broker_sim.fields.names import IsolationLiteral

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

    def records(
        self,
        partition: int | None = None,
        *,
        offset: int | None = None,
        limit: int | None = None,
        isolation: IsolationLiteral | str = READ_COMMITTED,
    ) -> list[StoredRecord]:
        """The topic's records in the order of partitions and offsets, as a consumer with that ``isolation`` level gets them: up to the
        high watermark, or to the last stable offset without those of aborted transactions. ``partition``: of this one; ``offset``:
        from there on; ``limit``: at most so many. Each has topic, partition, offset, timestamp_ms, key, value,
        headers (pairs), producer_id (or -1) and transactional. Raises UsageError."""
        return list(islice(self._records(partition, offset, ISOLATION.read(isolation, "isolation")), limit))

    def _records(self, partition: int | None, offset: int | None, isolation: str) -> Iterator[StoredRecord]:
        from broker_sim.api.handles.records import stored_records

        state = self._cluster.state
        if partition is not None:
            yield from stored_records(find_partition(state, self.name, partition), isolation, offset)
            return
        for one in find_topic(state, self.name).partitions:
            yield from stored_records(one, isolation, offset)

    async def wait(
        self, records: int, *, isolation: IsolationLiteral | str = READ_COMMITTED, timeout: object = TIMEOUT
    ) -> Self:
        """Wait until it has so many `records`. Raises WaitTimeout. Returns the handle."""
        level = ISOLATION.read(isolation, "isolation")

        def has() -> bool:
            partitions = find_topic(self._cluster.state, self.name).partitions
            # offsets first, which markers and aborted records have, too: the log is read only if there may be enough
            stored = sum(one.high_watermark - one.log_start_offset for one in partitions)
            return stored >= records and sum(1 for _ in islice(self._records(None, None, level), records)) >= records

        journal = self._cluster.observe()

        def now() -> str:
            from broker_sim.explain.topic_events import nothing_to_read

            logs = ", ".join(
                f"{one.name}: records {one.log_start_offset} to {one.log_end_offset}, high watermark {one.high_watermark}, "
                f"last stable offset {one.last_stable_offset}"
                for one in find_topic(self._cluster.state, self.name).partitions[:10]
            )
            return "; ".join(filter(None, [logs, nothing_to_read(journal.events, self.name)]))

        what = f"{records} record{'s'[: records - 1]} in {self.name}"
        await until(has, journal, timeout, what, now=now)
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

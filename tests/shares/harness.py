"""A member of a share group on the wire, as raw requests."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_wire.messages.k78_share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest
from kafka_wire.messages.k79_share_acknowledge import (
    AcknowledgementBatch as SaidBatch,
)
from kafka_wire.messages.k79_share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kafka_wire.record_batch import build_batch
from tests.support.wire import Wire

GROUP, TOPIC = "g", "orders"
ANN, BOB = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
Said = tuple[int, int, Sequence[int]]


class Member:
    """One member on one connection; ``version`` is that of ShareFetch and ShareAcknowledge."""

    def __init__(self, wire: Wire, topic_id: bytes, member_id: str = ANN, *, version: int = 2) -> None:
        self.wire, self.topic_id, self.member_id, self.version = wire, topic_id, member_id, version
        self.member_epoch = self.session_epoch = 0

    async def find(self) -> None:
        """Have the internal topics made, and the coordinator found."""
        for _ in range(2):
            found = (
                await self.wire.send(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4)
            ).coordinators[0]
        assert found.error_code == Err.NONE

    async def heartbeat(self, epoch: int | None = None, topic: str = TOPIC) -> ShareGroupHeartbeatResponse:
        epoch = self.member_epoch if epoch is None else epoch
        names = [topic] if epoch == 0 else None
        request = ShareGroupHeartbeatRequest(GROUP, self.member_id, epoch, subscribed_topic_names=names)
        answer: ShareGroupHeartbeatResponse = await self.wire.send(request, 1)
        self.member_epoch = answer.member_epoch
        return answer

    async def join(self) -> None:
        """Until it has partitions: with an assignment interval of 0 the second heartbeat brings them, unless they were there before."""
        answer = await self.heartbeat(0)
        if answer.assignment is None or not answer.assignment.topic_partitions:
            answer = await self.heartbeat()
        assert answer.assignment is not None
        assert answer.assignment.topic_partitions, answer

    async def fetch(self, *said: Said, epoch: int | None = None, **how: Any) -> Any:
        """A ShareFetch of partition 0; the response. It waits, as the first one has the partition loaded, and then gets records."""
        epoch = self.session_epoch if epoch is None else epoch
        batches = [AcknowledgementBatch(first, last, list(types)) for first, last, types in said]
        request = ShareFetchRequest(
            GROUP,
            self.member_id,
            epoch,
            **{"max_wait_ms": 1, "min_bytes": 1, "max_records": 500, "batch_size": 500, **how},
            topics=[FetchTopic(self.topic_id, [FetchPartition(0, batches)])],
        )
        answer = await self.wire.send(request, self.version)
        self._moved(answer, epoch)
        return answer

    async def acquired(self, *said: Said, **how: Any) -> list[tuple[int, int, int]]:
        """Return first offset, last offset and delivery count of each batch that a ShareFetch acquires."""
        answer = await self.fetch(*said, **how)
        assert answer.error_code == Err.NONE, answer
        return [
            (one.first_offset, one.last_offset, one.delivery_count)
            for topic in answer.responses
            for row in topic.partitions
            for one in row.acquired_records
        ]

    async def acknowledge(self, *said: Said, epoch: int | None = None, renew: bool = False) -> Any:
        """A ShareAcknowledge; its partition's row, or the error of the whole."""
        epoch = self.session_epoch if epoch is None else epoch
        batches = [SaidBatch(first, last, list(types)) for first, last, types in said]
        topics = [AcknowledgeTopic(self.topic_id, [AcknowledgePartition(0, batches)])]
        request = ShareAcknowledgeRequest(GROUP, self.member_id, epoch, is_renew_ack=renew, topics=topics)
        answer = await self.wire.send(request, self.version)
        self._moved(answer, epoch)
        return Err(answer.error_code) if answer.error_code else answer.responses[0].partitions[0]

    def _moved(self, answer: Any, epoch: int) -> None:
        if answer.error_code == Err.NONE:
            self.session_epoch = epoch + 1 if epoch >= 0 else 0


async def configure(wire: Wire, **settings: object) -> None:
    """Settings of the group's own, by names with ``_`` for dots."""
    configs = [AlterableConfig(name.replace("_", "."), 0, str(value)) for name, value in settings.items()]
    answer = await wire.send(IncrementalAlterConfigsRequest([AlterConfigsResource(32, GROUP, configs)]), 1)
    assert answer.responses[0].error_code == Err.NONE, answer


def _now_ms() -> int:
    """A manual clock begins then, too; records of another time would be due for retention, or refused."""
    return int(time.time() * 1000)


async def produce(wire: Wire, *batches: int, topic: str = TOPIC) -> None:
    """Batches of so many records each."""
    for size in batches:
        records = build_batch([(None, b"%d" % at) for at in range(size)], _now_ms())
        data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, records)])]
        answer = await wire.send(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data), 9)
        assert answer.responses[0].partition_responses[0].error_code == Err.NONE

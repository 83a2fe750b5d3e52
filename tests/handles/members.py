"""Members of a group over raw connections: they do what the test says and nothing by themselves."""

from __future__ import annotations

import asyncio
from typing import Any

from broker_sim import Cluster
from kafka_wire.codec import encode
from kafka_wire.errors import Err
from kafka_wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.wire import Wire

TOPIC = "orders"


def assignment(partitions: list[int]) -> bytes:
    """Return one member's encoded assignment: these partitions of the topic."""
    parts = [ConsumerProtocolAssignmentTopicPartition(TOPIC, partitions)]
    return b"\0\0" + encode(ConsumerProtocolAssignment(assigned_partitions=parts), 0)


class Member:
    """One member. ``instance``: its group.instance.id."""

    def __init__(self, wire: Wire, group: str, instance: str | None) -> None:
        self.wire, self.group, self.instance = wire, group, instance
        self.member_id, self.generation = "", -1

    @classmethod
    async def connect(
        cls, kafka: Cluster, group: str = "billing", client_id: str = "app", instance: str | None = None
    ) -> Member:
        """Connect to the coordinator."""
        coordinator = kafka.broker(kafka.offsets_log(group).leader)
        return cls(await Wire.connect(coordinator.address, client_id=client_id), group, instance)

    def join(self) -> asyncio.Future[Any]:
        """Send a JoinGroup."""
        subscription = b"\0\0" + encode(ConsumerProtocolSubscription(topics=[TOPIC]), 0)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", subscription)],
        )
        return self.wire.start(request, 5)

    def sync(self, assignments: dict[str, list[int]] | None = None) -> asyncio.Future[Any]:
        """Send a SyncGroup; a leader gives the partitions of each member."""
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            assignments=[
                SyncGroupRequestAssignment(member_id, assignment(parts))
                for member_id, parts in (assignments or {}).items()
            ],
        )
        return self.wire.start(request, 3)

    async def enter(self, partitions: tuple[int, ...] = (0,)) -> None:
        """Join a group that is empty, as its only member, and be assigned these partitions."""
        answer = await self.join()
        if answer.error_code == Err.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = await self.join()
        assert answer.error_code == 0, Err(answer.error_code)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        synced = await self.sync({self.member_id: list(partitions)})
        assert synced.error_code == 0, Err(synced.error_code)

    def commit(self, offset: int, partition: int = 0) -> asyncio.Future[Any]:
        """Send an OffsetCommit."""
        rows = [OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(partition, offset)])]
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=rows,
        )
        return self.wire.start(request, 8)

    async def close(self) -> None:
        await self.wire.close()


def commit_error(response: Any) -> Err:
    """The error of the first partition of an OffsetCommit's answer."""
    return Err(response.topics[0].partitions[0].error_code)

"""Somebody who administers a cluster while others work: topics and groups are made, grown, described, reset and deleted.

What the consumers of a workload rely on is not taken away: topics that they read only grow, groups with members only are looked at.
Whatever is deleted is of the administrator's own making, under a name that never comes again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from broker_sim.simulation.workloads.raw import OTHER, TOPIC, VERSIONS, RawClient
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k16_list_groups import ListGroupsRequest
from kafka_wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest
from kafka_wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from kafka_wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

if TYPE_CHECKING:
    from broker_sim.simulation.workloads.catalogue import Workload
    from broker_sim.simulation.workloads.raw import RawContext

__all__ = ["Admin"]

_GROUP = "idle"
"""A group without members, which is the administrator's alone."""

_MOST_PARTITIONS = 9
_TOPIC_RESOURCE = 2


class Admin(RawClient):
    """See the module. Its deeds are its methods that begin with ``_do_``."""

    SPANS: ClassVar[Mapping[Any, tuple[int, int]]] = {
        **VERSIONS,
        OffsetCommitRequest: (2, 8),
        OffsetFetchRequest: (2, 7),
        DescribeGroupsRequest: (0, 5),
        ListGroupsRequest: (0, 4),
        CreateTopicsRequest: (2, 7),
        DeleteTopicsRequest: (1, 5),
        DescribeConfigsRequest: (1, 4),
        CreatePartitionsRequest: (0, 3),
        DeleteGroupsRequest: (0, 2),
        IncrementalAlterConfigsRequest: (0, 1),
    }

    def __init__(self, context: RawContext, workload: Workload) -> None:
        super().__init__(context, "admin")
        self.workload = workload
        self.over = False
        self._made: list[str] = []
        self._count = 0
        self._parts = dict(workload.topics)

    async def run(self) -> None:
        """Send administrative requests until the workload ends."""
        self.begin()
        deeds = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("_do_")]
        self.context.deeds.life(self.name, self.rng)
        weights = [self.rng.random() ** 2 for _ in deeds]
        while not self.over:
            number = self.context.deeds.begin(self.name, self.rng)
            await asyncio.sleep(self.rng.expovariate(1))
            deed = self.rng.choices(deeds, weights)[0]
            if self.context.deeds.does(self.name, number):
                with contextlib.suppress(OSError):
                    await deed()

    async def _to_any(self, request: object) -> Any:
        return await self.ask(request, self.rng.randint(1, self.workload.brokers))

    async def _to_coordinator(self, request: object, group: str) -> Any:
        partition = self.context.kafka.runtime.partition_of(group)
        if partition is None or partition.leader < 0:
            return None
        return await self.ask(request, partition.leader)

    async def _do_create_a_topic(self) -> None:
        self._count += 1
        name = f"extra-{self._count}"
        self._made.append(name)
        await self._to_any(CreateTopicsRequest([CreatableTopic(name, self.rng.randint(1, 3), -1)], 1000))

    async def _do_delete_a_topic(self) -> None:
        if self._made:
            name = self._made.pop(self.rng.randrange(len(self._made)))
            await self._to_any(DeleteTopicsRequest(topic_names=[name], timeout_ms=1000))

    async def _do_grow_a_topic(self) -> None:
        name = self.rng.choice([*self._made, *self.workload.produced])
        topic = self.context.kafka.state.topics.get(name)
        count = 0 if topic is None else len(topic.partitions) + 1
        if 0 < count <= _MOST_PARTITIONS:
            await self._to_any(CreatePartitionsRequest([CreatePartitionsTopic(name, count, None)], 1000))

    async def _do_look_at_groups(self) -> None:
        groups = [_GROUP, *(team.group for team in self.workload.teams)]
        group = self.rng.choice(groups)
        await self._to_coordinator(DescribeGroupsRequest([group]), group)
        await self._to_any(ListGroupsRequest())
        await self._to_coordinator(OffsetFetchRequest(group, None), group)

    async def _do_look_at_settings(self) -> None:
        await self._to_any(DescribeConfigsRequest([DescribeConfigsResource(_TOPIC_RESOURCE, TOPIC, None)]))

    async def _do_change_a_setting(self) -> None:
        name, value = self.rng.choice((("segment.bytes", "1048576"), ("retention.ms", "600000"), ("flush.ms", "1000")))
        setting = AlterableConfig(name, self.rng.choice((0, 1)), value)
        await self._to_any(IncrementalAlterConfigsRequest([AlterConfigsResource(_TOPIC_RESOURCE, TOPIC, [setting])]))

    async def _do_commit_and_reset(self) -> None:
        """Offsets of the group without members, forward and back."""
        topic = OTHER if OTHER in self._parts else TOPIC
        parts = [OffsetCommitRequestPartition(index, self.context.value()) for index in range(self._parts[topic])]
        request = OffsetCommitRequest(_GROUP, topics=[OffsetCommitRequestTopic(topic, partitions=parts)])
        await self._to_coordinator(request, _GROUP)

    async def _do_delete_offsets(self) -> None:
        topic = OTHER if OTHER in self._parts else TOPIC
        parts = [OffsetDeleteRequestPartition(0)]
        await self._to_coordinator(OffsetDeleteRequest(_GROUP, [OffsetDeleteRequestTopic(topic, parts)]), _GROUP)

    async def _do_delete_a_group(self) -> None:
        group = self.rng.choice([_GROUP, _GROUP, *(team.group for team in self.workload.teams if not team.assigned)])
        await self._to_coordinator(DeleteGroupsRequest([group]), group)

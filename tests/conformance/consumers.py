"""Members of a consumer group (KIP-848) by hand, and the group's records in few words."""

from __future__ import annotations

import asyncio
from typing import Any

from broker_sim.coordinator.topics import TopicImage, Topics
from kafka_wire.codec import encode
from kafka_wire.errors import Err
from kafka_wire.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kafka_wire.offsets_log import decode_key, decode_value
from kafka_wire.record_batch import batches, records
from tests.conformance.driver import GIVE_UP_S, POLL_S, Kafka, clock_s
from tests.conformance.logs import OFFSETS, fetch_all, offsets_partition
from tests.support.epoch_records import whole
from tests.support.wire import DEADLINE_S

JOIN: dict[str, Any] = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": ["t0"], "topic_partitions": []}


class Consumers:
    """Members of the test's group, by their ids; each holds what it was told."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.first = 1 if kafka.generation == "4.1" else 2  # the epoch of the first join
        self.owned: dict[str, list[TopicPartitions]] = {}
        kafka.ignore("topic_id", because="it is drawn")

    async def at_once(self) -> Consumers:
        """Assignments are not put off (4.3)."""
        if self.kafka.generation != "4.1":
            await self.set("consumer.assignment.interval.ms", 0)
        return self

    async def set(self, name: str, value: int) -> None:
        """A setting of the group's own."""
        resource = AlterConfigsResource(32, self.kafka.group, [AlterableConfig(name, 0, str(value))])
        answer = await self.kafka.watch(IncrementalAlterConfigsRequest([resource]), 1)
        assert answer.responses[0].error_code == Err.NONE, answer
        give_up = clock_s() + DEADLINE_S
        while not await self._is_set(name, value):
            assert clock_s() < give_up, f"waited {DEADLINE_S} s for the group to have its setting"

    async def _is_set(self, name: str, value: int) -> bool:
        asked = DescribeConfigsRequest([DescribeConfigsResource(32, self.kafka.group)])
        answer = await self.kafka.watch(asked, 4)
        return any(one.name == name and one.value == str(value) for one in answer.results[0].configs)

    async def beat(self, member: str, epoch: int, **said: Any) -> ConsumerGroupHeartbeatResponse:
        fields = {"group_id": self.kafka.group, "member_id": member, "member_epoch": epoch, **said}
        answer = await self.kafka.ask(ConsumerGroupHeartbeatRequest(**fields), 1)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        if answer.assignment is not None:
            self.owned[member] = answer.assignment.topic_partitions
        return answer

    async def join(self, member: str, **said: Any) -> int:
        answer = await self.beat(member, 0, **{**JOIN, **said})
        assert answer.error_code == Err.NONE, answer.error_message
        return answer.member_epoch

    async def refused(self, member: str, epoch: int, **said: Any) -> Err:
        return Err((await self.beat(member, epoch, **said)).error_code)

    def has(self, member: str) -> list[int]:
        return [number for one in self.owned.get(member, []) for number in one.partitions]

    async def listed(self, **partitions: list[int]) -> list[TopicPartitions]:
        """Partitions as a heartbeat lists them."""
        topics = await self.topics(*partitions)
        return [TopicPartitions(topics.by_name[name].topic_id, numbers) for name, numbers in partitions.items()]

    async def described(self) -> DescribedGroup:
        answer = await self.kafka.ask(ConsumerGroupDescribeRequest([self.kafka.group]), 1)
        group = answer.groups[0]
        assert isinstance(group, DescribedGroup)
        return group

    def call(self, member_id: str, name: str) -> None:
        """A drawn id is shown by this name wherever it stands."""
        self.kafka.recording.named[member_id] = name

    async def until_gone(self, member: str) -> None:
        """Polls until the group has that member no more; nothing is recorded."""
        give_up = clock_s() + GIVE_UP_S
        while any(one.member_id == member for one in (await self.seen()).members):
            assert clock_s() < give_up, f"waited {GIVE_UP_S:g} s for {member} to be expelled"
            await asyncio.sleep(POLL_S)

    async def quietly(self, member: str, epoch: int) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat that says nothing new, not recorded."""
        request = ConsumerGroupHeartbeatRequest(group_id=self.kafka.group, member_id=member, member_epoch=epoch)
        answer: ConsumerGroupHeartbeatResponse = await self.kafka.watch(request, 1)
        return answer

    async def seen(self) -> DescribedGroup:
        """As `described`, not recorded."""
        group: DescribedGroup = (await self.kafka.watch(ConsumerGroupDescribeRequest([self.kafka.group]), 1)).groups[0]
        return group

    async def topics(self, *names: str) -> Topics:
        """Topics for the group's metadata hash, as Metadata has them now."""
        asked = MetadataRequest([MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)
        answer = await self.kafka.watch(asked, 12)
        found = Topics()
        found.change({t.name: TopicImage(t.topic_id, len(t.partitions)) for t in answer.topics if not t.error_code})
        return found

    async def hashes(self) -> list[int]:
        """The metadata hashes that the group's records have, one after the other; 0 where there is nothing to read."""
        return [
            0 if said is None else said.metadata_hash
            for batch in await self._batches()
            for kind, said in ((decode_key(key)[0], decode_value(decode_key(key)[0], value)) for key, value in batch)
            if kind == 3
        ]

    async def log(self) -> list[list[str]]:
        """As `quiet_log`, noted for the comparison between targets."""
        found = await self.quiet_log()
        self.kafka.recording.note("log", found)
        return found

    async def quiet_log(self) -> list[list[str]]:
        """The group's batches, each record in few words. What stands in the order of a hash map is sorted,
        record type by record type."""
        topics = await self.topics("t0", "t1")
        found: list[list[str]] = []
        for batch in await self._batches():
            lines = [
                (decode_key(key)[0], whole(key, value, lambda topic: topics.names.get(topic, "?")))
                for key, value in batch
            ]
            found.append([])
            at = 0
            while at < len(lines):
                end = at
                while end < len(lines) and lines[end][0] == lines[at][0]:
                    end += 1
                found[-1] += sorted(self.kafka.recording.without_names(line) for _, line in lines[at:end])
                at = end
        return found

    async def _batches(self) -> list[list[tuple[bytes, bytes | None]]]:
        group = self.kafka.group
        raw = await fetch_all(self.kafka.watch, OFFSETS, offsets_partition(group, 4))
        found = []
        for position, header in batches(raw):
            rows = [] if header.is_control else [(row.key or b"", row.value) for row in records(raw, position, header)]
            mine = [(key, value) for key, value in rows if _group_of(key) == group]
            if mine:
                found.append(mine)
        return found


def _group_of(key: bytes) -> str | None:
    named = decode_key(key)[1]
    return getattr(named, "group_id", getattr(named, "group", None))


def owning(topics: list[str], owned: dict[str, list[int]] | None = None, version: int = 1) -> bytes:
    """A classic member's subscription that says what it holds."""
    parts = [ConsumerProtocolSubscriptionTopicPartition(*item) for item in (owned or {}).items()]
    return version.to_bytes(2, "big") + encode(ConsumerProtocolSubscription(topics, None, parts), version)

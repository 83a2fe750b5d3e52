"""A share group: the state of its records (`ShareGroupState`), and the group as the shard sees it (`ShareGroup`).

Source: ShareGroup.java, ShareGroupMember, GroupMetadataManager's shareGroupStatePartitionMetadata (4.x).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.epochs.holdings import UnitEpochs, Units
from broker_sim.coordinator.epochs.reconcile import STABLE, Current
from broker_sim.coordinator.epochs.state import EpochState, Layout
from broker_sim.coordinator.outcome import CommitOffsets, Offset
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.records import EpochRecord, Record
from broker_sim.coordinator.topics import counted_names, no_longer_named
from kafka_wire import offsets_log as types
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log
from kafka_wire.messages.offsets_log import ShareGroupMemberMetadataValue as Member


def _read_current(value: log.ShareGroupCurrentMemberAssignmentValue) -> Current[bytes]:
    return Current(
        value.member_epoch,
        value.previous_member_epoch,
        STABLE,
        {topic.topic_id: dict.fromkeys(topic.partitions, 0) for topic in value.assigned_partitions},
    )


LAYOUT: Layout[bytes] = Layout(
    group=types.SHARE_GROUP_METADATA,
    member=types.SHARE_GROUP_MEMBER_METADATA,
    target_metadata=types.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
    target=types.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
    current=types.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    read_target=lambda value: {topic.topic_id: tuple(sorted(topic.partitions)) for topic in value.topic_partitions},
    read_current=_read_current,
)


class TopicState(NamedTuple):
    """Partitions of a topic, ascending, and the name that it had."""

    name: str
    partitions: tuple[int, ...]


Topic = dict[bytes, TopicState]
"""By topic id."""


@dataclass(slots=True)
class ShareGroupState(EpochState[bytes, Member]):
    """With it: how many members name a topic; which partitions' state is being made, is there, and is being removed. Targets and
    assignments may have topics without partitions, as Kafka's assignor leaves them."""

    named: Counter[str] = field(default_factory=Counter, compare=False)
    initializing: Topic = field(default_factory=dict)
    initialized: Topic = field(default_factory=dict)
    deleting: dict[bytes, str] = field(default_factory=dict)  # topic id -> name
    has_record: bool = False  # whether the group has a record of its partitions, be it an empty one

    def put_member(self, member_id: str, member: Member | None) -> None:
        before = self.members.get(member_id)
        if before is not None and self.counts_names:
            no_longer_named(self.named, before.subscribed_topic_names, by_all=len(self.members) == 1)
        if member is not None and self.counts_names:
            self.named.update(member.subscribed_topic_names)
        self.subscription_version += 1
        EpochState.put_member(self, member_id, member)

    def replay_other(self, record: EpochRecord) -> None:
        value: log.ShareGroupStatePartitionMetadataValue = record.value or log.ShareGroupStatePartitionMetadataValue()
        self.initializing = _read_topics(value.initializing_topics)
        self.initialized = _read_topics(value.initialized_topics)
        self.deleting = {topic.topic_id: topic.topic_name for topic in value.deleting_topics}
        self.has_record = record.value is not None

    def topics(self) -> Collection[str]:
        return self.named.keys()

    def copy(self) -> Self:
        other = self._copy_into(type(self)(self.layout, self.first_epoch))
        lists = (member.subscribed_topic_names for member in self.members.values())
        other.named = Counter(self.named) if self.counts_names else counted_names(lists)
        other.initializing, other.initialized = dict(self.initializing), dict(self.initialized)
        other.deleting, other.has_record = dict(self.deleting), self.has_record
        return other

    def _own(self, member_id: str, owned: UnitEpochs[bytes]) -> None:
        """Without effect: partitions of share groups have no owners."""

    def _release(self, member_id: str, owned: UnitEpochs[bytes]) -> None: ...

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members name the same topics, be these there or not (ModernGroup.subscriptionType)."""
        return all(count == len(self.members) for count in self.named.values())

    @property
    def has_partitions(self) -> bool:
        """Whether the share coordinators may know of it."""
        return bool(self.initializing or self.initialized or self.deleting)


def _read_topics(listed: list[log.TopicPartitionsInfo]) -> Topic:
    return {topic.topic_id: TopicState(topic.topic_name, tuple(sorted(topic.partitions))) for topic in listed}


@dataclass(slots=True, eq=False)
class ShareGroup(EpochGroup[ShareGroupState]):
    """A share group (KIP-932, ShareGroup.java)."""

    kind: ClassVar[str] = "share"
    states = ShareGroupState
    layout = LAYOUT
    record_types = frozenset({10, 11, 12, 13, 14, 15})

    assignor: str | None = "simple"
    initializing_since_ms: int = 0  # when states were last requested, or the group was loaded

    @staticmethod
    def is_read(policy: Policy) -> bool:
        return policy.has_share_records

    # what every kind of group answers (`Group`)

    @property
    def state_name(self) -> str:
        """Empty or Stable: members of share groups revoke nothing, so there is no state Reconciling."""
        return "Stable" if self.stored.members else "Empty"

    @property
    def listed_protocol_type(self) -> str:
        return "share"

    @property
    def reads_topics(self) -> bool:
        return True

    @property
    def is_settled(self) -> bool:
        latest = self.latest
        return latest.group_epoch <= latest.target_epoch and not latest.initializing and not self.has_unassigned()

    def subscribed(self, topic: str) -> bool:
        return topic in self.latest.named

    def validate_commit(self, request: CommitOffsets) -> Err:
        """GROUP_ID_NOT_FOUND: a share group has no committed offsets."""
        return Err.GROUP_ID_NOT_FOUND

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> Err:
        return Err.NONE

    def retention_begins_ms(self, topic: str, offset: Offset) -> int | None:
        return None

    @property
    def never_expires(self) -> bool:
        """True: its start offsets stay with the share coordinators until it is deleted."""
        return True

    def tombstones(self, policy: Policy) -> list[Record]:
        """The tombstones that delete the group, which has no members."""
        group_id = self.group_id
        return [
            EpochRecord(LAYOUT.target_metadata, log.ShareGroupTargetAssignmentMetadataKey(group_id), None),
            EpochRecord(types.SHARE_GROUP_STATE_PARTITION_METADATA, partitions_key(group_id), None),
            EpochRecord(LAYOUT.group, log.ShareGroupMetadataKey(group_id), None),
        ]

    # what its requests ask

    def has_unassigned(self, *, of_unread_topics: bool = False) -> bool:
        """Whether partitions that are initialized differ from those that members should have: of the topics that members read, or
        ``of_unread_topics`` also. Source: GroupMetadataManager.initializedAssignmentPending."""
        latest = self.latest
        if not latest.members:
            return False
        assigned: dict[bytes, set[int]] = {}
        for target in latest.targets.values():
            for topic_id, numbers in target.items():
                assigned.setdefault(topic_id, set()).update(numbers)
        initialized = {
            topic_id: set(topic.partitions)
            for topic_id, topic in latest.initialized.items()
            if of_unread_topics or topic.name in latest.named
        }
        if of_unread_topics:
            return initialized != assigned
        return any(assigned.get(topic_id) != numbers for topic_id, numbers in initialized.items())


# records


def member_key(group_id: str, member_id: str) -> log.ShareGroupMemberMetadataKey:
    return log.ShareGroupMemberMetadataKey(group_id, member_id)


def target_key(group_id: str, member_id: str) -> log.ShareGroupTargetAssignmentMemberKey:
    return log.ShareGroupTargetAssignmentMemberKey(group_id, member_id)


def current_key(group_id: str, member_id: str) -> log.ShareGroupCurrentMemberAssignmentKey:
    return log.ShareGroupCurrentMemberAssignmentKey(group_id, member_id)


def partitions_key(group_id: str) -> log.ShareGroupStatePartitionMetadataKey:
    return log.ShareGroupStatePartitionMetadataKey(group_id)


def target_value(target: Units[Any]) -> log.ShareGroupTargetAssignmentMemberValue:
    return log.ShareGroupTargetAssignmentMemberValue(
        [log.TopicPartition(topic_id, list(numbers)) for topic_id, numbers in target.items()]
    )


def current_value(current: Current[bytes]) -> log.ShareGroupCurrentMemberAssignmentValue:
    return log.ShareGroupCurrentMemberAssignmentValue(
        current.epoch,
        current.previous,
        current.state,
        [log.ShareTopicPartitions(topic_id, list(numbers)) for topic_id, numbers in current.assigned.items()],
    )


def partitions_value(
    initializing: Mapping[bytes, TopicState], initialized: Mapping[bytes, TopicState], deleting: Mapping[bytes, str]
) -> log.ShareGroupStatePartitionMetadataValue:
    """The record's value with the partitions whose state is being initialized, is initialized, is being deleted."""
    return log.ShareGroupStatePartitionMetadataValue(
        _listed(initializing.items()),
        _listed(initialized.items()),
        [log.TopicInfo(topic_id, name) for topic_id, name in deleting.items()],
    )


def _listed(topics: Iterable[tuple[bytes, TopicState]]) -> list[log.TopicPartitionsInfo]:
    return [log.TopicPartitionsInfo(topic_id, topic.name, list(topic.partitions)) for topic_id, topic in topics]

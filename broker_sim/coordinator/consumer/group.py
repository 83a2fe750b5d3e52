"""A consumer group: the state of its records (`ConsumerState`), and the group as the shard sees it (`ConsumerGroup`).

Members are stored as their records (``ConsumerGroupMemberMetadataValue``), topics by id. Source: ConsumerGroup.java, ModernGroup,
ConsumerGroupMember (4.x).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Self

from broker_sim.coordinator.epochs.commits import commit_error, stale_error
from broker_sim.coordinator.epochs.group import EpochGroup, session_key
from broker_sim.coordinator.epochs.holdings import UnitEpochs, Units, units_of
from broker_sim.coordinator.epochs.reconcile import STATES, Current
from broker_sim.coordinator.epochs.state import EpochState, Layout
from broker_sim.coordinator.outcome import CommitOffsets, Offset, TimerKey
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.records import EpochRecord, Record
from broker_sim.coordinator.topics import Topics, counted_names, no_longer_named
from kafka_wire import offsets_log as types
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log
from kafka_wire.messages.offsets_log import ConsumerGroupMemberMetadataValue as Member


def _read_owned(listed: list[log.TopicPartitions]) -> dict[bytes, dict[int, int]]:
    return {
        topic.topic_id: dict(
            zip(topic.partitions, topic.assignment_epochs or [0] * len(topic.partitions), strict=False)
        )
        for topic in listed
        if topic.partitions
    }


def _read_current(value: log.ConsumerGroupCurrentMemberAssignmentValue) -> Current[bytes]:
    return Current(
        value.member_epoch,
        value.previous_member_epoch,
        STATES[value.state],
        _read_owned(value.assigned_partitions),
        _read_owned(value.partitions_pending_revocation),
    )


LAYOUT: Layout[bytes] = Layout(
    group=types.CONSUMER_GROUP_METADATA,
    member=types.CONSUMER_GROUP_MEMBER_METADATA,
    target_metadata=types.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    target=types.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    current=types.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    read_target=lambda value: units_of((topic.topic_id, topic.partitions) for topic in value.topic_partitions),
    read_current=_read_current,
)


@dataclass(slots=True)
class ConsumerState(EpochState[bytes, Member]):
    """The state of a consumer group, with the members of instance ids, the number of subscribers of each topic, and the topics that
    each regular expression matches."""

    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    former_instance_ids_stay: bool = False  # see `Policy`
    named: Counter[str] = field(
        default_factory=Counter, compare=False
    )  # topic -> members that name it; see `counts_names`
    patterns: Counter[str] = field(default_factory=Counter)  # regular expression -> members that subscribe by it
    assignors: dict[str, int] = field(default_factory=dict)  # assignor -> members that ask for it
    matched: dict[str, log.ConsumerGroupRegularExpressionValue] = field(default_factory=dict)
    seen_homogeneous: bool | None = field(default=None, compare=False)  # see `was_homogeneous`

    def holder(self, instance_id: str) -> str | None:
        """The present member with an instance id, or None."""
        holder = self.static_members.get(instance_id)
        return holder if holder in self.members else None

    def put_member(self, member_id: str, member: Member | None) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._count(before, -1)
            gives_up = member is None or not self.former_instance_ids_stay
            if gives_up and before.instance_id is not None and self.static_members.get(before.instance_id) == member_id:
                del self.static_members[before.instance_id]
        if member is not None:
            self._count(member, 1)
            if member.instance_id is not None:
                self.static_members[member.instance_id] = member_id
        EpochState.put_member(self, member_id, member)
        self.seen_homogeneous = self._is_homogeneous_with_dropped() if self.matched and self.counts_names else None

    def replay_other(self, record: EpochRecord) -> None:
        if record.type != types.CONSUMER_GROUP_REGULAR_EXPRESSION:
            return  # 4, which said what topics looked like before there was a hash of it: read and left alone
        self.subscription_version += 1
        if record.value is None:
            self.matched.pop(record.key.regular_expression, None)
        else:
            self.matched[record.key.regular_expression] = record.value

    def copy(self) -> Self:
        other = self._copy_into(type(self)(self.layout, self.first_epoch))
        other.static_members, other.matched = dict(self.static_members), dict(self.matched)
        other.former_instance_ids_stay = self.former_instance_ids_stay
        other.named = Counter(self.named) if self.counts_names else counted_names(self._names())
        other.patterns = Counter(self.patterns)
        other.assignors = dict(self.assignors)
        other.seen_homogeneous = self.seen_homogeneous
        return other

    def _names(self) -> Iterator[list[str]]:
        return (member.subscribed_topic_names for member in self.members.values())

    def _count(self, member: Member, step: int) -> None:
        _vote(self.assignors, member.server_assignor, step)
        if self.counts_names and step > 0:
            self.named.update(member.subscribed_topic_names)
        elif self.counts_names:
            no_longer_named(self.named, member.subscribed_topic_names, by_all=len(self.members) == 1)
        if member.subscribed_topic_regex:
            self.patterns[member.subscribed_topic_regex] += step
            if not self.patterns[member.subscribed_topic_regex]:
                del self.patterns[member.subscribed_topic_regex]
        self.subscription_version += 1

    def votes(self) -> dict[str, int]:
        """Assignor -> members that ask for it, in the order of Kafka's map."""
        return {name: self.assignors[name] for name in _AS_HASHED if name in self.assignors}

    def topics_of(self, member: Member) -> frozenset[str]:
        """The topics of a member: those it names, and those that its regular expression matches."""
        return frozenset([*member.subscribed_topic_names, *self.matched_by(member)])

    def matched_by(self, member: Member) -> list[str]:
        """The topics that a member's regular expression matches."""
        matched = self.matched.get(member.subscribed_topic_regex or "")
        return [] if matched is None else matched.topics

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members have the same subscription, by names, be they of topics or not, or by one expression
        (ConsumerGroup.subscriptionType)."""
        counts, members = self.patterns or self.named, len(self.members)
        return not (self.patterns and self.named) and all(count == members for count in counts.values())

    @property
    def was_homogeneous(self) -> bool:
        """As `is_homogeneous`, but as of the last member's record: Kafka does not look again when an expression is dropped with its
        last subscriber, whose tombstone comes later, and then still counts its topics (`maybeUpdateGroupSubscriptionType`)."""
        return self.is_homogeneous if self.seen_homogeneous is None else self.seen_homogeneous

    def _is_homogeneous_with_dropped(self) -> bool:
        if self.patterns:
            return self.is_homogeneous
        members, named = len(self.members), self.named
        names = chain(named, *(value.topics for value in self.matched.values()))
        return all(named.get(name, 0) == members for name in names)

    def topics(self) -> Collection[str]:
        matched = [
            topic for pattern in self.patterns if pattern in self.matched for topic in self.matched[pattern].topics
        ]
        return self.named.keys() | matched if matched else self.named.keys()


Matching = Iterator[dict[str, list[str]] | None]
"""Looks which topics each regular expression matches: None before all is found."""


@dataclass(slots=True, eq=False)
class ConsumerGroup(EpochGroup[ConsumerState]):
    """A consumer group (KIP-848), which may have classic members (ConsumerGroup.java)."""

    kind: ClassVar[str] = "consumer"
    states = ConsumerState
    layout = LAYOUT
    record_types = frozenset({3, 4, 5, 6, 7, 8, 16})

    older_epochs_commit: bool = False
    must_rejoin: dict[str, None] = field(default_factory=dict)  # classic members that have to join again
    matched_version: int = -1  # of the topics, when regular expressions were matched against them last
    matched_ms: int | None = None  # when that result was handed to the log: the timestamp of its records

    @staticmethod
    def is_read(policy: Policy) -> bool:
        return policy.has_epoch_groups

    matching: Matching | None = None  # that is on
    to_resolve: tuple[str, ...] = ()  # the expressions of a refresh that is scheduled or on
    noted: tuple[ConsumerState, int] | None = None  # see `topics_changed`

    @classmethod
    def made(cls, group_id: str, policy: Policy) -> Self:
        made = super(ConsumerGroup, cls).made(group_id, policy)
        made.older_epochs_commit = policy.kept_partitions_commit_late
        for state in (made.stored, made.latest):
            state.former_instance_ids_stay = policy.former_instance_ids_stay
        return made

    # what every kind of group answers (`Group`)

    @property
    def listed_protocol_type(self) -> str:
        return "consumer"

    @property
    def reads_topics(self) -> bool:
        return True

    @property
    def is_settled(self) -> bool:
        latest = self.latest
        return latest.group_epoch <= latest.target_epoch and not latest.patterns

    def topics_changed(self, topics: Topics) -> bool:
        """Whether the topics that the group reads have changed since `note_topics`, or its epoch may have been reverted. Only then, or
        if its members read others, is their hash compared with that of its epoch (ConsumerGroup.hasMetadataExpired)."""
        noted = self.noted
        return noted is None or noted[0] is not self.latest or noted[1] != self.metadata_hash(topics)

    def note_topics(self, topics: Topics) -> None:
        """The topics as they are, and as the group reads them, count as known to it."""
        self.noted = self.latest, self.metadata_hash(topics)

    def session_of(self, member_id: str) -> tuple[TimerKey, int] | None:
        """A classic member has a session timeout of its own."""
        member = self.latest.members.get(member_id)
        if member is None:
            return None
        classic = member.classic_member_metadata
        timeout_ms = self.session_timeout_ms if classic is None else classic.session_timeout_ms
        return session_key(self.group_id, member_id), timeout_ms

    def subscribed(self, topic: str) -> bool:
        return topic in self.latest.named or any(
            topic in self.latest.matched[pattern].topics
            for pattern in self.latest.patterns
            if pattern in self.latest.matched
        )

    def validate_commit(self, request: CommitOffsets) -> Err:
        """An older epoch is accepted, if the release does so at all, for the partitions that the member has had since;
        `stale_partitions` returns the others."""
        is_classic = self._is_classic(request.member_id)
        return commit_error(self.latest, request, older_epochs=self.older_epochs_commit, is_classic=is_classic)

    def _is_classic(self, member_id: str) -> bool:
        member = self.latest.members.get(member_id)
        return member is not None and member.classic_member_metadata is not None

    def stale_partitions(self, request: CommitOffsets, topics: Topics) -> dict[tuple[str, int], Err]:
        """The partitions of a commit with an older epoch that the member got after that epoch, or has lost, with their error."""
        if not request.member_id or request.member_id not in self.latest.members:
            return {}
        current = self.latest.current(request.member_id)
        if request.generation >= current.epoch:
            return {}
        error = stale_error(request, is_classic=self._is_classic(request.member_id))
        return {
            (topic, partition): error
            for topic, partition, _ in request.offsets
            if request.generation < _since(current.assigned, topics.id_of(topic), partition)
        }

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> Err:
        if member_id is None:
            return (
                Err.UNKNOWN_SERVER_ERROR
            )  # an epoch without a member: Kafka looks up a member without an id and fails with an exception
        member = self.latest.members.get(member_id)
        if member is None:
            return Err.UNKNOWN_MEMBER_ID
        if member_epoch == self.latest.current(member_id).epoch:
            return Err.NONE
        return Err.STALE_MEMBER_EPOCH if member.classic_member_metadata is None else Err.ILLEGAL_GENERATION

    def retention_begins_ms(self, topic: str, offset: Offset) -> int | None:
        """The commit timestamp, for topics that no member subscribes to; else None."""
        return None if self.subscribed(topic) else offset.commit_ts_ms

    def tombstones(self, policy: Policy) -> list[Record]:
        """The tombstones that delete the group, which has no members."""
        group_id = self.group_id
        return [
            EpochRecord(LAYOUT.target_metadata, log.ConsumerGroupTargetAssignmentMetadataKey(group_id), None),
            EpochRecord(types.CONSUMER_GROUP_PARTITION_METADATA, log.ConsumerGroupPartitionMetadataKey(group_id), None),
            EpochRecord(LAYOUT.group, log.ConsumerGroupMetadataKey(group_id), None),
        ]

    # what its requests ask

    def preferred_assignor(self, default: str) -> str:
        """The assignor that most members ask for, as described."""
        return most(self.stored.votes(), default)


def most(votes: Mapping[str, int], default: str) -> str:
    """The assignor with most votes, of equal ones the first."""
    return max(votes, key=lambda name: votes[name], default=default)


def voted(votes: Mapping[str, int], before: str | None, new: str | None, default: str) -> str:
    """The assignor with most votes after a member's request with its vote.

    Kafka takes its vote out of a copy of the map and puts it in again with HashMap.compute, which inserts new entries before those in
    the same bin, as these are: of assignors with equal votes the one of this member wins, even if its vote is the same as before.
    """
    if not before and not new:
        return most(votes, default)
    after = dict(votes)
    _vote(after, before, -1)
    if new and new not in after:
        after = {new: 0, **after}
    _vote(after, new, 1)
    return most(after, default)


_AS_HASHED = ("uniform", "range")
"""As a TimelineHashMap of both has them."""


def _vote(votes: dict[str, int], assignor: str | None, step: int) -> None:
    if assignor:
        votes[assignor] = votes.get(assignor, 0) + step
        if not votes[assignor]:
            del votes[assignor]


def _since(assigned: UnitEpochs[bytes], topic_id: bytes | None, partition: int) -> float:
    numbers = {} if topic_id is None else assigned.get(topic_id, {})
    return numbers.get(partition, float("inf"))


# records


def member_key(group_id: str, member_id: str) -> log.ConsumerGroupMemberMetadataKey:
    return log.ConsumerGroupMemberMetadataKey(group_id, member_id)


def target_key(group_id: str, member_id: str) -> log.ConsumerGroupTargetAssignmentMemberKey:
    return log.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)


def current_key(group_id: str, member_id: str) -> log.ConsumerGroupCurrentMemberAssignmentKey:
    return log.ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)


def target_value(target: Units[Any]) -> log.ConsumerGroupTargetAssignmentMemberValue:
    return log.ConsumerGroupTargetAssignmentMemberValue(
        [log.TopicPartition(topic_id, list(numbers)) for topic_id, numbers in target.items()]
    )


def current_value(current: Current[bytes], *, with_epochs: bool) -> log.ConsumerGroupCurrentMemberAssignmentValue:
    """``with_epochs``: since when a member has each partition is stored (4.3)."""

    def listed(owned: UnitEpochs[bytes]) -> list[log.TopicPartitions]:
        return [
            log.TopicPartitions(topic_id, list(numbers), list(numbers.values()) if with_epochs else [])
            for topic_id, numbers in owned.items()
        ]

    return log.ConsumerGroupCurrentMemberAssignmentValue(
        current.epoch, current.previous, current.state, listed(current.assigned), listed(current.revoking)
    )

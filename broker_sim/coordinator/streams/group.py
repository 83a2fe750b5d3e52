"""A streams group: the state of its records (`StreamsState`), and the group as the shard sees it (`StreamsGroup`).

Tasks are units under a role and a subtopology. Source: StreamsGroup.java, StreamsGroupMember, StreamsCoordinatorRecordHelpers (4.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

from broker_sim.common.slices import at_once
from broker_sim.coordinator.epochs.commits import commit_error, stale_error
from broker_sim.coordinator.epochs.group import EpochGroup, state_name
from broker_sim.coordinator.epochs.holdings import UnitEpochs, Units, units_of
from broker_sim.coordinator.epochs.reconcile import STATES, Current
from broker_sim.coordinator.epochs.state import EpochState, Layout
from broker_sim.coordinator.outcome import CommitOffsets, Offset
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.records import EpochRecord, Record
from broker_sim.coordinator.streams.topology import (
    Configured,
    ReceivedTopology,
    Topology,
    configuring,
    required_topics,
    source_subtopologies,
)
from broker_sim.coordinator.topics import Topics
from kafka_wire import offsets_log as types
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log
from kafka_wire.messages.offsets_log import StreamsGroupMemberMetadataValue as Member

ACTIVE, STANDBY, WARMUP = "active", "standby", "warm-up"
ROLES = (ACTIVE, STANDBY, WARMUP)
_FIRST_STATE = 1  # on disk: a streams group's member states count from there (MemberState.java)


class TaskKey(NamedTuple):
    """The tasks of a subtopology in one role; a task's number is a partition's."""

    role: str
    subtopology: str


TaskOffsets = dict[tuple[str, int], int]
"""Subtopology and partition -> the sum of changelog offsets that a member has reported."""


def _read_target(value: log.StreamsGroupTargetAssignmentMemberValue) -> dict[TaskKey, tuple[int, ...]]:
    roles = zip(ROLES, (value.active_tasks, value.standby_tasks, value.warmup_tasks), strict=True)
    return units_of(
        (TaskKey(role, task_ids.subtopology_id), task_ids.partitions) for role, tasks in roles for task_ids in tasks
    )


def _read_owned(*roles: list[log.TaskIds]) -> dict[TaskKey, dict[int, int]]:
    return {
        TaskKey(role, task_ids.subtopology_id): dict(
            zip(task_ids.partitions, task_ids.assignment_epochs or [0] * len(task_ids.partitions), strict=False)
        )
        for role, tasks in zip(ROLES, roles, strict=True)
        for task_ids in tasks
        if task_ids.partitions
    }


def _read_current(value: log.StreamsGroupCurrentMemberAssignmentValue) -> Current[TaskKey]:
    return Current(
        value.member_epoch,
        value.previous_member_epoch,
        STATES[value.state - _FIRST_STATE],
        _read_owned(value.active_tasks, value.standby_tasks, value.warmup_tasks),
        _read_owned(
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
        ),
    )


LAYOUT: Layout[TaskKey] = Layout(
    group=types.STREAMS_GROUP_METADATA,
    member=types.STREAMS_GROUP_MEMBER_METADATA,
    target_metadata=types.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    target=types.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
    current=types.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    read_target=_read_target,
    read_current=_read_current,
)


@dataclass(slots=True)
class StreamsState(EpochState[TaskKey, Member]):
    """The state of a streams group, with the topology and its epoch that was validated against the topics (-1: none), the settings of
    the last assignment, the member of each instance id, and the owners of each task (several members may own it, in different
    roles)."""

    topology: Topology | None = None
    validated_epoch: int = -1
    assignment_settings: dict[str, str] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    holders: dict[TaskKey, dict[int, dict[str, None]]] = field(default_factory=dict)  # key -> number -> member ids

    def replay(self, record: EpochRecord) -> None:
        """Apply one record of the group to the state."""
        EpochState.replay(self, record)
        if record.type == LAYOUT.group:
            value: log.StreamsGroupMetadataValue = record.value or log.StreamsGroupMetadataValue()
            self.validated_epoch = value.validated_topology_epoch
            self.assignment_settings = {config.key: config.value for config in value.last_assignment_configs or ()}

    def replay_other(self, record: EpochRecord) -> None:
        self.topology = record.value
        self.subscription_version += 1

    def put_member(self, member_id: str, member: Member | None) -> None:
        before = self.members.get(member_id)
        instance_id = None if before is None else before.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if member is not None and member.instance_id is not None:
            self.static_members[member.instance_id] = member_id
        EpochState.put_member(self, member_id, member)

    def topics(self) -> list[str]:
        return [] if self.topology is None else required_topics(self.topology)

    def copy(self) -> Self:
        other = self._copy_into(type(self)(self.layout, self.first_epoch))
        other.topology, other.validated_epoch = self.topology, self.validated_epoch
        other.assignment_settings, other.static_members = dict(self.assignment_settings), dict(self.static_members)
        other.holders = {
            key: {number: dict(members) for number, members in numbers.items()} for key, numbers in self.holders.items()
        }
        return other

    def is_taken_from(self, member_id: str, key: TaskKey, number: int, *, in_place: bool) -> bool:
        """Whether a task can't be given to a member in a role yet: an active one that any member has as active, and any that a member
        of the same process has in any role. ``in_place``: what the member itself has in another role doesn't count."""
        if not self.holders:  # as for the 10,000 tasks of a first member
            return False
        for role in ROLES:
            at = TaskKey(role, key.subtopology)
            holders = self.holders.get(at, {}).get(number)
            if not holders:
                continue
            if in_place and role != key.role and number in self.current(member_id).assigned.get(at, ()):
                continue
            process_id = self.members[member_id].process_id
            if any(role == key.role == ACTIVE or self.members[other].process_id == process_id for other in holders):
                return True
        return False

    def _own(self, member_id: str, owned: UnitEpochs[TaskKey]) -> None:
        for key, numbers in owned.items():
            for number in numbers:
                self.holders.setdefault(key, {}).setdefault(number, {})[member_id] = None

    def _release(self, member_id: str, owned: UnitEpochs[TaskKey]) -> None:
        for key, numbers in owned.items():
            for number in numbers:
                members = self.holders.get(key, {}).get(number, {})
                members.pop(member_id, None)
                if not members and number in self.holders.get(key, {}):
                    del self.holders[key][number]
            if key in self.holders and not self.holders[key]:
                del self.holders[key]


@dataclass(slots=True)
class ReportedOffsets:
    """The last changelog offsets that a member has reported for its tasks."""

    offsets: TaskOffsets = field(default_factory=dict)
    end_offsets: TaskOffsets = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class StreamsGroup(EpochGroup[StreamsState]):
    """One streams group. Its own working state: ``delayed``: the initial rebalance delay runs; ``shutdown_by``: the member that asked
    for the shutdown of the application; ``endpoint_epoch`` counts changes of the returned user endpoints; ``reported``: changelog
    offsets by member; ``shown``: the topology as the last heartbeat found it."""

    kind: ClassVar[str] = "streams"
    answers_are_independent = False  # members are sent the user endpoints and tasks of others
    states = StreamsState
    layout = LAYOUT
    record_types = frozenset({17, 19, 20, 21, 22, 23})

    assignor: str | None = "sticky"
    delayed: bool = False
    shutdown_by: str | None = None
    endpoint_epoch: int = 0
    reported: dict[str, ReportedOffsets] = field(default_factory=dict)
    shown: Configured | None = None
    _configured: tuple[Topology, int, Configured] | None = None

    @staticmethod
    def is_read(policy: Policy) -> bool:
        return policy.has_streams_records

    # what every kind of group answers (`Group`)

    @property
    def state_name(self) -> str:
        stored = self.stored
        if stored.members and (stored.topology is None or stored.topology.epoch != stored.validated_epoch):
            return "NotReady"
        return state_name(stored)

    @property
    def listed_protocol_type(self) -> str:
        return "streams"

    @property
    def reads_topics(self) -> bool:
        return True

    @property
    def is_settled(self) -> bool:
        latest = self.latest
        if self.delayed or self.shutdown_by is not None or latest.topology is None:
            return False
        return latest.group_epoch <= latest.target_epoch and latest.topology.epoch == latest.validated_epoch

    def subscribed(self, topic: str) -> bool:
        topology = self.latest.topology
        return bool(self.latest.members) and topology is not None and topic in source_subtopologies(topology)

    def validate_commit(self, request: CommitOffsets) -> Err:
        """As a consumer group; for an older epoch `stale_partitions` returns the partitions that it is refused for."""
        return commit_error(self.latest, request, older_epochs=True)

    def stale_partitions(self, request: CommitOffsets, topics: Topics) -> dict[tuple[str, int], Err]:
        """If any partition of a commit with an older epoch belongs to a task that the member got after that epoch, or has lost, all
        partitions are refused."""
        if not request.member_id or request.member_id not in self.latest.members:
            return {}
        current, topology = self.latest.current(request.member_id), self.latest.topology
        if request.generation >= current.epoch:
            return {}
        readers = {} if topology is None else source_subtopologies(topology)

        def since(topic: str, partition: int) -> float:
            key = TaskKey(ACTIVE, readers.get(topic, ""))
            for owned in (current.assigned, current.revoking):
                if topic in readers and partition in owned.get(key, ()):
                    return owned[key][partition]
            return float("inf")

        if all(request.generation >= since(topic, partition) for topic, partition, _ in request.offsets):
            return {}
        return {(topic, partition): stale_error(request) for topic, partition, _ in request.offsets}

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> Err:
        if member_id is None:
            # as of a consumer group: Kafka looks for a member without an id, and falls over it
            return Err.UNKNOWN_SERVER_ERROR
        if member_id not in self.latest.members:
            return Err.UNKNOWN_MEMBER_ID
        return Err.NONE if member_epoch == self.latest.current(member_id).epoch else Err.STALE_MEMBER_EPOCH

    def retention_begins_ms(self, topic: str, offset: Offset) -> int | None:
        """With the commit, for what no task reads."""
        return None if self.subscribed(topic) else offset.commit_ts_ms

    def tombstones(self, policy: Policy) -> list[Record]:
        """The tombstones that delete the group, which has no members."""
        group_id = self.group_id
        return [
            EpochRecord(LAYOUT.target_metadata, log.StreamsGroupTargetAssignmentMetadataKey(group_id), None),
            EpochRecord(LAYOUT.group, log.StreamsGroupMetadataKey(group_id), None),
            EpochRecord(types.STREAMS_GROUP_TOPOLOGY, log.StreamsGroupTopologyKey(group_id), None),
        ]

    # what its requests ask

    def configured(self, topology: Topology, topics: Topics) -> Configured:
        """A topology on the topics as they are. Raises Refused."""
        known = self._configured
        if known is not None and known[0] is topology and known[1] == topics.version:
            return known[2]
        result = at_once(configuring(topology, topics))
        self._configured = topology, topics.version, result
        return result

    def configured_as(self, received: ReceivedTopology) -> None:
        """Store the configured topology, which was computed before."""
        if isinstance(received.result, Configured):
            self._configured = received.topology, received.version, received.result


# records


def member_key(group_id: str, member_id: str) -> log.StreamsGroupMemberMetadataKey:
    return log.StreamsGroupMemberMetadataKey(group_id, member_id)


def target_key(group_id: str, member_id: str) -> log.StreamsGroupTargetAssignmentMemberKey:
    return log.StreamsGroupTargetAssignmentMemberKey(group_id, member_id)


def current_key(group_id: str, member_id: str) -> log.StreamsGroupCurrentMemberAssignmentKey:
    return log.StreamsGroupCurrentMemberAssignmentKey(group_id, member_id)


def target_value(target: Units[TaskKey]) -> log.StreamsGroupTargetAssignmentMemberValue:
    return log.StreamsGroupTargetAssignmentMemberValue(
        *(
            [log.TargetTaskIds(subtopology, list(numbers)) for subtopology, numbers in _of_role(target.items(), role)]
            for role in ROLES
        )
    )


def current_value(current: Current[TaskKey]) -> log.StreamsGroupCurrentMemberAssignmentValue:
    """The record's value with a member's current assignment; active tasks have the epochs at which the member was given them."""

    def listed(owned: UnitEpochs[TaskKey], role: str) -> list[log.TaskIds]:
        return [
            log.TaskIds(subtopology, list(numbers), list(numbers.values()) if role == ACTIVE else [])
            for subtopology, numbers in _of_role(owned.items(), role)
        ]

    return log.StreamsGroupCurrentMemberAssignmentValue(
        current.epoch,
        current.previous,
        current.state + _FIRST_STATE,
        *(listed(owned, role) for owned in (current.assigned, current.revoking) for role in ROLES),
    )


def group_value(state: StreamsState, epoch: int, **changed: Any) -> log.StreamsGroupMetadataValue:
    """The group's record with another epoch; what else is ``changed``: ``metadata_hash``, ``validated_epoch``, ``settings``."""
    settings: Mapping[str, str] = changed.get("settings", state.assignment_settings)
    return log.StreamsGroupMetadataValue(
        epoch,
        changed.get("metadata_hash", state.metadata_hash),
        changed.get("validated_epoch", state.validated_epoch),
        [log.LastAssignmentConfig(key, value) for key, value in settings.items()],
    )


def _of_role(tasks: Iterable[tuple[TaskKey, Any]], role: str) -> list[tuple[str, Any]]:
    """Subtopology and numbers, sorted by the former."""
    return sorted((key.subtopology, numbers) for key, numbers in tasks if key.role == role)

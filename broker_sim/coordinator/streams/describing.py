"""StreamsGroupDescribe: what readers see of a streams group, which is what the log has committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_sim.coordinator.classic.vote import java_order
from broker_sim.coordinator.epochs.holdings import Units, units
from broker_sim.coordinator.queries import visible
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.streams.group import ACTIVE, STANDBY, WARMUP, StreamsGroup, TaskKey, TaskOffsets
from broker_sim.coordinator.streams.topology import ConfiguredSubtopology, InternalTopic
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log
from kafka_wire.messages.k89_streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

ASSIGNOR = "sticky"


def describe(shard: ShardState, group_id: str) -> DescribedGroup:
    """A group, or the error."""
    group = visible(shard, group_id)
    if group is None or group.is_dead:
        return DescribedGroup(Err.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.", group_id)
    if not isinstance(group, StreamsGroup):
        return DescribedGroup(Err.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.", group_id)
    stored = group.stored
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=stored.group_epoch,
        assignment_epoch=stored.target_epoch,
        topology=_topology(group),
        members=[_member(group, member_id, member) for member_id, member in stored.members.items()],
        assignor_name=ASSIGNOR,
    )


def _member(group: StreamsGroup, member_id: str, member: log.StreamsGroupMemberMetadataValue) -> Member:
    stored, reported, endpoint = group.stored, group.reported.get(member_id), member.user_endpoint
    current = stored.current(member_id)
    return Member(
        member_id=member_id,
        member_epoch=current.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=[KeyValue(one.key, one.value) for one in member.client_tags],
        task_offsets=[] if reported is None else _offsets(reported.offsets),
        task_end_offsets=[] if reported is None else _offsets(reported.end_offsets),
        assignment=_tasks(units(current.assigned)),
        target_assignment=_tasks(stored.target(member_id)),
    )


def _offsets(offsets: TaskOffsets) -> list[TaskOffset]:
    return [TaskOffset(name, number, offset) for (name, number), offset in offsets.items()]


def _tasks(held: Units[TaskKey]) -> Assignment:
    def of(role: str) -> list[TaskIds]:
        named = {key.subtopology: numbers for key, numbers in held.items() if key.role == role}
        return [TaskIds(name, list(named[name])) for name in java_order(named)]

    return Assignment(of(ACTIVE), of(STANDBY), of(WARMUP))


def _topology(group: StreamsGroup) -> Topology | None:
    """As it was found at the last heartbeat, if it could run then; else as the members brought it."""
    topology, found = group.stored.topology, group.shown
    if found is not None and found.is_ready:
        return Topology(found.epoch, [_configured(name, one) for name, one in found.subtopologies.items()])
    if topology is None:
        return None
    in_order = sorted(topology.subtopologies, key=lambda one: one.subtopology_id)
    return Topology(topology.epoch, [_brought(one) for one in in_order])


def _configured(name: str, one: ConfiguredSubtopology) -> Subtopology:
    def infos(topics: Mapping[str, InternalTopic]) -> list[TopicInfo]:
        return [
            TopicInfo(
                topic.name,
                topic.partitions,
                topic.replication_factor,
                [KeyValue(key, topic.configs[key]) for key in java_order(topic.configs)],
            )
            for _, topic in sorted(topics.items())
        ]

    return Subtopology(
        name,
        list(one.source_topics),
        list(one.repartition_sink_topics),
        infos(one.changelog_topics),
        infos(one.repartition_source_topics),
    )


def _brought(one: log.Subtopology) -> Subtopology:
    def infos(topics: Iterable[log.InternalTopicInfo]) -> list[TopicInfo]:
        return [
            TopicInfo(
                topic.name,
                topic.partitions,
                topic.replication_factor,
                [KeyValue(config.key, config.value) for config in topic.topic_configs],
            )
            for topic in sorted(topics, key=lambda topic: topic.name)
        ]

    return Subtopology(
        one.subtopology_id,
        sorted(one.source_topics),
        sorted(one.repartition_sink_topics),
        infos(one.state_changelog_topics),
        infos(one.repartition_source_topics),
    )

"""StreamsGroupDescribe: what readers see of a streams group, which is what the log has committed."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping

from broker_sim.common.slices import Pace, in_order
from broker_sim.coordinator.classic.vote import java_order, java_ordering
from broker_sim.coordinator.epochs.holdings import Units, units
from broker_sim.coordinator.queries import visible
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.streams.group import ACTIVE, STANDBY, WARMUP, StreamsGroup, TaskKey, TaskOffsets
from broker_sim.coordinator.streams.topology import Configured, ConfiguredSubtopology, InternalTopic
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
_PIECE = 2000  # names, tags, settings and offsets that are listed before others are served
_SUBTOPOLOGY = 20  # what one takes, in these


def describing(shard: ShardState, group_id: str) -> Generator[None, None, DescribedGroup]:
    """A group as it is now, or the error, in pieces."""
    pace = Pace(_PIECE)
    group = visible(shard, group_id)
    if group is None or group.is_dead:
        return DescribedGroup(Err.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.", group_id)
    if not isinstance(group, StreamsGroup):
        return DescribedGroup(Err.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.", group_id)
    stored = group.stored
    answer = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=stored.group_epoch,
        assignment_epoch=stored.target_epoch,
        members=[_member(group, member_id, member) for member_id, member in stored.members.items()],
        assignor_name=ASSIGNOR,
    )
    reports = [(member.client_tags, group.reported.get(member_id)) for member_id, member in stored.members.items()]
    topology, configured = stored.topology, group.shown
    for member_row, (tags, reported) in zip(answer.members, reports, strict=True):
        member_row.client_tags = yield from _tags(((tag.key, tag.value) for tag in tags), pace)
        if reported is not None:
            member_row.task_offsets = yield from _offsets(reported.offsets, pace)
            member_row.task_end_offsets = yield from _offsets(reported.end_offsets, pace)
    answer.topology = yield from _topology(topology, configured, pace)
    return answer


def _member(group: StreamsGroup, member_id: str, member: log.StreamsGroupMemberMetadataValue) -> Member:
    """A member's row without its lists that may be long."""
    stored, endpoint = group.stored, member.user_endpoint
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
        assignment=_tasks(units(current.assigned)),
        target_assignment=_tasks(stored.target(member_id)),
    )


def _tags(rows: Iterable[tuple[str, str]], pace: Pace) -> Generator[None, None, list[KeyValue]]:
    tags: list[KeyValue] = []
    for row in rows:
        if pace.full():
            yield
        tags.append(KeyValue(*row))
    return tags


def _offsets(offsets: TaskOffsets, pace: Pace) -> Generator[None, None, list[TaskOffset]]:
    rows: list[TaskOffset] = []
    for (name, number), offset in offsets.items():
        if pace.full():
            yield
        rows.append(TaskOffset(name, number, offset))
    return rows


def _tasks(owned: Units[TaskKey]) -> Assignment:
    def of(role: str) -> list[TaskIds]:
        named = {key.subtopology: numbers for key, numbers in owned.items() if key.role == role}
        return [TaskIds(name, list(named[name])) for name in java_order(named)]

    return Assignment(of(ACTIVE), of(STANDBY), of(WARMUP))


def _topology(
    topology: log.StreamsGroupTopologyValue | None, shown: Configured | None, pace: Pace
) -> Generator[None, None, Topology | None]:
    """As it was found at the last heartbeat, if it could run then; else as the members sent it."""
    rows: list[Subtopology] = []
    if shown is not None and shown.is_ready:
        for name, subtopology in shown.subtopologies.items():
            row = yield from _configured(name, subtopology, pace)
            rows.append(row)
        return Topology(shown.epoch, rows)
    if topology is None:
        return None
    for received in sorted(topology.subtopologies, key=lambda item: item.subtopology_id):
        row = yield from _received(received, pace)
        rows.append(row)
    return Topology(topology.epoch, rows)


def _configured(name: str, subtopology: ConfiguredSubtopology, pace: Pace) -> Generator[None, None, Subtopology]:
    def infos(topics: Mapping[str, InternalTopic]) -> Generator[None, None, list[TopicInfo]]:
        rows: list[TopicInfo] = []
        for at in (yield from in_order(topics)):
            topic = topics[at]
            keys = yield from java_ordering(topic.configs)
            configs = yield from _tags(((key, topic.configs[key]) for key in keys), pace)
            if pace.full():
                yield
            rows.append(TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs))
        return rows

    if pace.full(_SUBTOPOLOGY):
        yield
    return Subtopology(
        name,
        list(subtopology.source_topics),
        list(subtopology.repartition_sink_topics),
        (yield from infos(subtopology.changelog_topics)),
        (yield from infos(subtopology.repartition_source_topics)),
    )


def _received(subtopology: log.Subtopology, pace: Pace) -> Generator[None, None, Subtopology]:
    def infos(topics: Iterable[log.InternalTopicInfo]) -> Generator[None, None, list[TopicInfo]]:
        by_name: dict[str, list[log.InternalTopicInfo]] = {}
        rows: list[TopicInfo] = []
        for topic in topics:
            if pace.full():
                yield
            by_name.setdefault(topic.name, []).append(topic)
        for name in (yield from in_order(by_name)):
            for topic in by_name[name]:
                if pace.full():
                    yield
                configs = yield from _tags(((config.key, config.value) for config in topic.topic_configs), pace)
                rows.append(TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs))
        return rows

    if pace.full(_SUBTOPOLOGY):
        yield
    return Subtopology(
        subtopology.subtopology_id,
        (yield from in_order(subtopology.source_topics)),
        (yield from in_order(subtopology.repartition_sink_topics)),
        (yield from infos(subtopology.state_changelog_topics)),
        (yield from infos(subtopology.repartition_source_topics)),
    )

"""Checks of a StreamsGroupHeartbeat's fields, before its group is looked up, and the error response.

Source: GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid and ...IsUsingUnsupportedFeatures (4.4), with their order
and messages.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass

from broker_sim.common.slices import Pace, in_order
from broker_sim.coordinator.epochs.expected import Expected
from broker_sim.coordinator.epochs.reconcile import LEFT, LEFT_TEMPORARILY
from broker_sim.coordinator.epochs.refused import Refused, is_not_blank, need
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.streams.topology import InternalTopic, ReceivedTopology
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log
from kafka_wire.messages.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskOffset,
)
from kafka_wire.messages.offsets_log import StreamsGroupMemberMetadataValue as Member

_PIECE = 2000  # elements that are looked at before others are served
Request = StreamsGroupHeartbeatRequest
Response = StreamsGroupHeartbeatResponse


@dataclass(slots=True)
class StreamsHeartbeat:
    """A heartbeat whose form was looked at, the topology that it brings, and its client tags as the member's record has them: sorted by
    their keys. ``expected``: that record, where many tags made it long."""

    request: Request
    received: ReceivedTopology | None = None
    tags: list[log.KeyValue] | None = None
    expected: Expected[Member] | None = None

    @property
    def group_id(self) -> str:
        return self.request.group_id


def reading_tags(request: Request) -> Generator[None, None, list[log.KeyValue] | None]:
    """The client tags of a heartbeat, sorted, in pieces: one of each key, the last."""
    if request.client_tags is None:
        return None
    pace, values = Pace(_PIECE), dict[str, str]()
    for tag in request.client_tags:
        if pace.full():
            yield
        values[tag.key] = tag.value
    rows: list[log.KeyValue] = []
    for key in (yield from in_order(values)):
        if pace.full():
            yield
        rows.append(log.KeyValue(key, values[key]))
    return rows


Answer = tuple[Response, Mapping[str, InternalTopic]]
"""A heartbeat's answer, and the internal topics that the broker is to create."""


def refusal(error: Err, words: str | None = None) -> Answer:
    """An answer that is nothing but an error."""
    return Response(error_code=error, error_message=words), {}


def checking(request: Request, policy: Policy) -> Generator[None, None, None]:
    """Check a request's fields, in pieces. Raises Refused for a request that is invalid for every group."""
    pace = Pace(_PIECE)
    topology, epoch = request.topology, request.member_epoch
    need(policy.has_static_streams_members or request.instance_id is None, "Static membership is not yet supported.")
    if not policy.has_task_offsets:
        need(request.task_offsets is None, "TaskOffsets are not supported yet.")
        need(request.task_end_offsets is None, "TaskEndOffsets are not supported yet.")
        need(not request.warmup_tasks, "WarmupTasks are not supported yet.")
    for subtopology in topology.subtopologies if topology is not None else ():
        if pace.full():
            yield
        need(not subtopology.source_topic_regex, "Regular expressions for source topics are not supported yet.")
    need(is_not_blank(request.member_id), "MemberId can't be empty.")
    need(is_not_blank(request.group_id), "GroupId can't be empty.")
    need(is_not_blank(request.instance_id), "InstanceId can't be empty.")
    need(is_not_blank(request.rack_id), "RackId can't be empty.")
    if epoch == 0:
        yield from _check_join(request, pace)
    elif epoch == LEFT_TEMPORARILY:
        need(request.instance_id is not None, "InstanceId can't be null.")
    elif epoch < LEFT:
        need(False, f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(listed is not None for listed in tasks):
        need(all(listed is not None for listed in tasks), "If one task-type is non-null, all must be non-null.")
    if epoch != 0:
        need(topology is None, "Topology can only be provided when (re-)joining.")
    if epoch >= 0:
        yield from _check_offsets(request.task_offsets, pace)
        yield from _check_offsets(request.task_end_offsets, pace)


def _check_join(request: Request, pace: Pace) -> Generator[None, None, None]:
    need(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
    need(request.active_tasks == [], "ActiveTasks must be empty when (re-)joining.")
    need(request.standby_tasks == [], "StandbyTasks must be empty when (re-)joining.")
    need(request.warmup_tasks == [], "WarmupTasks must be empty when (re-)joining.")
    topology = request.topology
    if topology is None:
        raise Refused(Err.INVALID_REQUEST, "Topology must be non-null when (re-)joining.")
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if pace.full():
                yield
            if topic.partitions:
                raise Refused(
                    Err.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to {topic.partitions}.",
                )


def _check_offsets(listed: Iterable[TaskOffset] | None, pace: Pace) -> Generator[None, None, None]:
    named: set[tuple[str, int]] = set()
    for task_ids in listed or ():
        if pace.full():
            yield
        task = task_ids.subtopology_id, task_ids.partition
        if task in named:
            words = f"Task offsets contain a duplicate entry for subtopology {task[0]} and partition {task[1]}."
            raise Refused(Err.INVALID_REQUEST, words)
        named.add(task)

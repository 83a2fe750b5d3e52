"""StreamsGroupHeartbeat (88, KIP-1071). v1 has the acceptable recovery lag as 64 bits, and MISSING_CLIENT_TAGS among the status codes.

* Topic names are looked at before the group is, as in Kafka's KafkaApis.
* Missing internal topics are created with the response that reports them: the next heartbeat finds them. What could not be created
  is reported with the status from the next heartbeat on.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from itertools import chain
from operator import attrgetter

from broker_sim.common.refusals import warn_of_group
from broker_sim.common.slices import Job, Pace, chunked, ended
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.shard import Shard
from broker_sim.coordinator.streams.group import StreamsGroup
from broker_sim.coordinator.streams.heartbeat import expecting
from broker_sim.coordinator.streams.requests import Answer, StreamsHeartbeat, checking, reading_tags
from broker_sim.coordinator.streams.topology import InternalTopic, StatusCode, receiving
from broker_sim.handlers.groups import find_shard, repeatable
from broker_sim.metadata.cluster_state import ClusterState
from broker_sim.metadata.creation_limits import check_total
from broker_sim.metadata.topics import INTERNAL_TOPICS, KafkaError, check_topic_name
from broker_sim.requests.context import RequestContext
from broker_sim.runtime.group_coordinator import GroupCoordinator
from kafka_wire.errors import Err
from kafka_wire.messages.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)

log = logging.getLogger("broker_sim.coordinator")

_WORDS = "streams groups are switched off: group.coordinator.rebalance.protocols has to contain streams"
_PIECE = 2000  # names that are looked at before others are served
_SUBTOPOLOGY = 20  # what one takes besides its names, in these
_TOPIC_COST = 100  # what creating a topic takes besides its partitions
_NAMED = 3  # topics whose creation failed that a status names


def handle(ctx: RequestContext, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse | None:
    """Whether there are streams groups, the names of the topology's topics, the request's form, the coordinator check; then the
    group."""
    response: StreamsGroupHeartbeatResponse | None = ctx.in_pieces(_heartbeat(ctx, request))
    return response


def _heartbeat(
    ctx: RequestContext, request: StreamsGroupHeartbeatRequest
) -> Generator[None, None, StreamsGroupHeartbeatResponse | None]:
    state, runtime = ctx.broker.state, ctx.coordinators.groups
    if not state.config.has_streams_groups:
        warn_of_group(state.warned_once, log, ctx.client_id, request.group_id, _WORDS)
        return StreamsGroupHeartbeatResponse(error_code=Err.UNSUPPORTED_VERSION)
    try:
        yield from _check_names(request.topology)
        yield from checking(request, runtime.settings.policy)
    except Refused as refused:
        return StreamsGroupHeartbeatResponse(error_code=refused.error, error_message=refused.words)
    shard = find_shard(ctx, request.group_id)
    if isinstance(shard, Err):
        return StreamsGroupHeartbeatResponse(error_code=shard)
    body = yield from _read(ctx, request, shard)
    shard = find_shard(ctx, request.group_id)  # it may have moved meanwhile
    if isinstance(shard, Err):
        return StreamsGroupHeartbeatResponse(error_code=shard)
    _submit(ctx, body, shard)
    return None


def _read(
    ctx: RequestContext, request: StreamsGroupHeartbeatRequest, shard: Shard
) -> Generator[None, None, StreamsHeartbeat]:
    """Read the long parts of a request in pieces; the group handles them in one step."""
    group = shard.groups.get(request.group_id)
    latest = group.latest if isinstance(group, StreamsGroup) else None
    body = StreamsHeartbeat(request, tags=(yield from reading_tags(request)))
    if request.topology is not None:
        known = None if latest is None else latest.topology
        body.received = yield from receiving(request.topology, shard.topics, known)
    member = None if latest is None else latest.members.get(request.member_id)
    body.expected = yield from expecting(member, ctx.client, body)
    return body


def _submit(ctx: RequestContext, body: StreamsHeartbeat, shard: Shard) -> None:
    runtime, request = ctx.coordinators.groups, body.request
    passed_on = repeatable(ctx, shard, request)

    def response(answered: Answer) -> StreamsGroupHeartbeatResponse:
        answer, missing = answered
        if missing:
            _status_of_failures(answer, missing, runtime.failed_internal_topics)
            job = _creating(ctx.broker.state, runtime, missing)
            if not ended(job):
                ctx.broker.state.slices.add(job, ended)
        return passed_on(answer)

    runtime.submit(shard, ctx, body, response)


def _check_names(topology: Topology | None) -> Generator[None, None, None]:
    """In pieces. Raises Refused for topics that no application may use."""
    pace = Pace(_PIECE)
    names: dict[str, None] = {}
    for subtopology in topology.subtopologies if topology is not None else ():
        internal_topics = map(
            attrgetter("name"), chain(subtopology.repartition_source_topics, subtopology.state_changelog_topics)
        )
        for named in chunked(
            chain(subtopology.source_topics, subtopology.repartition_sink_topics, internal_topics), _PIECE
        ):
            names |= dict.fromkeys(named)
            if pace.full(len(named)):
                yield
        if pace.full(_SUBTOPOLOGY):
            yield
    internal = [name for name in INTERNAL_TOPICS if name in names]
    internal.sort(key=list(names).index)
    if internal:
        words = f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        raise Refused(Err.STREAMS_INVALID_TOPOLOGY, words)
    wrong: list[str] = []
    for name in names:
        if pace.full():
            yield
        if not _is_valid(name):
            wrong.append(name)
    if wrong:
        words = f"Topic names {','.join(wrong)} are not valid topic names."
        raise Refused(Err.STREAMS_INVALID_TOPOLOGY, words)


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True


def _status_of_failures(
    answer: StreamsGroupHeartbeatResponse, missing: Mapping[str, InternalTopic], failed: Mapping[str, str]
) -> None:
    """Add to the status the internal topics that could not be created at the last attempt."""
    reported = [f"{name} ({failed[name]})" for name in missing if name in failed]
    for status in (answer.status or ()) if reported else ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            more = f" and {len(reported) - _NAMED} more" if len(reported) > _NAMED else ""
            status.status_detail += f"; Creation failed: {', '.join(reported[:_NAMED])}{more}."


def _creating(state: ClusterState, runtime: GroupCoordinator, missing: Mapping[str, InternalTopic]) -> Job:
    """Create the internal topics, also without auto.create.topics.enable. As Kafka's controller gets one request for all of them, too
    many partitions are refused all together."""
    failed = runtime.failed_internal_topics
    wanted = [topic for name, topic in missing.items() if name not in runtime.coming_internal_topics]
    try:
        check_total(state.config.release, sum(topic.partitions for topic in wanted))
    except KafkaError as error:
        failed.update(dict.fromkeys((topic.name for topic in wanted), error.message or error.error.name))
        return
    pace = Pace(_PIECE)
    runtime.coming_internal_topics.update(topic.name for topic in wanted)
    try:
        for topic in wanted:
            if pace.full(_TOPIC_COST + topic.partitions):
                yield
            try:
                yield from state.creating_topic(
                    topic.name,
                    topic.partitions,
                    replication_factor=topic.replication_factor or -1,
                    configs=dict(topic.configs),
                )
                failed.pop(topic.name, None)
            except KafkaError as error:
                if error.error is not Err.TOPIC_ALREADY_EXISTS:
                    failed[topic.name] = error.message or error.error.name
    finally:
        runtime.coming_internal_topics.difference_update(topic.name for topic in wanted)

"""StreamsGroupHeartbeat (88, KIP-1071). v1 has the acceptable recovery lag as 64 bits, and MISSING_CLIENT_TAGS among the status codes.

* Topic names are looked at before the group is, as in Kafka's KafkaApis.
* Missing internal topics are created with the response that reports them: the next heartbeat finds them. What could not be created
  is reported with the status from the next heartbeat on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from broker_sim.common.refusals import warn_of_group
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.streams.group import StreamsGroup
from broker_sim.coordinator.streams.requests import Answer, check
from broker_sim.coordinator.streams.topology import InternalTopic, StatusCode
from broker_sim.handlers.context import RequestContext
from broker_sim.handlers.groups import gate
from broker_sim.metadata.topics import INTERNAL_TOPICS, KafkaError, check_topic_name
from kafka_wire.errors import Err
from kafka_wire.messages.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)

log = logging.getLogger("broker_sim.coordinator")

_WORDS = "streams groups are switched off: group.coordinator.rebalance.protocols has to contain streams"
_NAMED = 3  # topics whose creation failed that a status names


def handle(ctx: RequestContext, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse | None:
    """Whether there are streams groups, the names of the topology's topics, the request's form, the gate; then the group."""
    state, runtime = ctx.broker.state, ctx.broker.runtime
    if not state.config.has_streams_groups:
        warn_of_group(state.told_once, log, ctx.client_id, request.group_id, _WORDS)
        return StreamsGroupHeartbeatResponse(error_code=Err.UNSUPPORTED_VERSION)
    try:
        _check_names(request.topology)
        check(request, runtime.settings.policy)
    except Refused as refused:
        return StreamsGroupHeartbeatResponse(error_code=refused.error, error_message=refused.words)
    shard = gate(ctx, request.group_id)
    if isinstance(shard, Err):
        return StreamsGroupHeartbeatResponse(error_code=shard)
    known = shard.groups.get(request.group_id)
    before = None if known is None else known.version

    def response(answered: Answer) -> StreamsGroupHeartbeatResponse:
        answer, missing = answered
        group = shard.groups.get(request.group_id)
        if (
            isinstance(group, StreamsGroup)
            and group.version == before
            and answer.error_code == Err.NONE
            and request.member_epoch > 0
            and group.is_settled
        ):
            ctx.repeats = partial(runtime.unchanged, shard, request.group_id, request.member_id)
        if missing:
            _tell_failures(answer, missing, runtime.failed_internal_topics)
            _create(ctx, missing)
        return answer

    runtime.submit(shard, ctx, request, response)
    return None


def _check_names(topology: Topology | None) -> None:
    """Raises Refused for topics that no application may use."""
    names: dict[str, None] = {}
    for one in topology.subtopologies if topology is not None else ():
        named = [topic.name for topic in (*one.repartition_source_topics, *one.state_changelog_topics)]
        names |= dict.fromkeys([*one.source_topics, *one.repartition_sink_topics, *named])
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        words = f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        raise Refused(Err.STREAMS_INVALID_TOPOLOGY, words)
    wrong = [name for name in names if not _is_valid(name)]
    if wrong:
        words = f"Topic names {','.join(wrong)} are not valid topic names."
        raise Refused(Err.STREAMS_INVALID_TOPOLOGY, words)


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True


def _tell_failures(
    answer: StreamsGroupHeartbeatResponse, missing: Mapping[str, InternalTopic], failed: Mapping[str, str]
) -> None:
    """What could not be created when it was tried last."""
    reported = [f"{name} ({failed[name]})" for name in missing if name in failed]
    for status in (answer.status or ()) if reported else ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            more = f" and {len(reported) - _NAMED} more" if len(reported) > _NAMED else ""
            status.status_detail += f"; Creation failed: {', '.join(reported[:_NAMED])}{more}."


def _create(ctx: RequestContext, missing: Mapping[str, InternalTopic]) -> None:
    """The topics, whether auto.create.topics.enable allows topics or not."""
    state, failed = ctx.broker.state, ctx.broker.runtime.failed_internal_topics
    for name, topic in missing.items():
        try:
            state.create_topic(
                name,
                topic.partitions,
                replication_factor=topic.replication_factor or -1,
                configs=dict(topic.configs),
            )
            failed.pop(name, None)
        except KafkaError as error:
            if error.error is not Err.TOPIC_ALREADY_EXISTS:
                failed[name] = error.message or error.error.name

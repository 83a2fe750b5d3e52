"""Metadata (3), versions 0-13: brokers, topics, leaders; and the creation of topics that are asked for.

v0 an empty list asks for all topics, from v1 on null does. v4 allow_auto_topic_creation. v8-10 authorized operations of
the cluster, v8 of topics. v10 topic ids in the answer, v12 in the request too. v13 a top-level error.
Clients ask the same again and again: an encoded answer is kept until the cluster changes.
Source: KafkaApis.handleTopicMetadataRequest, KRaftMetadataCache, AutoTopicCreationManager.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import cast

from broker_sim.common.slices import Pace, at_once
from broker_sim.metadata.cluster_state import ClusterState, KafkaError, Topic
from broker_sim.metadata.topics import INTERNAL_TOPICS, check_topic_name
from broker_sim.requests.context import ConnectionLike, FastHandler, RequestContext
from broker_sim.requests.traits import ErrorRequest, ErrorTraits, PartialErrors
from kafka_wire.codec import decode, encode
from kafka_wire.errors import Err
from kafka_wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_wire.schema import ZERO_UUID

ALL_TOPIC_OPERATIONS = 0b1101_1111_1000
"""Read, write, create, delete, alter, describe, describe and alter settings: without an authorizer all
are allowed (AclOperation).
"""

ALL_CLUSTER_OPERATIONS = 0b1_1111_1010_0000
"""Create, alter, describe, cluster action, describe and alter settings, idempotent write."""


_PIECE = 500
"""Topics and partitions in the response of one piece; or a fiftieth as many created topics."""


def handle(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse | None:
    response: MetadataResponse | None = ctx.in_pieces(
        answer_of(ctx.broker.state, request, ctx.api_version, ctx.connection.listener)
    )
    return response


def answer_of(
    state: ClusterState, request: MetadataRequest, version: int, listener: str
) -> Generator[None, None, MetadataResponse]:
    """The answer to a client of this listener, topics created on the way where that is asked for and allowed."""
    pace = Pace(_PIECE)
    requested = request.topics
    if requested is None or (version == 0 and not requested):
        topics = []
        for existing in list(state.topics.values()):
            topics.append(described(state, existing))
            if pace.full(len(existing.partitions)):
                yield
    elif (malformed := _malformed(version, requested)) is not Err.NONE:
        refused = [MetadataResponseTopic(malformed, topic.name or "", topic.topic_id) for topic in requested]
        return MetadataResponse(topics=refused, error_code=malformed)
    else:
        topics = yield from _answers(state, requested, request.allow_auto_topic_creation, pace)
    if version == 0:
        for topic in topics:
            _hide_the_unreachable(topic)
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code == Err.UNKNOWN_TOPIC_ID:
                continue
            topic.topic_authorized_operations = ALL_TOPIC_OPERATIONS
    response = MetadataResponse(
        0,
        [MetadataResponseBroker(*b.endpoint(listener)) for b in state.alive_brokers()],
        state.cluster_id,
        state.controller_id,
        topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    return response


def _hide_the_unreachable(topic: MetadataResponseTopic) -> None:
    """For v0: remove replicas that are down, with REPLICA_NOT_AVAILABLE as the partition's error."""
    for partition in topic.partitions:
        down = set(partition.offline_replicas)
        if not down:
            continue
        partition.replica_nodes = [node for node in partition.replica_nodes if node not in down]
        partition.isr_nodes = [node for node in partition.isr_nodes if node not in down]
        if partition.error_code == Err.NONE:
            partition.error_code = Err.REPLICA_NOT_AVAILABLE


MAX_KEPT_BODY = 1024
"""Bytes of a request whose answer is kept."""
MAX_KEPT_PARTITIONS = 20_000
"""Partitions in an answer that is kept, and made at once."""


def _kept(version: int, connection: ConnectionLike, frame: bytes, body: int, correlation_id: int) -> bytes | None:
    """The fast path: an answer that depends on the cluster's state and the listener; None where a topic may have to be created."""
    state = connection.broker.state
    key = (version, connection.listener, frame[body:])
    if state.buggify is not None and state.buggify.fires("forgets what it encoded"):
        state.answers.clear()
    answer = cast("bytes | None", state.answers.get(key))
    if answer is None and len(key[2]) <= MAX_KEPT_BODY:
        request = decode(MetadataRequest, version, frame, body)
        requested = request.topics or []
        if any(topic.name not in state.topics or topic.topic_id != ZERO_UUID for topic in requested):
            return None
        named = [state.topics[topic.name] for topic in requested if topic.name is not None]
        if sum(len(topic.partitions) for topic in named or state.topics.values()) > MAX_KEPT_PARTITIONS:
            return None  # it is answered in pieces
        answer = encode(at_once(answer_of(state, request, version, connection.listener)), version)
        state.keep_answer(key, answer)
    return answer


FAST: dict[int, FastHandler] = {version: partial(_kept, version) for version in range(14)}


def _malformed(version: int, requested: list[MetadataRequestTopic]) -> Err:
    """The error of a request whose topics are not identified: v10 and v11 have topic ids that clients must not use."""
    if version in (10, 11) and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in requested):
        return Err.INVALID_REQUEST
    by_id = any(topic.topic_id != ZERO_UUID for topic in requested)
    if not by_id and any(topic.name is None for topic in requested):
        return Err.UNKNOWN_SERVER_ERROR  # Kafka falls over the null
    return Err.NONE


def _answers(
    state: ClusterState, requested: list[MetadataRequestTopic], allow_creation: bool, pace: Pace
) -> Generator[None, None, list[MetadataResponseTopic]]:
    """The rows of the response: unknown ids first, then existing topics, then missing ones; a topic requested twice has one row."""
    unknown_ids: dict[bytes, MetadataResponseTopic] = {}
    existing: dict[str, MetadataResponseTopic] = {}
    missing: dict[str, MetadataResponseTopic] = {}
    by_id = any(item.topic_id != ZERO_UUID for item in requested)
    for entry in requested:
        if pace.full():
            yield
        name: str | None = entry.name
        if by_id:
            topic = state.topics_by_id.get(entry.topic_id)
            if topic is None and entry.topic_id != ZERO_UUID:
                unknown_ids[entry.topic_id] = MetadataResponseTopic(Err.UNKNOWN_TOPIC_ID, None, entry.topic_id)
                continue
            name = topic.name if topic is not None else None
        if name is None or name in existing or name in missing:
            continue
        if name in state.topics:
            existing[name] = described(state, state.topics[name])
            if pace.full(len(existing[name].partitions)):
                yield
        else:
            missing[name] = MetadataResponseTopic(_missing(state, name, allow_creation), name)
            if pace.full(_PIECE // 50 if name in state.topics else 2):
                yield
    return [*unknown_ids.values(), *existing.values(), *missing.values()]


def _missing(state: ClusterState, name: str, allow_creation: bool) -> Err:
    """The error for a missing topic. If it may be created it is, but only the next request returns it, as with KRaft
    brokers.
    """
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.error
    if allow_creation and state.config.bool("auto.create.topics.enable"):
        try:
            if name in INTERNAL_TOPICS:
                state.create_internal_topic(name)
            else:
                state.create_topic(name)
        except KafkaError as error:
            if error.error is Err.INVALID_TOPIC_EXCEPTION:
                return error.error
    return Err.UNKNOWN_TOPIC_OR_PARTITION


def described(state: ClusterState, topic: Topic) -> MetadataResponseTopic:
    """The topic with every partition's leader, replicas and in-sync replicas as they are now."""
    dead = [node for node, broker in state.brokers.items() if not broker.alive]
    partitions = [
        MetadataResponsePartition(
            Err.NONE if p.leader >= 0 else Err.LEADER_NOT_AVAILABLE,
            p.index,
            p.leader,
            p.leader_epoch,
            p.replicas,
            p.isr,
            [node for node in p.replicas if node in dead] if dead else [],
        )
        for p in topic.partitions
    ]
    return MetadataResponseTopic(Err.NONE, topic.name, topic.topic_id, topic.internal, partitions)


def _failure(error_request: ErrorRequest) -> MetadataResponse:
    """Both at the top and at each topic."""
    requested = cast(MetadataRequest, error_request.request).topics or ()
    topics = [MetadataResponseTopic(error_request.err, topic.name or "", topic.topic_id) for topic in requested]
    return MetadataResponse(topics=topics, error_code=error_request.err)


TRAITS = ErrorTraits(
    failed=_failure, parts=PartialErrors(since=1, answers_nothing=True)
)  # v0: no topics are all topics

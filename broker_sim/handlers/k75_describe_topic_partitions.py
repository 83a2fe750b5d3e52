"""DescribeTopicPartitions (75), version 0: topics in the order of their names, a limited number of partitions at a time (KIP-966).

The response stops at the limit, with a cursor; the next request continues there. Eligible leader replicas are empty lists, never null:
Spark's reader fails with null. Source: DescribeTopicPartitionsRequestHandler.
"""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace, counted, in_order, listed
from broker_sim.handlers.k03_metadata import ALL_TOPIC_OPERATIONS, described
from broker_sim.metadata.cluster_state import ClusterState, KafkaError
from broker_sim.metadata.topics import check_topic_name
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_PIECE = 1000
"""Topics of one piece, above all unknown ones."""


def handle(ctx: RequestContext, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse | None:
    response: DescribeTopicPartitionsResponse | None = ctx.in_pieces(_answer(ctx, request))
    return response


def _answer(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    state = ctx.broker.state
    named = yield from counted(topic.name for topic in request.topics)
    names = yield from in_order(named or list(state.topics))
    cursor = request.cursor
    first = 0
    if cursor is not None:
        known = not request.topics or cursor.topic_name in names
        if cursor.partition_index < 0 or not known:
            return (yield from _refused(request, Err.INVALID_REQUEST))
        names = [name for name in names if name >= cursor.topic_name]
        first = cursor.partition_index if names and names[0] == cursor.topic_name else 0
    if "" in names and cursor is None:
        # Kafka asks what may be done with it, and falls over the name
        return (yield from _refused(request, Err.UNKNOWN_SERVER_ERROR))
    limit = state.config.int("max.request.partition.size.limit") if state.config.release >= (3, 8) else 2000
    return (yield from _page(state, names, first, max(min(request.response_partition_limit, limit), 1)))


def _refused(
    request: DescribeTopicPartitionsRequest, error: Err
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    """The same error for every topic, as often as it was named."""
    topics = yield from listed(DescribeTopicPartitionsResponseTopic(error, topic.name) for topic in request.topics)
    return DescribeTopicPartitionsResponse(0, topics)


def _page(
    state: ClusterState, names: list[str], first: int, limit: int
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    response = DescribeTopicPartitionsResponse()
    pace = Pace(_PIECE)
    for name in names:
        if pace.full():
            yield
        if limit == 0:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(name, 0)
            break
        topic = state.topics.get(name)
        if topic is None:
            response.topics.append(_topic(name, _missing(name)))
            first = 0
            continue
        shown = _topic(name, Err.NONE)
        shown.topic_id, shown.is_internal = topic.topic_id, topic.internal
        shown.partitions = [
            DescribeTopicPartitionsResponsePartition(
                p.error_code,
                p.partition_index,
                p.leader_id,
                p.leader_epoch,
                p.replica_nodes,
                p.isr_nodes,
                topic.partitions[p.partition_index].eligible,
                [],
                p.offline_replicas,
            )
            for p in described(state, topic).partitions[first : first + limit]
        ]
        response.topics.append(shown)
        after = first + len(shown.partitions)
        limit -= len(shown.partitions)
        first = 0
        if after < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponseCursor(name, after)
            break
    return response


def _topic(name: str, error: Err) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error, name, topic_authorized_operations=ALL_TOPIC_OPERATIONS)


def _missing(name: str) -> Err:
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.error
    return Err.UNKNOWN_TOPIC_OR_PARTITION

"""DescribeProducers (61, KIP-664): the producers of partitions, with the start of an open transaction. Answered by the leader.

`kafka-transactions find-hanging` uses it: a transaction that is open here, and unknown to its coordinator, hangs. Source:
KafkaApis.handleDescribeProducersRequest, ProducerStateManager.activeProducers.
"""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.metadata.cluster_state import KafkaError
from broker_sim.metadata.topics import check_topic_name, leader_partition
from broker_sim.requests.context import RequestContext
from broker_sim.requests.traits import ErrorTraits, PartialErrors
from kafka_wire.errors import Err
from kafka_wire.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

_PIECE = 1000
"""Partitions and producers of one piece."""


def handle(ctx: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse | None:
    response: DescribeProducersResponse | None = ctx.in_pieces(_described(ctx, request))
    return response


def _described(
    ctx: RequestContext, request: DescribeProducersRequest
) -> Generator[None, None, DescribeProducersResponse]:
    response = DescribeProducersResponse()
    pace = Pace(_PIECE)
    for topic in request.topics:
        rows: list[PartitionResponse] = []
        response.topics.append(TopicResponse(topic.name, rows))
        for index in topic.partition_indexes:
            rows.append(_partition(ctx, topic.name, index))
            if pace.full(1 + len(rows[-1].active_producers)):
                yield
        if pace.full():
            yield
    return response


def _partition(ctx: RequestContext, topic: str, index: int) -> PartitionResponse:
    state = ctx.broker.state
    try:
        check_topic_name(topic)
        if topic not in state.topics:
            raise KafkaError(Err.UNKNOWN_TOPIC_OR_PARTITION, Err.UNKNOWN_TOPIC_OR_PARTITION.text)
    except KafkaError as error:
        return PartitionResponse(index, error.error, error.message)
    try:
        partition = leader_partition(state.partition(topic, index), ctx.broker.node_id)
    except KafkaError as error:
        return PartitionResponse(
            index, error.error
        )  # ReplicaManager's own errors have no message, also that of a missing partition
    producers = [
        ProducerState(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_start,
        )
        for _, entry in sorted(partition.log.producers.entries.items())
    ]
    return PartitionResponse(index, Err.NONE, None, producers)


TRAITS = ErrorTraits(parts=PartialErrors())

"""AddOffsetsToTxn (25): a transaction is going to commit offsets of a group, whose partition of ``__consumer_offsets`` joins it.

The group and the topic need not exist. v0 and v1 don't know PRODUCER_FENCED.
Source: KafkaApis.handleAddOffsetsToTxnRequest.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker_sim.coordinator.transaction.commands import AddPartitions
from broker_sim.handlers import fenced
from broker_sim.metadata.cluster_state import OFFSETS_TOPIC
from broker_sim.requests.context import RequestContext
from broker_sim.runtime.asking import Deferred
from broker_sim.storage import partition_for
from kafka_wire.errors import Err
from kafka_wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_KNOWS_FENCED = 2


def handle(ctx: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse | Deferred | None:
    if request.transactional_id == "":
        return AddOffsetsToTxnResponse(0, Err.INVALID_REQUEST)
    coordinators = ctx.coordinators.transactions
    shard = coordinators.locate(ctx.broker, request.transactional_id)
    if isinstance(shard, Err):
        return AddOffsetsToTxnResponse(0, shard)
    body = AddPartitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [(OFFSETS_TOPIC, offsets_partition(ctx, request.group_id))],
    )

    def response(errors: Mapping[tuple[str, int], Err]) -> AddOffsetsToTxnResponse:
        (error,) = errors.values()
        return AddOffsetsToTxnResponse(0, fenced.client_error(error, knows=ctx.api_version >= _KNOWS_FENCED))

    return coordinators.submit(shard, ctx, body, response)


def offsets_partition(ctx: RequestContext, group_id: str) -> int:
    """The partition of a group, whether the topic is there yet or not."""
    state = ctx.broker.state
    topic = state.topics.get(OFFSETS_TOPIC)
    count = state.config.int("offsets.topic.num.partitions") if topic is None else len(topic.partitions)
    return partition_for(group_id, count)

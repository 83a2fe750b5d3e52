"""InitProducerId (22), versions 0-5: an id for an idempotent producer.

Ids come from blocks set aside on disk, so that none is given out twice, restarts included. v3 and up name an id that
the producer has: a producer without a transactional id gets a fresh one whatever it names. Transactions are not there
yet: a transactional id is refused as one that may not be used, which every client takes as final.
Source: KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from broker_sim.handlers.context import RequestContext
from broker_sim.handlers.k10_find_coordinator import refuse_transactions
from broker_sim.metadata.cluster_state import KafkaError
from kafka_wire.errors import Err
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(Err.INVALID_REQUEST)
    if request.transactional_id is None:
        try:
            return InitProducerIdResponse(0, Err.NONE, ctx.broker.state.next_producer_id(), 0)
        except KafkaError:
            return _refused(Err.COORDINATOR_NOT_AVAILABLE)  # the disk fails: clients ask again
    if request.transactional_id == "":
        return _refused(Err.INVALID_REQUEST)
    return _refused(refuse_transactions(ctx, request.transactional_id))


def _refused(error: Err) -> InitProducerIdResponse:
    return InitProducerIdResponse(0, error, -1, -1)

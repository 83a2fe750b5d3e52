"""InitProducerId (22), versions 0-5: an id for an idempotent producer, or the next epoch of a transactional one.

Ids come from blocks that are reserved on disk, so that none is assigned twice, also after restarts. v3 and up name the producer's
present id: a producer without a transactional id gets a new one nevertheless. v0-3 don't know PRODUCER_FENCED. Source:
KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from broker_sim.coordinator.transaction.commands import Granted, InitProducerId
from broker_sim.handlers import fenced
from broker_sim.metadata.cluster_state import KafkaError
from broker_sim.requests.context import RequestContext
from broker_sim.runtime.asking import Deferred
from kafka_wire.errors import Err
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_KNOWS_FENCED = 4


def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse | Deferred | None:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(Err.INVALID_REQUEST)
    if request.transactional_id is None:
        try:
            return InitProducerIdResponse(0, Err.NONE, ctx.broker.state.next_producer_id(), 0)
        except KafkaError:
            return _refused(Err.COORDINATOR_NOT_AVAILABLE)  # the disk fails: clients ask again
    if request.transactional_id == "":
        return _refused(Err.INVALID_REQUEST)
    coordinators = ctx.coordinators.transactions
    if not coordinators.settings.allows_timeout(request.transaction_timeout_ms):
        return _refused(Err.INVALID_TRANSACTION_TIMEOUT)  # before it is asked who coordinates the id
    shard = coordinators.locate(ctx.broker, request.transactional_id)
    if isinstance(shard, Err):
        return _refused(shard)
    expected = None if request.producer_id == -1 else (request.producer_id, request.producer_epoch)
    body = InitProducerId(request.transactional_id, request.transaction_timeout_ms, expected)
    knows_fenced = ctx.api_version >= _KNOWS_FENCED

    def response(granted: Granted) -> InitProducerIdResponse:
        error = fenced.client_error(granted.error, knows=knows_fenced)
        return InitProducerIdResponse(0, error, granted.producer_id, granted.epoch)

    return coordinators.submit(shard, ctx, body, response)


def _refused(error: Err) -> InitProducerIdResponse:
    return InitProducerIdResponse(0, error, -1, -1)

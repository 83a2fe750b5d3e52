"""EndTxn (26): commit or abort a transaction.

v5 ends it with a new epoch, which is in the response. v0 and v1 don't know PRODUCER_FENCED. Source: KafkaApis.handleEndTxnRequest.
"""

from __future__ import annotations

from broker_sim.coordinator.transaction.commands import EndTransaction, Granted
from broker_sim.handlers import fenced
from broker_sim.requests.context import RequestContext
from broker_sim.runtime.asking import Deferred
from kafka_wire.errors import Err
from kafka_wire.messages.k26_end_txn import EndTxnRequest, EndTxnResponse

_KNOWS_FENCED = 2
_BUMPS = 5


def handle(ctx: RequestContext, request: EndTxnRequest) -> EndTxnResponse | Deferred | None:
    if request.transactional_id == "":
        return EndTxnResponse(0, Err.INVALID_REQUEST)
    coordinators = ctx.coordinators.transactions
    shard = coordinators.locate(ctx.broker, request.transactional_id)
    if isinstance(shard, Err):
        return EndTxnResponse(0, shard)
    body = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        client_version=2 if ctx.api_version >= _BUMPS else 0,
    )

    def response(granted: Granted) -> EndTxnResponse:
        error = fenced.client_error(granted.error, knows=ctx.api_version >= _KNOWS_FENCED)
        return EndTxnResponse(0, error, granted.producer_id, granted.epoch)

    return coordinators.submit(shard, ctx, body, response)

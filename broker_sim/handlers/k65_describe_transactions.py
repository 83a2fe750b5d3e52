"""DescribeTransactions (65): the states of transactional ids that this broker coordinates."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.coordinator.transaction import queries
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

_PIECE = 1000
"""Transactional ids that are looked at before others are served."""


def handle(ctx: RequestContext, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse | None:
    """Each id in the order asked."""
    response: DescribeTransactionsResponse | None = ctx.in_pieces(_describe_all(ctx, request))
    return response


def _describe_all(
    ctx: RequestContext, request: DescribeTransactionsRequest
) -> Generator[None, None, DescribeTransactionsResponse]:
    states: list[TransactionState] = []
    pace = Pace(_PIECE)
    for transactional_id in request.transactional_ids:
        if pace.full():
            yield
        states.append(_describe(ctx, transactional_id))
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(ctx: RequestContext, transactional_id: str) -> TransactionState:
    if transactional_id == "":
        return TransactionState(Err.INVALID_REQUEST, transactional_id)
    shard = ctx.coordinators.transactions.locate(ctx.broker, transactional_id)
    if isinstance(shard, Err):
        return TransactionState(shard, transactional_id)
    return queries.describe(shard, transactional_id)

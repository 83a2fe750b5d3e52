"""ListTransactions (66): the transactional ids that this broker coordinates. v1 filters by how long they are open, v2 by a pattern."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.coordinator.regular_expressions import PatternError, compiling
from broker_sim.coordinator.transaction import queries
from broker_sim.coordinator.transaction.queries import Filters
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k66_list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_PIECE = 5000
"""Transactional ids that are listed before others are served; those of one shard are listed at once."""


def handle(ctx: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse | None:
    """Return all transactional ids that match the filters, and the unknown names of states in the request."""
    filters = queries.filters_of(
        request.state_filters,
        request.producer_id_filters,
        request.duration_filter,
        request.transactional_id_pattern,
    )
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in queries.STATES]
    response: ListTransactionsResponse | None = ctx.in_pieces(_list_all(ctx, filters, unknown))
    return response


def _list_all(
    ctx: RequestContext, filters: Filters, unknown: list[str]
) -> Generator[None, None, ListTransactionsResponse]:
    if filters.pattern is not None:
        try:
            yield from compiling(filters.pattern)
        except PatternError:
            return ListTransactionsResponse(error_code=Err.INVALID_REGULAR_EXPRESSION)
    rows: list[TransactionState] = []
    pace, now_ms = Pace(_PIECE), ctx.broker.state.clock.now_ms()
    for shard in list(ctx.coordinators.transactions.shards(ctx.broker)):
        if isinstance(shard, Err):  # one that loads: nothing is listed
            return ListTransactionsResponse(error_code=shard)
        if pace.full(len(shard.transactions)):
            yield
        for row in queries.listing(shard, filters, now_ms):
            if row is None:
                yield
            else:
                rows.append(row)
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=rows)

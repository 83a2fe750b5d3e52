"""FindCoordinator (10): the broker that leads the offsets partition of a group.

v0 knows groups alone; v1-3 carry an error text ("NONE" on success, as Kafka writes it); v4+ ask for several keys at once. It never
looks at whether a group exists. The first call creates ``__consumer_offsets`` and answers COORDINATOR_NOT_AVAILABLE.
Transactional ids have no coordinator here. A retriable error would let clients ask until their own timeout, without a word: they are
told that they may not use the id, which all of them take as final, with a text.
"""

from __future__ import annotations

import logging
from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.common.text import short
from broker_sim.handlers.context import RequestContext
from broker_sim.metadata.cluster_state import OFFSETS_TOPIC, KafkaError
from kafka_wire.errors import Err
from kafka_wire.messages.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

log = logging.getLogger("broker_sim.coordinator")

GROUP, TRANSACTION, SHARE = 0, 1, 2

_NO_TRANSACTIONS = "broker-sim has no transactions: use this producer without a transactional.id (idempotence works)"

_TEXTS = {
    Err.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _NO_TRANSACTIONS,
    Err.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    Err.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
        "incompatible broker. See the broker logs for more details."
    ),
}


_PIECE = 500
"""Groups that are looked up before others are served."""


def handle(ctx: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse | None:
    """One coordinator, or (v4+) one for each key."""
    if ctx.api_version >= 4:
        response: FindCoordinatorResponse | None = ctx.in_pieces(_find_all(ctx, request))
        return response
    one = _find(ctx, request.key, request.key_type)
    error = Err(one.error_code)
    return FindCoordinatorResponse(
        error_code=error,
        error_message="NONE" if error is Err.NONE else _TEXTS.get(error, error.name),
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find_all(ctx: RequestContext, request: FindCoordinatorRequest) -> Generator[None, None, FindCoordinatorResponse]:
    found: list[Coordinator] = []
    pace = Pace(_PIECE)
    for key in request.coordinator_keys:
        if pace.full():
            yield
        found.append(_find(ctx, key, request.key_type))
    return FindCoordinatorResponse(coordinators=found)


def _find(ctx: RequestContext, key: str, key_type: int) -> Coordinator:
    error = Err.NONE
    release = ctx.broker.state.config.release
    if key_type == SHARE and ctx.api_version >= 6 and release < (4, 0):
        error = Err.COORDINATOR_NOT_AVAILABLE  # 3.9 knows of share groups, and has no coordinator for them
    elif key_type not in (GROUP, TRANSACTION):
        error = Err.INVALID_REQUEST
    elif key_type == TRANSACTION:
        error = refuse_transactions(ctx, key)
    state = ctx.broker.state
    if error is Err.NONE and OFFSETS_TOPIC not in state.topics:
        try:
            state.ensure_offsets_topic()
        except KafkaError as failure:
            log.warning("%s can't be created: %s", OFFSETS_TOPIC, failure)
        error = Err.COORDINATOR_NOT_AVAILABLE
    if error is Err.NONE and state.buggify is not None and state.buggify.fires("has no coordinator yet"):
        error = Err.COORDINATOR_NOT_AVAILABLE
    if error is Err.NONE:
        partition = ctx.broker.runtime.partition_of(key)
        leader = None if partition is None else state.brokers.get(partition.leader)
        if leader is not None and leader.alive:
            return Coordinator(key=key, node_id=leader.node_id, host=leader.host, port=leader.port)
        error = Err.COORDINATOR_NOT_AVAILABLE
    says_why = error is Err.TRANSACTIONAL_ID_AUTHORIZATION_FAILED or (
        error is Err.INVALID_REQUEST and (key_type != SHARE or release < (3, 9))
    )
    text = _TEXTS[error] if says_why else ""
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=text)


def refuse_transactions(ctx: RequestContext, transactional_id: str) -> Err:
    """The error for who wants transactions; each client is told of in the log once."""
    told = ctx.broker.state.told_of_transactions
    if ctx.client_id not in told and len(told) < _MOST_TOLD:
        told[ctx.client_id] = None
        who = "none" if ctx.client_id is None else short(ctx.client_id)
        log.warning("client id %s, transactional id %s: %s", who, short(transactional_id), _NO_TRANSACTIONS)
    return Err.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


_MOST_TOLD = 1000
"""Clients that are told of."""

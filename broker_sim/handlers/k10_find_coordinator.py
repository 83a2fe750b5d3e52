"""FindCoordinator (10): the broker that leads the offsets partition of a group.

v0 knows groups alone; v1-3 carry an error text ("NONE" on success, as Kafka writes it); v4+ ask for several keys at once. It never
looks at whether a group exists. The first call creates ``__consumer_offsets`` and answers COORDINATOR_NOT_AVAILABLE.
Transactional ids have no coordinator here (INVALID_REQUEST would stop clients for good, so: COORDINATOR_NOT_AVAILABLE).
"""

from __future__ import annotations

import logging

from broker_sim.handlers.context import RequestContext
from broker_sim.metadata import OFFSETS_TOPIC, KafkaError
from kafka_wire.errors import Err
from kafka_wire.messages.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

log = logging.getLogger("broker_sim.coordinator")

GROUP, TRANSACTION, SHARE = 0, 1, 2

_TEXTS = {
    Err.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    Err.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
        "incompatible broker. See the broker logs for more details."
    ),
}


def handle(ctx: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """One coordinator, or (v4+) one for each key."""
    if ctx.api_version >= 4:
        found = [_find(ctx, key, request.key_type) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _find(ctx, request.key, request.key_type)
    error = Err(one.error_code)
    return FindCoordinatorResponse(
        error_code=error,
        error_message="NONE" if error is Err.NONE else _TEXTS.get(error, error.name),
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(ctx: RequestContext, key: str, key_type: int) -> Coordinator:
    error = Err.NONE
    if key_type not in (GROUP, TRANSACTION):
        error = Err.INVALID_REQUEST
    elif key_type == TRANSACTION:
        error = Err.COORDINATOR_NOT_AVAILABLE
        if not ctx.broker.runtime.told_of_transactions:
            ctx.broker.runtime.told_of_transactions = True
            log.warning(
                "transactions are not simulated: transactional id %r has no coordinator, its client will wait", key
            )
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
    says_why = error is Err.INVALID_REQUEST and (
        key_type != SHARE or ctx.broker.runtime.settings.policy.name == "scala"
    )
    text = _TEXTS[error] if says_why else ""
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=text)

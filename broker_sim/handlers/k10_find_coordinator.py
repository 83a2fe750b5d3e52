"""FindCoordinator (10): the broker that leads the partition of a group in ``__consumer_offsets``, of a transactional id in
``__transaction_state``, of a share partition in ``__share_group_state``.

v0 has groups alone; v1-3 an error text ("NONE" on success, as in Kafka); v4+ several keys. Whether a group or an id exists is not
checked. The first call creates the internal topic and returns COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from broker_sim.common.slices import Pace
from broker_sim.metadata.cluster_state import KafkaError
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from broker_sim.runtime.coordinator_runtime import CoordinatorRuntime

log = logging.getLogger("broker_sim.coordinator")

GROUP, TRANSACTION, SHARE = 0, 1, 2


_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
_INTEGER = re.compile(r"[+-]?0*\d{1,10}")
_SPACE = "".join(map(chr, range(0x21)))
"""Characters that Java's String.trim removes."""

_PIECE = 500
"""Groups that are looked up before others are served."""


def handle(ctx: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse | None:
    """One coordinator, or (v4+) one for each key."""
    if ctx.api_version >= 4:
        response: FindCoordinatorResponse | None = ctx.in_pieces(_find_all(ctx, request))
        return response
    coordinator = _find(ctx, request.key, request.key_type)
    error = Err(coordinator.error_code)
    return FindCoordinatorResponse(
        error_code=error,
        error_message=error.text,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _find_all(ctx: RequestContext, request: FindCoordinatorRequest) -> Generator[None, None, FindCoordinatorResponse]:
    coordinators: list[Coordinator] = []
    pace = Pace(_PIECE)
    for key in request.coordinator_keys:
        if pace.full():
            yield
        coordinators.append(_find(ctx, key, request.key_type))
    return FindCoordinatorResponse(coordinators=coordinators)


def _find(ctx: RequestContext, key: str, key_type: int) -> Coordinator:
    error, key_in_log = Err.NONE, key
    release = ctx.broker.state.config.release
    coordinators: CoordinatorRuntime[Any] = (
        ctx.coordinators.transactions if key_type == TRANSACTION else ctx.coordinators.groups
    )
    if key_type == SHARE and ctx.api_version >= 6 and release < (4, 0):
        error = Err.COORDINATOR_NOT_AVAILABLE  # 3.9 knows of share groups, and has no coordinator for them
    elif key_type == SHARE and ctx.api_version >= 6 and (release >= (4, 1) or ctx.broker.state.config.has_share_groups):
        coordinators = ctx.coordinators.share_states
        share_key = _share_key(key, release)
        if share_key is None:
            error = Err.INVALID_REQUEST
        else:
            key_in_log = share_key
    elif key_type not in (GROUP, TRANSACTION):
        error = Err.INVALID_REQUEST
    state = ctx.broker.state
    if error is Err.NONE and coordinators.kind.topic not in state.topics:
        try:
            state.ensure_internal_topic(coordinators.kind.topic)
        except KafkaError as failure:
            log.warning("%s can't be created: %s", coordinators.kind.topic, failure)
        error = Err.COORDINATOR_NOT_AVAILABLE
    if error is Err.NONE and state.buggify is not None and state.buggify.fires("has no coordinator yet"):
        error = Err.COORDINATOR_NOT_AVAILABLE
    if error is Err.NONE:
        partition = coordinators.partition_of(key_in_log)
        leader = None if partition is None else state.brokers.get(partition.leader)
        if leader is not None and leader.alive:
            node_id, host, port, _ = leader.endpoint(ctx.connection.listener)
            return Coordinator(key=key, node_id=node_id, host=host, port=port)
        error = Err.COORDINATOR_NOT_AVAILABLE
    says_why = error is Err.INVALID_REQUEST and (key_type != SHARE or release < (3, 9))
    text = error.text if says_why else ""
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=text)


def _share_key(key: str, release: tuple[int, int]) -> str | None:
    """The key of a share partition's state, as its coordinator writes it, of ``group:topic id:partition``; None for another text.

    Up to 4.2.0 the group's id must have no colon. As Java's String.split, Uuid.fromString and Integer.parseInt read them: colons at
    the end are nothing, the id may have its padding, the number a sign (SharePartitionKey.getInstance, read in 4.1.0 to 4.4.0).
    """
    parts = key.split(":")
    while parts and not parts[-1]:
        parts.pop()
    if len(parts) < 3 or (len(parts) > 3 and release < (4, 2)):
        return None
    group, topic_id, number = ":".join(parts[:-2]), parts[-2], parts[-1]
    if not group.strip(_SPACE) or not _TOPIC_ID.fullmatch(topic_id) or not _INTEGER.fullmatch(number):
        return None
    partition = int(number)
    return f"{group}:{topic_id[:22]}:{partition}" if -(1 << 31) <= partition < 1 << 31 else None

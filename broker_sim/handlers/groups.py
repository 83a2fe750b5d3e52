"""What the handlers of the group APIs share: the common gate, in each coordinator's order of checks."""

from __future__ import annotations

from broker_sim.coordinator.shard import Shard
from broker_sim.handlers.context import ConnectionLike, RequestContext
from kafka_wire.errors import Err


def gate(ctx: RequestContext | ConnectionLike, group_id: str, *, empty_id_is_legal: bool = False) -> Shard | Err:
    """The shard that coordinates the group here, or the error that every group API answers first."""
    if group_id == "" and not empty_id_is_legal:
        return Err.INVALID_GROUP_ID
    found: Shard | Err = ctx.broker.runtime.locate(ctx.broker, group_id)
    return found

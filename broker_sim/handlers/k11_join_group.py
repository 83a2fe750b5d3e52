"""JoinGroup (11). v1 a rebalance timeout of its own; v4 MEMBER_ID_REQUIRED (KIP-394); v5 static members; v7 protocol type; v9
skip_assignment. The answer is parked until the join window closes."""

from __future__ import annotations

from broker_sim.coordinator.rebalance import join_error
from broker_sim.handlers.context import RequestContext
from broker_sim.handlers.groups import gate
from protocol.errors import Err
from protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse


def handle(ctx: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse | None:
    """The gate and the session timeout's range, then the group."""
    settings = ctx.broker.runtime.settings
    shard = gate(ctx, request.group_id)
    in_range = settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms
    if not in_range and (not isinstance(shard, Err) or (settings.policy.name == "java" and request.group_id != "")):
        shard = Err.INVALID_SESSION_TIMEOUT
    if isinstance(shard, Err):
        return join_error(ctx.api_version, shard, request.member_id)
    ctx.broker.runtime.submit(shard, ctx, request)
    return None

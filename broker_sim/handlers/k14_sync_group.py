"""SyncGroup (14). v3 static members; v5 needs protocol type and name, which is checked before everything else (KIP-559). Parked
until the leader's assignment is stored."""

from __future__ import annotations

from broker_sim.coordinator.classic.rebalance import sync_error
from broker_sim.coordinator.shard import Shard
from broker_sim.handlers.groups import find_shard
from broker_sim.requests.context import RequestContext
from broker_sim.requests.repeated import Again, Repeated
from kafka_wire.errors import Err
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse


def handle(ctx: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse | None:
    """The mandatory protocol, the coordinator check, then the group."""
    shard = _coordinator(ctx, request)
    if isinstance(shard, Err):
        if shard is Err.COORDINATOR_LOAD_IN_PROGRESS:
            shard = ctx.coordinators.groups.settings.policy.sync_while_loading
        return sync_error(shard)
    ctx.coordinators.groups.submit(shard, ctx, request)
    return None


def _coordinator(ctx: RequestContext, request: SyncGroupRequest) -> Shard | Err:
    """The shard that coordinates the group, or the error of a missing protocol or of the coordinator check."""
    if ctx.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return Err.INCONSISTENT_GROUP_PROTOCOL
    return find_shard(ctx, request.group_id)


def _prepare(ctx: RequestContext, request: SyncGroupRequest) -> Again | None:
    shard, runtime = _coordinator(ctx, request), ctx.coordinators.groups
    if isinstance(shard, Err):
        return None
    group_id, member_id, instance_id = request.group_id, request.member_id, request.group_instance_id
    protocol_type, protocol_name, assignments = request.protocol_type, request.protocol_name, request.assignments

    def again(ctx: RequestContext, generation: int) -> None:
        body = SyncGroupRequest(group_id, generation, member_id, instance_id, protocol_type, protocol_name, assignments)
        runtime.step_for(shard, ctx, body, ctx.reply)

    return Again(again)


REPEATED = Repeated(_prepare, ids=1)

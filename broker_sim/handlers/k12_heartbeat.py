"""Heartbeat (12). v3 static members. A coordinator that still loads answers NONE: the member is to stay calm."""

from __future__ import annotations

from functools import partial

from broker_sim.coordinator.classic.membership import ACCEPTED_HEARTBEAT, accepted_answer
from broker_sim.coordinator.outcome import Heartbeat
from broker_sim.coordinator.shard import Shard
from broker_sim.handlers.groups import find_shard
from broker_sim.requests.context import RequestContext
from broker_sim.requests.repeated import Again, Repeated
from kafka_wire.codec import encode
from kafka_wire.errors import Err
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse | None:
    """The coordinator check, then the group."""
    shard = find_shard(ctx, request.group_id)
    if isinstance(shard, Err):
        return HeartbeatResponse(error_code=Err.NONE if shard is Err.COORDINATOR_LOAD_IN_PROGRESS else shard)
    _ask(ctx, shard, request.group_id, request.generation_id, request.member_id, request.group_instance_id)
    return None


def _ask(
    ctx: RequestContext, shard: Shard, group_id: str, generation: int, member_id: str, instance_id: str | None
) -> None:
    runtime = ctx.coordinators.groups

    def answered(error: Err) -> None:
        if error in ACCEPTED_HEARTBEAT:
            ctx.repeats = partial(runtime.unchanged, shard, group_id, member_id)
        ctx.reply(HeartbeatResponse(error_code=error))

    runtime.step_for(shard, ctx, Heartbeat(group_id, generation, member_id, instance_id), answered)


def _prepare(ctx: RequestContext, request: HeartbeatRequest) -> Again | None:
    shard, runtime = find_shard(ctx, request.group_id), ctx.coordinators.groups
    if isinstance(shard, Err):
        return None
    group_id, member_id, instance_id = request.group_id, request.member_id, request.group_instance_id
    bodies = {error: encode(HeartbeatResponse(error_code=error), ctx.api_version) for error in ACCEPTED_HEARTBEAT}

    def at_once(generation: int) -> bytes | None:
        answer = runtime.heartbeat_at_once(
            shard, group_id, member_id, lambda group: accepted_answer(group, member_id, instance_id, generation)
        )
        return None if answer is None else bodies[answer]

    return Again(
        lambda ctx, generation: _ask(ctx, shard, group_id, generation, member_id, instance_id),
        at_once,
        partial(runtime.unchanged, shard, group_id, member_id),
    )


REPEATED = Repeated(_prepare, ids=1)

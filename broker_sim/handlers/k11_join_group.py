"""JoinGroup (11). v1 a rebalance timeout of its own; v4 MEMBER_ID_REQUIRED (KIP-394); v5 static members; v7 protocol type; v9
skip_assignment. The answer is pending until the join window closes."""

from __future__ import annotations

import logging
from collections import Counter

from broker_sim.coordinator.classic.rebalance import join_error
from broker_sim.coordinator.shard import Shard
from broker_sim.handlers.groups import find_shard, waits_for_timers
from broker_sim.requests.context import RequestContext
from broker_sim.requests.repeated import Again, Repeated
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse

log = logging.getLogger("broker_sim.coordinator")

_MISDIRECTED = (Err.NOT_COORDINATOR, Err.COORDINATOR_LOAD_IN_PROGRESS)


def handle(ctx: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse | None:
    """The coordinator check and the session timeout's range, then the group."""
    if not request.member_id and request.group_instance_id is None and waits_for_timers(ctx, request):
        return None
    shard = _coordinator(ctx, request)
    if isinstance(shard, Err):
        named = shard not in _MISDIRECTED or ctx.coordinators.groups.settings.policy.misdirected_join_names_member
        return join_error(ctx.api_version, shard, request.member_id if named else "")
    if len(request.protocols) > 1 and len({protocol.name for protocol in request.protocols}) < len(request.protocols):
        _warn_of_double(ctx, request.group_id, [protocol.name for protocol in request.protocols])
    ctx.coordinators.groups.submit(shard, ctx, request)
    return None


def _coordinator(ctx: RequestContext, request: JoinGroupRequest) -> Shard | Err:
    """The shard that coordinates the group, or the error of the coordinator check or of a session timeout out of range."""
    settings = ctx.coordinators.groups.settings
    shard = find_shard(ctx, request.group_id)
    in_range = settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms
    if not in_range and (not isinstance(shard, Err) or (settings.policy.name == "java" and request.group_id != "")):
        return Err.INVALID_SESSION_TIMEOUT
    return shard


def _warn_of_double(ctx: RequestContext, group_id: str, names: list[str]) -> None:
    """A client hangs without a word at Kafka, and so it does here: not quite without one."""
    count = Counter(names)
    twice = next(name for name in names if count[name] > 1)
    if not ctx.broker.state.warned_once.first(ctx.client_id, group_id, twice):
        return
    log.warning(
        "JoinGroup of client %.100r for group %.100r names the protocol %.100r twice: Kafka counts it twice, and where no other"
        " protocol is left that all members support it never answers the group's JoinGroups again",
        ctx.client_id,
        group_id,
        twice,
    )


def _prepare(ctx: RequestContext, request: JoinGroupRequest) -> Again | None:
    """For a member; the settings that its session timeout was compared with stay what they are."""
    shard, runtime = _coordinator(ctx, request), ctx.coordinators.groups
    if isinstance(shard, Err) or not request.member_id:
        return None
    return Again(lambda ctx, generation: runtime.step_for(shard, ctx, request, ctx.reply))


REPEATED = Repeated(_prepare, ids=0)

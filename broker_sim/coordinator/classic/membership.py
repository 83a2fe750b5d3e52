"""Staying and leaving: Heartbeat, sessions, LeaveGroup, and the end of a shard."""

from __future__ import annotations

from broker_sim.coordinator.classic.group import (
    DEAD,
    HEARTBEAT_ANSWER,
    NO_MEMBER,
    PREPARING_REBALANCE,
    ClassicGroup,
)
from broker_sim.coordinator.classic.rebalance import (
    after_removal,
    answer_join,
    answer_sync,
    forget_member,
    join_error,
    prepare_rebalance,
    restart_session,
    sync_error,
    try_complete_join,
)
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import Client, Heartbeat, LeaveGroup, Leaver, TimerKey
from broker_sim.coordinator.state import ShardState
from kafka_wire.errors import NO_ERROR, Err

ACCEPTED_HEARTBEAT = (NO_ERROR, Err.REBALANCE_IN_PROGRESS)
"""The answers to a Heartbeat that restarts the member's session."""


def heartbeat_answer(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> Err:
    """The answer to a Heartbeat; it changes nothing."""
    if group.state is DEAD:
        return Err.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(member_id, instance_id)
    if error is not NO_ERROR:
        return error
    return HEARTBEAT_ANSWER[group.state] if generation == group.generation else Err.ILLEGAL_GENERATION


def accepted_answer(group: Group, member_id: str, instance_id: str | None, generation: int) -> Err | None:
    """The answer to a Heartbeat that extends the session and changes nothing else; None if it is another one."""
    if type(group) is not ClassicGroup:
        return None
    answer = heartbeat_answer(group, member_id, instance_id, generation)
    return answer if answer in ACCEPTED_HEARTBEAT else None


def heartbeat(shard: ShardState, token: int, client: Client, request: Heartbeat) -> None:
    """Heartbeat behind the common gate."""
    group = shard.classic(request.group_id)
    if group is None:
        shard.reply(token, Err.UNKNOWN_MEMBER_ID)
        return
    answer = heartbeat_answer(group, request.member_id, request.instance_id, request.generation)
    if answer in ACCEPTED_HEARTBEAT:
        restart_session(shard, group, group.members[request.member_id])
        shard.answer(token, answer)
    else:
        shard.reply(token, answer)


def session_expired(shard: ShardState, group: ClassicGroup, member_id: str) -> None:
    """A member's session has expired; a member with a deferred request is kept, unless it is new."""
    member = group.members.get(member_id)
    if member is not None and (member.is_new or not member.has_deferred_request):
        _remove_and_rebalance(shard, group, member.member_id)


def pending_expired(shard: ShardState, key: TimerKey) -> None:
    """A member that was given an id didn't come back with it."""
    group = shard.classic(str(key[1]))
    if group is not None and group.pending_members.pop(str(key[2]), None) is not None:
        _after_pending_left(shard, group)


def _after_pending_left(shard: ShardState, group: ClassicGroup) -> None:
    if group.state is PREPARING_REBALANCE:
        try_complete_join(shard, group)


def leave(shard: ShardState, token: int, client: Client, request: LeaveGroup) -> None:
    """LeaveGroup behind the common gate: each leaver has its own answer."""
    group = shard.classic(request.group_id)
    if group is None:
        shard.reply(token, (NO_ERROR, [Err.UNKNOWN_MEMBER_ID for _ in request.leavers]))
        return
    if group.state is DEAD:
        shard.reply(token, (Err.COORDINATOR_NOT_AVAILABLE, []))
        return
    once, had_failed = shard.settings.policy.leave_rebalances_once, group.join_phase_failed
    errors = [_leave_one(shard, group, leaver, rebalance=not once) for leaver in request.leavers]
    if once and NO_ERROR in errors:
        after_removal(shard, group)
    if group.join_phase_failed and not had_failed:  # it ended the join phase, and Kafka throws inside of it
        shard.reply(token, (Err.UNKNOWN_SERVER_ERROR, []))
        return
    shard.answer(token, (NO_ERROR, errors), lambda error: (error, []))


def _leave_one(shard: ShardState, group: ClassicGroup, leaver: Leaver, *, rebalance: bool) -> Err:
    member_id = leaver.member_id
    if member_id == NO_MEMBER:
        known = None if leaver.instance_id is None else group.static_members.get(leaver.instance_id)
        if known is None:
            return Err.UNKNOWN_MEMBER_ID
        member_id = known
    elif member_id in group.pending_members:
        del group.pending_members[member_id]
        shard.cancel(("pending", group.group_id, member_id))
        if rebalance:
            _after_pending_left(shard, group)
        return NO_ERROR
    else:
        error = group.check_member(member_id, leaver.instance_id)
        if error is not NO_ERROR:
            return error
    forget_member(shard, group, member_id)
    if rebalance:
        after_removal(shard, group)
    return NO_ERROR


def _remove_and_rebalance(shard: ShardState, group: ClassicGroup, member_id: str) -> None:
    forget_member(shard, group, member_id)
    after_removal(shard, group)


def begin(shard: ShardState, group: ClassicGroup) -> None:
    """Restart the sessions of a group that was loaded; a group that is too large rebalances."""
    for member in group.members.values():
        restart_session(shard, group, member)
    if len(group.members) > shard.settings.max_group_size:
        prepare_rebalance(shard, group)


def unload(shard: ShardState, group: ClassicGroup) -> None:
    """Answer everything deferred with NOT_COORDINATOR."""
    group.end()
    for member in group.members.values():
        answer_join(shard, group, member, join_error(member.join_version, Err.NOT_COORDINATOR, member.member_id))
        answer_sync(shard, member, sync_error(Err.NOT_COORDINATOR))

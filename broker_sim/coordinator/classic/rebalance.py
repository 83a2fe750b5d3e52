"""A rebalance, from its join phase to the JoinGroup responses.

``prepare_rebalance`` begins the join phase; JoinGroups are deferred in their members; ``complete_join`` ends the phase, increments the
generation and answers them. Helpers of the other modules are here, too: answers to deferred requests, sessions, the removal of members.
"""

from __future__ import annotations

from broker_sim.coordinator.classic.group import (
    ANSWERED_STILL_COUNTED,
    COMPLETING_REBALANCE,
    EMPTY,
    NO_GENERATION,
    NO_MEMBER,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
    Member,
)
from broker_sim.coordinator.outcome import TimerKey
from broker_sim.coordinator.state import ShardState, Write
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupResponse
from kafka_wire.messages.k14_sync_group import SyncGroupResponse

_TICK_MS = 1
"""Least delay of a rebalance timer, after which a join phase that could not end is examined again (SystemTimer's tick): a rebalance
timeout may be below zero."""


def join_error(version: int, error: Err, member_id: str) -> JoinGroupResponse:
    """The answer to a JoinGroup that fails; protocol fields are null, or empty if the version has no null."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=NO_GENERATION,
        protocol_type=None,
        protocol_name=None if version >= 7 else "",
        leader=NO_MEMBER,
        member_id=member_id,
    )


def join_answer(shard: ShardState, group: ClassicGroup, member: Member, version: int) -> JoinGroupResponse:
    """The response of this generation to a JoinGroup of ``version``; the leader's lists all members."""
    nameless = None if version >= 7 and shard.settings.policy.nameless_protocol_is_null else ""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol or nameless,
        leader=group.leader or NO_MEMBER,
        member_id=member.member_id,
        members=group.described_members() if member.member_id == group.leader else [],
    )


def sync_error(error: Err) -> SyncGroupResponse:
    """The answer to a SyncGroup that fails with ``error``."""
    return SyncGroupResponse(error_code=error)


def session_key(group: ClassicGroup, member: Member) -> TimerKey:
    return ("session", group.group_id, member.member_id)


def restart_session(shard: ShardState, group: ClassicGroup, member: Member) -> None:
    """Restart the member's session after a request of it."""
    shard.out.timers.append((("session", group.group_id, member.member_id), shard.now_ms + member.session_timeout_ms))


def answer_join(shard: ShardState, group: ClassicGroup, member: Member, answer: JoinGroupResponse) -> None:
    """Answer a deferred JoinGroup, if there is one."""
    if member.join_token is not None:
        if member.join_token != ANSWERED_STILL_COUNTED:
            shard.reply(member.join_token, answer)
        member.join_token = None
        group.joining -= 1


def answer_sync(shard: ShardState, member: Member, answer: SyncGroupResponse) -> bool:
    """Answer a deferred SyncGroup, if there is one."""
    if member.sync_token is None:
        return False
    if member.sync_token != ANSWERED_STILL_COUNTED:
        shard.reply(member.sync_token, answer)
    member.sync_token = None
    return True


def fail_syncs(shard: ShardState, group: ClassicGroup, error: Err) -> None:
    """Clear all assignments and answer every deferred SyncGroup (resetAndPropagateAssignmentError)."""
    for member in group.members.values():
        member.assignment = b""
        if answer_sync(shard, member, sync_error(error)):
            restart_session(shard, group, member)


def maybe_prepare_rebalance(shard: ShardState, group: ClassicGroup) -> None:
    if group.state in (STABLE, COMPLETING_REBALANCE, EMPTY):
        prepare_rebalance(shard, group)


def prepare_rebalance(shard: ShardState, group: ClassicGroup) -> None:
    """Open the join window: the initial delay for a group that was empty, else the group's rebalance timeout."""
    if group.state is COMPLETING_REBALANCE:
        fail_syncs(shard, group, Err.REBALANCE_IN_PROGRESS)
    shard.cancel(("sync", group.group_id))
    from_empty = group.state is EMPTY
    group.enter(PREPARING_REBALANCE, shard.now_ms)
    if from_empty:
        delay = shard.settings.initial_rebalance_delay_ms
        group.in_initial_delay, group.initial_delay_ms = True, delay
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay, 0)
        shard.arm(("rebalance", group.group_id), delay)
    else:
        shard.arm(("rebalance", group.group_id), group.rebalance_timeout_ms)
        try_complete_join(shard, group)


def rebalance_timed_out(shard: ShardState, key: TimerKey) -> None:
    """The initial delay or the rebalance timeout is over."""
    group = shard.classic(str(key[1]))
    if group is None or group.state is not PREPARING_REBALANCE:
        return
    if group.in_initial_delay and group.new_member_added and group.initial_delay_left_ms > 0:
        group.new_member_added = False  # a member joined meanwhile: wait for more, within the rebalance timeout
        delay = min(shard.settings.initial_rebalance_delay_ms, group.initial_delay_left_ms)
        group.initial_delay_left_ms = max(group.initial_delay_left_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay
        shard.arm(key, delay)
    else:
        complete_join(shard, group)


def try_complete_join(shard: ShardState, group: ClassicGroup) -> None:
    """Complete the join phase early if all members have joined; never during the initial delay, and never while a member id is
    pending."""
    everybody = group.joining == len(group.members) and not group.pending_members
    if everybody and not group.in_initial_delay and not group.join_phase_failed:
        complete_join(shard, group)


def complete_join(shard: ShardState, group: ClassicGroup) -> None:
    """Complete the join phase (onCompleteJoin): dynamic members without a JoinGroup are removed, and the next generation begins."""
    for member in list(group.members.values()):
        if member.join_token is None and member.instance_id is None:
            shard.cancel(session_key(group, member))
            group.remove(member.member_id)
    if group.members and not _elect_joined_leader(group):
        # Only silent static members: wait until their sessions end or they come back.
        group.in_initial_delay = False
        shard.arm(("rebalance", group.group_id), max(group.rebalance_timeout_ms, _TICK_MS))
        return
    shard.cancel(("rebalance", group.group_id))
    group.in_initial_delay = group.new_member_added = False
    group.begin_generation()
    if not group.members:
        group.protocol = None
        group.fix_subscriptions()
        group.enter(EMPTY, shard.now_ms)
        shard.write(Write(None, [group.record()]))
        return
    protocol = group.vote(shard.settings.policy.votes_are_counted_in)
    if protocol is None:
        group.join_phase_failed = (
            True  # Kafka's completion of the join phase throws here and is not retried: the JoinGroups stay deferred
        )
        return
    group.protocol = protocol
    group.fix_subscriptions()
    group.enter(COMPLETING_REBALANCE, shard.now_ms)
    for member in list(group.members.values()):
        member.is_new = False
        answer_join(shard, group, member, join_answer(shard, group, member, member.join_version))
        restart_session(shard, group, member)
        group.pending_sync[member.member_id] = None
    shard.arm(("sync", group.group_id), group.rebalance_timeout_ms)


def _elect_joined_leader(group: ClassicGroup) -> bool:
    """Make sure that a member that has joined leads; False if none has."""
    if group.leader is not None and group.members[group.leader].join_token is not None:
        return True
    joined = next((m for m in group.members.values() if m.join_token is not None), None)
    if joined is not None:
        group.leader = joined.member_id
    return joined is not None


def forget_member(shard: ShardState, group: ClassicGroup, member_id: str) -> None:
    """Remove a member, if it is one; its deferred JoinGroup is answered UNKNOWN_MEMBER_ID, with no id."""
    member = group.members.get(member_id)
    if member is not None:
        answer_join(shard, group, member, join_error(member.join_version, Err.UNKNOWN_MEMBER_ID, NO_MEMBER))
        shard.cancel(session_key(group, member))
        group.remove(member_id)


def after_removal(shard: ShardState, group: ClassicGroup) -> None:
    if group.state in (STABLE, COMPLETING_REBALANCE):
        prepare_rebalance(shard, group)
    elif group.state is PREPARING_REBALANCE:
        try_complete_join(shard, group)

"""SyncGroup: members park until the leader's assignment is stored; ``SyncWrite`` then hands it out."""

from __future__ import annotations

from broker_sim.coordinator.classic.group import (
    ANSWERED_STILL_COUNTED,
    COMPLETING_REBALANCE,
    DEAD,
    STABLE,
    SYNC_ANSWER,
    ClassicGroup,
    Member,
)
from broker_sim.coordinator.classic.rebalance import (
    answer_sync,
    fail_syncs,
    prepare_rebalance,
    restart_session,
    sync_error,
)
from broker_sim.coordinator.outcome import Client, TimerKey
from broker_sim.coordinator.state import DeferredMemberRequest, ShardState, Write
from kafka_wire.errors import NO_ERROR, Err
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse


class SyncWrite(Write):
    """The leader's assignment. The group becomes Stable when it is committed, unless it has moved on meanwhile."""

    __slots__ = ("generation", "group_id")

    def __init__(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        super().__init__(None, [group.record(assignments)])
        self.group_id, self.generation = group.group_id, group.generation

    def _waiting(self, shard: ShardState) -> ClassicGroup | None:
        group = shard.classic(self.group_id)
        if group is None or group.state is not COMPLETING_REBALANCE or group.generation != self.generation:
            return None
        return group

    def done(self, shard: ShardState) -> None:
        """Answer the deferred SyncGroups with the members' assignments."""
        self.publish(shard)
        group = self._waiting(shard)
        if group is None:
            return
        group.assign()
        group.enter(STABLE, shard.now_ms)
        for member in group.members.values():
            if answer_sync(shard, member, sync_answer(group, member)):
                restart_session(shard, group, member)

    def failed(self, shard: ShardState, error: Err) -> None:
        """The append failed: answer the SyncGroups with the error and rebalance."""
        group = self._waiting(shard)
        if group is not None:
            fail_syncs(shard, group, shard.settings.policy.sync_errors.get(error, error))
            prepare_rebalance(shard, group)


def sync_answer(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """The answer to a SyncGroup with a member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def sync(shard: ShardState, token: int, client: Client, request: SyncGroupRequest) -> None:
    """SyncGroup behind the common gate."""
    group = shard.classic(request.group_id)
    error = Err.UNKNOWN_MEMBER_ID if group is None else _sync_refusal(group, request)
    if group is None or error is not NO_ERROR:
        shard.reply(token, sync_error(error))
        return
    member = group.members[request.member_id]
    _has_synced(shard, group, member)
    if group.state is STABLE:
        shard.reply(token, sync_answer(group, member))
        if shard.settings.policy.stable_sync_restarts_session:
            restart_session(shard, group, member)
        return
    member.sync_token = token
    if member.member_id == group.leader:
        given = {a.member_id: a.assignment for a in request.assignments}
        shard.write(SyncWrite(group, {member_id: given.get(member_id, b"") for member_id in group.members}))
    elif shard.answers_wait:
        shard.defer(DeferredSync(group.group_id, token))


class DeferredSync(DeferredMemberRequest):
    """A follower's SyncGroup that is deferred until the leader's assignment is stored."""

    __slots__ = ()

    def failed(self, shard: ShardState, error: Err) -> None:
        """Cut it off, if it still waits."""
        group = shard.classic(self.group_id)
        member = next((m for m in group.members.values() if m.sync_token == self.token), None) if group else None
        if member is not None:
            shard.reply(self.token, sync_error(shard.settings.policy.sync_errors.get(error, error)))
            member.sync_token = ANSWERED_STILL_COUNTED


def _sync_refusal(group: ClassicGroup, request: SyncGroupRequest) -> Err:
    if group.state is DEAD:
        return Err.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not NO_ERROR:
        return error
    if request.generation_id != group.generation:
        return Err.ILLEGAL_GENERATION
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return Err.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and group.protocol is not None and request.protocol_name != group.protocol:
        return Err.INCONSISTENT_GROUP_PROTOCOL
    return SYNC_ANSWER[group.state]


def _has_synced(shard: ShardState, group: ClassicGroup, member: Member) -> None:
    if group.pending_sync.pop(member.member_id, 0) is None and not group.pending_sync:
        shard.cancel(("sync", group.group_id))


def pending_sync_expired(shard: ShardState, key: TimerKey) -> None:
    """Remove the members that sent no SyncGroup within the rebalance timeout; the others rejoin."""
    group = shard.classic(str(key[1]))
    if group is None or not group.pending_sync or group.state not in (COMPLETING_REBALANCE, STABLE):
        return
    for member_id in list(group.pending_sync):
        shard.cancel(("session", group.group_id, member_id))
        group.remove(member_id)
    prepare_rebalance(shard, group)

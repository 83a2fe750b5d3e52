"""Who is in a group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and the timers of a rebalance (coordinator.md 1, 2.2-2.5).

Each handler follows the order of checks of GroupCoordinator.scala and GroupMetadataManager.java. A rebalance runs like this:
``prepare_rebalance`` opens the window; joins park; ``complete_join`` closes it, bumps the generation and answers them; the leader's
SyncGroup is stored; its ``SyncWrite`` hands out the assignments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.coordinator.group import HEARTBEAT_ANSWER, NO_GENERATION, NO_MEMBER, SYNC_ANSWER, Group, Member, State
from broker_sim.coordinator.outcome import Client, Heartbeat, LeaveGroup, Leaver, TimerKey
from broker_sim.coordinator.records import GroupRecord, group_record, replay
from broker_sim.coordinator.writes import Write
from protocol.errors import Err
from protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.offsets_log import GroupMetadataValue

if TYPE_CHECKING:
    from broker_sim.coordinator.shard import Shard

_KNOWN_ID_SINCE = 4  # JoinGroup version from which a dynamic member must come back with its id (KIP-394)
_SKIP_ASSIGNMENT_SINCE = 9  # JoinGroup version that can tell a static leader not to assign (KIP-814)


# --- JoinGroup --------------------------------------------------------------------------------------------------------


def join_error(version: int, error: Err, member_id: str) -> JoinGroupResponse:
    """A failed JoinGroup's answer; protocol fields are null, or empty where the version can't say null."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=NO_GENERATION,
        protocol_type=None,
        protocol_name=None if version >= 7 else "",
        leader=NO_MEMBER,
        member_id=member_id,
    )


def join(shard: Shard, token: int, client: Client, request: JoinGroupRequest) -> None:
    """JoinGroup behind the common gate and the check of the session timeout."""
    member_id, group_is_new = request.member_id, False
    group = shard.groups.get(request.group_id)
    if group is None:
        if member_id != NO_MEMBER:
            shard.reply(token, join_error(client.api_version, Err.UNKNOWN_MEMBER_ID, member_id))
            return
        group = shard.groups[request.group_id] = Group(request.group_id, state_ts_ms=shard.now_ms)
        group_is_new = True
    error: JoinGroupResponse | None = None
    if not _has_room(group, member_id, shard.settings.max_group_size):
        _forget_member(shard, group, member_id)
        error = join_error(client.api_version, Err.GROUP_MAX_SIZE_REACHED, NO_MEMBER)
    elif group.state is State.DEAD:
        error = join_error(client.api_version, Err.COORDINATOR_NOT_AVAILABLE, member_id)
    elif not group.supports(request.protocol_type, [p.name for p in request.protocols]):
        error = join_error(client.api_version, Err.INCONSISTENT_GROUP_PROTOCOL, member_id)
    elif member_id == NO_MEMBER:
        error = _join_new(shard, group, token, client, request)
    else:
        error = _join_known(shard, group, token, client, request)
    if group.state is State.PREPARING_REBALANCE:
        try_complete_join(shard, group)
    if error is not None:
        shard.reply(token, error)
    if group_is_new and shard.settings.policy.new_group_is_stored and not shard.out.appends:
        shard.write(NewGroupWrite(group.group_id, shard.now_ms, token, client.api_version))


class NewGroupWrite(Write):
    """The empty record of a group that a JoinGroup has just made. Only a join that is still parked hears of its failure."""

    __slots__ = ("group_id", "join_token", "version")

    def __init__(self, group_id: str, now_ms: int, join_token: int, version: int) -> None:
        super().__init__(
            None,
            [GroupRecord(group_id, GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=now_ms))],
        )
        self.group_id, self.join_token, self.version = group_id, join_token, version

    def failed(self, shard: Shard, error: Err) -> None:
        """Answer the parked join."""
        group = shard.groups.get(self.group_id)
        mapped = shard.settings.policy.sync_errors.get(error, error)
        for member in () if group is None else group.members.values():
            if group is not None and member.join_token == self.join_token:
                _answer_join(shard, group, member, join_error(self.version, mapped, NO_MEMBER))


def _has_room(group: Group, member_id: str, max_size: int) -> bool:
    """Whether a join fits ``group.max.size`` (acceptJoiningMember)."""
    if group.state in (State.EMPTY, State.DEAD):
        return True
    member = group.members.get(member_id)
    if group.state is State.PREPARING_REBALANCE:
        return (member is not None and member.join_token is not None) or group.joining < max_size
    return member is not None or len(group.members) < max_size


def _new_member(member_id: str, token: int, client: Client, request: JoinGroupRequest) -> Member:
    return Member(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=client.client_id,
        client_host=client.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout(request, client),
        protocol_type=request.protocol_type,
        protocols=[(p.name, p.metadata) for p in request.protocols],
        join_token=token,
        join_version=client.api_version,
        is_new=True,
    )


def _rebalance_timeout(request: JoinGroupRequest, client: Client) -> int:
    return request.rebalance_timeout_ms if client.api_version >= 1 else request.session_timeout_ms


def _join_new(
    shard: Shard, group: Group, token: int, client: Client, request: JoinGroupRequest
) -> JoinGroupResponse | None:
    """A join with an empty member id; returns the answer to give now, None if it is parked."""
    instance_id = request.group_instance_id
    new_id = f"{client.client_id if instance_id is None else instance_id}-{shard.new_id()}"
    if instance_id is not None and instance_id in group.static_members:
        _replace_static(shard, group, group.static_members[instance_id], new_id, token, client, request)
    elif instance_id is None and client.api_version >= _KNOWN_ID_SINCE:
        group.pending_members[new_id] = request.session_timeout_ms
        shard.arm(("pending", group.group_id, new_id), request.session_timeout_ms)
        return join_error(client.api_version, Err.MEMBER_ID_REQUIRED, new_id)
    else:
        _add_and_rebalance(shard, group, _new_member(new_id, token, client, request))
    return None


def _join_known(
    shard: Shard, group: Group, token: int, client: Client, request: JoinGroupRequest
) -> JoinGroupResponse | None:
    """A join with a member id; returns the answer to give now, None if it is parked."""
    member_id = request.member_id
    if member_id in group.pending_members:
        if request.group_instance_id is not None:  # Kafka takes it for an illegal state
            return join_error(client.api_version, Err.UNKNOWN_SERVER_ERROR, member_id)
        shard.cancel(("pending", group.group_id, member_id))
        _add_and_rebalance(shard, group, _new_member(member_id, token, client, request))
        return None
    error = group.check_member(member_id, request.group_instance_id)
    if error is not Err.NONE:
        return join_error(client.api_version, error, member_id)
    member = group.members[member_id]
    unchanged = member.protocols == [(p.name, p.metadata) for p in request.protocols]
    if group.state is State.PREPARING_REBALANCE:
        _update_and_rebalance(shard, group, member, token, client, request)
    elif group.state is State.COMPLETING_REBALANCE:
        if unchanged:  # the answer of this generation may have been lost
            return _join_answer(group, member)
        _update_and_rebalance(shard, group, member, token, client, request)
    elif group.state is State.STABLE:
        if member_id != group.leader and unchanged:
            return _join_answer(group, member)
        _update_and_rebalance(shard, group, member, token, client, request)
    else:
        return join_error(client.api_version, Err.UNKNOWN_MEMBER_ID, member_id)
    return None


def _join_answer(group: Group, member: Member) -> JoinGroupResponse:
    """The answer of this generation: the leader is told all members."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or NO_MEMBER,
        member_id=member.member_id,
        members=group.described_members() if member.member_id == group.leader else [],
    )


def _add_and_rebalance(shard: Shard, group: Group, member: Member) -> None:
    if group.state is State.PREPARING_REBALANCE:
        first = group.generation == 0
        group.new_member_added |= (
            first if shard.settings.policy.window_extends_for == "first generation" else group.was_empty
        )
    group.add(member)
    # It may not know its id yet and then can't heartbeat: another timeout watches it until its JoinGroup is answered.
    shard.arm(_session_key(group, member), shard.settings.new_member_join_timeout_ms)
    _maybe_prepare_rebalance(shard, group)


def _update_and_rebalance(
    shard: Shard, group: Group, member: Member, token: int, client: Client, request: JoinGroupRequest
) -> None:
    _update(group, member, token, client, request)
    _maybe_prepare_rebalance(shard, group)


def _update(group: Group, member: Member, token: int | None, client: Client, request: JoinGroupRequest) -> None:
    member.protocols = [(p.name, p.metadata) for p in request.protocols]
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = _rebalance_timeout(request, client)
    member.join_version = client.api_version
    group.joining += (token is not None) - (member.join_token is not None)
    member.join_token = token


# --- static members ---------------------------------------------------------------------------------------------------


class StaticWrite(Write):
    """The group's record after a static member came back with a new id while the group is Stable and its protocol stays."""

    __slots__ = ("before", "group_id", "new_id", "old_id", "old_leader", "version")

    def __init__(
        self, group: Group, old_id: str, new_id: str, old_leader: str | None, before: Member, version: int
    ) -> None:
        super().__init__(None, [group_record(group)])
        self.group_id, self.old_id, self.new_id, self.old_leader = group.group_id, old_id, new_id, old_leader
        self.before, self.version = before, version

    def done(self, shard: Shard) -> None:
        """Answer without a rebalance: same generation; only from v9 on may a leader know that it leads."""
        for record in self.records:
            replay(shard, record)
        group = shard.groups.get(self.group_id)
        member = None if group is None else group.members.get(self.new_id)
        if group is None or member is None or member.join_token is None:
            return
        answer = _join_answer(group, member)
        if self.version >= _SKIP_ASSIGNMENT_SINCE:
            answer.skip_assignment = member.member_id == group.leader
        else:
            answer.leader, answer.members = self.old_leader or NO_MEMBER, []
        _answer_join(shard, group, member, answer)
        restart_session(shard, group, member)

    def failed(self, shard: Shard, error: Err) -> None:
        """Undo the replacement."""
        group = shard.groups.get(self.group_id)
        member = None if group is None else group.members.get(self.new_id)
        if group is None or member is None:
            return
        mapped = shard.settings.policy.sync_errors.get(error, error)
        _answer_join(shard, group, member, join_error(member.join_version, mapped, NO_MEMBER))
        member.protocols = self.before.protocols
        member.session_timeout_ms = self.before.session_timeout_ms
        member.rebalance_timeout_ms = self.before.rebalance_timeout_ms
        group.replace_static(self.new_id, self.old_id)
        shard.cancel(("session", group.group_id, self.new_id))
        restart_session(shard, group, member)


def _replace_static(
    shard: Shard, group: Group, old_id: str, new_id: str, token: int, client: Client, request: JoinGroupRequest
) -> None:
    """A static member is back without its id: it takes over its old slot, and the old id is fenced."""
    old_leader = group.leader
    member = group.members[old_id]
    _answer_join(shard, group, member, join_error(member.join_version, Err.FENCED_INSTANCE_ID, old_id))
    _answer_sync(shard, member, sync_error(Err.FENCED_INSTANCE_ID))
    before = Member(
        old_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
        member.protocol_type,
        member.protocols,
    )
    group.replace_static(old_id, new_id)
    shard.cancel(("session", group.group_id, old_id))
    _update(group, member, token, client, request)
    restart_session(shard, group, member)
    if group.state is State.STABLE:
        if group.vote() == group.protocol:
            shard.write(StaticWrite(group, old_id, new_id, old_leader, before, client.api_version))
        else:
            prepare_rebalance(shard, group)
    elif group.state is State.COMPLETING_REBALANCE:
        # The leader may have been told of the old id: its assignment would miss the new one.
        prepare_rebalance(shard, group)


# --- the rebalance ----------------------------------------------------------------------------------------------------


def _maybe_prepare_rebalance(shard: Shard, group: Group) -> None:
    if group.state in (State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY):
        prepare_rebalance(shard, group)


def prepare_rebalance(shard: Shard, group: Group) -> None:
    """Open the join window: the initial delay for a group that was empty, else the group's rebalance timeout."""
    if group.state is State.COMPLETING_REBALANCE:
        _fail_syncs(shard, group, Err.REBALANCE_IN_PROGRESS)
    shard.cancel(("sync", group.group_id))
    from_empty = group.state is State.EMPTY
    group.enter(State.PREPARING_REBALANCE, shard.now_ms)
    if from_empty:
        delay = shard.settings.initial_rebalance_delay_ms
        group.in_initial_delay, group.initial_delay_ms = True, delay
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay, 0)
        shard.arm(("rebalance", group.group_id), delay)
    else:
        shard.arm(("rebalance", group.group_id), group.rebalance_timeout_ms)
        try_complete_join(shard, group)


def rebalance_timed_out(shard: Shard, key: TimerKey) -> None:
    """The initial delay or the rebalance timeout is over."""
    group = shard.groups.get(str(key[1]))
    if group is None or group.state is not State.PREPARING_REBALANCE:
        return
    if group.in_initial_delay and group.new_member_added and group.initial_delay_left_ms > 0:
        group.new_member_added = False  # somebody joined meanwhile: wait for more, within the rebalance timeout
        delay = min(shard.settings.initial_rebalance_delay_ms, group.initial_delay_left_ms)
        group.initial_delay_left_ms = max(group.initial_delay_left_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay
        shard.arm(key, delay)
    else:
        complete_join(shard, group)


def try_complete_join(shard: Shard, group: Group) -> None:
    """Close the window early if everybody is in; never during the initial delay, never while a member id is outstanding."""
    if not group.in_initial_delay and group.joining == len(group.members) and not group.pending_members:
        complete_join(shard, group)


def complete_join(shard: Shard, group: Group) -> None:
    """Close the join window (onCompleteJoin): the silent dynamic members go, the next generation begins."""
    for member in list(group.members.values()):
        if member.join_token is None and member.instance_id is None:
            shard.cancel(_session_key(group, member))
            group.remove(member.member_id)
    if group.members and not _elect_joined_leader(group):
        # Only silent static members: wait until their sessions end or they come back.
        group.in_initial_delay = False
        shard.arm(("rebalance", group.group_id), group.rebalance_timeout_ms)
        return
    shard.cancel(("rebalance", group.group_id))
    group.in_initial_delay = group.new_member_added = False
    group.generation += 1
    group.pending_sync.clear()
    if not group.members:
        group.protocol = None
        group.enter(State.EMPTY, shard.now_ms)
        shard.write(Write(None, [group_record(group)]))
        return
    group.protocol = group.vote()
    group.enter(State.COMPLETING_REBALANCE, shard.now_ms)
    for member in list(group.members.values()):
        member.is_new = False
        _answer_join(shard, group, member, _join_answer(group, member))
        restart_session(shard, group, member)
        group.pending_sync[member.member_id] = None
    shard.arm(("sync", group.group_id), group.rebalance_timeout_ms)


def _elect_joined_leader(group: Group) -> bool:
    """Make sure that a member that has joined leads; False if none has."""
    if group.leader is not None and group.members[group.leader].join_token is not None:
        return True
    joined = next((m for m in group.members.values() if m.join_token is not None), None)
    if joined is not None:
        group.leader = joined.member_id
    return joined is not None


def _answer_join(shard: Shard, group: Group, member: Member, answer: JoinGroupResponse) -> None:
    """Answer a parked JoinGroup, if there is one."""
    if member.join_token is not None:
        shard.reply(member.join_token, answer)
        member.join_token = None
        group.joining -= 1


# --- SyncGroup --------------------------------------------------------------------------------------------------------


def sync_error(error: Err) -> SyncGroupResponse:
    """A failed SyncGroup's answer."""
    return SyncGroupResponse(error_code=error)


def _answer_sync(shard: Shard, member: Member, answer: SyncGroupResponse) -> bool:
    """Answer a parked SyncGroup, if there is one."""
    if member.sync_token is None:
        return False
    shard.reply(member.sync_token, answer)
    member.sync_token = None
    return True


class SyncWrite(Write):
    """The leader's assignment. The group becomes Stable when it is committed, unless it has moved on meanwhile."""

    __slots__ = ("generation", "group_id")

    def __init__(self, group: Group, assignments: dict[str, bytes]) -> None:
        super().__init__(None, [group_record(group, assignments)])
        self.group_id, self.generation = group.group_id, group.generation

    def _waiting(self, shard: Shard) -> Group | None:
        group = shard.groups.get(self.group_id)
        if group is None or group.state is not State.COMPLETING_REBALANCE or group.generation != self.generation:
            return None
        return group

    def done(self, shard: Shard) -> None:
        """Hand out the assignments to whoever waits for its own."""
        group = self._waiting(shard)
        if group is None:
            return
        for record in self.records:
            replay(shard, record)
        group.enter(State.STABLE, shard.now_ms)
        for member in group.members.values():
            if _answer_sync(shard, member, _sync_answer(group, member)):
                restart_session(shard, group, member)

    def failed(self, shard: Shard, error: Err) -> None:
        """Everybody joins again."""
        group = self._waiting(shard)
        if group is not None:
            _fail_syncs(shard, group, shard.settings.policy.sync_errors.get(error, error))
            prepare_rebalance(shard, group)


def _sync_answer(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def _fail_syncs(shard: Shard, group: Group, error: Err) -> None:
    """Clear all assignments and answer every parked SyncGroup (resetAndPropagateAssignmentError)."""
    for member in group.members.values():
        member.assignment = b""
        if _answer_sync(shard, member, sync_error(error)):
            restart_session(shard, group, member)


def sync(shard: Shard, token: int, client: Client, request: SyncGroupRequest) -> None:
    """SyncGroup behind the common gate."""
    group = shard.groups.get(request.group_id)
    error = Err.UNKNOWN_MEMBER_ID if group is None else _sync_refusal(group, request)
    if group is None or error is not Err.NONE:
        shard.reply(token, sync_error(error))
        return
    member = group.members[request.member_id]
    _has_synced(shard, group, member)
    if group.state is State.STABLE:
        shard.reply(token, _sync_answer(group, member))
        if shard.settings.policy.stable_sync_restarts_session:
            restart_session(shard, group, member)
        return
    member.sync_token = token
    if member.member_id == group.leader:
        given = {a.member_id: a.assignment for a in request.assignments}
        shard.write(SyncWrite(group, {member_id: given.get(member_id, b"") for member_id in group.members}))


def _sync_refusal(group: Group, request: SyncGroupRequest) -> Err:
    if group.state is State.DEAD:
        return Err.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not Err.NONE:
        return error
    if request.generation_id != group.generation:
        return Err.ILLEGAL_GENERATION
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return Err.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and request.protocol_name != group.protocol:
        return Err.INCONSISTENT_GROUP_PROTOCOL
    return SYNC_ANSWER[group.state]


def _has_synced(shard: Shard, group: Group, member: Member) -> None:
    if group.pending_sync.pop(member.member_id, 0) is None and not group.pending_sync:
        shard.cancel(("sync", group.group_id))


def pending_sync_expired(shard: Shard, key: TimerKey) -> None:
    """Whoever hasn't sent SyncGroup within the rebalance timeout goes, and the rest joins again."""
    group = shard.groups.get(str(key[1]))
    if group is None or not group.pending_sync or group.state not in (State.COMPLETING_REBALANCE, State.STABLE):
        return
    for member_id in list(group.pending_sync):
        shard.cancel(("session", group.group_id, member_id))
        group.remove(member_id)
    prepare_rebalance(shard, group)


# --- Heartbeat, sessions ----------------------------------------------------------------------------------------------


def _session_key(group: Group, member: Member) -> TimerKey:
    return ("session", group.group_id, member.member_id)


def restart_session(shard: Shard, group: Group, member: Member) -> None:
    """The member was heard of."""
    shard.out.timers.append((("session", group.group_id, member.member_id), shard.now_ms + member.session_timeout_ms))


def heartbeat(shard: Shard, token: int, client: Client, request: Heartbeat) -> None:
    """Heartbeat behind the common gate."""
    group = shard.groups.get(request.group_id)
    if group is None:
        error = Err.UNKNOWN_MEMBER_ID
    elif group.state is State.DEAD:
        error = Err.COORDINATOR_NOT_AVAILABLE
    else:
        error = group.check_member(request.member_id, request.instance_id)
        if error is Err.NONE:
            if request.generation != group.generation:
                error = Err.ILLEGAL_GENERATION
            else:
                error = HEARTBEAT_ANSWER[group.state]
                restart_session(shard, group, group.members[request.member_id])
    shard.out.replies.append((token, error))


def session_expired(shard: Shard, key: TimerKey) -> None:
    """A member was silent for its session timeout; one with a parked request is alive, unless it is new."""
    group = shard.groups.get(str(key[1]))
    member = None if group is None else group.members.get(str(key[2]))
    if group is not None and member is not None and (member.is_new or not member.is_parked):
        _remove_and_rebalance(shard, group, member.member_id)


def pending_expired(shard: Shard, key: TimerKey) -> None:
    """A member that was given an id didn't come back with it."""
    group = shard.groups.get(str(key[1]))
    if group is not None and group.pending_members.pop(str(key[2]), None) is not None:
        _after_pending_left(shard, group)


def _after_pending_left(shard: Shard, group: Group) -> None:
    if group.state is State.PREPARING_REBALANCE:
        try_complete_join(shard, group)


# --- LeaveGroup -------------------------------------------------------------------------------------------------------


def leave(shard: Shard, token: int, client: Client, request: LeaveGroup) -> None:
    """LeaveGroup behind the common gate: each leaver has its own answer."""
    group = shard.groups.get(request.group_id)
    if group is None:
        shard.reply(token, (Err.NONE, [Err.UNKNOWN_MEMBER_ID for _ in request.leavers]))
        return
    if group.state is State.DEAD:
        shard.reply(token, (Err.COORDINATOR_NOT_AVAILABLE, []))
        return
    once = shard.settings.policy.leave_rebalances_once
    errors = [_leave_one(shard, group, leaver, rebalance=not once) for leaver in request.leavers]
    if once and Err.NONE in errors:
        _after_removal(shard, group)
    shard.reply(token, (Err.NONE, errors))


def _leave_one(shard: Shard, group: Group, leaver: Leaver, *, rebalance: bool) -> Err:
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
        return Err.NONE
    else:
        error = group.check_member(member_id, leaver.instance_id)
        if error is not Err.NONE:
            return error
    _forget_member(shard, group, member_id)
    if rebalance:
        _after_removal(shard, group)
    return Err.NONE


def _remove_and_rebalance(shard: Shard, group: Group, member_id: str) -> None:
    _forget_member(shard, group, member_id)
    _after_removal(shard, group)


def _forget_member(shard: Shard, group: Group, member_id: str) -> None:
    """Remove a member, if it is one; its parked JoinGroup is answered UNKNOWN_MEMBER_ID, with no id."""
    member = group.members.get(member_id)
    if member is not None:
        _answer_join(shard, group, member, join_error(member.join_version, Err.UNKNOWN_MEMBER_ID, NO_MEMBER))
        shard.cancel(_session_key(group, member))
        group.remove(member_id)


def _after_removal(shard: Shard, group: Group) -> None:
    if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
        prepare_rebalance(shard, group)
    elif group.state is State.PREPARING_REBALANCE:
        try_complete_join(shard, group)


# --- the partition moves away -----------------------------------------------------------------------------------------


def unload(shard: Shard, group: Group) -> None:
    """Answer everything parked with NOT_COORDINATOR."""
    group.state = State.DEAD
    for member in group.members.values():
        _answer_join(shard, group, member, join_error(member.join_version, Err.NOT_COORDINATOR, member.member_id))
        _answer_sync(shard, member, sync_error(Err.NOT_COORDINATOR))

"""JoinGroup: Kafka's checks in their order, then the member's place in the group. Static members (KIP-345) that
come back without their id take over their old slot."""

from __future__ import annotations

from broker_sim.coordinator.classic.group import (
    ANSWERED_STILL_COUNTED,
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    NO_MEMBER,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
    Member,
)
from broker_sim.coordinator.classic.rebalance import (
    answer_join,
    answer_sync,
    forget_member,
    join_answer,
    join_error,
    maybe_prepare_rebalance,
    prepare_rebalance,
    restart_session,
    session_key,
    sync_error,
    try_complete_join,
)
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import Client
from broker_sim.coordinator.records import GroupRecord
from broker_sim.coordinator.state import DeferredMemberRequest, ShardState, Write
from kafka_wire.errors import NO_ERROR, Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from kafka_wire.messages.offsets_log import GroupMetadataValue

_KNOWN_ID_SINCE = 4  # JoinGroup version from which a dynamic member must come back with its id (KIP-394)
_SKIP_ASSIGNMENT_SINCE = 9  # JoinGroup version with skip_assignment for a static leader (KIP-814)


def join(
    shard: ShardState, token: int, client: Client, request: JoinGroupRequest, replaces: Group | None = None
) -> None:
    """JoinGroup behind the common gate and the check of the session timeout. ``replaces``: an empty group of another kind, which a
    classic one takes the place of."""
    member_id, group_is_new = request.member_id, False
    group = shard.groups.get(request.group_id) if replaces is None else None
    if group is None:
        if member_id != NO_MEMBER:
            shard.reply(token, join_error(client.api_version, Err.UNKNOWN_MEMBER_ID, member_id))
            _forget_emptied(shard, replaces)
            return
        group = ClassicGroup(request.group_id, state_ts_ms=shard.now_ms)
        group_is_new = True
        if replaces is not None:
            group.adopt_offsets_of(replaces)
            shard.store.replace(replaces, group)
        shard.groups[request.group_id] = group
    elif not isinstance(group, ClassicGroup):
        shard.reply(token, join_error(client.api_version, Err.INCONSISTENT_GROUP_PROTOCOL, member_id))
        return
    error: JoinGroupResponse | None = None
    had_failed = group.join_phase_failed
    max_size = shard.settings.max_group_size
    if len(group.members) >= max_size and not _has_room(group, member_id, max_size):
        forget_member(shard, group, member_id)
        if group.pending_members.pop(member_id, None) is not None:
            shard.cancel(("pending", group.group_id, member_id))
        error = join_error(client.api_version, Err.GROUP_MAX_SIZE_REACHED, NO_MEMBER)
    elif group.state is DEAD:
        error = join_error(client.api_version, Err.COORDINATOR_NOT_AVAILABLE, member_id)
    elif not group.supports(request.protocol_type, request.protocols):
        error = join_error(client.api_version, Err.INCONSISTENT_GROUP_PROTOCOL, member_id)
    elif member_id == NO_MEMBER:
        error = _join_new(shard, group, token, client, request)
    else:
        error = _join_known(shard, group, token, client, request)
    if group.state is PREPARING_REBALANCE and (error is None or shard.settings.policy.refused_join_completes):
        try_complete_join(shard, group)
    if error is not None:
        shard.reply(token, error)
    elif group.join_phase_failed and not had_failed:
        _answer_failed(shard, group, token)
    if group_is_new and shard.settings.policy.new_group_is_stored and not shard.out.appends:
        group.visible_at_high_watermark = shard.next_high_watermark
        shard.write(NewGroupWrite(group.group_id, shard, replaces))
    if error is None and shard.answers_wait and any(m.join_token == token for m in group.members.values()):
        shard.defer(DeferredJoin(group.group_id, token))


def _forget_emptied(shard: ShardState, group: Group | None) -> None:
    """A refused JoinGroup into a group of another kind without members: Kafka has removed it from memory by then, ahead of tombstones
    that it does not write, so that the group is back with the next load (GroupMetadataManager.maybeDeleteEmptyConsumerGroup). A group
    with offsets stays: Kafka keeps those apart from groups."""
    if group is not None and not (group.offsets or group.pending_txn_offsets or shard.writes):
        shard.store.discard(group)


def _answer_failed(shard: ShardState, group: ClassicGroup, token: int) -> None:
    """The vote had no candidate: Kafka throws inside the request that ended the join phase, and the other JoinGroups stay deferred."""
    member = next((one for one in group.members.values() if one.join_token == token), None)
    if member is not None:
        shard.reply(token, join_error(member.join_version, Err.UNKNOWN_SERVER_ERROR, NO_MEMBER))
        member.join_token = ANSWERED_STILL_COUNTED


class NewGroupWrite(Write):
    """The empty record of a group that a JoinGroup has just made, behind what ends the one that it ``replaces``. Where it can't be
    written the group has never been."""

    __slots__ = ("group_id", "replaces")

    def __init__(self, group_id: str, shard: ShardState, replaces: Group | None = None) -> None:
        value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=shard.now_ms)
        before = [] if replaces is None else replaces.tombstones(shard.settings.policy)
        super().__init__(None, [*before, GroupRecord(group_id, value)])
        self.group_id, self.replaces = group_id, replaces

    def failed(self, shard: ShardState, error: Err) -> None:
        """Answer the deferred requests of the group with the error, except after a timeout."""
        group = shard.classic(self.group_id)
        if group is None or error is Err.REQUEST_TIMED_OUT:
            return
        mapped = shard.settings.policy.sync_errors.get(error, error)
        for member in group.members.values():
            answer_join(shard, group, member, join_error(member.join_version, mapped, NO_MEMBER))
            # the join phase may have ended meanwhile; the leader's SyncGroup fails with this, but finds no group any more
            answer_sync(shard, member, sync_error(mapped))

    def revert(self, shard: ShardState) -> None:
        """The group has never been."""
        group = shard.classic(self.group_id)
        if group is None:
            return
        for member in group.members.values():
            shard.cancel(session_key(group, member))
        for member_id in group.pending_members:
            shard.cancel(("pending", group.group_id, member_id))
        shard.cancel(("rebalance", group.group_id))
        shard.cancel(("sync", group.group_id))  # or it would fire for the next group of that name
        shard.store.discard(group)
        if self.replaces is not None:
            shard.store.revert(self.replaces, group)


class DeferredJoin(DeferredMemberRequest):
    """A deferred JoinGroup. Where it is cut off its member stays, and counts as one that has joined (its awaitingJoinFuture does in
    Kafka)."""

    __slots__ = ()

    def failed(self, shard: ShardState, error: Err) -> None:
        """Cut it off, if it still waits."""
        group = shard.classic(self.group_id)
        if group is None:
            return
        member = next((m for m in group.members.values() if m.join_token == self.token), None)
        if member is not None:
            mapped = shard.settings.policy.sync_errors.get(error, error)
            shard.reply(self.token, join_error(member.join_version, mapped, NO_MEMBER))
            member.join_token = ANSWERED_STILL_COUNTED


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Whether a join fits ``group.max.size`` (acceptJoiningMember)."""
    if group.state in (EMPTY, DEAD):
        return True
    member = group.members.get(member_id)
    if group.state is PREPARING_REBALANCE:
        return (member is not None and member.join_token is not None) or group.joining < max_size
    return member is not None or len(group.members) < max_size


def _new_member(member_id: str, token: int, client: Client, request: JoinGroupRequest) -> Member:
    return Member(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=client.client_id,
        client_host=client.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout(request, client),
        protocol_type=request.protocol_type,
        protocols=[(p.name, p.metadata) for p in request.protocols],
        join_token=token,
        join_version=client.api_version,
        is_new=True,
    )


def rebalance_timeout(request: JoinGroupRequest, client: Client) -> int:
    return request.rebalance_timeout_ms if client.api_version >= 1 else request.session_timeout_ms


def _join_new(
    shard: ShardState, group: ClassicGroup, token: int, client: Client, request: JoinGroupRequest
) -> JoinGroupResponse | None:
    """A join with an empty member id; returns the answer to give now, None if it is deferred."""
    instance_id = request.group_instance_id
    new_id = f"{client.client_id if instance_id is None else instance_id}-{shard.new_id()}"
    if instance_id is not None and instance_id in group.static_members:
        replace_static(shard, group, group.static_members[instance_id], new_id, token, client, request)
    elif instance_id is None and client.api_version >= _KNOWN_ID_SINCE:
        group.pending_members[new_id] = request.session_timeout_ms
        shard.arm(("pending", group.group_id, new_id), request.session_timeout_ms)
        return join_error(client.api_version, Err.MEMBER_ID_REQUIRED, new_id)
    else:
        _add_and_rebalance(shard, group, _new_member(new_id, token, client, request))
    return None


def _join_known(
    shard: ShardState, group: ClassicGroup, token: int, client: Client, request: JoinGroupRequest
) -> JoinGroupResponse | None:
    """A join with a member id; returns the answer to give now, None if it is deferred."""
    member_id = request.member_id
    if member_id in group.pending_members:
        if request.group_instance_id is not None:  # Kafka takes it for an illegal state
            return join_error(client.api_version, Err.UNKNOWN_SERVER_ERROR, NO_MEMBER)
        shard.cancel(("pending", group.group_id, member_id))
        _add_and_rebalance(shard, group, _new_member(member_id, token, client, request))
        return None
    error = group.check_member(member_id, request.group_instance_id)
    if error is not NO_ERROR:
        return join_error(client.api_version, error, member_id)
    member = group.members[member_id]
    if group.state is COMPLETING_REBALANCE:
        if member.matches(request.protocols):  # the answer of this generation may have been lost
            return join_answer(shard, group, member, client.api_version)
    elif group.state is STABLE:
        if member_id != group.leader and member.matches(request.protocols):
            return join_answer(shard, group, member, client.api_version)
    elif group.state is not PREPARING_REBALANCE:
        return join_error(client.api_version, Err.UNKNOWN_MEMBER_ID, member_id)
    update_member(group, member, token, client, request)
    maybe_prepare_rebalance(shard, group)
    return None


def _add_and_rebalance(shard: ShardState, group: ClassicGroup, member: Member) -> None:
    if group.state is PREPARING_REBALANCE:
        first = group.generation == 0
        group.new_member_added |= (
            first if shard.settings.policy.window_extends_for == "first generation" else group.was_empty
        )
    group.add(member)
    # It may not know its id yet and then can't heartbeat: another timeout watches it until its JoinGroup is answered.
    shard.arm(session_key(group, member), shard.settings.new_member_join_timeout_ms)
    maybe_prepare_rebalance(shard, group)


def update_member(
    group: ClassicGroup, member: Member, token: int | None, client: Client, request: JoinGroupRequest
) -> None:
    group.set_protocols(member, [(p.name, p.metadata) for p in request.protocols])
    group.set_timeouts(member, request.session_timeout_ms, rebalance_timeout(request, client))
    member.join_version = client.api_version
    group.joining += (token is not None) - (member.join_token is not None)
    member.join_token = token


class StaticWrite(Write):
    """The group's record after a static member came back with a new id while the group is Stable and its protocol stays."""

    __slots__ = ("before", "group_id", "new_id", "old_id", "old_leader", "version")

    def __init__(
        self, group: ClassicGroup, old_id: str, new_id: str, old_leader: str | None, before: Member, version: int
    ) -> None:
        super().__init__(None, [group.record()])
        self.group_id, self.old_id, self.new_id, self.old_leader = group.group_id, old_id, new_id, old_leader
        self.before, self.version = before, version

    def done(self, shard: ShardState) -> None:
        """Answer without a rebalance: same generation; only from v9 on may a leader know that it leads."""
        self.publish(shard)
        group = shard.classic(self.group_id)
        member = None if group is None else group.members.get(self.new_id)
        if group is None or member is None or member.join_token is None:
            return
        answer = join_answer(shard, group, member, self.version)
        if self.version >= _SKIP_ASSIGNMENT_SINCE:
            answer.skip_assignment = member.member_id == group.leader
        else:
            answer.leader, answer.members = self.old_leader or NO_MEMBER, []
        answer_join(shard, group, member, answer)

    def failed(self, shard: ShardState, error: Err) -> None:
        """Undo the replacement and answer the JoinGroup with the mapped error (GroupCoordinator.updateStaticMemberAndRebalance)."""
        group = shard.classic(self.group_id)
        member = None if group is None else group.members.get(self.new_id)
        if group is None or member is None:
            return
        answer = join_error(member.join_version, shard.settings.policy.sync_errors.get(error, error), NO_MEMBER)
        answer.generation_id, answer.leader = group.generation, self.old_leader or NO_MEMBER
        answer.protocol_type, answer.protocol_name = group.protocol_type, group.protocol
        answer_join(shard, group, member, answer)
        group.set_protocols(member, self.before.protocols)
        group.set_timeouts(member, self.before.session_timeout_ms, self.before.rebalance_timeout_ms)
        group.replace_static(self.new_id, self.old_id)
        shard.cancel(("session", group.group_id, self.new_id))
        restart_session(shard, group, member)


def replace_static(
    shard: ShardState,
    group: ClassicGroup,
    old_id: str,
    new_id: str,
    token: int,
    client: Client,
    request: JoinGroupRequest,
) -> None:
    """A static member is back without its id: it takes over its old slot, and the old id is fenced."""
    old_leader = group.leader
    member = group.members[old_id]
    answer_join(shard, group, member, join_error(member.join_version, Err.FENCED_INSTANCE_ID, old_id))
    answer_sync(shard, member, sync_error(Err.FENCED_INSTANCE_ID))
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
    # Before the update, as Kafka does: until the next sign of life the session timeout of the one that was replaced counts.
    restart_session(shard, group, member)
    member.is_new = member.is_new and shard.settings.policy.replaced_member_stays_new
    update_member(group, member, token, client, request)
    if group.state is STABLE:
        voted = group.vote(shard.settings.policy.votes_are_counted_in)
        if (
            voted is None
        ):  # Kafka falls over a vote without a candidate, with the place taken over and its JoinGroup deferred
            shard.reply(token, join_error(client.api_version, Err.UNKNOWN_SERVER_ERROR, NO_MEMBER))
            member.join_token = ANSWERED_STILL_COUNTED
        elif voted == group.protocol:
            shard.write(StaticWrite(group, old_id, new_id, old_leader, before, client.api_version))
        else:
            prepare_rebalance(shard, group)
    elif group.state is COMPLETING_REBALANCE:
        # The leader may know the old id: its assignment would miss the new one.
        prepare_rebalance(shard, group)

"""ShareGroupHeartbeat: a member joins, sends its subscription, leaves, and gets its assigned partitions.

One request does all of it in Kafka's order, which is that of its records: the member (10), the group epoch (11), the target assignment
(13, 12), the member's current assignment (14), the partitions whose state must be initialized (15). Nothing is revoked: a member has
its target assignment at its next heartbeat. Source: GroupMetadataManager.shareGroupHeartbeat (4.x).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from broker_sim.coordinator.assignors import simple
from broker_sim.coordinator.classic.vote import java_order
from broker_sim.coordinator.epochs.expected import Expected, LongHeartbeat, encoded_in_pieces
from broker_sim.coordinator.epochs.holdings import units
from broker_sim.coordinator.epochs.reconcile import LEFT, Current
from broker_sim.coordinator.epochs.refused import Refused, is_not_blank, need
from broker_sim.coordinator.epochs.sessions import cancel_session, restart_session
from broker_sim.coordinator.epochs.writes import Changes, append, submit
from broker_sim.coordinator.outcome import Client
from broker_sim.coordinator.policy import Settings
from broker_sim.coordinator.share import partitions
from broker_sim.coordinator.share.group import (
    LAYOUT,
    ShareGroup,
    current_key,
    current_value,
    member_key,
    target_key,
    target_value,
)
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.topics import differ, in_order
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log
from kafka_wire.messages.k76_share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

Request = ShareGroupHeartbeatRequest
Response = ShareGroupHeartbeatResponse
Member = log.ShareGroupMemberMetadataValue

LONGEST_MEMBER_ID = 36
"""Characters of a member id, from 4.2 on: those of a uuid's text."""

UNKNOWN_MEMBER = log.ShareGroupMemberMetadataValue(rack_id=None)
"""Metadata of a member before its first heartbeat."""


def check(request: Request, settings: Settings) -> None:
    """Check a heartbeat's fields, before its group is looked up. Raises Refused. Source: KafkaApis.isMemberIdValid (since 4.2),
    GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid, with its order and messages."""
    if not settings.policy.nameless_share_member_gets_text:
        need(0 < len(request.member_id) <= LONGEST_MEMBER_ID, None)
    need(is_not_blank(request.member_id), "MemberId can't be empty.")
    need(is_not_blank(request.group_id), "GroupId can't be empty.")
    need(is_not_blank(request.rack_id), "RackId can't be empty.")
    if request.member_epoch == 0:
        need(bool(request.subscribed_topic_names), "SubscribedTopicNames must be set in first request.")
    elif request.member_epoch < LEFT:
        need(False, "MemberEpoch is invalid.")


def refusal(error: Err, words: str | None = None) -> Response:
    """A heartbeat's answer that is nothing but an error."""
    return Response(error_code=error, error_message=words)


class LongShareHeartbeat(LongHeartbeat[Request]):
    """A ShareGroupHeartbeat with very many topic names."""

    __slots__ = ()


def expecting(shard: ShardState, client: Client, request: Request) -> Generator[None, None, Expected[Member]]:
    """The member's record that a heartbeat with very many topic names leads to, encoded in pieces."""
    group = shard.groups.get(request.group_id)
    known = group.latest.members.get(request.member_id) if isinstance(group, ShareGroup) else None
    return (yield from encoded_in_pieces(_member_record(known, client, request)))


def long_heartbeat(shard: ShardState, token: int, client: Client, body: LongShareHeartbeat) -> None:
    """As `heartbeat`, for a request whose member record was encoded in pieces."""
    heartbeat(shard, token, client, body.request, body.expected)


def heartbeat(
    shard: ShardState, token: int, client: Client, request: Request, expected: Expected[Member] | None = None
) -> None:
    """A heartbeat behind the common gate and the check of its form."""
    try:
        if request.member_epoch == LEFT:
            _leave(shard, token, request)
        else:
            _heartbeat(shard, token, client, request, expected)
    except Refused as refused:
        shard.answer(token, refusal(refused.error, refused.words), refusal)


def _heartbeat(
    shard: ShardState, token: int, client: Client, request: Request, expected: Expected[Member] | None
) -> None:
    group, member_id = _group_of(shard, request), request.member_id
    latest = group.latest
    if member_id not in latest.members and len(latest.members) >= shard.settings.share.max_size:
        words = f"The share group has reached its maximum capacity of {shard.settings.share.max_size} members."
        raise Refused(Err.GROUP_MAX_SIZE_REACHED, words)
    before = latest.current(member_id)
    is_new = request.member_epoch == 0 and member_id not in latest.members
    if not is_new and not (request.member_epoch == 0 and shard.settings.policy.share_members_may_join_again):
        _check_epoch(group, before, request)
    shard.groups[group.group_id] = group
    changes = Changes(group)
    _put_member(changes, client, request, expected)
    has_moved = _move_group(shard, changes)
    _compute_target(shard, changes)
    after = _follow(shard, changes, member_id, before, has_moved=has_moved)
    offsets = None
    missing = partitions.uninitialized(shard, group, again=partitions.is_overdue(shard, group))
    if missing:
        offsets = partitions.start_offsets(shard, group, missing)
        partitions.begin(shard, changes, missing)
    group.session_timeout_ms = shard.share_setting(group.group_id, "session_timeout_ms")
    restart_session(shard, group, member_id)
    full = request.member_epoch == 0 or request.subscribed_topic_names is not None
    shows_assignment = full or units(before.assigned) != units(after.assigned)
    assignment = [TopicPartitions(topic_id, list(numbers)) for topic_id, numbers in after.assigned.items()]
    answer = Response(
        member_id=member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=shard.share_setting(group.group_id, "heartbeat_interval_ms"),
        assignment=Assignment(assignment) if shows_assignment else None,
    )
    if not missing:
        submit(shard, token, changes, answer, refusal)
        return
    commands = partitions.initialize_commands(group.group_id, latest.group_epoch, missing, offsets)
    initialization = partitions.StateInitialization(group, missing)
    append(shard, partitions.PersisterWrite(token, changes, answer, refusal, commands, initialization))


def _group_of(shard: ShardState, request: Request) -> ShareGroup:
    """The group, made where a member is the first to join. Raises Refused."""
    group = shard.groups.get(request.group_id)
    if group is None or group.is_dead:
        if request.member_epoch == 0:
            return ShareGroup.made(request.group_id, shard.settings.policy)
        raise Refused(Err.GROUP_ID_NOT_FOUND, f"Share group {request.group_id} not found.")
    if not isinstance(group, ShareGroup):
        raise Refused(Err.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a share group.")
    return group


def _check_epoch(group: ShareGroup, current: Current[bytes], request: Request) -> None:
    """Raises Refused unless the epoch is the member's own, or the previous one, if the response was lost."""
    epoch = request.member_epoch
    if request.member_id not in group.latest.members:
        words = f"Member {request.member_id} is not a member of group {group.group_id}."
        raise Refused(Err.UNKNOWN_MEMBER_ID, words)
    if epoch == current.epoch or (epoch < current.epoch and epoch == current.previous):
        return
    than, why = "greater", ""
    if epoch < current.epoch:
        than = "smaller"
        why = f", and it does not match the previous member epoch ({current.previous})"
    raise Refused(
        Err.FENCED_MEMBER_EPOCH,
        f"The share group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({current.epoch}){why}. The member must abandon all its partitions and rejoin.",
    )


def _member_record(known: Member | None, client: Client, request: Request) -> Member:
    """The member's record after this heartbeat; ``known``: its record until now."""
    before, names = known or UNKNOWN_MEMBER, request.subscribed_topic_names
    return replace(
        before,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=client.client_host,
        subscribed_topic_names=before.subscribed_topic_names if names is None else in_order(names),
    )


def _put_member(changes: Changes, client: Client, request: Request, expected: Expected[Member] | None) -> None:
    """Add the member's record, if it has changed."""
    group, member_id = changes.group, request.member_id
    known: Member | None = group.latest.members.get(member_id)
    after = _member_record(known, client, request)
    if known is None or after != known:
        before = known or UNKNOWN_MEMBER
        changes.subscription_changed = differ(after.subscribed_topic_names, before.subscribed_topic_names)
        encoded = None if expected is None else expected.bytes_of(after)
        changes.add(LAYOUT.member, member_key(group.group_id, member_id), after, encoded)


def _move_group(shard: ShardState, changes: Changes) -> bool:
    """The group's epoch moves where its members read other topics than before, these topics have changed, or there is more of them to
    share out. Returns whether it does."""
    group = changes.group
    assert isinstance(group, ShareGroup)
    latest = group.latest
    hashed = group.metadata_hash(shard.topics)
    policy = shard.settings.policy
    waits = policy.share_initialization_waits_for_target and latest.group_epoch > latest.target_epoch
    has_more = not waits and group.has_unassigned(of_unread_topics=policy.unread_share_topics_are_pending)
    if changes.subscription_changed or has_more or hashed != latest.metadata_hash:
        _put_epoch(changes, latest.group_epoch + 1, hashed)
        return True
    return False


def _put_epoch(changes: Changes, epoch: int, hashed: int) -> None:
    key = log.ShareGroupMetadataKey(changes.group.group_id)
    changes.add(LAYOUT.group, key, log.ShareGroupMetadataValue(epoch, hashed))


def _compute_target(shard: ShardState, changes: Changes) -> None:
    """Compute the target assignment if the group's epoch has increased since the last computation, and the interval has passed."""
    group = changes.group
    assert isinstance(group, ShareGroup)
    latest, topics = group.latest, shard.topics
    if latest.group_epoch <= latest.target_epoch:
        return
    interval_ms = shard.share_setting(group.group_id, "assignment_interval_ms")
    if latest.target_ts_ms and shard.now_ms < latest.target_ts_ms + interval_ms:
        return
    members = {
        member_id: frozenset(
            topics.by_name[name].topic_id for name in member.subscribed_topic_names if name in topics.by_name
        )
        for member_id, member in ((member_id, latest.members[member_id]) for member_id in java_order(latest.members))
    }
    existing = java_order(filter(topics.by_name.__contains__, latest.named), len(latest.named))
    read = [topics.by_name[name].topic_id for name in existing]
    shared = {topic_id: latest.initialized[topic_id].partitions for topic_id in read if topic_id in latest.initialized}
    assignor = simple.ASSIGNORS[shard.settings.policy.share_assignor]
    assigned = assignor(shared, members, latest.targets, is_homogeneous=latest.is_homogeneous)
    for member_id in members:
        target = assigned.get(member_id, {})
        if latest.targets.get(member_id) != target:
            changes.add(LAYOUT.target, target_key(group.group_id, member_id), target_value(target))
    timestamp = shard.now_ms if shard.settings.policy.assignment_times_are_stored else 0
    changes.add(
        LAYOUT.target_metadata,
        log.ShareGroupTargetAssignmentMetadataKey(group.group_id),
        log.ShareGroupTargetAssignmentMetadataValue(latest.group_epoch, timestamp),
    )


def _follow(
    shard: ShardState, changes: Changes, member_id: str, before: Current[bytes], *, has_moved: bool
) -> Current[bytes]:
    """The member is where the target is; ``has_moved``: whether the group's epoch was incremented just now. Source:
    ShareGroupAssignmentBuilder."""
    latest, filters = changes.group.latest, shard.settings.policy.share_assignments_are_filtered
    is_there = before.epoch == latest.target_epoch and member_id in latest.currents
    if is_there and not (has_moved and filters):
        return before
    target = latest.target(member_id)
    if filters:
        by_name = shard.topics.by_name
        names = latest.members[member_id].subscribed_topic_names
        read = {by_name[name].topic_id for name in names if name in by_name}
        target = {topic_id: numbers for topic_id, numbers in target.items() if topic_id in read}
    owned = {topic_id: dict.fromkeys(numbers, 0) for topic_id, numbers in target.items()}
    after = Current(latest.target_epoch, before.previous if is_there else before.epoch, assigned=owned)
    if is_there and after == before:
        return before
    changes.add(LAYOUT.current, current_key(changes.group.group_id, member_id), current_value(after))
    return after


# leaving


def _leave(shard: ShardState, token: int, request: Request) -> None:
    """Remove the member. Raises Refused for an unknown one."""
    group, member_id = shard.groups.get(request.group_id), request.member_id
    if group is None or group.is_dead:
        raise Refused(Err.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    if not isinstance(group, ShareGroup):
        raise Refused(Err.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a share group.")
    if member_id not in group.latest.members:
        raise Refused(Err.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    changes = _removal(shard, group, member_id)
    submit(shard, token, changes, Response(member_id=member_id, member_epoch=LEFT), refusal)


def _removal(shard: ShardState, group: ShareGroup, member_id: str) -> Changes:
    changes, group_id = Changes(group), group.group_id
    changes.add(LAYOUT.current, current_key(group_id, member_id), None)
    changes.add(LAYOUT.target, target_key(group_id, member_id), None)
    changes.add(LAYOUT.member, member_key(group_id, member_id), None)
    cancel_session(shard, group, member_id)
    epoch = group.latest.group_epoch + 1
    _put_epoch(changes, epoch, group.metadata_hash(shard.topics))
    if not group.latest.members and shard.settings.policy.emptied_group_target_is_stored:
        key = log.ShareGroupTargetAssignmentMetadataKey(group_id)
        changes.add(LAYOUT.target_metadata, key, log.ShareGroupTargetAssignmentMetadataValue(epoch))
    return changes


# what a shard does with share groups besides their requests


def begin(shard: ShardState, group: ShareGroup) -> None:
    """Restart the sessions of a group that was loaded, and repeat the pending requests of its former coordinator."""
    group.session_timeout_ms = shard.share_setting(group.group_id, "session_timeout_ms")
    for member_id in group.latest.members:
        restart_session(shard, group, member_id)
    partitions.resume(shard, group)


def unload(shard: ShardState, group: ShareGroup) -> None:
    """Without effect: no request of a share group is deferred."""
    group.end()


def session_expired(shard: ShardState, group: ShareGroup, member_id: str) -> None:
    """Remove a member whose session has expired."""
    if member_id in group.latest.members:
        submit(shard, None, _removal(shard, group, member_id), None)

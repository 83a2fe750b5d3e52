"""ConsumerGroupHeartbeat: a member joins, sends its subscription and owned partitions, and gets its assignment.

One request does all of it in Kafka's order, which is that of its records: the member (5), the group epoch (3), the target assignment
(7, 6), the member's current assignment (8). Source: GroupMetadataManager.consumerGroupHeartbeat (4.x).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from broker_sim.coordinator.classic.group import ClassicGroup
from broker_sim.coordinator.consumer import departing, leaving, migration, subscriptions, timers
from broker_sim.coordinator.consumer.advancing import (
    UNKNOWN_MEMBER,
    compute_target,
    move_group,
    note_subscription_type,
    put_current,
    reconcile,
)
from broker_sim.coordinator.consumer.group import (
    LAYOUT,
    ConsumerGroup,
    member_key,
    most,
    target_key,
    target_value,
    voted,
)
from broker_sim.coordinator.consumer.requests import new_member_id
from broker_sim.coordinator.epochs import classic_requests
from broker_sim.coordinator.epochs.expected import Expected, LongHeartbeat, encoded_in_pieces
from broker_sim.coordinator.epochs.holdings import covers, units
from broker_sim.coordinator.epochs.reconcile import LEFT_TEMPORARILY, Current, taken_over
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.epochs.sessions import restart_session
from broker_sim.coordinator.epochs.writes import Changes, submit
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import Client
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.topics import differ, in_order
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log
from kafka_wire.messages.k68_consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

Request = ConsumerGroupHeartbeatRequest
Response = ConsumerGroupHeartbeatResponse
Member = log.ConsumerGroupMemberMetadataValue


def refusal(error: Err, words: str | None = None) -> Response:
    """A heartbeat's answer that is nothing but an error."""
    return Response(error_code=error, error_message=words)


class LongConsumerHeartbeat(LongHeartbeat[Request]):
    """A ConsumerGroupHeartbeat with very many topic names."""

    __slots__ = ()


def expecting(shard: ShardState, client: Client, request: Request) -> Generator[None, None, Expected[Member]]:
    """The member's record that a heartbeat with very many topic names leads to, encoded in pieces."""
    group = shard.groups.get(request.group_id)
    known = group.latest.members.get(request.member_id) if isinstance(group, ConsumerGroup) else None
    return (yield from encoded_in_pieces(_member_record(known or UNKNOWN_MEMBER, client, request)))


def long_heartbeat(shard: ShardState, token: int, client: Client, body: LongConsumerHeartbeat) -> None:
    """As `heartbeat`, for a request whose member record was encoded in pieces."""
    heartbeat(shard, token, client, body.request, body.expected)


def heartbeat(
    shard: ShardState, token: int, client: Client, request: Request, expected: Expected[Member] | None = None
) -> None:
    """A heartbeat behind the common gate and the check of its form."""
    try:
        if request.member_epoch < 0:
            departing.leave(shard, token, request)
        else:
            _heartbeat(shard, token, client, request, expected)
    except Refused as refused:
        shard.answer(token, refusal(refused.error, refused.words), refusal)


def _heartbeat(
    shard: ShardState, token: int, client: Client, request: Request, expected: Expected[Member] | None
) -> None:
    member_id = request.member_id or new_member_id(shard)
    changes = _changes_of(shard, request, member_id)
    group = changes.group
    assert isinstance(group, ConsumerGroup)
    votes, resolved = group.latest.votes(), subscriptions.resolved(group)
    changes.topics_changed = group.topics_changed(shard.topics)
    note_subscription_type(changes)
    _admit(shard, changes, request, member_id)
    before = group.latest.current(member_id)
    subscriptions.check(request.subscribed_topic_regex)
    if changes.before is not None and shard.groups.get(group.group_id) is changes.before:
        shard.store.replace(changes.before, group)
    shard.groups[group.group_id] = group
    known = group.latest.members.get(member_id, UNKNOWN_MEMBER)
    _put_member(shard, changes, client, request, member_id, expected)
    default = shard.settings.consumer.assignors[0]
    assignor = voted(votes, known.server_assignor, group.latest.members[member_id].server_assignor, default)
    if shard.settings.policy.other_assignor_moves_group and assignor != most(votes, default):
        changes.subscription_changed = True
    move_group(shard, changes)
    computed = compute_target(shard, changes, assignor)
    # A static member's target is that of its instance id's holder before the request; a new instance id has none (targetAssignment)
    has_target = computed or group.latest.members[member_id].instance_id == known.instance_id
    owned = request.topic_partitions
    reported = None if owned is None else [(topic.topic_id, topic.partitions) for topic in owned]
    after = reconcile(shard, changes, member_id, before, reported, known=known, has_target=has_target)
    changed = after.assigned is not before.assigned and units(before.assigned) != units(after.assigned)
    assignment = None
    if changed or _is_full(request):
        assignment = Assignment([TopicPartitions(topic, list(numbers)) for topic, numbers in after.assigned.items()])
    group.session_timeout_ms = shard.consumer_setting(group.group_id, "session_timeout_ms")
    restart_session(shard, group, member_id)
    timers.cancel_join(shard, group, member_id)
    answer = Response(
        member_id=member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=shard.consumer_setting(group.group_id, "heartbeat_interval_ms"),
        assignment=assignment,
    )
    submit(shard, token, changes, answer, refusal)
    subscriptions.maybe_refresh(shard, group, resolved, group.latest.members[member_id].subscribed_topic_regex)


def _is_full(request: Request) -> bool:
    """Whether the request has all fields, as that of a member that joins or had no answer for too long: the response is complete,
    too."""
    if request.member_epoch == 0:
        return True
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None


def is_plain(request: Request) -> bool:
    """Whether a heartbeat says nothing but who its member is and which epoch it has: most do."""
    return _changes_no_record(request) and request.instance_id is None and request.topic_partitions is None


def _changes_no_record(request: Request) -> bool:
    """Whether it leaves the subscription, the rack, the assignor and the rebalance timeout as they are."""
    return (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rack_id is None
        and request.server_assignor is None
        and request.rebalance_timeout_ms == -1
    )


def unchanged_interval_ms(shard: ShardState, group: Group, client: Client, request: Request, epoch: int) -> int | None:
    """The heartbeat interval if a plain heartbeat with this epoch would change nothing but the end of the session, so that its response
    is `unchanged_answer`; else None."""
    if not isinstance(group, ConsumerGroup) or not group.repeats(request.member_id):
        return None
    latest = group.latest
    member = latest.members.get(request.member_id)
    if member is None or member.server_assignor or not _is_sent_by(member, client):
        return None
    if epoch != latest.target_epoch or group.metadata_hash(shard.topics) != latest.metadata_hash:
        return None
    if group.session_timeout_ms != shard.consumer_setting(group.group_id, "session_timeout_ms"):
        return None
    return shard.consumer_setting(group.group_id, "heartbeat_interval_ms")


def unchanged_answer(member_id: str, epoch: int, interval_ms: int) -> Response:
    """The response to a heartbeat that changes nothing."""
    return Response(member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms)


# who it is


def _changes_of(shard: ShardState, request: Request, member_id: str) -> Changes:
    """The changes of the group; a joining member creates a missing group. Raises Refused if it may not."""
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup) and not group.is_dead:
        migration.check_room(shard, group.latest.members, len(group.latest.members), member_id)
        return Changes(group)
    policy = shard.settings.policy
    if request.member_epoch == 0 and (group is None or group.is_dead):
        return Changes(ConsumerGroup.made(request.group_id, policy))
    if request.member_epoch == 0 and isinstance(group, ClassicGroup) and group.is_empty:
        return classic_requests.replaced(group, ConsumerGroup.made(request.group_id, policy))
    if group is None:
        raise Refused(Err.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
    if request.member_epoch == 0 and isinstance(group, ClassicGroup):
        return migration.to_consumer(shard, group, member_id)
    raise Refused(Err.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")


def _admit(shard: ShardState, changes: Changes, request: Request, member_id: str) -> None:
    """Whether the member may speak for itself now; a static one may take the place of another. Raises Refused."""
    group = changes.group
    assert isinstance(group, ConsumerGroup)
    joins, instance_id = request.member_epoch == 0, request.instance_id
    if instance_id is not None:
        holder = leaving.holder_of(group, instance_id)
        if holder is not None and joins:
            _take_over(shard, changes, holder, member_id, request)
            return
        if not joins:
            leaving.check_instance(group, instance_id, member_id)
    is_new = instance_id is not None or member_id not in group.latest.members
    if joins and (is_new or shard.settings.policy.members_join_again):
        return
    if member_id not in group.latest.members:
        raise Refused(Err.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    _check_epoch(group.latest.current(member_id), request)


def _check_epoch(current: Current[bytes], request: Request) -> None:
    """Raises Refused unless the epoch is the member's own, or the previous one, if the response was lost: the member then owns only
    partitions of its assignment before."""
    epoch = request.member_epoch
    owned = request.topic_partitions
    if epoch == current.epoch:
        return
    repeats = epoch < current.epoch and epoch == current.previous and owned is not None
    if repeats and covers(current.assigned, ((topic.topic_id, topic.partitions) for topic in owned or [])):
        return
    than = "greater" if epoch > current.epoch else "smaller"
    raise Refused(
        Err.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({current.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _take_over(shard: ShardState, changes: Changes, old_id: str, new_id: str, request: Request) -> None:
    """A static member returns, usually with another id: it takes the place of the member that left temporarily, without a rebalance; or
    that of a classic member, which can't leave temporarily. Raises Refused if that one hasn't left, even if it is the same member: a
    present member can't join again."""
    group, latest = changes.group, changes.group.latest
    before, group_id = latest.current(old_id), changes.group.group_id
    if before.epoch != LEFT_TEMPORARILY and latest.members[old_id].classic_member_metadata is None:
        raise Refused(
            Err.UNRELEASED_INSTANCE_ID,
            f"Static member {new_id} with instance id {request.instance_id} cannot join the group because the instance id is "
            f"owned by {old_id} member.",
        )
    subscriptions.check(request.subscribed_topic_regex)  # nothing is taken over by who subscribes to none
    member, target = latest.members[old_id], latest.target(old_id)
    leaving.forget(shard, changes, old_id)
    changes.add(LAYOUT.member, member_key(group_id, new_id), member)
    changes.add(LAYOUT.target, target_key(group_id, new_id), target_value(target))
    put_current(shard, changes, new_id, taken_over(before))
    assert isinstance(group, ConsumerGroup)


def _is_sent_by(member: Member, client: Client) -> bool:
    """Whether the client's next heartbeat leaves this record as it is, if it says nothing new."""
    return (
        member.client_id == client.client_id
        and member.client_host == client.client_host
        and member.classic_member_metadata is None
    )


def _member_record(before: Member, client: Client, request: Request) -> Member:
    """The member's record after this heartbeat; ``before``, the record until now, if the heartbeat does not change it."""
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    if (
        _changes_no_record(request)
        and request.instance_id in (None, before.instance_id)
        and _is_sent_by(before, client)
    ):
        return before  # as between two changes of a subscription: most heartbeats
    return replace(
        before,
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=client.client_host,
        subscribed_topic_names=before.subscribed_topic_names if names is None else in_order(names),
        subscribed_topic_regex=before.subscribed_topic_regex if pattern is None else pattern,
        rebalance_timeout_ms=(
            before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        server_assignor=before.server_assignor if request.server_assignor is None else request.server_assignor,
        classic_member_metadata=None,
    )


def _put_member(
    shard: ShardState,
    changes: Changes,
    client: Client,
    request: Request,
    member_id: str,
    expected: Expected[Member] | None,
) -> None:
    """Add the member's record, if it has changed."""
    group = changes.group
    assert isinstance(group, ConsumerGroup)
    known: Member | None = group.latest.members.get(member_id)
    before = known or UNKNOWN_MEMBER
    after = _member_record(before, client, request)
    if known is None or (after is not known and after != known):
        encoded = None if expected is None else expected.bytes_of(after)
        changes.subscription_changed |= differ(after.subscribed_topic_names, before.subscribed_topic_names)
        changes.add(LAYOUT.member, member_key(group.group_id, member_id), after, encoded)
        if after.subscribed_topic_regex != before.subscribed_topic_regex:
            subscriptions.changed(shard, changes, before.subscribed_topic_regex, after.subscribed_topic_regex)

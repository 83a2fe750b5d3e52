"""Classic members in a consumer group: the answers to JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

They join, sync and send heartbeats as in classic groups, but without a leader: JoinGroup is answered at once, SyncGroup with the
coordinator's assignment, and REBALANCE_IN_PROGRESS in a Heartbeat asks a member to rejoin. Its subscription then contains its owned
partitions, which shows what it has revoked. Source: GroupMetadataManager.classicGroupJoinToConsumerGroup and related methods (4.x).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from broker_sim.coordinator.classic import joining
from broker_sim.coordinator.classic.rebalance import join_error, sync_error
from broker_sim.coordinator.consumer import departing, leaving, migration, subscriptions, timers
from broker_sim.coordinator.consumer.advancing import (
    UNKNOWN_MEMBER,
    compute_target,
    move_group,
    note_subscription_type,
    reconcile,
)
from broker_sim.coordinator.consumer.group import (
    LAYOUT,
    ConsumerGroup,
    current_key,
    current_value,
    member_key,
    target_key,
    target_value,
    voted,
)
from broker_sim.coordinator.consumer.migration import assignment_bytes, held_by_id
from broker_sim.coordinator.consumer.requests import new_member_id
from broker_sim.coordinator.epochs.holdings import units
from broker_sim.coordinator.epochs.reconcile import UNRELEASED, UNREVOKED, Current
from broker_sim.coordinator.epochs.writes import Changes, submit
from broker_sim.coordinator.outcome import Client, Heartbeat, LeaveGroup, TimerKey
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.topics import in_order
from kafka_wire.consumer_protocol import Subscription, subscription_of
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse

_NAMELESS_IS_NULL_SINCE = 7  # JoinGroup version that has null for a protocol with an empty name (KIP-559)
_KNOWN_ID_SINCE = 4  # JoinGroup version from which a dynamic member must come back with its id (KIP-394)


def join(shard: ShardState, token: int, client: Client, request: JoinGroupRequest) -> None:
    """JoinGroup of a classic member of a consumer group: answered at once, without a leader. Checks and records are in the order of
    GroupMetadataManager.classicGroupJoinToConsumerGroup, as the first failed check is the response's error."""
    group = shard.groups[request.group_id]
    assert isinstance(group, ConsumerGroup)
    if not group.latest.members:
        joining.join(shard, token, client, request, group)  # it is a classic group from here on
        return
    version, member_id, instance_id = client.api_version, request.member_id, request.group_instance_id

    def refused(error: Err, named: str = "") -> None:
        shard.reply(token, join_error(version, error, named))

    error = _refusal(shard, group, request)
    if error is not Err.NONE:
        refused(error)
        return
    if member_id == "" and instance_id is None and version >= _KNOWN_ID_SINCE:
        refused(Err.MEMBER_ID_REQUIRED, new_member_id(shard))
        return
    holder = None if instance_id is None else group.latest.holder(instance_id)
    if instance_id is not None and member_id not in ("", holder):
        refused(Err.UNKNOWN_MEMBER_ID if holder is None else Err.FENCED_INSTANCE_ID)
        return
    subscription = subscription_of(request.protocols[0].metadata)
    if subscription is None:
        refused(shard.settings.policy.unreadable_subscription)
        return
    changes = Changes(group)
    changes.topics_changed, resolved = group.topics_changed(shard.topics), subscriptions.resolved(group)
    note_subscription_type(changes)
    downgrade: migration.Downgrade | None = None
    if holder is not None and member_id == "":
        member_id = new_member_id(shard)
        was_consumer = group.latest.members[holder].classic_member_metadata is None
        if was_consumer and migration.becomes_classic(shard, group, [holder], replaced=True):
            if not migration.have_common_protocol(group, [holder], [[one.name for one in request.protocols]]):
                refused(Err.UNKNOWN_SERVER_ERROR)
                return
            downgrade = migration.Downgrade(group.latest.group_epoch, member_id, group.latest.target(holder))
        _take_over(shard, changes, holder, member_id)
    member_id = member_id or new_member_id(shard)
    before, known = group.latest.current(member_id), group.latest.members.get(member_id, UNKNOWN_MEMBER)
    votes = group.latest.votes()
    _put_member(shard, changes, client, request, member_id, subscription)
    move_group(shard, changes)
    policy = shard.settings.policy
    rebalances = downgrade is not None and _rebalances(policy.downgrade_rebalances, changes)
    if downgrade is None or policy.downgrade_rebalances == "never":
        new_assignor, default = group.latest.members[member_id].server_assignor, shard.settings.consumer.assignors[0]
        compute_target(shard, changes, voted(votes, known.server_assignor, new_assignor, default))
    after = group.latest.current(member_id)
    if not rebalances:
        owned = held_by_id(shard.topics, subscription.owned)
        after = reconcile(shard, changes, member_id, before, list(owned.items()), known=known)
    _restart_timers(shard, group, member_id, client, request)
    answer = _join_answer(version, request, member_id, after.epoch)
    errors = policy.sync_errors

    def refusal(error: Err) -> JoinGroupResponse:
        return join_error(version, errors.get(error, error), member_id)

    if downgrade is not None:
        departing.convert_to_classic(shard, token, changes, downgrade, answer, refusal, rebalances=rebalances)
    else:
        submit(shard, token, changes, answer, refusal)
        if policy.dropped_regex_moves_group:
            subscriptions.maybe_refresh(shard, group, resolved, None)


def _join_answer(version: int, request: JoinGroupRequest, member_id: str, epoch: int) -> JoinGroupResponse:
    nameless = None if version >= _NAMELESS_IS_NULL_SINCE else ""
    return JoinGroupResponse(
        generation_id=epoch,
        protocol_type="consumer",
        protocol_name=request.protocols[0].name or nameless,
        leader="",
        member_id=member_id,
    )


def _rebalances(policy: str, changes: Changes) -> bool:
    """Whether a group that becomes a classic one by this request rebalances at once (``Policy.downgrade_rebalances``)."""
    if policy == "after another subscription":
        return changes.subscription_changed
    latest = changes.group.latest
    stale: bool = latest.target_epoch < latest.group_epoch
    return policy == "on an older target" and stale


def _restart_timers(
    shard: ShardState, group: ConsumerGroup, member_id: str, client: Client, request: JoinGroupRequest
) -> None:
    """Restart the timers of a member that has joined: its session, and the wait for its SyncGroup. Its revocation needs no timer: its
    Heartbeats request a rejoin, which has a timeout of its own."""
    timers.cancel_revocation(shard, group, member_id)
    timers.cancel_join(shard, group, member_id)
    shard.arm(("session", group.group_id, member_id), request.session_timeout_ms)
    timers.expect_sync(shard, group, member_id, _rebalance_timeout_ms(client, request))


def _refusal(shard: ShardState, group: ConsumerGroup, request: JoinGroupRequest) -> Err:
    """Error with which a group with members rejects this JoinGroup of a classic member; NONE if it accepts it."""
    settings, members = shard.settings, group.latest.members
    if settings.policy.disabled_migration_refuses_joins and settings.consumer.migration_policy == "disabled":
        return Err.INCONSISTENT_GROUP_PROTOCOL
    if len(members) >= settings.consumer.max_size and request.member_id not in members:
        return Err.GROUP_MAX_SIZE_REACHED
    return Err.NONE if _fits(group, request) else Err.INCONSISTENT_GROUP_PROTOCOL


def _fits(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Whether the protocols of a joiner are of the consumer protocol, and one of them is known to all classic members.

    Kafka compares how often a name is in the members' lists with the number of members: the joiner's own list, as it was, counts
    too, and a name that a member has twice counts twice (ConsumerGroup.supportsClassicProtocols, read in 4.1.0 and 4.4.0).
    """
    lists = [
        member.classic_member_metadata.supported_protocols
        for member in group.latest.members.values()
        if member.classic_member_metadata is not None
    ]
    counts = Counter(protocol.name for protocols in lists for protocol in protocols)
    return request.protocol_type == "consumer" and any(
        counts[protocol.name] == len(lists) for protocol in request.protocols
    )


def _take_over(shard: ShardState, changes: Changes, old_id: str, new_id: str) -> None:
    latest, group_id = changes.group.latest, changes.group.group_id
    member, target, current = latest.members[old_id], latest.target(old_id), latest.current(old_id)
    leaving.forget(shard, changes, old_id)
    changes.add(LAYOUT.member, member_key(group_id, new_id), member)
    changes.add(LAYOUT.target, target_key(group_id, new_id), target_value(target))
    with_epochs = shard.settings.policy.assignment_epochs_are_stored
    value = current_value(replace(current, epoch=0, previous=0), with_epochs=with_epochs)
    changes.add(LAYOUT.current, current_key(group_id, new_id), value)


def _put_member(
    shard: ShardState,
    changes: Changes,
    client: Client,
    request: JoinGroupRequest,
    member_id: str,
    subscription: Subscription,
) -> None:
    group = changes.group
    known = group.latest.members.get(member_id)
    before = known or UNKNOWN_MEMBER
    drops_regex = shard.settings.policy.dropped_regex_moves_group
    regex = "" if drops_regex else before.subscribed_topic_regex or ""
    timeout_ms = _rebalance_timeout_ms(client, request)
    after = replace(
        before,
        instance_id=before.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=client.client_id,
        client_host=client.client_host,
        subscribed_topic_names=in_order(subscription.topics),
        subscribed_topic_regex=regex,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        classic_member_metadata=log.ClassicMemberMetadata(
            request.session_timeout_ms,
            [log.ClassicProtocol(protocol.name, protocol.metadata) for protocol in request.protocols],
        ),
    )
    if known is None or after != known:
        changes.subscription_changed |= set(after.subscribed_topic_names) != set(before.subscribed_topic_names)
        changes.add(LAYOUT.member, member_key(group.group_id, member_id), after)
        if before.subscribed_topic_regex and drops_regex:
            subscriptions.changed(shard, changes, before.subscribed_topic_regex, "")


def _rebalance_timeout_ms(client: Client, request: JoinGroupRequest) -> int:
    return request.rebalance_timeout_ms if client.api_version >= 1 else request.session_timeout_ms


def _classic(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[Err, log.ConsumerGroupMemberMetadataValue | None]:
    """A classic member that comes with its generation, or why it doesn't."""
    if instance_id is not None:
        holder = group.latest.holder(instance_id)
        if holder != member_id:
            return (Err.UNKNOWN_MEMBER_ID if holder is None else Err.FENCED_INSTANCE_ID), None
    member = group.latest.members.get(member_id)
    if member is None or member.classic_member_metadata is None:
        return Err.UNKNOWN_MEMBER_ID, None
    if generation != group.latest.current(member_id).epoch:
        return Err.ILLEGAL_GENERATION, None
    return Err.NONE, member


def sync(shard: ShardState, token: int, client: Client, request: SyncGroupRequest) -> None:
    """SyncGroup: what the coordinator has assigned."""
    group = shard.groups[request.group_id]
    assert isinstance(group, ConsumerGroup)
    error, member = _classic(group, request.member_id, request.group_instance_id, request.generation_id)
    if member is not None and member.classic_member_metadata is not None:
        name = member.classic_member_metadata.supported_protocols[0].name
        current = group.latest.current(request.member_id)
        if request.protocol_type not in (None, "consumer") or request.protocol_name not in (None, name):
            error = Err.INCONSISTENT_GROUP_PROTOCOL
        elif _followed_epoch(shard, group) > current.epoch and current.state is not UNREVOKED:
            error = Err.REBALANCE_IN_PROGRESS
            timers.expect_join(shard, group, request.member_id)
        else:
            answer = SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=assignment_bytes(shard.topics, member, units(current.assigned)),
            )
            shard.answer(token, answer, sync_error)
            timers.cancel_sync(shard, group, request.member_id)
            return
    shard.reply(token, sync_error(error))


def heartbeat(shard: ShardState, token: int, client: Client, request: Heartbeat) -> None:
    """Heartbeat: REBALANCE_IN_PROGRESS where the member has something to give up, to take or to catch up with."""
    group = shard.groups[request.group_id]
    assert isinstance(group, ConsumerGroup)
    error, member = _classic(group, request.member_id, request.instance_id, request.generation)
    if member is None or member.classic_member_metadata is None:
        shard.reply(token, error)
        return
    shard.arm(("session", group.group_id, request.member_id), member.classic_member_metadata.session_timeout_ms)
    current = group.latest.current(request.member_id)
    behind = current.epoch < _followed_epoch(shard, group)
    free = current.state is UNRELEASED and not _waits(group, request.member_id, current)
    if behind or current.state is UNREVOKED or free:
        error = Err.REBALANCE_IN_PROGRESS
        timers.expect_join(shard, group, request.member_id)
    shard.answer(token, error)


def _followed_epoch(shard: ShardState, group: ConsumerGroup) -> int:
    """The epoch that classic members have to rejoin for."""
    by_target = shard.settings.policy.classic_members_follow == "target"
    return group.latest.target_epoch if by_target else group.latest.group_epoch


def _waits(group: ConsumerGroup, member_id: str, current: Current[bytes]) -> bool:
    """Whether any that the member lacks is with others still: ConsumerGroup.waitingOnUnreleasedPartition."""
    return any(
        number not in current.assigned.get(topic, ()) and group.latest.is_taken(topic, number)
        for topic, numbers in group.latest.target(member_id).items()
        for number in numbers
    )


def leave(shard: ShardState, token: int, client: Client, request: LeaveGroup) -> None:
    """LeaveGroup, of members of both kinds. All are looked up before any is removed: one that is named twice has left twice."""
    group = shard.groups[request.group_id]
    assert isinstance(group, ConsumerGroup)
    errors: list[Err] = []
    leaving: dict[str, None] = {}
    for leaver in request.leavers:
        member_id = leaver.member_id
        if leaver.instance_id is not None:
            holder = group.latest.holder(leaver.instance_id)
            if holder is None or (member_id and holder != member_id):
                errors.append(Err.UNKNOWN_MEMBER_ID if holder is None else Err.FENCED_INSTANCE_ID)
                continue
            member_id = holder
        if member_id not in group.latest.members:
            errors.append(Err.UNKNOWN_MEMBER_ID)
            continue
        leaving[member_id] = None
        errors.append(Err.NONE)
    answer: Any = (Err.NONE, errors)
    if not leaving:
        shard.answer(token, answer, lambda error: (error, []))
        return
    departing.go(shard, token, group, list(leaving), answer, lambda error: (error, []))


def sync_expired(shard: ShardState, key: TimerKey) -> None:
    """Fence a classic member that has joined and asked for no assignment in time."""
    group, member_id = shard.groups.get(str(key[1])), str(key[2])
    if isinstance(group, ConsumerGroup) and member_id in group.latest.members:
        departing.remove_member(shard, group, member_id)


def join_expired(shard: ShardState, key: TimerKey) -> None:
    """Fence a classic member that has not rejoined in time."""
    group, member_id = shard.groups.get(str(key[1])), str(key[2])
    if isinstance(group, ConsumerGroup) and member_id in group.must_rejoin:
        del group.must_rejoin[member_id]
        departing.remove_member(shard, group, member_id)

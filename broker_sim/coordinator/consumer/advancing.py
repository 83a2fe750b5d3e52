"""Effects of a member's request of either protocol: the group epoch, the target assignment, the member's current assignment.

Source: GroupMetadataManager.consumerGroupHeartbeat and classicGroupJoinToConsumerGroup, which do the same (4.x).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from functools import partial

from broker_sim.coordinator.assignors import ASSIGNORS, Subscribed
from broker_sim.coordinator.classic.vote import java_order
from broker_sim.coordinator.consumer import timers
from broker_sim.coordinator.consumer.group import (
    LAYOUT,
    ConsumerGroup,
    current_key,
    current_value,
    target_key,
    target_value,
)
from broker_sim.coordinator.epochs.reconcile import Current, Goal, Reported, reconciled, without
from broker_sim.coordinator.epochs.writes import Changes
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.topics import differ
from kafka_wire.messages import offsets_log as log

UNKNOWN_MEMBER = log.ConsumerGroupMemberMetadataValue(None, None, server_assignor=None, classic_member_metadata=None)
"""Metadata of a member before its first heartbeat."""


def note_subscription_type(changes: Changes) -> None:
    """Before a request that may compute a target for an epoch of earlier requests: that counts with the subscription type from before,
    unless the request itself moves the group or finds changed topics (GroupMetadataManager.updateSubscriptionMetadata)."""
    latest = changes.group.latest
    if latest.group_epoch > latest.target_epoch:
        changes.is_homogeneous = latest.was_homogeneous


def move_group(shard: ShardState, changes: Changes) -> None:
    """Increment the group epoch if the members' topics or these topics have changed, or, since 4.4, if another assignor than before has
    most votes; for a new group always if the first epoch is 0 (4.2 and before). A regular expression that is not resolved yet changes
    what its member reads, and is looked at when it is."""
    group = changes.group
    assert isinstance(group, ConsumerGroup)
    latest = group.latest
    metadata_hash = group.metadata_hash(shard.topics)
    group.note_topics(shard.topics)
    moves = changes.subscription_changed or (changes.topics_changed and metadata_hash != latest.metadata_hash)
    if moves or changes.topics_changed:
        changes.is_homogeneous = None
    if moves or latest.group_epoch == 0:
        changes.add(
            LAYOUT.group,
            log.ConsumerGroupMetadataKey(group.group_id),
            log.ConsumerGroupMetadataValue(latest.group_epoch + 1, metadata_hash),
        )


def compute_target(shard: ShardState, changes: Changes, assignor: str) -> bool:
    """Compute the target assignment with ``assignor`` if the group's epoch has increased since the last computation and, in later
    releases, the group's assignment interval has passed. Returns whether it was computed."""
    group = changes.group
    assert isinstance(group, ConsumerGroup)
    latest, policy = group.latest, shard.settings.policy
    if latest.group_epoch <= latest.target_epoch:
        return False
    interval_ms = shard.consumer_setting(group.group_id, "assignment_interval_ms")
    if latest.target_ts_ms and shard.now_ms < latest.target_ts_ms + interval_ms:
        return False
    group.assignor = assignor
    topics = shard.topics.by_name
    reads = [topics[name] for name in sorted(topics.keys() & latest.topics())]
    read: dict[frozenset[str], frozenset[bytes]] = {}  # most members read the same

    def reads_of(member_id: str) -> frozenset[bytes]:
        member = latest.members[member_id]
        names = frozenset(topics.keys() & [*member.subscribed_topic_names, *latest.matched_by(member)])
        if names not in read:
            read[names] = frozenset(topics[name].topic_id for name in names)
        return read[names]

    members = {member_id: reads_of(member_id) for member_id in java_order(latest.members)}
    partitions = {image.topic_id: image.partitions for image in reads}
    instances = {
        holder: member.instance_id
        for holder in latest.static_members.values()
        if (member := latest.members.get(holder))
    }
    homogeneous = latest.is_homogeneous if changes.is_homogeneous is None else changes.is_homogeneous
    subscribed = Subscribed(partitions, members, latest.targets, homogeneous, instances)  # type: ignore[arg-type]
    assigned = ASSIGNORS[group.assignor](subscribed)
    for member_id in members:
        target = assigned.get(member_id, {})
        before = latest.targets.get(member_id)
        if before is None or (before is not target and before != target):
            changes.add(LAYOUT.target, target_key(group.group_id, member_id), target_value(target))
    timestamp = shard.now_ms if policy.assignment_times_are_stored else 0
    changes.add(
        LAYOUT.target_metadata,
        log.ConsumerGroupTargetAssignmentMetadataKey(group.group_id),
        log.ConsumerGroupTargetAssignmentMetadataValue(latest.group_epoch, timestamp),
    )
    return True


def reconcile(
    shard: ShardState,
    changes: Changes,
    member_id: str,
    before: Current[bytes],
    reported: Reported[bytes],
    *,
    known: log.ConsumerGroupMemberMetadataValue,
    has_target: bool = True,
) -> Current[bytes]:
    """The member's current assignment after it has ``reported`` its owned partitions; a change is recorded. ``known``: the member's
    record before this request. ``has_target``: False if the member should have nothing, whatever its target assignment."""
    group, policy = changes.group, shard.settings.policy
    assert isinstance(group, ConsumerGroup)
    latest = group.latest
    free = before.revoking if policy.revoked_partitions_are_free else {}
    target = latest.target(member_id) if has_target else {}
    subscribes = partial(_subscribes, shard, group, member_id)
    if policy.unsubscribed_topics_are_revoked and not before.is_at(latest.target_epoch):
        target = {topic: numbers for topic, numbers in target.items() if subscribes(topic)}
    goal = Goal(latest.target_epoch, target, latest.is_taken, free, revoking_step=policy.revoking_step)
    after = reconciled(before, goal, reported)
    if after is before and policy.unsubscribed_topics_are_revoked and _resubscribed(known, latest.members[member_id]):
        after = without(before, [topic for topic in before.assigned if not subscribes(topic)], reported)
        if after is not before and not policy.resubscribing_updates_epoch:
            after = replace(after, previous=before.previous)
        elif after is before and policy.resubscribing_updates_epoch and not _names_topics(group, member_id):
            after = (
                before if before.revoking or before.previous == before.epoch else replace(before, previous=before.epoch)
            )
    if after is not before or member_id not in latest.currents:
        put_current(shard, changes, member_id, after)
        timers.arm_revocation(shard, changes.group, member_id, after)
    return after


def _resubscribed(before: log.ConsumerGroupMemberMetadataValue, after: log.ConsumerGroupMemberMetadataValue) -> bool:
    """Whether a member subscribes to other topics than before."""
    return after is not before and (
        after.subscribed_topic_regex != before.subscribed_topic_regex
        or differ(after.subscribed_topic_names, before.subscribed_topic_names)
    )


def _names_topics(group: ConsumerGroup, member_id: str) -> bool:
    """Whether a member subscribes to any name, of a topic that exists or not, or its regular expression has matched one."""
    member = group.latest.members[member_id]
    return bool(member.subscribed_topic_names or group.latest.matched_by(member))


def _subscribes(shard: ShardState, group: ConsumerGroup, member_id: str, topic_id: bytes) -> bool:
    """Whether a member subscribes to a topic, by name or by a regular expression that is resolved; not to a deleted one."""
    name, member = shard.topics.names.get(topic_id), group.latest.members[member_id]
    if name is None:
        return False
    names = member.subscribed_topic_names  # in order
    at = bisect_left(names, name)
    return (at < len(names) and names[at] == name) or name in group.latest.matched_by(member)


def put_current(shard: ShardState, changes: Changes, member_id: str, current: Current[bytes]) -> None:
    """Record a member's current assignment."""
    with_epochs = shard.settings.policy.assignment_epochs_are_stored
    value = current_value(current, with_epochs=with_epochs)
    changes.add(LAYOUT.current, current_key(changes.group.group_id, member_id), value)

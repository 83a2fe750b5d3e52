"""The records with which members go. Source: GroupMetadataManager.consumerGroupFenceMembers (4.x)."""

from __future__ import annotations

from collections.abc import Iterable

from broker_sim.coordinator.consumer import subscriptions, timers
from broker_sim.coordinator.consumer.group import (
    LAYOUT,
    ConsumerGroup,
    current_key,
    member_key,
    target_key,
)
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.epochs.sessions import cancel_session
from broker_sim.coordinator.epochs.writes import Changes
from broker_sim.coordinator.state import ShardState
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log


def holder_of(group: ConsumerGroup, instance_id: str) -> str | None:
    """The member with an instance id, or None. Raises Refused if it was the former instance id of a member that is removed."""
    holder = group.latest.static_members.get(instance_id)
    if holder is not None and holder not in group.latest.members:
        raise Refused(Err.UNKNOWN_MEMBER_ID, f"Member {holder} is not a member of group {group.group_id}.")
    return holder


def check_instance(group: ConsumerGroup, instance_id: str, member_id: str) -> None:
    """Raises Refused if no member has the instance id."""
    holder = holder_of(group, instance_id)
    if holder is None:
        raise Refused(Err.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder != member_id:
        raise Refused(
            Err.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder}.",
        )


def remove(shard: ShardState, changes: Changes, member_ids: Iterable[str]) -> None:
    """Members go for good, and the group's epoch moves."""
    group = changes.group
    assert isinstance(group, ConsumerGroup)
    latest, group_id = group.latest, group.group_id
    unchanged = not group.topics_changed(shard.topics)
    left = {member_id: latest.members[member_id].subscribed_topic_regex for member_id in member_ids}
    for member_id in left:
        forget(shard, changes, member_id)
    for text in dict.fromkeys(left.values()):
        if text and not latest.patterns[text]:
            subscriptions.drop(changes, text)
    epoch = latest.group_epoch + 1
    metadata = log.ConsumerGroupMetadataValue(epoch, group.metadata_hash(shard.topics))
    changes.add(LAYOUT.group, log.ConsumerGroupMetadataKey(group_id), metadata)
    if not latest.members and shard.settings.policy.emptied_group_target_is_stored:
        key_of_target = log.ConsumerGroupTargetAssignmentMetadataKey(group_id)
        target = log.ConsumerGroupTargetAssignmentMetadataValue(epoch)
        changes.add(LAYOUT.target_metadata, key_of_target, target)
    if unchanged:
        group.note_topics(shard.topics)  # fewer of them are read, but those are as they were


def forget(shard: ShardState, changes: Changes, member_id: str) -> None:
    """The tombstones of one member, and its timers."""
    group = changes.group
    changes.add(LAYOUT.current, current_key(group.group_id, member_id), None)
    changes.add(LAYOUT.target, target_key(group.group_id, member_id), None)
    changes.add(LAYOUT.member, member_key(group.group_id, member_id), None)
    cancel_session(shard, group, member_id)
    timers.cancel_revocation(shard, group, member_id)
    timers.cancel_join(shard, group, member_id)
    timers.cancel_sync(shard, group, member_id)

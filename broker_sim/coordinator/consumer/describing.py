"""ConsumerGroupDescribe: what readers see of a consumer group, which is what the log has committed."""

from __future__ import annotations

from collections.abc import Iterable

from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.epochs.group import state_name
from broker_sim.coordinator.epochs.holdings import Units, units_of
from broker_sim.coordinator.epochs.reconcile import Current
from broker_sim.coordinator.queries import visible
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.topics import Topics
from kafka_wire.errors import Err
from kafka_wire.messages.k69_consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions


def describe(shard: ShardState, group_id: str) -> DescribedGroup:
    """A group's row in ConsumerGroupDescribe, or the error row if it does not exist."""
    group = visible(shard, group_id)
    if group is None or group.is_dead:
        return DescribedGroup(Err.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.", group_id)
    if not isinstance(group, ConsumerGroup):
        return DescribedGroup(Err.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.", group_id)
    stored = group.stored
    members = []
    for member_id, member in stored.members.items():
        current = stored.current(member_id)
        members.append(
            Member(
                member_id=member_id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                member_epoch=current.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=member.subscribed_topic_names,
                subscribed_topic_regex=member.subscribed_topic_regex,
                assignment=_named(shard.topics, units_of(_has(shard, current))),
                target_assignment=_named(shard.topics, stored.target(member_id)),
                member_type=1 if member.classic_member_metadata is None else 0,
            )
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=state_name(stored),
        group_epoch=stored.group_epoch,
        assignment_epoch=stored.target_epoch,
        assignor_name=group.preferred_assignor(shard.settings.consumer.assignors[0]),
        members=members,
    )


def _has(shard: ShardState, current: Current[bytes]) -> list[tuple[bytes, Iterable[int]]]:
    given_up = current.revoking if shard.settings.policy.revoked_partitions_are_described else {}
    return [*current.assigned.items(), *given_up.items()]


def _named(topics: Topics, owned: Units[bytes]) -> Assignment:
    """By the topics' names, without deleted topics."""
    return Assignment(
        [
            TopicPartitions(topic_id, topics.names[topic_id], list(numbers))
            for topic_id, numbers in owned.items()
            if topic_id in topics.names
        ]
    )

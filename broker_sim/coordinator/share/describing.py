"""ShareGroupDescribe: what readers see of a share group, which is what the log has committed."""

from __future__ import annotations

from broker_sim.coordinator.queries import visible
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.state import ShardState
from kafka_wire.errors import Err
from kafka_wire.messages.k77_share_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

ASSIGNOR = "simple"


def share_group(shard: ShardState, group_id: str) -> ShareGroup | str:
    """A share group as readers see it, or the error text if it does not exist."""
    group = visible(shard, group_id)
    if group is None or group.is_dead:
        return f"Group {group_id} not found."
    return group if isinstance(group, ShareGroup) else f"Group {group_id} is not a share group."


def describe(shard: ShardState, group_id: str) -> DescribedGroup:
    """A group's row in ShareGroupDescribe, or the error row if it does not exist."""
    group = share_group(shard, group_id)
    if isinstance(group, str):
        return DescribedGroup(Err.GROUP_ID_NOT_FOUND, group, group_id)
    stored, names = group.stored, shard.topics.names
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=stored.group_epoch,
        assignment_epoch=stored.target_epoch,
        assignor_name=ASSIGNOR,
        members=[
            Member(
                member_id=member_id,
                rack_id=member.rack_id,
                member_epoch=stored.current(member_id).epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=member.subscribed_topic_names,
                assignment=Assignment(
                    [
                        TopicPartitions(topic_id, names[topic_id], list(numbers))
                        for topic_id, numbers in stored.current(member_id).assigned.items()
                        if topic_id in names
                    ]
                ),
            )
            for member_id, member in stored.members.items()
        ],
    )

"""What a shard does with consumer groups besides their requests: they were loaded, they go, their members' times end."""

from __future__ import annotations

from broker_sim.coordinator.consumer import departing
from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.epochs.reconcile import MemberState
from broker_sim.coordinator.outcome import TimerKey
from broker_sim.coordinator.state import ShardState


def begin(shard: ShardState, group: ConsumerGroup) -> None:
    """It was loaded from the log: sessions begin anew, and so does the time of those that are to give something up."""
    group.older_epochs_commit = shard.settings.policy.kept_partitions_commit_late
    group.session_timeout_ms = shard.consumer_setting(group.group_id, "session_timeout_ms")
    for member_id in group.latest.members:
        for key, timeout_ms in group.timers_of(member_id):
            shard.arm(key, timeout_ms)


def unload(shard: ShardState, group: ConsumerGroup) -> None:
    """Nobody waits in it."""
    group.end()


def session_expired(shard: ShardState, group: ConsumerGroup, member_id: str) -> None:
    """A member was silent for too long."""
    if member_id in group.latest.members:
        departing.expel(shard, group, member_id)


def revocation_expired(shard: ShardState, key: TimerKey) -> None:
    """A member hasn't given up what it was told to, although it may heartbeat."""
    group, member_id = shard.groups.get(str(key[1])), str(key[2])
    if not isinstance(group, ConsumerGroup) or member_id not in group.latest.members:
        return
    if group.latest.current(member_id).state is MemberState.UNREVOKED:
        departing.expel(shard, group, member_id)

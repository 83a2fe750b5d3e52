"""Events of consumer groups other than requests: load, unload, and members' timeouts."""

from __future__ import annotations

from broker_sim.coordinator.consumer import departing
from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.epochs.sessions import begin_sessions
from broker_sim.coordinator.state import ShardState


def begin(shard: ShardState, group: ConsumerGroup) -> None:
    """Begin the sessions of the members of a group that was loaded from the log."""
    group.older_epochs_commit = shard.settings.policy.kept_partitions_commit_late
    begin_sessions(shard, group, shard.consumer_setting(group.group_id, "session_timeout_ms"))


def unload(shard: ShardState, group: ConsumerGroup) -> None:
    """Without effect: no request of a consumer group is deferred."""
    group.end()


def session_expired(shard: ShardState, group: ConsumerGroup, member_id: str) -> None:
    """Remove a member whose session has expired."""
    if member_id in group.latest.members:
        departing.remove_member(shard, group, member_id)


def revocation_expired(shard: ShardState, group: ConsumerGroup, member_id: str) -> None:
    """Fence a member that has not revoked its partitions within the rebalance timeout, although it sends heartbeats."""
    departing.remove_member(shard, group, member_id)

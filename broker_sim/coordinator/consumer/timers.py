"""The times that a member has besides its session (`sessions`): its rebalance timeout, as in every epoch-based group, and a classic
member's, from the response that asked it to rejoin, and from its JoinGroup to its SyncGroup."""

from __future__ import annotations

from typing import Any

from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.epochs.sessions import arm_revocation, cancel_revocation
from broker_sim.coordinator.state import ShardState

__all__ = ["arm_revocation", "cancel_join", "cancel_revocation", "cancel_sync", "expect_join", "expect_sync"]


def expect_join(shard: ShardState, group: ConsumerGroup, member_id: str) -> None:
    """A classic member has to rejoin: its timeout runs from the first time that it was asked."""
    if member_id not in group.must_rejoin:
        group.must_rejoin[member_id] = None
        shard.arm(("join", group.group_id, member_id), group.latest.members[member_id].rebalance_timeout_ms)


def cancel_join(shard: ShardState, group: EpochGroup[Any], member_id: str) -> None:
    """The member has rejoined, or was removed."""
    if isinstance(group, ConsumerGroup) and member_id in group.must_rejoin:
        del group.must_rejoin[member_id]
        shard.cancel(("join", group.group_id, member_id))


def expect_sync(shard: ShardState, group: ConsumerGroup, member_id: str, timeout_ms: int) -> None:
    """A classic member has joined: its SyncGroup is expected in its rebalance timeout, at once if that is negative
    (GroupMetadataManager.scheduleConsumerGroupSyncTimeout)."""
    shard.arm(("unsynced", group.group_id, member_id), timeout_ms)


def cancel_sync(shard: ShardState, group: EpochGroup[Any], member_id: str) -> None:
    """The member has its assignment, or was removed."""
    shard.cancel(("unsynced", group.group_id, member_id))

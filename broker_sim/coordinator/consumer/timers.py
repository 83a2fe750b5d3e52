"""The times that a member has besides its session (`sessions`): its rebalance timeout, from the answer that told it to give
something up to the heartbeat that says it has; and a classic member's, from when it was told to join again."""

from __future__ import annotations

from typing import Any

from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.epochs.holdings import K
from broker_sim.coordinator.epochs.reconcile import Current, MemberState
from broker_sim.coordinator.outcome import TimerKey
from broker_sim.coordinator.state import ShardState


def revocation_key(group: EpochGroup[Any], member_id: str) -> TimerKey:
    return ("revocation", group.group_id, member_id)


def watch_revocation(shard: ShardState, group: EpochGroup[Any], member_id: str, current: Current[K]) -> None:
    """The member has been told to give something up, or need not do so any more."""
    if current.state is MemberState.UNREVOKED:
        shard.arm(revocation_key(group, member_id), group.latest.members[member_id].rebalance_timeout_ms)
    else:
        forget_revocation(shard, group, member_id)


def forget_revocation(shard: ShardState, group: EpochGroup[Any], member_id: str) -> None:
    shard.cancel(revocation_key(group, member_id))


def expect_join(shard: ShardState, group: ConsumerGroup, member_id: str) -> None:
    """A classic member has been told to join again: the time that it has for that runs from the first time on."""
    if member_id not in group.told_to_join:
        group.told_to_join[member_id] = None
        shard.arm(("join", group.group_id, member_id), group.latest.members[member_id].rebalance_timeout_ms)


def forget_join(shard: ShardState, group: EpochGroup[Any], member_id: str) -> None:
    """It has, or is gone."""
    if isinstance(group, ConsumerGroup) and member_id in group.told_to_join:
        del group.told_to_join[member_id]
        shard.cancel(("join", group.group_id, member_id))

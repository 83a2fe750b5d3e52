"""The times that a member of an epoch-based group has: its session, from one heartbeat to the next, and its rebalance timeout, from the
response that asks it to revoke something to the heartbeat that confirms it."""

from __future__ import annotations

from typing import Any

from broker_sim.coordinator.epochs.group import EpochGroup, revocation_key, session_key
from broker_sim.coordinator.epochs.holdings import K
from broker_sim.coordinator.epochs.reconcile import UNREVOKED, Current
from broker_sim.coordinator.state import ShardState


def restart_session(shard: ShardState, group: EpochGroup[Any], member_id: str) -> None:
    """Restart the member's session after a request of it."""
    shard.arm(session_key(group.group_id, member_id), group.session_timeout_ms)


def cancel_session(shard: ShardState, group: EpochGroup[Any], member_id: str) -> None:
    """Cancel the session timer of a removed member."""
    shard.cancel(session_key(group.group_id, member_id))


def arm_revocation(shard: ShardState, group: EpochGroup[Any], member_id: str, current: Current[K]) -> None:
    """The member has been asked to revoke something, or no longer has to."""
    if current.state is UNREVOKED:
        shard.arm(revocation_key(group.group_id, member_id), group.latest.members[member_id].rebalance_timeout_ms)
    else:
        cancel_revocation(shard, group, member_id)


def cancel_revocation(shard: ShardState, group: EpochGroup[Any], member_id: str) -> None:
    shard.cancel(revocation_key(group.group_id, member_id))


def begin_sessions(shard: ShardState, group: EpochGroup[Any], session_timeout_ms: int) -> None:
    """Restart the sessions of a group that was loaded, and the rebalance timeouts of members that must revoke units."""
    group.session_timeout_ms = session_timeout_ms
    for member_id in group.latest.members:
        for key, timeout_ms in group.timers_of(member_id):
            shard.arm(key, timeout_ms)

"""The session of a member of a group by epochs, from one heartbeat to the next."""

from __future__ import annotations

from typing import Any

from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.state import ShardState


def restart_session(shard: ShardState, group: EpochGroup[Any], member_id: str) -> None:
    """The member was heard of."""
    shard.arm(("session", group.group_id, member_id), group.session_timeout_ms)


def forget_session(shard: ShardState, group: EpochGroup[Any], member_id: str) -> None:
    """It is gone."""
    shard.cancel(("session", group.group_id, member_id))

"""What a group by epochs that has no classic members answers to the classic groups' requests. Source: GroupMetadataManager (4.x)."""

from __future__ import annotations

from broker_sim.coordinator.classic.rebalance import join_error, sync_error
from broker_sim.coordinator.outcome import Client, Heartbeat, LeaveGroup
from broker_sim.coordinator.state import ShardState
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest
from kafka_wire.messages.k14_sync_group import SyncGroupRequest


def join(shard: ShardState, token: int, client: Client, request: JoinGroupRequest) -> None:
    """A classic member speaks of a protocol that it doesn't have."""
    error = join_error(client.api_version, Err.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    shard.reply(token, error)


def sync(shard: ShardState, token: int, client: Client, request: SyncGroupRequest) -> None:
    """It has no such members."""
    shard.reply(token, sync_error(Err.UNKNOWN_MEMBER_ID))


def heartbeat(shard: ShardState, token: int, client: Client, request: Heartbeat) -> None:
    """UNKNOWN_MEMBER_ID: it has no such member."""
    shard.answer(token, Err.UNKNOWN_MEMBER_ID)


def leave(shard: ShardState, token: int, client: Client, request: LeaveGroup) -> None:
    """UNKNOWN_MEMBER_ID for each."""
    shard.answer(token, (Err.NONE, [Err.UNKNOWN_MEMBER_ID for _ in request.leavers]))

"""Answers of epoch-based groups without classic members to requests of the classic protocol. Source: GroupMetadataManager (4.x)."""

from __future__ import annotations

from typing import Any

from broker_sim.coordinator.classic.group import NO_MEMBER, ClassicGroup
from broker_sim.coordinator.classic.rebalance import join_error, sync_error
from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.epochs.writes import Changes
from broker_sim.coordinator.outcome import Client, Heartbeat, LeaveGroup
from broker_sim.coordinator.records import GroupRecord
from broker_sim.coordinator.state import ShardState
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest
from kafka_wire.messages.k14_sync_group import SyncGroupRequest


def join(shard: ShardState, token: int, client: Client, request: JoinGroupRequest) -> None:
    """A classic member speaks of a protocol that it doesn't have. It isn't called by the id that it names."""
    shard.reply(token, join_error(client.api_version, Err.INCONSISTENT_GROUP_PROTOCOL, NO_MEMBER))


def sync(shard: ShardState, token: int, client: Client, request: SyncGroupRequest) -> None:
    """Answer a SyncGroup with UNKNOWN_MEMBER_ID: the group has no classic members."""
    shard.reply(token, sync_error(Err.UNKNOWN_MEMBER_ID))


def heartbeat(shard: ShardState, token: int, client: Client, request: Heartbeat) -> None:
    """UNKNOWN_MEMBER_ID: it has no such member."""
    shard.answer(token, Err.UNKNOWN_MEMBER_ID)


def leave(shard: ShardState, token: int, client: Client, request: LeaveGroup) -> None:
    """Answers UNKNOWN_MEMBER_ID for each member of a LeaveGroup."""
    shard.answer(token, (Err.NONE, [Err.UNKNOWN_MEMBER_ID for _ in request.leavers]))


def replaced(empty: ClassicGroup, made: EpochGroup[Any]) -> Changes:
    """Replace an empty classic group by an epoch-based group, which gets its offsets. Pending member ids (MEMBER_ID_REQUIRED) don't
    prevent it: Kafka checks the state alone."""
    made.adopt_offsets_of(empty)
    return Changes(made, [GroupRecord(empty.group_id, None)], empty)

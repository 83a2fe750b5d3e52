"""Requests that change nothing: OffsetFetch, ListGroups and DescribeGroups."""

from __future__ import annotations

from collections.abc import Collection

from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import Offset
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.state import ShardState
from kafka_wire.errors import Err
from kafka_wire.messages.k15_describe_groups import DescribedGroup
from kafka_wire.messages.k16_list_groups import ListedGroup


def visible(shard: ShardState, group_id: str) -> Group | None:
    """The group that a reader sees. If readers see committed state alone: not a group whose first record is pending, but still one
    whose tombstone is."""
    group = shard.groups.get(group_id)
    if group is None or shard.high_watermark < group.visible_at_high_watermark:
        group = shard.store.oldest_deleted(group_id)
    return None if group is None or shard.high_watermark < group.visible_at_high_watermark else group


def committed(shard: ShardState, group_id: str) -> dict[str, dict[int, Offset]]:
    """All committed offsets of a group by topic and partition; empty for a group that isn't there. Not to be changed."""
    group = visible(shard, group_id)
    return {} if group is None else group.offsets


def fetch_refusal(shard: ShardState, group_id: str, member_id: str | None, member_epoch: int) -> Err:
    """Error of an OffsetFetch v9+ on behalf of a member; NONE if it is allowed, as one with neither member id nor epoch always is."""
    group = visible(shard, group_id)
    if group is None or (member_id is None and member_epoch < 0):
        return Err.NONE
    return group.validate_fetch(member_id, member_epoch)


def describe(shard: ShardState, group_id: str) -> DescribedGroup | None:
    """A group's row in DescribeGroups, None if the group does not exist."""
    group = visible(shard, group_id)
    return None if group is None or group.is_dead else group.described(shard.settings.policy)


_FILTERED_AS = {"NotReady": "not_ready"}
"""States that a filter has to name otherwise than the answer does: Kafka compares with the constant's name there."""


def filters_of(policy: Policy, states: list[str], types: list[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The states and types that ListGroups asks for, as they are compared."""
    fold, strip = policy.states_filter_folds_case, policy.states_filter_strips_blanks
    stripped = (state.strip() if strip else state for state in states)
    return frozenset(state.lower() if fold else state for state in stripped), frozenset(kind.lower() for kind in types)


def listed(shard: ShardState, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
    """The groups of the shard that pass both filters (`filters_of` the request's); an empty filter passes all groups, an unknown name
    none."""
    fold = shard.settings.policy.states_filter_folds_case

    def passes(group: Group) -> bool:
        name = _FILTERED_AS.get(group.state_name, group.state_name)
        name = name.lower() if fold else name
        return (not states or name in states) and (not types or group.kind in types)

    return [
        ListedGroup(group.group_id, group.listed_protocol_type, group.state_name, group.kind)
        for group in [*shard.groups.values(), *(groups[0] for groups in shard.store.pending_deletion.values())]
        if shard.high_watermark >= group.visible_at_high_watermark and passes(group)
    ]

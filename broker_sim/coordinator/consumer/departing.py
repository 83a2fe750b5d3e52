"""Removal of members: by a heartbeat, a LeaveGroup, or an expired timeout. When the last member of the consumer protocol leaves, a
group whose other members are classic ones becomes a classic group again.

Source: GroupMetadataManager.consumerGroupLeave, consumerGroupFenceMembers (4.x).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker_sim.coordinator.consumer import migration, timers
from broker_sim.coordinator.consumer.group import LAYOUT, ConsumerGroup, current_key, current_value
from broker_sim.coordinator.consumer.leaving import check_instance, remove
from broker_sim.coordinator.epochs.reconcile import LEFT_TEMPORARILY, paused
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.epochs.writes import Changes, rewind, submit
from broker_sim.coordinator.group import Group
from broker_sim.coordinator.records import Record
from broker_sim.coordinator.state import ShardState, Write
from kafka_wire.errors import Err
from kafka_wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def leave(shard: ShardState, token: int, request: ConsumerGroupHeartbeatRequest) -> None:
    """A heartbeat with epoch -1, or -2 of a static member that means to come back. Raises Refused."""
    group = shard.groups.get(request.group_id)
    member_id, instance_id = request.member_id, request.instance_id
    if group is None or group.is_dead:
        raise Refused(Err.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise Refused(Err.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    if instance_id is not None:
        check_instance(group, instance_id, member_id)
    elif member_id not in group.latest.members:
        raise Refused(Err.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    answer = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
    if request.member_epoch != LEFT_TEMPORARILY:
        go(shard, token, group, [member_id], answer, _refusal)
        return
    changes = Changes(group)
    with_epochs = shard.settings.policy.assignment_epochs_are_stored
    value = current_value(paused(group.latest.current(member_id)), with_epochs=with_epochs)
    changes.add(LAYOUT.current, current_key(group.group_id, member_id), value)
    timers.cancel_revocation(shard, group, member_id)
    submit(shard, token, changes, answer, _refusal)


def _refusal(error: Err) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error)


def go(
    shard: ShardState,
    token: int | None,
    group: ConsumerGroup,
    member_ids: Sequence[str],
    answer: Any,
    refusal: Callable[[Err], Any] | None,
) -> None:
    """Remove members permanently. If only classic members are left and the group may be downgraded, it becomes a classic group."""
    if migration.becomes_classic(shard, group, member_ids):
        if not migration.have_common_protocol(group, member_ids):
            if token is not None and refusal is not None:
                shard.answer(token, refusal(Err.UNKNOWN_SERVER_ERROR), refusal)
            return
        made, records = migration.to_classic(shard, group, member_ids)
        shard.write(DowngradeWrite(token, records, answer, refusal, (group, made)))
        return
    changes = Changes(group)
    remove(shard, changes, member_ids)
    submit(shard, token, changes, answer, refusal)


def convert_to_classic(
    shard: ShardState,
    token: int,
    changes: Changes,
    downgrade: migration.Downgrade,
    answer: Any,
    refusal: Callable[[Err], Any] | None,
    *,
    rebalances: bool,
) -> None:
    """Convert the group to a classic one, after its last member of the consumer protocol was replaced by a classic member."""
    group = changes.group
    assert isinstance(group, ConsumerGroup)
    made, records = migration.to_classic(shard, group, (), downgrade=downgrade, rebalances=rebalances)
    shard.write(DowngradeWrite(token, [*changes.records, *records], answer, refusal, (group, made)))


def remove_member(shard: ShardState, group: ConsumerGroup, member_id: str) -> None:
    """Remove a member whose session or rebalance timeout has expired; no request is answered."""
    go(shard, None, group, [member_id], None, None)


class DowngradeWrite(Write):
    """The records that convert a consumer group to a classic group."""

    __slots__ = ("groups", "refusal")

    def __init__(
        self,
        token: int | None,
        records: list[Record],
        answer: Any,
        refusal: Callable[[Err], Any] | None,
        groups: tuple[ConsumerGroup, Group],
    ) -> None:
        super().__init__(token, records, answer)
        self.refusal, self.groups = refusal, groups

    def failure(self, error: Err) -> Any:
        return error if self.refusal is None else self.refusal(error)

    def revert(self, shard: ShardState) -> None:
        """Restore the consumer group, and restart its members' timers."""
        before, made = self.groups
        if shard.groups.get(before.group_id) is not made:
            return
        shard.store.revert(before, made)
        rewind(shard, before)
        shard.cancel(("rebalance", before.group_id))
        for member_id in before.latest.members:
            for key, timeout_ms in before.timers_of(member_id):
                shard.arm(key, timeout_ms)

"""Effects of a heartbeat: the group epoch, the target assignment of tasks, the member's current assignment.

Source: GroupMetadataManager.streamsGroupHeartbeat, maybeUpdateStreamsTargetAssignment, TargetAssignmentBuilder (4.4).
"""

from __future__ import annotations

from collections.abc import Callable

from broker_sim.coordinator.assignors.sticky import StreamsAssignment, StreamsMember, Task, TaskCount, assign
from broker_sim.coordinator.classic.vote import java_order
from broker_sim.coordinator.epochs.holdings import UnitEpochs, Units, units_of
from broker_sim.coordinator.epochs.reconcile import Current, Goal, Reported, Step, reconciled
from broker_sim.coordinator.epochs.sessions import arm_revocation
from broker_sim.coordinator.epochs.writes import Changes
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.streams.group import (
    ACTIVE,
    LAYOUT,
    STANDBY,
    StreamsGroup,
    TaskKey,
    current_key,
    current_value,
    group_value,
    target_key,
    target_value,
)
from broker_sim.coordinator.streams.topology import Configured
from kafka_wire.messages import offsets_log as log

_FIRST_EPOCH = 1  # of a new group, whatever the release; it moves with the first member
BY_INITIAL_DELAY = "Assignment delayed due to the configured initial rebalance delay."
BY_INTERVAL = "Assignment delayed due to the configured assignment interval."


def assignment_settings(shard: ShardState, group_id: str) -> dict[str, str]:
    """The group's settings that an assignment hangs on, as its record has them."""
    settings = {"num.standby.replicas": str(shard.streams_setting(group_id, "standby_replicas"))}
    tags: tuple[str, ...] = shard.streams_setting(group_id, "rack_aware_tags")
    return {**settings, "rack.aware.assignment.tags": ",".join(tags)} if tags else settings


def move_group(shard: ShardState, changes: Changes, configured: Configured) -> None:
    """The group's epoch moves where members or their topics have changed, where the topology fits the topics now or no longer does, and
    where settings of the assignment are other ones."""
    group = changes.group
    assert isinstance(group, StreamsGroup)
    latest = group.latest
    metadata_hash, settings = group.metadata_hash(shard.topics), assignment_settings(shard, group.group_id)
    validated = configured.epoch if configured.is_ready else -1
    if (
        changes.subscription_changed
        or metadata_hash != latest.metadata_hash
        or validated != latest.validated_epoch
        or settings != latest.assignment_settings
    ):
        changes.add(
            LAYOUT.group,
            log.StreamsGroupMetadataKey(group.group_id),
            group_value(
                latest,
                max(latest.group_epoch, _FIRST_EPOCH) + 1,
                metadata_hash=metadata_hash,
                validated_epoch=validated,
                settings=settings,
            ),
        )


def compute_target(shard: ShardState, changes: Changes, configured: Configured) -> str | None:
    """Compute the target assignment if the group's epoch has increased since the last computation. Returns the reason why that is
    delayed; None if it is not."""
    group = changes.group
    assert isinstance(group, StreamsGroup)
    latest, group_id = group.latest, group.group_id
    if group.delayed:
        return BY_INITIAL_DELAY
    if latest.group_epoch <= latest.target_epoch:
        return None
    interval_ms = shard.streams_setting(group_id, "assignment_interval_ms")
    if latest.target_ts_ms and shard.now_ms < latest.target_ts_ms + interval_ms:
        return BY_INTERVAL
    assigned = _assigned(shard, group, configured) if configured.is_ready else {}
    for member_id in java_order(latest.members):
        target = _units(assigned.get(member_id, StreamsAssignment()))
        if latest.targets.get(member_id) != target:
            changes.add(LAYOUT.target, target_key(group_id, member_id), target_value(target))
    timestamp = shard.now_ms if shard.settings.policy.assignment_times_are_stored else 0
    changes.add(
        LAYOUT.target_metadata,
        log.StreamsGroupTargetAssignmentMetadataKey(group_id),
        log.StreamsGroupTargetAssignmentMetadataValue(latest.group_epoch, timestamp),
    )
    return None


def _assigned(shard: ShardState, group: StreamsGroup, configured: Configured) -> dict[str, StreamsAssignment]:
    latest = group.latest

    def tasks(member_id: str, role: str) -> tuple[Task, ...]:
        """The member's current tasks, not its target: tasks stay with their owner until it has revoked them."""
        owned = latest.current(member_id).assigned
        return tuple(
            (key.subtopology, number) for key, numbers in owned.items() if key.role == role for number in numbers
        )

    members = {
        member_id: StreamsMember(
            member.process_id,
            tasks(member_id, ACTIVE),
            tasks(member_id, STANDBY),
            group.reported[member_id].offsets if member_id in group.reported else {},
        )
        for member_id, member in latest.members.items()
    }
    counts = {
        name: TaskCount(subtopology.tasks, subtopology.is_stateful)
        for name, subtopology in configured.subtopologies.items()
    }
    return assign(counts, members, shard.streams_setting(group.group_id, "standby_replicas"))


def _units(assignment: StreamsAssignment) -> dict[TaskKey, tuple[int, ...]]:
    roles = ((ACTIVE, assignment.active), (STANDBY, assignment.standby))
    return units_of((TaskKey(role, name), [number]) for role, tasks in roles for name, number in tasks)


def reconcile(
    shard: ShardState, changes: Changes, member_id: str, before: Current[TaskKey], reported: Reported[TaskKey]
) -> Current[TaskKey]:
    """The member's current assignment after it has ``reported`` its tasks; a change is recorded."""
    group = changes.group
    assert isinstance(group, StreamsGroup)
    latest, in_place = group.latest, shard.settings.policy.streams_roles_change_in_place
    target: Units[TaskKey] = {} if group.delayed else latest.target(member_id)

    def is_taken(key: TaskKey, number: int) -> bool:
        return latest.is_taken_from(member_id, key, number, in_place=in_place)

    def recast(owned: UnitEpochs[TaskKey], step: Step[TaskKey], waits: Callable[[], bool]) -> None:
        _demote(owned, step)
        _promote(owned, target, step, waits)

    epoch = max(latest.target_epoch, _FIRST_EPOCH) if group.delayed else latest.target_epoch
    after = reconciled(before, Goal(epoch, target, is_taken, recast=recast if in_place else None), reported)
    if after != before or member_id not in latest.currents:
        put_current(changes, member_id, after)
        arm_revocation(shard, group, member_id, after)
    return after


def _demote(owned: UnitEpochs[TaskKey], step: Step[TaskKey]) -> None:
    """An active task that becomes a standby one is that at once: the member recycles it while it gives up the active one."""
    for key in [key for key in owned if key.role == ACTIVE]:
        standby = TaskKey(STANDBY, key.subtopology)
        for number in [number for number in step.taking.get(standby, ()) if number in owned[key]]:
            step.taking[standby].remove(number)
            _keep(step, standby, number)
        if step.taking.get(standby) == []:
            del step.taking[standby]


def _promote(
    owned: UnitEpochs[TaskKey], target: Units[TaskKey], step: Step[TaskKey], waits: Callable[[], bool]
) -> None:
    """A standby task that becomes an active one isn't given up: the member keeps it until it has the active one."""
    promoted = [
        (key, TaskKey(ACTIVE, key.subtopology), number)
        for key in owned
        if key.role == STANDBY
        for number in owned[key]
        if number in target.get(TaskKey(ACTIVE, key.subtopology), ())
    ]
    for key, _, number in promoted:
        step.revoking.get(key, {}).pop(number, None)
        if step.revoking.get(key) == {}:
            del step.revoking[key]
    has_to_wait = waits()
    for key, active, number in promoted:
        if has_to_wait or number not in step.taking.get(active, ()):
            _keep(step, key, number)


def _keep(step: Step[TaskKey], key: TaskKey, number: int) -> None:
    step.kept[key] = dict(sorted({**step.kept.get(key, {}), number: 0}.items()))


def put_current(changes: Changes, member_id: str, current: Current[TaskKey]) -> None:
    """Record a member's current assignment."""
    changes.add(LAYOUT.current, current_key(changes.group.group_id, member_id), current_value(current))

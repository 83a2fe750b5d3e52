"""Removal of a streams group's members, by a heartbeat or an expired timeout; and the load and unload of a group.

Source: GroupMetadataManager.streamsGroupLeave, streamsGroupFenceMember, replaceStreamsMember (4.4).
"""

from __future__ import annotations

from broker_sim.coordinator.epochs.reconcile import LEFT_TEMPORARILY, paused, taken_over
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.epochs.sessions import begin_sessions, cancel_revocation, cancel_session
from broker_sim.coordinator.epochs.writes import Changes, submit
from broker_sim.coordinator.state import ShardState
from broker_sim.coordinator.streams.advancing import put_current
from broker_sim.coordinator.streams.group import (
    LAYOUT,
    StreamsGroup,
    current_key,
    group_value,
    member_key,
    target_key,
    target_value,
)
from broker_sim.coordinator.streams.requests import Request, Response, refusal
from kafka_wire.errors import Err
from kafka_wire.messages import offsets_log as log


def leave(shard: ShardState, token: int, request: Request) -> None:
    """A heartbeat with epoch -1, or -2 of a static member that means to come back. Raises Refused."""
    group = shard.groups.get(request.group_id)
    member_id, instance_id = request.member_id, request.instance_id
    if group is None or group.is_dead:
        raise Refused(Err.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    if not isinstance(group, StreamsGroup):
        raise Refused(Err.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a streams group.")
    if request.shutdown_application:
        shut_down(group, member_id)
    if instance_id is not None:
        check_instance(group, instance_id, member_id)
    elif member_id not in group.latest.members:
        raise Refused(Err.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    answer = Response(member_id=member_id, member_epoch=request.member_epoch)
    if instance_id is None or request.member_epoch != LEFT_TEMPORARILY:
        submit(shard, token, _removal(shard, group, member_id), (answer, {}), refusal)
        return
    changes = Changes(group)
    put_current(changes, member_id, paused(group.latest.current(member_id)))
    cancel_revocation(shard, group, member_id)
    submit(shard, token, changes, (answer, {}), refusal)


def check_instance(group: StreamsGroup, instance_id: str, member_id: str) -> None:
    """Raises Refused if no member has the instance id."""
    holder = group.latest.static_members.get(instance_id)
    if holder is None:
        raise Refused(Err.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder != member_id:
        raise Refused(
            Err.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder}.",
        )


def shut_down(group: StreamsGroup, member_id: str) -> None:
    """A member asks for the shutdown of the application: the next heartbeat of each member returns it."""
    if group.shutdown_by is None:
        group.shutdown_by = member_id
        group.version += 1


def _removal(shard: ShardState, group: StreamsGroup, member_id: str) -> Changes:
    changes, group_id, latest = Changes(group), group.group_id, group.latest
    forget(shard, changes, member_id)
    epoch = latest.group_epoch + 1
    changes.add(LAYOUT.group, log.StreamsGroupMetadataKey(group_id), group_value(latest, epoch))
    if not latest.members:
        group.shutdown_by = None
        if shard.settings.policy.emptied_streams_target_is_stored:
            key = log.StreamsGroupTargetAssignmentMetadataKey(group_id)
            changes.add(LAYOUT.target_metadata, key, log.StreamsGroupTargetAssignmentMetadataValue(epoch))
    return changes


def forget(shard: ShardState, changes: Changes, member_id: str) -> None:
    """The tombstones of one member, and its timers."""
    group = changes.group
    assert isinstance(group, StreamsGroup)
    changes.add(LAYOUT.current, current_key(group.group_id, member_id), None)
    changes.add(LAYOUT.target, target_key(group.group_id, member_id), None)
    changes.add(LAYOUT.member, member_key(group.group_id, member_id), None)
    group.reported.pop(member_id, None)
    cancel_session(shard, group, member_id)
    cancel_revocation(shard, group, member_id)


def take_over(shard: ShardState, changes: Changes, old_id: str, new_id: str) -> None:
    """A static member is back under another id: it has the place of the one that left for now, with its tasks, without a rebalance."""
    latest, group_id = changes.group.latest, changes.group.group_id
    member, target, current = latest.members[old_id], latest.target(old_id), latest.current(old_id)
    forget(shard, changes, old_id)
    changes.add(LAYOUT.member, member_key(group_id, new_id), member)
    changes.add(LAYOUT.target, target_key(group_id, new_id), target_value(target))
    put_current(changes, new_id, taken_over(current))


# what a shard does with streams groups besides their requests


def begin(shard: ShardState, group: StreamsGroup) -> None:
    """Begin the sessions of the members of a group that was loaded from the log."""
    begin_sessions(shard, group, shard.streams_setting(group.group_id, "session_timeout_ms"))


def unload(shard: ShardState, group: StreamsGroup) -> None:
    """No request waits in it."""
    group.end()


def remove_member(shard: ShardState, group: StreamsGroup, member_id: str) -> None:
    """Remove a member whose session has expired, or that has not revoked its tasks in time."""
    if member_id in group.latest.members:
        submit(shard, None, _removal(shard, group, member_id), None)

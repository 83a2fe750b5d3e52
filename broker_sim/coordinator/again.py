"""What a member does again and again, without its events: a Heartbeat, a JoinGroup that says what the last one said, a SyncGroup that
brings no assignment.

Each function does what stepping a shard with that request does in the usual case, or does nothing at all: then the event is the way.
The usual case: the member is known and dynamic, nothing is on its way into the log, and the answer is no error but
REBALANCE_IN_PROGRESS.
"""

from __future__ import annotations

from broker_sim.coordinator.group import HEARTBEAT_ANSWER, Group, Member, State
from broker_sim.coordinator.outcome import Outcome
from broker_sim.coordinator.rebalance import try_complete_join
from broker_sim.coordinator.state import ShardState
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest


class Rejoin:
    """A JoinGroup that its member repeats. ``version`` is that of the API."""

    __slots__ = ("group_id", "member_id", "names", "protocols", "request", "timeouts", "version")

    def __init__(self, request: JoinGroupRequest, version: int) -> None:
        self.request, self.version = request, version
        self.group_id, self.member_id = request.group_id, request.member_id
        self.names = [protocol.name for protocol in request.protocols]
        self.protocols = [(protocol.name, protocol.metadata) for protocol in request.protocols]
        rebalance_timeout_ms = request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms
        self.timeouts = request.session_timeout_ms, rebalance_timeout_ms


def calm(shard: ShardState) -> bool:
    """Whether nothing is on its way into the log: answers wait for nothing."""
    return not shard.writes and shard.last_written < shard.high_watermark


def heartbeat(shard: ShardState, group_id: str, member_id: str, generation: int) -> tuple[Member, Err] | None:
    """Whose session begins anew, and the answer. The session is the caller's."""
    group = shard.groups.get(group_id)
    if group is None or group.generation != generation or group.state is State.DEAD or not calm(shard):
        return None
    member = group.members.get(member_id)
    return None if member is None else (member, HEARTBEAT_ANSWER[group.state])


def may_rejoin(shard: ShardState, again: Rejoin) -> tuple[Group, Member] | None:
    """The member, if its group waits for it and it says nothing new."""
    group = shard.groups.get(again.group_id)
    if group is None or group.state is not State.PREPARING_REBALANCE or not calm(shard):
        return None
    member = group.members.get(again.member_id)
    if (
        member is None
        or again.request.group_instance_id is not None
        or member.join_token is not None
        or member.instance_id is not None
        or member.join_version != again.version
        or (member.session_timeout_ms, member.rebalance_timeout_ms) != again.timeouts
        or member.protocols != again.protocols
        or group.joining >= shard.settings.max_group_size
        or not group.supports(again.request.protocol_type, again.names)
    ):
        return None
    return group, member


def rejoin(group: Group, member: Member, token: int) -> bool:
    """Park the JoinGroup of a member that may. Whether it was the last one that the group waited for: then :func:`all_in` is next."""
    member.join_token = token
    group.joining += 1
    return group.joining == len(group.members)


def all_in(shard: ShardState, group: Group, now_ms: int) -> Outcome:
    """Every member has joined: the join window closes, unless somebody else may come yet."""
    shard.now_ms, shard.out = now_ms, Outcome()
    try_complete_join(shard, group)
    return shard.out


def may_sync(
    shard: ShardState, group_id: str, member_id: str, generation: int, protocol: tuple[str | None, str | None]
) -> tuple[Group, Member] | None:
    """The member, if it has joined this generation and doesn't lead it, and the group waits for assignments or has them."""
    group = shard.groups.get(group_id)
    if (
        group is None
        or group.generation != generation
        or (group.state is not State.STABLE and group.state is not State.COMPLETING_REBALANCE)
        or group.leader == member_id
        or protocol != (group.protocol_type, group.protocol)
        or not calm(shard)
    ):
        return None
    member = group.members.get(member_id)
    return None if member is None or member.instance_id is not None else (group, member)

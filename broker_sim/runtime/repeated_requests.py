"""The runtime's side of ``coordinator.again``: requests that a member repeats, with their timers, tokens and parked replies.

A part of the runtime, apart from it for its size alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from broker_sim.coordinator import again
from broker_sim.coordinator.again import Rejoin
from broker_sim.coordinator.group import Group, Member, State
from broker_sim.runtime.timers import Armed
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.handlers.context import ConnectionLike
    from broker_sim.metadata.cluster_state import Broker
    from broker_sim.runtime.group_coordinator import GroupCoordinator, GroupSlot

__all__ = ["Place", "Rejoin", "beat", "rejoin", "sync"]


class Place:
    """Where a member's requests go: looked up anew with each version of the cluster's state. The session is kept at hand."""

    __slots__ = ("_broker", "_session", "_state_version", "group_id", "member_id", "runtime", "slot")

    slot: GroupSlot

    def __init__(self, broker: Broker, group_id: str, member_id: str) -> None:
        self._broker = broker
        self.runtime: GroupCoordinator = broker.runtime
        self.group_id, self.member_id = group_id, member_id
        self._session: Armed[Any] | None = None
        self._state_version = -1

    def open(self) -> bool:
        """Whether requests may go this way now; what the turn has collected is in the log then."""
        runtime = self.runtime
        if runtime.watch is not None or runtime.presence is not None:
            return False
        if runtime.state.version != self._state_version:
            shard = runtime.locate(self._broker, self.group_id)
            if isinstance(shard, Err):
                return False
            self.slot, self._state_version = runtime.slot_of(shard), runtime.state.version
        slot = self.slot
        if slot.turn or slot.open:
            runtime._flush(slot)
        return True

    def restart_session(self, member: Member, now_ms: int) -> None:
        """The member was heard of."""
        session, deadline_ms = self._session, now_ms + member.session_timeout_ms
        if session is not None and session.alive and session.deadline_ms <= deadline_ms:
            session.deadline_ms = deadline_ms
            return
        key = (self.slot.partition.index, ("session", self.group_id, self.member_id))
        self.runtime.timers.set(key, deadline_ms)
        self._session = self.runtime.timers.armed(key)


def beat(place: Place, generation: int) -> Err | None:
    """A Heartbeat's answer; None, and nothing done, where the event is the way."""
    if not place.open():
        return None
    found = again.heartbeat(place.slot.shard, place.group_id, place.member_id, generation)
    if found is None:
        return None
    member, error = found
    place.restart_session(member, place.runtime.clock.now_ms())
    return error


def rejoin(place: Place, request: Rejoin, connection: ConnectionLike, correlation_id: int) -> bool:
    """Park a JoinGroup, and answer all of the group's if it was the last one; False, and nothing done, where the event is the way."""
    if not place.open():
        return False
    shard = place.slot.shard
    found = again.may_rejoin(shard, request)
    if found is None:
        return False
    runtime = place.runtime
    token = _park(runtime, connection, correlation_id)
    group, member = found
    if again.rejoin(group, member, token):
        runtime._perform(place.slot, again.all_in(shard, group, runtime.clock.now_ms()))
    return True


def sync(
    place: Place,
    generation: int,
    protocol: tuple[str | None, str | None],
    connection: ConnectionLike,
    correlation_id: int,
) -> tuple[Group, Member] | bool:
    """Answer a SyncGroup at once (the group and member whose assignment it is) or park it (True); False, and nothing done, where the
    event is the way."""
    if not place.open():
        return False
    found = again.may_sync(place.slot.shard, place.group_id, place.member_id, generation, protocol)
    if found is None:
        return False
    group, member = found
    runtime = place.runtime
    if group.pending_sync.pop(place.member_id, 0) is None and not group.pending_sync:
        runtime.timers.cancel((place.slot.partition.index, ("sync", place.group_id)))
    if group.state is State.STABLE:
        if runtime.settings.policy.stable_sync_restarts_session:
            place.restart_session(member, runtime.clock.now_ms())
        return found
    member.sync_token = _park(runtime, connection, correlation_id)
    return True


def _park(runtime: GroupCoordinator, connection: ConnectionLike, correlation_id: int) -> int:
    """The token of a request that is answered by whoever answers the token."""
    context = connection.park(correlation_id)
    token = runtime.token(context.reply)
    context.on_disconnect(partial(runtime.drop, token))
    return token

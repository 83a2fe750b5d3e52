"""Extends the sessions of members that could send heartbeats while a manual clock is advanced.

Clients send heartbeats in real time: when a test advances the broker's clock by a minute, every session would expire. So during an
advance a session that is due is restarted, as if its member had sent heartbeats, unless

* the connection of the member's last request was closed before the advance: the member has crashed. A connection that is closed during
  the advance doesn't count: clients disconnect after some errors (a coordinator that timed out) and reconnect a moment later, which is
  hours later on this clock;
* the member is named in ``expire``: it is silent, and its requests don't count;
* the member waits in its first JoinGroup: its timer is Kafka's limit of five minutes, which no heartbeat restarts.

The same holds for a member id that was returned with MEMBER_ID_REQUIRED and has not joined yet. All other timers fire.

Clients join in real time, too. ``awaited_requests`` lists the live members that a rebalance still waits for when its timer is the next
to fire; they would be removed for a request that they had no time to send. The caller waits for them. JoinGroups of silent members are
deferred until the advance is over, as the members would otherwise rejoin during it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import unknown
from broker_sim.coordinator.classic.group import ClassicGroup, Member, State
from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.outcome import TimerKey
from broker_sim.coordinator.shard import Shard
from kafka_wire.messages.k11_join_group import JoinGroupRequest

if TYPE_CHECKING:
    from broker_sim.runtime.asking import Asking
    from broker_sim.runtime.timers import KeyedTimers

__all__ = ["AwaitedRequest", "SessionKeepAlive", "timer_text"]

_PRUNE_AT = 1024

_Shards = Callable[[], Iterable[tuple[int, Shard]]]
_Key = tuple[int, TimerKey]


@dataclass(frozen=True, slots=True)
class AwaitedRequest:
    """A request that a rebalance waits for until the timer ``key`` fires: ``api`` of the member ``name``."""

    key: _Key
    generation: int
    member_id: str
    name: str
    api: str

    @property
    def group_id(self) -> str:
        """The group of the rebalance that waits."""
        return str(self.key[1][1])

    @property
    def timer(self) -> tuple[_Key, int]:
        """The timer and the generation in which it was armed."""
        return self.key, self.generation


class SessionKeepAlive:
    """``is_open(connection)``: whether a connection is open; ``shards()``: the loaded shards with their partitions."""

    def __init__(self, is_open: Callable[[Any], bool], shards: _Shards, timers: KeyedTimers[_Key]) -> None:
        self._is_open, self._shards, self._timers = is_open, shards, timers
        self._connections: dict[tuple[str, str], Any] = {}
        self._target_ms: int | None = None
        self._silent: dict[str, None] = {}  # as they are named
        self._silent_members: tuple[str, ...] = ()  # and their member ids
        self._connected: set[tuple[str, str]] | None = None  # when time began to move
        self._due: dict[_Key, tuple[int, int]] = {}  # of silent members: generation, and when their session ends
        self._deferred: list[Callable[[], object]] = []
        self.fired: list[str] = []
        """Descriptions of the timers that fired during the advance; the caller clears it."""
        self.after_request: Callable[[], object] | None = None
        """Called after each request of a group."""

    # calls of the runtime

    def on_request(self, shard: Shard, body: object, ctx: Asking, step: Callable[[], object]) -> None:
        """Call ``step()`` for a group's request: now, or after the advance for a JoinGroup of a silent member."""
        if self._is_deferred(body, ctx):
            self._deferred.append(partial(self._on_deferred_request, shard, body, ctx, step))
            return
        step()
        self._remember_connection(shard, body, ctx.connection)
        if self.after_request is not None:
            self.after_request()

    def _on_deferred_request(self, shard: Shard, body: object, ctx: Asking, step: Callable[[], object]) -> None:
        """After the advance: the client may have disconnected meanwhile, or the group's coordinator have moved."""
        if self._is_open(ctx.connection) and any(loaded is shard for _, loaded in self._shards()):
            self.on_request(shard, body, ctx, step)

    def _is_deferred(self, body: object, ctx: Asking) -> bool:
        """Whether this is a silent member's JoinGroup."""
        if not self._silent or type(body) is not JoinGroupRequest:
            return False
        connections = (self._connections.get((body.group_id, member)) for member in self._silent_members)
        return self._names(body.member_id, ctx.client_id, body.group_instance_id) or ctx.connection in connections

    def _remember_connection(self, shard: Shard, body: object, connection: Any) -> None:
        group_id, member_id = getattr(body, "group_id", None), getattr(body, "member_id", None)
        group = None if group_id is None else shard.classic(group_id)
        if group is None and member_id and isinstance(shard.groups.get(str(group_id)), EpochGroup):
            self._connections[str(group_id), member_id] = connection
            return
        if group is None or member_id is None:
            return
        if not member_id:
            member_id = self._new_id(group, body)
        if member_id:
            if len(self._connections) > _PRUNE_AT:
                self._prune()
            self._connections[group.group_id, member_id] = connection

    def _new_id(self, group: ClassicGroup, body: object) -> str | None:
        """The member id that was assigned to a JoinGroup without one: the last one added."""
        if type(body) is not JoinGroupRequest:
            return None
        if body.group_instance_id is not None:
            return group.static_members.get(body.group_instance_id)
        for ids in (group.pending_members, group.members):
            last = next(reversed(ids), None)
            if last is not None and (group.group_id, last) not in self._connections:
                return last
        return None

    def _prune(self) -> None:
        live = {
            (group.group_id, member)
            for _, shard in self._shards()
            for group in shard.classic_groups()
            for member in (*group.members, *group.pending_members)
        }
        live |= {(group.group_id, member) for group in self._consumer_groups() for member in group.latest.members}
        self._connections = {key: connection for key, connection in self._connections.items() if key in live}

    def postponed_deadline(self, shard: Shard, key: TimerKey) -> int | None:
        """The new deadline, in ms, of a due timer that must not fire; None if it fires."""
        if self._target_ms is None:
            return None
        session_ms = self._session_ms(shard, key)
        if session_ms is not None:
            return self._target_ms + session_ms
        self.fired.append(timer_text(shard.partition, key, shard))
        return None

    def _session_ms(self, shard: Shard, key: TimerKey) -> int | None:
        """The timeout in ms of the session to restart; None if the timer fires."""
        if key[0] not in ("session", "pending"):
            return None
        group_id, member_id = str(key[1]), str(key[2])
        group = shard.classic(group_id)
        member_key = group_id, member_id
        consumer = shard.groups.get(group_id)
        if isinstance(consumer, EpochGroup):
            session = consumer.session_of(member_id)
            kept = (
                session is not None
                and self._is_connected(member_key)
                and not self._is_silent_member(consumer, member_id)
            )
            return session[1] if kept and session is not None else None
        if group is None or not self._is_connected(member_key):
            return None
        if key[0] == "pending":
            return None if member_id in self._silent else group.pending_members.get(member_id)
        member = group.members.get(member_id)
        if member is None or member.is_new or self._is_silent(member):
            return None
        return member.session_timeout_ms

    def _consumer_groups(self) -> list[EpochGroup[Any]]:
        return [
            group for _, shard in self._shards() for group in shard.groups.values() if isinstance(group, EpochGroup)
        ]

    def _is_silent_member(self, group: EpochGroup[Any], member_id: str) -> bool:
        member = group.latest.members[member_id]
        return self._names(member_id, member.client_id, getattr(member, "instance_id", None))

    def _is_connected(self, key: tuple[str, str]) -> bool:
        return key in (self._connected or ()) or self._is_open(self._connections.get(key))

    def _is_silent(self, member: Member) -> bool:
        return self._names(member.member_id, member.client_id, member.instance_id)

    def _names(self, *names: str | None) -> bool:
        return any(name in self._silent for name in names if name is not None)

    # during an advance

    def begin(self, target_ms: int, silent: Iterable[str]) -> None:
        """Begin an advance to ``target_ms``. ``silent``: member, client or instance ids of silent members. Raises UsageError for an
        unknown id."""
        known: dict[str, None] = {}
        for _, shard in self._shards():
            for group in shard.classic_groups():
                known.update(dict.fromkeys(group.pending_members))
                for member in group.members.values():
                    known.update(dict.fromkeys((member.member_id, member.client_id)))
                    if member.instance_id is not None:
                        known[member.instance_id] = None
        for consumer in self._consumer_groups():
            for member_id, holder in consumer.latest.members.items():
                known.update(dict.fromkeys((member_id, holder.client_id)))
                instance_id = getattr(holder, "instance_id", None)
                if instance_id is not None:
                    known[instance_id] = None
        for name in silent:
            if name not in known:
                raise unknown("member", name, known)
        self._silent = dict.fromkeys(silent)
        members = [
            member
            for _, shard in self._shards()
            for group in shard.classic_groups()
            for member in group.members.values()
        ]
        self._silent_members = tuple(member.member_id for member in members if self._is_silent(member))
        self._connected = None
        self._target_ms = target_ms
        self.fired.clear()

    def expire_silent(self) -> None:
        """Reset the sessions of silent members to their deadlines before requests since the last call. The first call, after the
        requests at hand were handled, stores the connected members."""
        if self._connected is None:
            self._connected = {key for key, connection in self._connections.items() if self._is_open(connection)}
        if not self._silent:
            return
        for key, generation in self._silent_sessions():
            deadline_ms = self._timers.deadline_ms(key)
            if deadline_ms is None:
                continue
            due = self._due.get(key)
            if due is None or due[0] != generation:
                self._due[key] = generation, deadline_ms
            elif deadline_ms > due[1]:
                self._timers.set(key, due[1])

    def _silent_sessions(self) -> Iterator[tuple[_Key, int]]:
        for index, shard in self._shards():
            for group in shard.classic_groups():
                for member in group.members.values():
                    if self._is_silent(member):
                        yield (index, ("session", group.group_id, member.member_id)), group.generation
            for consumer in [group for group in shard.groups.values() if isinstance(group, EpochGroup)]:
                for member_id in consumer.latest.members:
                    if self._is_silent_member(consumer, member_id):
                        yield (index, ("session", consumer.group_id, member_id)), 0

    def awaited_requests(self, by_ms: int) -> list[AwaitedRequest]:
        """The requests of live members that rebalances wait for whose timers fire by ``by_ms``."""
        return [
            request
            for index, shard in self._shards()
            for group in shard.classic_groups()
            for request in self._awaited_requests(index, group, by_ms)
        ]

    def _awaited_requests(self, index: int, group: ClassicGroup, by_ms: int) -> Iterator[AwaitedRequest]:
        if group.state is State.PREPARING_REBALANCE and not group.in_initial_delay:
            kind, api, members = "rebalance", "JoinGroup", [m for m in group.members.values() if m.join_token is None]
        else:
            kind, api, members = "sync", "SyncGroup", [group.members[member_id] for member_id in group.pending_sync]
        key: _Key = (index, (kind, group.group_id))
        deadline_ms = self._timers.deadline_ms(key) if members else None
        if deadline_ms is None or deadline_ms > by_ms:
            return
        for member in members:
            if self._is_connected((group.group_id, member.member_id)) and not self._is_silent(member):
                yield AwaitedRequest(key, group.generation, member.member_id, _name_in(group, member), api)

    def removed(self, awaited: Iterable[AwaitedRequest]) -> list[AwaitedRequest]:
        """The requests whose members were removed from their groups."""
        groups = {group.group_id: group for _, shard in self._shards() for group in shard.classic_groups()}
        return [
            request
            for request in awaited
            if request.group_id not in groups or request.member_id not in groups[request.group_id].members
        ]

    def end(self) -> list[Callable[[], object]]:
        """End the advance. Returns functions that handle the deferred requests."""
        self._target_ms = None
        self._silent, self._silent_members = {}, ()
        self._due.clear()
        deferred, self._deferred = self._deferred, []
        return deferred


def _name_in(group: ClassicGroup, member: Member) -> str:
    """The member's instance id, else its client id if it is unique in the group, else its member id."""
    alone = sum(other.client_id == member.client_id for other in group.members.values()) == 1
    return member.instance_id or (member.client_id if alone and member.client_id else member.member_id)


def timer_text(index: int, key: TimerKey, shard: Shard | None) -> str:
    """Describe a timer of the group coordinator: ``session of consumer-1 in billing``."""
    kind, *rest = key
    if kind == "session":
        return f"session of {rest[1]} in {rest[0]}"
    if kind == "pending":
        return f"member id {rest[1]} of {rest[0]}, which has not joined"
    if kind == "join":
        return f"JoinGroup that {rest[1]} owes to {rest[0]}"
    if kind == "unsynced":
        return f"SyncGroup that {rest[1]} owes to {rest[0]}"
    if kind == "patterns":
        return f"regular expressions of {rest[0]}"
    if kind == "revocation":
        return f"rebalance timeout of {rest[1]} in {rest[0]}"
    if kind == "initial":
        return f"initial rebalance delay of {rest[0]}"
    if kind == "sync":
        return f"SyncGroup timeout of {rest[0]}"
    if kind == "rebalance":
        group = None if shard is None else shard.classic(str(rest[0]))
        initial = group is not None and group.in_initial_delay
        return f"{'initial rebalance delay' if initial else 'rebalance timeout'} of {rest[0]}"
    if kind == "unwritable":
        return f"refusal of records that cannot be written to __consumer_offsets-{index}"
    return f"{'append timeout' if kind == 'append' else 'offset expiry'} of __consumer_offsets-{index}"

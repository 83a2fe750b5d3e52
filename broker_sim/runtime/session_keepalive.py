"""Which members could send a heartbeat, and which are to be kept alive while a manual clock leaps ahead.

A client can't heartbeat in no real time: when a test moves the broker's clock by a minute, every session would end. So while time
is moved, a session that comes due begins anew, as if its member had gone on with its heartbeats, unless

* the connection that the member was last heard on was gone before: it has crashed. One that goes while time is moved is no crash:
  clients hang up on some errors (a coordinator that timed out) and come back a moment later, which is hours too late on this clock;
* it is named in ``expire``: it is silent, whatever it sends meanwhile;
* it waits in its first JoinGroup: what runs then is no session but Kafka's limit of five minutes, which no heartbeat moves.

The same holds for a member id that was given out (MEMBER_ID_REQUIRED) and has not come back yet. All other timers fire.

A client can't join in no real time either. ``owed`` tells which living members a rebalance still waits for when its timer is next:
they would be thrown out for a request that they had no time to send. Whoever moves time waits for them. Of the silent no JoinGroup is
looked at before the step is over, else they would be back in that real time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import unknown
from broker_sim.coordinator.classic.group import ClassicGroup, Member, State
from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.outcome import TimerKey
from broker_sim.coordinator.shard import Shard
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.streams.group import StreamsGroup
from kafka_wire.messages.k11_join_group import JoinGroupRequest

if TYPE_CHECKING:
    from broker_sim.handlers.context import RequestContext
    from broker_sim.runtime.timers import KeyedTimers

__all__ = ["Owed", "Presence", "timer_text"]

_BY_EPOCHS = (ConsumerGroup, ShareGroup, StreamsGroup)
"""The kinds of groups whose members heartbeat, and whose heartbeat says all there is to say."""

_PRUNE_AT = 1024

_Shards = Callable[[], Iterable[tuple[int, Shard]]]
_Key = tuple[int, TimerKey]


@dataclass(frozen=True, slots=True)
class Owed:
    """A request that a rebalance waits for: ``api`` of the member ``name``, at the latest when the timer ``key`` fires."""

    key: _Key
    generation: int
    member_id: str
    name: str
    api: str

    @property
    def group_id(self) -> str:
        """The group that rebalances."""
        return str(self.key[1][1])

    @property
    def timer(self) -> tuple[_Key, int]:
        """Which run of which timer."""
        return self.key, self.generation


class Presence:
    """``is_open`` tells whether a connection is still there; ``shards`` those that are loaded, with their numbers."""

    def __init__(self, is_open: Callable[[Any], bool], shards: _Shards, timers: KeyedTimers[_Key]) -> None:
        self._is_open, self._shards, self._timers = is_open, shards, timers
        self._heard: dict[tuple[str, str], Any] = {}
        self._target_ms: int | None = None
        self._silent: dict[str, None] = {}  # as they are named
        self._silent_members: tuple[str, ...] = ()  # and their member ids
        self._connected: set[tuple[str, str]] | None = None  # when time began to move
        self._due: dict[_Key, tuple[int, int]] = {}  # of silent members: generation, and when their session ends
        self._kept_out: list[Callable[[], object]] = []
        self.fired: list[str] = []
        """The timers that fired since the last look, while time is moved: what they were for."""
        self.on_heard: Callable[[], object] | None = None
        """Called after each request of a group."""

    # what the runtime tells

    def heard(self, shard: Shard, body: Any, ctx: RequestContext, step: Callable[[], object]) -> None:
        """A group's request has come: ``step()`` is called, now or, for what a silent member must not do, when time stands still."""
        if self._is_kept_out(body, ctx):
            self._kept_out.append(partial(self._heard_late, shard, body, ctx, step))
            return
        step()
        self._note(shard, body, ctx.connection)
        if self.on_heard is not None:
            self.on_heard()

    def _heard_late(self, shard: Shard, body: Any, ctx: RequestContext, step: Callable[[], object]) -> None:
        """Time stands still again; the client may have gone meanwhile, or the group's coordinator have moved."""
        if self._is_open(ctx.connection) and any(each is shard for _, each in self._shards()):
            self.heard(shard, body, ctx, step)

    def _is_kept_out(self, body: Any, ctx: RequestContext) -> bool:
        """Whether this is a silent member's JoinGroup."""
        if not self._silent or type(body) is not JoinGroupRequest:
            return False
        connections = (self._heard.get((body.group_id, member)) for member in self._silent_members)
        return self._names(body.member_id, ctx.client_id, body.group_instance_id) or ctx.connection in connections

    def _note(self, shard: Shard, body: Any, connection: Any) -> None:
        group_id, member_id = getattr(body, "group_id", None), getattr(body, "member_id", None)
        group = None if group_id is None else shard.classic(group_id)
        if group is None and member_id and isinstance(shard.groups.get(str(group_id)), _BY_EPOCHS):
            self._heard[str(group_id), member_id] = connection
            return
        if group is None or member_id is None:
            return
        if not member_id:
            member_id = self._new_id(group, body)
        if member_id:
            if len(self._heard) > _PRUNE_AT:
                self._prune()
            self._heard[group.group_id, member_id] = connection

    def _new_id(self, group: ClassicGroup, body: Any) -> str | None:
        """The id that a JoinGroup without one was given, which is the last one of its kind."""
        if type(body) is not JoinGroupRequest:
            return None
        if body.group_instance_id is not None:
            return group.static_members.get(body.group_instance_id)
        for ids in (group.pending_members, group.members):
            last = next(reversed(ids), None)
            if last is not None and (group.group_id, last) not in self._heard:
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
        self._heard = {key: connection for key, connection in self._heard.items() if key in live}

    def spares(self, shard: Shard, key: TimerKey) -> int | None:
        """The new deadline of a timer that is due and does not fire; None where it does."""
        if self._target_ms is None:
            return None
        session_ms = self._session_ms(shard, key)
        if session_ms is not None:
            return self._target_ms + session_ms
        self.fired.append(timer_text(shard.partition, key, shard))
        return None

    def _session_ms(self, shard: Shard, key: TimerKey) -> int | None:
        """How long the session lasts that is to begin anew."""
        if key[0] not in ("session", "pending"):
            return None
        group_id, member_id = str(key[1]), str(key[2])
        group = shard.classic(group_id)
        who = group_id, member_id
        consumer = shard.groups.get(group_id)
        if isinstance(consumer, _BY_EPOCHS):
            session = consumer.session_of(member_id)
            kept = session is not None and self._is_there(who) and not self._is_silent_holder(consumer, member_id)
            return session[1] if kept and session is not None else None
        if group is None or not self._is_there(who):
            return None
        if key[0] == "pending":
            return None if member_id in self._silent else group.pending_members.get(member_id)
        member = group.members.get(member_id)
        if member is None or member.is_new or self._is_silent(member):
            return None
        return member.session_timeout_ms

    def _consumer_groups(self) -> list[ConsumerGroup | ShareGroup | StreamsGroup]:
        return [
            group for _, shard in self._shards() for group in shard.groups.values() if isinstance(group, _BY_EPOCHS)
        ]

    def _is_silent_holder(self, group: ConsumerGroup | ShareGroup | StreamsGroup, member_id: str) -> bool:
        member = group.latest.members[member_id]
        return self._names(member_id, member.client_id, getattr(member, "instance_id", None))

    def _is_there(self, who: tuple[str, str]) -> bool:
        return who in (self._connected or ()) or self._is_open(self._heard.get(who))

    def _is_silent(self, member: Member) -> bool:
        return self._names(member.member_id, member.client_id, member.instance_id)

    def _names(self, *names: str | None) -> bool:
        return any(name in self._silent for name in names if name is not None)

    # while time is moved

    def begin(self, target_ms: int, silent: Iterable[str]) -> None:
        """Time is going to be moved to ``target_ms``. ``silent``: member, client or instance ids. Raises UsageError for one that
        nobody has."""
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

    def keep_silent(self) -> None:
        """What the silent members have sent since the last call did not count: their sessions end when they would have. The first
        call, when what was at hand is done, notes who is connected."""
        if self._connected is None:
            self._connected = {who for who, connection in self._heard.items() if self._is_open(connection)}
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
            for consumer in [group for group in shard.groups.values() if isinstance(group, _BY_EPOCHS)]:
                for member_id in consumer.latest.members:
                    if self._is_silent_holder(consumer, member_id):
                        yield (index, ("session", consumer.group_id, member_id)), 0

    def owed(self, by_ms: int) -> list[Owed]:
        """What living members owe to rebalances whose timers fire by ``by_ms``."""
        return [
            each
            for index, shard in self._shards()
            for group in shard.classic_groups()
            for each in self._owed(index, group, by_ms)
        ]

    def _owed(self, index: int, group: ClassicGroup, by_ms: int) -> Iterator[Owed]:
        if group.state is State.PREPARING_REBALANCE and not group.in_initial_delay:
            kind, api, owing = "rebalance", "JoinGroup", [m for m in group.members.values() if m.join_token is None]
        else:
            kind, api, owing = "sync", "SyncGroup", [group.members[each] for each in group.pending_sync]
        key: _Key = (index, (kind, group.group_id))
        deadline_ms = self._timers.deadline_ms(key) if owing else None
        if deadline_ms is None or deadline_ms > by_ms:
            return
        for member in owing:
            if self._is_there((group.group_id, member.member_id)) and not self._is_silent(member):
                yield Owed(key, group.generation, member.member_id, _name_in(group, member), api)

    def thrown_out(self, owed: Iterable[Owed]) -> list[Owed]:
        """Those of them whose members are in their groups no more."""
        groups = {group.group_id: group for _, shard in self._shards() for group in shard.classic_groups()}
        return [
            each for each in owed if each.group_id not in groups or each.member_id not in groups[each.group_id].members
        ]

    def end(self) -> list[Callable[[], object]]:
        """Time stands still again. Returns what lets those in, one by one, who were kept out."""
        self._target_ms = None
        self._silent, self._silent_members = {}, ()
        self._due.clear()
        kept_out, self._kept_out = self._kept_out, []
        return kept_out


def _name_in(group: ClassicGroup, member: Member) -> str:
    """What people call a member: its instance id, its client id where no other has it, else its member id."""
    alone = sum(each.client_id == member.client_id for each in group.members.values()) == 1
    return member.instance_id or (member.client_id if alone and member.client_id else member.member_id)


def timer_text(index: int, key: TimerKey, shard: Shard | None) -> str:
    """What a timer of the group coordinator is for."""
    kind, *rest = key
    if kind == "session":
        return f"session of {rest[1]} in {rest[0]}"
    if kind == "pending":
        return f"member id {rest[1]} of {rest[0]}, which has not joined"
    if kind == "join":
        return f"JoinGroup that {rest[1]} owes to {rest[0]}"
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
        return f"{'initial join window' if initial else 'rebalance timeout'} of {rest[0]}"
    return f"{'append timeout' if kind == 'append' else 'offset expiry'} of __consumer_offsets-{index}"

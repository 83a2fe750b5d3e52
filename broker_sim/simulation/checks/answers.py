"""Checks of a group's responses, as they come, against what a client can conclude about a correct coordinator.

    answers = Answers(kafka.state, time_s, broken)
    ask = answers.sent("Heartbeat", request, version, broker); answers.answered(ask, response)

See ``invariants`` for the rules. It needs no journal, so the brokers' fast paths are checked, too.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from broker_sim.runtime.group_coordinator import settings_of
from broker_sim.simulation.checks.sent import CommittedOffset, SentRequest, partitions_of, value_of
from broker_sim.simulation.errors import SimError
from kafka_wire.consumer_protocol import assigned_partitions
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import ClusterState, Partition

__all__ = ["HISTORY", "OFFSETS", "Answers", "Broken", "InvariantBroken", "offsets_partition"]

HISTORY = 16
_OWNED = {Err.NONE, Err.UNKNOWN_MEMBER_ID, Err.ILLEGAL_GENERATION, Err.MEMBER_ID_REQUIRED, Err.FENCED_INSTANCE_ID}
"""Answers that only a coordinator gives."""
_REFUSED = {
    Err.UNKNOWN_MEMBER_ID, Err.ILLEGAL_GENERATION, Err.FENCED_INSTANCE_ID, Err.REBALANCE_IN_PROGRESS, Err.STALE_MEMBER_EPOCH,
}  # fmt: skip
"""A commit with such an answer has not been taken."""
_PARKED = ("JoinGroup", "SyncGroup")
_MANY = 8
OFFSETS = "__consumer_offsets"

Key = tuple[str, str, int]
Broken = Callable[["InvariantBroken"], object]


class InvariantBroken(SimError, AssertionError):
    """``name``: of the invariant. The text has what broke it, and the group's recent history."""

    def __init__(self, name: str, what: str, history: Iterable[object] = ()) -> None:
        self.name = name
        lines = "".join(f"\n    {entry}" for entry in history)
        super().__init__(f"{name}: {what}{lines}")

    @property
    def line(self) -> str:
        """The same for failures of one cause."""
        return f"invariant: {self.name}"


@lru_cache(maxsize=1024)
def offsets_partition(group: str, partitions: int) -> int:
    """As Kafka: the absolute value of Java's hash of the name, 0 for the number that has none."""
    value = 0
    raw = group.encode("utf-16-be", "surrogatepass")
    for high, low in zip(raw[::2], raw[1::2], strict=True):
        value = (value * 31 + high * 256 + low) % 2**32
    if value >= 2**31:
        value = 2**32 - value
    return 0 if value == 2**31 else value % partitions


@dataclass(slots=True)
class _CoordinatorTerm:
    """A group under one coordinator."""

    announced: dict[int, int] = field(default_factory=dict)  # generation -> when a response had it first
    newest: int = -1
    lineup: dict[int, frozenset[str]] = field(default_factory=dict)  # generation -> members in the leader's response
    leaders: dict[int, str] = field(default_factory=dict)
    owners: dict[int, dict[tuple[str, int], str]] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)  # member -> when its leaving was confirmed
    synced: dict[str, int] = field(default_factory=dict)  # member -> the last generation whose assignment it has
    beat: dict[str, tuple[float, float]] = field(default_factory=dict)  # member -> last good Heartbeat: sent, answered
    joined: dict[str, tuple[int, float]] = field(default_factory=dict)  # member -> its generation, answered when
    issued: dict[str, list[tuple[str, int, int]]] = field(default_factory=dict)  # instance -> (id, sent, answered)


_REMOVING = ("DeleteGroups", "OffsetDelete")
"""APIs whose requests may delete a group."""


class Answers:
    """See the module. ``now_s``: virtual seconds. ``waive``: invariants whose breaches are counted, in ``waived``, and end nothing.
    ``hears_removals``: `removed` is called for each group that is deleted; else requests that may delete one count as if they did."""

    def __init__(
        self,
        state: ClusterState,
        now_s: Callable[[], float],
        broken: Broken,
        *,
        waive: Collection[str] = (),
        hears_removals: bool = False,
    ) -> None:
        self.state, self._now_s, self._report, self._hears_removals = state, now_s, broken, hears_removals
        self.waive, self.waived = frozenset(waive), Counter[str]()
        self.slack_s = state.config.int("offsets.commit.timeout.ms") / 1000 + 1
        """More than what an answer may take beyond the group's timeouts: an append that runs into its own, the network."""
        self._awaits_tombstones = settings_of(state.config).policy.tombstones_are_awaited
        self.tick = 0
        self.checked = 0
        self.broken: InvariantBroken | None = None
        self.open: dict[SentRequest, None] = {}
        self.writes: dict[Key, list[CommittedOffset]] = {}
        self._unsure = False  # whether there may be values of writes that are not known any more
        self._removed: Counter[str] = Counter()
        self._lives: dict[tuple[str, int], _CoordinatorTerm] = {}
        self._ids: dict[tuple[str, str], int] = {}
        self.members: dict[tuple[str, str], None] = {}
        """Groups with their members, as read from the coordinator."""
        self._asks: dict[tuple[str, str], SentRequest] = {}  # the last one of a member
        self._timeouts: dict[str, tuple[float, float, float]] = {}  # group -> s: sessions from .. to, longest rebalance
        self._history: dict[str, deque[SentRequest]] = {}
        self._static: dict[str, None] = {}
        self._leaving: dict[tuple[str, str], None] = {}
        self._said: dict[
            tuple[str, int], dict[str, list[Any]]
        ] = {}  # group, generation -> member -> what leaders gave it
        self._syncing: dict[tuple[str, str, int], None] = {}  # group, member, generation: has sent a SyncGroup

    # --- requests and responses

    def partition(self, group: str) -> Partition | None:
        """The group's partition of __consumer_offsets; None before the topic exists."""
        topic = self.state.topics.get(OFFSETS)
        return None if topic is None else topic.partitions[offsets_partition(group, len(topic.partitions))]

    def sent(self, api: str, body: object, version: int, broker: int) -> SentRequest:
        """Note a request that is sent; returns it with what its response may depend on."""
        self.tick += 1
        now_s = self._now_s()
        group = value_of(body, "group_id", "")
        if api == "DeleteGroups" and len(value_of(body, "groups_names")) == 1:
            group = value_of(body, "groups_names")[0]
        member = value_of(body, "member_id", "") or ""
        instance = value_of(body, "group_instance_id")
        generation = value_of(body, "generation_id_or_member_epoch", value_of(body, "generation_id", -1))
        partition = self.partition(group)
        epoch, led = (-1, False) if partition is None else (partition.leader_epoch, partition.leader == broker)
        ask = SentRequest(
            api, version, body, broker, group, member, instance, generation, self.tick, now_s, epoch, led, now_s
        )
        ask.made = self._removed[group]
        self.open[ask] = None
        self._history.setdefault(group, deque(maxlen=HISTORY)).append(ask)
        if instance is not None:
            self._static[group] = None
        if api == "JoinGroup":
            self._note_timeouts(ask)
        if api in ("OffsetCommit", "OffsetDelete"):
            self._note_writes(ask)
        elif api == "DeleteGroups":
            self._note_removals(ask)
        if api == "SyncGroup":
            self._syncing[group, member, generation] = None
            for assignment in value_of(body, "assignments") or ():
                said = self._said.setdefault((group, generation), {})
                said.setdefault(value_of(assignment, "member_id"), []).append(value_of(assignment, "assignment"))
        if api == "LeaveGroup":
            for gone in (member, *(value_of(member, "member_id", "") for member in value_of(body, "members") or ())):
                self._leaving[group, gone] = None
        self._supersede(ask)
        return ask

    def _supersede(self, ask: SentRequest) -> None:
        """Await no response to concurrent requests about one member: the earlier of them may never be answered."""
        if ask.api not in _PARKED and ask.api != "LeaveGroup":
            return
        mine = ask.named()
        for other in self.open:
            if other is ask or other.group != ask.group or (other.api not in _PARKED and other.api != "LeaveGroup"):
                continue
            if not mine.isdisjoint(other.named()):
                ask.over = other.over = True

    def _note_timeouts(self, ask: SentRequest) -> None:
        session_s = value_of(ask.body, "session_timeout_ms") / 1000
        rebalance_s = value_of(ask.body, "rebalance_timeout_ms") / 1000 if ask.version >= 1 else session_s
        shortest, longest, rebalance = self._timeouts.get(ask.group, (session_s, session_s, 0.0))
        self._timeouts[ask.group] = min(shortest, session_s), max(longest, session_s), max(rebalance, rebalance_s)

    def _note_writes(self, ask: SentRequest) -> None:
        for key, partition in partitions_of(ask.body):
            write = CommittedOffset(value_of(partition, "committed_offset", -1), ask.sent, begun=ask.sent)
            ask.writes.append(write)
            self.writes.setdefault((ask.group, *key), []).append(write)

    def _note_removals(self, ask: SentRequest) -> None:
        """Record that a request removes a group with all its offsets."""
        for key in [key for key in self.writes if key[0] == ask.group]:
            write = CommittedOffset(-1, ask.sent, begun=ask.sent)
            ask.writes.append(write)
            self.writes[key].append(write)

    def lost(self, ask: SentRequest) -> None:
        """Record that a request gets no response: its connection was closed."""
        ask.over = True
        self.open.pop(ask, None)
        self._asks.pop((ask.group, ask.member), None)  # it may come through yet, a sign of life
        self._may_have_removed(ask)

    def answered(self, ask: SentRequest, body: object) -> None:
        """The response to a request."""
        self.tick += 1
        ask.got, ask.got_s = self.tick, self._now_s()
        self.open.pop(ask, None)
        ask.error = ask.error_in(body)
        if self.broken is not None or not ask.group:
            return
        self.checked += 1
        if ask.error is Err.NONE:
            self._may_have_removed(ask)
        partition = self.partition(ask.group)
        steady = partition is not None and partition.leader_epoch == ask.epoch and ask.made == self._removed[ask.group]
        steady = steady and not self._is_being_removed(ask.group)
        if steady and not ask.led and ask.error in _OWNED and ask.api in CHECKS:
            self.fail("a group has one coordinator", ask, "answered by a broker that does not lead its partition")
        life = None
        if steady:
            life = self._lives.get((ask.group, ask.epoch))
            if life is None:
                life = self._lives[ask.group, ask.epoch] = _CoordinatorTerm()
        check = CHECKS.get(ask.api)
        if check is not None:
            check(self, ask, body, life)
        if life is not None and ask.member:
            self._check_life(ask, life)
            self._asks[ask.group, ask.member] = ask

    def _may_have_removed(self, ask: SentRequest) -> None:
        """Up to 3.9 OffsetDelete deletes a group that has neither members nor offsets then (cleanupGroupMetadata)."""
        if ask.api in _REMOVING and not self._hears_removals:
            self.removed(ask.group)

    def _is_being_removed(self, group: str) -> bool:
        """Whether a request that may delete the group is not answered yet."""
        return not self._hears_removals and any(ask.api in _REMOVING and ask.group == group for ask in self.open)

    def removed(self, group: str) -> None:
        """Forget a deleted group: another group with its id starts again, with generation 1."""
        self._removed[group] += 1
        self._lives = {key: life for key, life in self._lives.items() if key[0] != group}
        self._asks = {key: ask for key, ask in self._asks.items() if key[0] != group}

    def started(self) -> None:
        """The brokers are there again. Where their disk had not taken a leader's epoch, that number is given once more."""
        self._lives.clear()

    def power_lost(self) -> None:
        """Forget what was acknowledged: after a loss of power, any earlier state may come back, and epochs may come again."""
        self.writes.clear()
        self._lives.clear()
        self._asks.clear()
        self._unsure = True

    def overdue(self) -> None:
        """Look for requests that have waited longer than any timeout of their group allows."""
        now_s = self._now_s()
        for ask in self.open:
            rebalance_s = self._timeouts.get(ask.group, (0.0, 0.0, 0.0))[2]
            bound_s = self.slack_s + (rebalance_s if ask.api in _PARKED else 0.0)
            if not ask.over and now_s - ask.started_s > bound_s:
                ask.over = True
                self.fail("deferred requests are answered", ask, f"waits for {now_s - ask.started_s:.1f} s")

    def history(self, group: str) -> Iterable[SentRequest]:
        """Last requests of a group, with their results."""
        return self._history.get(group, ())

    def life(self, group: str, epoch: int) -> _CoordinatorTerm | None:
        """State of a group as far as responses have shown it under one coordinator, by its leader epoch; None for no response."""
        return self._lives.get((group, epoch))

    # --- the invariants

    def fail(self, name: str, ask: SentRequest, what: str) -> None:
        """Report a breach of the invariant ``name``."""
        self.report(InvariantBroken(name, f"{ask}: {what}", self.history(ask.group)))

    def report(self, error: InvariantBroken) -> None:
        """An invariant is broken, one of these or of another observer."""
        if error.name in self.waive:
            self.waived[error.name] += 1
        elif self.broken is None:
            self.broken = error
            self._report(error)

    def _check_generation(self, ask: SentRequest, life: _CoordinatorTerm, generation: int) -> None:
        if generation >= life.newest or generation < 0:
            return
        newer = max((g for g, answered_s in life.announced.items() if answered_s < ask.sent), default=-1)
        if newer > generation:
            self.fail("requests of older generations are refused", ask, f"accepted in {generation}, known was {newer}")

    def _check_fresh(self, ask: SentRequest, member_id: str) -> None:
        key = ask.group, member_id
        if key in self._ids:
            self.fail("member ids are never reused", ask, f"{member_id} was given before")
        self._ids[key] = self.tick

    def _check_life(self, ask: SentRequest, life: _CoordinatorTerm) -> None:
        """Members that left or sent nothing were removed; members that sent requests are present."""
        left = life.left.get(ask.member)
        simple = ask.api == "OffsetCommit" and ask.generation < 0  # an empty group takes it from anybody
        if left is not None and left < ask.sent and ask.error is Err.NONE and ask.api != "LeaveGroup" and not simple:
            self.fail("removed members get UNKNOWN_MEMBER_ID", ask, "accepted after a confirmed LeaveGroup")
        shortest, longest, rebalance_s = self._timeouts.get(ask.group, (0.0, 0.0, 0.0))
        before = self._asks.get((ask.group, ask.member))
        if (
            ask.api in ("Heartbeat", "OffsetCommit")
            and ask.error is Err.NONE
            and ask.generation >= 0
            and before is not None
            and before.epoch == ask.epoch
            and life.synced.get(ask.member) is not None
            and before.api in ("Heartbeat", "SyncGroup")
            and before.error is Err.NONE
            and ask.sent_s - max(before.got_s, before.sent_s) > longest + 1
            and self._alone(ask)
        ):
            self.fail("members expire after their session timeout", ask, f"silent since {before.got_s:.3f} s")
        beat = life.beat.get(ask.member)
        if (
            beat is not None
            and ask.error is Err.UNKNOWN_MEMBER_ID
            and ask.api in ("Heartbeat", "OffsetCommit", "SyncGroup")
            and ask.generation >= 0
            and ask.got_s - beat[0] < min(shortest, rebalance_s)
            and life.synced.get(ask.member) == ask.generation
            and (ask.group, ask.member) not in self._leaving
            and ask.instance is None
        ):
            self.fail("live members are not evicted", ask, f"unknown after its successful Heartbeat of {beat[0]:.3f} s")

    def _alone(self, ask: SentRequest) -> bool:
        """Whether nothing else is under way that may be a sign of the member's life."""
        return all(other.member != ask.member for other in self.open if other.group == ask.group)

    def _joined(self, ask: SentRequest, body: object, life: _CoordinatorTerm | None) -> None:
        member_id, generation = value_of(body, "member_id", ""), value_of(body, "generation_id", -1)
        unnamed = ask.member == ""
        if ask.error is Err.MEMBER_ID_REQUIRED or (ask.error is Err.NONE and unnamed):
            self._check_fresh(ask, member_id)
        if ask.error is Err.GROUP_MAX_SIZE_REACHED:
            self._leaving[ask.group, ask.member] = None  # a member that rejoins loses its place
        if ask.error is not Err.NONE:
            return
        if unnamed and ask.instance is None and ask.version >= 4:
            self.fail("a dynamic member joins with an assigned member id (KIP-394)", ask, "joined without one")
        if life is None:
            return
        self._check_generation(ask, life, generation)
        life.announced.setdefault(generation, self.tick)
        life.newest = max(life.newest, generation)
        life.joined[member_id] = generation, ask.got_s
        if ask.instance is not None:
            life.issued.setdefault(ask.instance, []).append((member_id, ask.sent, self.tick))
        leader = value_of(body, "leader")
        if leader != member_id and value_of(body, "members"):
            self.fail("only the leader gets the member list", ask, f"{member_id} gets it, {leader} leads")
        members = frozenset(value_of(member, "member_id") for member in value_of(body, "members") or ())
        if ask.group in self._static:
            return
        if leader == member_id:
            if member_id not in members:
                self.fail("the leader is a member", ask, f"{leader} leads {sorted(members)}")
            if life.lineup.setdefault(generation, members) != members:
                self.fail("a generation has one set of members", ask, f"{sorted(members)} in {generation}")
        if life.leaders.setdefault(generation, leader) != leader:
            self.fail("a generation has one leader", ask, f"{leader}, not {life.leaders[generation]}")
        known = life.lineup.get(generation)
        if known is not None and (leader not in known or member_id not in known):
            self.fail("the leader is a member", ask, f"{leader} and {member_id} in {sorted(known)}")

    def _synced(self, ask: SentRequest, body: object, life: _CoordinatorTerm | None) -> None:
        if ask.error is not Err.NONE or life is None:
            return
        self._check_generation(ask, life, ask.generation)
        self._check_fenced(ask, life)
        life.announced.setdefault(ask.generation, self.tick)
        life.newest = max(life.newest, ask.generation)
        life.synced[ask.member] = ask.generation
        given = value_of(body, "assignment")
        self._check_given(ask, given)
        parts = assigned_partitions(given) if isinstance(given, bytes) else value_of(given, "assigned_partitions")
        owners = life.owners.setdefault(ask.generation, {})
        mine = ask.instance or ask.member
        for topic, indexes in (parts or {}).items():
            for index in indexes:
                owner = owners.setdefault((topic, index), mine)
                if owner != mine:
                    self.fail("a partition has one owner", ask, f"{topic}-{index} is {owner}'s in {ask.generation}")

    def _check_given(self, ask: SentRequest, given: object) -> None:
        """An assignment is what a leader of this generation has said, to the byte, or nothing."""
        said = self._said.get((ask.group, ask.generation))
        if said is None or not given or ask.group in self._static:  # a static member may have another one's place
            return
        if given not in said.get(ask.member, ()):
            self.fail("a member receives its leader's assignment", ask, f"{given!r}, which no leader said of it")

    def _check_fenced(self, ask: SentRequest, life: _CoordinatorTerm) -> None:
        issued = life.issued.get(ask.instance or "", [])
        mine = next((answered_s for name, _, answered_s in issued if name == ask.member), None)
        if mine is not None and any(
            name != ask.member and asked > mine and answered_s < ask.sent for name, asked, answered_s in issued
        ):
            self.fail("a replaced static member is fenced", ask, f"taken, though {issued[-1][0]} has its place")

    def _beaten(self, ask: SentRequest, body: object, life: _CoordinatorTerm | None) -> None:
        if life is None or ask.error not in (Err.NONE, Err.REBALANCE_IN_PROGRESS):
            return
        self._check_generation(ask, life, ask.generation)
        self._check_fenced(ask, life)
        if ask.error is Err.NONE:
            sent_s = max(ask.sent_s, life.beat.get(ask.member, (0.0, 0.0))[0])
            life.beat[ask.member] = sent_s, ask.got_s
            self._check_owing(ask, life)
        else:
            life.beat.pop(ask.member, None)

    def _check_owing(self, ask: SentRequest, life: _CoordinatorTerm) -> None:
        """A member that sends no SyncGroup is removed after the rebalance timeout. A static member that took a place may owe none."""
        generation, told_s = life.joined.get(ask.member, (-1, math.inf))
        limit_s = told_s + self._timeouts.get(ask.group, (0.0, 0.0, 0.0))[2] + 0.1
        owes = (ask.group, ask.member, generation) not in self._syncing
        if generation == ask.generation and owes and ask.sent_s > limit_s and ask.instance is None:
            self.fail("members without a SyncGroup are removed", ask, f"joined {generation} at {told_s:.3f} s")

    def _left(self, ask: SentRequest, body: object, life: _CoordinatorTerm | None) -> None:
        if ask.error is not Err.NONE or life is None:
            return
        answers = value_of(body, "members") or ()
        good = [value_of(answer, "member_id") for answer in answers if value_of(answer, "error_code") == 0]
        if ask.version < 3:
            good = [ask.member]
        for member_id in good:
            if member_id:
                life.left[member_id] = self.tick

    def _committed(self, ask: SentRequest, body: object, life: _CoordinatorTerm | None) -> None:
        if ask.error is Err.NONE:
            for write in ask.writes:
                write.done, write.acked = min(write.done, self.tick), True
            if life is not None and ask.generation >= 0:
                self._check_generation(ask, life, ask.generation)
                self._check_fenced(ask, life)
                if (ask.group, ask.member) not in self._ids and (ask.group, ask.member) not in self.members:
                    self.fail("commits of non-members are refused", ask, "the member id was never issued")
        elif ask.error in _REFUSED:
            for write in ask.writes:
                write.refused()

    def _deleted(self, ask: SentRequest, body: object, life: _CoordinatorTerm | None) -> None:
        fine = {key for key, partition in partitions_of(body) if value_of(partition, "error_code") == 0}
        for (key, _), write in zip(partitions_of(ask.body), ask.writes, strict=True):
            if ask.error is Err.NONE and key in fine:
                if self._awaits_tombstones:  # else it may come to nothing after all
                    write.done, write.acked = self.tick, True
            elif ask.error is Err.NONE:
                write.refused()

    def _group_deleted(self, ask: SentRequest, body: object, life: _CoordinatorTerm | None) -> None:
        for write in ask.writes:
            if ask.error is Err.NONE and self._awaits_tombstones:
                write.done, write.acked = self.tick, True
            elif ask.error in (Err.NON_EMPTY_GROUP, Err.GROUP_ID_NOT_FOUND):
                write.refused()

    def _fetched(self, ask: SentRequest, body: object, life: _CoordinatorTerm | None) -> None:
        # 3.x loads its log to the end, committed or not: what it shows then may yet be cut off
        log = self.partition(ask.group)
        sure = self._awaits_tombstones or log is None or log.high_watermark == log.log_end_offset
        for key, partition in partitions_of(body) if ask.error is Err.NONE else ():
            if value_of(partition, "error_code") == 0:
                self.saw(ask, (ask.group, *key), value_of(partition, "committed_offset"), settles=sure)

    def deletes(self, group: str, topic: str, index: int) -> bool:
        """Whether a client has requested the deletion of that offset."""
        return any(write.value == -1 for write in self.writes.get((group, topic, index), ()))

    def deleted_with_topic(self, group: str, partitions: Iterable[tuple[str, int]]) -> None:
        """A coordinator removes these offsets, whose topic was deleted: until the next commit they may be there or not, as the
        tombstones are not awaited by the one who deletes."""
        self.tick += 1
        for key in ((group, *partition) for partition in partitions):
            if key in self.writes:
                self.writes[key].append(CommittedOffset(-1, self.tick, begun=self.tick))

    def is_unacked(self, group: str, topic: str, index: int, value: int) -> bool:
        """Whether a client sent a commit of that offset and none got a successful response to it."""
        asked = [write for write in self.writes.get((group, topic, index), ()) if write.value == value]
        return bool(asked) and not any(write.acked for write in asked)

    def loaded(self, index: int, offsets: Mapping[str, Mapping[str, Mapping[int, Any]]]) -> None:
        """A coordinator has loaded the offsets partition ``index``: group -> topic -> partition -> offset. It is a read of all of them,
        which settles nothing: what is not committed may yet be cut off."""
        self.tick += 1
        topic = self.state.topics[OFFSETS]
        for key in self.writes:
            if offsets_partition(key[0], len(topic.partitions)) == index:
                now_s, leader = self._now_s(), topic.partitions[index].leader
                ask = SentRequest(
                    "load", 0, None, leader, key[0], "", None, -1, self.tick, now_s, -1, True, now_s, self.tick
                )
                committed = offsets.get(key[0], {}).get(key[1], {}).get(key[2])
                self.saw(ask, key, -1 if committed is None else committed.offset, settles=False)

    def saw(self, ask: SentRequest, key: Key, value: int, *, settles: bool = True) -> None:
        """``value`` is the result of a read with the times of ``ask``. It must be the last committed one, and is settled now."""
        writes = self.writes.get(key, [])
        if len(writes) > _MANY:  # what came before the floor of the oldest read that is under way can't be seen again
            floor = _floor(writes, min(ask.sent, *(request.sent for request in self.open)) if self.open else ask.sent)
            writes = self.writes[key] = [w for w in writes if w.done >= floor]
        floor = _floor(writes, ask.sent)
        assert ask.got is not None
        fitting = [w for w in writes if w.value == value and w.sent < ask.got and w.done >= floor]
        if fitting:
            removed = self._awaits_tombstones and floor >= 0  # else it may be that nothing has ever been there
            if settles and len(fitting) == 1 and (value >= 0 or removed):
                fitting[0].done = min(fitting[0].done, ask.got)
        elif (value != -1 and not self._unsure) or floor >= 0:
            last = max((w for w in writes if w.done < ask.sent), key=lambda w: w.sent, default=None)
            was = "nothing" if last is None else f"{last.value}, {'acked' if last.acked else 'seen before'}"
            self.fail("acknowledged commits are never lost or regressed", ask, f"{key[1:]} is {value}, not {was}")


CHECKS: dict[str, Callable[[Answers, SentRequest, Any, _CoordinatorTerm | None], None]] = {
    "JoinGroup": Answers._joined,
    "SyncGroup": Answers._synced,
    "Heartbeat": Answers._beaten,
    "LeaveGroup": Answers._left,
    "OffsetCommit": Answers._committed,
    "OffsetDelete": Answers._deleted,
    "DeleteGroups": Answers._group_deleted,
    "OffsetFetch": Answers._fetched,
}


def _floor(writes: list[CommittedOffset], sent: int) -> int:
    """Tick at which the last write was sent that was done at ``sent``; -1 for none."""
    floor = -1
    for write in writes:
        if write.done < sent and write.sent > floor:
            floor = write.sent
    return floor

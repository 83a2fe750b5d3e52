"""A consumer group (KIP-848) of two or three members, in all orders: nothing has two holders, and it comes to rest.

Members join, heartbeat with and without what they hold, give up late or never, repeat a heartbeat whose answer was lost, leave,
start anew without having left; the topic grows; the log may be stuck, refuse a record, or move. Held against every step: answers
by epoch as a real broker gave them; no partition is held by two members, or given before it was given up; epochs only grow, a
member's is never beyond the target's, nor that beyond the group's. From every state: members that behave share all partitions
out, and of the silent none is left.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.outcome import CommitOffsets, Offset, TopicsChanged
from broker_sim.coordinator.policy import Settings
from broker_sim.coordinator.topics import TopicImage
from broker_sim.simulation.exhaustive.classic import GroupGround
from broker_sim.simulation.exhaustive.explorer import Action
from broker_sim.simulation.exhaustive.surroundings import Surroundings
from kafka_wire.errors import Err
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

__all__ = ["ConsumerWorld"]

GROUP, TOPIC, TOPIC_ID = "g", "t", bytes(15) + b"\1"
REBALANCE_MS = 12_000
_ROUNDS = 60
_LEAVES, _LEAVES_FOR_NOW = -1, -2
_RULED = frozenset(
    {
        Err.NONE, Err.GROUP_ID_NOT_FOUND, Err.UNKNOWN_MEMBER_ID, Err.FENCED_MEMBER_EPOCH, Err.STALE_MEMBER_EPOCH,
        Err.UNRELEASED_INSTANCE_ID, Err.FENCED_INSTANCE_ID,
    }
)  # fmt: skip


@dataclass(slots=True)
class _Member:
    """The state of a member. ``holds``: partitions that it owns; ``assigned``: those of its last assignment. ``before``: epoch and
    partitions of the heartbeat before its last one. ``is_uncertain``: its last heartbeat failed, so the next one has all fields, and so
    has the response."""

    name: str
    instance: str | None = None
    member_id: str = ""
    epoch: int = 0
    holds: tuple[int, ...] = ()
    assigned: tuple[int, ...] = ()
    before: tuple[int, tuple[int, ...]] = (0, ())
    waits: int | None = None
    last_asked: str = ""
    is_uncertain: bool = False

    def forget(self) -> None:
        """Reset the member, as if its client were started anew: it owns no partitions."""
        self.member_id, self.epoch, self.holds, self.assigned, self.before = "", 0, (), (), (0, ())
        self.waits, self.last_asked, self.is_uncertain = None, "", False


@dataclass(slots=True)
class _AskedMember:
    """A request that is not answered yet; ``member_id`` is whose it was then."""

    name: str
    what: str
    member_id: str
    rightly: frozenset[Err] | None
    awaited: bool = True


class _Ground(GroupGround):
    partitions = 2

    def _begin(self) -> None:
        super()._begin()
        self.topics_are()

    def topics_are(self) -> None:
        """Notify the shard of the topic and its partitions."""
        self.step(TopicsChanged({TOPIC: TopicImage(TOPIC_ID, self.partitions)}))


class ConsumerWorld(Surroundings):
    """``members``: by name; those whose name begins with S are static. ``faults``: whether the log has any."""

    def __init__(self, settings: Settings, members: Sequence[str] = ("A", "B"), *, faults: bool = True) -> None:
        super().__init__(faults=faults)
        self.environment: _Ground = _Ground(settings)
        self.members = {name: _Member(name, f"i{name}" if name.startswith("S") else None) for name in members}
        self.asked: dict[int, _AskedMember] = {}

    # --- what may happen

    def actions(self) -> Sequence[Action]:
        """See `explorer.World`."""
        actions: list[Action] = []
        for name, member in self.members.items():
            actions += [(name, what) for what in self._may(member)]
        environment = self.environment
        if environment.timers and environment.may_pass(self._pass_ms):
            actions.append(("pass",))
        if environment.partitions == 2:
            actions.append(("grow",))
        return [*actions, *self.around()]

    @staticmethod
    def _may(member: _Member) -> list[str]:
        if member.waits is not None:
            return ["again", "restart"]
        if not member.member_id:
            return ["join"]
        names = ["beat", "own", "leave", "restart", "commit", "join"]
        if member.before != (member.epoch, member.holds):
            names.append("repeat")
        return names

    @property
    def _pass_ms(self) -> int:
        return self.environment.settings.consumer.session_timeout_ms // 2

    def take(self, action: Action, *, watched: bool = True) -> None:
        """See `explorer.World`."""
        self._watched = watched
        before = self._epochs()
        self._do(action)
        self._receive()
        if watched:
            self._check(None if action[0] == "move" else before)

    def _do(self, action: Action) -> None:
        member = self.members.get(action[0])
        if member is not None and action[1] == "again":
            member.is_uncertain = True
            self._act(member, member.last_asked)
        elif member is not None:
            self._act(member, action[1])
        else:
            self.happen(action)

    def _group(self) -> ConsumerGroup | None:
        group = self.environment.shard.groups.get(GROUP)
        return group if isinstance(group, ConsumerGroup) else None

    def _epochs(self) -> tuple[int, int] | None:
        group = self._group()
        return None if group is None else (group.stored.group_epoch, group.stored.target_epoch)

    # --- members

    def _act(self, member: _Member, what: str) -> None:
        if what == "restart":
            for asked in self.asked.values():
                asked.awaited = asked.awaited and asked.name != member.name
            member.forget()
            self._trace(f"{member.name} starts anew, without having left")
            return
        epoch = member.epoch
        owned: tuple[int, ...] | None = None
        if what == "join":
            if not member.member_id:
                member.member_id = f"{member.name}-{self.environment.new_id()}"
            epoch, owned, member.holds = 0, (), ()
        elif what == "own":
            member.holds = member.assigned
            owned = member.assigned
        elif what == "repeat":
            member.epoch, member.holds = member.before  # the answer to its last heartbeat was lost
            member.assigned = member.holds
            epoch, owned = member.before
        elif what == "beat" and member.is_uncertain:
            owned = member.holds
        elif what == "leave":
            member.holds = member.assigned = ()
            epoch = _LEAVES if member.instance is None else _LEAVES_FOR_NOW
        if what == "commit":
            self._commit(member)
            return
        if what in ("beat", "own"):
            member.before = member.epoch, member.holds
        rightly = self._rightly(member, epoch, owned) if self._watched else None
        for asked in self.asked.values():
            asked.awaited = asked.awaited and asked.name != member.name
        # who has had no answer says everything: with less it would never be assigned what it missed (the clients' known mistake)
        says_all = epoch == 0 or what == "repeat" or (member.is_uncertain and owned is not None)
        request = ConsumerGroupHeartbeatRequest(
            GROUP, member.member_id, epoch, member.instance,
            rebalance_timeout_ms=REBALANCE_MS if says_all else -1,
            subscribed_topic_names=[TOPIC] if says_all else None,
            topic_partitions=None if owned is None else [TopicPartitions(TOPIC_ID, list(owned))] if owned else [],
        )  # fmt: skip
        self._trace(f"{member.name}: {what} in epoch {epoch}" + ("" if owned is None else f" with {list(owned)}"))
        token = self.environment.request(request, 1, member.name)
        self.asked[token] = _AskedMember(member.name, what, member.member_id, rightly)
        member.waits, member.last_asked = token, what

    def _rightly(self, member: _Member, epoch: int, owned: tuple[int, ...] | None) -> frozenset[Err] | None:
        """The legal errors of a heartbeat with this epoch and these owned partitions, by the member's state; None: any."""
        group = self._group()
        if group is None or group.is_dead:
            if GROUP in self.environment.shard.groups:
                return None
            return frozenset({Err.NONE if epoch == 0 else Err.GROUP_ID_NOT_FOUND})
        latest = group.latest
        if member.instance is not None:
            holder = latest.static_members.get(member.instance)
            if holder is not None and epoch == 0:  # though it were itself: who is in doesn't join again
                gone = latest.current(holder).epoch == _LEAVES_FOR_NOW
                return frozenset({Err.NONE if gone else Err.UNRELEASED_INSTANCE_ID})
            if holder is None and epoch != 0:
                return frozenset({Err.UNKNOWN_MEMBER_ID})
            if holder not in (None, member.member_id):
                return frozenset({Err.FENCED_INSTANCE_ID})
        is_in = member.member_id in latest.members
        if epoch == 0 and (not is_in or self.environment.settings.policy.members_join_again):
            return frozenset({Err.NONE})
        if not is_in:
            return frozenset({Err.UNKNOWN_MEMBER_ID})
        current = latest.current(member.member_id)
        if epoch < 0 or epoch == current.epoch:
            return frozenset({Err.NONE})
        subset = owned is not None and set(owned) <= set(current.assigned.get(TOPIC_ID, ()))
        repeats = 0 <= epoch < current.epoch and epoch == current.previous and subset
        return frozenset({Err.NONE if repeats else Err.FENCED_MEMBER_EPOCH})

    def _commit(self, member: _Member) -> None:
        group = self._group()
        rightly = None
        if self._watched and group is not None and not group.is_dead:
            if member.member_id not in group.latest.members:
                rightly = frozenset({Err.UNKNOWN_MEMBER_ID})
            elif member.epoch == group.latest.current(member.member_id).epoch:
                rightly = frozenset({Err.NONE})
            elif member.epoch > group.latest.current(member.member_id).epoch:
                rightly = frozenset({Err.STALE_MEMBER_EPOCH})
        body = CommitOffsets(
            GROUP, member.epoch, member.member_id, member.instance,
            [(TOPIC, 0, Offset(1, -1, "", self.environment.now_ms))], True,
        )  # fmt: skip
        self._trace(f"{member.name}: commits in epoch {member.epoch}")
        token = self.environment.request(body, 9, member.name)
        self.asked[token] = _AskedMember(member.name, "commit", member.member_id, rightly, awaited=False)

    def _receive(self) -> None:
        answers = self.environment.answers
        for token in [token for token in self.asked if token in answers]:
            asked, answer = self.asked.pop(token), answers.pop(token)
            error = _error(answer)
            self._trace(f"{asked.name}: its {asked.what} is answered {error.name}" + _given(answer))
            if self._watched and asked.rightly is not None and error in _RULED and error not in asked.rightly:
                names = " or ".join(code.name for code in asked.rightly)
                self._fail(
                    "responses follow the coordinator's rules",
                    f"{asked.what} is answered {error.name}, the rules say {names}",
                )
            member = self.members[asked.name]
            if not asked.awaited or asked.member_id != member.member_id:
                continue
            member.waits = None
            member.is_uncertain = error is not Err.NONE
            if asked.what == "leave":
                member.forget()  # it has stopped working, whatever it receives
            elif error is Err.NONE:
                self._goes_on(member, answer)
            elif error in (Err.FENCED_MEMBER_EPOCH, Err.FENCED_INSTANCE_ID):
                member_id = member.member_id
                member.forget()
                member.member_id = member_id  # it gives all up, and joins again as who it is
            elif error in (Err.UNKNOWN_MEMBER_ID, Err.GROUP_ID_NOT_FOUND, Err.UNRELEASED_INSTANCE_ID):
                member.forget()

    def _goes_on(self, member: _Member, answer: Any) -> None:
        member.epoch = answer.member_epoch
        if answer.assignment is not None:
            numbers = [number for topic in answer.assignment.topic_partitions for number in topic.partitions]
            member.assigned = tuple(sorted(numbers))
            if self._watched and len(set(numbers)) != len(numbers):
                self._fail("a partition is assigned once", f"{member.name} is given {numbers}")
            member.holds = tuple(sorted({*member.holds, *numbers}))

    # --- the world around

    def _pass(self) -> None:
        self.environment.now_ms += self._pass_ms
        self._trace(f"{self._pass_ms} ms pass")

    def _grow(self) -> None:
        self._trace("the topic has a third partition")
        self.environment.partitions = 3
        self.environment.topics_are()

    # --- what must hold

    def _check(self, before: tuple[int, int] | None) -> None:
        group = self._group()
        if group is None:
            return
        for state in (group.stored, group.latest):
            self._check_holders(state)
            if state.target_epoch > state.group_epoch:
                self._fail(
                    "the target assignment epoch is not ahead of the group epoch",
                    f"{state.target_epoch}, the group is at {state.group_epoch}",
                )
            for member_id in state.members:
                if state.current(member_id).epoch > state.target_epoch:
                    self._fail(
                        "no member epoch is ahead of the target assignment",
                        f"{member_id} is at {state.current(member_id).epoch}",
                    )
        after = self._epochs()
        if (
            before is not None
            and after is not None
            and (after[0] < before[0] or after[1] < before[1])
            and group.stored.members
        ):
            self._fail("group and target epochs never decrease", f"group and target from {before} to {after}")
        working: dict[int, str] = {}
        for name, member_id, holds in self._workers():
            if member_id not in group.latest.members:
                continue
            for number in holds:
                if working.setdefault(number, name) != name:
                    self._fail(
                        "no member processes another member's partition",
                        f"{number} is with {working[number]} and {name}",
                    )

    def _workers(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Name, id, and what it works on."""
        return [(member.name, member.member_id, member.holds) for member in self.members.values()]

    def _check_holders(self, state: Any) -> None:
        holders: dict[int, str] = {}
        for member_id in state.members:
            current = state.current(member_id)
            for number in itertools.chain(current.assigned.get(TOPIC_ID, ()), current.revoking.get(TOPIC_ID, ())):
                if holders.setdefault(number, member_id) != member_id:
                    self._fail("a partition has one owner", f"{number} is with {holders[number]} and {member_id}")

    def key(self) -> Hashable:
        """See `explorer.World`."""
        asked = [(request.name, request.what, request.member_id, request.awaited) for request in self.asked.values()]
        return self.environment.key(list(self.members.values()), asked, self.environment.partitions, self._more())

    def _more(self) -> list[Hashable]:
        """Further parts of the state's key, for subclasses."""
        return []

    # --- where it must come to

    def settle(self) -> None:
        """See `explorer.World`."""
        self._trace("from here on all goes well")
        self._watched = True
        self.environment.heal()
        self._receive()
        for _ in range(_ROUNDS):
            self._behave()
            if self._is_settled():
                self._silence()
                return
            end_ms = self.environment.now_ms + self._pass_ms // 2
            while (key := self.environment.next_timer()) is not None and self.environment.timers[key] <= end_ms:
                self.take(("time",))
            self.environment.now_ms = end_ms
        group = self._group()
        what = None if group is None else (group.state_name, group.stored.currents)
        self._fail(
            "well-behaved members get all partitions assigned",
            f"after {_ROUNDS} rounds it is {what}, they are {list(self.members.values())}",
        )

    def _behave(self) -> None:
        """Each does what it should."""
        for member in self.members.values():
            if member.waits is None:
                self.take((member.name, "own" if member.epoch > 0 else "join"))

    def _is_settled(self) -> bool:
        group = self._group()
        if group is None or group.state_name != "Stable":
            return False
        there = {member_id for _, member_id, _ in self._workers()}
        held = sorted(number for _, _, holds in self._workers() for number in holds)
        quiet = all(member.holds == member.assigned for member in self.members.values())
        return set(group.stored.members) == there and held == list(range(self.environment.partitions)) and quiet

    def _silence(self) -> None:
        self._trace("from here on all are silent")
        for _ in range(100):
            if not self.environment.timers:
                break
            self.take(("time",))
        group = self._group()
        if self.environment.timers or not self._nobody():
            self._fail(
                "expired members leave no state or timers",
                f"{group and group.stored.members}, timers {list(self.environment.timers)}",
            )

    def _nobody(self) -> bool:
        """Whether the group has no members."""
        group = self._group()
        return group is None or not group.stored.members


def _error(answer: Any) -> Err:
    if isinstance(answer, dict):  # a commit that is good for some of its partitions
        return next((error for error in answer.values() if error is not Err.NONE), Err.NONE)
    return answer if isinstance(answer, Err) else Err(answer.error_code)


def _given(answer: Any) -> str:
    assignment = getattr(answer, "assignment", None)
    if assignment is None:
        return ""
    numbers = [number for topic in assignment.topic_partitions for number in topic.partitions]
    return f", to have {numbers} in epoch {answer.member_epoch}"

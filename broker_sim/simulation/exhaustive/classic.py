"""A classic group of two or three clients, in all orders: what each is answered, and that it comes to rest.

The clients know their responses and may send anything that the protocol allows: JoinGroup, SyncGroup, Heartbeat, OffsetCommit,
LeaveGroup, each again on another connection or with an older generation, or a JoinGroup without having left. The log may be stuck,
refuse a record, or move. Checked at every step: the tables of `checks.rules`, which are independent of the coordinator; that the
leader gets the member list, and each member its leader's assignment; that acknowledged offsets are returned, before and after a load;
and from every state: well-behaved clients reach a Stable group within the timeouts, and silent clients are removed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.loader import Loader
from broker_sim.coordinator.outcome import (
    CommitOffsets,
    DeleteGroup,
    Heartbeat,
    LeaveGroup,
    Leaver,
    Offset,
    Outcome,
)
from broker_sim.coordinator.policy import Settings
from broker_sim.coordinator.records import decode
from broker_sim.coordinator.shard import Shard
from broker_sim.runtime.journal_observer import snapshot
from broker_sim.simulation.checks.rules import RULED, answer_of, step_error, waits_in_vain
from broker_sim.simulation.checks.sent import SentRequest
from broker_sim.simulation.exhaustive.explorer import Action
from broker_sim.simulation.exhaustive.shard_environment import ShardEnvironment
from broker_sim.simulation.exhaustive.surroundings import Surroundings
from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment

__all__ = ["ClassicWorld", "GroupGround"]

GROUP, TOPIC = "g", "t"
SESSION_MS, REBALANCE_MS = 6000, 12_000
_PASS_MS = SESSION_MS // 2
_VERSIONS = {"JoinGroup": 9, "SyncGroup": 5, "Heartbeat": 4, "OffsetCommit": 9, "LeaveGroup": 5}
_ROUNDS = 40
"""In half sessions: more than any rebalance takes, with the sessions of departed members before it."""

_LATER = frozenset(
    {
        Err.COORDINATOR_NOT_AVAILABLE, Err.NOT_COORDINATOR, Err.COORDINATOR_LOAD_IN_PROGRESS, Err.REQUEST_TIMED_OUT,
        Err.UNKNOWN_SERVER_ERROR, Err.NOT_ENOUGH_REPLICAS,
    }
)  # fmt: skip
"""Answers that leave open what became of it."""


class GroupGround(ShardEnvironment[Shard]):
    """A shard of the group coordinator."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        super().__init__()

    def made(self) -> Shard:
        return Shard(0, self.settings, self.new_id)

    def begun(self, shard: Shard) -> Outcome:
        loader = Loader(self.settings)
        for offset, (key, value) in enumerate(self.log):
            loader.add(offset, key, value)
        return shard.start(loader.finish(), self.now_ms)

    @staticmethod
    @lru_cache(maxsize=100_000)
    def record(key: bytes, value: bytes | None) -> Any:
        return decode(key, value, later=True, epochs=ConsumerGroup.record_types)


@dataclass(slots=True)
class _Client:
    """The state of a client. ``waits``: its JoinGroup or SyncGroup without a response; ``assignment``: that of its generation,
    as the response had it."""

    name: str
    instance: str | None = None
    member_id: str = ""
    generation: int = -1
    waits: tuple[str, int] | None = None
    stage: str = "out"  # or "joined", which owes a SyncGroup, or "in"
    line_up: tuple[str, ...] = ()  # as the leader received it
    assignment: bytes | None = None

    def forget(self) -> None:
        """Forget the membership, as a client that has restarted."""
        self.member_id, self.generation, self.waits, self.stage, self.line_up, self.assignment = (
            "",
            -1,
            None,
            "out",
            (),
            None,
        )


@dataclass(slots=True)
class _Aside:
    """A request that its client does not wait for. ``rightly``: what it may be answered, where that is known."""

    client: str
    api: str
    ask: SentRequest
    rightly: frozenset[Err] | None
    value: int = -1


class ClassicWorld(Surroundings):
    """``clients``: by name; those whose name begins with S are static. ``faults``: whether the log has any."""

    def __init__(self, settings: Settings, clients: Sequence[str] = ("A", "B"), *, faults: bool = True) -> None:
        super().__init__(faults=faults)
        self.environment: GroupGround = GroupGround(settings)
        self.clients = {name: _Client(name, f"i{name}" if name.startswith("S") else None) for name in clients}
        self.asides: dict[int, _Aside] = {}
        self.superseded: set[int] = set()  # requests that were sent again, and are answered at most once in all
        self.may_be: frozenset[int] = frozenset({-1})  # what the committed offset may be
        self.lurking: frozenset[int] = (
            frozenset()
        )  # what a load may bring back: 3.x answers before the log refuses a tombstone
        self.was_empty = True

    # --- what may happen

    def actions(self) -> Sequence[Action]:
        """See `explorer.World`."""
        actions: list[Action] = []
        for name, client in self.clients.items():
            actions += [(name, what) for what in self._may(client)]
        if self.environment.timers and self.environment.may_pass(_PASS_MS):
            actions.append(("pass",))
        return [*actions, ("delete",), *self.around()]

    @staticmethod
    def _may(client: _Client) -> list[str]:
        if client.waits is not None:
            return ["again", "restart", *(["beat"] if client.member_id else [])]
        if not client.member_id:
            return ["join", "commit"]
        names = ["join", "leave", "restart", "commit"]
        if client.generation >= 0:
            names += ["beat", "sync", "beat old", "commit old"]
        return names

    def take(self, action: Action, *, watched: bool = True) -> None:
        """See `explorer.World`."""
        self._watched = watched
        before = self._look() if watched else None
        client = self.clients.get(action[0])
        if client is not None:
            self._act(client, action[1])
        else:
            self.happen(action)
        self._receive()
        if watched:
            self._check(before, moved=action[0] == "move", deleted=action[0] == "delete")
        else:
            self._remember()

    def _look(self) -> dict[str, Any] | None:
        group = self.environment.shard.classic(GROUP)
        return None if group is None else snapshot(group)

    def _remember(self) -> None:
        """Note whether the group was empty before its rebalance, which the checks need."""
        group = self.environment.shard.classic(GROUP)
        if group is None or group.state.value != "PreparingRebalance":
            self.was_empty = group is None or not group.members

    # --- clients

    def _act(self, client: _Client, what: str) -> None:
        verb, _, old = what.partition(" ")
        generation = client.generation - 1 if old else client.generation
        if verb == "join":
            self._ask(client, "JoinGroup")
        elif verb == "sync":
            self._ask(client, "SyncGroup")
        elif verb == "again":
            assert client.waits is not None
            api, token = client.waits
            self.superseded.add(token)
            self._ask(client, api)
        elif verb == "restart":
            if client.waits is not None:
                self.superseded.add(client.waits[1])
            client.forget()
            self._trace(f"{client.name} starts anew, without having left")
        elif verb == "beat":
            self._aside(
                client, "Heartbeat", Heartbeat(GROUP, generation, client.member_id, client.instance), generation
            )
        elif verb == "leave":
            self._aside(client, "LeaveGroup", LeaveGroup(GROUP, [Leaver(client.member_id, client.instance)]), -1)
        else:
            value = 1 + list(self.clients).index(client.name)
            body = CommitOffsets(
                GROUP, generation, client.member_id, client.instance if client.member_id else None,
                [(TOPIC, 0, Offset(value, -1, "", self.environment.now_ms))],
            )  # fmt: skip
            self._aside(client, "OffsetCommit", body, generation, value)

    def _asked(self, client: _Client, api: str, body: Any, generation: int) -> SentRequest:
        instance = client.instance if client.member_id or api == "JoinGroup" else None
        return SentRequest(
            api, _VERSIONS[api], body, 1, GROUP, client.member_id, instance, generation, 0, 0.0, 0, True, 0.0
        )  # fmt: skip

    def _ask(self, client: _Client, api: str) -> None:
        """JoinGroup or SyncGroup, for whose answer it waits."""
        if api == "JoinGroup":
            protocols = [JoinGroupRequestProtocol("range", b"m")]
            body: Any = JoinGroupRequest(
                GROUP, SESSION_MS, REBALANCE_MS, client.member_id, client.instance, "consumer", protocols
            )
        else:
            # an assignment contains its member and generation: no member may get another's
            given = [
                SyncGroupRequestAssignment(member, f"{client.generation}/{self._name_of(member)}".encode())
                for member in client.line_up
            ]
            body = SyncGroupRequest(
                GROUP, client.generation, client.member_id, client.instance, "consumer", "range", given
            )
        shown, ask = self._look() if self._watched else None, self._asked(client, api, body, client.generation)
        self._trace(f"{client.name}: {api} {_who(client)}")
        token = self.environment.request(body, _VERSIONS[api], client.name)
        client.waits = api, token
        if self._watched and token in self.environment.answers:
            self._check_rule(ask, answer_of(ask, shown), _error(api, self.environment.answers[token]))

    def _name_of(self, member_id: str) -> str:
        """Name of the member with an id; ids of static members contain their instance id."""
        head = member_id.rpartition("-")[0]
        return head.removeprefix("i")

    def _aside(self, client: _Client, api: str, body: Any, generation: int, value: int = -1) -> None:
        ask = self._asked(client, api, body, generation)
        rightly = None
        if self._watched:
            rightly = self._leaves(client) if api == "LeaveGroup" else answer_of(ask, self._look())
        before = self.may_be
        if value >= 0:
            self.may_be = before | {value}  # until its answer says more
        self._trace(
            f"{client.name}: {api} {_who(client)}" + (f" as of {generation}" if generation != client.generation else "")
        )
        token = self.environment.request(body, _VERSIONS[api], client.name)
        self.asides[token] = _Aside(client.name, api, ask, rightly, value)
        if token in self.environment.answers and value >= 0:
            error = self.environment.answers[token]
            self._is_now(value, error, before)

    def _leaves(self, client: _Client) -> frozenset[Err] | None:
        shown = self._look()
        if shown is None:
            return frozenset({Err.UNKNOWN_MEMBER_ID})
        if client.instance is not None:
            return None
        known = client.member_id in shown["pending"] or any(
            member["member"] == client.member_id for member in shown["members"]
        )
        return frozenset({Err.NONE if known else Err.UNKNOWN_MEMBER_ID})

    # --- answers

    def _receive(self) -> None:
        answers = self.environment.answers
        for client in self.clients.values():
            if client.waits is not None and client.waits[1] in answers:
                api, token = client.waits
                client.waits = None
                self._answered(client, api, answers.pop(token))
        for token in [token for token in self.asides if token in answers]:
            self._answered_aside(self.asides.pop(token), answers.pop(token))
        for token in [token for token in self.superseded if token in answers]:
            self.superseded.discard(token)
            del answers[token]

    def _answered(self, client: _Client, api: str, answer: Any) -> None:
        error = _error(api, answer)
        self._trace(f"{client.name} is answered {error.name}")
        if error is not Err.NONE:
            if error is Err.MEMBER_ID_REQUIRED:
                client.member_id = answer.member_id
            elif error in (Err.UNKNOWN_MEMBER_ID, Err.FENCED_INSTANCE_ID):
                client.forget()
            client.stage, client.assignment = "out", None
            return
        if api == "JoinGroup":
            self._joined(client, answer)
        else:
            self._synced(client, answer.assignment)

    def _joined(self, client: _Client, answer: Any) -> None:
        if self._watched and answer.generation_id < client.generation:
            self._fail(
                "generations never decrease",
                f"{client.name} was in {client.generation} and gets {answer.generation_id}",
            )
        client.member_id, client.generation, client.stage = answer.member_id, answer.generation_id, "joined"
        client.assignment = None
        client.line_up = tuple(member.member_id for member in answer.members)
        if not self._watched:
            return
        leads = answer.leader == answer.member_id
        if bool(client.line_up) != leads and client.instance is None:
            self._fail(
                "the leader gets all members", f"{client.name} gets {client.line_up}, the leader is {answer.leader}"
            )
        if leads and answer.member_id not in client.line_up:
            self._fail("the leader gets all members", f"{client.name} is not among {client.line_up}")

    def _synced(self, client: _Client, assignment: bytes) -> None:
        client.stage, client.assignment = "in", assignment
        if self._watched and assignment not in (b"", f"{client.generation}/{client.name}".encode()):
            self._fail(
                "a member receives its leader's assignment",
                f"{client.name} in {client.generation} is given {assignment!r}",
            )

    def _answered_aside(self, aside: _Aside, answer: Any) -> None:
        error = _error(aside.api, answer)
        self._trace(f"{aside.client}: its {aside.api} is answered {error.name}")
        if self._watched:
            self._check_rule(aside.ask, aside.rightly, error)
        client = self.clients[aside.client]
        if aside.ask.member != client.member_id:
            return  # it was of another life
        if aside.api == "LeaveGroup":
            if error is Err.NONE and client.waits is None:
                client.forget()
        elif error in (Err.UNKNOWN_MEMBER_ID, Err.FENCED_INSTANCE_ID) and client.waits is None and client.member_id:
            client.forget()
        elif (
            error in (Err.REBALANCE_IN_PROGRESS, Err.ILLEGAL_GENERATION)
            and client.waits is None
            and aside.ask.generation == client.generation
        ):
            client.stage = "out"

    # --- the world around

    def _pass(self) -> None:
        self.environment.now_ms += _PASS_MS
        self._trace(f"{_PASS_MS} ms pass")

    def _delete(self) -> None:
        shown = self._look() if self._watched else None
        rightly = (
            Err.GROUP_ID_NOT_FOUND if shown is None else Err.NON_EMPTY_GROUP if shown["state"] != "Empty" else Err.NONE
        )
        if self._watched and shown is None and GROUP in self.environment.shard.groups:
            rightly = Err.NONE
        before, self.may_be = self.may_be, self.may_be | {-1}
        is_lost = self.environment.refusing is not None and not self.environment.settings.policy.tombstones_are_awaited
        token = self.environment.request(DeleteGroup(GROUP), 2, "admin")
        error = self.environment.answers.pop(token, None)
        self._trace(f"an admin deletes the group: {'no answer yet' if error is None else error.name}")
        if error is None:
            self.superseded.add(token)
        elif is_lost:
            self.lurking = self.may_be
        else:
            self._is_now(-1, error, before)
        if self._watched and error in (Err.NONE, Err.NON_EMPTY_GROUP, Err.GROUP_ID_NOT_FOUND) and error is not rightly:
            self._fail("DeleteGroups follows the group's state", f"{error.name}, the rules say {rightly.name}")

    def _is_now(self, value: int, error: Err, before: frozenset[int]) -> None:
        """A write of the offset was answered at once. While the log is stuck it says nothing of those before it."""
        if error is Err.NONE and not self.environment.held:
            self.lurking = self.lurking if value < 0 else frozenset()
            self.may_be = self.lurking | {value}
        elif error is not Err.NONE and error not in _LATER:
            self.may_be = before

    # --- what must hold

    def _check(self, before: dict[str, Any] | None, *, moved: bool, deleted: bool) -> None:
        after = self._look()
        if before is not None and after is not None and not moved:
            wrong = step_error(before, after)
            if wrong is not None:
                self._fail("group state transitions are legal", wrong)
        self._remember()
        if after is not None:
            members = [member["member"] for member in after["members"]]
            if members and after["leader"] not in members:
                self._fail("the leader is a member", f"{after['leader']} leads {members}")
            if waits_in_vain(after) and not self.was_empty:
                self._fail("the join phase ends when all members have joined", f"all {after['size']} have joined")
        self._check_offset()

    def _check_offset(self) -> None:
        group = self.environment.shard.groups.get(GROUP)
        shown = None if group is None else group.offset(TOPIC, 0)
        value = -1 if shown is None else shown.offset
        if value not in self.may_be:
            self._fail(
                "acknowledged commits are returned", f"the offset is {value}, it must be one of {sorted(self.may_be)}"
            )

    def _check_rule(self, ask: SentRequest, rightly: frozenset[Err] | None, error: Err) -> None:
        if rightly is not None and error in RULED and error not in rightly:
            names = " or ".join(code.name for code in rightly)
            self._fail(
                "responses follow the coordinator's rules", f"{ask.api} is answered {error.name}, the rules say {names}"
            )

    def key(self) -> Hashable:
        """See `explorer.World`."""
        return self.environment.key(
            list(self.clients.values()), sorted(self.may_be), sorted(self.lurking), self.was_empty,
            [(aside.client, aside.api, aside.value) for aside in self.asides.values()],
        )  # fmt: skip

    # --- where it must come to

    def settle(self) -> None:
        """See `explorer.World`."""
        self._trace("from here on all goes well")
        self._watched = True
        self.environment.heal()
        self._receive()
        for _ in range(_ROUNDS):
            for client in self.clients.values():
                if client.waits is None:
                    self.take((client.name, {"out": "join", "joined": "sync", "in": "beat"}[client.stage]))
            if self._is_settled():
                self._silence()
                return
            end_ms = self.environment.now_ms + _PASS_MS
            while (key := self.environment.next_timer()) is not None and self.environment.timers[key] <= end_ms:
                self.take(("time",))
            self.environment.now_ms = end_ms
        group = self._look()
        self._fail(
            "well-behaved clients reach a Stable group",
            f"after {_ROUNDS * _PASS_MS} ms it is {group}, they are {list(self.clients.values())}",
        )

    def _is_settled(self) -> bool:
        group = self.environment.shard.classic(GROUP)
        if group is None or group.state.value != "Stable":
            return False
        there = {client.member_id for client in self.clients.values()}
        settled = all(
            client.stage == "in" and client.generation == group.generation and client.assignment
            for client in self.clients.values()
        )
        return settled and set(group.members) == there

    def _silence(self) -> None:
        """Let all clients be silent, and time pass: expect an empty group."""
        self._trace("from here on all are silent")
        for _ in range(100):
            if not self.environment.timers:
                break
            self.take(("time",))
        group = self.environment.shard.classic(GROUP)
        if self.environment.timers or (group is not None and group.members):
            self._fail(
                "expired members leave no state or timers", f"{self._look()}, timers {list(self.environment.timers)}"
            )


def _error(api: str, answer: Any) -> Err:
    if api == "LeaveGroup":
        whole, parts = answer
        return Err(whole if whole is not Err.NONE or not parts else parts[0])
    if api in ("JoinGroup", "SyncGroup"):
        return Err(answer.error_code)
    assert isinstance(answer, Err)
    return answer


def _who(client: _Client) -> str:
    return f"as {client.member_id or '-'} in generation {client.generation}"

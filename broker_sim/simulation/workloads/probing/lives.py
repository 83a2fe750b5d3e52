"""The lives of small groups, act by act: each member joins, syncs, heartbeats, commits, leaves, is silent or comes again, and
every answer is what the group's state says, at the time that its timeouts say. See `GroupProber`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from broker_sim.simulation.workloads.probing.groups import GroupProber, Key, Unsure, Value
from broker_sim.simulation.workloads.raw import TOPIC
from kafka_wire.codec import encode
from kafka_wire.errors import Err
from kafka_wire.messages.consumer_protocol import ConsumerProtocolSubscription
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

__all__ = ["MemberProber"]

_SLACK_S = 0.6
_FIRST_ID_SINCE, _STATIC_SINCE = 4, 5
_RULE = "members are answered by the rules"
_TIMES = "a group keeps its times"


@dataclass(slots=True)
class Player:
    """A member. ``heard_s``: when it was last heard of, at the latest."""

    number: int
    session_ms: int
    rebalance_ms: int
    protocols: tuple[str, ...]
    instance: str | None = None
    member: str = ""
    flavour: int = 0
    assignment: bytes = b""
    heard_s: float = 0.0

    @property
    def metadata(self) -> bytes:
        """The encoded subscription of the member."""
        encoded = encode(ConsumerProtocolSubscription([TOPIC], bytes([self.number, self.flavour])), 0)
        return b"\0\0" + encoded


@dataclass(slots=True)
class Troupe:
    """A group as it must be."""

    name: str
    players: list[Player] = field(default_factory=list)
    generation: int = 0
    leader: str = ""
    protocol: str = ""
    offsets: dict[Key, Value] = field(default_factory=dict)


class MemberProber(GroupProber):
    """Checks the responses of small groups of its own, one life of a group after another."""

    async def _do_live(self) -> None:
        if self.calm.for_s(0.3):
            self._number += 1
            life = _Life(self, Troupe(f"{self.name}-life-{self._number}"))
            try:
                await life.begin()
                for _ in range(self.rng.randint(2, 7)):
                    await life.act()
                await life.end()
            finally:
                life.stop()


class _Life:
    """The life of one group, see the module. An act raises Unsure or OSError if the state of the group is unknown from then on."""

    def __init__(self, prober: MemberProber, group: Troupe) -> None:
        self.prober, self.group, self.rng = prober, group, prober.rng
        self.count = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._last_snapshot = prober.steady(group.name)
        config = prober.state.config
        self.delay_s = config.int("group.initial.rebalance.delay.ms") / 1000

    def stop(self) -> None:
        """Cancel all pending requests of the players."""
        for task in self._tasks:
            task.cancel()

    async def ask(self, request: Any, least: int = 0, *, number: int = 0, version: int = -1) -> tuple[Any, int]:
        """As `GroupProber.ask_of`, of the coordinator that there was when the act began: another one knows of no rebalance."""
        answer = await self.prober.ask_of(self.group.name, request, least, number=number, version=version)
        if self._last_snapshot != self.prober.steady(self.group.name):
            raise Unsure
        return answer

    def now_s(self) -> float:
        return self.prober.calm.now_s()

    def newcomer(self, *, static: bool = False) -> Player:
        """With timeouts of its own."""
        self.count += 1
        session_ms, rebalance_ms = self.rng.choice((1000, 1500, 6000)), self.rng.choice((1000, 2000, 4000))
        both = ("range", "roundrobin")
        protocols = self.rng.choice((both, both, both[::-1], ("range",)))
        instance = f"i-{self.count}" if static else None
        return Player(self.count, session_ms, rebalance_ms, protocols, instance)

    # --- requests

    def _join(self, player: Player) -> JoinGroupRequest:
        rows = [JoinGroupRequestProtocol(name, player.metadata) for name in player.protocols]
        return JoinGroupRequest(
            self.group.name, player.session_ms, player.rebalance_ms, player.member, player.instance, "consumer", rows
        )

    async def joining(self, player: Player) -> tuple[Any, int]:
        """Up to the answer that ends its join phase."""
        version = self.prober.pick(JoinGroupRequest, _STATIC_SINCE if player.instance else 1)
        answer, _ = await self.ask(self._join(player), number=player.number, version=version)
        if player.member == "" and player.instance is None and version >= _FIRST_ID_SINCE:
            self.prober.expect(
                _RULE, f"JoinGroup v{version} without an id", Err(answer.error_code), Err.MEMBER_ID_REQUIRED
            )
            if not answer.member_id:
                raise Unsure
            player.member = answer.member_id
            answer, _ = await self.ask(self._join(player), number=player.number, version=version)
        return answer, version

    def start(self, player: Player) -> asyncio.Task[tuple[Any, int]]:
        """Start a player's join, while others do something else."""
        task = asyncio.get_running_loop().create_task(self.joining(player))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._tasks.append(task)
        return task

    async def await_rejoin_request(self, player: Player) -> None:
        """Wait until a player's heartbeats get REBALANCE_IN_PROGRESS, as soon as the other one's request has come through."""
        begun_s = self.now_s()
        while self.now_s() - begun_s < _SLACK_S:
            request = HeartbeatRequest(self.group.name, self.group.generation, player.member, player.instance)
            answer, _ = await self.ask(request, 3 if player.instance else 0, number=player.number + 20)
            if answer.error_code:
                break
            await asyncio.sleep(0.1)
        await self.beat(player, Err.REBALANCE_IN_PROGRESS)

    async def beat(self, player: Player, wanted: Err, *, member: str | None = None, **other: Any) -> None:
        """A Heartbeat that is answered so."""
        who = player.member if member is None else member
        generation = other.get("generation", self.group.generation)
        instance = other.get("instance", player.instance)
        request = HeartbeatRequest(self.group.name, generation, who, instance)
        answer, version = await self.ask(request, 3 if instance else 0, number=player.number + 20)
        what = f"Heartbeat v{version} of {who} {instance} in {generation} of {self.group.generation}"
        if not self.prober.expect(_RULE, what, Err(answer.error_code), wanted):
            raise Unsure
        if wanted is Err.NONE or wanted is Err.REBALANCE_IN_PROGRESS:
            player.heard_s = self.now_s()

    def check_waiting(self, tasks: Sequence[tuple[Player, asyncio.Task[tuple[Any, int]]]]) -> None:
        """Raises Unsure where one of them does not wait for the others any more."""
        if any(task.done() for _, task in tasks):
            raise Unsure

    def snapshot(self) -> tuple[object, ...]:
        """State of the coordinator; another coordinator starts all sessions anew. Raises Unsure."""
        state = self.prober.steady(self.group.name)
        if state is None:
            raise Unsure
        return state

    def in_time(self) -> None:
        """Whether everybody has been heard of lately enough to be there for certain. Raises Unsure."""
        for player in self.group.players:
            if self.now_s() - player.heard_s > player.session_ms / 1000 - 0.3:
                raise Unsure

    # --- joining together

    async def gather(
        self, answers: Sequence[tuple[Player, asyncio.Task[tuple[Any, int]]]], *, fresh: bool = True
    ) -> None:
        """Expect that all JoinGroup responses have the same generation, and only the leader's the member list; then sync all."""
        joined = [(player, *(await task)) for player, task in answers]
        group, prober = self.group, self.prober
        self._check_joined(joined)
        group.players = [player for player, _, _ in joined]
        for player in group.players:
            player.heard_s = self.now_s()
        leader = next(player for player in group.players if player.member == group.leader)
        followers = [player for player in group.players if player is not leader]
        for player in group.players:
            player.assignment = b"\0\0\0\0\0\0%d-%d" % (player.number, group.generation) + b"x" * self.rng.randrange(4)
        waiting = [asyncio.get_running_loop().create_task(self.sync(player, [])) for player in followers]
        self._tasks += waiting
        if waiting:
            await asyncio.sleep(0.05)
            if any(task.done() and not task.cancelled() and task.exception() is None for task in waiting):
                prober.breach(_RULE, f"a SyncGroup of {group.name} is answered before the leader's")
        rows = [SyncGroupRequestAssignment(player.member, player.assignment) for player in group.players]
        await self.sync(leader, rows)
        for task in waiting:
            await task

    async def sync(self, player: Player, rows: list[SyncGroupRequestAssignment]) -> None:
        """Send SyncGroup; expect the assignment that the leader sent for the player."""
        group = self.group
        request = SyncGroupRequest(
            group.name, group.generation, player.member, player.instance, "consumer", group.protocol, rows
        )
        answer, version = await self.ask(request, 3 if player.instance else 0, number=player.number)
        actual = Err(answer.error_code), bytes(answer.assignment)
        self.prober.expect(_RULE, f"SyncGroup v{version} of {player.member}", actual, (Err.NONE, player.assignment))
        player.heard_s = self.now_s()

    def _check_joined(self, joined: Sequence[tuple[Player, Any, int]]) -> None:
        group, expect = self.group, self.prober.expect
        errors = [Err(answer.error_code) for _, answer, _ in joined]
        if not expect(_RULE, f"JoinGroup of {len(joined)}", errors, [Err.NONE] * len(joined)):
            raise Unsure
        for player, answer, _ in joined:
            player.member = player.member or answer.member_id
            expect(_RULE, "JoinGroup: member id", answer.member_id, player.member)
        generations = {answer.generation_id for _, answer, _ in joined}
        expect(_RULE, f"generation behind {group.generation}", generations, {group.generation + 1})
        group.generation += 1
        leaders, protocols = (
            {answer.leader for _, answer, _ in joined},
            {answer.protocol_name for _, answer, _ in joined},
        )
        ids = [player.member for player, _, _ in joined]
        known = len(leaders) == 1 and leaders <= set(ids)
        expect(_RULE, f"one leader, of {ids}", (known, len(protocols)), (True, 1))
        if not known:
            raise Unsure
        kept = group.leader
        (group.leader,) = leaders
        if kept in ids:
            expect(_RULE, "a leader stays", group.leader, kept)
        common = set.intersection(*(set(player.protocols) for player, _, _ in joined))
        firsts = {player.protocols[0] for player, _, _ in joined}
        chosen = next(iter(protocols))
        good = chosen in common if len(firsts) > 1 else chosen == next(iter(firsts))
        group.protocol = chosen
        expect(_RULE, f"the protocol of {[player.protocols for player, _, _ in joined]} is {chosen}", good, True)
        for player, answer, version in joined:
            rows = {(member.member_id, member.group_instance_id, bytes(member.metadata)) for member in answer.members}
            wanted = {(p.member, p.instance if version >= _STATIC_SINCE else None, p.metadata) for p, _, _ in joined}
            expect(
                _RULE, f"members as {player.member} is told", rows, wanted if player.member == group.leader else set()
            )
            if version >= 7:
                expect(_RULE, "protocol type", answer.protocol_type, "consumer")

    # --- acts

    async def begin(self) -> None:
        """One member, or several at once."""
        players = [self.newcomer(static=self.rng.random() < 0.3) for _ in range(self.rng.choice((1, 1, 2, 3)))]
        if not self.delay_s:  # who comes first is a group at once
            del players[1:]
        begun_s = self.now_s()
        await self.gather([(player, self.start(player)) for player in players])
        took_s = self.now_s() - begun_s
        longest_s = max(self.delay_s, max(player.rebalance_ms for player in players) / 1000)
        if not self.delay_s - 0.001 <= took_s <= longest_s + _SLACK_S:
            self.prober.breach(
                _TIMES, f"{len(players)} newcomers after {took_s:.3f} s, the first rebalance waits {self.delay_s:g}"
            )

    async def act(self) -> None:
        """Do one of the acts, at random."""
        self.in_time()
        self._last_snapshot = self.snapshot()
        acts = sorted(name for name in dir(self) if name.startswith("_act_"))
        self.prober.doing = name = self.rng.choice(acts)
        await getattr(self, name)()

    async def _act_beat(self) -> None:
        for player in self.group.players:
            await self.beat(player, Err.NONE)

    async def _act_beat_what_is_refused(self) -> None:
        player = self.rng.choice(self.group.players)
        await self.beat(player, Err.UNKNOWN_MEMBER_ID, member="nobody", instance=None)
        await self.beat(player, Err.ILLEGAL_GENERATION, generation=self.group.generation + self.rng.choice((-1, 1)))
        await self.beat(player, Err.UNKNOWN_MEMBER_ID, instance="nobody")
        static = [player for player in self.group.players if player.instance]
        if static:
            await self.beat(static[0], Err.FENCED_INSTANCE_ID, member="another")

    async def _act_commit(self) -> None:
        group, player = self.group, self.rng.choice(self.group.players)
        who: dict[str, Any] = {"member_id": player.member, "generation_id_or_member_epoch": group.generation}
        if player.instance:
            who["group_instance_id"] = player.instance
        if self.rng.random() < 0.5:
            group.offsets |= await self.prober.commit_in_flight(group.name, **who)
        else:
            group.offsets |= await self.prober.commit(group.name, self.prober.drawn_values(), **who)
        player.heard_s = self.now_s()
        await self.prober.read_offsets(group.name, group.offsets, stable=self.rng.random() < 0.3)

    async def _act_commit_what_is_refused(self) -> None:
        group, player, prober = self.group, self.rng.choice(self.group.players), self.prober
        values, generation = prober.drawn_values(), group.generation
        stranger: dict[str, Any] = {"member_id": "nobody", "generation_id_or_member_epoch": generation}
        await prober.commit(group.name, values, Err.UNKNOWN_MEMBER_ID, **stranger)
        await prober.commit(group.name, values, Err.UNKNOWN_MEMBER_ID)
        late: dict[str, Any] = {
            "member_id": player.member,
            "generation_id_or_member_epoch": generation + self.rng.choice((-1, 1)),
        }
        await prober.commit(group.name, values, Err.ILLEGAL_GENERATION, **late)
        if player.instance:
            fenced: dict[str, Any] = {
                "member_id": "another",
                "generation_id_or_member_epoch": generation,
                "group_instance_id": player.instance,
            }
            await prober.commit(group.name, values, Err.FENCED_INSTANCE_ID, **fenced)
        await prober.read_offsets(group.name, group.offsets)

    async def _act_look(self) -> None:
        group, expect = self.group, self.prober.expect
        shown = await self.prober.look(group.name, "Stable", "consumer")
        rows = {
            (member.member_id, member.client_id, bytes(member.member_metadata), bytes(member.member_assignment))
            for member in shown.members
        }
        wanted = {(player.member, self.prober.name, player.metadata, player.assignment) for player in group.players}
        expect("DescribeGroups matches the group", f"DescribeGroups of {group.name}: members", rows, wanted)
        await self.prober.delete(group.name, Err.NON_EMPTY_GROUP)
        await self.prober.read_offsets(group.name, group.offsets)
        part = OffsetDeleteRequestTopic(TOPIC, [OffsetDeleteRequestPartition(0)])
        answer, _ = await self.ask(OffsetDeleteRequest(group.name, [part]))
        actual = self.prober.errors_of(answer)
        expect(
            "OffsetDelete follows the coordinator's rules",
            "what members read",
            actual,
            {(TOPIC, 0): Err.GROUP_SUBSCRIBED_TO_TOPIC},
        )

    async def _act_join_another(self) -> None:
        """Join with another member: expect that heartbeats of the others return REBALANCE_IN_PROGRESS, and rejoin with them."""
        if len(self.group.players) >= 4:
            return
        newcomer = self.newcomer(static=self.rng.random() < 0.3)
        joining = [(newcomer, self.start(newcomer))]
        await asyncio.sleep(0.1)
        self.check_waiting(joining)
        for player in list(self.group.players):
            await self.await_rejoin_request(player)
        begun_s = self.now_s()
        await self.gather([*((player, self.start(player)) for player in self.group.players), *joining])
        if self.now_s() - begun_s > _SLACK_S:
            self.prober.breach(_TIMES, f"a rebalance ends {self.now_s() - begun_s:.3f} s after all have joined")

    async def _act_somebody_stays_away(self) -> None:
        """A new member joins, and an old one does not join again: the rebalance waits for it up to its longest timeout, no longer."""
        group = self.group
        if len(group.players) < 2 or self.prober.state.config.int("group.max.size") < 10:
            return
        absent = self.rng.choice(group.players)
        if absent.instance or absent.session_ms < 6000:
            return
        newcomer = self.newcomer()
        begun_s, stood = self.now_s(), self.snapshot()
        joining = [(newcomer, self.start(newcomer))]
        await asyncio.sleep(0.1)
        self.check_waiting(joining)
        others = [player for player in group.players if player is not absent]
        joining += [(player, self.start(player)) for player in others]
        longest_s = max(player.rebalance_ms for player in (*group.players, newcomer)) / 1000
        shortest_s = max(player.rebalance_ms for player in group.players) / 1000
        while not all(task.done() for _, task in joining):
            await asyncio.sleep(0.2)
            if stood != self.snapshot() or not self.prober.calm.since(begun_s):
                raise Unsure  # its own host may have been paused, too
            if self.now_s() - begun_s > longest_s + _SLACK_S + 0.3:
                self.prober.breach(
                    _TIMES, f"a rebalance still waits after {self.now_s() - begun_s:.3f} s, {longest_s:g} at most"
                )
                raise Unsure
            if self.now_s() - absent.heard_s > absent.session_ms / 1000 - 0.5:
                await self.beat(absent, Err.REBALANCE_IN_PROGRESS)
        took_s = self.now_s() - begun_s
        group.players.remove(absent)
        await self.gather(joining)
        if took_s < shortest_s - 0.3:
            self.prober.breach(
                _TIMES, f"a rebalance ended after {took_s:.3f} s without a member that has {shortest_s:g} s"
            )
        await self.beat(absent, Err.UNKNOWN_MEMBER_ID)

    async def _act_rejoin(self) -> None:
        """With another subscription, or the leader as it is: a rebalance. Anybody else as it is: none."""
        group, player = self.group, self.rng.choice(self.group.players)
        changes = self.rng.random() < 0.5
        player.flavour += changes
        if player.member != group.leader and not changes:
            answer, _ = await self.joining(player)
            actual = Err(answer.error_code), answer.generation_id, answer.leader
            self.prober.expect(_RULE, "a follower that joins again", actual, (Err.NONE, group.generation, group.leader))
            player.heard_s = self.now_s()
            return
        first = [(player, self.start(player))]
        await asyncio.sleep(0.1)
        if len(group.players) > 1:
            self.check_waiting(first)
        for other in group.players:
            if other is not player:
                await self.await_rejoin_request(other)
        await self.gather([*first, *((other, self.start(other)) for other in group.players if other is not player)])

    async def _act_leave(self) -> None:
        """Several members at once, and one that is no member."""
        group = self.group
        if len(group.players) < 2:
            return
        gone = self.rng.sample(group.players, self.rng.randint(1, len(group.players) - 1))
        version = self.prober.pick(
            LeaveGroupRequest, 3 if len(gone) > 1 or any(leaver.instance for leaver in gone) else 0
        )
        if version >= 3:
            rows = [MemberIdentity("" if leaver.instance else leaver.member, leaver.instance) for leaver in gone]
            request = LeaveGroupRequest(group.name, members=[*rows, MemberIdentity("nobody", None)])
        else:
            request = LeaveGroupRequest(group.name, gone[0].member)
        answer, _ = await self.ask(request, version=version)
        self.prober.expect(_RULE, f"LeaveGroup v{version}", Err(answer.error_code), Err.NONE)
        if version >= 3:
            actual = [(member.group_instance_id, Err(member.error_code)) for member in answer.members]
            wanted = [*((leaver.instance, Err.NONE) for leaver in gone), (None, Err.UNKNOWN_MEMBER_ID)]
            self.prober.expect(_RULE, f"LeaveGroup v{version}: members", actual, wanted)
        group.players = [player for player in group.players if player not in gone]
        for left in gone:
            await self.beat(left, Err.UNKNOWN_MEMBER_ID)
        if group.leader in [leaver.member for leaver in gone]:
            group.leader = ""
        for player in group.players:
            await self.beat(player, Err.REBALANCE_IN_PROGRESS)
        await self.gather([(player, self.start(player)) for player in group.players])

    async def _act_leave_what_is_not_there(self) -> None:
        """Send LeaveGroup with an unknown member id, in any version: expect an error, and an unchanged group."""
        version = self.prober.pick(LeaveGroupRequest)
        request = LeaveGroupRequest(self.group.name, "nobody", [MemberIdentity("nobody", None)] if version >= 3 else [])
        answer, _ = await self.ask(request, version=version)
        actual = [Err(member.error_code) for member in answer.members] if version >= 3 else [Err(answer.error_code)]
        self.prober.expect(_RULE, f"LeaveGroup v{version} of nobody", actual, [Err.UNKNOWN_MEMBER_ID])
        for player in self.group.players:
            await self.beat(player, Err.NONE)

    async def _act_fall_silent(self) -> None:
        """A member is there to the end of its session, and no longer."""
        group = self.group
        player = min(group.players, key=lambda member: member.session_ms)
        if player.session_ms > 1500 or len(group.players) < 2:
            return
        stood = self.snapshot()
        await self.beat(player, Err.NONE)
        sent_s = self.now_s()
        others = [member for member in group.players if member is not player]
        while self.now_s() - sent_s < player.session_ms / 1000 - 0.25:
            await asyncio.sleep(0.2)
            for other in others:
                await self.beat(other, Err.NONE)
        await self.beat(player, Err.NONE)
        sent_s = self.now_s()
        while self.now_s() - sent_s < player.session_ms / 1000 + 0.2:
            for other in others:
                early = self.now_s() - sent_s < player.session_ms / 1000 - 0.1
                if early:
                    await self.beat(other, Err.NONE)
            await asyncio.sleep(0.1)
        group.players = others
        if stood != self.snapshot():
            raise Unsure
        await self.beat(player, Err.UNKNOWN_MEMBER_ID)
        if group.leader == player.member:
            group.leader = ""
        for other in others:
            await self.beat(other, Err.REBALANCE_IN_PROGRESS)
        await self.gather([(other, self.start(other)) for other in others])

    async def _act_restart_a_static_member(self) -> None:
        """A static member joins again without an id: it keeps its place and assignment, under a new id, and the old id is fenced."""
        static = [player for player in self.group.players if player.instance]
        if not static:
            return
        group, player = self.group, self.rng.choice(static)
        old, player.member = player.member, ""
        answer, version = await self.joining(player)
        player.member = answer.member_id
        actual = Err(answer.error_code), answer.generation_id, player.member not in ("", old)
        self.prober.expect(
            _RULE, f"JoinGroup v{version} of a static member", actual, (Err.NONE, group.generation, True)
        )
        if group.leader == old:
            group.leader = player.member
            raise Unsure  # the leader in the response differs between versions
        player.heard_s = self.now_s()
        await self.sync(player, [])
        await self.beat(player, Err.FENCED_INSTANCE_ID, member=old)

    async def _act_move(self) -> None:
        """The group's coordinator moves to another broker, which loads all from the log."""
        await self.prober._do_move_the_coordinator()

    async def end(self) -> None:
        """All leave, what was committed stays, then the group goes."""
        self.in_time()
        self._last_snapshot = self.snapshot()
        group, prober = self.group, self.prober
        for player in list(group.players):
            rows = [MemberIdentity(player.member, player.instance)]
            version = prober.pick(LeaveGroupRequest, 3 if player.instance else 0)
            request = LeaveGroupRequest(group.name, player.member, rows if version >= 3 else [])
            answer, _ = await prober.ask_of(group.name, request, version=version)
            prober.expect(_RULE, f"LeaveGroup v{version}", Err(answer.error_code), Err.NONE)
        group.players = []
        await prober.look(group.name, "Empty", "consumer")
        await prober.read_offsets(group.name, group.offsets)
        await prober.delete(group.name, Err.NONE)
        await prober.look(group.name, None)
        await prober.read_offsets(group.name, {})

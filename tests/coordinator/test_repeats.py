"""Members that do again what they did - Heartbeat, JoinGroup, SyncGroup, OffsetCommit - with what is remembered of it and without: the
same bytes, timers and records.

As in test_fast_paths, two clusters run side by side. Here groups rebalance all the time, each member on a connection of its own.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from broker_sim.coordinator.classic.group import ClassicGroup, Member, State
from broker_sim.coordinator.shard import Shard
from broker_sim.requests.routes import Route
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator import test_fast_paths
from tests.coordinator.test_fast_paths import Pair, pair

GROUP = "g1"
SEATS = 12


@pytest.fixture(autouse=True)
def seats(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many connections as the test has seats."""
    monkeypatch.setattr(test_fast_paths, "CONNECTIONS", SEATS)
    monkeypatch.setattr(test_fast_paths, "TURNS", 12)


class Crowd:
    """A group whose members do at random what members do. What they know of it is read from the side without short ways."""

    def __init__(self, both: Pair) -> None:
        self.both, self.rng = both, both.rng
        self.seats: dict[str, int] = {}  # member id -> connection

    @property
    def group(self) -> ClassicGroup:
        shard = self.both.slow.runtime.locate(self.both.slow.broker, GROUP)
        assert isinstance(shard, Shard)
        return shard.classic(GROUP) or ClassicGroup(GROUP)

    def seat(self, member: Member) -> int:
        return self.seats.setdefault(member.member_id, len(self.seats) % SEATS)

    def somebody(self) -> Member | None:
        members = list(self.group.members.values())
        return self.rng.choice(members) if members else None

    def generation(self) -> int:
        return self.group.generation if self.rng.random() < 0.93 else self.rng.randint(-1, 3)

    def enter(self) -> None:
        if len(self.group.members) < 8:
            protocols = [JoinGroupRequestProtocol("range", b"new")]
            request = JoinGroupRequest(GROUP, 60_000, 2_000, "", None, "consumer", protocols)
            self.both.send(self.rng.randrange(SEATS), request, 3)

    def beat(self, member: Member) -> None:
        request = HeartbeatRequest(GROUP, self.generation(), member.member_id)
        self.both.send(self.seat(member), request, self.rng.choice([4, 4, 4, 3, 2]))

    def join(self, member: Member) -> None:
        names = ["range"] if self.rng.random() < 0.95 else ["range", "sticky"]
        metadata = b"same" if self.rng.random() < 0.93 else self.rng.randbytes(3)
        protocols = [JoinGroupRequestProtocol(name, metadata) for name in names]
        session_ms = 60_000 if self.rng.random() < 0.95 else 30_000
        instance = None if self.rng.random() < 0.98 else "static"
        request = JoinGroupRequest(GROUP, session_ms, 2_000, member.member_id, instance, "consumer", protocols)
        self.both.send(self.seat(member), request, 9 if self.rng.random() < 0.95 else 4)

    def sync(self, member: Member) -> None:
        assignments = []
        if member.member_id == self.group.leader and self.rng.random() < 0.9:
            assignments = [SyncGroupRequestAssignment(one, one.encode()[-4:]) for one in self.group.members]
        protocol = "range" if self.rng.random() < 0.97 else "sticky"
        request = SyncGroupRequest(GROUP, self.generation(), member.member_id, None, "consumer", protocol, assignments)
        self.both.send(self.seat(member), request, 5 if self.rng.random() < 0.95 else 3)

    def leave(self, member: Member) -> None:
        self.both.send(self.seat(member), LeaveGroupRequest(GROUP, "", [MemberIdentity(member.member_id)]), 4)

    async def commit(self, member: Member) -> None:
        """In a turn of its own: when inside a turn the log gets a commit is nobody's promise."""
        seat = self.seat(member)
        if any(one.has_deferred_request for one in self.group.members.values() if self.seat(one) == seat):
            return
        await self.both.settle()
        part = OffsetCommitRequestPartition(0, self.rng.randrange(100), -1, -1, "")
        topics = [OffsetCommitRequestTopic("a", partitions=[part])]
        request = OffsetCommitRequest(GROUP, self.generation(), member.member_id, None, -1, topics)
        self.both.send(seat, request, 8)
        await self.both.settle()

    def what_is_due(self, member: Member) -> None:
        """Send the request that a client would send now."""
        state = self.group.state
        if state is State.PREPARING_REBALANCE and member.join_token is None:
            self.join(member)
        elif state is State.COMPLETING_REBALANCE and member.sync_token is None:
            self.sync(member)
        elif not member.has_deferred_request:
            self.beat(member)

    async def act(self) -> None:
        member = self.somebody()
        kind = self.rng.random()
        if member is None or kind < 0.02:
            self.enter()
        elif kind < 0.8:
            self.what_is_due(member)
        elif kind < 0.88:
            await self.commit(member)
        elif kind < 0.89:
            self.leave(member)
        else:
            self.rng.choice([self.beat, self.join, self.sync])(member)


class Steady(random.Random):
    """Always the usual thing."""

    def random(self) -> float:
        return 0.5


@pytest.mark.parametrize("as_version", ["4.1", "3.9"])
@pytest.mark.parametrize("seed", range(8))
async def test_members_that_repeat_themselves_get_the_same_bytes(seed: int, as_version: str) -> None:
    async with pair(seed, as_version) as both:
        crowd = Crowd(both)
        await both.enter(GROUP)
        for number in range(700):
            await crowd.act()
            if both.rng.random() < 0.7:
                await both.settle()
            if both.rng.random() < 0.08:
                await both.settle()
                both.advance(both.rng.choice([1, 50, 500]))
            if number % 150 == 80:
                both.correlation_id += 1  # it names the topic
                both.change_the_cluster()
            if number % 40 == 39:
                await both.settle()
                both.compare()
        await both.settle()
        both.compare()


@pytest.mark.parametrize("seed", range(8))
async def test_they_wait_alike_for_a_log_that_is_held_up(seed: int) -> None:
    async with pair(seed, "4.1") as both:
        crowd = Crowd(both)
        await both.enter(GROUP)
        for number in range(300):
            await crowd.act()
            if both.rng.random() < 0.7:
                await both.settle()
            if number % 25 == 24:
                await both.settle()
                both.hold_or_release()
                await both.settle()
            if both.rng.random() < 0.08:
                await both.settle()
                both.advance(both.rng.choice([1, 50, 3000]))
        await both.settle()
        both.let_go()
        both.advance(6_000)
        await both.settle()
        both.compare()


async def settled_group(both: Pair) -> Crowd:
    """Three members that have said what they will go on saying; the leader's JoinGroup is what begins a rebalance."""
    crowd = Crowd(both)
    crowd.rng = Steady(1)
    await both.enter(GROUP)
    for _ in range(2):
        crowd.enter()
        await both.settle()
        await rebalance(crowd)
    await rebalance(crowd)
    return crowd


async def rebalance(crowd: Crowd) -> None:
    """Everybody hears of it, joins and syncs, the leader last."""
    both, group = crowd.both, crowd.group
    if group.state is State.STABLE:
        crowd.join(group.members[group.leader or ""])
        await both.settle()
    waited_for = [member for member in group.members.values() if member.join_token is None]
    for what in (crowd.beat, crowd.join):
        for member in waited_for:
            what(member)
        await both.settle()
    for member in reversed(group.members.values()):
        crowd.sync(member)
        await both.settle()
    assert group.state is State.STABLE
    both.advance(10)
    both.compare()


def decoded_requests(monkeypatch: pytest.MonkeyPatch) -> tuple[Counter[str], Counter[str]]:
    """Count the requests of each API that are decoded from here on: on the slow side and on the fast one."""
    slow, fast = Counter[str](), Counter[str]()
    decode = Route.decode

    def noted(route: Route, frame: bytes, body: int) -> object:
        (slow if route.repeated is None else fast)[route.name] += 1
        return decode(route, frame, body)

    monkeypatch.setattr(Route, "decode", noted)
    return slow, fast


async def test_members_that_say_what_they_said_are_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pair(1, "4.1") as both:
        crowd = await settled_group(both)
        for _ in range(2):
            await rebalance(crowd)
        slow, fast = decoded_requests(monkeypatch)
        await rebalance(crowd)
        assert slow == {"Heartbeat": 2, "JoinGroup": 3, "SyncGroup": 3}
        assert not fast


async def test_a_member_that_says_something_else_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pair(1, "4.1") as both:
        crowd = await settled_group(both)
        await rebalance(crowd)
        leader = crowd.group.members[crowd.group.leader or ""]
        protocols = [JoinGroupRequestProtocol("range", b"diff")]  # as long as what it said before
        request = JoinGroupRequest(GROUP, 60_000, 2_000, leader.member_id, None, "consumer", protocols)
        both.send(crowd.seat(leader), request, 9)
        await both.settle()
        both.compare()
        shard = both.fast.runtime.locate(both.fast.broker, GROUP)
        assert isinstance(shard, Shard)
        group = shard.classic(GROUP)
        assert group is not None
        assert group.members[leader.member_id].protocols == [("range", b"diff")]


async def test_a_parked_join_of_a_client_that_is_gone_is_forgotten() -> None:
    async with pair(1, "4.1") as both:
        crowd = await settled_group(both)
        members = list(crowd.group.members.values())
        crowd.join(members[0])
        await both.settle()
        crowd.join(members[1])
        await both.settle()
        for side in (both.fast, both.slow):
            assert len(side.runtime._tokens) == 2
            for connection in side.connections:
                connection.connection_lost(None)
            assert not side.runtime._tokens

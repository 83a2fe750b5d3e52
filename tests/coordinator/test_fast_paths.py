"""The fast paths of the group APIs beside the general one: the same frames, at the same instants, get the same bytes, and
leave the same records in the log.

Two clusters run side by side. One has its fast paths, the other's routes have none; everything else is equal: clock, random numbers,
frames and how they are cut into turns. When inside a turn the log gets its commits is nobody's promise: an
OffsetFetch has a turn of its own, and the groups exist from the start.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from broker_sim.common.chance import Chance
from broker_sim.common.clock import ManualClock
from broker_sim.config.settings import BrokerConfig
from broker_sim.metadata.cluster_state import OFFSETS_TOPIC, ClusterState
from broker_sim.network.connection import Connection
from broker_sim.network.request_memo import RequestMemo
from broker_sim.network.server import BrokerServer
from broker_sim.requests.routes import Route, Routes
from broker_sim.runtime.coordinators import Coordinators
from broker_sim.runtime.group_coordinator import GroupCoordinator
from broker_sim.runtime.log_reading import log_batches, records_of
from broker_sim.storage import KafkaStorageError
from kafka_wire.api_keys import ApiKey, is_flexible
from kafka_wire.codec import decode, encode
from kafka_wire.frame import encode_request_header, frame
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment

CONFIG = {"offsets.topic.num.partitions": 3, "group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1}
TOPICS = {"a": 4, "long-name": 3, "b": 1}
GROUPS = ["g1", "g2", "g3", "gé"]
CONNECTIONS = 4
TURNS = 3  # of the loop, until all that came is answered or parked


class SlowRoutes(Routes):
    """Routes that know no fast path."""

    def __missing__(self, code: int) -> Route:
        route = super().__missing__(code)
        route.fast = route.repeated = None
        return route


class Forgetful(RequestMemo):
    """A memo that remembers nothing."""

    __slots__ = ()

    def answered(self, frame: bytes, reply: Any, repeats: Any) -> None:
        pass


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    abort = close


class Side:
    """Cluster of one side, with its connections."""

    def __init__(self, routes: type[Routes], as_version: str) -> None:
        self.clock = ManualClock()
        self.state = ClusterState(BrokerConfig(CONFIG, as_version), self.clock, rng=random.Random(1))
        self.broker = self.state.add_broker(1, "127.0.0.1", 9092)
        self.state.load()
        for name, partitions in TOPICS.items():
            self.state.create_topic(name, partitions)
        self.state.ensure_offsets_topic()
        self.coordinators = Coordinators(self.state, Chance.seeded(2))
        self.runtime = self.coordinators.groups = GroupCoordinator(self.state, chance=Chance.seeded(2))
        self.runtime.start()
        self.server = BrokerServer(self.broker, self.coordinators, self.clock, routes(as_version))
        self.wires: list[Wire] = []
        self.connections: list[Connection] = []
        for _ in range(CONNECTIONS):
            self.wires.append(Wire())
            self.connections.append(Connection(self.server, self.server.listeners[0]))
            self.connections[-1].connection_made(self.wires[-1])
            if routes is SlowRoutes:
                self.connections[-1]._memo = Forgetful()

    def taken(self) -> list[bytes]:
        """Bytes written on each connection since the last call."""
        out = [wire.written for wire in self.wires]
        for wire in self.wires:
            wire.written = b""
        return out

    def records(self) -> list[list[Any]]:
        """Key and value of every record, by offsets partition. (How commits share batches may differ.)"""
        return [
            [row[:3] for batch in log_batches(one) for row in records_of(batch)]
            for one in self.state.topics[OFFSETS_TOPIC].partitions
        ]

    def offsets(self) -> list[Any]:
        """Committed offsets as the groups hold them, in their order."""
        contexts = [self.runtime._contexts[index] for index in sorted(self.runtime._contexts)]
        return [
            (group_id, [(name, list(parts.items())) for name, parts in group.offsets.items()])
            for context in contexts
            for group_id, group in context.shard.groups.items()
        ]

    def sessions(self) -> dict[Any, Any]:
        """Every armed timer."""
        return {key: deadline_ms for deadline_ms, key in self.runtime._timers}


class Pair:
    """Both sides, and what a client would know of its members."""

    def __init__(self, rng: random.Random, as_version: str) -> None:
        self.rng, self.as_version = rng, as_version
        self.fast, self.slow = Side(Routes, as_version), Side(SlowRoutes, as_version)
        self.correlation_id = 0
        self.unsent = [b""] * CONNECTIONS
        self.members: dict[str, list[tuple[str, int]]] = {group: [("", -1), ("nobody", 1)] for group in GROUPS}
        self.layouts: list[OffsetCommitRequest] = []
        self.fetches: list[OffsetFetchRequest] = []
        self.beats: list[HeartbeatRequest] = []

    def send(self, connection: int, request: Any, version: int) -> None:
        key = type(request).__spec__.api_key
        self.correlation_id += 1
        data = frame(encode_request_header(key, version, self.correlation_id, "tests") + encode(request, version))
        self.unsent[connection] += data

    async def settle(self) -> list[bytes]:
        """One turn: what was sent comes to every connection at once. The bytes that are written on it are equal."""
        for number, data in enumerate(self.unsent):
            for side in (self.fast, self.slow):
                if data:
                    side.connections[number].data_received(data)
        self.unsent = [b""] * CONNECTIONS
        for _ in range(TURNS):
            self.fast.server.end_iteration()
            self.slow.server.end_iteration()
            await asyncio.sleep(0)
        assert not any(wire.closed for wire in self.fast.wires + self.slow.wires)
        got = self.fast.taken()
        assert got == self.slow.taken()
        return got

    async def enter(self, group: str) -> None:
        """A member joins and syncs by the general path; others hear of it by their heartbeats."""
        connection = self.rng.randrange(CONNECTIONS)
        subscription = [JoinGroupRequestProtocol("range", b"")]
        self.send(connection, JoinGroupRequest(group, 60_000, 5, "", None, "consumer", subscription), 3)
        await self.settle()
        self.advance(0)
        got = (await self.settle())[connection]
        if not got:
            self.advance(5)  # the window closes for those who don't come back
            got = (await self.settle())[connection]
        assert got, "the JoinGroup is answered"
        answer = decode(JoinGroupResponse, 3, got, 8)
        assignments = [SyncGroupRequestAssignment(member.member_id, b"x") for member in answer.members]
        self.send(
            connection,
            SyncGroupRequest(group, answer.generation_id, answer.member_id, None, None, None, assignments),
            3,
        )
        await self.settle()
        self.members[group].append((answer.member_id, answer.generation_id))

    def advance(self, ms: int) -> None:
        self.fast.clock.advance(ms)
        self.slow.clock.advance(ms)

    # random requests: mostly what was sent before

    def member(self, group: str) -> tuple[str, int]:
        known = self.members[group]
        return known[-1] if self.rng.random() < 0.7 else self.rng.choice(known)

    def heartbeat(self) -> None:
        group = self.rng.choice(GROUPS)
        member_id, generation = self.member(group)
        fresh = HeartbeatRequest(group, generation, member_id, self.rng.choice([None, None, "static"]))
        self.beats = [*self.beats[-5:], fresh]
        self.send(
            self.rng.randrange(CONNECTIONS), self.rng.choice([fresh, *self.beats]), self.rng.choice([2, 3, 4, 4, 4])
        )

    def new_layout(self) -> OffsetCommitRequest:
        rng = self.rng
        names = rng.sample([*TOPICS, "absent"] if rng.random() < 0.2 else list(TOPICS), rng.randint(1, 2))
        metadata = rng.choice(["", "", "", None, "m", "é" * 3, "x" * 5000])
        topics = [
            OffsetCommitRequestTopic(
                name,
                partitions=[
                    OffsetCommitRequestPartition(p, 0, -1, -1, metadata)
                    for p in rng.sample(range(TOPICS.get(name, 1)), rng.randint(1, TOPICS.get(name, 1)))
                ],
            )
            for name in names
        ]
        return OffsetCommitRequest(rng.choice(GROUPS), topics=topics, retention_time_ms=-1)

    def commit(self) -> None:
        rng = self.rng
        if len(self.layouts) < 3 or rng.random() < 0.1:
            self.layouts = [*self.layouts[-4:], self.new_layout()]
        request = rng.choice(self.layouts)
        request.member_id, request.generation_id_or_member_epoch = self.member(request.group_id)
        for topic in request.topics:
            for part in topic.partitions:
                part.committed_offset = rng.choice([0, 1, rng.getrandbits(62), -1])
                part.committed_leader_epoch = rng.choice([-1, 0, rng.getrandbits(30)])
        connection, version = (
            rng.randrange(CONNECTIONS),
            rng.choice([2, 7, 8, 8, 9, 9, 10, 10] if self.as_version == "4.4" else [2, 7, 8, 8, 8, 9, 9]),
        )
        if version == 10:
            topics = [replace(topic, name="", topic_id=self.id_of(topic.name)) for topic in request.topics]
            request = replace(request, topics=topics)
        for _ in range(rng.randint(1, 4)):
            self.send(connection, request, version)

    def id_of(self, topic: str) -> bytes:
        """The same on both sides."""
        known = [side.state.topics.get(topic) for side in (self.fast, self.slow)]
        ids = {b"\1" * 16 if one is None else one.topic_id for one in known}
        (topic_id,) = ids
        return topic_id

    async def fetch(self) -> None:
        await self.settle()
        rng = self.rng
        version = rng.choice([1, 5, 7, 8, 8, 9])
        if len(self.fetches) < 3 or rng.random() < 0.2:
            asked = [(name, list(range(count))) for name, count in TOPICS.items()]
            groups = rng.sample(GROUPS, 2)
            everything = rng.random() < 0.3
            self.fetches = [
                *self.fetches[-4:],
                OffsetFetchRequest(
                    groups[0],
                    [OffsetFetchRequestTopic(*one) for one in asked],
                    [
                        OffsetFetchRequestGroup(
                            group,
                            topics=None
                            if everything
                            else [OffsetFetchRequestTopics(name, partition_indexes=numbers) for name, numbers in asked],
                        )
                        for group in groups
                    ],
                    rng.random() < 0.3,
                ),
            ]
        self.send(rng.randrange(CONNECTIONS), rng.choice(self.fetches), version)
        await self.settle()

    def leave(self) -> None:
        group = self.rng.choice(GROUPS)
        member_id, _ = self.member(group)
        self.send(self.rng.randrange(CONNECTIONS), LeaveGroupRequest(group, member_id, [MemberIdentity(member_id)]), 3)

    def change_the_cluster(self) -> None:
        name = f"new-{self.correlation_id}"
        for side in (self.fast, self.slow):
            side.state.create_topic(name, 1)

    def hold_or_release(self) -> None:
        index = self.rng.randrange(3)
        for side in (self.fast, self.slow):
            partition = side.state.topics[OFFSETS_TOPIC].partitions[index]
            if partition.high_watermark_frozen:
                partition.unfreeze_high_watermark()
            else:
                partition.high_watermark_frozen = True

    def break_or_mend(self) -> None:
        """The log of a partition takes nothing from now on, or again."""
        index = self.rng.randrange(3)
        for side in (self.fast, self.slow):
            log = vars(side.state.topics[OFFSETS_TOPIC].partitions[index].log)
            if "append" in log:
                del log["append"], log["append_records"]
            else:
                log["append"] = log["append_records"] = no_space

    def let_go(self) -> None:
        for side in (self.fast, self.slow):
            for partition in side.state.topics[OFFSETS_TOPIC].partitions:
                partition.unfreeze_high_watermark()

    def compare(self) -> None:
        assert self.fast.records() == self.slow.records()
        assert self.fast.offsets() == self.slow.offsets()
        assert self.fast.sessions() == self.slow.sessions()


def no_space(*args: Any, **more: Any) -> Any:
    raise KafkaStorageError("no space is left")


async def act(what: Callable[[], Awaitable[None] | None]) -> None:
    """Do one of the random things."""
    done = what()
    if done is not None:
        await done


@asynccontextmanager
async def pair(seed: int, as_version: str) -> AsyncIterator[Pair]:
    both = Pair(random.Random(seed), as_version)
    yield both
    for side in (both.fast, both.slow):
        for connection in side.connections:
            connection.connection_lost(None)
        await side.server.stop()
        side.runtime.close()


@pytest.mark.parametrize("as_version", ["4.1", "3.9", "4.4"])
@pytest.mark.parametrize("seed", range(12))
async def test_random_requests_get_the_same_bytes(seed: int, as_version: str) -> None:
    async with pair(seed, as_version) as both:
        for group in GROUPS:
            await both.enter(group)
        acts = [both.heartbeat] * 8 + [both.commit] * 12 + [both.fetch] * 6
        rare = [both.leave, both.change_the_cluster]
        for number in range(400):
            await act(both.rng.choice(acts))
            if both.rng.random() < 0.4:
                await both.settle()
            if both.rng.random() < 0.03:
                both.rng.choice(rare)()
            if number % 60 == 5:
                await both.settle()
                await both.enter(both.rng.choice(GROUPS))
            if both.rng.random() < 0.1:
                await both.settle()  # a turn takes no time
                both.advance(both.rng.choice([1, 10, 1000]))
            if number % 50 == 0:
                await both.settle()
                both.compare()
        await both.settle()
        both.compare()


@pytest.mark.parametrize("seed", range(6))
async def test_a_log_that_takes_nothing_answers_the_same(seed: int) -> None:
    async with pair(seed, "4.1") as both:
        for group in GROUPS:
            await both.enter(group)
        for number in range(150):
            both.rng.choice([both.commit, both.commit, both.heartbeat])()
            if both.rng.random() < 0.3:
                await both.settle()
            if number % 15 == 7:
                await both.settle()
                both.break_or_mend()
        await both.fetch()
        both.compare()


@pytest.mark.parametrize("seed", range(6))
async def test_a_log_that_is_held_up_answers_the_same(seed: int) -> None:
    async with pair(seed, "4.1") as both:
        for group in GROUPS:
            await both.enter(group)
        for number in range(150):
            both.rng.choice([both.commit, both.commit, both.heartbeat])()
            if both.rng.random() < 0.3:
                await both.settle()
            if number % 15 == 7:
                await both.settle()
                both.hold_or_release()
                await both.settle()
            if both.rng.random() < 0.1:
                await both.settle()
                both.advance(both.rng.choice([1, 3000]))
        both.let_go()
        both.advance(6000)
        await both.fetch()
        both.compare()


async def test_a_repeated_commit_and_heartbeat_take_the_fast_path() -> None:
    """The fast path that the comparison tests is taken: shapes are learned, and heartbeats are remembered."""
    async with pair(1, "4.1") as both:
        await both.enter("g1")
        member_id, generation = both.members["g1"][-1]
        for offset in range(5):
            part = OffsetCommitRequestPartition(1, offset, -1, -1, "")
            topics = [OffsetCommitRequestTopic("a", partitions=[part])]
            both.send(0, OffsetCommitRequest("g1", generation, member_id, None, -1, topics), 8)
            both.send(1, HeartbeatRequest("g1", generation, member_id), 4)
            await both.settle()
        connections = both.fast.connections
        assert connections[0].scratch.used == 4
        assert len(connections[1]._memo.replies) == 1
        assert both.slow.connections[0].scratch is None
        both.compare()


def test_only_flexible_commits_are_blocks() -> None:
    """The bytes of a commit go from the request into the record: both must have the compact form."""
    from broker_sim.handlers.k08_offset_commit import FAST

    assert FAST
    assert all(is_flexible(ApiKey.OFFSET_COMMIT, version) for version in FAST)

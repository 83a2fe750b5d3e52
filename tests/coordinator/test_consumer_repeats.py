"""Members of consumer groups (KIP-848) that repeat themselves, with what is remembered of their requests and without: the same bytes,
timers and records. (None subscribes by a regular expression: its heartbeats are never repeated, and what an expression matches is
cached for the process, which both sides share.)

As in test_repeats, two clusters run side by side. What a member knows is read from the side that remembers nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.epochs.reconcile import MemberState
from broker_sim.coordinator.shard import Shard
from broker_sim.metadata.entity_configs import Entity
from kafka_wire.codec import encode
from kafka_wire.errors import Err
from kafka_wire.messages.consumer_protocol import ConsumerProtocolSubscription
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k14_sync_group import SyncGroupRequest
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.coordinator import test_fast_paths
from tests.coordinator.test_fast_paths import Pair, pair
from tests.coordinator.test_repeats import Steady, decoded_requests

GROUP = "g1"
SEATS = 8


@pytest.fixture(autouse=True)
def seats(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many connections as the test has members."""
    monkeypatch.setattr(test_fast_paths, "CONNECTIONS", SEATS)
    monkeypatch.setattr(test_fast_paths, "TURNS", 12)


class Members:
    """Members of one group: what the group has of them, and what they send."""

    def __init__(self, both: Pair) -> None:
        self.both, self.rng = both, both.rng
        self.shares_connection = False
        self.ids = [f"member-{number}" for number in range(SEATS)]
        for side in (both.fast, both.slow):
            side.state.on_topics_changed.append(side.runtime.topics_changed)
            side.state.on_group_configured.append(side.runtime.group_configured)

    @property
    def group(self) -> ConsumerGroup | None:
        shard = self.both.slow.runtime.locate(self.both.slow.broker, GROUP)
        assert isinstance(shard, Shard)
        group = shard.groups.get(GROUP)
        return group if isinstance(group, ConsumerGroup) else None

    def epoch(self, number: int) -> int:
        group = self.group
        return 0 if group is None else group.latest.current(self.ids[number]).epoch

    def connection(self, number: int) -> int:
        """A member's own, as a rule."""
        if self.shares_connection:
            return 0
        return number if self.rng.random() < 0.95 else self.rng.randrange(SEATS)

    def send(self, number: int, epoch: int, **more: Any) -> None:
        request = ConsumerGroupHeartbeatRequest(GROUP, self.ids[number], epoch, **more)
        version = 1 if self.rng.random() < 0.97 else 0
        self.both.send(self.connection(number), request, version)

    def owned(self, number: int) -> list[TopicPartitions]:
        """Partitions that the group has last assigned, as a member that has reconciled it sends it."""
        group = self.group
        assigned = {} if group is None else group.latest.current(self.ids[number]).assigned
        return [TopicPartitions(topic_id, list(numbers)) for topic_id, numbers in assigned.items()]

    def join(self, number: int) -> None:
        names = self.rng.choice([["a"], ["a", "long-name"], ["a", "long-name"], ["absent"]])
        assignor = self.rng.choice([None, None, None, "range", "uniform"])
        self.send(
            number,
            0,
            rebalance_timeout_ms=5_000,
            subscribed_topic_names=names,
            server_assignor=assignor,
            topic_partitions=[],
        )

    def plain(self, number: int) -> None:
        self.send(number, self.epoch(number))

    def acknowledge(self, number: int) -> None:
        self.send(number, self.epoch(number), topic_partitions=self.owned(number))

    def odd(self, number: int) -> None:
        epoch = self.epoch(number)
        what = self.rng.randrange(7)
        if what == 0:
            self.send(number, epoch + self.rng.choice([-1, 1, 7]))
        elif what == 1:
            self.send(number, epoch - 1, topic_partitions=self.owned(number))
        elif what == 2:
            self.send(number, epoch, subscribed_topic_names=self.rng.choice([["a"], ["b", "a"]]))
        elif what == 3:
            self.send(number, epoch, instance_id="static")
        elif what == 4:
            self.send(number, epoch, server_assignor=self.rng.choice(["range", "uniform", "none"]))
        elif what == 5:
            self.send(number, self.rng.choice([-1, -2, -3]))
        else:
            self.send(number, epoch, rack_id=self.rng.choice(["r1", "r2"]))

    async def commit(self, number: int) -> None:
        """In an iteration of its own, as what commits of one iteration share is not promised."""
        await self.both.settle()
        epoch = self.epoch(number) - (self.rng.random() < 0.15)
        part = OffsetCommitRequestPartition(self.rng.randrange(4), self.rng.randrange(100), -1, -1, "")
        topics = [OffsetCommitRequestTopic("a", partitions=[part])]
        self.both.send(
            self.connection(number), OffsetCommitRequest(GROUP, epoch, self.ids[number], None, -1, topics), 9
        )
        await self.both.settle()

    async def fetch(self, number: int) -> None:
        await self.both.settle()
        epoch = self.epoch(number) - (self.rng.random() < 0.15)
        topics = [OffsetFetchRequestTopics("a", partition_indexes=[0, 1, 2, 3])]
        asked = OffsetFetchRequestGroup(GROUP, self.ids[number], epoch, topics)
        self.both.send(self.connection(number), OffsetFetchRequest(groups=[asked]), 9)
        await self.both.settle()

    def configure(self) -> None:
        value = str(self.rng.choice([45_000, 50_000, 60_000]))
        name = self.rng.choice(["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"])
        values = {name: value if name.startswith("consumer.session") else str(int(value) // 10)}
        for side in (self.both.fast, self.both.slow):
            side.state.entity_configs[Entity.GROUP][GROUP] = dict(values)
            for notified in side.state.on_group_configured:
                notified(GROUP)

    async def act(self) -> None:
        number = self.rng.randrange(SEATS)
        group, kind = self.group, self.rng.random()
        if group is None or self.ids[number] not in group.latest.members:
            self.join(number)
        elif kind < 0.6:
            self.plain(number)
        elif kind < 0.8:
            self.acknowledge(number)
        elif kind < 0.87:
            await self.commit(number)
        elif kind < 0.94:
            await self.fetch(number)
        elif kind < 0.97:
            self.odd(number)
        elif kind < 0.98:
            self.join(number)
        else:
            self.send(number, -1)


@pytest.mark.parametrize("as_version", ["4.1", "4.4"])
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 10))])
async def test_members_that_repeat_themselves_get_the_same_bytes(
    seed: int, as_version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if as_version == "4.4" and seed % 2:
        monkeypatch.setitem(test_fast_paths.CONFIG, "group.consumer.assignment.interval.ms", 0)
    async with pair(seed, as_version) as both:
        members = Members(both)
        for number in range(700):
            await members.act()
            if both.rng.random() < 0.7:
                await both.settle()
            if both.rng.random() < 0.08:
                await both.settle()
                both.advance(both.rng.choice([1, 50, 1000, 6000]))
            if number % 150 == 80:
                both.correlation_id += 1  # it names the topic
                both.change_the_cluster()
            if number % 200 == 120:
                members.configure()
            if number % 40 == 39:
                await both.settle()
                both.compare()
        await both.settle()
        both.compare()


@pytest.mark.parametrize("seed", range(6))
async def test_they_wait_alike_for_a_log_that_is_held_up(seed: int) -> None:
    async with pair(seed, "4.1") as both:
        members = Members(both)
        members.shares_connection = True  # which of two connections continues first is not promised
        for number in range(300):
            await members.act()
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


async def stable(both: Pair) -> Members:
    """Eight members that have all partitions of two topics between them, and have sent a few plain heartbeats."""
    members = Members(both)
    members.rng = Steady(1)
    for number in range(SEATS):
        members.send(
            number, 0, rebalance_timeout_ms=5_000, subscribed_topic_names=["a", "long-name"], topic_partitions=[]
        )
        await both.settle()
    for _ in range(4):
        for number in range(SEATS):
            members.acknowledge(number)
            await both.settle()
    for _ in range(4):
        for number in range(SEATS):
            members.plain(number)
            await both.settle()
    assert members.group is not None
    assert members.group.state_name == "Stable"
    return members


async def test_a_new_epoch_is_taken_up_without_a_request_being_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pair(1, "4.1") as both:
        members = await stable(both)
        members.send(7, -1)
        await both.settle()
        slow, fast = decoded_requests(monkeypatch)
        for _ in range(3):
            for number in range(7):
                members.plain(number)
                await both.settle()
        both.compare()
        epochs = [members.epoch(number) for number in range(7)]
        assert len(set(epochs)) == 1
        assert slow == {"ConsumerGroupHeartbeat": 21}
        assert not fast


async def test_what_others_are_assigned_changes_no_answer_of_a_stable_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """The members follow a new epoch one by one; who is there already is answered as before, from what is remembered."""
    async with pair(1, "4.1") as both:
        members = await stable(both)
        members.send(7, -1)
        await both.settle()
        for _ in range(3):
            members.plain(0)
            await both.settle()
        steps: list[str] = []
        step = Shard.step

        def counted(shard: Shard, event: Any, now_ms: int) -> Any:
            if shard is both.fast.runtime.locate(both.fast.broker, GROUP):
                steps.append(type(event).__name__)
            return step(shard, event, now_ms)

        monkeypatch.setattr(Shard, "step", counted)
        for number in range(1, 4):
            members.plain(number)  # a record of the epoch each: its request, and the log's answer
            await both.settle()
            members.plain(0)
            await both.settle()
        assert steps == ["Request", "Appended"] * 3
        both.compare()


async def test_a_classic_member_that_waits_rejoins_once_all_its_partitions_are_released() -> None:
    """The member's answer depends on the assignments of others: ConsumerGroup.waitingOnUnreleasedPartition."""
    topics = ["a", "long-name", "b"]
    async with pair(1, "4.1") as both:
        members = Members(both)
        members.rng = Steady(1)
        for number in (0, 1) * 4:
            if members.epoch(number):
                members.acknowledge(number)
            else:
                members.send(number, 0, rebalance_timeout_ms=5_000, subscribed_topic_names=topics, topic_partitions=[])
            await both.settle()
        metadata = b"\0\0" + encode(ConsumerProtocolSubscription(topics), 0)
        protocols = [JoinGroupRequestProtocol("range", metadata)]
        both.send(2, JoinGroupRequest(GROUP, 10_000, 5_000, "", None, "consumer", protocols), 3)
        await both.settle()
        assert members.group is not None
        latest = members.group.latest
        (classic,) = (name for name, member in latest.members.items() if member.classic_member_metadata is not None)
        epoch = latest.current(classic).epoch
        both.send(2, SyncGroupRequest(GROUP, epoch, classic, None, "consumer", "range", []), 3)
        for number in (0, 1):
            members.plain(number)
        await both.settle()
        assert {latest.current(members.ids[number]).state for number in (0, 1)} == {MemberState.UNREVOKED}

        async def answer() -> int:
            both.send(2, HeartbeatRequest(GROUP, epoch, classic), 3)
            return int.from_bytes((await both.settle())[2][-2:], "big")

        assert [await answer() for _ in range(4)] == [Err.NONE] * 4
        members.acknowledge(0)
        await both.settle()
        assert [await answer() for _ in range(4)] == [Err.NONE] * 4
        members.acknowledge(1)
        await both.settle()
        assert [await answer() for _ in range(2)] == [Err.REBALANCE_IN_PROGRESS] * 2

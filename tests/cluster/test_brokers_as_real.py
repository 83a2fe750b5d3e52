"""Brokers that go and come: what Metadata and DescribeCluster show at each step, here and at real clusters of two."""

from __future__ import annotations

import abc
import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from broker_sim import Cluster
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kafka_wire.messages.k60_describe_cluster import DescribeClusterRequest
from tests.support.real_kafka import RealKafka
from tests.support.wire import Wire

REPLICAS = {"alone": [2], "pair": [2, 1], "twin": [1, 2]}
SETTINGS: dict[str, object] = {"auto.leader.rebalance.enable": "false"}
QUICK: dict[str, object] = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}


@dataclass(frozen=True)
class Seen:
    """A topic's only partition, as Metadata v12 shows it."""

    error: int
    leader: int
    epoch: int
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class Pair(abc.ABC):
    """Two brokers; node 1 is asked."""

    address: str

    @abc.abstractmethod
    async def down(self, *, graceful: bool) -> None:
        """Node 2 goes."""

    @abc.abstractmethod
    async def up(self) -> None:
        """Node 2 is back."""

    async def begin(self) -> None:
        wire = await Wire.connect(self.address)
        topics = [
            CreatableTopic(name, -1, -1, [CreatableReplicaAssignment(0, replicas)])
            for name, replicas in REPLICAS.items()
        ]
        answer = await wire.send(CreateTopicsRequest(topics, 20_000), 5)
        assert [topic.error_code for topic in answer.topics] == [0, 0, 0]
        await wire.close()

    async def look(self) -> tuple[list[int], dict[str, Seen]]:
        wire = await Wire.connect(self.address)
        asked = [MetadataRequestTopic(name=name) for name in REPLICAS]
        metadata = await wire.send(MetadataRequest(asked), 12)
        described = await wire.send(DescribeClusterRequest(), 0)
        await wire.close()
        brokers = sorted(broker.node_id for broker in metadata.brokers)
        assert sorted(broker.broker_id for broker in described.brokers) == brokers
        assert {metadata.controller_id, described.controller_id} <= set(brokers)
        seen = {}
        for topic in metadata.topics:
            [p] = topic.partitions
            seen[topic.name] = Seen(p.error_code, p.leader_id, p.leader_epoch, (*p.isr_nodes,), (*p.offline_replicas,))
        return brokers, seen

    async def shows(self, expected: tuple[list[int], dict[str, Seen]]) -> None:
        await self._until(lambda now: now == expected, str(expected))

    async def _until(self, condition: Callable[[tuple[list[int], dict[str, Seen]]], bool], what: str) -> None:
        deadline = time.monotonic() + 60
        while not condition(now := await self.look()):
            assert time.monotonic() < deadline, f"waited 60 s for {what}, and see {now}"
            await asyncio.sleep(0.1)


class SimPair(Pair):
    def __init__(self, kafka: Cluster) -> None:
        self.kafka, self.address = kafka, kafka.broker(1).address

    async def down(self, *, graceful: bool) -> None:
        await self.kafka.broker_down(2, graceful=graceful)

    async def up(self) -> None:
        await self.kafka.broker_up(2)

    async def shows(self, expected: tuple[list[int], dict[str, Seen]]) -> None:
        """At once."""
        assert await self.look() == expected


class RealPair(Pair):
    def __init__(self, kafka: RealKafka) -> None:
        self.kafka, self.address = kafka, f"127.0.0.1:{kafka.nodes[1].port}"

    async def begin(self) -> None:
        await super().begin()
        await self._until(lambda now: all(seen.leader > 0 for seen in now[1].values()), "leaders")

    async def down(self, *, graceful: bool) -> None:
        node = self.kafka.nodes[2]
        await asyncio.to_thread(node.stop if graceful else node.kill)

    async def up(self) -> None:
        node = self.kafka.nodes[2]
        node.start()
        await asyncio.to_thread(node.wait_ready, time.monotonic() + 40)


@pytest.fixture(
    params=[
        pytest.param((kind, version), id=f"{kind}-{version}", marks=marks)
        for version in ("3.4", "4.1")
        for kind, marks in (("sim", []), ("real", [pytest.mark.real_kafka]))
    ]
)
async def brokers(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Pair, str]]:
    kind, version = request.param
    if kind == "sim":
        async with Cluster(brokers=2, as_version=version, config=SETTINGS) as kafka:
            yield SimPair(kafka), version
    else:
        with RealKafka(f"{version}.0", 2, {**SETTINGS, **QUICK}) as real:
            yield RealPair(real), version


async def test_a_broker_goes_and_comes(brokers: tuple[Pair, str]) -> None:
    pair, version = brokers
    old = version == "3.4"
    last = (2,) if old else ()
    """ISR after the last replica has stopped: empty from 4.1 on (KIP-966)."""

    def epoch(three: int, four: int) -> int:
        """3.4 begins a leader epoch for a smaller ISR, too."""
        return three if old else four

    await pair.begin()
    await pair.shows(
        (
            [1, 2],
            {
                "alone": Seen(0, 2, 0, (2,), ()),
                "pair": Seen(0, 2, 0, (2, 1), ()),
                "twin": Seen(0, 1, 0, (1, 2), ()),
            },
        )
    )
    await pair.down(graceful=True)
    await pair.shows(
        (
            [1],
            {
                "alone": Seen(5, -1, epoch(2, 1), last, (2,)),
                "pair": Seen(0, 1, 1, (1,), (2,)),
                "twin": Seen(0, 1, epoch(1, 0), (1,), (2,)),
            },
        )
    )
    await pair.up()
    await pair.shows(
        (
            [1, 2],
            {
                "alone": Seen(0, 2, epoch(3, 2), (2,), ()),
                "pair": Seen(0, 1, 1, (1, 2), ()),
                "twin": Seen(0, 1, epoch(1, 0), (1, 2), ()),
            },
        )
    )
    await pair.down(graceful=False)
    await pair.shows(
        (
            [1],
            {
                "alone": Seen(5, -1, epoch(4, 3), last, (2,)),
                "pair": Seen(0, 1, epoch(2, 1), (1,), (2,)),
                "twin": Seen(0, 1, epoch(2, 0), (1,), (2,)),
            },
        )
    )
    await pair.up()
    await pair.shows(
        (
            [1, 2],
            {
                "alone": Seen(0, 2, epoch(5, 4), (2,), ()),
                "pair": Seen(0, 1, epoch(2, 1), (1, 2), ()),
                "twin": Seen(0, 1, epoch(2, 0), (1, 2), ()),
            },
        )
    )

"""Committed records that are lost: what clients are answered then, here and at real brokers: one whose disk is put back in time, and
three of which one that was out of sync is elected."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import pytest

from broker_sim import Cluster, UsageError
from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from kafka_wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_wire.record_batch import Record, encode_batch
from tests.support.real_kafka import RealKafka, election_frame
from tests.support.wire import Wire

TOPIC, GROUP = "orders", "billing"
SETTINGS: dict[str, object] = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1}
UNCLEAN: dict[str, object] = {**SETTINGS, "unclean.leader.election.enable": "true"}


class Broker(Protocol):
    """One broker whose topic loses what was appended since `remember`."""

    address: str

    async def remember(self) -> None: ...

    async def lose(self) -> None: ...


class SimBroker:
    def __init__(self, kafka: Cluster) -> None:
        self.kafka, self.address, self.end = kafka, kafka.bootstrap, 0

    async def remember(self) -> None:
        self.end = self.kafka.log(TOPIC, 0).end_offset

    async def lose(self) -> None:
        self.kafka.log(TOPIC, 0).lose_tail(to=self.end)


class RealBroker:
    def __init__(self, kafka: RealKafka) -> None:
        self.node = kafka.nodes[1]
        self.address = f"127.0.0.1:{self.node.port}"

    async def _restart(self, copy_from: str, copy_to: str) -> None:
        def run() -> None:
            self.node.stop()
            source, target = (
                self.node.directory / name if name == "copy" else self.node.data_dir / name
                for name in (copy_from, copy_to)
            )
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)
            self.node.start()
            self.node.wait_ready(time.monotonic() + 90)

        await asyncio.to_thread(run)

    async def remember(self) -> None:
        await self._restart(f"{TOPIC}-0", "copy")

    async def lose(self) -> None:
        await self._restart("copy", f"{TOPIC}-0")


class Client:
    """A connection anew for each request, as the broker may have been restarted in between."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.producer = (-1, -1)

    async def send(self, request: Any, version: int) -> Any:
        wire = await Wire.connect(self.address)
        try:
            return await wire.send(request, version)
        finally:
            await wire.close()

    async def producer_id(self) -> tuple[int, int]:
        """Asked again while a young broker has no block of ids yet."""
        deadline = time.monotonic() + 300
        while True:
            made = await self.send(InitProducerIdRequest(None, 60_000), 3)
            if made.error_code == Err.NONE:
                return made.producer_id, made.producer_epoch
            assert time.monotonic() < deadline, f"waited 300 s for a producer id: {Err(made.error_code).name}"
            await asyncio.sleep(0.1)

    async def produce(self, sequence: int, count: int = 1) -> str:
        producer_id, epoch = self.producer
        rows = [Record(n, int(time.time() * 1000), b"k", b"v") for n in range(count)]
        batch = encode_batch(rows, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        request = ProduceRequest(
            None, -1, 30_000, [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch)])]
        )
        [partition] = (await self.send(request, 9)).responses[0].partition_responses
        return f"{Err(partition.error_code).name} {partition.base_offset}"

    async def fetch(self, offset: int, epoch: int) -> str:
        wanted = FetchTopic(
            TOPIC,
            partitions=[
                FetchPartition(0, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1 << 20)
            ],
        )
        answer = await self.send(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[wanted]), 12)
        [partition] = answer.responses[0].partitions
        return f"{Err(partition.error_code).name} hw {partition.high_watermark} start {partition.log_start_offset}"

    async def latest(self, epoch: int) -> str:
        wanted = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, epoch, -1)])
        [partition] = (await self.send(ListOffsetsRequest(-1, 0, [wanted]), 7)).topics[0].partitions
        return f"{Err(partition.error_code).name} {partition.offset}"

    async def end_of(self, epoch: int, current: int = -1) -> str:
        wanted = OffsetForLeaderTopic(TOPIC, [OffsetForLeaderPartition(0, current, epoch)])
        [partition] = (await self.send(OffsetForLeaderEpochRequest(-1, [wanted]), 4)).topics[0].partitions
        return f"{Err(partition.error_code).name} {partition.end_offset}"

    async def epoch(self) -> int:
        deadline = time.monotonic() + 300
        while True:
            answer = await self.send(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 12)
            [partition] = answer.topics[0].partitions or [None]
            if partition is not None and partition.leader_id >= 0:
                return int(partition.leader_epoch)
            assert time.monotonic() < deadline, "waited 300 s for a leader"
            await asyncio.sleep(0.1)

    async def commit(self, offset: int) -> str:
        partitions = [OffsetCommitRequestPartition(0, offset)]
        request = OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic(TOPIC, partitions=partitions)])
        return await self._of_group(request, 8, lambda answer: answer.topics[0].partitions[0].error_code)

    async def committed(self) -> int:
        request = OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic(TOPIC, [0])])
        await self._of_group(request, 5, lambda answer: answer.error_code)
        return int((await self.send(request, 5)).topics[0].partitions[0].committed_offset)

    async def _of_group(self, request: Any, version: int, error_of: Any) -> str:
        """Asked again until the coordinator has loaded."""
        deadline = time.monotonic() + 300
        while True:
            await self.send(FindCoordinatorRequest(GROUP), 1)
            error = Err(error_of(await self.send(request, version)))
            if error not in (Err.NOT_COORDINATOR, Err.COORDINATOR_LOAD_IN_PROGRESS, Err.COORDINATOR_NOT_AVAILABLE):
                return error.name
            assert time.monotonic() < deadline, f"waited 300 s for the coordinator, which answers {error.name}"
            await asyncio.sleep(0.1)


class Three(Protocol):
    """Four brokers: 1 has the offsets and the controller, 2, 3 and 4 have the topic; its first leader is 2."""

    def address(self, node_id: int) -> str: ...

    async def down(self, node_id: int) -> None: ...

    async def up(self, *node_ids: int) -> None: ...

    async def elect(self) -> None:
        """An out of sync replica leads where the setting alone does not let one: KRaft looks at it from 3.9 on."""


class SimThree:
    def __init__(self, kafka: Cluster) -> None:
        self.kafka = kafka

    def address(self, node_id: int) -> str:
        return self.kafka.bootstrap.split(",")[node_id - 1]

    async def down(self, node_id: int) -> None:
        await self.kafka.broker_down(node_id)

    async def up(self, *node_ids: int) -> None:
        for node_id in node_ids:
            await self.kafka.broker_up(node_id)

    async def elect(self) -> None:
        if self.kafka.state.config.release < (3, 9):
            self.kafka.log(TOPIC, 0).lose_tail(to=5, leader=3)


class RealThree:
    def __init__(self, kafka: RealKafka) -> None:
        self.kafka = kafka

    def address(self, node_id: int) -> str:
        return f"127.0.0.1:{self.kafka.nodes[node_id].port}"

    async def down(self, node_id: int) -> None:
        await asyncio.to_thread(self.kafka.nodes[node_id].stop if node_id > 2 else self.kafka.nodes[node_id].kill)

    async def up(self, *node_ids: int) -> None:
        def run() -> None:
            for node_id in node_ids:
                self.kafka.nodes[node_id].start()
            for node_id in node_ids:
                self.kafka.nodes[node_id].wait_ready(time.monotonic() + 90)

        await asyncio.to_thread(run)

    async def elect(self) -> None:
        if self.kafka.version < "4":
            wire = await Wire.connect(self.address(1))
            wire.write_raw(election_frame(TOPIC, [0], unclean=True))
            await wire.next_frame()
            await wire.close()


@asynccontextmanager
async def simulated_three(version: str) -> AsyncIterator[Three]:
    async with Cluster(brokers=4, as_version=version, config=UNCLEAN) as kafka:
        yield SimThree(kafka)


@asynccontextmanager
async def real_three(version: str) -> AsyncIterator[Three]:
    with RealKafka(f"{version}.0", brokers=4, config=UNCLEAN) as kafka:
        yield RealThree(kafka)


@asynccontextmanager
async def simulated(version: str) -> AsyncIterator[Broker]:
    async with Cluster(as_version=version, config=SETTINGS) as kafka:
        yield SimBroker(kafka)


@asynccontextmanager
async def real(version: str) -> AsyncIterator[Broker]:
    with RealKafka(f"{version}.0", config=SETTINGS) as kafka:
        yield RealBroker(kafka)


@pytest.mark.parametrize("version", ["3.4", "4.1"])
@pytest.mark.parametrize("kind", [simulated, pytest.param(real, marks=pytest.mark.real_kafka)])
async def test_a_disk_of_yesterday(kind: Any, version: str) -> None:
    async with kind(version) as broker:
        client = Client(broker.address)
        created = await client.send(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], 20_000), 5)
        assert created.topics[0].error_code == 0
        await client.epoch()
        client.producer = await client.producer_id()
        seen: list[object] = [await client.produce(0, 5)]
        await broker.remember()
        before = await client.epoch()
        seen += [await client.produce(5, 5), await client.commit(9), await client.latest(before)]
        assert seen == ["NONE 0", "NONE 5", "NONE", "NONE 10"]

        await broker.lose()
        now = await client.epoch()
        assert now > before
        fetches = [(5, -1), (5, now), (7, -1), (9, now), (7, before), (3, before), (3, now), (3, now + 1)]
        after = {
            "fetch": [await client.fetch(offset, epoch) for offset, epoch in fetches],
            "latest": [await client.latest(epoch) for epoch in (-1, before, now)],
            "end of epoch": [
                await client.end_of(before),
                await client.end_of(now),
                await client.end_of(before, before),
            ],
            "committed": await client.committed(),
            "commit beyond the end": await client.commit(10),
            "next sequence": await client.produce(10),
            "first lost sequence": await client.produce(5, 5),
            "latest then": await client.latest(now),
        }
        fetched = "hw 5 start 0"
        assert after == {
            "fetch": [
                f"NONE {fetched}",
                f"NONE {fetched}",
                "OFFSET_OUT_OF_RANGE hw -1 start -1",
                "OFFSET_OUT_OF_RANGE hw -1 start -1",
                "FENCED_LEADER_EPOCH hw -1 start -1",
                "FENCED_LEADER_EPOCH hw -1 start -1",
                f"NONE {fetched}",
                "UNKNOWN_LEADER_EPOCH hw -1 start -1",
            ],
            "latest": ["NONE 5", "FENCED_LEADER_EPOCH -1", "NONE 5"],
            "end of epoch": ["NONE 5", "NONE 5", "FENCED_LEADER_EPOCH -1"],
            "committed": 9,
            "commit beyond the end": "NONE",
            "next sequence": "OUT_OF_ORDER_SEQUENCE_NUMBER -1",
            "first lost sequence": "NONE 5",
            "latest then": "NONE 10",
        }


class Reader(Client):
    """A client that tells all that it is answered by the partition's leader."""

    async def partition(self, known: Any) -> Any:
        """The partition as metadata has it, once that is as ``known`` wants it."""
        deadline = time.monotonic() + 300
        while True:
            answer = await self.send(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 12)
            for partition in answer.topics[0].partitions:
                if known(partition):
                    return partition
            assert time.monotonic() < deadline, f"waited 300 s; metadata has {answer.topics[0].partitions}"
            await asyncio.sleep(0.1)

    async def fetch_after(self, offset: int, current: int, last: int) -> str:
        """A Fetch that names the epoch of the last record that was fetched: (epoch, end offset) where the logs part."""
        row = FetchPartition(0, current, offset, last_fetched_epoch=last, partition_max_bytes=1 << 20)
        answer = await self.send(
            FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[FetchTopic(TOPIC, partitions=[row])]),
            12,
        )
        [partition] = answer.responses[0].partitions
        parts = partition.diverging_epoch
        where = f" parts {parts.epoch} {parts.end_offset}" if parts.end_offset >= 0 else ""
        return f"{Err(partition.error_code).name}{where} {'records' if partition.records else 'nothing'}"

    async def all_of(self, first: int, before: int, now: int) -> dict[str, list[str]]:
        fetches = [(5, -1), (5, now), (7, -1), (9, now), (7, before), (3, before), (3, now), (3, now + 1)]
        after = [(5, before), (7, before), (3, before), (5, first), (7, first), (5, now), (5, now + 1), (3, -1)]
        return {
            "fetch": [await self.fetch(offset, epoch) for offset, epoch in fetches],
            "fetch after": [await self.fetch_after(offset, now, last) for offset, last in after],
            "latest": [await self.latest(epoch) for epoch in (-1, before, now)],
            "end of epoch": [await self.end_of(epoch) for epoch in range(now + 2)],
            "end with an epoch": [await self.end_of(before, before), await self.end_of(before, now)],
        }


def answers(version: str, end: int) -> dict[str, list[str]]:
    """Answers of real brokers where the logs part at 5 and the new leader's ends at ``end``. Before 3.6 a smaller ISR is an epoch,
    so that the lost records have one of their own, of which the new leader knows nothing."""
    old = version == "3.4"
    now = 4 if old else 2
    fetched = f"NONE hw {end} start 0"
    beyond = fetched if end > 5 else "OFFSET_OUT_OF_RANGE hw -1 start -1"
    part, more = "NONE parts 0 5 nothing", "NONE records" if end > 5 else "NONE nothing"
    return {
        "fetch": [
            *(fetched, fetched, beyond, beyond),
            *["FENCED_LEADER_EPOCH hw -1 start -1"] * 2,
            fetched,
            "UNKNOWN_LEADER_EPOCH hw -1 start -1",
        ],
        "fetch after": [
            part if old else more,
            part,
            part if old else "NONE records",
            more,
            *(part, more, "OFFSET_OUT_OF_RANGE nothing", "NONE records"),
        ],
        "latest": [f"NONE {end}", "FENCED_LEADER_EPOCH -1", f"NONE {end}"],
        "end of epoch": [*["NONE 5"] * now, f"NONE {end}", "NONE -1"],
        "end with an epoch": ["FENCED_LEADER_EPOCH -1", "NONE 5"],
    }


@pytest.mark.parametrize("version", ["3.4", "4.1"])
@pytest.mark.parametrize("kind", [simulated_three, pytest.param(real_three, marks=pytest.mark.real_kafka)])
async def test_a_replica_that_was_out_of_sync_is_elected(kind: Any, version: str) -> None:
    async with kind(version) as brokers:
        one, two, three = (Reader(brokers.address(node)) for node in (1, 2, 3))
        for topic, nodes in (("__consumer_offsets", [1]), (TOPIC, [2, 3, 4])):
            assigned = CreatableTopic(topic, -1, -1, [CreatableReplicaAssignment(0, nodes)])
            created = await one.send(CreateTopicsRequest([assigned], 20_000), 5)
            assert created.topics[0].error_code == 0
        whole = await one.partition(lambda known: known.leader_id == 2 and len(known.isr_nodes) == 3)
        two.producer = three.producer = await one.producer_id()
        assert await two.produce(0, 5) == "NONE 0"  # acks=all: all three have it
        for node in (3, 4):
            await brokers.down(node)
        before = (await one.partition(lambda known: known.isr_nodes == [2])).leader_epoch
        assert [await two.produce(5, 5), await one.commit(9), await two.latest(before)] == ["NONE 5", "NONE", "NONE 10"]
        await brokers.down(2)
        await one.partition(lambda known: known.leader_id == -1)
        await brokers.up(3)
        await brokers.elect()
        now = (await one.partition(lambda known: known.leader_id == 3)).leader_epoch

        assert await three.all_of(whole.leader_epoch, before, now) == answers(version, 5)
        assert [await one.committed(), await one.commit(10), await one.committed()] == [9, "NONE", 10]
        assert await three.produce(10) == "OUT_OF_ORDER_SEQUENCE_NUMBER -1"
        assert await three.produce(5, 5) == "NONE 5"
        assert await three.all_of(whole.leader_epoch, before, now) == answers(version, 10)
        await brokers.up(2, 4)  # they follow, and forget what the leader does not have
        back = await one.partition(lambda known: len(known.isr_nodes) == 3)
        assert (back.leader_id, back.leader_epoch) == (3, now)
        assert await three.all_of(whole.leader_epoch, before, now) == answers(version, 10)
        assert await three.produce(10) == "NONE 10"


async def test_before_3_9_no_setting_lets_a_replica_lead_that_is_out_of_sync() -> None:
    async with Cluster(brokers=2, as_version="3.8", config={"unclean.leader.election.enable": "true"}) as kafka:
        kafka.create_topic("bills", 1, replication_factor=2)
        log = kafka.log("bills", 0)
        first, second = log.partition.replicas
        await kafka.broker_down(second)
        await kafka.broker_down(first)
        await kafka.broker_up(second)
        assert log.leader == -1


async def test_an_unclean_election_loses_what_came_after_the_replica_had_gone(kafka: Cluster) -> None:
    kafka.create_topic("bills", 1, replication_factor=2, configs={"unclean.leader.election.enable": "true"})
    log = kafka.topic("bills").fill(10).log(0)
    kafka.observe()
    first, second = log.partition.replicas
    await kafka.broker_down(second)
    log.fill(7)
    await kafka.broker_down(first)
    await kafka.broker_up(second)
    assert (log.leader, log.end_offset, log.high_watermark) == (second, 10, 10)
    [lost] = [event for event in kafka.journal.events if event["event"] == "data_loss"]
    assert (lost["log"], lost["part"], lost["first"], lost["last"]) == ("bills-0", "tail", 10, 16)
    await kafka.broker_up(first)
    await kafka.broker_down(second)  # whoever came back is in sync
    assert (log.leader, log.end_offset) == (first, 10)
    assert len([event for event in kafka.journal.events if event["event"] == "data_loss"]) == 1


# --- the handle


@pytest.fixture
async def kafka() -> AsyncIterator[Cluster]:
    async with Cluster(brokers=3, clock="manual", seed=1, config=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, 1, replication_factor=3)
        yield cluster


async def test_an_unclean_election_cuts_a_batch_where_it_was_asked_to(kafka: Cluster) -> None:
    log = kafka.topic(TOPIC).fill(100).log(0)
    kafka.observe()
    before, old = log.leader, log.leader_epoch
    log.lose_tail(30)
    assert (log.start_offset, log.end_offset, log.high_watermark) == (0, 70, 70)
    assert (log.leader != before, log.leader_epoch) == (True, old + 1)
    assert sorted(log.partition.isr) == [1, 2, 3]
    [lost] = [event for event in kafka.journal.events if event["event"] == "data_loss"]
    assert (lost["log"], lost["part"], lost["first"], lost["last"]) == (f"{TOPIC}-0", "tail", 70, 99)
    [record] = [record for batch in log.partition.log.batches(69) for record in batch.records() if record.offset == 69]
    assert record.value == b"orders-69"
    log.fill(5)
    client = Client(kafka.bootstrap.split(",")[log.leader - 1])
    assert await client.end_of(old) == "NONE 70"
    assert await client.end_of(log.leader_epoch) == "NONE 75"


async def test_a_head_is_lost(kafka: Cluster) -> None:
    log = kafka.topic(TOPIC).fill(100).log(0)
    log.lose_head(40, leader=3)
    assert (log.leader, log.start_offset, log.end_offset) == (3, 40, 100)
    log.lose_head(to=100)
    assert (log.leader, log.start_offset, log.end_offset) == (1, 100, 100)


async def test_committed_offsets_of_a_group_go_back_with_its_log(kafka: Cluster) -> None:
    kafka.topic(TOPIC).fill(100)
    client = Client(kafka.offsets_log(GROUP).cluster.bootstrap.split(",")[kafka.offsets_log(GROUP).leader - 1])
    assert await client.commit(10) == "NONE"
    end = kafka.offsets_log(GROUP).end_offset
    assert await client.commit(90) == "NONE"
    kafka.offsets_log(GROUP).lose_tail(to=end)
    client = Client(kafka.bootstrap.split(",")[kafka.offsets_log(GROUP).leader - 1])
    assert await client.committed() == 10


async def test_committed_offsets_beyond_the_end_are_a_negative_lag(kafka: Cluster) -> None:
    log = kafka.topic(TOPIC).fill(100).log(0)
    client = Client(kafka.bootstrap.split(",")[kafka.offsets_log(GROUP).leader - 1])
    assert await client.commit(90) == "NONE"
    log.lose_tail(50)
    assert kafka.group(GROUP).lag()[TOPIC, 0] == -40


@pytest.mark.parametrize(
    ("lose", "message"),
    [
        (lambda log: log.lose_tail(), "the amount to lose is missing"),
        (lambda log: log.lose_tail(5, to=5), "the amount to lose is missing"),
        (lambda log: log.lose_tail(0), "0 records can't be lost"),
        (lambda log: log.lose_tail(11), "has the offsets 0 to 9: -1 can't be the first lost one"),
        (lambda log: log.lose_tail(to=10), "has the offsets 0 to 9: 10 can't be the first lost one"),
        (lambda log: log.lose_head(11), "begins at 0 and is committed up to 10: it can't begin at 11"),
        (lambda log: log.lose_head(to=0), "it can't begin at 0"),
        (lambda log: log.lose_tail(5, leader=4), "no broker 4"),
    ],
)
async def test_what_cannot_be_lost(kafka: Cluster, lose: Any, message: str) -> None:
    log = kafka.topic(TOPIC).fill(10).log(0)
    with pytest.raises(UsageError, match=message):
        lose(log)
    assert (log.start_offset, log.end_offset, log.leader_epoch) == (0, 10, 0)


async def test_a_log_without_a_replica_that_is_up_loses_nothing(kafka: Cluster) -> None:
    log = kafka.topic(TOPIC).fill(10).log(0)
    with log.no_leader(), pytest.raises(UsageError, match="is in the state no_leader"):
        log.lose_tail(1)
    for node in (1, 2, 3):
        await kafka.broker_down(node)
    with pytest.raises(UsageError, match="none of its replicas"):
        log.lose_tail(1)
    assert log.end_offset == 10

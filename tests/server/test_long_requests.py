"""A request that makes much work, and everybody else meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.common.slices import Job, Slices
from kafka_wire.compression import Codec
from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest
from kafka_wire.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.messages.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.support.raw_batches import batch, record
from tests.support.wire import Wire

COUNT = 30_000


def many_records(codec: Codec = Codec.NONE, key: bytes | None = b"k") -> list[bytes]:
    return [batch(*(record(number, key=key) for number in range(COUNT)), codec=codec)]


def one_that_unpacks_to_much() -> list[bytes]:
    return [batch(record(0, headers=b"\x02\x02h\x80\x80\x80\x08" + bytes(1 << 23)), codec=Codec.GZIP)]


def many_batches() -> list[bytes]:
    return [batch(record(0, headers=b"\x02\x02h\x80\x80\x02" + bytes(1 << 14)))] * 100


BATCHES = {
    "many records": many_records,
    "many compressed records": lambda: many_records(Codec.GZIP),
    "many records without the key they need": lambda: many_records(key=None),
    "one record that unpacks to much": one_that_unpacks_to_much,
    "many batches": many_batches,
}


@pytest.mark.parametrize("what", BATCHES)
async def test_others_are_served_while_batches_are_looked_at(what: str) -> None:
    partitions = [PartitionProduceData(index, data) for index, data in enumerate(BATCHES[what]())]
    request = ProduceRequest(None, -1, 5000, [TopicProduceData("t", partition_data=partitions)])
    heartbeat = HeartbeatRequest("g", 1, "m")
    async with Cluster(topics={"t": 100}, config={"log.cleanup.policy": "compact"}) as cluster:
        busy, other = await Wire.connect(cluster.bootstrap), await Wire.connect(cluster.bootstrap)
        await other.send(heartbeat, 4)
        long, behind = busy.start(request, 9), busy.start(heartbeat, 4)
        served = 0
        while not long.done():
            await other.send(heartbeat, 4)
            served += 1
        assert served >= 3  # where all is done at once: 1
        answers = long.result().responses[0].partition_responses
        refused = Err.INVALID_RECORD if "without" in what else Err.NONE
        assert {answer.error_code for answer in answers} == {refused}
        assert (await behind).error_code == Err.NOT_COORDINATOR
        await busy.close()
        await other.close()


NAMES = [f"name-{number}" for number in range(4000)]
LISTS: dict[str, tuple[Any, int]] = {
    "topics to create": (CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in NAMES[:150]], 5000), 5),
    "topics to delete": (DeleteTopicsRequest([], NAMES, 5000), 5),
    "records to delete": (
        DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(n, 0) for n in range(9000)])], 5000),
        1,
    ),
    "settings": (DescribeConfigsRequest([DescribeConfigsResource(2, "t", None)] * 100), 2),
    "coordinators": (FindCoordinatorRequest("", 0, NAMES), 4),
    "groups": (DescribeGroupsRequest(NAMES), 4),
    "log directories": (DescribeLogDirsRequest([DescribableLogDirTopic("t", list(range(15_000)))]), 4),
}


@pytest.mark.parametrize("what", LISTS)
async def test_others_are_served_while_a_long_list_is_answered(what: str) -> None:
    heartbeat = HeartbeatRequest("g", 1, "m")
    async with Cluster(topics={"t": 1}) as cluster:
        busy, other = await Wire.connect(cluster.bootstrap), await Wire.connect(cluster.bootstrap)
        await other.send(heartbeat, 4)
        long = busy.start(*LISTS[what])
        served = 0
        while not long.done():
            await other.send(heartbeat, 4)
            served += 1
        assert served >= 3  # where all is done at once: 1
        await busy.close()
        await other.close()


async def test_a_batch_that_is_looked_at_is_not_appended_once_its_topic_is_gone() -> None:
    request = ProduceRequest(
        None, -1, 5000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, many_records()[0])])]
    )
    async with Cluster(topics={"t": 1}) as cluster:
        wire = await Wire.connect(cluster.bootstrap)
        log = cluster.state.topics["t"].partitions[0].log
        answer = wire.start(request, 9)
        other = await Wire.connect(cluster.bootstrap)
        cluster.state.delete_topic("t")
        assert (await answer).responses[0].partition_responses[0].error_code == Err.UNKNOWN_TOPIC_OR_PARTITION
        assert log.log_end_offset == 0
        await wire.close()
        await other.close()


def test_jobs_are_done_one_after_the_other_a_piece_in_each_turn() -> None:
    done: list[str] = []
    turns: list[object] = []
    slices = Slices(turns.append)

    def job(name: str) -> Job:
        for number in range(2):
            done.append(f"{name}{number}")
            yield

    def step(job: Job) -> bool:
        return next(job, "end") == "end"

    for name in "ab":
        slices.add(job(name), step)
    for _ in range(6):
        assert len(turns) == 1  # one piece a turn, whatever waits
        turns.pop()()  # type: ignore[operator]
    assert done == ["a0", "a1", "b0", "b1"]
    assert not turns


def test_jobs_that_wait_are_forgotten_when_the_cluster_ends() -> None:
    turns: list[object] = []
    slices = Slices(turns.append)
    slices.add(iter_forever(), lambda job: bool(next(job)))
    slices.clear()
    turns.pop()()  # type: ignore[operator]
    assert not turns


def iter_forever() -> Job:
    while True:
        yield

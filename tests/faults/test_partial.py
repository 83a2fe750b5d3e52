"""A rule that names a topic or a partition breaks that one alone, where Kafka's errors are those of partitions."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

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
from tests.data_plane.helpers import batch
from tests.faults.rig import Rig, committed


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig(topics={"orders": 4, "bills": 1}) as made:
        yield made


def produce(acks: int = 1) -> ProduceRequest:
    rows = [PartitionProduceData(index, batch()) for index in (0, 3)]
    topics = [
        TopicProduceData("orders", partition_data=rows),
        TopicProduceData("bills", partition_data=[PartitionProduceData(0, batch())]),
    ]
    return ProduceRequest(None, acks, 1000, topics)


def ends(rig: Rig) -> list[int]:
    orders, bills = (rig.cluster.state.topics[name].partitions for name in ("orders", "bills"))
    return [orders[0].log_end_offset, orders[3].log_end_offset, bills[0].log_end_offset]


@pytest.mark.parametrize(
    ("verdict", "written"),
    [({"error": "NOT_LEADER_OR_FOLLOWER"}, [1, 0, 1]), ({"error_after": "NOT_LEADER_OR_FOLLOWER"}, [1, 1, 1])],
)
async def test_one_partition_of_a_produce_fails(rig: Rig, verdict: dict[str, str], written: list[int]) -> None:
    wire = await rig.connect()
    with rig.faults.add("Produce", topic="orders", partition=3, **verdict):
        answer = await wire.send(produce(), 9)
    codes = {(t.name, p.index): (p.error_code, p.base_offset) for t in answer.responses for p in t.partition_responses}
    assert codes == {("orders", 0): (0, 0), ("orders", 3): (Err.NOT_LEADER_OR_FOLLOWER, -1), ("bills", 0): (0, 0)}
    assert ends(rig) == written
    assert rig.told("response")[0]["error"] == "NOT_LEADER_OR_FOLLOWER"


async def test_a_produce_without_acks_costs_the_connection_where_a_partition_fails(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("Produce", topic="bills", error="NOT_LEADER_OR_FOLLOWER"):
        wire.start(produce(acks=0), 9)
        await wire.closed()


async def test_one_topic_of_list_offsets_fails(rig: Rig) -> None:
    wire = await rig.connect()
    topics = [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)]) for name in ("orders", "bills")]
    with rig.faults.add("ListOffsets", topic="bills", error="LEADER_NOT_AVAILABLE"):
        answer = await wire.send(ListOffsetsRequest(-1, topics=topics), 5)
    rows = {topic.name: (topic.partitions[0].error_code, topic.partitions[0].offset) for topic in answer.topics}
    assert rows == {"orders": (0, 0), "bills": (Err.LEADER_NOT_AVAILABLE, -1)}


async def test_metadata_of_one_topic_fails_and_names_the_brokers_all_the_same(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("Metadata", topic="orders", error="LEADER_NOT_AVAILABLE"):
        both = MetadataRequest([MetadataRequestTopic(name=name) for name in ("orders", "bills")])
        answer = await wire.send(both, 9)
        assert {topic.name: (topic.error_code, len(topic.partitions)) for topic in answer.topics} == {
            "orders": (Err.LEADER_NOT_AVAILABLE, 0),
            "bills": (0, 1),
        }
        alone = await wire.send(MetadataRequest([MetadataRequestTopic(name="orders")]), 9)
        assert [broker.node_id for broker in alone.brokers] == [1]
        assert [topic.error_code for topic in alone.topics] == [Err.LEADER_NOT_AVAILABLE]


async def test_metadata_of_all_topics_fails_at_the_one_that_is_named(rig: Rig) -> None:
    wire = await rig.connect()
    for verdict in ("error", "error_after"):
        with rig.faults.add("Metadata", topic="orders", **{verdict: "LEADER_NOT_AVAILABLE"}):
            answer = await wire.send(MetadataRequest(None), 12)
        found = {topic.name: (topic.error_code, len(topic.partitions)) for topic in answer.topics}
        assert (found["orders"], found["bills"]) == ((Err.LEADER_NOT_AVAILABLE, 0), (0, 1))
        assert [broker.node_id for broker in answer.brokers] == [1]


def commit() -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 7)]) for name in ("orders", "bills")
    ]
    return OffsetCommitRequest("billing", topics=topics)


async def test_one_topic_of_a_commit_fails_where_the_error_is_one_of_partitions(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("OffsetCommit", topic="bills", error="TOPIC_AUTHORIZATION_FAILED"):
        answer = await wire.send(commit(), 8)
    assert {topic.name: topic.partitions[0].error_code for topic in answer.topics} == {"orders": 0, "bills": 29}
    assert await committed(wire) == 7


async def test_all_of_a_commit_fails_where_the_error_is_the_groups(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("OffsetCommit", topic="bills", error="NOT_COORDINATOR"):
        answer = await wire.send(commit(), 8)
    assert {topic.name: topic.partitions[0].error_code for topic in answer.topics} == {"orders": 16, "bills": 16}
    assert await committed(wire) == -1


async def test_a_fetch_fails_at_the_partition_that_is_named_and_has_no_news_of_the_others(rig: Rig) -> None:
    wire = await rig.connect()
    await wire.send(produce(), 9)
    topic_id = rig.cluster.state.topics["orders"].topic_id
    rows = [FetchPartition(index) for index in (0, 3)]
    with rig.faults.add("Fetch", topic="orders", partition=0, error="OFFSET_OUT_OF_RANGE"):
        request = FetchRequest(max_wait_ms=500, topics=[FetchTopic(topic_id=topic_id, partitions=rows)])
        answer = await wire.send(request, 13)
    assert answer.error_code == 0
    found = {p.partition_index: (p.error_code, p.high_watermark, p.records) for p in answer.responses[0].partitions}
    assert found == {0: (Err.OFFSET_OUT_OF_RANGE, -1, b""), 3: (0, 1, b"")}

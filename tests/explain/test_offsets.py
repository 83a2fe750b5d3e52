"""Explanations of committed offsets that moved otherwise than forward by reading."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker_sim import Cluster
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from tests.clock.test_advance import pair
from tests.handles.members import Member
from tests.support.wire import Wire

pytestmark = pytest.mark.kafka(topics={"orders": 2}, clock="manual")


@pytest.fixture
async def app(kafka: Cluster) -> AsyncIterator[Member]:
    """The only member of billing; there are ten records in each partition."""
    kafka.topic("orders").fill(20)
    member = await Member.connect(kafka)
    await member.enter((0, 1))
    yield member
    await member.close()


def fetch(wire: Wire, offset: int, partition: int = 0, *, topic_id: bytes | None = None) -> asyncio.Future[Any]:
    parts = [FetchPartition(partition, fetch_offset=offset)]
    topic = (
        FetchTopic("orders", partitions=parts) if topic_id is None else FetchTopic(topic_id=topic_id, partitions=parts)
    )
    request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=[topic])
    return wire.start(request, 11 if topic_id is None else 13)


async def commit_as_a_tool(kafka: Cluster, offset: int) -> None:
    wire = await Wire.connect(kafka.broker(kafka.offsets_log("billing").leader).address, client_id="admin-tool")
    rows = [OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, offset)])]
    request = OffsetCommitRequest(group_id="billing", generation_id_or_member_epoch=-1, topics=rows)
    assert (await wire.send(request, 8)).topics[0].partitions[0].error_code == 0
    await wire.close()


def told(kafka: Cluster) -> list[str]:
    """The sentences about offsets, each on one line."""
    return [one.text for one in kafka.group("billing").history().incidents if one.kind == "offsets"]


@pytest.mark.parametrize("by_id", [False, True])
async def test_records_that_were_deleted_before_they_were_read(kafka: Cluster, app: Member, by_id: bool) -> None:
    topic_id = kafka.state.topics["orders"].topic_id if by_id else None
    await fetch(app.wire, 0, topic_id=topic_id)
    await app.commit(3)
    await app.wire.send(DeleteRecordsRequest([DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 8)])], 1000), 2)
    await fetch(app.wire, 3, topic_id=topic_id)
    await fetch(app.wire, 8, topic_id=topic_id)
    [words] = told(kafka)
    assert words == (
        "app reads orders-0 from 8 on, not from the group's committed offset 3: offsets 3 to 7, up to 5 records, were "
        "not "
        "delivered to it; its Fetch at 3 got OFFSET_OUT_OF_RANGE"
    )
    assert "up to 5 records, were not delivered to it" in " ".join(kafka.group("billing").explain().split())


async def test_a_seek_over_records_and_to_the_end(kafka: Cluster, app: Member) -> None:
    await app.commit(4)
    await fetch(app.wire, 6)
    await fetch(app.wire, 10, partition=1)
    await fetch(app.wire, 12, partition=1)  # beyond the log's end: refused
    await fetch(app.wire, 10, partition=1)
    await app.commit(10, partition=1)
    assert told(kafka) == [
        "app reads orders-0 from 6 on, not from the group's committed offset 4: offsets 4 to 5, up to 2 records, were "
        "not "
        "delivered to it",
    ]


async def test_reading_and_committing_is_no_incident(kafka: Cluster, app: Member) -> None:
    await fetch(app.wire, 0)
    await app.commit(10)
    await fetch(app.wire, 10)  # nothing to read
    other = await Member.connect(kafka, client_id="other")  # as if it had the partition for a while
    kafka.topic("orders").fill(6)
    await fetch(other.wire, 10)
    await app.commit(13)
    await fetch(app.wire, 13)
    await other.close()
    assert told(kafka) == []


async def test_offsets_that_decreased_and_that_no_member_committed(kafka: Cluster, app: Member) -> None:
    await app.commit(7)
    await app.commit(2)
    await app.commit(5, partition=1)
    await kafka.group("billing").remove("app")
    await commit_as_a_tool(kafka, 9)
    await commit_as_a_tool(kafka, 0)
    assert told(kafka) == [
        "app decreased committed offsets: orders-0 7 → 2; a member that starts there reads the records between again",
        '"admin-tool", no member of the group, set committed offsets: orders-0 2 → 9',
        '"admin-tool", no member of the group, set committed offsets: orders-0 9 → 0',
    ]


async def test_a_consumer_that_commits_without_being_a_member_is_no_tool(kafka: Cluster) -> None:
    kafka.topic("orders").fill(20)
    address = kafka.broker(kafka.offsets_log("billing").leader).address
    wire = await Wire.connect(address, client_id="admin-tool")
    await fetch(wire, 0)
    await commit_as_a_tool(kafka, 9)
    await wire.close()
    assert told(kafka) == []


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            "expired",
            "committed offsets expired: the group had been without members, or without a subscription to the topic, "
            "for "
            "offsets.retention.minutes: orders-0 (7); a member that starts there uses its auto.offset.reset",
        ),
        (
            "topic",
            "committed offsets were deleted with their topic: orders-0 (7); a member that starts there uses its "
            "auto.offset.reset",
        ),
        (
            "group",
            'committed offsets were deleted by "app" (DeleteGroups): orders-0 (7); a member that starts there uses its '
            "auto.offset.reset",
        ),
    ],
)
@pytest.mark.parametrize("as_version", ["3.9", "4.1"])
async def test_offsets_that_are_no_more(how: str, words: str, as_version: str) -> None:
    config = {"offsets.retention.minutes": 1, "group.initial.rebalance.delay.ms": 0}
    async with Cluster(topics={"orders": 2}, clock="manual", as_version=as_version, config=config) as kafka:
        kafka.observe()
        app = await Member.connect(kafka)
        await app.enter()
        await app.commit(7)
        await kafka.group("billing").remove("app")
        if how == "expired":
            await kafka.time.advance("12m")
        elif how == "topic":
            kafka.state.delete_topic("orders")
        else:
            await app.wire.send(DeleteGroupsRequest(groups_names=["billing"]), 2)
        await kafka.journal.next(event="offsets_deleted", since=0)
        assert told(kafka) == [words]
        await app.close()


@pytest.mark.parametrize(
    ("committed", "deed", "words"),
    [
        (
            9,
            lambda log: log.lose_tail(to=6),
            "orders-0 lost its last records, which were committed: offsets 6 to 9; the group's committed offset is 9, "
            "3 beyond the log end; new records get these offsets",
        ),
        (
            5,
            lambda log: log.lose_tail(to=6),
            "orders-0 lost its last records, which were committed: offsets 6 to 9; the group's committed offset is 5",
        ),
        (
            2,
            lambda log: log.lose_head(to=6),
            "orders-0 lost its first records: offsets 0 to 5; the group's committed offset is 2, before the log start: "
            "up to 4 records can no longer be read",
        ),
        (
            6,
            lambda log: log.lose_head(to=6),
            "orders-0 lost its first records: offsets 0 to 5; the group's committed offset is 6",
        ),
    ],
)
async def test_records_that_a_log_has_lost(kafka: Cluster, app: Member, committed: int, deed: Any, words: str) -> None:
    await app.commit(committed)
    deed(kafka.log("orders", 0))
    deed(kafka.log("orders", 1))  # of which the group has committed nothing
    assert told(kafka) == [words]


@pytest.mark.kafka(topics={"orders": 2}, clock="manual", config={"group.initial.rebalance.delay.ms": 0})
async def test_a_commit_of_a_partition_that_is_assigned_to_another_member(kafka: Cluster) -> None:
    kafka.topic("orders").fill(200)
    one, two = await pair(kafka)  # each has a partition of its own
    owner, other = (one, two) if kafka.group("billing").members[0].assignment == {"orders": [0]} else (two, one)
    for member, offset in ((other, 90), (owner, 50), (owner, 95), (other, 60)):
        assert (await member.commit(offset)).topics[0].partitions[0].error_code == 0
    again = "; a member that starts there reads the records between again"
    assert told(kafka) == [
        f"{owner.instance} decreased committed offsets: orders-0 90 → 50{again}",
        f"{other.instance} decreased committed offsets: orders-0 95 → 60 (orders-0 is assigned to {owner.instance}, "
        f"not to "
        f"{other.instance}){again}",
    ]
    await one.close()
    await two.close()


async def test_lost_records_are_not_delivered_again(kafka: Cluster, app: Member) -> None:
    await app.commit(10)
    await app.commit(8, partition=1)
    kafka.log("orders", 0).lose_tail(to=6)
    await app.commit(6)
    await app.commit(2, partition=1)
    await app.commit(9)
    await app.commit(6)  # of the records that came since
    back = [words for words in told(kafka) if "decreased committed offsets" in words]
    assert back == [
        "app decreased committed offsets: orders-0 10 → 6; the records between are lost",
        "app decreased committed offsets: orders-1 8 → 2; a member that starts there reads the records between again",
        "app decreased committed offsets: orders-0 9 → 6; a member that starts there reads the records between again",
    ]


# ------------------------------------------------------------------------------------------------ auto.offset.reset=latest


class Latest:
    """Consumer with auto.offset.reset=latest whose group has no committed offset, as far as its requests show."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    async def looks(self) -> None:
        """Send Metadata for the topic, from which the consumer learns the number of its partitions."""
        await self.wire.send(MetadataRequest([MetadataRequestTopic(name="orders")]), 9)

    async def begins(self, *partitions: int) -> dict[int, int]:
        """Look up the log end offsets with ListOffsets and fetch from there; return them by partition."""
        asked = [ListOffsetsPartition(partition, timestamp=-1) for partition in partitions]
        answer = await self.wire.send(ListOffsetsRequest(-1, topics=[ListOffsetsTopic("orders", asked)]), 5)
        found = {one.partition_index: one.offset for one in answer.topics[0].partitions}
        for partition, offset in found.items():
            await fetch(self.wire, offset, partition)
        return found


async def test_added_partitions_skip_records_and_a_first_start_does_not(kafka: Cluster, app: Member) -> None:
    """Records came to the new partitions before the group's consumers knew of them: sarama's issue of lost messages."""
    latest = Latest(app.wire)
    await latest.looks()
    assert await latest.begins(0, 1) == {0: 10, 1: 10}
    kafka.topic("orders").grow_to(4)
    kafka.topic("orders").fill(20)
    await latest.looks()
    assert await latest.begins(2, 3) == {2: 5, 3: 5}
    await app.commit(5, partition=2)
    first, added = told(kafka)
    assert first == (
        "app begins to read orders-0 from 10 and orders-1 from 10 on: the group had no committed offset there, and "
        "the log ended there"
        " (auto.offset.reset=latest, or a seek to the end); up to 20 records before that are not read: the partitions "
        "were there"
        " before the group read the topic"
    )
    assert added == (
        "app begins to read orders-2 from 5 and orders-3 from 5 on: the group had no committed offset there, and the "
        "log ended there"
        " (auto.offset.reset=latest, or a seek to the end): offsets 0 to 4 of orders-2 and offsets 0 to 4 of "
        "orders-3, up to 10"
        " records, were delivered to no member; the topic got these partitions while the group was reading it"
    )


async def test_where_another_member_had_read_without_a_commit(kafka: Cluster, app: Member) -> None:
    await Latest(app.wire).begins(0)
    kafka.topic("orders").fill(6)
    await kafka.group("billing").remove("app")
    other = await Member.connect(kafka, client_id="other")
    await other.enter((0, 1))
    assert await Latest(other.wire).begins(0) == {0: 13}
    assert told(kafka)[-1].endswith(
        ": offsets 10 to 12 of orders-0, up to 3 records, were delivered to no member; the group had read up to these "
        "offsets before"
    )
    await other.close()


async def test_a_log_end_requested_for_the_lag_begins_nothing(kafka: Cluster, app: Member) -> None:
    latest = Latest(app.wire)
    await fetch(app.wire, 0)
    await app.commit(10)
    kafka.topic("orders").fill(6)
    assert await latest.begins(0) == {0: 13}
    stranger = Latest(await Wire.connect(kafka.bootstrap, client_id="lag-exporter"))
    await stranger.begins(0, 1)
    await stranger.wire.close()
    assert not [words for words in told(kafka) if "begins to read" in words]


async def test_an_offset_that_was_committed_before_a_fetch_begins_there_too(kafka: Cluster, app: Member) -> None:
    asked = [ListOffsetsPartition(0, timestamp=-1)]
    await app.wire.send(ListOffsetsRequest(-1, topics=[ListOffsetsTopic("orders", asked)]), 5)
    await app.commit(10)
    await fetch(app.wire, 10)
    [words] = told(kafka)
    assert "app begins to read orders-0 from 10 on" in words
    assert "up to 10 records before that are not read" in words

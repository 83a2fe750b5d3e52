"""Share groups on a running cluster, as raw requests: locks on the broker's clock, sessions, moves, restarts, offsets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_sim import Cluster
from kafka_wire import record_batch
from kafka_wire.errors import Err
from kafka_wire.messages import (
    k83_initialize_share_group_state,
    k84_read_share_group_state,
    k85_write_share_group_state,
    k86_delete_share_group_state,
    k87_read_share_group_state_summary,
)
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from kafka_wire.messages.k77_share_group_describe import ShareGroupDescribeRequest
from kafka_wire.messages.k78_share_fetch import ShareFetchRequest
from kafka_wire.messages.k83_initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from kafka_wire.messages.k83_initialize_share_group_state import PartitionData as Made
from kafka_wire.messages.k84_read_share_group_state import PartitionData as ReadPartition
from kafka_wire.messages.k84_read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from kafka_wire.messages.k85_write_share_group_state import PartitionData as Written
from kafka_wire.messages.k85_write_share_group_state import StateBatch, WriteShareGroupStateRequest, WriteStateData
from kafka_wire.messages.k86_delete_share_group_state import DeleteShareGroupStateRequest, DeleteStateData
from kafka_wire.messages.k86_delete_share_group_state import PartitionData as Gone
from kafka_wire.messages.k87_read_share_group_state_summary import PartitionData as Summed
from kafka_wire.messages.k87_read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from kafka_wire.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kafka_wire.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafka_wire.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from tests.shares.harness import ANN, BOB, GROUP, TOPIC, Member, configure, produce
from tests.support.wire import Wire

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
CONFIG = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.share.assignment.interval.ms": 0,
}
OLD = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
}


_OPEN: list[Wire] = []
"""The connections of the test that runs."""


async def connect(bootstrap: str) -> Wire:
    wire = await Wire.connect(bootstrap)
    _OPEN.append(wire)
    return wire


def led_by(kafka: Cluster, node: int, *names: str) -> None:
    """All partitions that matter are led by one broker."""
    for name in names:
        log = kafka.log(name)
        if log.leader != node:
            log.move_to(node)


@asynccontextmanager
async def running(*args: Any, **options: Any) -> AsyncIterator[Cluster]:
    """A cluster, whose connections are closed at the end."""
    async with Cluster(*args, **options) as kafka:
        try:
            yield kafka
        finally:
            while _OPEN:
                await _OPEN.pop().close()


@asynccontextmanager
async def cluster(
    brokers: int = 1, *, as_version: str = "4.4", **options: Any
) -> AsyncIterator[tuple[Cluster, Member]]:
    """A cluster with a topic of one partition, and a member of a group that begins at the earliest offset."""
    config = {**(CONFIG if as_version > "4.2" else OLD), **options.pop("config", {})}
    async with running(brokers, {TOPIC: 1}, as_version=as_version, config=config, **options) as kafka:
        wire = await connect(kafka.bootstrap)
        member = Member(wire, kafka.state.topics[TOPIC].topic_id, version=2 if as_version > "4.1" else 1)
        await member.find()
        await configure(wire, share_auto_offset_reset="earliest", share_record_lock_duration_ms=15000)
        yield kafka, member


async def another(kafka: Cluster, member: Member, member_id: str = BOB) -> Member:
    return Member(await connect(kafka.bootstrap), member.topic_id, member_id, version=member.version)


async def offsets(member: Member) -> tuple[int, int]:
    """Start offset and lag in partition 0."""
    topics = [DescribeShareGroupOffsetsRequestTopic(TOPIC, [0])]
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(GROUP, topics)])
    row = (await member.wire.send(request, 1)).groups[0].topics[0].partitions[0]
    assert row.error_code == Err.NONE
    return row.start_offset, row.lag


async def test_records_are_locked_acknowledged_and_come_again() -> None:
    async with cluster(clock="manual") as (kafka, ann):
        await ann.join()
        await produce(ann.wire, 5, 5)
        assert await ann.acquired() == [(0, 9, 1)]
        assert await offsets(ann) == (-1, -1)
        assert (await ann.acknowledge((0, 1, [ACCEPT]))).error_code == Err.NONE
        assert await offsets(ann) == (0, 8), "the start as it was, and two that are done with"
        await ann.acknowledge((2, 4, [RELEASE, REJECT, ACCEPT]))
        assert await ann.acquired() == [(2, 2, 2)]
        await kafka.time.advance("14999ms")
        assert await ann.acquired() == []
        await kafka.time.advance("1ms")
        assert await ann.acquired() == [(2, 2, 3), (5, 9, 2)]
        assert await offsets(ann) == (2, 6)


async def test_a_fetch_waits_until_a_lock_ends_or_a_record_comes() -> None:
    async with cluster(clock="manual") as (kafka, ann):
        await ann.join()
        assert await ann.acquired() == []
        waiting = ann.wire.start(request(ann), ann.version)
        await produce(await connect(kafka.bootstrap), 1)
        answer = await waiting
        ann.session_epoch += 1
        assert [row.acquired_records[0].last_offset for topic in answer.responses for row in topic.partitions] == [0]
        waiting = ann.wire.start(request(ann), ann.version)
        await kafka.time.advance("15s")
        answer = await waiting
        assert answer.responses[0].partitions[0].acquired_records[0].delivery_count == 2


def request(member: Member, **how: int) -> Any:
    limits = {"max_wait_ms": 60_000, "min_bytes": 1, "max_records": 500, "batch_size": 500, **how}
    return ShareFetchRequest(GROUP, member.member_id, member.session_epoch, **limits)


async def test_only_the_batches_that_matter_are_sent() -> None:
    async with cluster() as (_, ann):
        await ann.join()
        await produce(ann.wire, 4, 4, 4)
        row = (await ann.fetch(max_records=1)).responses[0].partitions[0]
        assert [header.base_offset for _, header in record_batch.batches(bytes(row.records))] == [0]
        assert await ann.acquired(max_records=2, share_acquire_mode=1) == [(4, 5, 1)]
        assert await ann.acquired() == [(6, 7, 1), (8, 11, 1)]


async def test_acknowledgements_ride_on_fetches_and_are_told_apart() -> None:
    async with cluster() as (_, ann):
        await ann.join()
        await produce(ann.wire, 4)
        await ann.fetch()
        row = (await ann.fetch((0, 1, [ACCEPT]), (3, 3, [9]))).responses[0].partitions[0]
        assert (row.error_code, row.acknowledge_error_code) == (0, Err.INVALID_REQUEST)
        row = (await ann.fetch((0, 3, [ACCEPT]))).responses[0].partitions[0]
        assert (row.error_code, row.acknowledge_error_code) == (0, 0)
        row = await ann.acknowledge((2, 1, [ACCEPT]))
        assert row.error_code == Err.INVALID_REQUEST
        assert (await ann.acknowledge((9, 9, [ACCEPT]))).error_code == Err.INVALID_RECORD_STATE


async def test_locks_are_renewed_where_the_request_says_that_it_does() -> None:
    async with cluster(clock="manual") as (kafka, ann):
        await ann.join()
        await produce(ann.wire, 1)
        await ann.fetch()
        assert (await ann.acknowledge((0, 0, [RENEW]))).error_code == Err.INVALID_REQUEST
        await kafka.time.advance("10s")
        assert (await ann.acknowledge((0, 0, [RENEW]), renew=True)).error_code == Err.NONE
        await kafka.time.advance("10s")
        assert await ann.acquired() == []
        assert (await ann.fetch((0, 0, [RENEW]), is_renew_ack=True)).error_code == Err.INVALID_REQUEST
        nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
        assert (await ann.fetch((0, 0, [RENEW]), is_renew_ack=True, **nothing)).error_code == Err.NONE
        await kafka.time.advance("15s")
        assert await ann.acquired() == [(0, 0, 2)]


async def test_sessions_count_their_requests_and_end() -> None:
    async with cluster() as (kafka, ann):
        await ann.join()
        await produce(ann.wire, 2)
        assert (await ann.fetch(epoch=5)).error_code == Err.SHARE_SESSION_NOT_FOUND
        assert (await ann.fetch((0, 0, [ACCEPT]), epoch=0)).error_code == Err.INVALID_REQUEST
        assert await ann.acquired(epoch=0) == [(0, 1, 1)]
        assert (await ann.fetch(epoch=3)).error_code == Err.INVALID_SHARE_SESSION_EPOCH
        assert await ann.acknowledge((0, 0, [ACCEPT]), epoch=0) is Err.INVALID_SHARE_SESSION_EPOCH
        ann.session_epoch = 1
        bob = await another(kafka, ann)
        assert await bob.acknowledge((0, 0, [ACCEPT]), epoch=1) is Err.SHARE_SESSION_NOT_FOUND
        await bob.heartbeat(0)
        assert await bob.acquired() == []
        assert (await bob.acknowledge((0, 0, [ACCEPT]))).error_code == Err.INVALID_RECORD_STATE
        assert await ann.acquired((0, 0, [ACCEPT]), epoch=-1) == []
        assert await bob.acquired() == [(1, 1, 2)]
        await bob.wire.close()  # and its session with it
        ann.session_epoch = 0
        assert await ann.acquired(max_wait_ms=20_000) == [(1, 1, 3)]


async def test_who_opens_a_session_anew_keeps_what_it_has_until_its_connection_goes() -> None:
    async with cluster() as (kafka, ann):
        await ann.join()
        await produce(ann.wire, 2)
        assert await ann.acquired() == [(0, 1, 1)]
        assert await ann.acquired(epoch=0) == []
        elsewhere = await another(kafka, ann, ANN)
        assert await elsewhere.acquired() == []
        await elsewhere.wire.close()
        assert await ann.acquired(epoch=0, max_wait_ms=20_000) == [(0, 1, 2)]


async def test_in_4_1_a_member_id_is_a_uuid_and_what_is_given_back_does_not_count() -> None:
    async with cluster(as_version="4.1") as (kafka, ann):
        await ann.join()
        await produce(ann.wire, 1)
        assert (await Member(ann.wire, ann.topic_id, "x!", version=1).fetch()).error_code == Err.UNKNOWN_SERVER_ERROR
        assert await ann.acquired() == [(0, 0, 1)]
        await ann.fetch(epoch=-1)
        bob = await another(kafka, ann)
        assert await bob.acquired() == [(0, 0, 1)]
        await bob.wire.close()


@pytest.mark.parametrize(("as_version", "without"), [("4.2", Err.UNKNOWN_SERVER_ERROR), ("4.3", Err.INVALID_REQUEST)])
async def test_since_4_2_a_member_id_is_a_text_of_at_most_36_characters(as_version: str, without: Err) -> None:
    """Measured on 4.2.1, 4.3.1 and 4.4.0."""
    async with cluster(as_version=as_version) as (_, ann):

        async def fetched(member_id: str | None, group_id: str | None = GROUP) -> Err:
            fetch = ShareFetchRequest(group_id, member_id, 0, max_wait_ms=0, max_bytes=1, max_records=1)
            return Err((await ann.wire.send(fetch, 1)).error_code)

        assert await fetched("x" * 36) is Err.NONE
        assert await fetched("x" * 37) is Err.INVALID_REQUEST
        assert await fetched("") is await fetched("", None) is Err.INVALID_REQUEST
        assert await fetched(None) is await fetched("x", None) is await fetched(None, None) is without


async def test_where_they_are_off_4_1_says_so_and_shows_no_feature() -> None:
    async with running(1, {TOPIC: 1}) as kafka:
        wire = await connect(kafka.bootstrap)
        ann = Member(wire, kafka.state.topics[TOPIC].topic_id, version=1)
        assert (await ann.heartbeat(0)).error_code == Err.UNSUPPORTED_VERSION
        assert (await ann.fetch()).error_code == Err.UNSUPPORTED_VERSION
        assert await ann.acknowledge((0, 0, [ACCEPT]), epoch=1) is Err.UNSUPPORTED_VERSION
        shown = await wire.send(ApiVersionsRequest("tests", "1"), 4)
        assert "share.version" in [one.name for one in shown.supported_features]
        assert "share.version" not in [one.name for one in shown.finalized_features]
        described = await wire.send(ShareGroupDescribeRequest([GROUP]), 1)
        assert described.groups[0].error_code == Err.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("as_version", "level"), [("4.2", 1), ("4.4", 2)])
async def test_later_releases_have_them(as_version: str, level: int) -> None:
    async with running(as_version=as_version) as kafka:
        wire = await connect(kafka.bootstrap)
        shown = await wire.send(ApiVersionsRequest("tests", "1"), 4)
        assert [one.max_version_level for one in shown.finalized_features if one.name == "share.version"] == [level]


async def test_a_poison_record_is_archived_at_the_limit() -> None:
    async with cluster(clock="manual") as (kafka, ann):
        await configure(ann.wire, share_delivery_count_limit=2)
        await ann.join()
        await produce(ann.wire, 1)
        for count in (1, 2):
            assert await ann.acquired() == [(0, 0, count)]
            await kafka.time.advance("15s")
        assert await ann.acquired() == []
        assert await offsets(ann) == (0, 0)


async def test_another_leader_goes_on_from_what_was_written() -> None:
    async with cluster(3) as (kafka, ann):
        log = kafka.log(TOPIC, 0)
        led_by(kafka, 1, TOPIC, "__consumer_offsets")
        await ann.join()
        await produce(ann.wire, 4)
        assert await ann.acquired() == [(0, 3, 1)]
        await ann.acknowledge((0, 1, [ACCEPT]), (2, 2, [RELEASE]))
        waiting = ann.wire.start(request(ann), ann.version)
        log.move_to(2)
        row = (await waiting).responses[0].partitions[0]
        assert (row.error_code, row.current_leader.leader_id) == (Err.NOT_LEADER_OR_FOLLOWER, 2)
        moved = Member(await connect(kafka.bootstrap.split(",")[1]), ann.topic_id)
        assert await moved.acquired() == [(2, 2, 2), (3, 3, 1)], "what was locked was never written down"


async def test_coordinators_move_and_a_restart_loads_all_of_it(tmp_path: Path) -> None:
    config = {"offsets.topic.replication.factor": 2, "share.coordinator.state.topic.replication.factor": 2}
    async with cluster(2, data_dir=tmp_path, config=config) as (kafka, ann):
        led_by(kafka, 1, TOPIC, "__consumer_offsets")
        await ann.join()
        await produce(ann.wire, 4)
        await ann.fetch()
        led_by(kafka, 2, "__share_group_state")
        assert (await ann.acknowledge((0, 0, [ACCEPT]))).error_code == Err.NONE
        led_by(kafka, 1, "__share_group_state")
        assert (await ann.acknowledge((1, 1, [ACCEPT]))).error_code == Err.NONE
        assert await offsets(ann) == (1, 2)
    async with running(2, data_dir=tmp_path, as_version="4.4", config={**CONFIG, **config}) as again:
        led_by(again, 1, TOPIC, "__consumer_offsets", "__share_group_state")
        wire = await connect(again.bootstrap)
        member = Member(wire, ann.topic_id)
        member.member_epoch = ann.member_epoch
        answer = await member.heartbeat()
        assert answer.error_code == Err.NONE
        assert await offsets(member) == (2, 2), "the connection was closed, and what it had is free"
        assert await member.acquired() == [(2, 3, 2)]
        described = (await wire.send(ShareGroupDescribeRequest([GROUP]), 1)).groups[0]
        assert (described.group_state, [one.member_id for one in described.members]) == ("Stable", [ANN])


async def test_while_the_state_s_log_is_stuck_nobody_is_answered() -> None:
    async with cluster() as (kafka, ann):
        await ann.join()
        await produce(ann.wire, 1)
        await ann.fetch()
        with kafka.log("__share_group_state").stuck():
            answered = ann.wire.start(_acknowledge(ann), 2)
            bob = await another(kafka, ann)
            assert await bob.acquired() == []
            assert not answered.done()
        assert (await answered).responses[0].partitions[0].error_code == Err.NONE
        assert await bob.acquired() == []
        await bob.wire.close()


def _acknowledge(member: Member) -> Any:
    from kafka_wire.messages.k79_share_acknowledge import (
        AcknowledgementBatch,
        AcknowledgePartition,
        AcknowledgeTopic,
        ShareAcknowledgeRequest,
    )

    said = [AcknowledgementBatch(0, 0, [ACCEPT])]
    topics = [AcknowledgeTopic(member.topic_id, [AcknowledgePartition(0, said)])]
    return ShareAcknowledgeRequest(GROUP, member.member_id, member.session_epoch, topics=topics)


async def test_offsets_are_altered_and_forgotten_and_the_group_deleted() -> None:
    async with cluster() as (kafka, ann):
        await ann.join()
        await produce(ann.wire, 8)
        await ann.fetch()
        await ann.acknowledge((0, 3, [ACCEPT]))
        await ann.fetch(epoch=-1)
        await ann.wire.close()  # the leader has its own state of the partition until then
        ann.wire = await connect(kafka.bootstrap)
        at = [AlterShareGroupOffsetsRequestPartition(0, 6)]
        alter = AlterShareGroupOffsetsRequest(GROUP, [AlterShareGroupOffsetsRequestTopic(TOPIC, at)])
        assert (await ann.wire.send(alter, 0)).error_code == Err.NON_EMPTY_GROUP
        await ann.heartbeat(-1)
        assert (await ann.wire.send(alter, 0)).responses[0].partitions[0].error_code == Err.NONE
        assert await offsets(ann) == (6, 2)
        await ann.join()
        assert await ann.acquired(epoch=0) == [(6, 7, 1)]
        await ann.fetch(epoch=-1)
        await ann.heartbeat(-1)
        forget = DeleteShareGroupOffsetsRequest(GROUP, [DeleteShareGroupOffsetsRequestTopic(TOPIC)])
        assert (await ann.wire.send(forget, 0)).responses[0].error_code == Err.NONE
        assert await offsets(ann) == (-1, -1)
        deleted = await ann.wire.send(DeleteGroupsRequest([GROUP]), 2)
        assert deleted.results[0].error_code == Err.NONE
        described = (await ann.wire.send(ShareGroupDescribeRequest([GROUP]), 1)).groups[0]
        assert described.error_code == Err.GROUP_ID_NOT_FOUND


async def test_brokers_may_ask_the_share_coordinator_over_the_wire() -> None:
    async with cluster() as (_kafka, ann):
        await ann.join()
        wire, topic = ann.wire, ann.topic_id

        async def row(request: Any, version: int = 0) -> Any:
            return (await wire.send(request, version)).results[0].partitions[0]

        made = await row(InitializeShareGroupStateRequest("h", [InitializeStateData(topic, [Made(0, 1, 5)])]))
        assert made.error_code == Err.NONE
        batch = StateBatch(5, 6, 2, 1)
        data = WriteStateData(topic, [Written(0, 1, 0, 5, 2, [batch])])
        assert (await row(WriteShareGroupStateRequest("h", [data]), 1)).error_code == Err.NONE
        read = await row(ReadShareGroupStateRequest("h", [ReadStateData(topic, [ReadPartition(0, 0)])]))
        assert (read.start_offset, [(one.first_offset, one.last_offset) for one in read.state_batches]) == (5, [(5, 6)])
        summary = await row(ReadShareGroupStateSummaryRequest("h", [ReadStateSummaryData(topic, [Summed(0, 0)])]), 1)
        assert (summary.start_offset, summary.delivery_complete_count) == (5, 2)
        gone = DeleteStateData(topic, [Gone(0)])
        assert (await row(DeleteShareGroupStateRequest("h", [gone]))).error_code == Err.NONE
        read = await row(ReadShareGroupStateRequest("h", [ReadStateData(topic, [ReadPartition(0, 0)])]))
        assert read.error_code == Err.INVALID_REQUEST
        assert (await wire.send(DeleteShareGroupStateRequest("", [gone]), 0)).results == []
        assert (await wire.send(DeleteShareGroupStateRequest("h", [DeleteStateData(topic, [])]), 0)).results == []


async def test_waits_the_journal_and_expire_know_share_groups() -> None:
    async with cluster(clock="manual") as (kafka, ann):
        group = kafka.group(GROUP)
        await ann.join()
        await group.stable(members=1)
        (view,) = group.members
        assert (view.member_id, view.topics, view.assignment) == (ANN, [TOPIC], {TOPIC: [0]})
        assert group.generation == ann.member_epoch
        seen = [event for event in kafka.journal.events if event["event"] == "epochs"][-1]
        assert (seen["state"], seen["assignor"], seen["members"][0]["protocol"]) == ("Stable", "simple", "share")
        await kafka.time.advance("60s")
        assert len(group.members) == 1, "its connection is open, so it could heartbeat"
        fired = await kafka.time.advance("60s", expire=[ANN])
        assert any("session" in text for text in fired), fired
        await group.empty()
        assert GROUP in group.explain()


async def test_a_lock_s_end_is_told_of_when_time_is_moved() -> None:
    async with cluster(clock="manual") as (kafka, ann):
        await ann.join()
        await produce(ann.wire, 1)
        await ann.fetch()
        found = kafka.time.next_timer()
        assert found is not None
        assert found[1] == f"lock of group {GROUP} on {TOPIC}-0"
        assert f"lock of group {GROUP} on {TOPIC}-0" in await kafka.time.advance("15s")


_UNINITIALIZED = "{} operation on uninitialized share partition not allowed."
_STATES = {
    "ReadShareGroupState": (k84_read_share_group_state, Err.INVALID_REQUEST, _UNINITIALIZED.format("Read")),
    "ReadShareGroupStateSummary": (k87_read_share_group_state_summary, Err.UNKNOWN_TOPIC_OR_PARTITION, None),
    "WriteShareGroupState": (k85_write_share_group_state, Err.INVALID_REQUEST, _UNINITIALIZED.format("Write")),
    "DeleteShareGroupState": (k86_delete_share_group_state, Err.UNKNOWN_TOPIC_OR_PARTITION, None),
    "InitializeShareGroupState": (k83_initialize_share_group_state, Err.UNKNOWN_TOPIC_OR_PARTITION, None),
}


@pytest.mark.parametrize("api", _STATES)
async def test_states_of_the_zero_topic_id_and_of_topics_without_partitions(api: str) -> None:
    """Measured on 4.1.0 and 4.4.0."""
    module, error, words = _STATES[api]
    request_class = getattr(module, f"{api}Request")
    topic_class = dict(request_class.__fields__)["topics"].item
    part_class = dict(topic_class.__fields__)["partitions"].item
    async with cluster() as (kafka, ann):
        await ann.heartbeat(0)  # which makes the coordinators of share groups' state
        zero, there = bytes(16), kafka.state.topics[TOPIC].topic_id

        async def told(*topics: tuple[bytes, list[int]]) -> list[tuple[bytes, list[Any]]]:
            rows = [topic_class(topic_id, [part_class(number) for number in numbers]) for topic_id, numbers in topics]
            answer = await ann.wire.send(request_class("other", rows), 0)
            return [
                (one.topic_id, [(part.partition, part.error_code, part.error_message) for part in one.partitions])
                for one in answer.results
            ]

        assert await told((zero, [0])) == [(zero, [(0, error, words or error.text)])]
        negative = "The partition id cannot be a negative number."
        assert await told((zero, [-1])) == [(zero, [(-1, Err.INVALID_REQUEST, negative)])]
        for topics in ([(there, [0]), (zero, [])], [(zero, []), (there, [0])], [(there, [0]), (there, [])]):
            found = await told(*topics)
            assert bool(found) == (api == "InitializeShareGroupState")


@pytest.mark.parametrize(("version", "as_version"), [(0, "4.1"), (1, "4.4")])
async def test_offsets_of_a_group_without_members_are_asked_of_the_share_coordinators(
    version: int, as_version: str
) -> None:
    """Measured on 4.1.0 and 4.4.0: `__share_group_state` is created, and what was never made has no offset."""
    config = CONFIG if as_version > "4.2" else OLD
    async with running(1, {"a": 3, "b": 3}, as_version=as_version, config=config) as kafka:
        wire = await connect(kafka.bootstrap)
        while (await wire.send(FindCoordinatorRequest("odd", 0), 1)).error_code:
            pass

        async def told(*topics: tuple[str, list[int]], group: str = "odd") -> Any:
            asked = [DescribeShareGroupOffsetsRequestTopic(*one) for one in topics]
            request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, asked)])
            (found,) = (await wire.send(request, version)).groups
            rows = [
                (one.topic_name, [(part.partition_index, part.start_offset) for part in one.partitions])
                for one in found.topics
            ]
            return rows or Err(found.error_code)

        assert await told(("x", [0])) == [("x", [(0, -1)])]
        assert "__share_group_state" not in kafka.state.topics
        missing, there = ("x", [(1, -1)]), ("a", [(0, -1)])
        expected = [missing, there] if as_version == "4.1" else [there, missing]
        assert await told(("x", [1]), ("a", [0])) == expected
        assert "__share_group_state" in kafka.state.topics
        assert await told(("b", [2, 0, 7])) == [("b", [(0, -1), (2, -1), (7, -1)])]
        assert await told(("x", [1]), group="") == [missing]
        assert await told(("x", [1]), ("a", [0]), group="") is Err.UNKNOWN_SERVER_ERROR
        await wire.close()


async def test_what_is_named_twice_or_is_nowhere_is_answered_as_at_kafka() -> None:
    """Measured on 4.4.0 and 4.1.0."""
    async with cluster() as (kafka, ann):
        kafka.state.create_topic("t", 2)

        async def alter(*topics: tuple[str, dict[int, int]]) -> list[tuple[str, list[int]]]:
            rows = [
                AlterShareGroupOffsetsRequestTopic(
                    name, [AlterShareGroupOffsetsRequestPartition(*one) for one in partitions.items()]
                )
                for name, partitions in topics
            ]
            answer = await ann.wire.send(AlterShareGroupOffsetsRequest("odd", rows), 0)
            return [(one.topic_name, [part.partition_index for part in one.partitions]) for one in answer.responses]

        async def told(*topics: tuple[str, list[int]]) -> Any:
            asked = [DescribeShareGroupOffsetsRequestTopic(*one) for one in topics]
            request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("odd", asked)])
            (group,) = (await ann.wire.send(request, 1)).groups
            rows = [
                (one.topic_name, [(part.partition_index, part.start_offset) for part in one.partitions])
                for one in group.topics
            ]
            return rows or Err(group.error_code)

        assert await alter(("t", {0: 3}), ("no", {0: 1}), ("t", {1: 4})) == [("t", [0, 1]), ("no", [0])]
        assert await alter(("no", {0: 1}), ("t", {0: 3}), ("no", {}), ("no", {0: 1})) == [("no", [0, 0]), ("t", [0])]
        assert await alter(("t", {}), ("no", {})) == [("t", [])]
        assert await told(("t", [1, 0, 1]), ("no", [0, 0]), ("t", [1]), ("no", [2])) == [
            ("t", [(0, 3), (1, 4)]),
            ("no", [(0, -1), (0, -1)]),
            ("no", [(2, -1)]),
        ]
        assert await told(("t", [])) is Err.UNKNOWN_SERVER_ERROR
        assert await told(("t", [0, -1])) is Err.UNKNOWN_SERVER_ERROR
        assert await told(("no", []), ("t", [7])) == [("t", [(7, -1)]), ("no", [])]
        rows = [DeleteShareGroupOffsetsRequestTopic("t")] * 2
        deleted = await ann.wire.send(DeleteShareGroupOffsetsRequest("odd", rows), 0)
        assert [(one.topic_name, one.error_code) for one in deleted.responses] == [("t", 0)]


TOPIC_ID = "A" * 22


@pytest.mark.parametrize(
    ("key", "from_4_2_1", "before"),
    [
        (f"g:{TOPIC_ID}:0", True, True),
        (f"g:{TOPIC_ID}==:0", True, True),
        (f"g:{TOPIC_ID}:-1", True, True),
        (f"g:{TOPIC_ID}:+5", True, True),
        (f"g:{TOPIC_ID}:0:", True, True),
        (f"g:{TOPIC_ID}:00000000000007", True, True),
        (f"a:b:{TOPIC_ID}:0", True, False),
        (f":{TOPIC_ID}:0", False, False),
        (f"  :{TOPIC_ID}:0", False, False),
        (f"g:{TOPIC_ID}:99999999999", False, False),
        (f"g:{TOPIC_ID}:{'9' * 5000}", False, False),
        (f"g:{TOPIC_ID}:", False, False),
        (f"g:{TOPIC_ID}:1_0", False, False),
        (f"g:{TOPIC_ID[1:]}:0", False, False),
        (f"g:{TOPIC_ID}=:0", False, False),
        (":", False, False),
        ("", False, False),
    ],
)
async def test_a_share_key_is_read_as_java_reads_it(key: str, from_4_2_1: bool, before: bool) -> None:
    """SharePartitionKey.validate of 4.1.0, and of 4.2.1 to 4.4.0."""
    for release, valid in (("4.1", before), ("4.2", from_4_2_1), ("4.4", from_4_2_1)):
        async with running(1, as_version=release, internal_topics="at-start") as kafka:
            wire = await connect(kafka.bootstrap)
            [found] = (await wire.send(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)).coordinators
            there = Err.NONE if release > "4.1" else Err.COORDINATOR_NOT_AVAILABLE  # share groups are off in 4.1
            assert (found.key, found.error_code) == (key, there if valid else Err.INVALID_REQUEST), release

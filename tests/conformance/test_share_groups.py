"""Share groups (KIP-932): membership, ShareFetch and ShareAcknowledge, sessions, locks that end, offsets."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from kafka_wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_wire.messages.k77_share_group_describe import ShareGroupDescribeRequest
from kafka_wire.messages.k78_share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest
from kafka_wire.messages.k79_share_acknowledge import AcknowledgementBatch as SaidBatch
from kafka_wire.messages.k79_share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
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
from kafka_wire.record_batch import Record, batches, encode_batch, records
from tests.conformance.driver import Kafka, clock_s, listed
from tests.conformance.logs import fetch_all, produce
from tests.support.wire import DEADLINE_S, Wire

pytestmark = [pytest.mark.generations("4.1", "4.4"), pytest.mark.profile("share")]

ANN, BOB = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
LOCK_MS = 15_000
Said = tuple[int, int, list[int]]


class Shares:
    """The test's group, and a topic of its own with one partition."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.old = kafka.generation == "4.1"
        self.version = 1 if self.old else 2
        self.topic, self.topic_id = "", bytes(16)
        self.epochs: dict[str, int] = {}
        for field in ("topic_id", "records"):
            kafka.ignore(field, because="it is drawn, or holds the time")

    async def begin(self, **settings: object) -> Shares:
        """With its settings, which a broker has to hear of."""
        wanted = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(LOCK_MS)}
        wanted |= {name.replace("_", "."): str(value) for name, value in settings.items()}
        if not self.old:
            wanted["share.assignment.interval.ms"] = "0"
        configs = [AlterableConfig(name, 0, value) for name, value in wanted.items()]
        resource = AlterConfigsResource(32, self.kafka.group, configs)
        answer = await self.kafka.watch(IncrementalAlterConfigsRequest([resource]), 1)
        assert answer.responses[0].error_code == Err.NONE, answer
        asked = DescribeConfigsRequest([DescribeConfigsResource(32, self.kafka.group)])

        async def configured() -> bool:
            row = (await self.kafka.watch(asked, 4)).results[0]
            return wanted.items() <= {one.name: one.value for one in row.configs}.items()

        await until("the group to have its settings", configured)
        self.topic = await self.kafka.topic(self.kafka.name("shared"))
        return self

    async def produce(self, *batches: int) -> None:
        wire = await self.kafka.wire("producer", record=False)
        for size in batches:
            rows = [Record(at, int(time.time() * 1000), None, b"%d" % at) for at in range(size)]
            assert (await produce(wire.send, self.topic, 0, encode_batch(rows))).error_code == Err.NONE

    async def beat(self, member: str, epoch: int, *names: str, record: bool = True) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            self.kafka.group, member, epoch, subscribed_topic_names=list(names) if names else None
        )
        ask = self.kafka.ask if record else self.kafka.watch
        answer = await ask(request, 1)
        assert isinstance(answer, ShareGroupHeartbeatResponse)
        return answer

    async def join(self, member: str) -> int:
        """Until it has the partition: its state has to be made first, which takes as long as it takes."""
        answer = await self.beat(member, 0, self.topic, record=False)
        assert answer.error_code == Err.NONE, answer

        async def has_it() -> bool:
            nonlocal answer
            if answer.assignment is not None and answer.assignment.topic_partitions:
                self.topic_id = answer.assignment.topic_partitions[0].topic_id
                return True
            answer = await self.beat(member, answer.member_epoch, record=False)
            return False

        await until("a partition", has_it)
        return answer.member_epoch

    def request(self, member: str, epoch: int, *said: Said, **how: Any) -> ShareFetchRequest:
        batches = [AcknowledgementBatch(*one) for one in said]
        fields = {"max_wait_ms": 500, "min_bytes": 1, "max_records": 500, "batch_size": 500, **how}
        topics = [FetchTopic(self.topic_id, [FetchPartition(0, batches)])]
        return ShareFetchRequest(self.kafka.group, member, epoch, **fields, topics=topics)

    async def fetch(self, wire: Wire, member: str, epoch: int, *said: Said, **how: Any) -> Any:
        return await wire.send(self.request(member, epoch, *said, **how), self.version)

    async def first(self, wire: Wire, member: str) -> int:
        """Fetch in new sessions until there are records, which a broker that still loads has none of; the session's next epoch."""

        async def records() -> bool:
            return bool(acquired(await self.fetch(wire, member, 0)))

        await until("records", records)
        return 1

    async def say(self, wire: Wire, member: str, epoch: int, *said: Said, renew: bool = False) -> Any:
        """A ShareAcknowledge: the partition's error, or that of the whole."""
        batches = [SaidBatch(*one) for one in said]
        topics = [AcknowledgeTopic(self.topic_id, [AcknowledgePartition(0, batches)])]
        request = ShareAcknowledgeRequest(self.kafka.group, member, epoch, is_renew_ack=renew, topics=topics)
        answer = await wire.send(request, self.version)
        return Err(answer.error_code or answer.responses[0].partitions[0].error_code)


async def until(what: str, holds: Any) -> None:
    give_up = clock_s() + DEADLINE_S
    while not await holds():
        assert clock_s() < give_up, f"waited {DEADLINE_S} s for {what}"
        await asyncio.sleep(0.02)


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for row in topic.partitions
        for one in row.acquired_records
    ]


async def test_s01_requests_that_no_group_takes(kafka: Kafka) -> None:
    shares = Shares(kafka)
    for member, epoch, names in (("", 0, ("t0",)), (ANN, 0, ()), (ANN, -2, ("t0",))):
        assert (await shares.beat(member, epoch, *names)).error_code == Err.INVALID_REQUEST
    assert (await shares.beat(ANN, 3)).error_code == Err.GROUP_ID_NOT_FOUND
    assert (await shares.beat(ANN, -1)).error_code == Err.GROUP_ID_NOT_FOUND


async def test_s02_a_member_s_epochs(kafka: Kafka) -> None:
    shares = await Shares(kafka).begin()
    first = await shares.beat(ANN, 0, shares.topic)
    assert first.member_epoch == (1 if shares.old else 2)
    epoch = await shares.join(ANN)
    for told, error in ((epoch + 3, Err.FENCED_MEMBER_EPOCH), (epoch - 1, Err.NONE), (epoch, Err.NONE)):
        assert (await shares.beat(ANN, told)).error_code == error
    if epoch > 2:
        assert (await shares.beat(ANN, epoch - 2)).error_code == Err.FENCED_MEMBER_EPOCH
    assert (await shares.beat(BOB, 1)).error_code == Err.UNKNOWN_MEMBER_ID
    assert (await shares.beat(BOB, -1)).error_code == Err.UNKNOWN_MEMBER_ID
    described = (await kafka.ask(ShareGroupDescribeRequest([kafka.group, kafka.name("none")]), 1)).groups
    assert [one.error_code for one in described] == [Err.NONE, Err.GROUP_ID_NOT_FOUND]
    assert described[0].group_state == "Stable"
    assert (await listed(kafka, version=5, types_filter=["Share"]))[kafka.group].group_type == "share"
    assert (await kafka.ask(DescribeGroupsRequest([kafka.group]), 6)).groups[0].error_code == Err.GROUP_ID_NOT_FOUND
    left = await shares.beat(ANN, -1)
    assert (left.error_code, left.member_epoch) == (Err.NONE, -1)
    assert (await kafka.ask(ShareGroupDescribeRequest([kafka.group]), 1)).groups[0].group_state == "Empty"


async def test_s03_what_may_be_said_of_records(kafka: Kafka) -> None:
    shares = await Shares(kafka).begin()
    await shares.produce(5, 5)
    await shares.join(ANN)
    wire = await kafka.wire("ann", record=False)
    at = await shares.first(wire, ANN)
    wire.recording = kafka.recording
    bad, wrong = Err.INVALID_REQUEST, Err.INVALID_RECORD_STATE
    said: list[tuple[list[Said], Err]] = [
        ([(0, 1, [ACCEPT])], Err.NONE),
        ([(2, 2, [RELEASE]), (3, 3, [REJECT])], Err.NONE),
        ([(4, 4, [GAP])], Err.NONE),
        ([(0, 0, [ACCEPT])], Err.NONE),
        ([(3, 3, [ACCEPT])], wrong),
        ([(2, 2, [ACCEPT])], wrong),
        ([(5, 7, [ACCEPT, RELEASE, REJECT])], Err.NONE),
        ([(7, 8, [ACCEPT])], wrong),
        ([(100, 100, [ACCEPT])], bad),
        ([(9, 100, [ACCEPT])], bad),
        ([(9, 9, [9])], bad),
        ([(9, 9, [ACCEPT]), (8, 8, [ACCEPT])], bad),
        ([(9, 8, [ACCEPT])], bad),
        ([(8, 9, [ACCEPT, ACCEPT, ACCEPT])], bad),
        ([(9, 9, [RENEW])], bad),
    ]
    for number, (about, error) in enumerate(said):
        assert await shares.say(wire, ANN, at + number, *about) is error, about
    at += len(said)
    assert acquired(await shares.fetch(wire, ANN, at)) == [(2, 2, 2), (6, 6, 2)]


async def test_s04_sessions(kafka: Kafka) -> None:
    shares = await Shares(kafka).begin()
    await shares.produce(3)
    await shares.join(ANN)
    wire = await kafka.wire("ann")
    assert (await shares.fetch(wire, ANN, 5)).error_code == Err.SHARE_SESSION_NOT_FOUND
    assert (await shares.fetch(wire, ANN, 0, (0, 0, [ACCEPT]))).error_code == Err.INVALID_REQUEST
    wire.recording = None
    at = await shares.first(wire, ANN)
    wire.recording = kafka.recording
    assert acquired(await shares.fetch(wire, ANN, at)) == []
    at += 1
    assert (await shares.fetch(wire, ANN, at + 3)).error_code == Err.INVALID_SHARE_SESSION_EPOCH
    assert (await shares.fetch(wire, ANN, at - 1)).error_code == Err.INVALID_SHARE_SESSION_EPOCH
    assert await shares.say(wire, ANN, at + 4, (0, 0, [ACCEPT])) is Err.INVALID_SHARE_SESSION_EPOCH
    assert await shares.say(wire, ANN, 0, (0, 0, [ACCEPT])) is Err.INVALID_SHARE_SESSION_EPOCH
    other = await kafka.wire("bob")
    assert await shares.say(other, BOB, 1, (0, 0, [ACCEPT])) is Err.SHARE_SESSION_NOT_FOUND
    assert acquired(await shares.fetch(other, BOB, 0)) == []
    assert await shares.say(other, BOB, 1, (0, 0, [ACCEPT])) is Err.INVALID_RECORD_STATE
    assert acquired(await shares.fetch(wire, ANN, -1, (0, 0, [ACCEPT]))) == []
    given = (
        [(1, 1, 1), (2, 2, 1)] if shares.old else [(1, 2, 2)]
    )  # in 4.1 what a session leaves behind was not delivered
    other.recording = None
    at, got = 2, []

    async def given_back() -> bool:
        nonlocal at, got
        got = acquired(await shares.fetch(other, BOB, at))
        at += 1
        return bool(got)

    await until("what the other's session leaves behind", given_back)
    assert got == given
    assert (await shares.fetch(wire, ANN, 1)).error_code == Err.SHARE_SESSION_NOT_FOUND


@pytest.mark.generations("4.4")
async def test_s05_renewing_and_exact_numbers(kafka: Kafka) -> None:
    shares = await Shares(kafka).begin()
    await shares.produce(4)
    await shares.join(ANN)
    wire = await kafka.wire("ann", record=False)
    at = await shares.first(wire, ANN)
    wire.recording = kafka.recording
    assert await shares.say(wire, ANN, at, (0, 0, [RENEW]), renew=True) is Err.NONE
    assert await shares.say(wire, ANN, at + 1, (0, 3, [ACCEPT])) is Err.NONE
    refused = await shares.fetch(wire, ANN, at + 2, (3, 3, [RENEW]), is_renew_ack=True)
    assert refused.error_code == Err.INVALID_REQUEST
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0, "batch_size": 0}
    done = await shares.fetch(wire, ANN, at + 2, (3, 3, [RENEW]), is_renew_ack=True, **nothing)
    assert done.error_code == Err.NONE
    await shares.produce(4)
    assert acquired(await shares.fetch(wire, ANN, at + 3, max_records=2, share_acquire_mode=1)) == [(4, 5, 1)]


async def test_s06_offsets(kafka: Kafka) -> None:
    shares = await Shares(kafka).begin()
    group, topic = kafka.group, shares.topic
    version = 0 if shares.old else 1

    async def offsets(*names: str) -> Any:
        topics = [DescribeShareGroupOffsetsRequestTopic(name, [0, 7]) for name in names] or None
        asked = [DescribeShareGroupOffsetsRequestGroup(group, topics)]
        return (await kafka.ask(DescribeShareGroupOffsetsRequest(asked), version)).groups[0]

    assert (await offsets()).topics == []
    assert (await offsets("nope")).error_code == Err.NONE
    await shares.produce(8)
    await shares.join(ANN)
    rows = (await offsets(topic)).topics[0].partitions
    assert [(row.start_offset, row.error_code) for row in rows] == [(-1, 0), (-1, 0)]
    forget = DeleteShareGroupOffsetsRequest(
        group, [DeleteShareGroupOffsetsRequestTopic(name) for name in ("nope", topic)]
    )
    assert (await kafka.ask(forget, 0)).error_code == Err.NON_EMPTY_GROUP
    at = [AlterShareGroupOffsetsRequestPartition(number, 5) for number in (0, 9)]
    alter = AlterShareGroupOffsetsRequest(group, [AlterShareGroupOffsetsRequestTopic(topic, at)])
    assert (await kafka.ask(alter, 0)).error_code == (Err.NONE if shares.old else Err.NON_EMPTY_GROUP)
    await shares.beat(ANN, -1)
    assert (await kafka.ask(alter, 0)).error_code == Err.NONE
    rows = (await offsets(topic)).topics[0].partitions
    assert rows[0].start_offset == (-1 if shares.old else 5)
    unknown = AlterShareGroupOffsetsRequest(group, [AlterShareGroupOffsetsRequestTopic("nope", at[:1])])
    assert (await kafka.ask(unknown, 0)).responses[0].partitions[0].error_code == Err.UNKNOWN_TOPIC_OR_PARTITION
    told = (await kafka.ask(forget, 0)).responses
    assert [row.error_code for row in told] == [Err.NONE, Err.UNKNOWN_TOPIC_OR_PARTITION]
    again = (await kafka.ask(forget, 0)).responses
    assert {row.error_code for row in again} == {Err.UNKNOWN_TOPIC_OR_PARTITION}
    assert (await kafka.ask(DeleteGroupsRequest([group]), 2)).results[0].error_code == Err.NONE


@pytest.mark.generations("4.4")
async def test_s07_dead_letters(kafka: Kafka) -> None:
    """Dead letters: rejected records, and those delivered too often after a lock's end or a release; a gap leaves none."""
    letters = await kafka.topic("dlq." + kafka.name("letters"), 3, **{"errors.deadletterqueue.group.enable": "true"})
    shares = await Shares(kafka).begin(
        errors_deadletterqueue_topic_name=letters,
        errors_deadletterqueue_copy_record_enable="true",
        share_delivery_count_limit=2,
    )
    await shares.produce(4, 3)
    await shares.join(ANN)
    wire = await kafka.wire("ann", record=False)
    at = await shares.first(wire, ANN)
    assert await shares.say(wire, ANN, at, (0, 3, [REJECT])) is Err.NONE
    assert await shares.say(wire, ANN, at + 1, (0, 0, [ACCEPT])) in (Err.NONE, Err.INVALID_RECORD_STATE)
    assert await shares.say(wire, ANN, at + 2, (4, 6, [RELEASE, GAP, ACCEPT])) is Err.NONE
    at, again = at + 3, []

    async def comes_again() -> bool:
        nonlocal at, again
        again = acquired(await shares.fetch(wire, ANN, at))
        at += 1
        return bool(again)

    await until("the released record", comes_again)
    assert again == [(4, 4, 2)]
    assert await shares.say(wire, ANN, at, (4, 4, [RELEASE])) is Err.NONE
    found: list[Record] = []

    async def all_there() -> bool:
        data = await fetch_all(kafka.watch, letters, 0)
        found[:] = [row for place, header in batches(data) for row in records(data, place, header)]
        return len(found) >= 5

    await until("five letters", all_there)
    told = sorted(
        ((row.key, row.value, dict(row.headers)) for row in found), key=lambda one: one[2]["__dlq.errors.offset"] or b""
    )
    assert [(key, value) for key, value, _ in told] == [(None, b"%d" % value) for value in (0, 1, 2, 3, 0)]
    assert [headers["__dlq.errors.offset"] for _, _, headers in told] == [b"0", b"1", b"2", b"3", b"4"]
    assert told[0][2] == {
        "__dlq.errors.topic": shares.topic.encode(),
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"0",
        "__dlq.errors.group": kafka.group.encode(),
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": b"Offset rejected by client.",
    }
    assert told[4][2]["__dlq.errors.delivery.count"] == b"2"
    assert told[4][2]["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."


@pytest.mark.generations("4.4")
async def test_s08_where_no_letter_can_be_written_records_are_archived_all_the_same(kafka: Kafka) -> None:
    """A topic that allows no letters of groups."""
    letters = await kafka.topic("dlq." + kafka.name("closed"))
    shares = await Shares(kafka).begin(errors_deadletterqueue_topic_name=letters)
    await shares.produce(2)
    await shares.join(ANN)
    wire = await kafka.wire("ann", record=False)
    at = await shares.first(wire, ANN)
    assert await shares.say(wire, ANN, at, (0, 1, [REJECT])) is Err.NONE
    at += 1
    asked = [
        DescribeShareGroupOffsetsRequestGroup(kafka.group, [DescribeShareGroupOffsetsRequestTopic(shares.topic, [0])])
    ]

    async def archived() -> bool:
        row = (await kafka.watch(DescribeShareGroupOffsetsRequest(asked), 1)).groups[0].topics[0].partitions[0]
        return bool(row.lag == 0)

    await until("nothing to be left", archived)
    assert await fetch_all(kafka.watch, letters, 0) == b""


async def test_s09_min_bytes_that_the_log_has(kafka: Kafka) -> None:
    shares = await Shares(kafka).begin()
    await shares.join(ANN)
    await shares.produce(1)
    wire = await kafka.wire(ANN)
    at = await shares.first(wire, ANN)

    async def at_once(*said: Said, **how: Any) -> Any:
        nonlocal at
        at += 1
        return acquired(await shares.fetch(wire, ANN, at - 1, *said, max_wait_ms=10 * 60_000, **how))

    assert await at_once((0, 0, [ACCEPT]), min_bytes=0) == []
    await shares.produce(1, 1, 1, 1)
    assert await at_once(min_bytes=150, max_records=1) == [(1, 1, 1)]
    assert await at_once(min_bytes=10**6, max_bytes=100, max_records=1) == [(2, 2, 1)]
    assert await shares.say(wire, ANN, at, (2, 2, [RELEASE])) is Err.NONE
    at += 1
    assert await at_once(min_bytes=150, max_records=1) == [(2, 2, 2)]


async def test_s10_acknowledging_with_nothing_in_flight(kafka: Kafka) -> None:
    """An offset that was never acquired is in the wrong state; a range across the start offset fails the whole request."""
    shares = await Shares(kafka).begin()
    await shares.produce(5)
    await shares.join(ANN)
    wire = await kafka.wire("ann", record=False)
    at = await shares.first(wire, ANN)
    wire.recording = kafka.recording
    assert await shares.say(wire, ANN, at, (0, 4, [ACCEPT])) is Err.NONE
    assert await shares.say(wire, ANN, at + 1, (7, 7, [ACCEPT])) is Err.INVALID_RECORD_STATE
    assert await shares.say(wire, ANN, at + 2, (3, 7, [ACCEPT])) is Err.UNKNOWN_SERVER_ERROR
    assert await shares.say(wire, ANN, -1, (3, 7, [ACCEPT])) is Err.UNKNOWN_SERVER_ERROR
    assert (await shares.fetch(wire, ANN, at + 3, (3, 7, [ACCEPT]))).error_code == Err.UNKNOWN_SERVER_ERROR
    row = (await shares.fetch(wire, ANN, at + 4, (8, 8, [ACCEPT]))).responses[0].partitions[0]
    assert row.acknowledge_error_code == Err.INVALID_RECORD_STATE


async def test_s11_topics_and_partitions_that_are_missing(kafka: Kafka) -> None:
    shares = await Shares(kafka).begin()
    await shares.produce(3)
    await shares.join(ANN)
    wire = await kafka.wire("ann", record=False)
    at = await shares.first(wire, ANN)
    wire.recording = kafka.recording

    async def fetch(epoch: int, topic_id: bytes, partition: int, *said: Said) -> Any:
        request = shares.request(ANN, epoch)
        batches = [AcknowledgementBatch(*one) for one in said]
        request.topics = [FetchTopic(topic_id, [FetchPartition(partition, batches)])]
        return await wire.send(request, shares.version)

    row = (await fetch(at, shares.topic_id, 7)).responses[0].partitions[0]
    assert row.error_code == Err.UNKNOWN_TOPIC_OR_PARTITION
    row = (await fetch(at + 1, shares.topic_id, 7, (0, 0, [ACCEPT]))).responses[0].partitions[0]
    assert (row.error_code, row.acknowledge_error_code) == (Err.UNKNOWN_TOPIC_OR_PARTITION,) * 2
    nowhere = bytes(range(16))
    for epoch in (0, 1):
        answer = await fetch(epoch, nowhere, 0)
        if shares.old:
            assert answer.error_code == Err.UNKNOWN_SERVER_ERROR
        else:
            assert answer.responses[0].partitions[0].error_code == Err.UNKNOWN_TOPIC_ID
    row = (await fetch(-1, nowhere, 0, (0, 0, [ACCEPT]))).responses[0].partitions[0]
    assert (row.error_code, row.acknowledge_error_code) == (Err.NONE, Err.UNKNOWN_TOPIC_ID)


async def test_s12_a_fetch_that_releases(kafka: Kafka) -> None:
    """Records that the fetch releases are available after its first look at the partition."""
    shares = await Shares(kafka).begin()
    await shares.produce(1, 1, 1)
    await shares.join(ANN)
    wire = await kafka.wire("ann", record=False)

    async def first() -> bool:
        return bool(acquired(await shares.fetch(wire, ANN, 0, max_records=1)))

    await until("the first record", first)
    wire.recording = kafka.recording
    assert acquired(await shares.fetch(wire, ANN, 1, (0, 0, [RELEASE]), max_records=1)) == [(1, 1, 1)]
    assert acquired(await shares.fetch(wire, ANN, 2, batch_size=1)) == [(0, 0, 2), (2, 2, 1)]
    assert acquired(await shares.fetch(wire, ANN, -1, (0, 0, [ACCEPT]))) == []


async def test_s13_members_that_join_again_and_topics_that_are_given_up(kafka: Kafka) -> None:
    """The epochs depend on how fast states are initialized: only their differences are compared."""
    shares = await Shares(kafka).begin()
    other = await kafka.topic(kafka.name("other"))
    epoch = await shares.join(ANN)
    again = await shares.beat(ANN, 0, shares.topic, record=False)
    assert again.error_code == (Err.FENCED_MEMBER_EPOCH if shares.old and epoch > 1 else Err.NONE)
    answer = await shares.beat(ANN, epoch, shares.topic, other, record=False)

    async def has_both() -> bool:
        nonlocal answer
        if answer.assignment is not None and len(answer.assignment.topic_partitions) == 2:
            return True
        answer = await shares.beat(ANN, answer.member_epoch, record=False)
        return False

    await until("both topics", has_both)
    answer = await shares.beat(ANN, answer.member_epoch, shares.topic, record=False)
    assert answer.assignment is not None
    assert len(answer.assignment.topic_partitions) == 1
    before = answer.member_epoch
    for _ in range(3):
        answer = await shares.beat(ANN, answer.member_epoch, record=False)
    assert answer.member_epoch - before == (3 if shares.old else 0)


@pytest.mark.generations("4.4")
async def test_s14_a_strict_limit_on_new_records(kafka: Kafka) -> None:
    """One range, which takes all of the last batch into flight."""
    shares = await Shares(kafka).begin()
    await shares.produce(3, 5, 4)
    await shares.join(ANN)
    wire = await kafka.wire("ann", record=False)
    limits = {"max_records": 5, "batch_size": 2, "share_acquire_mode": 1}
    got: list[tuple[int, int, int]] = []

    async def first() -> bool:
        got[:] = acquired(await shares.fetch(wire, ANN, 0, **limits))
        return bool(got)

    await until("records", first)
    assert got == [(0, 4, 1)]
    wire.recording = kafka.recording
    assert acquired(await shares.fetch(wire, ANN, 1, **limits)) == [(5, 7, 1), (8, 9, 1)]
    assert await shares.say(wire, ANN, 2, (1, 2, [RELEASE])) is Err.NONE
    assert acquired(await shares.fetch(wire, ANN, 3, **limits)) == [(1, 2, 2), (10, 11, 1)]


async def test_s15_ranges_of_no_records_and_modes_that_are_none(kafka: Kafka) -> None:
    shares = await Shares(kafka).begin()
    await shares.produce(2, 1)
    await shares.join(ANN)
    wire = await kafka.wire("ann", record=False)
    got: list[tuple[int, int, int]] = []

    async def first() -> bool:
        got[:] = acquired(await shares.fetch(wire, ANN, 0, batch_size=0))
        return bool(got)

    await until("records", first)
    assert got == [(0, -1, 1), (0, 1, 1), (2, 2, 1)]
    wire.recording = kafka.recording
    if not shares.old:
        assert (await shares.fetch(wire, ANN, 1, (0, 0, [ACCEPT]), share_acquire_mode=7)).error_code == -1
        assert await shares.say(wire, ANN, 2, (0, 0, [ACCEPT])) is Err.NONE
        nothing = [ShareFetchRequest(kafka.group, BOB, epoch, share_acquire_mode=7) for epoch in (0, -1)]
        assert [(await wire.send(one, 2)).error_code for one in nothing] == [0, 0]
    unnamed = ShareFetchRequest(None, ANN, -1)
    assert (await wire.send(unnamed, 1)).error_code == (-1 if shares.old else Err.INVALID_REQUEST)
    twice = FetchTopic(shares.topic_id, [FetchPartition(0), FetchPartition(0)])
    assert (await wire.send(ShareFetchRequest(kafka.group, ANN, 0, topics=[twice]), 1)).error_code == -1
    assert (await wire.send(ShareFetchRequest(kafka.group, ANN, 1), 1)).error_code == Err.SHARE_SESSION_NOT_FOUND


async def test_s16_partitions_that_a_topic_is_given_later(kafka: Kafka) -> None:
    """From 4.4 on they begin with their first record, though the group begins with the latest."""
    shares = await Shares(kafka).begin(share_auto_offset_reset="latest")
    epoch = await shares.join(ANN)
    grown = CreatePartitionsRequest([CreatePartitionsTopic(shares.topic, 2, None)], 30_000)
    assert (await kafka.watch(grown, 3)).results[0].error_code == Err.NONE
    answer = await shares.beat(ANN, epoch, record=False)

    async def has_both() -> bool:
        nonlocal answer
        held = [] if answer.assignment is None else answer.assignment.topic_partitions
        if held and len(held[0].partitions) == 2:
            return True
        answer = await shares.beat(ANN, answer.member_epoch, record=False)
        return False

    await until("both partitions", has_both)
    topics = [DescribeShareGroupOffsetsRequestTopic(shares.topic, [0, 1])]
    asked = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(kafka.group, topics)])
    [topic] = (await kafka.ask(asked, 0)).groups[0].topics
    offsets = {row.partition_index: row.start_offset for row in topic.partitions}
    assert offsets == {0: -1, 1: -1 if shares.old else 0}


@pytest.mark.generations("4.4")
async def test_s17_members_that_read_the_same_but_name_a_missing_topic(kafka: Kafka) -> None:
    """The assignor goes by the names: subscriptions that differ in a missing topic are shared out topic by topic, so that both members
    have both partitions. With equal names each has one."""
    shares = await Shares(kafka).begin()
    other = await kafka.topic(kafka.name("other"))
    missing = kafka.name("missing")
    names = {ANN: (shares.topic, other), BOB: (shares.topic, other, missing)}
    epochs = dict.fromkeys(names, 0)
    held: dict[str, int] = {}

    async def settled(count: int) -> bool:
        for member in names:
            answer = await shares.beat(member, epochs[member], *names[member], record=False)
            assert answer.error_code == Err.NONE, answer
            epochs[member] = answer.member_epoch
            topics = [] if answer.assignment is None else answer.assignment.topic_partitions
            held[member] = sum(len(topic.partitions) for topic in topics)
        return list(held.values()) == [count, count] and len(set(epochs.values())) == 1

    await until("both members to have both partitions", lambda: settled(2))
    names[BOB] = names[ANN]
    await until("each member to have one partition", lambda: settled(1))

"""The batches that commits of several partitions leave in __consumer_offsets: order, sequence, versions of values; and records of share
groups."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from kafka_wire.offsets_log import decode_key, decode_value
from kafka_wire.record_batch import batches, records
from tests.conformance.driver import Kafka, Partition
from tests.conformance.logs import OFFSETS, fetch_all, offsets_partition
from tests.conformance.test_share_groups import ANN, BOB, Shares
from tests.conformance.transactional import Producer

pytestmark = [pytest.mark.generations("3.4", "3.9", "4.0", "4.1", "4.4"), pytest.mark.profile("transactions")]

COMMIT = 1
WIDE = 40
"""Partitions of the topic that has many."""
REQUESTS: dict[str, list[Partition]] = {
    "three": [("t1", 2), ("t0", 0), ("t1", 0)],
    "four": [("t1", 1), ("t0", 2), ("t0", 1), ("t1", 0)],
    "five": [("t1", 2), ("t0", 0), ("t0", 1), ("t1", 1), ("t1", 0)],
    "a topic named twice": [("t0", 2), ("t1", 0), ("t0", 0)],
    "many": [("wide", 7 * at % WIDE) for at in range(WIDE)],
    "equal hashes": [("t1-bb", 0), ("t0", 1), ("t1-ab", 1), ("t1", 2), ("t0", 0), ("t1", 0)],
}
CASES = pytest.mark.parametrize("wanted", REQUESTS.values(), ids=REQUESTS.keys())


async def with_topics(kafka: Kafka, wanted: list[Partition]) -> list[Partition]:
    """The partitions by names of this test alone, but for t0 and t1; makes the topics. Hashes of names that end alike stay equal."""
    names = {name: kafka.name(name) for name in dict.fromkeys(name for name, _ in wanted) if name not in ("t0", "t1")}
    for name in names.values():
        await kafka.topic(name, WIDE)
    return [(names.get(name, name), partition) for name, partition in wanted]


async def written(kafka: Kafka) -> list[list[Partition]]:
    """The partitions of each batch of the group's commits, in the order of its records; noted with what else is the batch's own."""
    raw = await fetch_all(kafka.watch, OFFSETS, offsets_partition(kafka.group, 4))
    found: list[list[Partition]] = []
    for position, header in batches(raw):
        rows: list[Partition] = []
        versions: list[int | None] = []
        for record in records(raw, position, header) if not header.is_control else ():
            kind, key = decode_key(record.key or b"")
            if kind == COMMIT and key.group == kafka.group:
                rows.append((key.topic, key.partition))
                versions.append(None if record.value is None else int.from_bytes(record.value[:2], "big"))
        if rows:
            assert header.base_sequence == 0
            found.append(rows)
            kafka.recording.note(
                "batch", [header.attributes, header.base_sequence, [list(row) for row in rows], versions]
            )
    return found


def topics_of(wanted: list[Partition]) -> list[tuple[str, list[int]]]:
    return [(name, [index for _, index in rows]) for name, rows in itertools.groupby(wanted, lambda one: one[0])]


def order_of(kafka: Kafka, asked: list[Partition], found: list[Partition], *, at_once: bool) -> None:
    """4.x writes in the order of the request, 3.x in that of a map: 3.4 begins with five partitions to do so, unless ``at_once``."""
    assert sorted(found) == sorted(asked)
    if not kafka.old or (kafka.generation == "3.4" and len(asked) <= 4 and not at_once):
        assert found == asked


@CASES
async def test_s3_2_order_of_a_commit_of_several_partitions(kafka: Kafka, wanted: list[Partition]) -> None:
    asked = await with_topics(kafka, wanted)
    topics = [
        OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(at, 5) for at in partitions])
        for name, partitions in topics_of(asked)
    ]
    answer = await kafka.watch(OffsetCommitRequest(kafka.group, topics=topics), 8)
    assert {row.error_code for topic in answer.topics for row in topic.partitions} == {Err.NONE}
    [found] = await written(kafka)
    order_of(kafka, asked, found, at_once=False)


async def test_s3_2_order_of_a_commit_with_metadata_that_is_too_long(kafka: Kafka) -> None:
    """A partition that is refused counts for the order all the same."""
    wanted = REQUESTS["five"]
    topics = [
        OffsetCommitRequestTopic(
            name,
            partitions=[
                OffsetCommitRequestPartition(at, 5, committed_metadata="x" * (101 if (name, at) == ("t0", 1) else 1))
                for at in partitions
            ],
        )
        for name, partitions in topics_of(wanted)
    ]
    answer = await kafka.ask(OffsetCommitRequest(kafka.group, topics=topics), 8)
    codes = sorted(row.error_code for topic in answer.topics for row in topic.partitions)
    assert codes == [Err.NONE] * 4 + [Err.OFFSET_METADATA_TOO_LARGE]
    [found] = await written(kafka)
    assert ("t0", 1) not in found


@CASES
async def test_s3_2_batch_of_a_commit_in_a_transaction(kafka: Kafka, wanted: list[Partition]) -> None:
    """The batch's sequence is 0, as that of all commits, although it has a producer."""
    asked = await with_topics(kafka, wanted)
    producer = await Producer(kafka, kafka.name("x")).begin()
    await producer.add_offsets(kafka.group)
    topics: list[Any] = [
        TxnOffsetCommitRequestTopic(name, partitions=[TxnOffsetCommitRequestPartition(at, 5) for at in partitions])
        for name, partitions in topics_of(asked)
    ]
    request = TxnOffsetCommitRequest(
        producer.transactional_id, kafka.group, producer.producer_id, producer.epoch, topics=topics
    )
    answer = await kafka.watch(request, 3)
    assert {row.error_code for topic in answer.topics for row in topic.partitions} == {Err.NONE}
    [found] = await written(kafka)
    await producer.end()
    order_of(kafka, asked, found, at_once=True)


@pytest.mark.generations("4.1", "4.4")
@pytest.mark.profile("share")
async def test_s17_records_of_a_member_that_comes_to_read_nothing_and_of_a_deleted_group(kafka: Kafka) -> None:
    """The target keeps the topic, without partitions, since 4.2. A deleted group's tombstones follow once its states are deleted."""
    shares = await Shares(kafka).begin()
    await shares.join(ANN)
    epoch = await shares.join(BOB)
    await shares.beat(BOB, epoch, "nowhere", record=False)
    for member in (BOB, ANN):
        assert (await shares.beat(member, -1, record=False)).error_code == Err.NONE
    assert (await kafka.ask(DeleteGroupsRequest([kafka.group]), 2)).results[0].error_code == Err.NONE
    found = await of_share_group(kafka, shares)
    assert found[-3:] == [(kind, None) for kind in (11, 12, 15)]
    first: tuple[int, Any] = (15, [[], [], [shares.topic]]) if shares.old else (13, [["shared", []]])
    noted = found[found.index(first) :]  # which batches there were before is chance
    kafka.recording.note("log", [list(row) for row in noted])


async def of_share_group(kafka: Kafka, shares: Shares) -> list[tuple[int, Any]]:
    """The group's records, in each batch by type: types, and the partitions or topics in them."""

    def shown(kind: int, value: Any) -> Any:
        if value is None:
            return None
        if kind == 13:
            return [
                ["shared" if row.topic_id == shares.topic_id else "?", list(row.partitions)]
                for row in value.topic_partitions
            ]
        if kind == 15:
            listed = (value.initializing_topics, value.initialized_topics, value.deleting_topics)
            return [[row.topic_name for row in rows] for rows in listed]
        return ""

    raw = await fetch_all(kafka.watch, OFFSETS, offsets_partition(kafka.group, 4))
    found: list[tuple[int, Any]] = []
    for position, header in batches(raw):
        rows: list[tuple[int, Any]] = []
        for record in records(raw, position, header):
            kind, key = decode_key(record.key or b"")
            if getattr(key, "group_id", None) == kafka.group:
                rows.append((kind, shown(kind, decode_value(kind, record.value))))
        found += sorted(rows, key=repr)
    return found

"""ListOffsets: every special timestamp, the search by time, the checks in their order."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.conformance.driver import Kafka
from tests.conformance.logs import produce_values

BASE = 1_700_000_000_000
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


async def ask(
    kafka: Kafka, topic: str, *partitions: ListOffsetsPartition, version: int = 7, **fields: Any
) -> list[Any]:
    request = ListOffsetsRequest(**{"replica_id": -1, **fields}, topics=[ListOffsetsTopic(topic, list(partitions))])
    found: list[Any] = (await kafka.ask(request, version)).topics[0].partitions
    return found


async def one(kafka: Kafka, topic: str, timestamp: int, *, version: int = 7, **fields: Any) -> tuple[Err, int, int]:
    """(error, timestamp, offset) of partition 0."""
    epoch = fields.pop("current_leader_epoch", -1)
    [answer] = await ask(kafka, topic, ListOffsetsPartition(0, epoch, timestamp), version=version, **fields)
    return Err(answer.error_code), answer.timestamp, answer.offset


async def filled(kafka: Kafka) -> str:
    """A topic whose partition 0 has offsets 0..4 at BASE + 0, 10, 30, 20, 40 ms, in two batches."""
    topic = await kafka.topic(kafka.name("topic"))
    await produce_values(kafka.watch, topic, 0, [(BASE, b"0"), (BASE + 10, b"1"), (BASE + 30, b"2")])
    await produce_values(kafka.watch, topic, 0, [(BASE + 20, b"3"), (BASE + 40, b"4")])
    return topic


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6, 7])
async def test_s2_9_latest_and_earliest(kafka: Kafka, version: int) -> None:
    topic = await filled(kafka)
    assert await one(kafka, topic, LATEST, version=version) == (Err.NONE, -1, 5)
    assert await one(kafka, topic, EARLIEST, version=version) == (Err.NONE, -1, 0)


async def test_s2_9_empty_partition(kafka: Kafka) -> None:
    topic = await kafka.topic(kafka.name("topic"))
    assert await one(kafka, topic, LATEST) == (Err.NONE, -1, 0)
    assert await one(kafka, topic, EARLIEST) == (Err.NONE, -1, 0)
    assert await one(kafka, topic, MAX_TIMESTAMP) == (Err.NONE, -1, -1)
    assert await one(kafka, topic, BASE) == (Err.NONE, -1, -1)


@pytest.mark.parametrize("isolation", [0, 1])
async def test_s2_9_latest_by_isolation_level(kafka: Kafka, isolation: int) -> None:
    topic = await filled(kafka)
    assert await one(kafka, topic, LATEST, isolation_level=isolation) == (Err.NONE, -1, 5)


async def test_s2_9_max_timestamp(kafka: Kafka) -> None:
    topic = await filled(kafka)
    assert await one(kafka, topic, MAX_TIMESTAMP) == (Err.NONE, BASE + 40, 4)


async def test_s2_9_max_timestamp_inside_an_earlier_batch(kafka: Kafka) -> None:
    topic = await kafka.topic(kafka.name("topic"))
    await produce_values(kafka.watch, topic, 0, [(BASE + 50, b"0"), (BASE + 90, b"1"), (BASE + 60, b"2")])
    await produce_values(kafka.watch, topic, 0, [(BASE + 10, b"3")])
    assert await one(kafka, topic, MAX_TIMESTAMP) == (Err.NONE, BASE + 90, 1)


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (-5, (BASE, 0)),
        (0, (BASE, 0)),
        (1, (BASE + 10, 1)),
        (10, (BASE + 10, 1)),
        (15, (BASE + 30, 2)),
        (31, (BASE + 40, 4)),
    ],
)
async def test_s2_9_first_record_at_or_after_a_time(kafka: Kafka, delta: int, expected: tuple[int, int]) -> None:
    topic = await filled(kafka)
    assert await one(kafka, topic, BASE + delta) == (Err.NONE, *expected)


async def test_s2_9_time_after_the_last_record(kafka: Kafka) -> None:
    topic = await filled(kafka)
    assert await one(kafka, topic, BASE + 41) == (Err.NONE, -1, -1)


async def test_s2_9_time_zero(kafka: Kafka) -> None:
    topic = await filled(kafka)
    assert await one(kafka, topic, 0) == (Err.NONE, BASE, 0)


@pytest.mark.parametrize("version", [4, 7])
async def test_s2_9_leader_epoch_is_returned_since_v4(kafka: Kafka, version: int) -> None:
    topic = await filled(kafka)
    [answer] = await ask(kafka, topic, ListOffsetsPartition(0, -1, BASE), version=version)
    assert answer.leader_epoch == 0


async def test_s2_9_current_leader_epoch(kafka: Kafka) -> None:
    topic = await filled(kafka)
    assert await one(kafka, topic, LATEST, current_leader_epoch=0) == (Err.NONE, -1, 5)
    assert await one(kafka, topic, LATEST, current_leader_epoch=1) == (Err.UNKNOWN_LEADER_EPOCH, -1, -1)


async def test_s2_9_unknown_topic_and_partition(kafka: Kafka) -> None:
    assert await one(kafka, "no-such-topic", LATEST) == (Err.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    [answer] = await ask(kafka, "t0", ListOffsetsPartition(77, -1, LATEST))
    assert answer.error_code == Err.UNKNOWN_TOPIC_OR_PARTITION


async def test_s2_9_partition_listed_twice(kafka: Kafka) -> None:
    twice = [ListOffsetsPartition(0, -1, LATEST), ListOffsetsPartition(0, -1, LATEST)]
    answers = await ask(kafka, "t0", *twice)
    assert {answer.error_code for answer in answers} == {Err.INVALID_REQUEST}
    assert len(answers) == kafka.pick(old=2, new=1)


@pytest.mark.parametrize("timestamp", [-3, -4, -5, -6, -100])
async def test_s2_9_timestamps_that_the_version_does_not_have(kafka: Kafka, timestamp: int) -> None:
    """v6 knows -1 and -2 alone. 3.4 does not look at the version, and takes what it does not know for a point in time."""
    topic = await filled(kafka)
    old = (Err.NONE, BASE + 40, 4) if timestamp == MAX_TIMESTAMP else (Err.NONE, BASE, 0)
    assert await one(kafka, topic, timestamp, version=6) == kafka.pick(old=old, new=(Err.UNSUPPORTED_VERSION, -1, -1))


@pytest.mark.parametrize(("timestamp", "version"), [(-4, 8), (-5, 9), (-6, 10), (-4, 7), (-5, 8)])
async def test_s2_9_newer_timestamps_of_4_1(kafka: Kafka, timestamp: int, version: int) -> None:
    topic = await filled(kafka)
    if kafka.old:
        assert (await one(kafka, topic, timestamp, version=7))[0] == Err.NONE
        return
    expected = {(-4, 8): (Err.NONE, -1, 0), (-5, 9): (Err.NONE, -1, -1)}
    unsupported = (Err.UNSUPPORTED_VERSION, -1, -1)
    assert await one(kafka, topic, timestamp, version=version) == expected.get((timestamp, version), unsupported)


async def test_s2_9_v0_of_3_4(kafka: Kafka) -> None:
    topic = await filled(kafka)
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, LATEST, 10)])])
    wire = await kafka.wire()
    if kafka.old:
        answer = (await wire.send(request, 0)).topics[0].partitions[0]
        assert (answer.error_code, answer.old_style_offsets) == (Err.NONE, [5, 0])
    else:
        wire.start(request, 0)
        await wire.closed()

"""OffsetDelete (catalogue 121-128)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.conformance.driver import Kafka, Partition, subscription

T, T1, U = ("t0", 0), ("t0", 1), ("t1", 0)


async def delete(kafka: Kafka, partitions: Iterable[Partition], group: str | None = None) -> Any:
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for topic, index in partitions:
        item = topics.setdefault(topic, OffsetDeleteRequestTopic(topic))
        item.partitions.append(OffsetDeleteRequestPartition(index))
    return await kafka.ask(OffsetDeleteRequest(kafka.group if group is None else group, list(topics.values())), 0)


def errors(answer: Any) -> dict[Partition, Err]:
    return {(t.name, p.partition_index): Err(p.error_code) for t in answer.topics for p in t.partitions}


async def test_121_unknown_group(kafka: Kafka) -> None:
    answer = await delete(kafka, [T])
    assert (answer.error_code, answer.topics) == (Err.GROUP_ID_NOT_FOUND, [])


async def test_122_empty_group(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.commit({T: 5, T1: 6, U: 7})
    await m1.leave()
    answer = await delete(kafka, [T, U])
    assert answer.error_code == Err.NONE
    assert errors(answer) == {T: Err.NONE, U: Err.NONE}
    assert await kafka.committed([T, T1, U]) == {T: -1, T1: 6, U: -1}


async def test_122_simple_group(kafka: Kafka) -> None:
    await kafka.commit({T: 5, T1: 6})
    assert errors(await delete(kafka, [T])) == {T: Err.NONE}
    assert await kafka.committed(None) == {T1: 6}


async def test_122_last_offset_of_a_simple_group(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    await delete(kafka, [T])
    assert await kafka.committed([T]) == {T: -1}
    assert (await kafka.describe()).group_state in ("Empty", "Dead")


async def test_123_live_consumer_group(kafka: Kafka) -> None:
    [m1] = await kafka.stable(protocols=[("range", subscription("t0"))])
    await m1.commit({T: 5, U: 6})
    answer = await delete(kafka, [T, U])
    assert answer.error_code == Err.NONE
    assert errors(answer) == {T: Err.GROUP_SUBSCRIBED_TO_TOPIC, U: Err.NONE}
    assert await kafka.committed([T, U]) == {T: 5, U: -1}


async def test_123_subscriptions_of_all_members_count(kafka: Kafka) -> None:
    [m1] = await kafka.joined(protocols=[("range", subscription("t0"))])
    m2 = await kafka.member("m2", protocols=[("range", subscription("t1"))])
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    await m1.join()
    await parked
    await m1.sync()
    await m2.sync()
    await m1.commit({T: 5, U: 6})
    assert errors(await delete(kafka, [T, U])) == dict.fromkeys((T, U), Err.GROUP_SUBSCRIBED_TO_TOPIC)


async def test_123_rebalancing_consumer_group(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.commit({T: 5, U: 6})
    m2 = await kafka.member("m2")
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    answer = await delete(kafka, [T, U])
    assert answer.error_code == Err.NONE
    assert errors(answer) == {T: Err.GROUP_SUBSCRIBED_TO_TOPIC, U: Err.NONE}
    await m1.join()
    await parked


async def test_124_live_group_of_another_type(kafka: Kafka) -> None:
    [m1] = await kafka.stable(protocol_type="connect")
    await m1.commit({T: 5})
    answer = await delete(kafka, [T])
    assert (answer.error_code, answer.topics) == (Err.NON_EMPTY_GROUP, [])
    assert await kafka.committed([T]) == {T: 5}


async def test_125_unparsable_subscription_counts_as_all_topics(kafka: Kafka) -> None:
    [m1] = await kafka.stable(protocols=[("range", b"?")])
    await m1.commit({T: 5, U: 6})
    answer = await delete(kafka, [T, U])
    assert errors(answer) == dict.fromkeys((T, U), Err.GROUP_SUBSCRIBED_TO_TOPIC)


PREFIX = subscription("t0")[2:]


@pytest.mark.parametrize(
    "metadata",
    [b"\0\1" + PREFIX, b"\0\3" + PREFIX, b"\0\x09" + PREFIX, b"\xff\xff" + PREFIX, b"\0\1" + PREFIX + b"\0\0"],
    ids=["v1-prefix", "v3-prefix", "v9-prefix", "negative", "v1-torn"],
)
async def test_125_subscription_is_read_as_far_as_version_0_reaches(kafka: Kafka, metadata: bytes) -> None:
    """The version that the subscription claims does not matter: "V0 must prefix all"."""
    [m1] = await kafka.stable(protocols=[("range", metadata)])
    await m1.commit({T: 5, U: 6})
    assert errors(await delete(kafka, [T, U])) == {T: Err.GROUP_SUBSCRIBED_TO_TOPIC, U: Err.NONE}


@pytest.mark.parametrize("before", [False, True], ids=["asked-once", "asked-before"])
async def test_123_subscriptions_are_those_that_the_generation_began_with(kafka: Kafka, before: bool) -> None:
    """A member waiting to join does not count yet, one that has left still does; an earlier request changes nothing."""
    [m1] = await kafka.stable(protocols=[("range", subscription("t0"))])
    if before:
        await delete(kafka, [T])
    m2 = await kafka.member("m2", protocols=[("range", subscription("t1"))])
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    assert errors(await delete(kafka, [T, U])) == {T: Err.GROUP_SUBSCRIBED_TO_TOPIC, U: Err.NONE}
    await m1.join()
    await parked
    assert errors(await delete(kafka, [T, U])) == dict.fromkeys((T, U), Err.GROUP_SUBSCRIBED_TO_TOPIC)
    await m1.leave()
    await kafka.until("PreparingRebalance", members=1)
    assert errors(await delete(kafka, [T, U])) == dict.fromkeys((T, U), Err.GROUP_SUBSCRIBED_TO_TOPIC)
    assert (await m2.join()).generation_id == 3
    assert errors(await delete(kafka, [T, U])) == {T: Err.NONE, U: Err.GROUP_SUBSCRIBED_TO_TOPIC}


async def test_123_replaced_static_member_counts_with_what_it_said_when_the_generation_began(kafka: Kafka) -> None:
    await kafka.stable(instances=["i1"], protocols=[("range", subscription("t0"))])
    again = await kafka.member("again", instance="i1", protocols=[("range", subscription("t1"))])
    assert (await again.join()).generation_id == 1
    assert errors(await delete(kafka, [T, U])) == {T: Err.GROUP_SUBSCRIBED_TO_TOPIC, U: Err.NONE}


async def test_122_empty_group_without_offsets(kafka: Kafka) -> None:
    """In 3.4 it is gone behind an OffsetDelete of a partition that is there."""
    [m1] = await kafka.stable()
    await m1.leave()
    await delete(kafka, [("t0", 77)])
    assert (await kafka.describe()).group_state == "Empty"
    assert errors(await delete(kafka, [T])) == {T: Err.NONE}
    assert (await kafka.describe()).group_state == kafka.pick(old="Dead", new="Empty")


async def test_122_group_of_a_pending_member_alone(kafka: Kafka) -> None:
    member = await kafka.member()
    await member.ask_id()
    assert errors(await delete(kafka, [T])) == {T: Err.NONE}
    assert (await member.try_join()).error_code == kafka.pick(old=Err.UNKNOWN_MEMBER_ID, new=Err.NONE)


@pytest.mark.parametrize(
    "asked",
    [
        [("t0", [77, 77])],
        [("t0", [0, 0])],
        [("t0", [0]), ("t0", [1])],
        [("t0", [0]), ("no-such-topic", [0]), ("no-such-topic", [0, 1]), ("t0", [1])],
        [("t1", []), ("no-such-topic", [])],
    ],
    ids=["unknown", "known", "topic", "all", "none"],
)
async def test_s2_8_named_twice_or_without_partitions(kafka: Kafka, asked: list[tuple[str, list[int]]]) -> None:
    await kafka.commit({T: 5, T1: 6, U: 7})
    topics = [OffsetDeleteRequestTopic(t, [OffsetDeleteRequestPartition(p) for p in parts]) for t, parts in asked]
    answer = await kafka.watch(OffsetDeleteRequest(kafka.group, topics), 0)
    shown = [(topic.name, sorted(p.partition_index for p in topic.partitions)) for topic in answer.topics]
    if kafka.old:  # a set of partitions, in the order of a hash map
        expected = {topic: sorted({p for t, parts in asked if t == topic for p in parts}) for topic, _ in asked}
        assert dict(shown) == {topic: parts for topic, parts in expected.items() if parts}
    else:
        kafka.recording.note("topics", [[topic, *map(str, parts)] for topic, parts in shown])
    assert answer.error_code == Err.NONE


async def test_127_empty_group_id(kafka: Kafka) -> None:
    answer = await delete(kafka, [T], group="")
    assert (answer.error_code, answer.topics) == (Err.INVALID_GROUP_ID, [])


async def test_128_invalid_group_and_unknown_topic(kafka: Kafka) -> None:
    answer = await delete(kafka, [("no-such-topic", 0)], group="")
    assert answer.error_code == kafka.pick(old=Err.INVALID_GROUP_ID, new=Err.INVALID_GROUP_ID)


async def test_s2_8_unknown_topic_and_partition(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    answer = await delete(kafka, [T, ("no-such-topic", 0), ("t0", 77)])
    assert answer.error_code == Err.NONE
    assert errors(answer) == {
        T: Err.NONE,
        ("no-such-topic", 0): Err.UNKNOWN_TOPIC_OR_PARTITION,
        ("t0", 77): Err.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_s2_8_only_unknown_topics_and_an_unknown_group(kafka: Kafka) -> None:
    answer = await delete(kafka, [("no-such-topic", 0)])
    assert answer.error_code == kafka.pick(old=Err.GROUP_ID_NOT_FOUND, new=Err.GROUP_ID_NOT_FOUND)


async def test_s2_8_partition_without_a_commit(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    assert errors(await delete(kafka, [T1])) == {T1: Err.NONE}
    assert await kafka.committed([T]) == {T: 5}


async def test_s2_8_no_topics(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    answer = await delete(kafka, [])
    assert (answer.error_code, answer.topics) == (Err.NONE, [])

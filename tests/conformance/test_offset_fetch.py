"""OffsetFetch (catalogue 105-112)."""

from __future__ import annotations

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.conformance.driver import Kafka, Partition, fetch_request, stays_parked

T, T1, U = ("t0", 0), ("t0", 1), ("t1", 0)


def first(answer, version: int):  # type: ignore[no-untyped-def]
    return (answer.groups[0] if version >= 8 else answer).topics[0].partitions[0]


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6, 7, 8])
async def test_105_one_group_in_every_version(kafka: Kafka, version: int) -> None:
    await kafka.commit({T: (5, "meta")}, committed_leader_epoch=2)
    found = first(await kafka.ask(fetch_request(kafka.group, [T], version), version), version)
    assert (found.committed_offset, found.metadata, found.error_code) == (5, "meta", Err.NONE)
    assert found.committed_leader_epoch == (2 if version >= 5 else -1)


@pytest.mark.parametrize("version", [2, 7, 8])
async def test_105_all_offsets_of_a_group(kafka: Kafka, version: int) -> None:
    await kafka.commit({T: 5, T1: 6, U: 7})
    assert await kafka.committed(None, version=version) == {T: 5, T1: 6, U: 7}


async def test_105_several_groups(kafka: Kafka) -> None:
    a, b, none = kafka.name("a"), kafka.name("b"), kafka.name("none")
    await kafka.commit({T: 5}, group=a)
    await kafka.commit({T: 6, U: 7}, group=b)
    topics = [OffsetFetchRequestTopics("t0", partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(a, topics=topics), OffsetFetchRequestGroup(b), OffsetFetchRequestGroup(none)]
    groups[1].topics = None
    groups[2].topics = topics
    answer = await kafka.ask(OffsetFetchRequest(groups=groups), 8)
    found = {
        group.group_id: {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in group.topics
            for partition in topic.partitions
        }
        for group in answer.groups
    }
    assert found == {a: {T: 5}, b: {T: 6, U: 7}, none: {T: -1}}
    if not kafka.old:
        assert [group.group_id for group in answer.groups] == [a, b, none]


async def test_105_one_bad_group_among_several(kafka: Kafka) -> None:
    good, empty = kafka.name("good"), ""
    await kafka.forget(empty)
    await kafka.commit({T: 5}, group=good)
    topics = [OffsetFetchRequestTopics("t0", partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(empty, topics=topics), OffsetFetchRequestGroup(good, topics=topics)]
    answer = await kafka.ask(OffsetFetchRequest(groups=groups), 8)
    assert {group.group_id: group.error_code for group in answer.groups} == {good: Err.NONE, empty: Err.NONE}


async def test_105_no_groups(kafka: Kafka) -> None:
    """3.4 never answers this one."""
    wire = await kafka.wire()
    answer = wire.start(OffsetFetchRequest(), 8)
    if kafka.old:
        await stays_parked(answer, ms=300)
    else:
        assert (await answer).groups == []


async def test_105_partitions_in_request_order(kafka: Kafka) -> None:
    order: list[Partition] = [("t1", 2), ("t1", 0), ("t0", 1), ("t0", 0)]
    await kafka.commit(dict.fromkeys(order, 5))
    answer = await kafka.ask(fetch_request(kafka.group, order, 8), 8)
    seen = [(t.name, p.partition_index) for t in answer.groups[0].topics for p in t.partitions]
    assert sorted(seen) == sorted(order)
    if not kafka.old:
        assert seen == order


@pytest.mark.parametrize("version", [1, 2, 8])
async def test_106_unknown_group(kafka: Kafka, version: int) -> None:
    found = first(await kafka.ask(fetch_request(kafka.group, [T], version), version), version)
    assert (found.committed_offset, found.committed_leader_epoch, found.metadata) == (-1, -1, "")
    assert found.error_code == Err.NONE


async def test_106_unknown_group_asked_for_all(kafka: Kafka) -> None:
    assert await kafka.committed(None) == {}


async def test_106_unknown_topic_and_partition(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    wanted = [("no-such-topic", 0), ("t0", 77), ("t0", -1)]
    assert await kafka.committed(wanted) == dict.fromkeys(wanted, -1)


async def test_106_partition_without_a_commit(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    assert await kafka.committed([T, T1]) == {T: 5, T1: -1}


async def test_106_fetch_creates_no_group(kafka: Kafka) -> None:
    await kafka.committed([T])
    assert (await kafka.describe()).group_state == "Dead"


async def test_106_group_with_members_and_no_commits(kafka: Kafka) -> None:
    await kafka.stable()
    assert await kafka.committed([T]) == {T: -1}
    assert await kafka.committed(None) == {}


async def test_108_empty_group_id_is_legal(kafka: Kafka) -> None:
    await kafka.forget("")
    assert await kafka.committed([U], group="") == {U: -1}


@pytest.mark.parametrize("version", [7, 8])
async def test_109_require_stable_without_transactions(kafka: Kafka, version: int) -> None:
    await kafka.commit({T: 5})
    assert await kafka.committed([T, T1], version=version, require_stable=True) == {T: 5, T1: -1}


async def test_109_require_stable_of_an_unknown_group(kafka: Kafka) -> None:
    assert await kafka.committed([T], require_stable=True) == {T: -1}


@pytest.mark.parametrize("state", ["completing", "preparing"])
async def test_s2_7_the_state_of_the_group_does_not_matter(kafka: Kafka, state: str) -> None:
    await kafka.commit({T: 5})
    m1, m2 = await kafka.joined(2)
    if state == "preparing":
        m2.protocols = [("range", b"x")]
        m2.start_join()
        await kafka.until("PreparingRebalance")
    assert await kafka.committed([T]) == {T: 5}
    assert m1.generation == 2


@pytest.mark.parametrize("version", [7, 8])
async def test_112_no_topics_is_not_all(kafka: Kafka, version: int) -> None:
    await kafka.commit({T: 5})
    assert await kafka.committed([], version=version) == {}


async def test_112_topic_without_partitions(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    group = OffsetFetchRequestGroup(kafka.group, topics=[OffsetFetchRequestTopics("t0", partition_indexes=[])])
    answer = await kafka.ask(OffsetFetchRequest(groups=[group]), 8)
    topics = answer.groups[0].topics
    assert [(topic.name, topic.partitions) for topic in topics] == kafka.pick(old=[], new=[("t0", [])])


@pytest.mark.parametrize("version", [7, 8])
async def test_112_same_topic_twice(kafka: Kafka, version: int) -> None:
    await kafka.commit({T: 5, T1: 6})
    shape = OffsetFetchRequestTopics if version == 8 else OffsetFetchRequestTopic
    topics = [shape(name="t0", partition_indexes=indexes) for indexes in ([0, 1], [1, 2])]
    request = (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(kafka.group, topics=topics)] * 2)
        if version == 8
        else OffsetFetchRequest(kafka.group, topics)
    )
    answer = await kafka.ask(request, version)
    answers = answer.groups if version == 8 else [answer]
    assert len(answers) == (kafka.pick(old=1, new=2) if version == 8 else 1)
    asked = [sorted(p.partition_index for p in topic.partitions) for one in answers for topic in one.topics]
    assert asked == kafka.pick(old=[[0, 1, 2]], new=[[0, 1], [1, 2]] * len(answers))


async def test_112_same_partition_twice(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    group = OffsetFetchRequestGroup(kafka.group, topics=[OffsetFetchRequestTopics("t0", partition_indexes=[0, 0])])
    answer = await kafka.ask(OffsetFetchRequest(groups=[group]), 8)
    assert len(answer.groups[0].topics[0].partitions) == kafka.pick(old=1, new=2)


async def test_110_latest_commit_is_served(kafka: Kafka) -> None:
    for offset in range(20):
        await kafka.commit({T: offset})
        assert await kafka.committed([T]) == {T: offset}


async def test_110_commit_on_one_connection_is_seen_on_another(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.commit({T: 9})
    assert await kafka.committed([T]) == {T: 9}


@pytest.mark.parametrize("member", [None, "nobody"])
async def test_111_v9_member_of_a_classic_group_is_not_looked_at(kafka: Kafka, member: str | None) -> None:
    await kafka.commit({T: 5})
    topics = [OffsetFetchRequestTopics("t0", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(kafka.group, member, 3 if member else -1, topics)])
    wire = await kafka.wire()
    if kafka.old:
        wire.start(request, 9)
        await wire.closed()
        return
    answer = await wire.send(request, 9)
    assert answer.groups[0].error_code == Err.NONE
    assert first(answer, 9).committed_offset == 5


async def test_111_v9_member_of_an_unknown_group(kafka: Kafka) -> None:
    topics = [OffsetFetchRequestTopics("t0", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(kafka.group, "nobody", 3, topics)])
    wire = await kafka.wire()
    if kafka.old:
        wire.start(request, 9)
        await wire.closed()
        return
    answer = await wire.send(request, 9)
    assert answer.groups[0].error_code == Err.NONE


async def test_s2_7_v0_of_3_4(kafka: Kafka) -> None:
    wire = await kafka.wire()
    if kafka.old:
        answer = await wire.send(fetch_request(kafka.group, [T], 0), 0)
        assert first(answer, 0).error_code == Err.UNSUPPORTED_VERSION
    else:
        wire.start(fetch_request(kafka.group, [T], 0), 0)
        await wire.closed()

"""OffsetCommit (catalogue 91-104): the checks in their order, and what is stored."""

from __future__ import annotations

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from tests.conformance.driver import Kafka, commit_request, fetch_request
from tests.conformance.logs import log_of

T, T1 = ("t0", 0), ("t0", 1)
ADMIN = {"generation_id_or_member_epoch": -1, "member_id": ""}


def as_member(generation: int, member_id: str = "nobody", instance: str | None = None) -> dict[str, object]:
    return {"generation_id_or_member_epoch": generation, "member_id": member_id, "group_instance_id": instance}


@pytest.mark.parametrize("version", [2, 5, 8])
async def test_091_unknown_group_without_generation_is_created(kafka: Kafka, version: int) -> None:
    assert await kafka.commit({T: 5}, version=version) == {T: Err.NONE}
    assert await kafka.committed([T]) == {T: 5}


@pytest.mark.parametrize("version", [2, 8])
async def test_091_unknown_group_with_a_generation(kafka: Kafka, version: int) -> None:
    assert await kafka.commit({T: 5}, version=version, **as_member(0)) == {T: Err.ILLEGAL_GENERATION}
    assert await kafka.committed([T]) == {T: -1}


async def test_091_unknown_group_with_a_member_but_no_generation(kafka: Kafka) -> None:
    assert await kafka.commit({T: 5}, **as_member(-1)) == {T: Err.NONE}


async def test_093_unknown_member(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    assert await m1.commit({T: 5}, member_id="nobody") == {T: Err.UNKNOWN_MEMBER_ID}


async def test_093_unknown_instance(kafka: Kafka) -> None:
    [m1] = await kafka.stable(instances=["i1"])
    assert await m1.commit({T: 5}, group_instance_id="i9") == {T: Err.UNKNOWN_MEMBER_ID}


async def test_093_fenced_instance(kafka: Kafka) -> None:
    [m1] = await kafka.stable(instances=["i1"])
    assert await m1.commit({T: 5}, member_id="other") == {T: Err.FENCED_INSTANCE_ID}


@pytest.mark.parametrize("generation", [0, 2, -1])
async def test_093_other_generation(kafka: Kafka, generation: int) -> None:
    [m1] = await kafka.stable()
    answer = await m1.commit({T: 5}, generation_id_or_member_epoch=generation)
    assert answer == {T: Err.ILLEGAL_GENERATION}
    assert await kafka.committed([T]) == {T: -1}


async def test_093_error_goes_to_every_partition(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    offsets = {T: 1, T1: 2, ("t1", 0): 3}
    answer = await m1.commit(offsets, generation_id_or_member_epoch=9)
    assert answer == dict.fromkeys(offsets, Err.ILLEGAL_GENERATION)


async def test_093_pending_member_is_unknown(kafka: Kafka) -> None:
    await kafka.stable()
    m2 = await kafka.member("m2")
    await m2.ask_id()
    assert await m2.commit({T: 5}, generation_id_or_member_epoch=1) == {T: Err.UNKNOWN_MEMBER_ID}


async def test_094_completing(kafka: Kafka) -> None:
    [m1] = await kafka.joined()
    assert await m1.commit({T: 5}) == {T: Err.REBALANCE_IN_PROGRESS}
    assert await kafka.committed([T]) == {T: -1}


async def test_094_completing_with_a_bad_member(kafka: Kafka) -> None:
    [m1] = await kafka.joined()
    assert await m1.commit({T: 5}, member_id="nobody") == {T: Err.UNKNOWN_MEMBER_ID}


async def test_094_completing_with_a_bad_generation(kafka: Kafka) -> None:
    [m1] = await kafka.joined()
    assert await m1.commit({T: 5}, generation_id_or_member_epoch=7) == {T: Err.ILLEGAL_GENERATION}


async def test_s2_6_r11_preparing_accepts_commits(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    parked = m1.start_join()
    await kafka.until("PreparingRebalance")
    assert await m2.commit({T: 5}) == {T: Err.NONE}
    assert await kafka.committed([T]) == {T: 5}
    await m2.join()
    await parked


async def test_s2_6_r11_stable_accepts_commits(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    assert await m1.commit({T: 5, T1: 6}) == {T: Err.NONE, T1: Err.NONE}
    assert await kafka.committed([T, T1]) == {T: 5, T1: 6}


async def test_095_admin_commit_on_a_live_group(kafka: Kafka) -> None:
    await kafka.stable()
    assert await kafka.commit({T: 5}) == {T: Err.UNKNOWN_MEMBER_ID}


async def test_095_admin_commit_while_completing(kafka: Kafka) -> None:
    await kafka.joined()
    assert await kafka.commit({T: 5}) == {T: Err.UNKNOWN_MEMBER_ID}


async def test_095_admin_commit_on_an_empty_group(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.commit({T: 5})
    await m1.leave()
    assert await kafka.commit({T: 6}) == {T: Err.NONE}
    assert await kafka.committed([T]) == {T: 6}


async def test_095_any_member_id_without_generation_on_an_empty_group(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.leave()
    assert await kafka.commit({T: 6}, **as_member(-1)) == {T: Err.NONE}


async def test_095_instance_without_generation_on_an_empty_group(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.leave()
    assert await kafka.commit({T: 6}, **as_member(-1, instance="i1")) == {T: Err.NONE}


async def test_096_generation_on_a_group_that_emptied(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.leave()
    assert await m1.commit({T: 6}) == {T: Err.UNKNOWN_MEMBER_ID}


async def test_096_simple_group_with_a_generation(kafka: Kafka) -> None:
    await kafka.commit({T: 1})
    assert await kafka.commit({T: 2}, **as_member(0)) == {T: Err.UNKNOWN_MEMBER_ID}
    assert await kafka.committed([T]) == {T: 1}


async def test_096_generation_alone_without_a_member_on_an_empty_group(kafka: Kafka) -> None:
    await kafka.commit({T: 1})
    assert await kafka.commit({T: 2}, **as_member(0, "")) == {T: Err.UNKNOWN_MEMBER_ID}


async def test_098_metadata_too_large_for_one_partition(kafka: Kafka) -> None:
    """offset.metadata.max.bytes is 100."""
    answer = await kafka.commit({T: (5, "x" * 101), T1: (6, "x" * 100)})
    assert answer == {T: Err.OFFSET_METADATA_TOO_LARGE, T1: Err.NONE}
    assert await kafka.committed([T, T1]) == {T: -1, T1: 6}


async def test_098_metadata_too_large_for_all(kafka: Kafka) -> None:
    answer = await kafka.commit({T: (5, "x" * 101), T1: (6, "x" * 101)})
    assert answer == dict.fromkeys((T, T1), Err.OFFSET_METADATA_TOO_LARGE)


@pytest.mark.parametrize(
    ("text", "accepted"), [("ä" * 100, True), ("😀" * 50, True), ("😀" * 51, False)], ids=["bmp", "pairs", "too-many"]
)
async def test_098_metadata_is_measured_in_utf16_units(kafka: Kafka, text: str, accepted: bool) -> None:
    assert await kafka.commit({T: (5, text)}) == {T: Err.NONE if accepted else Err.OFFSET_METADATA_TOO_LARGE}


async def test_098_metadata_too_large_is_checked_after_the_member(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    answer = await m1.commit({T: (5, "x" * 101)}, member_id="nobody")
    assert answer == {T: Err.UNKNOWN_MEMBER_ID}


async def test_098_metadata_too_large_for_all_still_creates_the_group(kafka: Kafka) -> None:
    """4.1 has it, too, unseen: who lists and describes sees what is committed alone, and nothing was written."""
    await kafka.commit({T: (5, "x" * 101)})
    assert (await kafka.describe()).group_state == kafka.pick(old="Empty", new="Dead")
    assert [Err(one.error_code) for one in (await kafka.ask(DeleteGroupsRequest([kafka.group]), 2)).results] == [
        Err.NONE
    ]
    again = await kafka.ask(DeleteGroupsRequest([kafka.group]), 2)
    assert [Err(one.error_code) for one in again.results] == [Err.GROUP_ID_NOT_FOUND]


async def test_098_group_of_a_refused_commit_is_an_empty_one(kafka: Kafka) -> None:
    await kafka.commit({T: (5, "x" * 101)})
    assert await kafka.commit({T: 5}, generation_id_or_member_epoch=1) == {T: Err.UNKNOWN_MEMBER_ID}
    assert await kafka.commit({T: 6}) == {T: Err.NONE}
    assert (await kafka.describe()).group_state == "Empty"


async def test_098_join_of_the_group_of_a_refused_commit_writes_no_record_of_it(kafka: Kafka) -> None:
    await kafka.commit({T: (5, "x" * 101)})
    member = await kafka.member()
    await member.ask_id()
    assert await log_of(kafka) == []


async def test_s2_6_topics_without_partitions(kafka: Kafka) -> None:
    """4.1 names those that aren't there."""
    known, empty = (
        OffsetCommitRequestTopic("t0", partitions=[OffsetCommitRequestPartition(0, 5)]),
        OffsetCommitRequestTopic("t1"),
    )
    unknown = OffsetCommitRequestTopic("no-such-topic")
    for topics in ([known, empty], [known, empty, unknown], [empty], [unknown]):
        answer = await kafka.ask(OffsetCommitRequest(kafka.group, topics=topics), 8)
        named = {topic.name for topic in answer.topics}
        assert ("no-such-topic" in named) == (unknown in topics and not kafka.old)
        assert "t1" not in named


@pytest.mark.parametrize("missing", [False, True], ids=["all-there", "some-missing"])
async def test_s2_6_topic_named_twice(kafka: Kafka, missing: bool) -> None:
    """4.1 answers it twice, unless something isn't there."""
    first = OffsetCommitRequestTopic("t0", partitions=[OffsetCommitRequestPartition(0, 5)])
    second = OffsetCommitRequestTopic(
        "t0", partitions=[OffsetCommitRequestPartition(1, 5), OffsetCommitRequestPartition(0, 6)]
    )
    if missing:
        second.partitions.append(OffsetCommitRequestPartition(77, 5))
    answers = [await kafka.ask(OffsetCommitRequest(kafka.group, topics=[first, second]), 8) for _ in range(3)]
    shown = [[topic.name for topic in answer.topics] for answer in answers]
    assert shown == [["t0", "t0"] if not kafka.old and not missing else ["t0"]] * 3
    assert await kafka.committed([T, T1]) == {T: 6, T1: 5}


async def test_101_empty_group_id(kafka: Kafka) -> None:
    await kafka.forget("")
    assert await kafka.commit({T: 5}, group="") == {T: Err.NONE}
    assert await kafka.committed([T], group="") == {T: 5}


async def test_102_simple_group_is_created(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    shown = await kafka.describe()
    assert (shown.group_state, shown.protocol_type, shown.members) == ("Empty", "", [])


async def test_102_simple_group_becomes_a_real_one(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    [m1] = await kafka.stable()
    assert m1.generation == 1
    assert await kafka.committed([T]) == {T: 5}
    assert await m1.commit({T: 6}) == {T: Err.NONE}


async def test_104_unknown_topic_and_partition(kafka: Kafka) -> None:
    answer = await kafka.commit({T: 5, ("no-such-topic", 0): 6, ("t0", 77): 7, ("t0", -1): 8})
    assert answer == {
        T: Err.NONE,
        ("no-such-topic", 0): Err.UNKNOWN_TOPIC_OR_PARTITION,
        ("t0", 77): Err.UNKNOWN_TOPIC_OR_PARTITION,
        ("t0", -1): Err.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert await kafka.committed([T]) == {T: 5}


async def test_104_nothing_valid_and_the_group_is_not_looked_at(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    answer = await m1.commit({("no-such-topic", 0): 5}, generation_id_or_member_epoch=9)
    assert answer == {("no-such-topic", 0): Err.UNKNOWN_TOPIC_OR_PARTITION}


async def test_104_nothing_valid_creates_no_group(kafka: Kafka) -> None:
    await kafka.commit({("no-such-topic", 0): 5})
    assert (await kafka.describe()).group_state == "Dead"


async def test_104_no_topics_at_all(kafka: Kafka) -> None:
    answer = await kafka.ask(OffsetCommitRequest(kafka.group), 8)
    assert answer.topics == []


async def test_104_topic_without_partitions(kafka: Kafka) -> None:
    answer = await kafka.ask(OffsetCommitRequest(kafka.group, topics=[OffsetCommitRequestTopic("t0")]), 8)
    assert [(topic.name, topic.partitions) for topic in answer.topics] == []


@pytest.mark.parametrize("offset", [0, -1, -5, 2**63 - 1, -(2**63)])
async def test_s2_6_any_offset_is_accepted(kafka: Kafka, offset: int) -> None:
    assert await kafka.commit({T: offset}) == {T: Err.NONE}
    assert await kafka.committed([T]) == {T: offset}


async def test_s2_6_null_metadata_is_stored_as_empty(kafka: Kafka) -> None:
    await kafka.commit({T: (5, None)})
    answer = await kafka.ask(fetch_request(kafka.group, [T], 8), 8)
    assert answer.groups[0].topics[0].partitions[0].metadata == ""


async def test_s2_6_metadata_comes_back(kafka: Kafka) -> None:
    await kafka.commit({T: (5, "märk 😀")})
    answer = await kafka.ask(fetch_request(kafka.group, [T], 8), 8)
    assert answer.groups[0].topics[0].partitions[0].metadata == "märk 😀"


async def test_s2_6_leader_epoch_comes_back(kafka: Kafka) -> None:
    await kafka.commit({T: 5}, committed_leader_epoch=3)
    answer = await kafka.ask(fetch_request(kafka.group, [T], 8), 8)
    assert answer.groups[0].topics[0].partitions[0].committed_leader_epoch == 3


async def test_s2_6_lower_offset_replaces_a_higher_one(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    await kafka.commit({T: 2})
    assert await kafka.committed([T]) == {T: 2}


async def test_s2_6_same_partition_twice_in_one_request(kafka: Kafka) -> None:
    request = commit_request(kafka.group, {T: 5})
    request.topics[0].partitions.append(commit_request(kafka.group, {T: 9}).topics[0].partitions[0])
    answer = await kafka.ask(request, 8)
    assert [partition.error_code for partition in answer.topics[0].partitions] == kafka.pick(old=[0], new=[0, 0])
    assert await kafka.committed([T]) == {T: 9}


async def test_s2_6_same_partition_twice_and_refused_the_second_time(kafka: Kafka) -> None:
    """In 3.4 the later one is the one that counts, although it is not taken."""
    request = commit_request(kafka.group, {T: 5, T1: 6})
    request.topics[0].partitions += commit_request(kafka.group, {T: (9, "x" * 101)}).topics[0].partitions
    await kafka.ask(request, 8)
    assert await kafka.committed([T, T1]) == {T: kafka.pick(old=-1, new=5), T1: 6}


async def test_s2_6_commit_of_one_group_is_not_seen_by_another(kafka: Kafka) -> None:
    await kafka.commit({T: 5})
    assert await kafka.committed([T], group=kafka.name("other")) == {T: -1}


async def test_s2_6_topic_need_not_be_subscribed(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    assert await m1.commit({("t1", 2): 5}) == {("t1", 2): Err.NONE}


async def test_s2_6_follower_commits_any_partition(kafka: Kafka) -> None:
    _, m2 = await kafka.stable(2)
    assert await m2.commit({T: 4, T1: 5}) == {T: Err.NONE, T1: Err.NONE}


async def test_s2_6_v0_and_v1_of_3_4(kafka: Kafka) -> None:
    """v0 belonged to ZooKeeper: a KRaft broker refuses it; v1 carries a timestamp. 4.1 speaks neither."""
    wire = await kafka.wire()
    if kafka.old:
        answer = await wire.send(commit_request(kafka.group, {T: 5}), 0)
        assert answer.topics[0].partitions[0].error_code == Err.UNSUPPORTED_VERSION
        answer = await wire.send(commit_request(kafka.group, {T: 5}, commit_timestamp=1234), 1)
        assert answer.topics[0].partitions[0].error_code == Err.NONE
        assert await kafka.committed([T]) == {T: 5}
        return
    for version in (0, 1):
        wire = await kafka.wire()
        wire.start(commit_request(kafka.group, {T: 5}), version)
        await wire.closed()


async def test_091_v9_unknown_group_with_an_epoch(kafka: Kafka) -> None:
    wire = await kafka.wire()
    request = commit_request(kafka.group, {T: 5}, **as_member(0))
    if kafka.old:
        wire.start(request, 9)
        await wire.closed()
    else:
        answer = await wire.send(request, 9)
        assert answer.topics[0].partitions[0].error_code == Err.GROUP_ID_NOT_FOUND


async def test_103_v9_works_for_classic_groups(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    if kafka.old:
        wire = await kafka.wire()
        wire.start(commit_request(kafka.group, {T: 5}), 9)
        await wire.closed()
    else:
        assert await m1.commit({T: 5}, version=9) == {T: Err.NONE}
        assert await m1.commit({T: 5}, version=9, generation_id_or_member_epoch=7) == {T: Err.ILLEGAL_GENERATION}
        assert await m1.commit({T: 5}, version=9, member_id="nobody") == {T: Err.UNKNOWN_MEMBER_ID}


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7, 8])
async def test_s2_6_every_version_stores(kafka: Kafka, version: int) -> None:
    [m1] = await kafka.stable()
    assert await m1.commit({T: 5, ("t1", 0): 6}, version=version) == {T: Err.NONE, ("t1", 0): Err.NONE}
    assert await kafka.committed([T, ("t1", 0)]) == {T: 5, ("t1", 0): 6}

"""Expiry of offsets and groups (catalogue 97, 138-144). Retention 1 minute, checks every 100 or 200 ms.

history.aged_history tells how old what is.
"""

from __future__ import annotations

import asyncio

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.conformance.driver import GIVE_UP_S, Kafka, background, clock_s, stays_parked
from tests.conformance.history import past_group
from tests.conformance.logs import log_of
from tests.conformance.transactional import Producer

T, T1, U = ("t0", 0), ("t0", 1), ("t1", 0)
AT_ONCE = 3  # the JoinGroup version before KIP-394: a group of a pending member alone would be removed by a check
aged = pytest.mark.profile("aged")
expiry = pytest.mark.profile("expiry")


async def offsets_become(kafka: Kafka, base: str, expected: dict[tuple[str, int], int]) -> None:
    """Polls until the group's offsets are these."""
    group = past_group("aged", base)
    give_up = clock_s() + GIVE_UP_S
    while True:
        found = await kafka.committed(None, group=group, record=False)
        if found == expected:
            return
        assert clock_s() < give_up, f"the offsets are still {found}"
        await asyncio.sleep(0.02)


async def offsets_stay(kafka: Kafka, base: str, expected: dict[tuple[str, int], int]) -> None:
    """Check that these offsets are still there, two checks after offsets that surely have expired are gone."""
    await offsets_become(kafka, "simple-all", {})
    await stays_parked(background(asyncio.Event().wait()), ms=250)
    assert await kafka.committed(None, group=past_group("aged", base)) == expected


@aged
async def test_138_simple_group_by_commit_time(kafka: Kafka) -> None:
    await offsets_become(kafka, "simple", {T1: 6})
    assert (await kafka.describe(past_group("aged", "simple"))).group_state == "Empty"


@aged
async def test_143_last_offset_takes_the_simple_group_along(kafka: Kafka) -> None:
    await offsets_become(kafka, "simple-all", {})
    await kafka.until("Dead", group=past_group("aged", "simple-all"))


@aged
async def test_139_empty_group_by_the_time_it_became_empty(kafka: Kafka) -> None:
    """All at once, however young the commit."""
    await offsets_become(kafka, "empty-long-ago", {})
    await kafka.until("Dead", group=past_group("aged", "empty-long-ago"))


@aged
async def test_139_group_that_became_empty_lately_keeps_old_offsets(kafka: Kafka) -> None:
    await offsets_stay(kafka, "empty-just-now", {T: 5})


@aged
async def test_139_empty_group_without_a_state_time_by_commit_time(kafka: Kafka) -> None:
    await offsets_become(kafka, "empty-v1", {T1: 6})


@aged
async def test_140_subscribed_topics_do_not_expire(kafka: Kafka) -> None:
    await offsets_stay(kafka, "subscribed", {T: 5})


@aged
async def test_140_unsubscribed_topics_expire_in_a_stable_group(kafka: Kafka) -> None:
    await offsets_become(kafka, "unsubscribed", {T: 5})
    assert (await kafka.describe(past_group("aged", "unsubscribed"))).group_state == "Stable"


@aged
async def test_140_unsubscribed_topics_expire_by_commit_time(kafka: Kafka) -> None:
    await offsets_stay(kafka, "unsubscribed-young", {U: 6})


@aged
async def test_140_unparsable_subscription_keeps_everything(kafka: Kafka) -> None:
    await offsets_stay(kafka, "faulty", {U: 6})


@aged
async def test_140_other_protocol_types_keep_everything(kafka: Kafka) -> None:
    await offsets_stay(kafka, "connect", {U: 6})


@aged
async def test_141_explicit_expiry_time(kafka: Kafka) -> None:
    await offsets_become(kafka, "explicit-over", {})


@aged
async def test_141_explicit_expiry_time_outlasts_the_retention(kafka: Kafka) -> None:
    await offsets_stay(kafka, "explicit-later", {T: 5})


@aged
async def test_141_explicit_expiry_time_does_not_touch_a_live_group(kafka: Kafka) -> None:
    await offsets_stay(kafka, "explicit-but-alive", {T: 5})


@aged
async def test_143_loaded_empty_group_without_offsets_is_removed(kafka: Kafka) -> None:
    await kafka.until("Dead", group=past_group("aged", "empty-no-offsets"))
    entries = await log_of(kafka, past_group("aged", "empty-no-offsets"), partitions=8)
    assert [entry.raw_value is None for entry in entries] == [False, True]


@aged
async def test_143_loaded_group_that_never_completed_is_removed(kafka: Kafka) -> None:
    """The group's tombstone is written by 4.1 alone: 3.4 leaves groups of generation 0 to the log."""
    group = past_group("aged", "empty-no-offsets-0")
    await kafka.until("Dead", group=group)
    entries = await log_of(kafka, group, partitions=8)
    assert [entry.raw_value is None for entry in entries] == kafka.pick(old=[False], new=[False, True])


@expiry
async def test_143_emptied_group_without_offsets_is_removed(kafka: Kafka) -> None:
    [m1] = await kafka.stable(join_version=AT_ONCE)
    await m1.leave()
    await kafka.until("Dead")
    m2 = await kafka.member("m2", join_version=AT_ONCE)
    assert (await m2.join()).generation_id == 1


@expiry
async def test_143_emptied_group_with_offsets_stays(kafka: Kafka) -> None:
    [m1] = await kafka.stable(join_version=AT_ONCE)
    await m1.commit({T: 5})
    await m1.leave()
    await stays_parked(background(kafka.until("Dead")), ms=600)
    assert await kafka.committed([T]) == {T: 5}


@expiry
async def test_143_stable_group_without_offsets_stays(kafka: Kafka) -> None:
    [m1] = await kafka.stable(join_version=AT_ONCE)
    await stays_parked(background(kafka.until("Dead")), ms=600)
    assert await m1.heartbeat() == 0


@expiry
async def test_143_group_of_a_pending_member_alone(kafka: Kafka) -> None:
    """Empty and without offsets: it is removed under the pending member."""
    member = await kafka.member()
    await member.ask_id()
    await kafka.until("Empty")
    await kafka.until("Dead")
    await kafka.until_forgotten()
    assert (await member.try_join()).error_code == 25


@expiry
async def test_097_short_retention_time_of_an_empty_group(kafka: Kafka) -> None:
    await kafka.commit({T: 5}, version=2, retention_time_ms=300)
    await kafka.commit({T1: 6}, version=2, retention_time_ms=60_000)
    give_up = clock_s() + GIVE_UP_S
    while await kafka.committed(None, record=False) != {T1: 6}:
        assert clock_s() < give_up, "an offset that has expired is still there"
        await asyncio.sleep(0.02)
    assert await kafka.committed([T, T1]) == {T: -1, T1: 6}


@expiry
async def test_097_retention_time_of_a_live_group_waits(kafka: Kafka) -> None:
    [m1] = await kafka.stable(join_version=AT_ONCE)
    await m1.commit({T: 5}, version=2, retention_time_ms=100, group_instance_id=None)
    await stays_parked(background(asyncio.Event().wait()), ms=600)
    assert await kafka.committed([T]) == {T: 5}


@expiry
async def test_144_deleting_a_topic_deletes_its_offsets(kafka: Kafka) -> None:
    topic = await kafka.topic(kafka.name("topic"))
    await kafka.commit({(topic, 0): 5, T: 6})
    request = DeleteTopicsRequest([DeleteTopicState(topic)], [topic], 10_000)
    answer = await kafka.watch(request, 5)
    assert answer.responses[0].error_code == 0
    give_up = clock_s() + GIVE_UP_S
    while await kafka.committed(None, record=False) != {T: 6}:
        assert clock_s() < give_up, "an offset that has expired is still there"
        await asyncio.sleep(0.02)
    entries = await log_of(kafka)
    assert [(entry.key.topic, entry.raw_value is None) for entry in entries][-1] == (topic, True)


async def test_144_deleting_a_topic_ends_empty_groups_without_offsets(kafka: Kafka) -> None:
    """In 3.4, whatever the topic: all of them."""
    topic = await kafka.topic(kafka.name("topic"))
    [m1] = await kafka.stable()
    await m1.leave()
    pending = await kafka.member("pending", group=kafka.name("pending"))
    await pending.ask_id()
    await kafka.commit({(topic, 0): 5}, group=kafka.name("reader"))
    await kafka.watch(DeleteTopicsRequest([DeleteTopicState(topic)], [topic], 10_000), 5)
    give_up = clock_s() + GIVE_UP_S
    while await kafka.committed(None, group=kafka.name("reader"), record=False) != {}:
        assert clock_s() < give_up, "an offset that has expired is still there"
        await asyncio.sleep(0.02)
    if kafka.old:
        await kafka.until("Dead")
        await kafka.until("Dead", group=kafka.name("pending"))
        assert (await pending.try_join()).error_code == 25
        assert [entry.raw_value for entry in await log_of(kafka)][-1:] == [None]
    assert (await kafka.describe()).group_state == kafka.pick(old="Dead", new="Empty")


@pytest.mark.profile("load")
async def test_146_longest_retention_does_not_overflow(kafka: Kafka) -> None:
    """offsets.retention.minutes is 2**31 - 1: nothing expires, checks come every 200 ms."""
    await kafka.commit({T: 6})
    await stays_parked(background(asyncio.Event().wait()), ms=500)
    assert await kafka.committed([T], group=past_group("load", "long-kept")) == {T: 5}
    assert await kafka.committed([T]) == {T: 6}


@expiry
@pytest.mark.generations("3.4", "4.1", "4.4")
async def test_txn_19_an_offset_with_another_one_pending_in_a_transaction(kafka: Kafka) -> None:
    """4.x keeps what has expired while a transaction may replace it; 3.4 does not, and its group stays for what is pending."""
    topic = await kafka.topic(kafka.name("t"), 2)
    producer = await Producer(kafka, kafka.name("x")).begin()
    await producer.add_offsets(kafka.group)
    assert await producer.commit(topic, 9, group=kafka.group) is Err.NONE
    short = {"generation_id_or_member_epoch": -1, "retention_time_ms": 300}
    assert set((await kafka.commit({(topic, 0): 5, (topic, 1): 6}, version=2, **short)).values()) == {Err.NONE}
    kept = kafka.pick(old={}, new={(topic, 0): 5})
    await committed_become(kafka, kept)
    await stays_parked(background(asyncio.Event().wait()), ms=450)
    assert await kafka.committed(None) == kept
    assert (await kafka.describe()).group_state == "Empty"
    await producer.end(commit=False)
    await committed_become(kafka, {})
    await kafka.until("Dead")


async def committed_become(kafka: Kafka, expected: dict[tuple[str, int], int]) -> None:
    """Polls until these offsets of the test's group are committed."""
    give_up = clock_s() + GIVE_UP_S
    while (found := await kafka.committed(None, record=False)) != expected:
        assert clock_s() < give_up, f"the offsets are still {found}"
        await asyncio.sleep(0.02)

"""SyncGroup (catalogue 53-64): its checks, parking, and members that never send it."""

from __future__ import annotations

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k14_sync_group import SyncGroupRequest
from tests.conformance.driver import SHORT_MS, Kafka, background, clock_s, rejoin_all, stays_parked, sync_all


async def test_053_empty_group_id(kafka: Kafka) -> None:
    answer = await kafka.ask(SyncGroupRequest("", 1, "m", None, "consumer", "range"), 5)
    assert answer.error_code == Err.INVALID_GROUP_ID


async def test_053_unknown_group(kafka: Kafka) -> None:
    answer = await kafka.ask(SyncGroupRequest(kafka.group, 1, "m", None, "consumer", "range"), 5)
    assert answer.error_code == Err.UNKNOWN_MEMBER_ID
    assert (answer.protocol_type, answer.protocol_name, answer.assignment) == (None, None, b"")


async def test_053_unknown_member(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    assert (await m1.sync(member_id="nobody")).error_code == Err.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("generation", [0, 2, -1])
async def test_053_other_generation(kafka: Kafka, generation: int) -> None:
    [m1] = await kafka.stable()
    assert (await m1.sync(generation_id=generation)).error_code == Err.ILLEGAL_GENERATION


async def test_053_member_is_checked_before_the_generation(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    assert (await m1.sync(member_id="nobody", generation_id=9)).error_code == Err.UNKNOWN_MEMBER_ID


async def test_053_generation_is_checked_before_the_protocol(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    assert (await m1.sync(protocol_type="other", generation_id=9)).error_code == Err.ILLEGAL_GENERATION


async def test_054_wrong_protocol_type(kafka: Kafka) -> None:
    [m1] = await kafka.joined()
    assert (await m1.sync(protocol_type="connect")).error_code == Err.INCONSISTENT_GROUP_PROTOCOL


async def test_054_wrong_protocol_name(kafka: Kafka) -> None:
    [m1] = await kafka.joined()
    assert (await m1.sync(protocol_name="sticky")).error_code == Err.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
async def test_054_v5_must_name_its_protocol(kafka: Kafka, missing: str) -> None:
    [m1] = await kafka.joined()
    assert (await m1.sync(**{missing: None})).error_code == Err.INCONSISTENT_GROUP_PROTOCOL


async def test_054_v5_without_protocol_is_refused_before_every_other_check(kafka: Kafka) -> None:
    answer = await kafka.ask(SyncGroupRequest("", 1, "m"), 5)
    assert answer.error_code == Err.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
async def test_054_before_v5_no_protocol_is_named(kafka: Kafka, version: int) -> None:
    [m1] = await kafka.joined()
    answer = await m1.sync({m1.id: b"mine"}, version=version)
    assert (answer.error_code, answer.assignment) == (Err.NONE, b"mine")


async def test_054_success_carries_the_protocol_since_v5(kafka: Kafka) -> None:
    [m1] = await kafka.joined()
    answer = await m1.sync({m1.id: b"mine"})
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


async def test_055_empty_group(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.leave()
    assert (await m1.sync()).error_code == Err.UNKNOWN_MEMBER_ID


async def test_055_preparing(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    parked = m1.start_join()
    await kafka.until("PreparingRebalance")
    assert (await m2.sync()).error_code == Err.REBALANCE_IN_PROGRESS
    await m2.join()
    await parked


async def test_056_follower_before_the_leader_is_parked(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2)
    parked = m2.start_sync()
    await stays_parked(parked)
    assert (await m1.sync({m1.id: b"one", m2.id: b"two"})).assignment == b"one"
    assert (await parked).assignment == b"two"


async def test_056_follower_after_the_leader_is_answered_at_once(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2)
    assert (await m1.sync({m1.id: b"one", m2.id: b"two"})).assignment == b"one"
    assert (await m2.sync()).assignment == b"two"


async def test_057_assignment_bytes_come_back_untouched(kafka: Kafka) -> None:
    [m1] = await kafka.joined()
    opaque = bytes(range(256)) * 4
    assert (await m1.sync({m1.id: opaque})).assignment == opaque


async def test_058_empty_assignment(kafka: Kafka) -> None:
    [m1] = await kafka.joined()
    assert (await m1.sync({m1.id: b""})).error_code == Err.NONE
    assert (await kafka.describe()).group_state == "Stable"


async def test_059_members_that_the_leader_left_out_get_nothing(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2)
    assert (await m1.sync({m1.id: b"one"})).assignment == b"one"
    answer = await m2.sync()
    assert (answer.error_code, answer.assignment) == (Err.NONE, b"")


async def test_059_leader_without_any_assignment(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2)
    assert (await m1.sync()).assignment == b""
    assert (await m2.sync()).assignment == b""
    assert (await kafka.describe()).group_state == "Stable"


async def test_s2_3_assignments_for_strangers_are_dropped(kafka: Kafka) -> None:
    [m1] = await kafka.joined()
    assert (await m1.sync({m1.id: b"one", "stranger": b"x"})).assignment == b"one"
    assert [member.member_id for member in (await kafka.describe()).members] == [m1.id]


async def test_s2_3_assignments_of_a_follower_are_ignored(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2)
    parked = m2.start_sync({m1.id: b"evil", m2.id: b"evil"})
    await stays_parked(parked)
    await m1.sync({m1.id: b"one", m2.id: b"two"})
    assert (await parked).assignment == b"two"


async def test_s2_3_leaders_second_assignment_is_ignored_in_stable(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    assert (await m1.sync({m1.id: b"new", m2.id: b"new"})).assignment == b"to-m1"
    assert (await m2.sync()).assignment == b"to-m2"


async def test_s2_3_sync_again_in_stable(kafka: Kafka) -> None:
    _, m2 = await kafka.stable(2)
    assert (await m2.sync()).assignment == b"to-m2"
    assert (await m2.sync()).assignment == b"to-m2"


async def test_s2_3_second_sync_takes_the_place_of_the_parked_one(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2)
    first = m2.start_sync()
    await stays_parked(first)
    twin = await m2.second_wire()
    request = SyncGroupRequest(m2.group, m2.generation, m2.id, None, "consumer", "range")
    second = twin.start(request, 5)
    await stays_parked(background(_await(second)))
    await m1.sync({m1.id: b"one", m2.id: b"two"})
    assert (await second).assignment == b"two"
    await stays_parked(first)
    first.cancel()


async def _await(future):  # type: ignore[no-untyped-def]
    return await future


async def test_060_leader_that_leaves_ends_the_parked_syncs(kafka: Kafka) -> None:
    m1, m2, m3 = await kafka.joined(3)
    parked = [m2.start_sync(), m3.start_sync()]
    await stays_parked(*parked)
    await m1.leave()
    assert [(await task).error_code for task in parked] == [Err.REBALANCE_IN_PROGRESS] * 2
    kafka.ignore("leader", because="any of the two may lead")
    kafka.ignore("members", because="the list goes to whoever leads")
    tasks = [m2.start_join(), m3.start_join()]
    assert [(await task).generation_id for task in tasks] == [3, 3]


async def test_060_leader_whose_session_ends_ends_the_parked_syncs(kafka: Kafka) -> None:
    m1 = await kafka.member("m1", session_ms=SHORT_MS)
    m2 = await kafka.member("m2")
    await m1.join()
    parked_join = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    await m1.join()
    await parked_join
    parked = m2.start_sync()
    assert (await parked).error_code == Err.REBALANCE_IN_PROGRESS
    assert (await m2.join()).leader == m2.id


async def test_060_leader_that_rejoins_unchanged_does_not_end_them(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2)
    parked = m2.start_sync()
    await stays_parked(parked)
    assert (await m1.join()).generation_id == 2
    await stays_parked(parked)
    await m1.sync({m1.id: b"one", m2.id: b"two"})
    assert (await parked).assignment == b"two"


async def test_s2_3_new_generation_refuses_the_sync_of_the_old(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2)
    m3 = await kafka.member("m3")
    parked = await m3.enter()
    await kafka.until("PreparingRebalance", members=3)
    m1_join = m1.start_join()
    await m2.join()
    await m1_join
    await parked
    assert (await m2.sync(generation_id=2)).error_code == Err.ILLEGAL_GENERATION
    await sync_all([m1, m2, m3])


# ---- the pending-sync timeout


async def test_062_no_member_syncs(kafka: Kafka) -> None:
    start = clock_s()
    [m1] = await kafka.joined(rebalance_ms=400)
    await kafka.until("Empty")
    assert 0.4 - 0.015 < clock_s() - start < m1.session_ms / 1000
    assert await m1.heartbeat() == Err.UNKNOWN_MEMBER_ID


async def test_062_followers_do_not_sync(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2, rebalance_ms=SHORT_MS)
    assert (await m1.sync({m1.id: b"one", m2.id: b"two"})).assignment == b"one"
    assert (await kafka.describe()).group_state == "Stable"
    await kafka.until("PreparingRebalance", members=1)
    assert await m1.heartbeat() == Err.REBALANCE_IN_PROGRESS
    assert await m2.heartbeat() == Err.UNKNOWN_MEMBER_ID
    assert (await m1.join()).generation_id == 3


async def test_062_leader_does_not_sync(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2, rebalance_ms=SHORT_MS)
    assert (await m2.sync()).error_code == Err.REBALANCE_IN_PROGRESS
    assert await m1.heartbeat() == Err.UNKNOWN_MEMBER_ID
    assert (await m2.join()).leader == m2.id


async def test_063_all_synced_and_no_member_is_removed(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, rebalance_ms=SHORT_MS)
    await stays_parked(background(kafka.until("PreparingRebalance")), ms=SHORT_MS + 500)
    assert await m1.heartbeat() == Err.NONE
    assert await m2.heartbeat() == Err.NONE


async def test_063_heartbeats_do_not_replace_the_sync(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2, rebalance_ms=SHORT_MS)
    await m1.sync({m1.id: b"one"})
    assert await m2.heartbeat() == Err.NONE
    await kafka.until("PreparingRebalance", members=1)
    assert await m2.heartbeat() == Err.UNKNOWN_MEMBER_ID
    assert len((await rejoin_all([m1]))[0].members) == 1


async def test_064_static_member_with_another_id_is_fenced(kafka: Kafka) -> None:
    m1, _ = await kafka.joined(2, instances=["i1", "i2"])
    assert (await m1.sync(member_id="other")).error_code == Err.FENCED_INSTANCE_ID


async def test_064_unknown_instance(kafka: Kafka) -> None:
    [m1] = await kafka.joined()
    assert (await m1.sync(group_instance_id="i9")).error_code == Err.UNKNOWN_MEMBER_ID

"""LeaveGroup (catalogue 77-90)."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from tests.conformance.driver import Kafka, stays_parked


async def leave(kafka: Kafka, *identities: tuple[str, str | None], version: int = 5) -> Any:
    return await kafka.ask(
        LeaveGroupRequest(kafka.group, members=[MemberIdentity(*item) for item in identities]), version
    )


def errors(answer: Any) -> list[Err]:
    return [Err(member.error_code) for member in answer.members]


@pytest.mark.parametrize("version", [0, 2, 3, 5])
async def test_077_empty_group_id(kafka: Kafka, version: int) -> None:
    request = LeaveGroupRequest("", "m" if version < 3 else "", [MemberIdentity("m")] if version >= 3 else [])
    answer = await kafka.ask(request, version)
    # 3.4 can't put an error without a member into the old shape, and says so
    unshaped = kafka.old and version < 3
    assert answer.error_code == (Err.UNSUPPORTED_VERSION if unshaped else Err.INVALID_GROUP_ID)


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_078_unknown_group_answers_per_member(kafka: Kafka, version: int) -> None:
    answer = await leave(kafka, ("a", None), ("b", "i"), version=version)
    assert answer.error_code == Err.NONE
    assert errors(answer) == [Err.UNKNOWN_MEMBER_ID, Err.UNKNOWN_MEMBER_ID]
    assert [(item.member_id, item.group_instance_id) for item in answer.members] == [("a", None), ("b", "i")]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_078_unknown_group_before_v3(kafka: Kafka, version: int) -> None:
    answer = await kafka.ask(LeaveGroupRequest(kafka.group, "m"), version)
    assert answer.error_code == Err.UNKNOWN_MEMBER_ID


async def test_079_unknown_member(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    answer = await leave(kafka, ("nobody", None))
    assert (answer.error_code, errors(answer)) == (Err.NONE, [Err.UNKNOWN_MEMBER_ID])
    assert await m1.heartbeat() == Err.NONE


async def test_079_no_id_and_no_instance(kafka: Kafka) -> None:
    await kafka.stable()
    assert errors(await leave(kafka, ("", None))) == [Err.UNKNOWN_MEMBER_ID]


async def test_080_dynamic_member_leaves_and_the_others_rebalance(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    answer = await m2.leave()
    assert errors(answer) == [Err.NONE]
    assert await m1.heartbeat() == Err.REBALANCE_IN_PROGRESS
    assert await m2.heartbeat() == Err.UNKNOWN_MEMBER_ID
    assert (await m1.join()).generation_id == 3


async def test_080_leave_during_the_join_phase_completes_it(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    parked = m1.start_join()
    await kafka.until("PreparingRebalance")
    await m2.leave()
    answer = await parked
    assert (answer.generation_id, len(answer.members)) == (3, 1)


async def test_080_leave_in_completing_starts_anew(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2)
    await m2.leave()
    assert (await m1.sync({m1.id: b"x"})).error_code == Err.REBALANCE_IN_PROGRESS
    assert (await m1.join()).generation_id == 3


async def test_081_static_member_leaves_by_its_instance(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, instances=["i1", "i2"])
    answer = await leave(kafka, ("", "i2"))
    assert errors(answer) == [Err.NONE]
    assert (answer.members[0].member_id, answer.members[0].group_instance_id) == ("", "i2")
    assert await m2.heartbeat() == Err.UNKNOWN_MEMBER_ID
    assert await m1.heartbeat() == Err.REBALANCE_IN_PROGRESS


async def test_081_static_member_leaves_by_id_and_instance(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, instances=["i1", "i2"])
    assert errors(await leave(kafka, (m2.id, "i2"))) == [Err.NONE]
    assert await m1.heartbeat() == Err.REBALANCE_IN_PROGRESS


async def test_081_static_member_leaves_by_id_alone(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, instances=["i1", "i2"])
    assert errors(await leave(kafka, (m2.id, None))) == [Err.NONE]
    again = await kafka.member("again", instance="i2")
    parked = await again.enter()
    await kafka.until("PreparingRebalance", members=2)
    await m1.join()
    assert (await parked).generation_id == 3


async def test_082_wrong_id_for_an_instance_is_fenced(kafka: Kafka) -> None:
    m1, _ = await kafka.stable(2, instances=["i1", "i2"])
    assert errors(await leave(kafka, ("other", "i2"))) == [Err.FENCED_INSTANCE_ID]
    assert errors(await leave(kafka, (m1.id, "i2"))) == [Err.FENCED_INSTANCE_ID]
    assert await m1.heartbeat() == Err.NONE


async def test_083_unknown_instance(kafka: Kafka) -> None:
    [m1] = await kafka.stable(instances=["i1"])
    assert errors(await leave(kafka, ("", "i9"))) == [Err.UNKNOWN_MEMBER_ID]
    assert errors(await leave(kafka, (m1.id, "i9"))) == [Err.UNKNOWN_MEMBER_ID]
    assert await m1.heartbeat() == Err.NONE


async def test_084_batch_mixes_results(kafka: Kafka) -> None:
    m1, m2, _ = await kafka.stable(3, instances=["i1", "i2", "i3"])
    answer = await leave(kafka, ("nobody", None), (m2.id, "i2"), ("other", "i1"), ("", "i3"), ("", "i9"))
    assert answer.error_code == Err.NONE
    assert errors(answer) == [
        Err.UNKNOWN_MEMBER_ID,
        Err.NONE,
        Err.FENCED_INSTANCE_ID,
        Err.NONE,
        Err.UNKNOWN_MEMBER_ID,
    ]
    answer = await m1.join()
    assert (answer.generation_id, len(answer.members)) == (3, 1)


async def test_084_same_member_twice(kafka: Kafka) -> None:
    _, m2 = await kafka.stable(2)
    assert errors(await leave(kafka, (m2.id, None), (m2.id, None))) == [Err.NONE, Err.UNKNOWN_MEMBER_ID]


async def test_084_empty_batch(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    answer = await leave(kafka)
    assert (answer.error_code, answer.members) == (Err.NONE, [])
    assert await m1.heartbeat() == Err.NONE


async def test_085_pending_member_leaves(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    m2 = await kafka.member("m2")
    await m2.ask_id()
    assert errors(await leave(kafka, (m2.id, None))) == [Err.NONE]
    assert (await m2.try_join()).error_code == Err.UNKNOWN_MEMBER_ID
    # 4.1 rebalances although the members are the same
    assert await m1.heartbeat() == kafka.pick(old=Err.NONE, new=Err.REBALANCE_IN_PROGRESS)


async def test_086_joined_and_pending_members_in_one_batch(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    m3 = await kafka.member("m3")
    await m3.ask_id()
    assert errors(await leave(kafka, (m2.id, None), (m3.id, None))) == [Err.NONE, Err.NONE]
    assert len((await m1.join()).members) == 1


async def test_088_last_member_leaves_an_empty_group(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.leave()
    await kafka.until("Empty")
    shown = await kafka.describe()
    assert (shown.group_state, shown.protocol_type, shown.members) == ("Empty", "consumer", [])


async def test_088_generation_of_the_emptied_group(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.leave()
    m2 = await kafka.member("m2")
    assert (await m2.join()).generation_id == 3


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_089_single_error_before_v3(kafka: Kafka, version: int) -> None:
    m1, m2 = await kafka.stable(2)
    answer = await kafka.ask(LeaveGroupRequest(kafka.group, "nobody"), version)
    assert answer.error_code == Err.UNKNOWN_MEMBER_ID
    answer = await kafka.ask(LeaveGroupRequest(kafka.group, m2.id), version)
    assert answer.error_code == Err.NONE
    assert await m1.heartbeat() == Err.REBALANCE_IN_PROGRESS


async def test_090_deferred_join_of_a_member_that_left_gets_an_error(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    parked = m1.start_join()
    await kafka.until("PreparingRebalance")
    assert errors(await leave(kafka, (m1.id, None))) == [Err.NONE]
    answer = await parked
    assert (answer.error_code, answer.member_id) == (Err.UNKNOWN_MEMBER_ID, "")
    assert (await m2.join()).leader == m2.id


async def test_090_parked_sync_of_one_who_left_is_never_answered(kafka: Kafka) -> None:
    m1, m2, _ = await kafka.joined(3)
    parked = m2.start_sync()
    await stays_parked(parked)
    other = await kafka.member("other")
    request = LeaveGroupRequest(kafka.group, members=[MemberIdentity(m2.id)])
    await other.wire.send(request, 5)
    assert await m1.heartbeat() == Err.REBALANCE_IN_PROGRESS
    await stays_parked(parked, ms=400)

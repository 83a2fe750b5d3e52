"""Static members (KIP-345"static replace"; catalogue 40-49, 64, 76, 81-83, 93)."""

from __future__ import annotations

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequestProtocol
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from tests.conformance.driver import SHORT_MS, Kafka, background, rejoin_all, stays_parked, sync_all

T = ("t0", 0)
INSTANCES = ["i1", "i2"]


async def test_040_static_first_join_needs_no_second_request(kafka: Kafka) -> None:
    member = await kafka.member(instance="i1")
    answer = await member.try_join()
    assert (answer.error_code, answer.generation_id) == (Err.NONE, 1)
    assert answer.member_id.startswith("i1-")
    assert [item.group_instance_id for item in answer.members] == ["i1"]


async def test_040_instance_ids_are_listed_to_the_leader(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2, instances=["i1", None])
    answer = await m1.join()
    assert {(item.member_id, item.group_instance_id) for item in answer.members} == {(m1.id, "i1"), (m2.id, None)}


async def test_041_static_rejoin_without_id_gets_a_new_one(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, instances=INSTANCES)
    again = await kafka.member("again", instance="i2")
    answer = await again.join()
    assert answer.member_id not in (m1.id, m2.id)


@pytest.mark.parametrize("version", [5, 8, 9])
async def test_042_follower_is_replaced_without_a_rebalance(kafka: Kafka, version: int) -> None:
    m1, _m2 = await kafka.stable(2, instances=INSTANCES)
    again = await kafka.member("again", instance="i2", join_version=version)
    answer = await again.join()
    assert (answer.generation_id, answer.members, answer.skip_assignment) == (2, [], False)
    assert answer.leader == m1.id
    assert (await again.sync()).assignment == b"to-m2"
    assert await m1.heartbeat() == Err.NONE
    assert {member.member_id for member in (await kafka.describe()).members} == {m1.id, again.id}


async def test_043_leader_is_replaced_v9_skips_the_assignment(kafka: Kafka) -> None:
    _m1, m2 = await kafka.stable(2, instances=INSTANCES)
    again = await kafka.member("again", instance="i1")
    answer = await again.join()
    assert (answer.generation_id, answer.leader, answer.skip_assignment) == (2, again.id, True)
    assert {item.member_id for item in answer.members} == {again.id, m2.id}
    assert (await again.sync()).assignment == b"to-m1"


@pytest.mark.parametrize("version", [5, 8])
async def test_043_leader_is_replaced_before_v9_and_not_informed_that_it_leads(kafka: Kafka, version: int) -> None:
    m1, m2 = await kafka.stable(2, instances=INSTANCES)
    again = await kafka.member("again", instance="i1", join_version=version)
    answer = await again.join()
    assert (answer.generation_id, answer.leader, answer.members) == (2, m1.id, [])
    assert (await again.sync()).assignment == b"to-m1"
    assert await m2.heartbeat() == Err.NONE


async def test_043_sync_of_a_replaced_leader_does_not_change_the_assignment(kafka: Kafka) -> None:
    _, m2 = await kafka.stable(2, instances=INSTANCES)
    again = await kafka.member("again", instance="i1")
    await again.join()
    assert (await again.sync({again.id: b"new", m2.id: b"new"})).assignment == b"to-m1"
    assert (await m2.sync()).assignment == b"to-m2"


async def test_042_replacement_with_other_metadata_of_the_selected_protocol(kafka: Kafka) -> None:
    """The protocol that wins decides, not the subscription in it: no rebalance."""
    m1, _ = await kafka.stable(2, instances=INSTANCES)
    again = await kafka.member("again", instance="i2", protocols=[("range", b"other")])
    answer = await again.join()
    assert answer.generation_id == 2
    assert await m1.heartbeat() == Err.NONE


async def test_044_replacement_that_changes_the_selected_protocol_rebalances(kafka: Kafka) -> None:
    both = [("range", b"r"), ("sticky", b"s")]
    m1, _ = await kafka.stable(2, instances=INSTANCES, protocols=both)
    again = await kafka.member("again", instance="i2", protocols=[("sticky", b"s")])
    parked = await again.enter()
    await kafka.until("PreparingRebalance")
    await stays_parked(parked)
    answer = await m1.join()
    assert (answer.generation_id, answer.protocol_name) == (3, "sticky")
    assert (await parked).generation_id == 3


async def test_045_replacement_in_completing_rebalances(kafka: Kafka) -> None:
    m1, _ = await kafka.joined(2, instances=INSTANCES)
    again = await kafka.member("again", instance="i2")
    parked = await again.enter()
    await kafka.until("PreparingRebalance", members=2)
    assert (await m1.join()).generation_id == 3
    assert (await parked).generation_id == 3


async def test_046_parked_join_of_a_replaced_member_is_fenced(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, instances=INSTANCES)
    parked = await m2.enter(protocols=[JoinGroupRequestProtocol("range", b"changed")])
    await kafka.until("PreparingRebalance")
    again = await kafka.member("again", instance="i2")
    new = await again.enter()
    answer = await parked
    assert (answer.error_code, answer.member_id) == (Err.FENCED_INSTANCE_ID, m2.id)
    assert (await m1.join()).generation_id == 3
    assert (await new).generation_id == 3


async def test_046_parked_sync_of_a_replaced_member_is_fenced(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2, instances=INSTANCES)
    parked = m2.start_sync()
    await stays_parked(parked)
    again = await kafka.member("again", instance="i2")
    new = await again.enter()
    answer = await parked
    assert answer.error_code == Err.FENCED_INSTANCE_ID
    assert (await m1.join()).generation_id == 3
    assert (await new).generation_id == 3


async def test_048_static_rejoin_with_its_id_is_the_normal_path(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, instances=INSTANCES)
    follower = await m2.join()
    assert (follower.generation_id, follower.member_id) == (2, m2.id)
    parked = m1.start_join()
    await kafka.until("PreparingRebalance")
    await m2.join()
    assert (await parked).generation_id == 3


@pytest.mark.parametrize("who", [0, 1], ids=["leader", "follower"])
async def test_049_replaced_id_is_fenced_everywhere(kafka: Kafka, who: int) -> None:
    members = await kafka.stable(2, instances=INSTANCES)
    old = members[who]
    again = await kafka.member("again", instance=old.instance)
    await again.join()
    assert await old.heartbeat() == Err.FENCED_INSTANCE_ID
    assert (await old.sync()).error_code == Err.FENCED_INSTANCE_ID
    assert (await old.try_join()).error_code == Err.FENCED_INSTANCE_ID
    assert await old.commit({T: 1}) == {T: Err.FENCED_INSTANCE_ID}
    left = await old.leave()
    assert [item.error_code for item in left.members] == [Err.FENCED_INSTANCE_ID]
    assert await again.heartbeat() == Err.NONE


async def test_049_replaced_id_without_its_instance_is_unknown(kafka: Kafka) -> None:
    _, m2 = await kafka.stable(2, instances=INSTANCES)
    again = await kafka.member("again", instance="i2")
    await again.join()
    m2.instance = None
    assert await m2.heartbeat() == Err.UNKNOWN_MEMBER_ID


async def test_049_wrong_id_for_a_known_instance(kafka: Kafka) -> None:
    await kafka.stable(2, instances=INSTANCES)
    wrong = await kafka.member("wrong", instance="i2")
    answer = await wrong.try_join(member_id="wrong-id")
    assert (answer.error_code, answer.member_id) == (Err.FENCED_INSTANCE_ID, "wrong-id")


async def test_049_id_of_another_member_for_a_known_instance(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, instances=INSTANCES)
    m2.instance = "i1"
    assert await m2.heartbeat() == Err.FENCED_INSTANCE_ID
    assert await m1.heartbeat() == Err.NONE


async def test_049_known_id_with_an_unknown_instance(kafka: Kafka) -> None:
    [m1] = await kafka.stable(instances=["i1"])
    m1.instance = "i9"
    assert (await m1.try_join()).error_code == Err.UNKNOWN_MEMBER_ID
    assert await m1.heartbeat() == Err.UNKNOWN_MEMBER_ID
    assert (await m1.sync()).error_code == Err.UNKNOWN_MEMBER_ID
    assert await m1.commit({T: 1}) == {T: Err.UNKNOWN_MEMBER_ID}


async def test_s2_static_member_may_leave_out_its_instance(kafka: Kafka) -> None:
    [m1] = await kafka.stable(instances=["i1"])
    m1.instance = None
    assert await m1.heartbeat() == Err.NONE
    assert (await m1.sync()).assignment == b"to-m1"
    assert await m1.commit({T: 1}) == {T: Err.NONE}


async def test_s1_1_static_member_is_removed_by_its_session_timeout(kafka: Kafka) -> None:
    [m1] = await kafka.stable(instances=["i1"], session_ms=SHORT_MS)
    await kafka.until("Empty")
    assert await m1.heartbeat() == Err.UNKNOWN_MEMBER_ID


async def test_s2_2_static_member_of_an_emptied_group_joins_anew(kafka: Kafka) -> None:
    [m1] = await kafka.stable(instances=["i1"])
    await m1.leave()
    again = await kafka.member("again", instance="i1")
    answer = await again.join()
    assert (answer.generation_id, answer.skip_assignment) == (3, False)


async def test_s2_2_replacement_takes_over_the_committed_offsets(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, instances=INSTANCES)
    await m2.commit({T: 7})
    again = await kafka.member("again", instance="i2")
    await again.join()
    assert await kafka.committed([T]) == {T: 7}
    assert await again.commit({T: 8}) == {T: Err.NONE}
    assert await m1.heartbeat() == Err.NONE


async def test_s2_2_sole_static_leader_is_replaced(kafka: Kafka) -> None:
    [m1] = await kafka.stable(instances=["i1"])
    again = await kafka.member("again", instance="i1")
    answer = await again.join()
    assert (answer.generation_id, answer.leader, answer.skip_assignment) == (1, again.id, True)
    assert again.id != m1.id
    assert (await again.sync()).assignment == b"to-m1"


async def test_s2_2_replaced_member_counts_once(kafka: Kafka) -> None:
    m1, _ = await kafka.stable(2, instances=INSTANCES)
    again = await kafka.member("again", instance="i2")
    await again.join()
    answers = await rejoin_all([m1, again])
    assert len(answers[0].members) == 2
    await sync_all([m1, again])


async def test_s2_2_pending_id_with_an_instance_is_an_illegal_state(kafka: Kafka) -> None:
    member = await kafka.member()
    await member.ask_id()
    answer = await member.try_join(group_instance_id="i1")
    assert answer.error_code == Err.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("first_ms", "second_ms"), [(200, 200), (30_000, 200), (200, 30_000)], ids=["both", "new", "old"]
)
async def test_046_newcomer_replaced_while_it_waits_in_a_rebalance_that_somebody_holds_up(
    kafka: Kafka, first_ms: int, second_ms: int
) -> None:
    """A pod that starts twice. It is a member that has never been told its id; does its session end while it is parked, and whose?"""
    [m1] = await kafka.stable()
    first = await kafka.member("first", instance="i2", session_ms=first_ms)
    parked = await first.enter()
    await kafka.until("PreparingRebalance", members=2)
    second = await kafka.member("second", instance="i2", session_ms=second_ms)
    waiting = await second.enter()
    assert (await parked).error_code == Err.FENCED_INSTANCE_ID
    if kafka.old and first_ms == 200:
        answer = await waiting
        assert (answer.error_code, answer.member_id) == (Err.UNKNOWN_MEMBER_ID, "")
        await kafka.until("PreparingRebalance", members=1)
    else:
        await stays_parked(waiting, ms=500)
        assert (await m1.join()).generation_id == 2
        assert (await waiting).generation_id == 2


@pytest.mark.parametrize(("first_ms", "second_ms"), [(30_000, SHORT_MS), (SHORT_MS, 30_000)], ids=["new", "old"])
async def test_042_replacement_lives_on_the_session_timeout_of_the_one_it_replaced(
    kafka: Kafka, first_ms: int, second_ms: int
) -> None:
    """Until it is heard of again, that is: silent, it is removed by the old one's timeout."""
    m1 = await kafka.member("m1", instance="i1")
    m2 = await kafka.member("m2", instance="i2", session_ms=first_ms)
    await m1.join()
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    await m1.join()
    await parked
    await sync_all([m1, m2])
    again = await kafka.member("again", instance="i2", session_ms=second_ms)
    assert (await again.join()).generation_id == 2
    if first_ms == SHORT_MS:
        await kafka.until("PreparingRebalance", members=1)
        assert await again.heartbeat() == Err.UNKNOWN_MEMBER_ID
    else:
        await stays_parked(background(kafka.until("PreparingRebalance")), ms=SHORT_MS + 500)
        assert await again.heartbeat() == Err.NONE  # from here on its own counts
        await kafka.until("PreparingRebalance", members=1)


@pytest.mark.parametrize("members", [1, 2])
async def test_s2_2_replacement_that_names_its_one_protocol_twice_falls_over_the_vote(
    kafka: Kafka, members: int
) -> None:
    """Counted twice, it is nobody's candidate, and a vote for none is an error: but the place is taken over all the same."""
    stable = await kafka.stable(members, instances=INSTANCES[:members])
    again = await kafka.member("again", instance="i1", protocols=[("range", b"a"), ("range", b"b")])
    refused = await again.try_join()
    assert (refused.error_code, refused.member_id, refused.generation_id) == (Err.UNKNOWN_SERVER_ERROR, "", -1)
    shown = await kafka.state()
    assert shown.group_state == "Stable"
    assert {member.group_instance_id for member in shown.members} == set(INSTANCES[:members])
    assert stable[0].id not in {member.member_id for member in shown.members}
    assert await stable[0].heartbeat() == Err.FENCED_INSTANCE_ID
    later = await kafka.member("later", instance="i1")
    assert (await later.try_join()).error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    left = await kafka.ask(LeaveGroupRequest(kafka.group, members=[MemberIdentity("", "i1")]), 5)
    assert [member.error_code for member in left.members] == [Err.NONE]
    assert len((await kafka.state()).members) == members - 1

"""The join phase and its timers: initial delay, rebalance timeouts, pending members, a group's size.

catalogue 13-26, 33-36.
"""

from __future__ import annotations

import asyncio

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequestProtocol
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from tests.conformance.driver import (
    GIVE_UP_S,
    SHORT_MS,
    Kafka,
    background,
    clock_s,
    rejoin_all,
    stays_parked,
    subscription,
    sync_all,
    timed,
)
from tests.conformance.targets import INITIAL_DELAY_MS

LATE_MS = 2500  # how much later than due an answer may come on a busy machine
EARLY_MS = 15  # how much earlier: the client's clock starts after the broker's timer


def about(elapsed_ms: float, due_ms: float) -> bool:
    return due_ms - EARLY_MS <= elapsed_ms <= due_ms + LATE_MS


# ---- the initial delay


@pytest.mark.profile("delay")
async def test_016_empty_group_waits_for_the_initial_delay(kafka: Kafka) -> None:
    m1 = await kafka.member()
    await m1.ask_id()
    answer, elapsed_ms = await timed(m1.start_join())
    assert answer.generation_id == 1
    assert about(elapsed_ms, INITIAL_DELAY_MS)


@pytest.mark.profile("delay")
async def test_016_the_window_never_closes_early(kafka: Kafka) -> None:
    """Everyone who is known has joined, and still the delay runs to its end."""
    m1, m2 = await kafka.member("m1"), await kafka.member("m2")
    await m1.ask_id()
    await m2.ask_id()
    start = clock_s()
    first = m1.start_join()
    await kafka.until("PreparingRebalance", members=1)
    second = m2.start_join()
    answer, elapsed_ms = await timed(first, start)
    assert len(answer.members) == 2
    assert elapsed_ms >= INITIAL_DELAY_MS - EARLY_MS
    assert (await second).generation_id == 1


@pytest.mark.profile("delay")
async def test_017_a_joiner_in_the_window_extends_it(kafka: Kafka) -> None:
    m1, m2 = await kafka.member("m1"), await kafka.member("m2")
    await m1.ask_id()
    await m2.ask_id()
    start = clock_s()
    first = m1.start_join()
    await stays_parked(first)
    second = m2.start_join()
    answer, elapsed_ms = await timed(first, start)
    assert len(answer.members) == 2
    assert about(elapsed_ms, 2 * INITIAL_DELAY_MS)
    assert (await second).generation_id == 1


@pytest.mark.profile("delay")
async def test_018_the_extension_is_bounded_by_the_rebalance_timeout(kafka: Kafka) -> None:
    """Rebalance timeout of the first member one delay and a third: the rest is a third of a delay."""
    m1, m2 = (
        await kafka.member("m1", rebalance_ms=4 * INITIAL_DELAY_MS // 3),
        await kafka.member("m2", rebalance_ms=20_000),
    )
    await m1.ask_id()
    await m2.ask_id()
    start = clock_s()
    first = m1.start_join()
    await stays_parked(first)
    second = m2.start_join()
    answer, elapsed_ms = await timed(first, start)
    assert len(answer.members) == 2
    assert 4 * INITIAL_DELAY_MS // 3 - EARLY_MS <= elapsed_ms < 2 * INITIAL_DELAY_MS - EARLY_MS
    assert (await second).generation_id == 1


@pytest.mark.profile("delay")
async def test_018_rebalance_timeout_below_the_delay_still_waits_the_delay(kafka: Kafka) -> None:
    m1 = await kafka.member(rebalance_ms=200)
    await m1.ask_id()
    _, elapsed_ms = await timed(m1.start_join())
    assert about(elapsed_ms, INITIAL_DELAY_MS)


@pytest.mark.profile("delay")
async def test_019_group_that_emptied_waits_again_and_only_new_extends(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.leave()
    m2, m3 = await kafka.member("m2"), await kafka.member("m3")
    await m2.ask_id()
    await m3.ask_id()
    start = clock_s()
    first = m2.start_join()
    await stays_parked(first)
    second = m3.start_join()
    answer, elapsed_ms = await timed(first, start)
    assert answer.generation_id == 3
    assert len(answer.members) == 2
    assert about(elapsed_ms, kafka.pick(old=INITIAL_DELAY_MS, new=2 * INITIAL_DELAY_MS))
    assert (await second).generation_id == 3


@pytest.mark.profile("delay")
async def test_s1_1_pending_member_does_not_hold_the_initial_delay(kafka: Kafka) -> None:
    m1, pending = await kafka.member("m1"), await kafka.member("pending")
    await pending.ask_id()
    await m1.ask_id()
    answer, elapsed_ms = await timed(m1.start_join())
    assert len(answer.members) == 1
    assert about(elapsed_ms, INITIAL_DELAY_MS)


@pytest.mark.profile("delay")
async def test_s1_1_second_rebalance_has_no_delay(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    _, elapsed_ms = await timed(m1.join())
    assert elapsed_ms < INITIAL_DELAY_MS - EARLY_MS


@pytest.mark.profile("delay")
async def test_073_silence_while_parked_does_not_expire_a_member(kafka: Kafka) -> None:
    m1 = await kafka.member()
    await m1.ask_id()
    m1.session_ms = 100
    answer, elapsed_ms = await timed(m1.start_join())
    assert answer.error_code == Err.NONE
    assert elapsed_ms > 100


@pytest.mark.profile("delay")
async def test_090_parked_first_joiner_that_leaves(kafka: Kafka) -> None:
    m1 = await kafka.member()
    await m1.ask_id()
    parked = m1.start_join()
    await kafka.until("PreparingRebalance", members=1)
    await kafka.ask(LeaveGroupRequest(kafka.group, members=[MemberIdentity(m1.id)]), 5)
    answer = await parked
    assert (answer.error_code, answer.member_id) == (Err.UNKNOWN_MEMBER_ID, "")


# ---- the rebalance timeout


async def test_033_dynamic_member_that_does_not_rejoin_is_removed(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, rebalance_ms=SHORT_MS)
    answer, elapsed_ms = await timed(m1.start_join())
    assert about(elapsed_ms, SHORT_MS)
    assert [item.member_id for item in answer.members] == [m1.id]
    assert await m2.heartbeat() == Err.UNKNOWN_MEMBER_ID


async def test_s1_1_rebalance_timeout_is_the_longest_of_the_members(kafka: Kafka) -> None:
    [m1] = await kafka.stable(rebalance_ms=SHORT_MS)
    m2 = await kafka.member("m2", rebalance_ms=2 * SHORT_MS)
    await m2.ask_id()
    answer, elapsed_ms = await timed(m2.start_join())
    assert about(elapsed_ms, 2 * SHORT_MS)
    assert answer.leader == m2.id
    assert await m1.heartbeat() == Err.UNKNOWN_MEMBER_ID


async def test_034_static_member_that_does_not_rejoin_is_kept(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, rebalance_ms=SHORT_MS, instances=["i1", "i2"])
    answer, elapsed_ms = await timed(m1.start_join())
    assert about(elapsed_ms, SHORT_MS)
    assert {item.member_id for item in answer.members} == {m1.id, m2.id}


async def test_035_static_members_that_are_all_silent_stay_in_the_join_phase(kafka: Kafka) -> None:
    """The timer fires with nobody joined: it is armed again, the generation stays."""
    m1, m2 = await kafka.stable(2, rebalance_ms=SHORT_MS, instances=["i1", "i2"])
    m3 = await kafka.member("m3", rebalance_ms=300)
    await m3.ask_id()
    parked = m3.start_join()
    await kafka.until("PreparingRebalance", members=3)
    await kafka.ask(LeaveGroupRequest(kafka.group, members=[MemberIdentity(m3.id)]), 5)
    assert (await parked).error_code == Err.UNKNOWN_MEMBER_ID
    watched = background(kafka.until("CompletingRebalance"))
    await stays_parked(watched, ms=SHORT_MS + 500)
    assert [a.generation_id for a in await rejoin_all([m1, m2])] == [3, 3]
    await watched


async def test_036_silent_leader_is_replaced(kafka: Kafka) -> None:
    m1, m2, m3 = await kafka.stable(3, rebalance_ms=SHORT_MS)
    m4 = await kafka.member("m4", rebalance_ms=SHORT_MS)
    kafka.ignore("leader", because="any member that joined may become the leader")
    kafka.ignore("members", because="the list goes to whoever leads")
    await m4.ask_id()
    tasks = [m4.start_join()]
    await kafka.until("PreparingRebalance", members=4)
    tasks += [m2.start_join(), m3.start_join()]
    answers = [await task for task in tasks]
    leaders = {answer.leader for answer in answers}
    assert len(leaders) == 1
    assert leaders < {m2.id, m3.id, m4.id}
    assert sorted(len(answer.members) for answer in answers) == [0, 0, 3]
    assert await m1.heartbeat() == Err.UNKNOWN_MEMBER_ID


async def test_036_leader_that_rejoins_in_time_is_kept(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    m3 = await kafka.member("m3")
    parked = [await m3.enter()]
    await kafka.until("PreparingRebalance", members=3)
    parked.append(m2.start_join())
    assert (await m1.join()).leader == m1.id
    assert {(await task).leader for task in parked} == {m1.id}


async def test_s1_1_leader_that_left_is_replaced(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    await m1.leave()
    answer = await m2.join()
    assert (answer.leader, answer.generation_id) == (m2.id, 3)
    assert [item.member_id for item in answer.members] == [m2.id]


async def test_s1_1_last_member_that_does_not_rejoin_leaves_an_empty_group(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, rebalance_ms=SHORT_MS)
    await m2.leave()
    await kafka.until("Empty")
    assert await m1.heartbeat() == Err.UNKNOWN_MEMBER_ID
    m3 = await kafka.member("m3")
    assert (await m3.join()).generation_id == 4


# ---- pending members


async def test_023_rebalance_waits_for_a_pending_member_that_joins(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    m2 = await kafka.member("m2")
    await m2.ask_id()
    parked = m1.start_join()
    await stays_parked(parked)
    assert (await m2.join()).generation_id == 2
    assert len((await parked).members) == 2


async def test_024_rebalance_goes_on_when_a_pending_member_times_out(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    silent = await kafka.member("silent", session_ms=SHORT_MS)
    start = clock_s()
    await silent.ask_id()
    answer, elapsed_ms = await timed(m1.start_join(), start)
    assert about(elapsed_ms, SHORT_MS)
    assert len(answer.members) == 1


async def test_024_timed_out_pending_id_is_unknown(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    silent = await kafka.member("silent", session_ms=100)
    await silent.ask_id()
    await m1.start_join()
    answer = await silent.try_join()
    assert answer.error_code == Err.UNKNOWN_MEMBER_ID


async def test_025_rebalance_goes_on_when_a_pending_member_leaves(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    m2 = await kafka.member("m2")
    await m2.ask_id()
    parked = m1.start_join()
    await stays_parked(parked)
    left = await m2.leave()
    assert [item.error_code for item in left.members] == [Err.NONE]
    assert len((await parked).members) == 1


async def test_026_second_member_stops_after_its_first_join_request(kafka: Kafka) -> None:
    """The member has its id and never comes back; the group is complete without it when its session is over."""
    m1, m2 = await kafka.stable(2)
    half = await kafka.member("half", session_ms=300)
    await half.ask_id()
    answers = await rejoin_all([m1, m2])
    assert [len(answer.members) for answer in answers] == [2, 0]


async def test_s1_1_pending_member_does_not_start_a_rebalance(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    m2 = await kafka.member("m2")
    await m2.ask_id()
    assert await m1.heartbeat() == Err.NONE
    assert (await kafka.describe()).group_state == "Stable"


# ---- members that die


async def test_021_new_member_that_dies_after_the_join_completed(kafka: Kafka) -> None:
    [m1] = await kafka.joined()
    m2 = await kafka.member("m2", session_ms=SHORT_MS)
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    await m1.join()
    await parked
    m2.wire.abort()
    assert (await m1.sync({m1.id: b"a"})).error_code == Err.NONE
    await kafka.until("PreparingRebalance", members=1)
    assert await m1.heartbeat() == Err.REBALANCE_IN_PROGRESS


async def test_022_new_member_that_dies_after_sync(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2, short=2)
    await sync_all([m1, m2])
    m2.wire.abort()
    give_up = clock_s() + GIVE_UP_S
    while await m1.heartbeat(wire=await _silent_wire(kafka)) == Err.NONE:
        assert clock_s() < give_up, "its session does not end"
        await stays_parked(background(_never()), ms=50)
    assert len((await kafka.state()).members) == 1
    assert len((await m1.join()).members) == 1


async def _silent_wire(kafka: Kafka):  # type: ignore[no-untyped-def]
    """One unrecorded connection for heartbeats whose number depends on the time."""
    return await kafka._shared_wire(1, record=False)


async def _never() -> None:
    await asyncio.Event().wait()


async def test_s1_1_disconnect_alone_changes_nothing(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    m2.wire.abort()
    await stays_parked(background(kafka.until("PreparingRebalance")), ms=300)
    assert await m1.heartbeat() == Err.NONE


async def test_s1_1_member_whose_parked_join_lost_its_connection_is_still_counted(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    parked = await m2.enter(protocols=[JoinGroupRequestProtocol("range", subscription("t1"))])
    await kafka.until("PreparingRebalance")
    m2.wire.abort()
    answer = await m1.join()
    assert answer.generation_id == 3
    assert {item.member_id for item in answer.members} == {m1.id, m2.id}
    parked.cancel()


# ---- group.max.size = 2


@pytest.mark.profile("small")
async def test_013_full_group_refuses_a_new_dynamic_member(kafka: Kafka) -> None:
    await kafka.stable(2)
    m3 = await kafka.member("m3")
    answer = await m3.try_join()
    assert (answer.error_code, answer.member_id) == (Err.GROUP_MAX_SIZE_REACHED, "")


@pytest.mark.profile("small")
async def test_013_full_group_refuses_an_id_it_gave_out(kafka: Kafka) -> None:
    """The id is no longer pending. 3.4 completes the join phase at once; 4.1 forgets to, and waits for the rebalance timeout."""
    [m1] = await kafka.stable(rebalance_ms=2 * SHORT_MS)
    m2, m3 = await kafka.member("m2", rebalance_ms=2 * SHORT_MS), await kafka.member("m3", session_ms=SHORT_MS)
    await m3.ask_id()
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    start = clock_s()
    rejoined = m1.start_join()
    await stays_parked(rejoined)
    answer = await m3.try_join()
    assert (answer.error_code, answer.member_id) == (Err.GROUP_MAX_SIZE_REACHED, "")
    _, elapsed_ms = await timed(rejoined, start)
    assert elapsed_ms < SHORT_MS - EARLY_MS if kafka.old else elapsed_ms > SHORT_MS + EARLY_MS
    assert (await parked).error_code == Err.NONE


@pytest.mark.profile("small")
async def test_013_other_refusals_do_not_complete_it_either(kafka: Kafka) -> None:
    """The join phase of which 4.1 has forgotten that it is complete: a member that is in asks again, for a protocol that nobody has."""
    [m1] = await kafka.stable()
    m2, m3 = await kafka.member("m2"), await kafka.member("m3")
    await m3.ask_id()
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    rejoined = m1.start_join()
    await stays_parked(rejoined)
    assert (await m3.try_join()).error_code == Err.GROUP_MAX_SIZE_REACHED
    strange = m2.join_request(protocols=[JoinGroupRequestProtocol("strange", b"")])
    twin = await m2.second_wire()
    answer = await twin.send(strange, 9)
    assert answer.error_code == Err.INCONSISTENT_GROUP_PROTOCOL
    if not kafka.old:
        await stays_parked(rejoined, parked)
        assert (await kafka.state()).group_state == "PreparingRebalance"
        await m2.leave(wire=twin)  # that is one
        assert (await parked).error_code == Err.UNKNOWN_MEMBER_ID
    assert (await rejoined).generation_id == 2


@pytest.mark.profile("small")
async def test_013_full_group_refuses_a_new_static_member(kafka: Kafka) -> None:
    await kafka.stable(2, instances=["i1", "i2"])
    m3 = await kafka.member("m3", instance="i3")
    answer = await m3.try_join()
    assert (answer.error_code, answer.member_id) == (Err.GROUP_MAX_SIZE_REACHED, "")


@pytest.mark.profile("small")
async def test_013_full_group_refuses_even_the_replacement_of_a_static_member(kafka: Kafka) -> None:
    """Without an id it counts as a newcomer, although it would take its own place."""
    m1, m2 = await kafka.stable(2, instances=["i1", "i2"])
    again = await kafka.member("again", instance="i2")
    answer = await again.try_join()
    assert (answer.error_code, answer.member_id) == (Err.GROUP_MAX_SIZE_REACHED, "")
    assert await m1.heartbeat() == Err.NONE
    assert await m2.heartbeat() == Err.NONE


@pytest.mark.profile("small")
async def test_014_member_of_a_full_group_rejoins(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    assert [answer.error_code for answer in await rejoin_all([m1, m2])] == [Err.NONE, Err.NONE]


@pytest.mark.profile("small")
async def test_014_place_of_one_who_left_is_free(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    await m2.leave()
    m3 = await kafka.member("m3")
    parked = await m3.enter()
    await kafka.until("PreparingRebalance", members=2)
    assert (await m1.join()).error_code == Err.NONE
    assert (await parked).error_code == Err.NONE

"""Heartbeat and sessions (catalogue 66-76)."""

from __future__ import annotations

import asyncio

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from tests.conformance.driver import (
    GIVE_UP_S,
    POLL_S,
    SHORT_MS,
    Kafka,
    Member,
    clock_s,
    rejoin_all,
    stays_parked,
    timed,
)

T = ("t0", 0)


async def test_066_empty_group_id(kafka: Kafka) -> None:
    answer = await kafka.ask(HeartbeatRequest("", 1, "m"), 4)
    assert answer.error_code == Err.INVALID_GROUP_ID


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
async def test_066_unknown_group(kafka: Kafka, version: int) -> None:
    answer = await kafka.ask(HeartbeatRequest(kafka.group, 1, "m"), version)
    assert answer.error_code == Err.UNKNOWN_MEMBER_ID


async def test_066_unknown_member(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    assert await m1.heartbeat(member_id="nobody") == Err.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("generation", [-1, 0, 2])
async def test_066_other_generation(kafka: Kafka, generation: int) -> None:
    [m1] = await kafka.stable()
    assert await m1.heartbeat(generation_id=generation) == Err.ILLEGAL_GENERATION


async def test_066_member_is_checked_before_the_generation(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    assert await m1.heartbeat(member_id="nobody", generation_id=9) == Err.UNKNOWN_MEMBER_ID


async def test_066_pending_member_is_unknown(kafka: Kafka) -> None:
    await kafka.stable()
    m2 = await kafka.member("m2")
    await m2.ask_id()
    assert await m2.heartbeat(generation_id=1) == Err.UNKNOWN_MEMBER_ID


async def test_067_empty_group(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    await m1.leave()
    assert await m1.heartbeat() == Err.UNKNOWN_MEMBER_ID


async def test_067_simple_group(kafka: Kafka) -> None:
    await kafka.commit({T: 1})
    answer = await kafka.ask(HeartbeatRequest(kafka.group, 0, "m"), 4)
    assert answer.error_code == Err.UNKNOWN_MEMBER_ID


async def test_068_completing(kafka: Kafka) -> None:
    m1, m2 = await kafka.joined(2)
    assert await m1.heartbeat() == Err.NONE
    assert await m2.heartbeat() == Err.NONE


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
async def test_068_stable(kafka: Kafka, version: int) -> None:
    [m1] = await kafka.stable()
    assert await m1.heartbeat(version=version) == Err.NONE


async def test_069_preparing(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2)
    parked = m1.start_join()
    await kafka.until("PreparingRebalance")
    assert await m2.heartbeat() == Err.REBALANCE_IN_PROGRESS
    assert await m2.heartbeat(generation_id=3) == Err.ILLEGAL_GENERATION
    await m2.join()
    await parked


async def test_s2_4_parked_new_member_heartbeats(kafka: Kafka) -> None:
    [m1] = await kafka.stable()
    m2 = await kafka.member("m2")
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    twin = await m2.second_wire()
    assert await m2.heartbeat(generation_id=1, wire=twin) == Err.REBALANCE_IN_PROGRESS
    assert await m2.heartbeat(generation_id=-1, wire=twin) == Err.ILLEGAL_GENERATION
    await m1.join()
    await parked


async def keep_alive(member: Member, for_ms: int, step, every_ms: int = 300) -> None:  # type: ignore[no-untyped-def]
    """Calls `step` again and again for longer than a session."""
    until = clock_s() + for_ms / 1000
    while clock_s() < until:
        assert await step() in (Err.NONE, {T: Err.NONE}), member.name
        await asyncio.sleep(every_ms / 1000)


async def test_070_heartbeats_keep_the_session(kafka: Kafka) -> None:
    [m1] = await kafka.stable(session_ms=SHORT_MS)
    wire = await kafka.wire("m1", record=False)
    await keep_alive(m1, SHORT_MS + 500, lambda: m1.heartbeat(wire=wire))
    assert await m1.heartbeat() == Err.NONE


async def test_071_commits_keep_the_session(kafka: Kafka) -> None:
    [m1] = await kafka.stable(session_ms=SHORT_MS)
    wire = await kafka.wire("m1", record=False)
    await keep_alive(m1, SHORT_MS + 500, lambda: m1.commit({T: 1}, wire=wire))
    assert await m1.heartbeat() == Err.NONE


async def test_s1_1_sync_in_stable_keeps_the_session_in_3_4_only(kafka: Kafka) -> None:
    """Syncs 0, 0.35, 0.7 and 1.05 of a session after the group was stable; then one look."""
    [m1] = await kafka.stable(session_ms=SHORT_MS)
    request = m1.kafka
    wire = await kafka.wire("m1", record=False)
    m1.wire, recorded = wire, m1.wire
    for _ in range(3):
        await asyncio.sleep(0.35 * SHORT_MS / 1000)
        await m1.sync()
    m1.wire = recorded
    assert request is kafka
    assert await m1.heartbeat() == kafka.pick(old=Err.NONE, new=Err.UNKNOWN_MEMBER_ID)


async def test_s1_1_offset_fetch_does_not_keep_the_session(kafka: Kafka) -> None:
    [m1] = await kafka.stable(session_ms=SHORT_MS)
    give_up = clock_s() + GIVE_UP_S
    while len((await kafka.state()).members) == 1:
        await kafka.committed([T], record=False)
        await asyncio.sleep(POLL_S)
        assert clock_s() < give_up, "fetches keep its session"
    assert await m1.heartbeat() == Err.UNKNOWN_MEMBER_ID


async def test_072_silence_ends_the_session_of_a_sole_member(kafka: Kafka) -> None:
    start = clock_s()
    [m1] = await kafka.stable(session_ms=SHORT_MS)
    _, elapsed_ms = await timed(kafka.until("Empty"), start)
    assert SHORT_MS - 15 < elapsed_ms < m1.rebalance_ms
    assert await m1.heartbeat() == Err.UNKNOWN_MEMBER_ID


async def test_072_silence_of_one_makes_the_others_rebalance(kafka: Kafka) -> None:
    m1 = await kafka.member("m1")
    m2 = await kafka.member("m2", session_ms=SHORT_MS)
    await m1.join()
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    await m1.join()
    await parked
    await m1.sync({m1.id: b"one", m2.id: b"two"})
    await m2.sync()
    await kafka.until("PreparingRebalance", members=1)
    assert await m1.heartbeat() == Err.REBALANCE_IN_PROGRESS
    answer = await m1.join()
    assert (answer.generation_id, len(answer.members)) == (3, 1)


async def test_073_parked_join_is_not_expired(kafka: Kafka) -> None:
    """m2's session of 200 ms passes many times while it waits for m1."""
    m1 = await kafka.member("m1")
    await m1.join()
    await m1.sync({m1.id: b"one"})
    m2 = await kafka.member("m2")
    await m2.ask_id()
    m2.session_ms = 200
    parked = m2.start_join()
    await kafka.until("PreparingRebalance", members=2)
    await stays_parked(parked, ms=700)
    assert len((await m1.join()).members) == 2
    assert (await parked).error_code == Err.NONE


async def test_073_parked_sync_is_not_expired(kafka: Kafka) -> None:
    m1 = await kafka.member("m1")
    await m1.join()
    m2 = await kafka.member("m2", session_ms=SHORT_MS)
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    await m1.join()
    await parked
    sync = m2.start_sync()
    await stays_parked(sync, ms=SHORT_MS + 500)
    await m1.sync({m1.id: b"one", m2.id: b"two"})
    assert (await sync).assignment == b"two"


async def test_074_session_that_ends_during_a_rebalance_removes_the_member(kafka: Kafka) -> None:
    """m2 rejoins never: its session ends long before the rebalance timeout, and the rebalance completes without it."""
    m1 = await kafka.member("m1")
    m2 = await kafka.member("m2", session_ms=SHORT_MS)
    await m1.join()
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    await m1.join()
    await parked
    await m1.sync({m1.id: b"one", m2.id: b"two"})
    await m2.sync()
    answer, elapsed_ms = await timed(m1.start_join())
    assert len(answer.members) == 1
    assert elapsed_ms < m1.rebalance_ms


async def test_074_member_that_rejoined_outlives_its_session(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, short=2)
    m3 = await kafka.member("m3", session_ms=SHORT_MS)
    parked = await m3.enter()
    await kafka.until("PreparingRebalance", members=3)
    others = [m2.start_join()]
    await stays_parked(parked, *others, ms=SHORT_MS + 500)
    answers = [(await m1.join()), await others[0], await parked]
    assert {answer.generation_id for answer in answers} == {3}


async def test_074_heartbeats_keep_the_session_during_a_rebalance(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, short=2)
    parked = m1.start_join()
    await kafka.until("PreparingRebalance")
    wire = await kafka.wire("m2", record=False)
    until = clock_s() + (SHORT_MS + 500) / 1000
    while clock_s() < until:
        assert await m2.heartbeat(wire=wire) == Err.REBALANCE_IN_PROGRESS
        await asyncio.sleep(0.1)
    await m2.join()
    assert len((await parked).members) == 2


async def test_s1_1_join_completion_restarts_the_session(kafka: Kafka) -> None:
    [m1] = await kafka.stable(session_ms=SHORT_MS)
    await asyncio.sleep(0.55 * SHORT_MS / 1000)
    await rejoin_all([m1])
    await asyncio.sleep(0.55 * SHORT_MS / 1000)
    assert await m1.heartbeat() == Err.NONE


async def test_076_fenced_instance(kafka: Kafka) -> None:
    [m1] = await kafka.stable(instances=["i1"])
    assert await m1.heartbeat(member_id="other") == Err.FENCED_INSTANCE_ID
    assert await m1.heartbeat(member_id="other", generation_id=9) == Err.FENCED_INSTANCE_ID
    assert await m1.heartbeat(group_instance_id="i9") == Err.UNKNOWN_MEMBER_ID

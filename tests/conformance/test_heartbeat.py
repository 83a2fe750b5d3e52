"""Heartbeat and sessions (catalogue 66-76)."""

from __future__ import annotations

import asyncio
import time

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from tests.conformance.driver import Kafka, Member, rejoin_all, stays_parked, timed

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


async def keep_alive(member: Member, for_ms: int, step, every_ms: int = 100) -> None:  # type: ignore[no-untyped-def]
    """Calls `step` again and again for longer than a session."""
    until = time.monotonic() + for_ms / 1000
    while time.monotonic() < until:
        assert await step() in (Err.NONE, {T: Err.NONE}), member.name
        await asyncio.sleep(every_ms / 1000)


async def test_070_heartbeats_keep_the_session(kafka: Kafka) -> None:
    [m1] = await kafka.stable(session_ms=500)
    wire = await kafka.wire("m1", record=False)
    await keep_alive(m1, 1100, lambda: m1.heartbeat(wire=wire))
    assert await m1.heartbeat() == Err.NONE


async def test_071_commits_keep_the_session(kafka: Kafka) -> None:
    [m1] = await kafka.stable(session_ms=500)
    wire = await kafka.wire("m1", record=False)
    await keep_alive(m1, 1100, lambda: m1.commit({T: 1}, wire=wire))
    assert await m1.heartbeat() == Err.NONE


async def test_s1_1_sync_in_stable_keeps_the_session_in_3_4_only(kafka: Kafka) -> None:
    """Session 600 ms; syncs at 0, 300, 600, 900 ms; then one look."""
    [m1] = await kafka.stable(session_ms=600)
    request = m1.kafka
    wire = await kafka.wire("m1", record=False)
    m1.wire, recorded = wire, m1.wire
    for _ in range(3):
        await asyncio.sleep(0.3)
        await m1.sync()
    m1.wire = recorded
    assert request is kafka
    assert await m1.heartbeat() == kafka.pick(old=Err.NONE, new=Err.UNKNOWN_MEMBER_ID)


async def test_s1_1_offset_fetch_does_not_keep_the_session(kafka: Kafka) -> None:
    [m1] = await kafka.stable(session_ms=400)
    give_up = time.monotonic() + 5
    while len((await kafka.state()).members) == 1:
        await kafka.committed([T], record=False)
        assert time.monotonic() < give_up
    assert await m1.heartbeat() == Err.UNKNOWN_MEMBER_ID


async def test_072_silence_ends_the_session_of_a_sole_member(kafka: Kafka) -> None:
    [m1] = await kafka.stable(session_ms=300)
    _, elapsed_ms = await timed(kafka.until("Empty"))
    assert 200 < elapsed_ms < 1500
    assert await m1.heartbeat() == Err.UNKNOWN_MEMBER_ID


async def test_072_silence_of_one_makes_the_others_rebalance(kafka: Kafka) -> None:
    m1 = await kafka.member("m1")
    m2 = await kafka.member("m2", session_ms=300)
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
    m2 = await kafka.member("m2", session_ms=200)
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    await stays_parked(parked, ms=700)
    assert len((await m1.join()).members) == 2
    assert (await parked).error_code == Err.NONE


async def test_073_parked_sync_is_not_expired(kafka: Kafka) -> None:
    m1 = await kafka.member("m1")
    await m1.join()
    m2 = await kafka.member("m2", session_ms=200)
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    await m1.join()
    await parked
    sync = m2.start_sync()
    await stays_parked(sync, ms=600)
    await m1.sync({m1.id: b"one", m2.id: b"two"})
    assert (await sync).assignment == b"two"


async def test_074_session_that_ends_during_a_rebalance_removes_the_member(kafka: Kafka) -> None:
    """m2 rejoins never: its session ends long before the rebalance timeout, and the rebalance completes without it."""
    m1 = await kafka.member("m1")
    m2 = await kafka.member("m2", session_ms=400)
    await m1.join()
    parked = await m2.enter()
    await kafka.until("PreparingRebalance", members=2)
    await m1.join()
    await parked
    await m1.sync({m1.id: b"one", m2.id: b"two"})
    await m2.sync()
    answer, elapsed_ms = await timed(m1.start_join())
    assert len(answer.members) == 1
    assert elapsed_ms < 2000


async def test_074_member_that_rejoined_outlives_its_session(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, session_ms=1000)
    m3 = await kafka.member("m3", session_ms=1000)
    parked = await m3.enter()
    await kafka.until("PreparingRebalance", members=3)
    others = [m2.start_join()]
    answers = [(await m1.join()), await others[0], await parked]
    assert {answer.generation_id for answer in answers} == {3}


async def test_074_heartbeats_keep_the_session_during_a_rebalance(kafka: Kafka) -> None:
    m1, m2 = await kafka.stable(2, session_ms=1000)
    parked = m1.start_join()
    await kafka.until("PreparingRebalance")
    wire = await kafka.wire("m2", record=False)
    until = time.monotonic() + 2.2
    while time.monotonic() < until:
        assert await m2.heartbeat(wire=wire) == Err.REBALANCE_IN_PROGRESS
        await asyncio.sleep(0.1)
    await m2.join()
    assert len((await parked).members) == 2


async def test_s1_1_join_completion_restarts_the_session(kafka: Kafka) -> None:
    [m1] = await kafka.stable(session_ms=500)
    await asyncio.sleep(0.35)
    await rejoin_all([m1])
    await asyncio.sleep(0.35)
    assert await m1.heartbeat() == Err.NONE


async def test_076_fenced_instance(kafka: Kafka) -> None:
    [m1] = await kafka.stable(instances=["i1"])
    assert await m1.heartbeat(member_id="other") == Err.FENCED_INSTANCE_ID
    assert await m1.heartbeat(member_id="other", generation_id=9) == Err.FENCED_INSTANCE_ID
    assert await m1.heartbeat(group_instance_id="i9") == Err.UNKNOWN_MEMBER_ID

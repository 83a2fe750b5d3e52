"""Heartbeat while the offsets partition is stuck: 3.4 does not care; 4.1 lets it queue behind what is uncommitted."""

from __future__ import annotations

from kafka_wire.errors import Err
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from tests.stuck.cells import cell
from tests.stuck.members import Member, commit, error_of, preparing, stable, state_of
from tests.stuck.target import Stuck


@cell(partitions=2)
async def test_heartbeats_before_and_behind_the_first_uncommitted_write(kafka: Stuck) -> None:
    """The first write of anybody in that partition counts, for every group there; another partition has its own."""
    [member] = await stable(kafka, kafka.name("mine"))
    [neighbour] = await stable(kafka, kafka.name("neighbour"))
    [elsewhere] = await stable(kafka, kafka.name("elsewhere", other=True))
    everybody = (member, neighbour, elsewhere)
    await kafka.freeze()
    for one in everybody:
        assert error_of(kafka.at_once(await one.heartbeat())) is Err.NONE
    kafka.start(*commit(kafka.name("writer"), 1))
    await kafka.sleep(100)
    for _ in range(2):
        *here, there = [one.start_heartbeat() for one in everybody]
        for asked in here:
            answer = kafka.due(await asked.answer(), old_a=False, old_b=False, new=True)
            assert error_of(answer) is kafka.pick(old=Err.NONE, new=Err.COORDINATOR_NOT_AVAILABLE)
        assert error_of(kafka.at_once(await there.answer())) is Err.NONE
    await kafka.heal()
    for one in everybody:
        assert error_of(kafka.at_once(await one.heartbeat())) is Err.NONE
        assert await state_of(kafka, one.group) == "Stable"


@cell()
async def test_heartbeats_with_an_error_wait_for_nothing(kafka: Stuck) -> None:
    """Clients that are no members, or not of this generation, get an error at once."""
    [member] = await stable(kafka, kafka.name("errors"))
    await kafka.freeze()
    kafka.start(*commit(kafka.name("writer"), 1))
    await kafka.sleep(100)
    assert error_of(kafka.at_once(await member.heartbeat(generation_id=77))) is Err.ILLEGAL_GENERATION
    assert error_of(kafka.at_once(await member.heartbeat(member_id="nobody"))) is Err.UNKNOWN_MEMBER_ID
    nowhere = await kafka.ask(HeartbeatRequest(kafka.name("nowhere"), 1, "somebody"), 4)
    assert error_of(kafka.at_once(nowhere)) is Err.UNKNOWN_MEMBER_ID


@cell()
async def test_heartbeats_in_a_rebalance(kafka: Stuck) -> None:
    """REBALANCE_IN_PROGRESS is an answer, not a refusal: behind something uncommitted 4.1 does not give it either."""
    [member] = await stable(kafka, kafka.name("rebalance"))
    await kafka.freeze()
    newcomer = Member(kafka, member.group, "newcomer")
    newcomer.id = (await newcomer.start_join().answer()).response.member_id
    newcomer.start_join()
    await preparing(kafka, member.group)
    assert error_of(kafka.at_once(await member.heartbeat())) is Err.REBALANCE_IN_PROGRESS
    kafka.start(*commit(kafka.name("writer"), 1))
    await kafka.sleep(100)
    answer = kafka.due(await member.heartbeat(), old_a=False, old_b=False, new=True)
    assert error_of(answer) is kafka.pick(old=Err.REBALANCE_IN_PROGRESS, new=Err.COORDINATOR_NOT_AVAILABLE)


@cell(phases=("A",))
async def test_a_heartbeat_that_is_answered_late_keeps_the_session(kafka: Stuck) -> None:
    """The session starts anew when the heartbeat comes; silence after it ends it as ever."""
    [member] = await stable(kafka, kafka.name("session"))
    await kafka.freeze()
    member.session_ms = kafka.timeout_ms + 700
    member.took(kafka.at_once(await member.start_join().answer()))
    kafka.start(*commit(kafka.name("writer"), 1))
    await kafka.sleep(100)
    for _ in range(2):
        await member.heartbeat()
        await kafka.sleep(kafka.pick(old=kafka.timeout_ms, new=0))
    assert await state_of(kafka, member.group) == "CompletingRebalance"
    await kafka.sleep(member.session_ms)
    assert await state_of(kafka, member.group) == "Empty"
    assert error_of(kafka.at_once(await member.heartbeat())) is Err.UNKNOWN_MEMBER_ID


@cell(phases=("A",))
async def test_a_timer_writes_too(kafka: Stuck) -> None:
    """The last member's session ends in a record of an Empty group, behind which 4.1's other groups now queue."""
    [silent] = await stable(kafka, kafka.name("silent"), session_ms=60_000)
    [member] = await stable(kafka, kafka.name("member"))
    await kafka.freeze()
    silent.session_ms = 500
    rejoined = silent.took(await silent.start_join().answer())  # a leader's: it starts a rebalance, and writes nothing
    assert error_of(kafka.at_once(rejoined)) is Err.NONE
    assert error_of(kafka.at_once(await member.heartbeat())) is Err.NONE
    await kafka.sleep(1000)
    assert await state_of(kafka, silent.group) == "Empty"
    answer = kafka.due(await member.heartbeat(), old_a=False, old_b=False, new=True)
    assert error_of(answer) is kafka.pick(old=Err.NONE, new=Err.COORDINATOR_NOT_AVAILABLE)

"""JoinGroup while the offsets partition is stuck: rebalances complete; 4.1 cuts a join that is parked behind a write."""

from __future__ import annotations

from kafka_wire.errors import Err
from tests.stuck.cells import cell
from tests.stuck.members import Member, commit, error_of, fetched, listed, members_of, preparing, stable, state_of
from tests.stuck.target import INITIAL_DELAY_MS, Stuck


async def newcomer_of(kafka: Stuck, group: str) -> Member:
    """Return a member that has got its member id, at once, and has not joined with it yet."""
    member = Member(kafka, group, "newcomer")
    answer = kafka.at_once(await member.start_join().answer())
    assert error_of(answer) is Err.MEMBER_ID_REQUIRED
    member.id = answer.response.member_id
    return member


@cell()
async def test_a_parked_join_behind_an_uncommitted_write(kafka: Stuck) -> None:
    """4.1 tells it COORDINATOR_NOT_AVAILABLE and no member id, yet it is in the group, and the rebalance goes on without
    its request; in 3.4 it waits for the others."""
    [member] = await stable(kafka, kafka.name("parked"))
    await kafka.freeze()
    kafka.start(*commit(kafka.name("writer"), 1))
    await kafka.sleep(100)
    newcomer = await newcomer_of(kafka, member.group)
    parked = newcomer.start_join()
    if kafka.old:
        await kafka.sleep(kafka.timeout_ms + 300)
        assert not parked.answered
    else:
        answer = kafka.late(await parked.answer())
        response = answer.response
        assert error_of(answer) is Err.COORDINATOR_NOT_AVAILABLE
        assert (response.member_id, response.generation_id, response.leader) == ("", -1, "")
        assert (response.protocol_type, response.protocol_name, response.members) == (None, None, [])
        assert error_of(kafka.at_once(await newcomer.heartbeat(generation_id=0))) is Err.ILLEGAL_GENERATION
    assert await state_of(kafka, member.group) == "PreparingRebalance"
    assert await members_of(kafka, member.group) == {member.id, newcomer.id}
    rejoined = member.took(kafka.at_once(await member.start_join().answer()))
    assert error_of(rejoined) is Err.NONE
    assert {one.member_id for one in rejoined.response.members} == {member.id, newcomer.id}
    again = parked if kafka.old else newcomer.start_join()  # in 4.1 the rebalance is over: it is told what came of it
    joined = newcomer.took(await again.answer())
    assert error_of(joined) is Err.NONE
    assert newcomer.generation == member.generation == 2
    assert await state_of(kafka, member.group) == "CompletingRebalance"


@cell(phases=("A",))
async def test_a_cut_join_may_park_again(kafka: Stuck) -> None:
    """And is cut again, after the same time."""
    [member] = await stable(kafka, kafka.name("again"))
    await kafka.freeze()
    kafka.start(*commit(kafka.name("writer"), 1))
    await kafka.sleep(100)
    newcomer = await newcomer_of(kafka, member.group)
    if kafka.old:
        parked = newcomer.start_join()
        await kafka.sleep(2 * kafka.timeout_ms)
        assert not parked.answered
        return
    for _ in range(2):
        answer = kafka.late(await newcomer.start_join().answer())
        assert error_of(answer) is Err.COORDINATOR_NOT_AVAILABLE
        assert await members_of(kafka, member.group) == {member.id, newcomer.id}


@cell()
async def test_a_join_parked_before_the_first_uncommitted_write(kafka: Stuck) -> None:
    """Records that are written later do not delay the join: it waits for the others, longer than the timeout."""
    [member] = await stable(kafka, kafka.name("before"))
    await kafka.freeze()
    newcomer = await newcomer_of(kafka, member.group)
    parked = newcomer.start_join()
    await kafka.sleep(100)
    kafka.start(*commit(kafka.name("writer"), 1))
    await kafka.sleep(kafka.timeout_ms + 500)
    assert not parked.answered
    member.took(kafka.at_once(await member.start_join().answer()))
    assert error_of(newcomer.took(await parked.answer())) is Err.NONE
    assert newcomer.generation == member.generation == 2


@cell()
async def test_joins_that_can_be_answered_at_once(kafka: Stuck) -> None:
    """The last joiner, a repetition while the group waits for its leader, and every refusal."""
    [member] = await stable(kafka, kafka.name("answered"))
    await kafka.freeze()
    kafka.start(*commit(kafka.name("writer"), 1))
    await kafka.sleep(100)
    for _ in range(2):
        assert error_of(member.took(kafka.at_once(await member.start_join().answer()))) is Err.NONE
        assert member.generation == 2
    assert await state_of(kafka, member.group) == "CompletingRebalance"
    unknown = kafka.at_once(await member.start_join(member_id="nobody").answer())
    assert (error_of(unknown), unknown.response.member_id) == (Err.UNKNOWN_MEMBER_ID, "nobody")
    short = kafka.at_once(await member.start_join(session_timeout_ms=1).answer())
    assert (error_of(short), short.response.member_id) == (Err.INVALID_SESSION_TIMEOUT, member.id)


@cell()
async def test_a_group_that_begins_while_stuck(kafka: Stuck) -> None:
    """The first member joins and leads; 4.1's admin sees nothing of the group until its first record is committed."""
    group = kafka.name("new")
    await kafka.freeze()
    member = await newcomer_of(kafka, group)
    assert await state_of(kafka, group) == kafka.pick(old="Empty", new="Dead")
    joined = kafka.after(INITIAL_DELAY_MS, member.took(await member.start_join().answer()))
    assert (error_of(joined), member.generation) == (Err.NONE, 1)
    assert await state_of(kafka, group) == kafka.pick(old="CompletingRebalance", new="Dead")
    assert await listed(kafka, group) == kafka.pick(old={group: "CompletingRebalance"}, new={})
    assert await fetched(kafka, group) == -1
    synced = kafka.due(await member.start_sync({member.id: b"m"}).answer(), old_a=True, old_b=False, new=True)
    assert error_of(synced) is kafka.pick3(
        old_a=Err.REBALANCE_IN_PROGRESS, old_b=Err.COORDINATOR_NOT_AVAILABLE, new=Err.COORDINATOR_NOT_AVAILABLE
    )
    beat = kafka.due(await member.heartbeat(), old_a=False, old_b=False, new=True)
    assert error_of(beat) is kafka.pick(old=Err.REBALANCE_IN_PROGRESS, new=Err.COORDINATOR_NOT_AVAILABLE)
    assert await state_of(kafka, group) == kafka.pick(old="PreparingRebalance", new="Dead")
    await kafka.heal()
    assert await state_of(kafka, group) == "PreparingRebalance"
    assert await members_of(kafka, group) == {member.id}
    assert error_of(kafka.at_once(await member.heartbeat())) is Err.REBALANCE_IN_PROGRESS
    await kafka.move()
    assert await state_of(kafka, group, broker=2) == kafka.pick3(old_a="Stable", old_b="Dead", new="Stable")


@cell()
async def test_a_static_members_new_group_that_never_synced(kafka: Stuck) -> None:
    """The group has its first generation; after a move, a record in 4.1 shows that the group existed, in 3.4 nothing does."""
    group = kafka.name("static")
    await kafka.freeze()
    member = Member(kafka, group, "static", instance="one")
    joined = kafka.after(INITIAL_DELAY_MS, member.took(await member.start_join().answer()))
    assert (error_of(joined), member.generation) == (Err.NONE, 1)
    assert await state_of(kafka, group) == kafka.pick(old="CompletingRebalance", new="Dead")
    await kafka.heal()
    assert await state_of(kafka, group) == "CompletingRebalance"
    assert error_of(kafka.at_once(await member.heartbeat())) is Err.NONE
    await kafka.move()
    assert await state_of(kafka, group, broker=2) == kafka.pick(old="Dead", new="Empty")


@cell()
async def test_a_rebalance_goes_through(kafka: Stuck) -> None:
    """A join alone writes nothing."""
    [member] = await stable(kafka, kafka.name("through"))
    await kafka.freeze()
    newcomer = await newcomer_of(kafka, member.group)
    parked = newcomer.start_join()
    await preparing(kafka, member.group)
    member.took(kafka.at_once(await member.start_join().answer()))
    newcomer.took(await parked.answer())
    assert newcomer.generation == member.generation == 2
    for one in (member, newcomer):
        assert error_of(kafka.at_once(await one.heartbeat())) is Err.NONE

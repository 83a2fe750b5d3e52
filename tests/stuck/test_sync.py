"""SyncGroup while the offsets partition is stuck: the group never gets Stable."""

from __future__ import annotations

from kafka_wire.errors import Err
from tests.stuck.cells import cell
from tests.stuck.members import commit, error_of, members_of, rebalance, stable, state_of
from tests.stuck.target import Asked, Stuck


def sync_error(kafka: Stuck) -> Err:
    """Return the expected error code of the leader's SyncGroup, and of those that wait for it."""
    return Err(
        kafka.pick3(
            old_a=Err.REBALANCE_IN_PROGRESS, old_b=Err.COORDINATOR_NOT_AVAILABLE, new=Err.COORDINATOR_NOT_AVAILABLE
        )
    )


@cell()
async def test_the_leaders_sync_fails_and_so_does_its_followers(kafka: Stuck) -> None:
    """Everybody waits for the leader's record; then the group rebalances, and it goes round and round."""
    members = await stable(kafka, kafka.name("sync"), 2)
    leader, follower = members
    await kafka.freeze()
    await rebalance(kafka, members)
    for behind in (False, True):
        parked = follower.start_sync()
        await kafka.sleep(200)
        asked = leader.start_sync({leader.id: b"one", follower.id: b"two"})
        if kafka.pick3(old_a=True, old_b=False, new=True):
            await kafka.sleep(100)
            assert await state_of(kafka, leader.group) == "CompletingRebalance"
        answer = kafka.due(await asked.answer(), old_a=True, old_b=False, new=True)
        theirs = await parked.answer()
        if behind and not kafka.old:
            kafka.late(theirs)  # it came behind the first round's record: that alone ends its patience
        else:
            kafka.together(answer, theirs)
        for one in (answer, theirs):
            assert error_of(one) is sync_error(kafka)
            assert one.response.assignment == b""
            assert (one.response.protocol_type, one.response.protocol_name) == (None, None)
        assert await state_of(kafka, leader.group) == "PreparingRebalance"
        generation = leader.generation
        joins = [member.start_join() for member in members]
        for member, join in zip(members, joins, strict=True):
            member.took(kafka.at_once(await join.answer()))
            assert member.generation == generation + 1
    await kafka.heal()
    assert await state_of(kafka, leader.group) == "CompletingRebalance"
    await kafka.move()
    # the record of a sync that failed is in the log, but for phase B of 3.4, where the one from before the freeze is
    assert await state_of(kafka, leader.group, broker=2) == "Stable"
    assert await members_of(kafka, leader.group, broker=2) == {leader.id, follower.id}


@cell()
async def test_a_follower_that_syncs_after_the_leaders_failure(kafka: Stuck) -> None:
    """The group has gone back to PreparingRebalance by then."""
    members = await stable(kafka, kafka.name("after"), 2)
    leader, follower = members
    await kafka.freeze()
    await rebalance(kafka, members)
    answer = await leader.start_sync({leader.id: b"one", follower.id: b"two"}).answer()
    assert error_of(kafka.due(answer, old_a=True, old_b=False, new=True)) is sync_error(kafka)
    assert error_of(kafka.at_once(await follower.start_sync().answer())) is Err.REBALANCE_IN_PROGRESS


@cell()
async def test_a_follower_waits_for_a_leader_that_does_not_sync(kafka: Stuck) -> None:
    """4.1 cuts it where something was uncommitted when it came; the group stays as it is. 3.4 lets it wait."""
    members = await stable(kafka, kafka.name("waits"), 2)
    leader, follower = members
    await kafka.freeze()
    await rebalance(kafka, members)
    kafka.start(*commit(kafka.name("behind"), 1))
    await kafka.sleep(100)
    parked = follower.start_sync()
    if kafka.old:
        await kafka.sleep(kafka.timeout_ms + 300)
        assert not parked.answered
    else:
        answer = kafka.late(await parked.answer())
        assert error_of(answer) is Err.COORDINATOR_NOT_AVAILABLE
        assert answer.response.assignment == b""
        await kafka.sleep(300)
    assert await state_of(kafka, leader.group) == "CompletingRebalance"


@cell(phases=("A",))
async def test_a_follower_parked_before_anything_is_uncommitted_waits_on(kafka: Stuck) -> None:
    """Only what was uncommitted when it came counts for 4.1."""
    members = await stable(kafka, kafka.name("parked"), 2)
    await kafka.freeze()
    await rebalance(kafka, members)
    parked = members[1].start_sync()
    await kafka.sleep(100)
    kafka.start(*commit(kafka.name("later"), 1))
    await kafka.sleep(kafka.timeout_ms + 500)
    assert not parked.answered


@cell()
async def test_a_stable_groups_sync_waits_for_nothing(kafka: Stuck) -> None:
    """The assignment is known; a wrong generation is told as well."""
    [member] = await stable(kafka, kafka.name("stable"))
    await kafka.freeze()
    kafka.start(*commit(kafka.name("behind"), 1))
    await kafka.sleep(100)
    answer = kafka.at_once(await member.start_sync().answer())
    assert (error_of(answer), answer.response.assignment) == (Err.NONE, b"m1")
    member.generation = 77
    assert error_of(kafka.at_once(await member.start_sync().answer())) is Err.ILLEGAL_GENERATION


@cell(phases=("A",))
async def test_syncs_in_flight_when_the_isr_shrinks(kafka: Stuck) -> None:
    """3.4 tells leader and follower at that instant; the record is in the log."""
    groups = [await stable(kafka, kafka.name(f"shrinks-{number}"), 2) for number in range(12)]
    await kafka.freeze(shrinks=True)
    for members in groups:
        await rebalance(kafka, members)
    asked: list[Asked] = []
    used: list[str] = []
    async for _ in kafka.shrinking(300):
        leader, follower = groups[len(used)]
        used.append(leader.group)
        asked += [follower.start_sync(), leader.start_sync({leader.id: b"one", follower.id: b"two"})]
    answers = [await one.answer() for one in asked]
    if kafka.old:
        cut = [answer for answer in answers if error_of(answer) is not Err.REBALANCE_IN_PROGRESS]
        assert len(cut) >= 6
        assert {error_of(answer) for answer in cut} == {Err.COORDINATOR_NOT_AVAILABLE}
        kafka.together(*cut)
    else:
        assert {error_of(kafka.late(answer)) for answer in answers} == {Err.COORDINATOR_NOT_AVAILABLE}
    assert [await state_of(kafka, group) for group in used] == ["PreparingRebalance"] * len(used)
    await kafka.heal()
    await kafka.move()
    assert [await state_of(kafka, group, broker=2) for group in used] == ["Stable"] * len(used)

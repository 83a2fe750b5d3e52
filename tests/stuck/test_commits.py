"""OffsetCommit while the offsets partition is stuck, and which offset is served in the end."""

from __future__ import annotations

from kafka_wire.errors import Err
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.stuck.cells import cell
from tests.stuck.members import commit, error_of, fetched, listed, rebalance, stable, state_of
from tests.stuck.target import OFFSETS_TOPIC, Asked, Stuck


def commit_error(kafka: Stuck) -> Err:
    """Return the expected error code of a commit."""
    return Err(
        kafka.pick3(old_a=Err.REQUEST_TIMED_OUT, old_b=Err.COORDINATOR_NOT_AVAILABLE, new=Err.COORDINATOR_NOT_AVAILABLE)
    )


@cell()
async def test_a_commit_of_a_simple_group(kafka: Stuck) -> None:
    """3.4 forgets a commit that timed out although its record is in the log, and refuses it before the log once the ISR is
    too small; 4.1 never takes back what it appended."""
    group = kafka.name("simple")
    await kafka.ask(*commit(group, 1))
    await kafka.freeze()
    answer = kafka.due(await kafka.ask(*commit(group, 2)), old_a=True, old_b=False, new=True)
    assert error_of(answer) is commit_error(kafka)
    assert await fetched(kafka, group) == 1
    await kafka.heal()
    assert await fetched(kafka, group) == kafka.pick(old=1, new=2)
    await kafka.move()
    assert await fetched(kafka, group, broker=2) == kafka.pick3(old_a=2, old_b=1, new=2)


@cell()
async def test_commits_of_a_member_each_have_their_own_time(kafka: Stuck) -> None:
    """The last one that is in the log counts after recovery (4.1) or after the next load (3.4)."""
    [member] = await stable(kafka, kafka.name("member"))
    await member.start_commit(1).answer()
    await kafka.freeze()
    first = member.start_commit(2)
    await kafka.sleep(200)
    second = member.start_commit(3)
    for asked in (first, second):
        answer = kafka.due(await asked.answer(), old_a=True, old_b=False, new=True)
        assert error_of(answer) is commit_error(kafka)
    assert await fetched(kafka, member.group) == 1
    await kafka.heal()
    assert await fetched(kafka, member.group) == kafka.pick(old=1, new=3)
    await kafka.move()
    assert await fetched(kafka, member.group, broker=2) == kafka.pick3(old_a=3, old_b=1, new=3)


@cell()
async def test_a_commit_that_makes_its_group(kafka: Stuck) -> None:
    """3.4 shows the group at once and keeps it, empty; 4.1 shows it when the log has it."""
    group = kafka.name("made")
    await kafka.freeze()
    asked = kafka.start(*commit(group, 7))
    await kafka.sleep(100)
    for _ in range(2):
        assert await state_of(kafka, group) == kafka.pick(old="Empty", new="Dead")
        assert await listed(kafka, group) == kafka.pick(old={group: "Empty"}, new={})
        assert await fetched(kafka, group) == -1
        assert error_of(await asked.answer()) is commit_error(kafka)
    await kafka.heal()
    assert await state_of(kafka, group) == "Empty"
    assert await fetched(kafka, group) == kafka.pick(old=-1, new=7)
    await kafka.move()
    assert await fetched(kafka, group, broker=2) == kafka.pick3(old_a=7, old_b=-1, new=7)
    assert await state_of(kafka, group, broker=2) == kafka.pick3(old_a="Empty", old_b="Dead", new="Empty")


@cell()
async def test_refused_commits_do_not_wait(kafka: Stuck) -> None:
    """An error that needs no record is told at once, whatever is uncommitted."""
    members = await stable(kafka, kafka.name("refused"), 2)
    await kafka.freeze()
    kafka.start(*commit(kafka.name("behind"), 1))
    await kafka.sleep(100)
    leader, follower = members
    wrong = await follower.start_commit(1, generation_id_or_member_epoch=77).answer()
    assert error_of(kafka.at_once(wrong)) is Err.ILLEGAL_GENERATION
    assert error_of(kafka.at_once(await follower.start_commit(1, member_id="nobody").answer())) is Err.UNKNOWN_MEMBER_ID
    assert error_of(kafka.at_once(await kafka.ask(*commit(leader.group, 1)))) is Err.UNKNOWN_MEMBER_ID
    await rebalance(kafka, members)
    assert error_of(kafka.at_once(await follower.start_commit(1).answer())) is Err.REBALANCE_IN_PROGRESS


@cell(phases=("A",))
async def test_commits_in_flight_when_the_isr_shrinks(kafka: Stuck) -> None:
    """3.4 moves the high watermark on without the follower and tells those who waited that replicas are missing; their
    records are in the log, of which the next load tells. For 4.1 nothing changes."""
    group = kafka.name("before")
    await kafka.freeze(shrinks=True)
    groups: list[str] = []
    asked: list[Asked] = []
    async for _ in kafka.shrinking(300):
        groups.append(kafka.name(f"flight-{len(groups)}"))
        asked.append(kafka.start(*commit(groups[-1], 5)))
    late = await kafka.ask(*commit(group, 6))
    assert error_of(late) is Err.COORDINATOR_NOT_AVAILABLE
    answers = dict(zip(groups, [await one.answer() for one in asked], strict=True))
    if kafka.old:
        kafka.at_once(late)
        answers = {one: answer for one, answer in answers.items() if answer.took_ms > 100}  # not after the shrink
        cut = [answer for answer in answers.values() if error_of(answer) is not Err.REQUEST_TIMED_OUT]
        assert len(cut) >= 3
        assert {error_of(answer) for answer in cut} == {Err.COORDINATOR_NOT_AVAILABLE}
        kafka.together(*cut)
    else:
        assert {error_of(kafka.late(answer)) for answer in answers.values()} == {Err.COORDINATOR_NOT_AVAILABLE}
        kafka.late(late)
    await kafka.heal()
    assert {await fetched(kafka, one) for one in answers} == {kafka.pick(old=-1, new=5)}
    await kafka.move()
    assert {await fetched(kafka, one, broker=2) for one in answers} == {5}
    found = await fetched(kafka, group, broker=2)
    if kafka.old and late.took_ms > 5:
        assert found in (-1, 6)  # it came in the very moment of the shrink, and may be one of those in flight
    else:
        assert found == kafka.pick(old=-1, new=6)


@cell(phases=("A",))
async def test_the_high_watermark(kafka: Stuck) -> None:
    """The high watermark does not advance; 3.4 advances it when the ISR shrinks below min.insync.replicas, 4.1 does not."""
    group = kafka.name("watermark")
    await kafka.ask(*commit(group, 1))
    before = await high_watermark(kafka)
    await kafka.freeze(shrinks=True)
    kafka.start(*commit(group, 2))
    await kafka.sleep(100)
    assert await high_watermark(kafka) == before
    async for _ in kafka.shrinking(300):
        pass
    await kafka.sleep(200)
    assert await high_watermark(kafka) == before + kafka.pick(old=1, new=0)
    await kafka.heal()
    assert await high_watermark(kafka) == before + 1


async def high_watermark(kafka: Stuck) -> int:
    rows = [ListOffsetsTopic(OFFSETS_TOPIC, [ListOffsetsPartition(kafka.partitions[0], timestamp=-1)])]
    answer = kafka.at_once(await kafka.ask(ListOffsetsRequest(-1, topics=rows), 5))
    assert error_of(answer) is Err.NONE
    offset: int = answer.response.topics[0].partitions[0].offset
    return offset

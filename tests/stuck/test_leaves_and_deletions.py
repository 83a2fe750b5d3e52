"""LeaveGroup, DeleteGroups and OffsetDelete while the offsets partition is stuck."""

from __future__ import annotations

from kafka_wire.errors import Err
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from tests.stuck.cells import cell
from tests.stuck.members import (
    commit,
    delete_group,
    delete_offset,
    error_of,
    fetched,
    members_of,
    stable,
    state_of,
)
from tests.stuck.target import Answer, Stuck


def check_done(kafka: Stuck, answer: Answer) -> None:
    """NONE in 3.4; in 4.1 the record is awaited in vain."""
    kafka.due(answer, old_a=False, old_b=False, new=True)
    assert error_of(answer) is kafka.pick(old=Err.NONE, new=Err.COORDINATOR_NOT_AVAILABLE)


@cell()
async def test_the_last_member_leaves(kafka: Stuck) -> None:
    """The member is gone at once, whatever the response; in phase B of 3.4 the record of that is lost."""
    [member] = await stable(kafka, kafka.name("last"))
    await kafka.freeze()
    asked = member.start_leave()
    await kafka.sleep(100)
    assert await state_of(kafka, member.group) == "Empty"
    assert error_of(kafka.at_once(await member.heartbeat())) is Err.UNKNOWN_MEMBER_ID
    check_done(kafka, await asked.answer())
    await kafka.heal()
    assert await state_of(kafka, member.group) == "Empty"
    await kafka.move()
    assert await state_of(kafka, member.group, broker=2) == kafka.pick3(old_a="Empty", old_b="Stable", new="Empty")


@cell()
async def test_one_of_two_leaves(kafka: Stuck) -> None:
    """A leave writes no record: only records that others have written delay it, and a load does not show it."""
    members = await stable(kafka, kafka.name("one"), 2)
    behind = await stable(kafka, kafka.name("behind"), 2)
    await kafka.freeze()
    left = kafka.at_once(await members[1].start_leave().answer())
    assert error_of(left) is Err.NONE
    assert await members_of(kafka, members[0].group) == {members[0].id}
    assert error_of(kafka.at_once(await members[0].heartbeat())) is Err.REBALANCE_IN_PROGRESS
    kafka.start(*commit(kafka.name("writer"), 1))
    await kafka.sleep(100)
    asked = behind[1].start_leave()
    await kafka.sleep(100)
    assert await members_of(kafka, behind[0].group) == {behind[0].id}
    check_done(kafka, await asked.answer())
    await kafka.heal()
    for leader, leaver in (members, behind):
        assert await state_of(kafka, leader.group) == "PreparingRebalance"
        assert await members_of(kafka, leader.group) == {leader.id}
        assert error_of(kafka.at_once(await leaver.heartbeat())) is Err.UNKNOWN_MEMBER_ID
    await kafka.move()
    assert await state_of(kafka, members[0].group, broker=2) == "Stable"
    assert await members_of(kafka, members[0].group, broker=2) == {member.id for member in members}


@cell()
async def test_nobody_leaves(kafka: Stuck) -> None:
    """4.1 looks up an unknown member of an existing group behind uncommitted records; a group that does not exist is known at once."""
    [member] = await stable(kafka, kafka.name("there"))
    await kafka.freeze()
    kafka.start(*commit(kafka.name("writer"), 1))
    await kafka.sleep(100)
    stranger = [MemberIdentity("nobody", None)]
    answer = await kafka.ask(LeaveGroupRequest(member.group, "", stranger), 5)
    check_done(kafka, answer)
    if kafka.old:
        assert [one.error_code for one in answer.response.members] == [Err.UNKNOWN_MEMBER_ID]
    absent = kafka.at_once(await kafka.ask(LeaveGroupRequest(kafka.name("absent"), "", stranger), 5))
    assert error_of(absent) is Err.NONE
    assert [one.error_code for one in absent.response.members] == [Err.UNKNOWN_MEMBER_ID]


async def left_group(kafka: Stuck) -> str:
    """A group of the other partition with an offset, that its only member has left."""
    [member] = await stable(kafka, kafka.name("left", other=True))
    await member.start_commit(3).answer()
    await member.start_leave().answer()
    return member.group


@cell(partitions=2)
async def test_a_group_is_deleted(kafka: Stuck) -> None:
    """3.4 writes without waiting, with acks=0, which min.insync.replicas does not stop; in 4.1 the group is there until
    the tombstones are committed, and then it is gone although the client was told otherwise."""
    simple, left = kafka.name("simple"), await left_group(kafka)
    await kafka.ask(*commit(simple, 1))
    await kafka.freeze()
    asked = [kafka.start(*delete_group(group)) for group in (simple, left)]
    await kafka.sleep(200)
    for moment in ("pending", "answered"):
        assert await state_of(kafka, simple) == kafka.pick(old="Dead", new="Empty"), moment
        assert await fetched(kafka, simple) == kafka.pick(old=-1, new=1), moment
        for one in asked:
            check_done(kafka, await one.answer())
    await kafka.heal()
    for broker in (1, 2):
        for group in (simple, left):
            assert await state_of(kafka, group, broker=broker) == "Dead"
            assert await fetched(kafka, group, broker=broker) == -1
        if broker == 1:
            assert error_of(await kafka.ask(*delete_group(simple))) is Err.GROUP_ID_NOT_FOUND
            await kafka.move()


@cell()
async def test_a_group_is_deleted_behind_an_uncommitted_write(kafka: Stuck) -> None:
    """4.1 waits for what is uncommitted before it deletes anything, and does not when that takes too long."""
    group, absent = kafka.name("group"), kafka.name("absent")
    await kafka.ask(*commit(group, 1))
    await kafka.freeze()
    kafka.start(*commit(kafka.name("writer"), 1))
    await kafka.sleep(100)
    asked = [kafka.start(*delete_group(one)) for one in (group, absent)]
    check_done(kafka, await asked[0].answer())
    other = kafka.due(await asked[1].answer(), old_a=False, old_b=False, new=True)
    assert error_of(other) is kafka.pick(old=Err.GROUP_ID_NOT_FOUND, new=Err.COORDINATOR_NOT_AVAILABLE)
    await kafka.heal()
    assert await state_of(kafka, group) == kafka.pick(old="Dead", new="Empty")
    assert await fetched(kafka, group) == kafka.pick(old=-1, new=1)


@cell()
async def test_deletions_that_are_refused(kafka: Stuck) -> None:
    """Refusals are immediate while nothing is uncommitted; OffsetDelete's of a group that does not exist, in any case."""
    [member] = await stable(kafka, kafka.name("live"))
    absent = kafka.name("absent")
    await kafka.freeze()
    assert error_of(kafka.at_once(await kafka.ask(*delete_group(member.group)))) is Err.NON_EMPTY_GROUP
    assert error_of(kafka.at_once(await kafka.ask(*delete_group(absent)))) is Err.GROUP_ID_NOT_FOUND
    assert error_of(kafka.at_once(await kafka.ask(*delete_offset(member.group)))) is Err.GROUP_SUBSCRIBED_TO_TOPIC
    assert error_of(kafka.at_once(await kafka.ask(*delete_offset(absent)))) is Err.GROUP_ID_NOT_FOUND
    kafka.start(*commit(kafka.name("writer"), 1))
    await kafka.sleep(100)
    asked = [kafka.start(*request) for request in (delete_group(member.group), delete_offset(member.group))]
    expected = kafka.pick(
        old=[Err.NON_EMPTY_GROUP, Err.GROUP_SUBSCRIBED_TO_TOPIC], new=[Err.COORDINATOR_NOT_AVAILABLE] * 2
    )
    answers = [kafka.due(await one.answer(), old_a=False, old_b=False, new=True) for one in asked]
    assert [error_of(answer) for answer in answers] == expected
    assert error_of(kafka.at_once(await kafka.ask(*delete_offset(absent)))) is Err.GROUP_ID_NOT_FOUND


@cell()
async def test_an_offset_is_deleted(kafka: Stuck) -> None:
    """3.4 drops a simple group with its last offset; 4.1 keeps the group, and shows the offset until the tombstone is
    committed."""
    group = kafka.name("offset")
    await kafka.ask(*commit(group, 1))
    await kafka.freeze()
    asked = kafka.start(*delete_offset(group))
    await kafka.sleep(100)
    for _ in range(2):
        assert await fetched(kafka, group) == kafka.pick(old=-1, new=1)
        assert await state_of(kafka, group) == kafka.pick(old="Dead", new="Empty")
        check_done(kafka, await asked.answer())
    await kafka.heal()
    for broker in (1, 2):
        assert await fetched(kafka, group, broker=broker) == -1
        assert await state_of(kafka, group, broker=broker) == kafka.pick(old="Dead", new="Empty")
        if broker == 1:
            await kafka.move()


@cell()
async def test_a_deletion_and_then_a_commit(kafka: Stuck) -> None:
    """In 4.1 the group comes to life again with what was committed last."""
    group = kafka.name("again")
    await kafka.ask(*commit(group, 1))
    await kafka.freeze()
    deleted = kafka.start(*delete_group(group))
    await kafka.sleep(200)
    committed = kafka.start(*commit(group, 9))
    check_done(kafka, await deleted.answer())
    kafka.due(await committed.answer(), old_a=True, old_b=False, new=True)
    await kafka.heal()
    assert await state_of(kafka, group) == "Empty"
    assert await fetched(kafka, group) == kafka.pick(old=-1, new=9)

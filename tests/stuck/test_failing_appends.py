"""Errors that a client gets when an append fails, and changes that the coordinator takes back (its policy's tables).

Real brokers fail every append once max.message.bytes of the offsets topic is tiny; the other errors of the log are the
simulator's alone. 4.1 takes back what only the records say - offsets, whether a group is there - and nothing of what a
classic group's members have done to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from broker_sim.faults.conditions import KINDS
from broker_sim.storage.errors import StorageError
from kafka_wire.errors import Err
from tests.stuck.cells import cell
from tests.stuck.members import (
    Member,
    commit,
    delete_group,
    delete_offset,
    error_of,
    fetched,
    members_of,
    stable,
    state_of,
)
from tests.stuck.simulated import SimStuck
from tests.stuck.target import INITIAL_DELAY_MS, Stuck


@cell(phases=("A",))
async def test_a_commit_is_too_large(kafka: Stuck) -> None:
    """Nothing is committed; a group that it would have made is there in 3.4 alone."""
    group, made = kafka.name("commit"), kafka.name("made")
    await kafka.ask(*commit(group, 1))
    await kafka.choke()
    for one in (group, made):
        answer = kafka.at_once(await kafka.ask(*commit(one, 2)))
        assert error_of(answer) is kafka.pick(old=Err.INVALID_COMMIT_OFFSET_SIZE, new=Err.UNKNOWN_SERVER_ERROR)
    await kafka.heal()
    assert await fetched(kafka, group) == 1
    assert await state_of(kafka, made) == kafka.pick(old="Empty", new="Dead")
    assert error_of(kafka.at_once(await kafka.ask(*commit(group, 3)))) is Err.NONE
    assert await fetched(kafka, group) == 3


@cell(phases=("A",))
async def test_an_assignment_is_too_large(kafka: Stuck) -> None:
    """The group rebalances; the next load knows the last assignment that was written."""
    [member] = await stable(kafka, kafka.name("sync"))
    await kafka.choke()
    member.took(await member.start_join().answer())
    answer = kafka.at_once(await member.start_sync({member.id: b"new"}).answer())
    assert (error_of(answer), answer.response.assignment) == (Err.UNKNOWN_SERVER_ERROR, b"")
    assert await state_of(kafka, member.group) == "PreparingRebalance"
    assert error_of(kafka.at_once(await member.heartbeat())) is Err.REBALANCE_IN_PROGRESS
    await kafka.heal()
    await kafka.move()
    assert await state_of(kafka, member.group, broker=2) == "Stable"


@cell(phases=("A",))
async def test_a_leave_is_too_large(kafka: Stuck) -> None:
    """The last member is gone, whatever it is told, until the next load; one of two needs no record."""
    [last] = await stable(kafka, kafka.name("last"))
    members = await stable(kafka, kafka.name("one"), 2)
    await kafka.choke()
    answer = kafka.at_once(await last.start_leave().answer())
    assert error_of(answer) is kafka.pick(old=Err.NONE, new=Err.UNKNOWN_SERVER_ERROR)
    assert await state_of(kafka, last.group) == "Empty"
    assert error_of(kafka.at_once(await last.heartbeat())) is Err.UNKNOWN_MEMBER_ID
    assert error_of(kafka.at_once(await members[1].start_leave().answer())) is Err.NONE
    assert await state_of(kafka, members[0].group) == "PreparingRebalance"
    await kafka.heal()
    assert await state_of(kafka, last.group) == "Empty"
    await kafka.move()
    assert await members_of(kafka, last.group, broker=2) == {last.id}
    assert await members_of(kafka, members[0].group, broker=2) == {member.id for member in members}


@cell(phases=("A",))
async def test_the_end_of_a_session_is_too_large(kafka: Stuck) -> None:
    """A timer has nobody to tell: the group is Empty until the next load."""
    [member] = await stable(kafka, kafka.name("session"))
    await kafka.choke()
    member.session_ms = 500
    member.took(await member.start_join().answer())
    await kafka.sleep(1000)
    assert await state_of(kafka, member.group) == "Empty"
    await kafka.heal()
    assert error_of(kafka.at_once(await member.heartbeat())) is Err.UNKNOWN_MEMBER_ID
    await kafka.move()
    assert await state_of(kafka, member.group, broker=2) == "Stable"


@cell(phases=("A",))
async def test_a_deletion_is_too_large(kafka: Stuck) -> None:
    """3.4 looks at no tombstone's fate: what it has dropped comes back with the next load. 4.1 keeps all."""
    group, offset = kafka.name("group"), kafka.name("offset")
    for one in (group, offset):
        await kafka.ask(*commit(one, 1))
    await kafka.choke()
    for request in (delete_group(group), delete_offset(offset)):
        answer = kafka.at_once(await kafka.ask(*request))
        assert error_of(answer) is kafka.pick(old=Err.NONE, new=Err.UNKNOWN_SERVER_ERROR)
    await kafka.heal()
    for one in (group, offset):
        assert await fetched(kafka, one) == kafka.pick(old=-1, new=1)
        assert await state_of(kafka, one) == kafka.pick(old="Dead", new="Empty")
    await kafka.move()
    for one in (group, offset):
        assert await fetched(kafka, one, broker=2) == 1
        assert await state_of(kafka, one, broker=2) == "Empty"


@cell(phases=("A",))
async def test_a_new_groups_record_is_too_large(kafka: Stuck) -> None:
    """4.1 writes one at the first join: the member id it gives out is worth nothing afterwards, and a static member hears
    of it. 3.4 has nothing to write before the assignment."""
    await kafka.choke()
    member = Member(kafka, kafka.name("dynamic"), "dynamic")
    answer = kafka.at_once(await member.start_join().answer())
    assert error_of(answer) is Err.MEMBER_ID_REQUIRED
    member.id = answer.response.member_id
    await kafka.sleep(100)  # 4.1 writes after group.coordinator.append.linger.ms
    static = Member(kafka, kafka.name("static"), "static", instance="one")
    joins = [one.took(await one.start_join().answer()) for one in (member, static)]
    if kafka.old:
        assert [error_of(kafka.after(INITIAL_DELAY_MS, join)) for join in joins] == [Err.NONE] * 2
        synced = kafka.at_once(await member.start_sync({member.id: b"m"}).answer())
        assert error_of(synced) is Err.UNKNOWN_SERVER_ERROR
    else:
        assert [error_of(kafka.at_once(join)) for join in joins] == [Err.UNKNOWN_MEMBER_ID, Err.UNKNOWN_SERVER_ERROR]
        response = joins[1].response
        assert (response.generation_id, response.member_id, response.leader) == (-1, "", "")
    await kafka.heal()
    seen = [await state_of(kafka, one.group) for one in (member, static)]
    assert seen == kafka.pick(old=["PreparingRebalance", "CompletingRebalance"], new=["Dead", "Dead"])
    await kafka.move()
    assert [await state_of(kafka, one.group, broker=2) for one in (member, static)] == ["Dead", "Dead"]


# ------------------------------------------------------------------------------------------------ every error of the log

_COORDINATOR_GONE = (Err.NOT_LEADER_OR_FOLLOWER, Err.KAFKA_STORAGE_ERROR)
_COORDINATOR_AWAY = (Err.UNKNOWN_TOPIC_OR_PARTITION, Err.NOT_ENOUGH_REPLICAS)
_TOO_LARGE = (Err.MESSAGE_TOO_LARGE, Err.RECORD_LIST_TOO_LARGE, Err.INVALID_FETCH_SIZE)
_THEMSELVES = (Err.CORRUPT_MESSAGE, Err.INVALID_RECORD, Err.FENCED_LEADER_EPOCH, Err.UNKNOWN_SERVER_ERROR)
# error of the log: what 3.4's OffsetCommit, 3.4's SyncGroup and static JoinGroup, and all of 4.1 say
MAPPING: dict[Err, tuple[Err, Err, Err]] = {
    **dict.fromkeys(_COORDINATOR_GONE, (Err.NOT_COORDINATOR,) * 3),
    **dict.fromkeys(_COORDINATOR_AWAY, (Err.COORDINATOR_NOT_AVAILABLE,) * 3),
    **dict.fromkeys(_TOO_LARGE, (Err.INVALID_COMMIT_OFFSET_SIZE, Err.UNKNOWN_SERVER_ERROR, Err.UNKNOWN_SERVER_ERROR)),
    **{error: (error,) * 3 for error in _THEMSELVES},
    Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        Err.COORDINATOR_NOT_AVAILABLE,
        Err.COORDINATOR_NOT_AVAILABLE,
        Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ),
    Err.REQUEST_TIMED_OUT: (Err.REQUEST_TIMED_OUT, Err.REBALANCE_IN_PROGRESS, Err.COORDINATOR_NOT_AVAILABLE),
}


class _Failing(StorageError):
    """An append that fails with the error of one's choice."""

    def __init__(self, error: Err) -> None:
        super().__init__(error.name)
        self.error = error  # type: ignore[misc]


class _Gate:
    """Lets nothing into a log."""

    def __init__(self, error: Err) -> None:
        self._error = error

    def before(self, size: int) -> None:
        raise _Failing(self._error)

    def after(self, end: int) -> None:
        """Nothing gets so far."""


@pytest.mark.parametrize("version", ["3.4", "4.1"])
@pytest.mark.parametrize("error", MAPPING, ids=lambda error: error.name)
def test_every_error_of_the_log_has_its_answer(error: Err, version: str) -> None:
    """And all is as before: offset, member and group."""
    kafka = SimStuck(version, "A")

    def fail() -> None:
        for partition in kafka.logs:
            partition.append_interceptor = _Gate(error)

    asyncio.run(_check_mapping(kafka, error, fail))


@pytest.mark.parametrize("version", ["3.4", "4.1"])
@pytest.mark.parametrize("state", [kind.name for kind in KINDS.values() if kind.append_error is not Err.NONE])
def test_every_state_of_a_log_that_refuses_appends_has_its_answer(state: str, version: str) -> None:
    """As the error that it makes of an append."""
    kafka = SimStuck(version, "A")

    def fail() -> None:
        for partition in kafka.logs:
            kafka.conditions.set(partition, state)

    asyncio.run(_check_mapping(kafka, KINDS[state].append_error, fail))


async def _check_mapping(kafka: SimStuck, error: Err, fail: Callable[[], None]) -> None:
    of_commit, of_group, of_new = MAPPING[error]
    group = kafka.name("commit")
    await kafka.ask(*commit(group, 1))
    [member] = await stable(kafka, kafka.name("sync"))
    [static] = await stable(kafka, kafka.name("static"), instance="i")
    member.took(await member.start_join().answer())
    fail()
    committed = kafka.at_once(await kafka.ask(*commit(group, 2)))
    assert error_of(committed) is kafka.pick(old=of_commit, new=of_new)
    synced = kafka.at_once(await member.start_sync({member.id: b"m"}).answer())
    assert error_of(synced) is kafka.pick(old=of_group, new=of_new)
    restarted = Member(kafka, static.group, "restarted", instance="i-m1")
    joined = kafka.at_once(await restarted.start_join().answer())
    assert error_of(joined) is kafka.pick(old=of_group, new=of_new)
    assert await fetched(kafka, group) == 1
    assert await state_of(kafka, member.group) == "PreparingRebalance"
    assert await members_of(kafka, static.group) == {static.id}

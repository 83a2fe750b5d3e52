"""Reads while an offsets partition is stuck: coordinators, existing groups, committed offsets."""

from __future__ import annotations

from kafka_wire.errors import Err
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.stuck.cells import cell
from tests.stuck.members import commit, error_of, fetch, fetched, listed, offset_of, state_of
from tests.stuck.target import Stuck


@cell()
async def test_reads_wait_for_nothing(kafka: Stuck) -> None:
    """FindCoordinator, ListGroups, DescribeGroups and OffsetFetch know nothing of the log's trouble."""
    group = kafka.name("read")
    await kafka.ask(*commit(group, 1))
    await kafka.freeze()
    kafka.start(*commit(group, 2))
    await kafka.sleep(100)
    found = kafka.at_once(await kafka.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4))
    assert error_of(found) is Err.NONE
    assert found.response.coordinators[0].node_id == 1
    assert await state_of(kafka, group) == "Empty"
    assert await listed(kafka, group) == {group: "Empty"}
    assert await fetched(kafka, group) == 1


@cell()
async def test_a_stable_fetch_while_a_commit_is_pending(kafka: Stuck) -> None:
    """3.4 tells of the pending commit, of its own group alone; 4.1 waits for what is uncommitted in the partition, whoever
    asks, and gives up with NOT_COORDINATOR."""
    group, neighbour, nobody = kafka.name("mine"), kafka.name("neighbour"), kafka.name("nobody")
    for one in (group, neighbour):
        await kafka.ask(*commit(one, 1))
    await kafka.freeze()
    pending = kafka.start(*commit(group, 2))
    await kafka.sleep(100)
    asked = [kafka.start(*fetch(one, stable=True)) for one in (group, neighbour, nobody)]
    answers = [kafka.due(await one.answer(), old_a=False, old_b=False, new=True) for one in asked]
    if kafka.old:
        mine = kafka.pick3(old_a=Err.UNSTABLE_OFFSET_COMMIT, old_b=Err.NONE, new=None)
        assert error_of(answers[0]) is mine
        assert [offset_of(answer) for answer in answers[1:]] == [1, -1]
    else:
        assert [error_of(answer) for answer in answers] == [Err.NOT_COORDINATOR] * 3
        assert all(answer.response.groups[0].topics == [] for answer in answers)
    await pending.answer()
    again = kafka.due(await kafka.ask(*fetch(group, stable=True)), old_a=False, old_b=False, new=True)
    assert error_of(again) is kafka.pick(old=Err.NONE, new=Err.NOT_COORDINATOR)
    await kafka.heal()
    assert offset_of(kafka.at_once(await kafka.ask(*fetch(group, stable=True)))) == kafka.pick(old=1, new=2)


@cell()
async def test_a_stable_fetch_while_nothing_is_uncommitted(kafka: Stuck) -> None:
    """The partition is frozen, but nobody has written to it since."""
    group = kafka.name("clean")
    await kafka.ask(*commit(group, 1))
    await kafka.freeze()
    assert offset_of(kafka.at_once(await kafka.ask(*fetch(group, stable=True)))) == 1

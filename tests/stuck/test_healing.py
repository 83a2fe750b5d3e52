"""Requests that wait when the offsets partition heals, or when its leadership goes to the follower that is behind."""

from __future__ import annotations

from kafka_wire.errors import Err
from tests.stuck.cells import cell
from tests.stuck.members import (
    Member,
    commit,
    delete_group,
    error_of,
    fetch,
    fetched,
    members_of,
    offset_of,
    rebalance,
    stable,
    state_of,
)
from tests.stuck.target import Asked, Stuck


@cell(phases=("A",))
async def test_what_waits_is_answered_when_the_follower_goes_on(kafka: Stuck) -> None:
    """As if nothing had been. A parked join goes on waiting for the other members."""
    [member] = await stable(kafka, kafka.name("member"))
    pair = await stable(kafka, kafka.name("pair"), 2)
    [leaver] = await stable(kafka, kafka.name("leaver"))
    [static] = await stable(kafka, kafka.name("static"), instance="i")
    deleted = kafka.name("deleted")
    await kafka.ask(*commit(deleted, 1))
    await kafka.freeze(briefly=True)
    await rebalance(kafka, pair)
    restarted = Member(kafka, static.group, "restarted", instance=static.instance)
    leader, follower = pair
    waiting = {
        "delete": kafka.start(*delete_group(deleted)),
        "commit": member.start_commit(5),
        "restart": restarted.start_join(),
        "follower": follower.start_sync(),
        "leader": leader.start_sync({leader.id: b"one", follower.id: b"two"}),
    }
    await kafka.sleep(100)
    waiting |= {
        "heartbeat": member.start_heartbeat(),
        "stable fetch": kafka.start(*fetch(member.group, stable=True)),
        "leave": leaver.start_leave(),
    }
    await kafka.sleep(100)  # connections have no order among them: the heartbeat comes before the newcomer's rebalance
    newcomer = Member(kafka, member.group, "newcomer")
    newcomer.id = (await newcomer.start_join().answer()).response.member_id
    parked = newcomer.start_join()
    await kafka.sleep(100)
    if kafka.old:
        await waiting["stable fetch"].answer()  # it tells of the commit while that is pending
    else:
        assert [name for name, asked in waiting.items() if asked.answered] == []
    await kafka.heal()
    answers = {name: await asked.answer() for name, asked in waiting.items()}
    errors = {name: error_of(answer) for name, answer in answers.items()}
    unstable = kafka.pick(old=Err.UNSTABLE_OFFSET_COMMIT, new=Err.NONE)
    assert errors == {name: unstable if name == "stable fetch" else Err.NONE for name in waiting}
    assert answers["leader"].response.assignment == b"one"
    assert answers["follower"].response.assignment == b"two"
    assert restarted.took(answers["restart"]).response.member_id == restarted.id != ""
    if not kafka.old:
        assert offset_of(answers["stable fetch"]) == 5
    assert await fetched(kafka, member.group) == 5
    assert await state_of(kafka, leader.group) == "Stable"
    assert await state_of(kafka, deleted) == "Dead"
    assert await state_of(kafka, leaver.group) == "Empty"
    assert await members_of(kafka, static.group) == {restarted.id}
    await kafka.sleep(kafka.timeout_ms)
    assert not parked.answered
    member.took(await member.start_join().answer())
    assert error_of(newcomer.took(await parked.answer())) is Err.NONE


@cell(phases=("A",))
async def test_the_coordinator_moves_while_requests_wait(kafka: Stuck) -> None:
    """Everybody who waits is told; the new leader knows what was replicated, and nothing of what came after."""
    [member] = await stable(kafka, kafka.name("member"))
    await member.start_commit(1).answer()
    pair = await stable(kafka, kafka.name("pair"), 2)
    leader, follower = pair
    [static] = await stable(kafka, kafka.name("static"), instance="i")
    newcomer = Member(kafka, member.group, "newcomer")
    restarted = Member(kafka, static.group, "restarted", instance=static.instance)
    waiting: dict[str, Asked] = {}

    async def send() -> None:
        await rebalance(kafka, pair)
        waiting["lost by chance"] = member.start_commit(2)  # or not: a fetch of the follower may be under way with it
        await kafka.sleep(50)
        newcomer.id = (await newcomer.start_join().answer()).response.member_id
        waiting["commit"] = member.start_commit(3)
        waiting["join"] = newcomer.start_join()
        waiting["restart"] = restarted.start_join()
        waiting["follower"] = follower.start_sync()
        waiting["leader"] = leader.start_sync({leader.id: b"one", follower.id: b"two"})
        if not kafka.old:
            waiting["heartbeat"] = member.start_heartbeat()
            waiting["stable fetch"] = kafka.start(*fetch(member.group, stable=True))
            waiting["delete"] = kafka.start(*delete_group(member.group))
        await kafka.sleep(100)
        assert [name for name, asked in waiting.items() if asked.answered] == []

    await kafka.freeze_and_hand_over(send)
    answers = {name: await asked.answer() for name, asked in waiting.items()}
    assert {name: error_of(answer) for name, answer in answers.items()} == dict.fromkeys(waiting, Err.NOT_COORDINATOR)
    kafka.together(*answers.values())
    assert answers["join"].response.member_id == kafka.pick(old=newcomer.id, new="")
    refused = answers["restart"].response
    assert (refused.member_id, refused.generation_id, refused.leader) == ("", 1, static.id)
    assert error_of(kafka.at_once(await kafka.ask(*fetch(member.group)))) is Err.NOT_COORDINATOR
    await kafka.heal()

    async def loaded() -> bool:
        return error_of(await kafka.ask(*fetch(member.group), broker=2)) is Err.NONE

    await kafka.until("the new leader to have loaded the groups", loaded)
    assert await fetched(kafka, member.group, broker=2) in (1, 2)
    assert await members_of(kafka, member.group, broker=2) == {member.id}
    assert await state_of(kafka, leader.group, broker=2) == "Stable"
    assert await members_of(kafka, static.group, broker=2) == {static.id}
    committed = await kafka.ask(*commit(kafka.name("after"), 1), broker=2)
    assert error_of(committed) is Err.NONE

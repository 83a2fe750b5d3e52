"""Requests that wait when the offsets partition heals."""

from __future__ import annotations

from protocol.errors import Err
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
from tests.stuck.target import Stuck


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
    newcomer = Member(kafka, member.group, "newcomer")
    newcomer.id = (await newcomer.start_join().answer()).response.member_id
    parked = newcomer.start_join()
    await kafka.sleep(100)
    if not kafka.old:
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

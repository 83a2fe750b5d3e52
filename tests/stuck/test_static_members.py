"""A static member's restart (JoinGroup without id, known instance) while the offsets partition is stuck."""

from __future__ import annotations

from kafka_wire.errors import Err
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.conformance.driver import subscription
from tests.stuck.cells import cell
from tests.stuck.members import Member, error_of, members_of, stable, state_of
from tests.stuck.target import POLL_MS, TOPIC, Answer, Stuck


def check_refusal(kafka: Stuck, answer: Answer, generation: int, leader: str) -> None:
    """A replacement that could not be written: the group as it was, seen from its old leader, and no member id."""
    error = kafka.pick3(
        old_a=Err.REBALANCE_IN_PROGRESS, old_b=Err.COORDINATOR_NOT_AVAILABLE, new=Err.COORDINATOR_NOT_AVAILABLE
    )
    kafka.due(answer, old_a=True, old_b=False, new=True)
    response = answer.response
    assert error_of(answer) is error
    assert (response.member_id, response.generation_id, response.leader) == ("", generation, leader)
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
    assert (response.skip_assignment, response.members) == (False, [])


async def replaced(kafka: Stuck, group: str, before: str) -> str:
    """The only member's id, when it is another one than `before`."""
    for _ in range(kafka.timeout_ms // POLL_MS):
        [present] = await members_of(kafka, group)
        if present != before:
            return present
        await kafka.sleep(POLL_MS)
    raise TimeoutError(f"waited {kafka.timeout_ms} ms for another member than {before} in {group}")


@cell()
async def test_a_restarted_static_member(kafka: Stuck) -> None:
    """While it waits it has the old one's place, which it then gives back; after a load the last one has it for good,
    because its record is in the log."""
    [member] = await stable(kafka, kafka.name("restart"), instance="i")
    before = member.id
    await kafka.freeze()
    waits = kafka.pick3(old_a=True, old_b=False, new=True)
    for _ in range(2):
        restarted = Member(kafka, member.group, "restarted", instance=member.instance)
        asked = restarted.start_join()
        if waits:
            present = await replaced(kafka, member.group, before)
            assert await state_of(kafka, member.group) == "Stable"
            assert error_of(kafka.at_once(await member.heartbeat())) is Err.FENCED_INSTANCE_ID
        check_refusal(kafka, await asked.answer(), 1, before)
        assert await members_of(kafka, member.group) == {before}
    beat = kafka.due(await member.heartbeat(), old_a=False, old_b=False, new=True)
    assert error_of(beat) is kafka.pick(old=Err.NONE, new=Err.COORDINATOR_NOT_AVAILABLE)
    await kafka.heal()
    assert await members_of(kafka, member.group) == {before}
    assert error_of(kafka.at_once(await member.heartbeat())) is Err.NONE
    await kafka.move()
    assert await state_of(kafka, member.group, broker=2) == "Stable"
    [loaded] = await members_of(kafka, member.group, broker=2)
    if waits:
        assert loaded == present
    else:
        assert loaded == before


@cell()
async def test_a_restarted_static_follower(kafka: Stuck) -> None:
    """The same, and the leader keeps its id in the answer."""
    members = await stable(kafka, kafka.name("follower"), 2, instance="i")
    await kafka.freeze()
    restarted = Member(kafka, members[1].group, "restarted", instance=members[1].instance)
    check_refusal(kafka, await restarted.start_join().answer(), 2, members[0].id)
    assert await members_of(kafka, members[0].group) == {member.id for member in members}


@cell(phases=("A",))
async def test_a_record_that_is_too_large(kafka: Stuck) -> None:
    """A replacement with metadata beyond max.message.bytes; no follower is needed for that."""
    [member] = await stable(kafka, kafka.name("large"), instance="i")
    protocols = [JoinGroupRequestProtocol("range", subscription(TOPIC) + b"x" * 12_000)]
    request = JoinGroupRequest(member.group, 60_000, 60_000, "", member.instance, "consumer", protocols)
    answer = kafka.at_once(await kafka.ask(request, 9))
    assert error_of(answer) is Err.UNKNOWN_SERVER_ERROR
    assert (answer.response.member_id, answer.response.leader) == ("", member.id)
    assert await members_of(kafka, member.group) == {member.id}

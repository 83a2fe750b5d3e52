"""Requests held, released, stepped through, recorded and replayed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker_sim.common.text import UsageError
from broker_sim.faults.order import Diverged, load
from broker_sim.journal import WaitTimeout
from kafka_wire.errors import Err
from kafka_wire.messages.k03_metadata import MetadataRequest
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.faults.rig import Rig, commit, committed, heartbeat, until


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as made:
        yield made


async def test_a_hold_keeps_requests_in_the_order_of_their_arrival(rig: Rig) -> None:
    wires = [await rig.connect(f"app-{number}") for number in range(3)]
    async with rig.order.hold("OffsetCommit", group="billing") as hold:
        answers = []
        for number, wire in enumerate(wires):
            answers.append(wire.start(commit(offset=number), 8))
            await hold.arrived(number + 1)
        assert [text.split(",")[0] for text in hold.waiting] == [f"OffsetCommit v8 of 'app-{n}'" for n in range(3)]
        assert len(hold) == 3
        bystander = await rig.connect("bystander")
        assert (await bystander.send(commit("audit"), 8)).topics[0].partitions[0].error_code == Err.NONE
        assert hold.release(2) == 2
        await asyncio.gather(answers[0], answers[1])
        assert await committed(await rig.connect("looker")) == 1
        assert not answers[2].done()
    await answers[2]
    assert [event["action"] for event in rig.told("order")] == ["held"] * 3 + ["released"] * 3


async def test_release_may_choose_who_goes(rig: Rig) -> None:
    wires = [await rig.connect(f"app-{number}") for number in range(3)]
    hold = rig.order.hold("Heartbeat")
    answers = [wire.start(heartbeat(), 4) for wire in wires]
    await hold.arrived(3)
    assert hold.release(client_id="app-2") == 1
    await answers[2]
    assert hold.release("all", match={"client_id": "app-0"}) == 1
    await answers[0]
    assert hold.release(5, group="audit") == 0
    with pytest.raises(UsageError, match="no selector 'grup'; did you mean 'group'"):
        hold.release(grup="x")
    with pytest.raises(UsageError, match=r"is invalid .expected a number of requests, or 'all'."):
        hold.release("some")
    hold.end()
    hold.end()
    await answers[1]


async def test_a_step_returns_once_the_request_is_answered_or_parked(rig: Rig) -> None:
    first, second = await rig.connect("app-1"), await rig.connect("app-2")
    async with rig.order.hold("OffsetCommit") as hold:
        answers = [first.start(commit(offset=1), 8), second.start(commit("audit", offset=2), 8)]
        await hold.arrived(2)
        texts = {await hold.step(), await hold.step()}
        assert rig.tap.unanswered == []
        assert len(texts) == 2
        await asyncio.gather(*answers)
        with pytest.raises(WaitTimeout, match="1 request held by OffsetCommit: not within 10 ms\nnow: 0 waiting: none"):
            await hold.step(timeout="10ms")


async def test_a_step_waits_for_the_next_one_to_come(rig: Rig) -> None:
    wire = await rig.connect()
    async with rig.order.hold("Heartbeat") as hold:
        step = asyncio.create_task(hold.step())
        await asyncio.sleep(0)
        answer = wire.start(heartbeat(), 4)
        assert (await step).startswith("Heartbeat v4 of 'app-1', group 'billing', member 'm'")
        await answer


async def test_a_stepped_request_that_a_rule_hangs_counts_as_parked(rig: Rig) -> None:
    wire = await rig.connect()
    async with rig.order.hold("Heartbeat") as hold:
        with rig.faults.add("Heartbeat", hang=True) as fault:
            answer = wire.start(heartbeat(), 4)
            await hold.step()
            assert fault.hits == 1
        fault.release()
        await answer


async def test_steps_decide_who_leads_a_group(rig: Rig) -> None:
    """The order of three JoinGroups is the test's."""
    wires = [await rig.connect(f"app-{number}") for number in range(3)]
    join = JoinGroupRequest(
        "crew", 30_000, 30_000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")]
    )
    async with rig.order.hold("JoinGroup", group="crew") as hold:
        answers = [wire.start(join, 3) for wire in wires]
        await hold.arrived(3)
        for client_id in ("app-2", "app-0", "app-1"):
            await hold.step(client_id=client_id)
        rig.clock.advance(0)  # the initial rebalance delay is over
        answer = await answers[2]
    assert [member.member_id[:5] for member in answer.members] == ["app-2", "app-0", "app-1"]
    assert answer.leader == answer.member_id
    assert answer.member_id.startswith("app-2-")
    for wire in wires:
        await wire.close()


async def test_waiting_for_arrivals_that_do_not_come_tells_who_waits(rig: Rig) -> None:
    wire = await rig.connect()
    async with rig.order.hold("Heartbeat") as hold:
        wire.start(heartbeat(), 4)
        await hold.arrived(1)
        with pytest.raises(WaitTimeout) as waited:
            await hold.arrived(2, timeout="10ms")
    assert "2 requests held by Heartbeat: not within 10 ms" in str(waited.value)
    assert "now: 1 waiting: Heartbeat v4 of 'app-1'" in str(waited.value)


async def test_a_client_that_disappears_while_held_leaves_nothing(rig: Rig) -> None:
    wire, other = await rig.connect("app-1"), await rig.connect("app-2")
    async with rig.order.hold("Heartbeat") as hold:
        wire.start(heartbeat(), 4)
        await hold.arrived(1)
        answer = other.start(heartbeat(), 4)
        await hold.arrived(2)
        wire.abort()
        await until(lambda: len(hold) == 1, "the request of the client that is gone to be forgotten")
        assert len(rig.order.waiting) == 1
        await hold.step()
        await answer


async def test_a_client_that_disappears_between_release_and_turn_is_not_handled(rig: Rig) -> None:
    wire = await rig.connect()
    async with rig.order.hold("OffsetCommit") as hold:
        wire.start(commit(), 8)
        await hold.arrived(1)
        for server in rig.cluster.servers:
            for connection in server.connections:
                connection.abort()  # its end comes in a turn of its own, before the released request's
        hold.release()
        await until(lambda: not rig.tap.unanswered, "the request to be forgotten")
    assert await committed(await rig.connect("looker")) == -1


async def test_holds_pass_on_to_rules_and_record(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.order.record() as recording, rig.faults.add("Heartbeat", error="REBALANCE_IN_PROGRESS"):
        async with rig.order.hold("Heartbeat") as hold:
            answer = wire.start(heartbeat(), 4)
            await hold.arrived(1)
            assert recording.entries == []
        assert (await answer).error_code == Err.REBALANCE_IN_PROGRESS
    assert [entry.api for entry in recording.entries] == ["Heartbeat"]
    await wire.send(heartbeat(), 4)
    assert len(recording.entries) == 1


# --- record and replay --------------------------------------------------------------------------------------------------


async def recorded(rig: Rig, *asked: tuple[str, str]) -> Any:
    """The recording of commits of (client id, group), one after the other."""
    with rig.order.record() as recording:
        for client_id, group in asked:
            await (await rig.connect(client_id)).send(commit(group), 8)
    return recording


async def test_a_recording_is_saved_as_json_lines_and_loaded_again(rig: Rig, tmp_path: Path) -> None:
    recording = await recorded(rig, ("app-1", "billing"), ("app-2", "audit"))
    path = tmp_path / "order.ndjson"
    recording.save(path)
    assert [json.loads(line) for line in path.read_text().splitlines()][1] == {
        "n": 2,
        "api": "OffsetCommit",
        "client_id": "app-2",
        "group": "audit",
        "member": None,
        "topics": ["orders"],
    }
    assert load(path) == recording.entries


async def test_a_replay_lets_requests_pass_in_the_recorded_order_alone(rig: Rig) -> None:
    recording = await recorded(rig, ("app-1", "g1"), ("app-2", "g2"), ("app-3", "g3"))
    wires = {name: await rig.connect(name) for name in ("app-1", "app-2", "app-3")}
    seen = rig.journal.seq
    async with rig.order.replay(recording) as replay:
        third = wires["app-3"].start(commit("g3"), 8)
        await until(lambda: len(replay.waiting) == 1, "the third to wait")
        second = wires["app-2"].start(commit("g2"), 8)
        await until(lambda: len(replay.waiting) == 2, "the second to wait")
        assert await wires["app-1"].send(MetadataRequest(), 9)
        assert replay.position == 0
        assert replay.expected == "OffsetCommit of 'app-1', group 'g1', orders"
        await wires["app-1"].send(commit("g1"), 8)
        await asyncio.gather(second, third)
        await replay.done()
    answered = [event["request"] for event in rig.journal.since(seen) if event["event"] == "response"]
    names = {event["request"]: event["client_id"] for event in rig.told("request") if event["api"] == "OffsetCommit"}
    assert [names[request] for request in answered if request in names] == ["app-1", "app-2", "app-3"]


async def test_a_divergence_says_which_request_was_expected_and_which_came(rig: Rig) -> None:
    recording = await recorded(rig, ("app-1", "g1"), ("app-2", "g2"))
    first, other = await rig.connect("app-1"), await rig.connect("app-9")
    replay = rig.order.replay(recording, deadline="30ms")
    await first.send(commit("g1"), 8)
    await other.send(commit("g9"), 8)  # passes once the replay has given up
    with pytest.raises(Diverged) as diverged:
        await replay.done()
    assert str(diverged.value).splitlines() == [
        "the recorded order is broken at entry 2 (2 of 2 that are not free):",
        "  expected: OffsetCommit of 'app-2', group 'g2', orders",
        "  within 30 ms came:",
        "    OffsetCommit v8 of 'app-9', group 'g9', orders-0, at broker 1",
        "  before it passed:",
        "    1: OffsetCommit of 'app-1', group 'g1', orders",
    ]
    with pytest.raises(Diverged), replay:
        pass
    assert rig.told("order")[-2]["action"] == "diverged"


async def test_past_its_end_a_replay_lets_everything_pass(rig: Rig) -> None:
    recording = await recorded(rig, ("app-1", "g1"))
    wire, other = await rig.connect("app-1"), await rig.connect("app-9")
    async with rig.order.replay(recording) as replay:
        early = other.start(commit("g9"), 8)
        await until(lambda: replay.waiting, "the other one to wait")
        await wire.send(commit("g1"), 8)
        await early
        await replay.done()
        await other.send(commit("g9"), 8)


async def test_a_replay_that_nobody_continues_says_where_it_stands(rig: Rig) -> None:
    recording = await recorded(rig, ("app-1", "g1"))
    async with rig.order.replay(recording) as replay:
        with pytest.raises(WaitTimeout, match="0 of 1 have passed, next is OffsetCommit of 'app-1'"):
            await replay.done(timeout="10ms")


async def test_a_client_that_disappears_while_its_turn_has_not_come_leaves_nothing(rig: Rig) -> None:
    recording = await recorded(rig, ("app-1", "g1"), ("app-2", "g2"))
    wire = await rig.connect("app-2")
    async with rig.order.replay(recording, deadline="10m") as replay:
        wire.start(commit("g2"), 8)
        await until(lambda: replay.waiting, "the request to wait")
        wire.abort()
        await until(lambda: not replay.waiting, "the request to be forgotten")
        assert rig.order.waiting == []


async def test_members_of_another_run_take_the_places_of_the_recorded_ones(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.order.record() as recording:
        for member in ("m-a", "m-b", "m-a"):
            await wire.send(heartbeat(member=member), 4)
    assert [entry.member for entry in recording.entries] == ["m1", "m2", "m1"]
    second = await rig.connect()
    async with rig.order.replay(recording, free=["Metadata"]) as replay:
        await wire.send(heartbeat(member="x-1"), 4)  # takes m1's place
        again = wire.start(heartbeat(member="x-1"), 4)
        await until(lambda: replay.waiting, "x-1 to wait for m2")
        await second.send(heartbeat(member="x-2"), 4)
        await again
        await replay.done()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 1: not JSON"),
        ("[]", "line 1: not an entry of a recorded order"),
        ('{"api": "OffsetCommit"}', "line 1: n is a number"),
        ('{"n": 1, "api": "OfsetCommit"}', "did you mean 'OffsetCommit'"),
        ('{"n": 1, "api": "Fetch", "group": 7}', "strings or null"),
        ('{"n": 1, "api": "Fetch", "topics": "orders"}', "topics is a list of names"),
    ],
)
def test_a_file_that_is_no_record_is_refused_by_its_line(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "order.ndjson"
    path.write_text(line + "\n")
    with pytest.raises(UsageError) as refused:
        load(path)
    assert says in str(refused.value)


async def test_there_is_one_replay_at_a_time(rig: Rig, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        rig.order.replay(tmp_path / "none.ndjson")
    with (
        rig.order.replay([{"n": 1, "api": "Fetch"}], free=[]),
        pytest.raises(UsageError, match="being replayed already"),
    ):
        rig.order.replay([])
    with rig.order.replay([]) as replay:
        await replay.done()

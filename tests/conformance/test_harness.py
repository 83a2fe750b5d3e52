"""The harness itself: what is normalised, how differences are told, when a missing tool is a failure."""

from __future__ import annotations

import asyncio
import datetime
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kafka_wire.messages.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.conformance.known_differences import ASSERTION, KNOWN, explained
from tests.conformance.logs import offsets_partition
from tests.conformance.recording import Recording, differences
from tests.conformance.targets import RELEASES
from tests.conformance.truth import Truth
from tests.support.real_kafka import need_tool
from tests.support.unhurried import PACE, TURN_S, UnhurriedLoop

ONE = "m1-01234567-89ab-cdef-0123-456789abcdef"
TWO = "m1-11234567-89ab-cdef-0123-456789abcdef"


async def rendered(request: Any, response: Any, version: int, **recording: Any) -> Any:
    """Return an answer in the form that a recording has it."""
    answer = asyncio.get_running_loop().create_future()
    answer.set_result(response)
    record = Recording(**recording)
    record.add("m1", request, version, answer)
    [[label, plain]] = record.render()
    assert label == f"m1: {type(request).__name__.removesuffix('Request')} v{version}"
    return plain


async def test_member_ids_become_numbers_by_prefix_in_order_of_appearance() -> None:
    members = [JoinGroupResponseMember(TWO), JoinGroupResponseMember(ONE)]
    plain = await rendered(JoinGroupRequest(), JoinGroupResponse(leader=TWO, member_id=ONE, members=members), 5)
    assert (plain["leader"], plain["member_id"]) == ("m1-#1", "m1-#2")
    assert plain["members"] == [{"member_id": "m1-#1"}, {"member_id": "m1-#2"}]


async def test_ports_become_their_nodes() -> None:
    response = FindCoordinatorResponse(node_id=2, host="127.0.0.1", port=2345)
    plain = await rendered(FindCoordinatorRequest(), response, 0, ports={2345: 2})
    assert plain == {"node_id": 2, "host": "127.0.0.1", "port": "port of node 2"}


async def test_groups_of_other_tests_are_left_out() -> None:
    names = ["mine", "mine-too", "mineral", "other"]
    response = ListGroupsResponse(groups=[ListedGroup(name) for name in names])
    plain = await rendered(ListGroupsRequest(), response, 0, prefix="mine")
    assert plain == {"groups": [{"group_id": "mine"}, {"group_id": "mine-too"}]}


async def test_times_near_now_and_a_day_off() -> None:
    record = Recording()
    now = int(time.time() * 1000)
    record.note("log", [{"a": now, "b": now - 86_400_000, "c": 1_234_567_890_123}])
    assert record.render() == [["log", [{"a": "now", "b": "now -1 day", "c": 1_234_567_890_123}]]]


async def test_request_without_an_answer() -> None:
    record = Recording()
    record.add("m1", JoinGroupRequest(), 9, asyncio.get_running_loop().create_future())
    assert record.render() == [["m1: JoinGroup v9", "no answer"]]


def test_differences_name_the_request_and_the_field() -> None:
    truth = [["m1: JoinGroup v9", {"members": [{"member_id": "a"}], "leader": "a"}]]
    seen = [["m1: JoinGroup v9", {"members": [{"member_id": "b"}]}]]
    assert differences(truth, seen) == [
        "1 m1: JoinGroup v9 .leader: 'a' != 'default'",
        "1 m1: JoinGroup v9 .members[0].member_id: 'a' != 'b'",
    ]
    assert differences(truth, truth) == []
    assert differences(truth, []) == ["1 requests != 0 requests"]


def test_truth_is_stored_case_by_case_with_its_day(tmp_path: Path) -> None:
    truth = Truth(directory=tmp_path)
    assert not truth.store("3.4", "b", [["x", {"y": 1}]])
    assert not truth.store("3.4", "a", [])
    truth.save({"3.4": "3.4.0"}, datetime.date(2026, 1, 2))
    again = Truth(directory=tmp_path)
    assert again.get("3.4", "b") == [["x", {"y": 1}]]
    assert again.get("3.4", "a") == []
    assert again.get("4.1", "a") is None
    assert (again.file("3.4").broker, again.file("3.4").recorded, again.file("3.4").later) == (
        "3.4.0",
        "2026-01-02",
        {},
    )

    assert again.store("3.4", "b", [["x", {"y": 2}]])
    assert not again.store("3.4", "a", [])
    assert again.store("3.4", "b", [["x", {"y": 1}]])
    again.save({"3.4": "3.4.0"}, datetime.date(2026, 2, 3))
    assert Truth(directory=tmp_path).file("3.4").recorded == "2026-02-03"

    again.store("3.4", "b", [["x", {"y": 3}]])
    again.save({"3.4": "3.4.1"}, datetime.date(2026, 3, 4))
    known = Truth(directory=tmp_path).file("3.4")
    assert (known.broker, known.recorded, known.later) == ("3.4.1", "2026-02-03", {"b": "2026-03-04"})
    assert known.cases == {"a": [], "b": [["x", {"y": 3}]]}


def test_what_is_recorded_tells_its_broker_and_day() -> None:
    for generation, release in RELEASES.items():
        known = Truth().file(generation)
        assert known.broker == release
        assert len(known.recorded) == len("2026-01-02"), generation


def test_known_differences_are_of_known_cases() -> None:
    for known in KNOWN:
        for generation in known.generations:
            cases = Truth().cases(generation)
            assert any(explained(case, generation, known.line) is known for case in cases), known.case


def test_assertion_entries_do_not_excuse_fields() -> None:
    case = KNOWN[0].case.split("|")[0]
    assert explained(case, "3.4", ASSERTION) is KNOWN[0]
    assert explained(case, "3.4", "1 admin: OffsetCommit v0 .topics: 1 != 2") is None


@pytest.mark.parametrize(
    ("group", "partition"),
    [("", 0), ("g", 3), ("foo", 24), ("test-group", 12), ("my-group", 12), ("polygenelubricants", 0)],
)
def test_partition_of_a_group(group: str, partition: int) -> None:
    assert offsets_partition(group, 50) == partition


def test_missing_tool_skips_on_a_users_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-tool is not installed"):
        need_tool("no-such-tool")


def test_missing_tool_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no-such-tool is not installed"):
        need_tool("no-such-tool")


async def test_a_stall_takes_no_time_of_the_loop() -> None:
    """Data in a socket comes before a timer that the stall would have made due."""
    loop, seen = asyncio.get_running_loop(), list[str]()
    assert isinstance(loop, UnhurriedLoop)
    fired = asyncio.Event()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        loop.call_later(0.05, lambda: (seen.append("timer"), fired.set()))
        loop.add_reader(ours, lambda: seen.append(ours.recv(16).decode()))
        began_s = loop.time()
        theirs.send(b"heartbeat")
        time.sleep(0.1)
        assert loop.time() == began_s
        await fired.wait()
        loop.remove_reader(ours)
    assert seen == ["heartbeat", "timer"]


async def test_an_idle_loop_waits_as_long_as_it_means_to() -> None:
    loop = asyncio.get_running_loop()
    began_s, real_s = loop.time(), time.monotonic()
    await asyncio.sleep(1)
    assert 0.999 <= loop.time() - began_s < 1 + 20 * TURN_S
    assert time.monotonic() - real_s >= 1 / PACE


async def test_a_loop_that_is_never_idle_has_time() -> None:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + 0.005
    while loop.time() < until_s:
        await asyncio.sleep(0)


async def test_beside_a_real_broker_the_loop_has_the_machines_time() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, UnhurriedLoop)
    loop.hurried = True
    began_s = loop.time()
    time.sleep(0.02)
    assert loop.time() - began_s >= 0.02
    await asyncio.sleep(0.02)
    assert loop.time() - began_s >= 0.04

"""Changes by a test's handle, an administrator or a client outside of the group are reported as theirs, not as a member's."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from broker_sim import Cluster
from broker_sim.explain import recent
from broker_sim.explain.terminal import timeline
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from tests.explain.journals import Script
from tests.explain.test_words import A, B, C, said
from tests.handles.members import TOPIC, Member
from tests.support.wire import Wire

HANDLE = "the test (a handle, or the control API)"


@pytest.fixture
async def kafka() -> AsyncIterator[Cluster]:
    config = {"group.initial.rebalance.delay.ms": 0}
    async with Cluster(topics={TOPIC: 4}, clock="manual", config=config, internal_topics="at-start") as cluster:
        cluster.observe()
        yield cluster


@pytest.fixture
async def member(kafka: Cluster) -> AsyncIterator[Member]:
    one = await Member.connect(kafka, client_id="app")
    await one.enter()
    yield one
    await one.close()


@pytest.fixture
async def admin(kafka: Cluster) -> AsyncIterator[Wire]:
    wire = await Wire.connect(kafka.bootstrap, client_id="admin-1")
    yield wire
    await wire.close()


def told(kafka: Cluster) -> str:
    return " ".join(kafka.group("billing").explain().split())


async def set_offset(admin: Wire, offset: int) -> int:
    rows = [OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(1, offset)])]
    answer = await admin.send(OffsetCommitRequest("billing", -1, "", topics=rows), 8)
    return int(answer.topics[0].partitions[0].error_code)


async def test_a_member_that_a_handle_removes(kafka: Cluster, member: Member) -> None:
    await kafka.group("billing").remove("app")
    assert f"app at /127.0.0.1 was removed by {HANDLE}." in told(kafka)
    assert "app at /127.0.0.1 left" not in told(kafka)
    assert f"rebalance begins: app was removed by {HANDLE}" in recent(kafka.journal.events, "billing")


async def test_a_member_that_an_administrator_removes(kafka: Cluster, member: Member, admin: Wire) -> None:
    leaver = MemberIdentity(member.member_id, None, "member was removed by an admin")
    await admin.send(LeaveGroupRequest("billing", members=[leaver]), 5)
    words = 'app at /127.0.0.1 was removed by "admin-1" (LeaveGroup) (reason: "member was removed by an admin").'
    assert words in told(kafka)


async def test_a_member_that_leaves_by_itself(kafka: Cluster, member: Member) -> None:
    await member.wire.send(LeaveGroupRequest("billing", members=[MemberIdentity(member.member_id)]), 5)
    assert "because app at /127.0.0.1 left." in told(kafka)


async def test_a_group_that_an_administrator_deletes(kafka: Cluster, member: Member, admin: Wire) -> None:
    await kafka.group("billing").remove("app")
    await admin.send(DeleteGroupsRequest(["billing"]), 2)
    assert 'The group was deleted by "admin-1" (DeleteGroups).' in told(kafka)


async def test_refused_commits_of_a_tool_are_not_those_of_the_generation(
    kafka: Cluster, member: Member, admin: Wire
) -> None:
    await member.commit(3)
    assert await set_offset(admin, 5) == Err.UNKNOWN_MEMBER_ID
    refused = '1 commit of "admin-1", no member of the group, was refused: UNKNOWN_MEMBER_ID.'
    assert f"1 commit answered. {refused}" in told(kafka)
    assert "failed" not in told(kafka)
    await kafka.group("billing").remove("app")
    assert await set_offset(admin, 5) == Err.NONE
    assert await set_offset(admin, 6) == Err.NONE
    assert f'1 commit answered. 2 commits of "admin-1", no member of the group, answered. {refused}' in told(kafka)


def test_members_that_are_removed_while_a_rebalance_waits_for_them() -> None:
    script = Script().formed([A, B, C]).at(10)
    script.ask("LeaveGroup", client_id="tool", members=[{"member_id": B}])
    cause = {"kind": "request", "request": script.requests, "api": "LeaveGroup"}
    script.step(cause, gone=[B], state="PreparingRebalance")
    script.at(11).step({"kind": "request", "request": 0, "api": "LeaveGroup"}, gone=[C])
    words = said(script)
    assert 'began because app-2 at /127.0.0.1 was removed by "tool" (LeaveGroup).' in words
    assert f"Meanwhile app-3 at /127.0.0.1 was removed by {HANDLE} (after 1 s)" in words


def drawn(script: Script) -> str:
    """The lane of app-2."""
    lines = timeline(script.events, "billing").splitlines()
    return next(line for line in lines if line.strip().startswith("app-2"))


def test_the_timeline_shows_who_left_and_who_was_removed() -> None:
    leave = {"kind": "request", "api": "LeaveGroup"}
    left, removed, refused, by_handle = (Script().formed([A, B]).at(10) for _ in range(4))
    number = left.call("LeaveGroup", B, members=[{"member_id": B}])
    left.step({**leave, "request": number}, gone=[B], state="PreparingRebalance")
    number = removed.call("LeaveGroup", "", client_id="tool", members=[{"member_id": B}])
    removed.step({**leave, "request": number}, gone=[B], state="PreparingRebalance")
    refused.call("LeaveGroup", B, "UNKNOWN_MEMBER_ID", members=[{"member_id": B}])
    by_handle.step({**leave, "request": 0}, gone=[B], state="PreparingRebalance")
    for script in (left, removed, refused, by_handle):
        script.at(20).event("mark", text="end")
    assert "L" in drawn(left)
    assert "X" in drawn(removed)
    assert "L" not in drawn(removed)
    assert "L" not in drawn(refused)
    assert "X" in drawn(by_handle)

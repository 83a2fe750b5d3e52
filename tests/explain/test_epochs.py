"""Explanations of a consumer group of KIP-848: causes of its epochs, requests that were refused to its members, partitions that were
unassigned meanwhile."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.common.text import clock
from broker_sim.explain import explain, recent
from kafka_wire.errors import Err
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from tests.handles.members import Member
from tests.handles.test_consumer_groups import Consumer
from tests.support.wire import Wire

SUBSCRIBES: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"]}


@pytest.fixture
async def kafka() -> AsyncIterator[Cluster]:
    async with Cluster(topics={"orders": 4}, clock="manual") as cluster:
        cluster.topic("orders").fill(400)
        cluster.observe()
        yield cluster


Joined = Callable[[str], Awaitable[Consumer]]


@pytest.fixture
async def joined(kafka: Cluster) -> AsyncIterator[Joined]:
    """Members that join, by name; their connections are closed at the end."""
    members: list[Consumer] = []

    async def join(name: str) -> Consumer:
        members.append(await Consumer.joined(kafka, name))
        return members[-1]

    yield join
    for member in members:
        await member.wire.close()


async def settle(*members: Consumer) -> None:
    for _ in range(3):
        for member in members:
            await member.beat()


async def commit(member: Consumer, offset: int, partition: int, epoch: int) -> int:
    rows = [OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(partition, offset)])]
    answer = await member.wire.send(OffsetCommitRequest("g", epoch, member.member, topics=rows), 9)
    return int(answer.topics[0].partitions[0].error_code)


async def look_up(member: Consumer, epoch: int) -> int:
    asked = OffsetFetchRequestGroup("g", member.member, epoch, [OffsetFetchRequestTopics("orders", [2])])
    return int((await member.wire.send(OffsetFetchRequest(groups=[asked]), 9)).groups[0].error_code)


async def fetch(member: Consumer, offset: int, partition: int) -> None:
    row = FetchTopic("orders", partitions=[FetchPartition(partition, fetch_offset=offset)])
    await member.wire.send(FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=[row]), 11)


def told(kafka: Cluster) -> list[str]:
    """Return the text of explain as paragraphs, without the times."""
    words = re.split(r"\n(?=\S)", explain(kafka.journal.events, "g"))
    return [re.sub(r"^[\d:.]+ ", "", " ".join(one.split())) for one in words]


async def test_a_refused_offset_fetch_and_skipped_records(kafka: Cluster, joined: Joined) -> None:
    a = await joined("A")
    assert await commit(a, 10, 2, a.epoch) == Err.NONE
    b = await joined("B")
    await settle(a, b)
    assert await look_up(b, b.epoch - 1) == Err.STALE_MEMBER_EPOCH
    await fetch(b, 100, 2)
    lines = told(kafka)
    assert "OffsetFetch of app-B: STALE_MEMBER_EPOCH at once" in lines
    assert (
        "app-B reads orders-2 from 100 on, not from the group's committed offset 10: offsets 10 to 99, up to 90 "
        "records, were not"
        " delivered to it; its last OffsetFetch before got STALE_MEMBER_EPOCH; it continued at the log end offset, as "
        "with"
        " auto.offset.reset=latest"
    ) in lines


async def test_a_lookup_that_was_answered_is_no_reason(kafka: Cluster, joined: Joined) -> None:
    a = await joined("A")
    assert await commit(a, 10, 2, a.epoch) == Err.NONE
    assert await look_up(a, a.epoch - 1) == Err.STALE_MEMBER_EPOCH
    assert await look_up(a, a.epoch) == Err.NONE
    await fetch(a, 50, 2)
    [read_over] = [one for one in told(kafka) if "were not delivered" in one]
    assert read_over.endswith("up to 40 records, were not delivered to it")


async def test_commits_that_were_refused_stand_in_the_header_and_at_their_time(kafka: Cluster, joined: Joined) -> None:
    a = await joined("A")
    assert await commit(a, 5, 0, a.epoch) == Err.NONE
    assert await commit(a, 6, 0, a.epoch - 1) == Err.STALE_MEMBER_EPOCH
    lines = told(kafka)
    assert "Stable, epoch 1, 1 member. It is Stable since " in lines[0]
    assert lines[0].endswith("UTC. 1 commit answered. 1 commit failed: STALE_MEMBER_EPOCH at once.")
    refused = "OffsetCommit of app-A: STALE_MEMBER_EPOCH at once: it named epoch 0, its member epoch is 1"
    assert lines[1:] == ["epoch 1: app-A joined", refused]
    assert refused in recent(kafka.journal.events, "g")


async def test_a_fenced_member_and_a_removed_one_rejoin(kafka: Cluster, joined: Joined) -> None:
    a, b = await joined("A"), await joined("B")
    await settle(a, b)
    await kafka.time.advance("46s", expire=["app-B"])
    assert (await b.beat()).error_code == Err.UNKNOWN_MEMBER_ID
    b.epoch, b.owned = 0, []
    await b.beat(**SUBSCRIBES)
    await settle(a, b)
    b.epoch += 3
    assert (await b.beat()).error_code == Err.FENCED_MEMBER_EPOCH
    lines = [one for one in told(kafka) if not one.startswith("the clock")]
    at = next(event["ts_ms"] for event in kafka.journal.events if event.get("timer") == "session")
    assert lines[-4].startswith(
        "epoch 3: app-B was removed: its session expired (its last request was a ConsumerGroupHeartbeat at "
    )
    assert lines[-3:] == [
        f"ConsumerGroupHeartbeat of app-B: UNKNOWN_MEMBER_ID at once: it was removed at {clock(at)}: its session expired",
        "epoch 4: app-B joined again",
        "ConsumerGroupHeartbeat of app-B: FENCED_MEMBER_EPOCH at once: it named epoch 7, its member epoch is 4",
    ]


async def test_a_removed_member_has_not_left(kafka: Cluster, joined: Joined) -> None:
    a, b = [await joined(name) for name in "AB"]
    static = Consumer(await Wire.connect(kafka.bootstrap, client_id="app"), "C")
    await static.beat(instance_id="app-1", **SUBSCRIBES)
    await settle(a, b)
    await kafka.group("g").remove("app-B")
    admin = await Wire.connect(kafka.bootstrap, client_id="admin-1")
    await admin.send(LeaveGroupRequest("g", members=[MemberIdentity("", "app-1")]), 4)
    for wire in (admin, static.wire):
        await wire.close()
    a.epoch, a.owned = -1, []
    await a.beat()
    assert [one for one in told(kafka) if " was removed by " in one or one.endswith(" left")] == [
        "epoch 4: app-B was removed by the test (a handle, or the control API)",
        'epoch 5: app-1 was removed by "admin-1" (LeaveGroup)',
        "epoch 6: app-A left",
    ]


async def test_causes_of_an_epoch_with_the_same_members(kafka: Cluster, joined: Joined) -> None:
    a = await joined("A")
    await settle(a)
    kafka.topic("orders").grow_to(6)
    await settle(a)
    kafka.create_topic("bills", 2)
    await a.beat(subscribed_topic_names=["bills", "orders"])
    await settle(a)
    kafka.topic("orders").delete()
    await settle(a)
    assert [one for one in told(kafka) if one.startswith("epoch")][1:] == [
        "epoch 2: orders-4 and orders-5 are newly assigned",
        "epoch 3: app-A subscribes to bills and orders now (before: orders)",
        "epoch 4: its members' topics or subscriptions have changed (the journal doesn't say how)",
    ]


async def test_a_static_member_that_came_back_neither_joined_nor_left(kafka: Cluster) -> None:
    static = {"instance_id": "app-1", **SUBSCRIBES}
    kafka.state.ensure_offsets_topic()
    a = Consumer(await Wire.connect(kafka.bootstrap, client_id="app"), "A")
    await a.beat(**static)
    await settle_static(a)
    a.epoch, a.owned = -2, []
    await a.beat(instance_id="app-1")
    again = Consumer(await Wire.connect(kafka.bootstrap, client_id="app"), "A2")
    kafka.create_topic("bills", 2)
    await again.beat(**{**static, "subscribed_topic_names": ["bills", "orders"]})
    moved = [one for one in told(kafka) if one.startswith("epoch")]
    assert moved == ["epoch 1: app-1 joined", "epoch 2: app-1 rejoined with another member id"]
    await a.wire.close()
    await again.wire.close()


async def settle_static(member: Consumer) -> None:
    for _ in range(3):
        await member.beat(instance_id="app-1")


async def test_states_of_its_log_and_brokers_are_also_shown_for_such_a_group(kafka: Cluster, joined: Joined) -> None:
    a = await joined("A")
    with kafka.offsets_log("g").readonly():
        assert await commit(a, 6, 0, a.epoch) != Err.NONE
    log = kafka.offsets_log("g").name
    assert f"{log} readonly: off after 0 ms" in told(kafka)


async def test_a_converted_classic_group_is_neither_dead_nor_unloaded() -> None:
    config: dict[str, object] = {"group.initial.rebalance.delay.ms": 0}
    async with Cluster(topics={"orders": 4}, clock="manual", config=config) as kafka:
        kafka.observe()
        old = await Member.connect(kafka, group="g", client_id="old")
        await old.enter((0, 1, 2, 3))
        new = await Consumer.joined(kafka, "A")
        new.epoch, new.owned = -1, []
        await new.beat()
        lines = told(kafka)
        assert "The group was upgraded to the consumer protocol (KIP-848)." in [
            one[:1].upper() + one[1:] for one in lines
        ]
        [life] = [one for one in lines if one.startswith("Generation 1 began")]
        assert life.endswith("until the group was upgraded to the consumer protocol (KIP-848).")
        own = next(at for at, one in enumerate(lines) if one.startswith("Consumer group g on "))
        assert re.search(r": until [\d:.]+, the last epoch was 2\.$", lines[own])
        assert lines[own + 1 :] == [
            "epoch 2: app-A joined; the group was upgraded from the classic protocol with old",
            "the group was downgraded to the classic protocol with old, as app-A was removed",
        ]
        for wire in (old.wire, new.wire):
            await wire.close()


async def test_a_deleted_group_is_described_as_deleted(kafka: Cluster, joined: Joined) -> None:
    a = await joined("A")
    a.epoch, a.owned = -1, []
    await a.beat()
    assert (await a.wire.send(DeleteGroupsRequest(["g"]), 2)).results[0].error_code == Err.NONE
    lines = told(kafka)
    assert re.fullmatch(r"Consumer group g on \S+: until [\d:.]+, the last epoch was 2\.", lines[0])
    assert lines[-1] == 'the group was deleted by "app-A" (DeleteGroups)'

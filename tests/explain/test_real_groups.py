"""Journals that real groups wrote: members on raw connections under a clock of ours, and aiokafka."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from broker_sim import Cluster, Err
from broker_sim.explain import explain, history
from broker_sim.explain.terminal import timeline
from broker_sim.journal import plain
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from tests.explain.test_any_journal import everything
from tests.handles.members import TOPIC, Member

VERSIONS = ["3.4", "4.1"]


@pytest.fixture(params=VERSIONS)
async def kafka(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    config: dict[str, object] = {"group.initial.rebalance.delay.ms": 0, "connections.max.idle.ms": 3_600_000}
    async with Cluster(topics={TOPIC: 4}, clock="manual", as_version=request.param, config=config, seed=1) as cluster:
        cluster.observe()
        yield cluster


Connect = Callable[..., Awaitable[Member]]


@pytest.fixture
async def connect(kafka: Cluster) -> AsyncIterator[Connect]:
    """``await connect("web-1")``: a member, closed at the end."""
    members: list[Member] = []

    async def member(client_id: str, instance: str | None = None) -> Member:
        members.append(await Member.connect(kafka, client_id=client_id, instance=instance))
        return members[-1]

    yield member
    for one in members:
        await one.wire.close()


def written(kafka: Cluster) -> list[dict[str, Any]]:
    """The journal as it comes back from its file; everything that can be asked of it is."""
    events = [json.loads(json.dumps(event, default=plain)) for event in kafka.journal.events]
    everything(events)
    return events


def said(kafka: Cluster, generation: int) -> str:
    return explain(written(kafka), "billing", generation, width=100_000)


async def beat(member: Member) -> Err:
    request = HeartbeatRequest(member.group, member.generation, member.member_id, member.instance)
    return Err((await member.wire.send(request, 3)).error_code)


async def parked(kafka: Cluster, joins: int) -> None:
    """Until so many JoinGroups wait."""
    deadline = asyncio.get_running_loop().time() + 60
    while sum(request["api"] == "JoinGroup" for request in kafka.journal.open_requests.values()) < joins:
        assert asyncio.get_running_loop().time() < deadline, f"waited 60 s for {joins} JoinGroups"
        await asyncio.sleep(0.001)


async def until_told(member: Member) -> None:
    """Heartbeats until the rebalance is heard of."""
    while await beat(member) is not Err.REBALANCE_IN_PROGRESS:
        await asyncio.sleep(0)


async def rejoin(members: list[Member], joins: list[asyncio.Future[Any]]) -> None:
    """The answers of ``joins``, and the SyncGroups after them."""
    for member, answer in zip(members, await asyncio.gather(*joins), strict=True):
        assert answer.error_code == 0, Err(answer.error_code)
        member.member_id, member.generation = answer.member_id, answer.generation_id
        leader = answer.leader
    shares = {member.member_id: [number] for number, member in enumerate(members)}
    answers = [member.sync(shares if member.member_id == leader else None) for member in members]
    assert [answer.error_code for answer in await asyncio.gather(*answers)] == [0] * len(members)


async def pair(kafka: Cluster, connect: Connect) -> tuple[Member, Member]:
    """Two members of a group in generation 2, ``web-1`` (the leader) and ``web-2``, 3 s after the second one joined."""
    one = await connect("web-1")
    await one.enter()
    two = await connect("web-2")
    two.member_id = (await two.join()).member_id
    joins = [two.join()]
    await until_told(one)
    await kafka.time.advance(3)
    joins.append(one.join())
    await rejoin([two, one], joins)
    return one, two


async def test_a_member_joins(kafka: Cluster, connect: Connect) -> None:
    await pair(kafka, connect)
    assert said(kafka, 2) == (
        f"Generation 2 began at {began(kafka, 2)} because web-2 at /127.0.0.1 joined. web-1 got REBALANCE_IN_PROGRESS "
        f"for its Heartbeat at once and "
        "rejoined 3 s later; no member was removed. The leader web-1 sent the assignment at once; it was stored at "
        "once. Stable again "
        "after 3 s. It has been Stable for 0 ms."
    )


def began(kafka: Cluster, generation: int) -> str:
    from broker_sim.common.text import clock

    past = history(kafka.journal.events, "billing")
    return next(clock(one.began_ms) for one in past.rebalances if one.generation == generation)


async def test_a_client_that_dies(kafka: Cluster, connect: Connect) -> None:
    one, two = await pair(kafka, connect)
    two.wire.abort()
    await kafka.time.advance(11)
    await until_told(one)
    await rejoin([one], [one.join()])
    words = said(kafka, 3)
    assert "because the session of web-2 at /127.0.0.1 expired after 10 s (its last request was a SyncGroup at" in words
    assert "its connection was closed at" in words
    assert (
        "without a LeaveGroup). web-1 got REBALANCE_IN_PROGRESS for its Heartbeat after 1 s and rejoined at once; no "
        "other member was removed." in words
    )
    assert any(line.startswith("  web-2 ") and "X" in line for line in timeline(written(kafka), "billing").splitlines())


async def test_an_application_that_does_not_poll(kafka: Cluster, connect: Connect) -> None:
    one, two = await pair(kafka, connect)
    three = await connect("web-3")
    three.member_id = (await three.join()).member_id
    joins = [three.join()]
    await until_told(one)
    joins.append(one.join())
    await until_told(two)
    for _ in range(6):
        await kafka.time.advance(9.5)
        assert await beat(two) is Err.REBALANCE_IN_PROGRESS
    await kafka.time.advance(3, wait=0)
    await rejoin([three, one], joins)
    words = said(kafka, 3)
    assert "because web-3 at /127.0.0.1 joined." in words
    assert (
        "web-2 at /127.0.0.1 did not rejoin within the rebalance timeout (1 min) and was removed; meanwhile " in words
    )
    assert (
        "7 heartbeats of it arrived, and no JoinGroup, though its Heartbeat was answered REBALANCE_IN_PROGRESS at "
        "once: its "
        "application may not have polled, or a rebalance callback of it may have taken long (a broker does not see "
        "which)."
    ) in words
    assert "Stable again after 1 min." in words


async def test_a_member_id_without_a_rejoin(kafka: Cluster, connect: Connect) -> None:
    one, two = await pair(kafka, connect)
    three = await connect("web-3")
    assert Err((await three.join()).error_code) is Err.MEMBER_ID_REQUIRED
    joins = [one.join()]  # a leader that joins again begins a rebalance
    await until_told(two)
    joins.append(two.join())
    await parked(kafka, 2)
    three.wire.abort()
    await kafka.time.advance(10)
    await rejoin([one, two], joins)
    words = said(kafka, 3)
    assert "because the leader web-1 at /127.0.0.1 joined again." in words
    assert "All members had joined, but the rebalance waited 10 s for web-3" in words
    assert "which had got a member id and not joined with it." in words


async def test_a_static_member_restarts(kafka: Cluster, connect: Connect) -> None:
    one = await connect("web", "web-1")
    await one.enter()
    one.wire.abort()
    again = await connect("web", "web-1")
    assert (await again.join()).error_code == 0
    words = explain(written(kafka), "billing", width=100_000)
    assert "The static member web-1 rejoined with a new member id; no rebalance was needed." in words
    assert "Stable in generation 1, 1 member: web-1 (leader)." in words


async def test_a_stuck_offsets_partition(kafka: Cluster, connect: Connect) -> None:
    """The founding incident: nobody becomes Stable, every 5 s again, until the partition is healed."""
    one = await connect("web-1")
    await one.enter()
    old = kafka.state.as_version == "3.4"
    async with kafka.offsets_log("billing").stuck() as jam:
        commit = one.commit(7)
        await jam.pending(1)
        await kafka.time.advance(5)
        assert (await commit).topics[0].partitions[0].error_code != 0
        for _ in range(3):
            one.generation = (await one.join()).generation_id
            sync = one.sync({one.member_id: [0]})
            await jam.pending(1)
            await kafka.time.advance(5)
            assert Err((await sync).error_code) is (Err.REBALANCE_IN_PROGRESS if old else Err.COORDINATOR_NOT_AVAILABLE)
    await rejoin([one], [one.join()])
    words = explain(written(kafka), "billing", width=100_000)
    log = kafka.offsets_log("billing").name
    error = "REBALANCE_IN_PROGRESS" if old else "COORDINATOR_NOT_AVAILABLE"
    assert (
        f"without becoming Stable: every time the SyncGroup of the leader was answered {error} after 5 s because "
        f"{log} was stuck."
    ) in words
    assert f"Generation 5 became Stable after {log} was healed at" in words
    assert ("REQUEST_TIMED_OUT after 5 s" if old else "1 of the failed commits was stored nevertheless") in words


async def test_the_history_of_an_aiokafka_group() -> None:
    config: dict[str, object] = {"group.initial.rebalance.delay.ms": 100}
    async with Cluster(topics={TOPIC: 4}, config=config, seed=1) as kafka:
        kafka.observe()
        options: dict[str, Any] = {
            "bootstrap_servers": kafka.bootstrap,
            "group_id": "billing",
            "heartbeat_interval_ms": 100,
        }
        first = AIOKafkaConsumer(TOPIC, client_id="web-1", **options)
        await first.start()
        second = AIOKafkaConsumer(TOPIC, client_id="web-2", **options)
        await asyncio.gather(second.start(), kafka.group("billing").stable(members=2))
        await second.stop()
        await kafka.group("billing").stable(members=1)
        words = explain(written(kafka), "billing", width=100_000)
        await first.stop()
    assert "because web-1 at /127.0.0.1 joined the empty group." in words
    assert "because web-2 at /127.0.0.1 joined. web-1 got REBALANCE_IN_PROGRESS for its Heartbeat" in words
    assert "because web-2 at /127.0.0.1 left. web-1 got REBALANCE_IN_PROGRESS for its Heartbeat" in words

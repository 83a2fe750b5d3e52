"""Runs on a clock that the test moves: raw members, so that what happened, and at which ms, is what the script says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker_sim import Cluster, Err
from broker_sim.pipeline.tables.events import EVENTS
from broker_sim.pipeline.tables.offset_log import offset_log
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from tests.handles.members import TOPIC, Member
from tests.pipeline.support_journal import by_run, frame

VERSIONS = ["3.4", "4.1"]

CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "connections.max.idle.ms": 3_600_000,
    "offsets.topic.num.partitions": 10,
}
JAM_S = 40


@dataclass
class Truth:
    """Ground truth of a script's run: times in ms since 1970."""

    journal: Path
    data: Path
    events: list[dict[str, Any]] = field(default_factory=list)
    at: dict[str, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    log_partition: int = -1


def cluster(directory: Path, version: str) -> Cluster:
    return Cluster(
        topics={TOPIC: 4},
        clock="manual",
        as_version=version,
        config=CONFIG,
        seed=1,
        data_dir=directory / "data",
        journal=directory / "journal",
    )


async def beat(member: Member) -> Err:
    request = HeartbeatRequest(member.group, member.generation, member.member_id, member.instance)
    return Err((await member.wire.send(request, 3)).error_code)


async def until_told(member: Member) -> None:
    """Heartbeats until the rebalance is heard of."""
    while await beat(member) is not Err.REBALANCE_IN_PROGRESS:
        await asyncio.sleep(0)


async def leave(member: Member) -> None:
    identity = MemberIdentity(member.member_id)
    answer = await member.wire.send(LeaveGroupRequest(group_id=member.group, members=[identity]), 4)
    assert answer.error_code == 0


async def answered(members: list[Member], joins: list[asyncio.Future[Any]]) -> str:
    """The answers of JoinGroups; returns the leader's id."""
    leader = ""
    for member, answer in zip(members, await asyncio.gather(*joins), strict=True):
        assert answer.error_code == 0, Err(answer.error_code)
        member.member_id, member.generation, leader = answer.member_id, answer.generation_id, answer.leader
    return leader


async def synced(members: list[Member], leader: str) -> None:
    shares = {member.member_id: [number] for number, member in enumerate(members)}
    answers = await asyncio.gather(*(one.sync(shares if one.member_id == leader else None) for one in members))
    assert [answer.error_code for answer in answers] == [0] * len(members)


async def a_group_s_life(directory: Path, version: str) -> Truth:
    """web-1 is alone; web-2 joins (3 s open, 1.5 s until the assignment comes) and leaves (2 s open); web-3 comes and falls silent."""
    truth = Truth(directory / "journal", directory / "data")
    async with cluster(directory, version) as kafka:
        now, wires = kafka.time.now_ms, []

        async def connect(name: str) -> Member:
            member = await Member.connect(kafka, client_id=name)
            wires.append(member.wire)
            return member

        one = await connect("web-1")
        await one.enter()
        truth.at["first"] = now()
        truth.log_partition = int(kafka.offsets_log("billing").name.rpartition("-")[2])
        await kafka.time.advance(5)
        two = await connect("web-2")
        two.member_id = (await two.join()).member_id
        truth.at["joined"] = now()
        joins = [two.join()]
        await until_told(one)
        await kafka.time.advance(3)
        joins.append(one.join())
        leader = await answered([two, one], joins)
        await kafka.time.advance(1.5)
        await synced([two, one], leader)
        truth.at["shared"] = now()
        await kafka.time.advance(7)
        await leave(two)
        truth.at["left"] = now()
        await kafka.time.advance(2)
        await synced([one], await answered([one], [one.join()]))
        await kafka.time.advance(4)
        three = await connect("web-3")
        three.member_id = (await three.join()).member_id
        truth.at["came"] = now()
        joins = [three.join()]
        await until_told(one)
        joins.append(one.join())
        await synced([three, one], await answered([three, one], joins))
        assert await beat(three) is Err.NONE
        three.wire.abort()
        await kafka.time.advance(12, expire=[three.member_id])
        truth.at["silent"] = truth.at["came"] + 10_000
        await synced([one], await answered([one], [one.join()]))
        truth.at["alone"] = now()
        truth.ids = {"web-1": one.member_id, "web-2": two.member_id, "web-3": three.member_id}
        truth.events = [dict(event) for event in kafka.journal.events]
        for wire in wires:
            await wire.close()
    return truth


async def a_jam(directory: Path, version: str) -> Truth:
    """The offsets partition of billing stands still for 40 s while it tries to commit, and for a member that is alone."""
    truth = Truth(directory / "journal", directory / "data")
    async with cluster(directory, version) as kafka:
        now = kafka.time.now_ms
        one = await Member.connect(kafka, client_id="web-1")
        await one.enter()
        truth.log_partition = int(kafka.offsets_log("billing").name.rpartition("-")[2])
        assert commit_error(await one.commit(5)) is Err.NONE
        truth.at["last success"] = now()
        await kafka.time.advance(2)
        async with kafka.offsets_log("billing").stuck() as jam:
            truth.at["jam"] = now()
            await kafka.time.advance(3)
            truth.at["first attempt"] = now()
            for number in range(7):
                commit = one.commit(7 + number)
                await jam.pending(1)
                await kafka.time.advance(5)
                assert commit_error(await commit) is not Err.NONE
            await kafka.time.advance(JAM_S - 3 - 7 * 5)
            truth.at["heal"] = now()
        assert commit_error(await one.commit(20)) is Err.NONE
        await kafka.time.advance(60)
        assert commit_error(await one.commit(21)) is Err.NONE
        truth.ids = {"web-1": one.member_id}
        truth.events = [dict(event) for event in kafka.journal.events]
        await one.close()
    return truth


def commit_error(response: Any) -> Err:
    """The error of the first partition of an OffsetCommit's answer."""
    return Err(response.topics[0].partitions[0].error_code)


def lives_told(
    spark: Any, directory: Callable[[], Path], table: Callable[[Any, Any], Any], order: str
) -> dict[str, tuple[Truth, list[Any], list[Any]]]:
    """version -> what the script of `a_group_s_life` did, the rows of ``table(events, log)`` of its journal, those of its log alone."""
    truths = {version: asyncio.run(a_group_s_life(directory(), version)) for version in VERSIONS}
    journals = frame(spark, **{version: truth.events for version, truth in truths.items()})
    logs = [
        spark.read.format("consumer_offsets").option("runId", version).load(str(truth.data))
        for version, truth in truths.items()
    ]
    log = offset_log(logs[0].unionByName(logs[1])).cache()
    told, logged = by_run(table(journals, log), order), by_run(table(EVENTS.frame(spark), log), order)
    log.unpersist()
    return {version: (truth, told[version], logged[version]) for version, truth in truths.items()}

"""Events of brokers, and so of the groups whose offsets partitions they have."""

from __future__ import annotations

import asyncio
import time

from tests.incidents.stage import OFFSETS, Group, Stage
from tests.support.real_kafka import BrokerDied, election_frame, reassignment_frame
from tests.support.wire import Wire

__all__ = [
    "COMMON",
    "FROZEN",
    "MOVED",
    "STUCK_IN_ISR",
    "STUCK_SHRUNK",
    "UNCLEAN",
    "UNCLEAN_REPLICAS",
    "move_by_reassignment",
    "move_by_restart",
    "stuck",
    "unclean",
]

PARTITIONS = 9
FROZEN = {index: ([1, 3], [1, 2], [2, 1])[index % 3] for index in range(PARTITIONS)}
"""Replicas of the offsets topic where node 3 freezes: a third of the partitions has it as a follower."""
MOVED = {index: ([2, 3], [1, 3], [3, 1])[index % 3] for index in range(PARTITIONS)}
"""The same where node 2's partitions move."""
UNCLEAN_REPLICAS = {index: ([2, 3], [1, 3], [1, 3])[index % 3] for index in range(PARTITIONS)}
"""The same where node 2 dies with what node 3 does not have."""

COMMON = {"broker.heartbeat.interval.ms": 500, "offsets.topic.num.partitions": PARTITIONS}
STUCK_IN_ISR = {**COMMON, "broker.session.timeout.ms": 30_000, "replica.lag.time.max.ms": 60_000}
"""The follower stays in the ISR as long as it is frozen."""
STUCK_SHRUNK = {**COMMON, "broker.session.timeout.ms": 9000}
"""The controller fences it after 9 s: the ISR shrinks below min.insync.replicas."""
UNCLEAN = {**COMMON, "unclean.leader.election.enable": "true"}


def _of(replicas: dict[int, list[int]], node: int, *, leads: bool = False) -> list[int]:
    return [index for index, nodes in replicas.items() if (nodes[0] == node if leads else node in nodes)]


async def _groups(stage: Stage, partitions: list[int], number: int) -> list[Group]:
    return [
        await stage.group(members=2, log_partition=at, session_ms=10_000) for at in stage.rng.sample(partitions, number)
    ]


async def stuck(stage: Stage) -> None:
    """SIGSTOP of a follower, SIGCONT later: its partitions commit nothing, with min.insync.replicas=2 of 2."""
    in_isr = int(stage.kafka.config["broker.session.timeout.ms"]) > 20_000
    frozen = _of(FROZEN, 3)
    await _groups(stage, frozen, 3)
    await stage.any_time(20, 30)
    freeze_s = stage.rng.uniform(14, 22) if in_isr else stage.rng.uniform(25, 40)
    with stage.event(
        "stuck", "SIGSTOP of a follower under min.insync.replicas=2", freeze_s=round(freeze_s, 1), in_isr=in_isr
    ) as event:
        event.log_partitions = frozen
        stage.kafka.nodes[3].pause()
        await stage.pass_time(freeze_s)
        stage.kafka.nodes[3].resume()
        event.detail["resumed_ms"] = time.time_ns() // 1_000_000
        await _in_sync(stage, frozen, 2)
        await stage.pass_time(5)  # clients that back off, and one commit timeout
    await stage.any_time(20, 25)


async def _in_sync(stage: Stage, partitions: list[int], nodes: int) -> None:
    def seen() -> bool:
        found = stage.admin.list_topics(OFFSETS, timeout=20).topics[OFFSETS].partitions
        return all(len(found[index].isrs) >= nodes for index in partitions)

    await asyncio.to_thread(stage.poll_until, f"{nodes} replicas in the ISR of {partitions}", seen, 60)


async def _led_elsewhere(stage: Stage, partitions: list[int], node: int) -> None:
    def seen() -> bool:
        leaders = stage.leaders(OFFSETS)
        return all(leaders[index] not in (node, -1) for index in partitions)

    await asyncio.to_thread(stage.poll_until, f"{partitions} to be led by another than {node}", seen, 60)


async def _led_by(stage: Stage, partitions: list[int], node: int) -> None:
    def seen() -> bool:
        leaders = stage.leaders(OFFSETS)
        return all(leaders[index] == node for index in partitions)

    await asyncio.to_thread(stage.poll_until, f"{partitions} to be led by {node}", seen, 60)


async def _tell_controller(stage: Stage, request: bytes) -> None:
    wire = await Wire.connect(f"127.0.0.1:{stage.kafka.nodes[1].port}")
    wire.write_raw(request)
    await wire.next_frame()
    await wire.close()


async def move_by_restart(stage: Stage) -> None:
    """A broker is restarted (or crashes and is started again): its groups have another coordinator meanwhile, and then it again."""
    led, node = _of(MOVED, 2, leads=True), stage.kafka.nodes[2]
    await _groups(stage, led, 2)
    await stage.any_time(15, 25)
    how = stage.rng.choice(("SIGTERM", "SIGKILL"))
    with stage.event("move", f"{how} of the broker that led these partitions", how=how) as event:
        event.log_partitions = led
        await asyncio.to_thread(node.stop if how == "SIGTERM" else node.kill)
        await _led_elsewhere(stage, led, 2)
        await stage.pass_time(5)
    await stage.any_time(5, 12)
    node.start()
    await asyncio.to_thread(node.wait_ready, time.monotonic() + 90)
    await _in_sync(stage, led, 2)
    with stage.event("move", "the preferred leader is elected again", how="election") as event:
        event.log_partitions = led
        await _tell_controller(stage, election_frame(OFFSETS, led))
        await _led_by(stage, led, 2)
        await stage.pass_time(5)
    await stage.any_time(15, 20)


async def move_by_reassignment(stage: Stage) -> None:
    """kafka-reassign-partitions of two offsets partitions."""
    led = _of(MOVED, 3, leads=True)[:2]
    await _groups(stage, led, 2)
    await stage.any_time(35, 60)
    with stage.event("move", "reassigned to another broker", how="reassignment") as event:
        event.log_partitions = led
        await _tell_controller(stage, reassignment_frame(OFFSETS, {index: [1, 3] for index in led}))
        await _in_sync(stage, led, 2)
        await _tell_controller(stage, election_frame(OFFSETS, led))
        await _led_by(stage, led, 1)
        await stage.pass_time(5)
    await stage.any_time(15, 20)


async def unclean(stage: Stage) -> None:
    """The only in-sync replica dies, and one that had fallen behind is made leader: commits are lost."""
    led = _of(UNCLEAN_REPLICAS, 2, leads=True)
    groups = await _groups(stage, led, 2)
    second, third = stage.kafka.nodes[2], stage.kafka.nodes[3]
    await stage.any_time(12, 20)
    await asyncio.to_thread(third.stop)
    await stage.any_time(15, 20)  # commits that node 3 does not get
    with stage.event(
        "unclean election", "the only in-sync replica was killed, and one that had fallen behind was elected"
    ) as event:
        event.log_partitions = led
        await asyncio.to_thread(second.kill)
        third.start()
        await asyncio.to_thread(third.wait_ready, time.monotonic() + 90)
        deadline = time.monotonic() + 60
        while any(stage.leaders(OFFSETS)[index] != 3 for index in led):
            if time.monotonic() > deadline:
                raise BrokerDied("waited 60 s for node 3 to be elected", third.log())
            await _tell_controller(stage, election_frame(OFFSETS, led, unclean=True))
            await asyncio.sleep(1)
        await stage.pass_time(5)
        for group in groups:  # who begins anew reads again what was committed and lost
            for member in group.living:
                member.kill()
            await group.again(group.members[0])
            await group.settled()
    await stage.any_time(15, 20)

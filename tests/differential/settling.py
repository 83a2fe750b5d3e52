"""Waiting until a cluster of several brokers has come to rest: what its brokers say of it is the same and stays so.

These questions are no part of a sequence; nothing of them is compared. Each wait has a deadline and tells what did not come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from broker_sim.storage.partition_for import partition_for
from kafka_wire.errors import Err
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from tests.conformance.driver import clock_s
from tests.differential.symbols import OFFSETS

if TYPE_CHECKING:
    from tests.differential.play import Side

DEADLINE_S = 40.0
POLL_S = 0.004
CONSUMER, DEBUGGING_CONSUMER = -1, -2
GROUPS = ("g", "h", "nobody")
"""The groups of a play, behind its prefix."""

Leading = Mapping[tuple[str, int], int]


async def settled(
    side: Side, topics: Sequence[str], leading: Leading | None = None, *, preferred: bool = False
) -> None:
    """Until all brokers that are up show the same of these topics: every replica that is up in sync, `leading` (or with
    `preferred` the first replicas) leaders; and until these serve and have loaded their groups. Scopes learn it.
    """
    await _until(side, lambda: _unsettled(side, topics, leading or {}, preferred))


async def replicated(side: Side) -> None:
    """Until all replicas of the play's own topics have, and know to be committed, all that their leaders have, and the
    records of its groups are committed, too.
    """
    await _until(side, lambda: _behind(side))
    for group in GROUPS:
        await committed(side, side.scope.prefix + group)


async def committed(side: Side, group: str) -> None:
    """Until the group's offsets partition has committed all that is in it: 4.x shows of groups what is committed."""
    index = partition_for(group, len(side.scope.leaders[OFFSETS]))
    node, row = side.scope.leaders[OFFSETS][index], (OFFSETS, index)

    async def pending() -> str:
        ends = [await _ends(side, node, [row], who) for who in (CONSUMER, DEBUGGING_CONSUMER)]
        return "" if ends[0] == ends[1] else f"{row} to be committed: {ends}"

    if node in side.world.alive:
        await _until(side, pending)


NAMED_IDS = 9
"""The largest producer id that generators write down as a number, but for the ends of the type."""


async def has_producer_ids(side: Side, node: int) -> None:
    """Until the broker has its first block of producer ids, which comes from the controller, and has given out NAMED_IDS."""

    async def none() -> str:
        answer = await side.ask(InitProducerIdRequest(None, 1000), 1, node)
        return f"node {node} to have producer ids" if answer.error_code or answer.producer_id <= NAMED_IDS else ""

    await _until(side, none)


async def _until(side: Side, missing: Callable[[], Awaitable[str]]) -> None:
    give_up = clock_s() + DEADLINE_S
    while why := await missing():
        if clock_s() > give_up:
            raise TimeoutError(f"waited {DEADLINE_S:g} s for {why} at {side.peer.name}")
        await asyncio.sleep(POLL_S)


# ---- who leads


async def _unsettled(side: Side, topics: Sequence[str], leading: Leading, preferred: bool) -> str:
    """Return a condition that does not hold yet; "" when all do."""
    alive = sorted(side.world.alive)
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in topics], False)
    answers = await asyncio.gather(*(side.ask(request, 9, node) for node in alive))
    first = _shape(answers[0])
    if any(_shape(answer) != first for answer in answers):
        return "all brokers to say the same"
    if first[0] != alive:
        return f"brokers {alive} to be there, not {first[0]}"
    for topic in answers[0].topics:
        for row in topic.partitions:
            up = [node for node in row.replica_nodes if node in alive]
            name = f"{topic.name}-{row.partition_index}"
            if up and sorted(row.isr_nodes) != sorted(up):
                return f"the ISR of {name} to be {up}, not {row.isr_nodes}"
            wanted = up[0] if up and preferred else leading.get((topic.name, row.partition_index), row.leader_id)
            if row.leader_id != wanted or (up and row.leader_id not in up):
                return f"node {wanted} to lead {name}, not node {row.leader_id}"
    for topic in answers[0].topics:
        if topic.error_code == Err.NONE:
            side.scope.learn_leaders(topic)
    return await _unserved(side, topics) or (await _uncoordinated(side) if OFFSETS in topics else "")


def _shape(answer: Any) -> Any:
    topics = [
        (topic.name, topic.error_code, sorted(topic.partitions, key=lambda row: row.partition_index))
        for topic in answer.topics
    ]
    return sorted(broker.node_id for broker in answer.brokers), sorted(topics, key=lambda topic: topic[0])


def _led(side: Side, topics: Sequence[str]) -> Iterator[tuple[int, list[tuple[str, int]]]]:
    """(node, the partitions of these topics that it leads)"""
    for node in sorted(side.world.alive):
        rows = [
            (topic, index)
            for topic in topics
            for index, leader in side.scope.leaders.get(topic, {}).items()
            if leader == node
        ]
        if rows:
            yield node, rows


async def _ends(side: Side, node: int, rows: Sequence[tuple[str, int]], replica_id: int) -> dict[tuple[str, int], Any]:
    """Return the ends of logs, as a consumer or (the debugging one) a replica sees them: the offset, None for an error."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in rows:
        topics.setdefault(topic, []).append(ListOffsetsPartition(index, timestamp=-1))
    request = ListOffsetsRequest(replica_id, 0, [ListOffsetsTopic(name, asked) for name, asked in topics.items()])
    answer = await side.ask(request, 4, node)
    return {
        (topic.name, row.partition_index): None if row.error_code else row.offset
        for topic in answer.topics
        for row in topic.partitions
    }


async def _unserved(side: Side, topics: Sequence[str]) -> str:
    for node, rows in _led(side, topics):
        ends = await _ends(side, node, rows, CONSUMER)
        silent = [row for row, end in ends.items() if end is None]
        if silent:
            return f"node {node} to serve {silent}"
    return ""


@cache
def _probe(index: int, count: int) -> str:
    """The name of a group of that offsets partition."""
    return next(name for name in (f"probe-{number}" for number in range(10**6)) if partition_for(name, count) == index)


async def _uncoordinated(side: Side) -> str:
    leaders = side.scope.leaders[OFFSETS]
    groups = {_probe(index, len(leaders)): index for index in leaders}
    for node in sorted(side.world.alive):
        answer = await side.ask(DescribeGroupsRequest(list(groups)), 5, node)
        for shown in answer.groups:
            index = groups[shown.group_id]
            wanted = Err.NONE if leaders[index] == node else Err.NOT_COORDINATOR
            if shown.error_code != wanted:
                return f"node {node} to answer {wanted.name} for groups of offsets partition {index}, not {shown.error_code}"
    return ""


# ---- who has what


async def _behind(side: Side) -> str:
    topics = [name for name in side.scope.leaders if name.startswith(side.scope.prefix)]
    for node, rows in _led(side, topics):
        committed, written = [await _ends(side, node, rows, who) for who in (CONSUMER, DEBUGGING_CONSUMER)]
        for row in rows:
            if committed[row] != written[row] and written[row] is not None:
                return f"{row} to be committed up to {written[row]}, not {committed[row]}"
            for other in sorted(side.world.alive.intersection(side.scope.replicas.get(row, ())) - {node}):
                known = await _follower(side, other, *row, written[row])
                if known != written[row]:
                    return f"node {other} to know that {row} is committed up to {written[row]}, not {known}"
    return ""


async def _follower(side: Side, node: int, topic: str, index: int, end: int) -> int:
    """The high watermark that a follower knows."""
    asked = FetchTopic(topic, partitions=[FetchPartition(index, fetch_offset=end, partition_max_bytes=1)])
    answer = await side.ask(FetchRequest(max_wait_ms=0, max_bytes=1, topics=[asked]), 12, node)
    high_watermark: int = answer.responses[0].partitions[0].high_watermark
    return high_watermark

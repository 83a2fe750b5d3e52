"""A group on the raw wire: what the durability tests commit, and how they look at it."""

from __future__ import annotations

import asyncio

from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.support.processes import DEADLINE_S
from tests.support.wire import Wire


def commit_request(group: str, topic: str, offsets: dict[int, int]) -> OffsetCommitRequest:
    """An assign-mode commit."""
    parts = [OffsetCommitRequestPartition(partition, offset) for partition, offset in offsets.items()]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=parts)])


async def coordinator_is_there(wire: Wire, group: str) -> None:
    """Ask until the offsets topic exists and its log is loaded."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_S
    while True:
        found = (await wire.send(FindCoordinatorRequest(coordinator_keys=[group]), 4)).coordinators[0].error_code
        if found == Err.NONE:
            fetched = await wire.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)]), 8)
            found = fetched.groups[0].error_code
            if found == Err.NONE:
                return
        if loop.time() > deadline:
            raise AssertionError(f"no coordinator of {group!r} within {DEADLINE_S} s: {Err(found).name}")
        await asyncio.sleep(0.01)  # a poll with a deadline


async def committed(wire: Wire, group: str) -> dict[tuple[str, int], int]:
    """All committed offsets of a group."""
    await coordinator_is_there(wire, group)
    answer = await wire.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)]), 8)
    return {(t.name, p.partition_index): p.committed_offset for t in answer.groups[0].topics for p in t.partitions}

"""One OffsetCommit that no well-behaved client would send: as another member, with another generation, past any client library.

It goes over a connection of its own to the group's coordinator, as a client's would.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker_sim.common.text import UsageError
from broker_sim.scenario.wire import Wire
from broker_sim.storage.checkpoints import partition_of_dir
from kafka_wire.api_keys import ApiKey
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster

__all__ = ["CLIENT_ID", "commit_as"]

_VERSION = 7  # the last one that is not flexible: with instance ids, without epoch errors
_TIMEOUT_S = 60.0
CLIENT_ID = "scenario"


async def commit_as(cluster: Cluster, group: str, member: str, generation: int | str, offsets: dict[str, int]) -> Err:
    """Commit ``offsets`` ({"orders-0": 5}) and return the first partition's error. ``member``: a client id, instance id or member id of
    the group, "" for none; ``generation``: a number, "now" or "old" (one less). Raises UsageError."""
    handle = cluster.group(group)
    members = {name: m.member_id for m in handle.members for name in (m.client_id, m.instance_id, m.member_id) if name}
    current = handle.generation
    number = {"now": current, "old": current - 1}.get(str(generation), generation)
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for log, offset in offsets.items():
        named = partition_of_dir(log)
        if named is None:
            raise UsageError(f"{log!r} is not a partition, as in orders-0")
        topics.setdefault(named[0], []).append(OffsetCommitRequestPartition(named[1], offset))
    request = OffsetCommitRequest(
        group,
        int(number),
        members.get(member, member),
        topics=[OffsetCommitRequestTopic(name, parts) for name, parts in topics.items()],
    )
    node = handle.coordinator
    broker = cluster.state.brokers[node if node is not None else cluster.brokers[0].node_id]
    wire = Wire(CLIENT_ID)
    async with asyncio.timeout(_TIMEOUT_S):
        await wire.connect(broker.host, broker.port)
        try:
            response: OffsetCommitResponse = await wire.ask(
                ApiKey.OFFSET_COMMIT, _VERSION, request, OffsetCommitResponse
            )
        finally:
            wire.close()
    return Err(response.topics[0].partitions[0].error_code)

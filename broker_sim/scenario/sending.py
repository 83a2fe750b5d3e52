"""Requests that no consumer would send: an OffsetCommit as another member, with another generation, past any client library; and what
an admin client asks for, the end of a group or of its offsets.

Each goes over a connection of its own to the group's coordinator, as a client's would.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError
from broker_sim.scenario.clients import Access
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
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster

__all__ = ["CLIENT_ID", "commit_as", "delete_as"]

_VERSION = 7  # the last one that is not flexible: with instance ids, without epoch errors
_EPOCHS, _EPOCH_VERSION = ("consumer", "streams"), 9  # the first one that members of these groups may use
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
        topic, index = _partition(log)
        topics.setdefault(topic, []).append(OffsetCommitRequestPartition(index, offset))
    request = OffsetCommitRequest(
        group,
        int(number),
        members.get(member, member),
        topics=[OffsetCommitRequestTopic(name, partitions=parts) for name, parts in topics.items()],
    )
    version = _EPOCH_VERSION if handle.type in _EPOCHS else _VERSION
    response: OffsetCommitResponse = await _ask(
        cluster, group, ApiKey.OFFSET_COMMIT, version, request, OffsetCommitResponse
    )
    return Err(response.topics[0].partitions[0].error_code)


async def delete_as(cluster: Cluster, api: str, group: str, offsets: dict[str, int] | None = None) -> Err:
    """Send ``DeleteGroups`` or ``OffsetDelete`` (of the partitions of ``offsets``) as an admin client does. Returns the first error.
    Raises UsageError."""
    if api == "DeleteGroups":
        ends: DeleteGroupsResponse = await _ask(
            cluster, group, ApiKey.DELETE_GROUPS, 1, DeleteGroupsRequest([group]), DeleteGroupsResponse
        )
        return Err(ends.results[0].error_code)
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for log in offsets or ():
        topic, index = _partition(log)
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(index))
    request = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(name, parts) for name, parts in topics.items()])
    deleted: OffsetDeleteResponse = await _ask(cluster, group, ApiKey.OFFSET_DELETE, 0, request, OffsetDeleteResponse)
    return Err(deleted.error_code or deleted.topics[0].partitions[0].error_code)


def _partition(log: str) -> tuple[str, int]:
    named = partition_of_dir(log)
    if named is None:
        raise UsageError(f"{log!r} is not a partition (expected e.g. orders-0)")
    return named


async def _ask(cluster: Cluster, group: str, api: ApiKey, version: int, request: Any, answer: type[Any]) -> Any:
    """The answer of the group's coordinator, over a connection of its own."""
    node = cluster.group(group).coordinator
    broker = cluster.state.brokers[node if node is not None else cluster.brokers[0].node_id]
    wire = Wire(CLIENT_ID, Access.to(cluster).security)
    async with asyncio.timeout(_TIMEOUT_S):
        await wire.connect(broker.host, broker.port)
        try:
            return await wire.ask(api, version, request, answer)
        finally:
            wire.close()

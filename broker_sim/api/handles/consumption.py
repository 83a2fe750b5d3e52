"""Whether the owners of a group's partitions have begun to read them.

A group is Stable before its members read: after SyncGroup a consumer looks up committed offsets, and where there are none its
``auto.offset.reset`` asks for the log's end. With ``latest`` a record that is sent in between is never delivered. The first Fetch of a
partition fixes where its owner reads on.

Rules:
1. A Fetch counts for a member if it is answered without an error for that partition, and came from the client id and host of the member
   after its last assignment: its SyncGroup, or the heartbeat that changed its assignment (KIP-848).
2. Partitions that a fetch session goes on with (KIP-227) are fetched, though the request does not name them. So the handler of Fetch
   notes who has read (``Partition.readers``), by the number that the request has in the journal.
3. Members with the same client id and host can't be distinguished: a Fetch of one counts for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker_sim.api.handles.groups import MemberView
    from broker_sim.metadata.cluster_state import ClusterState

__all__ = ["Consumption"]


class Consumption:
    """Follows a group's assignments through the journal: ``unread`` are the partitions whose owners have not fetched since."""

    def __init__(self, group_id: str, events: Iterable[Mapping[str, Any]]) -> None:
        self._group_id = group_id
        self._latest = 0
        """The number of the last request that was read."""
        self._since: dict[str, int] = {}
        """Member id or instance id -> the number of the request after which a Fetch counts."""
        self._assigned: dict[str, object] = {}
        for event in events:
            self.see(event)

    def see(self, event: Mapping[str, Any]) -> None:
        """The next event of the journal, or one that was seen before."""
        kind = event["event"]
        if kind == "request":
            self._latest = max(self._latest, event["request"])
            if event["api"] == "SyncGroup" and event.get("group") == self._group_id and "member" in event:
                self._since[event["member"]] = self._latest
        elif kind == "epochs" and event["group"] == self._group_id:
            for member in event["members"]:
                if self._assigned.get(member["member"]) != member["assignment"]:
                    self._assigned[member["member"]] = member["assignment"]
                    self._since[member["member"]] = self._latest

    def unread(self, state: ClusterState, members: Iterable[MemberView]) -> list[tuple[str, int, MemberView]]:
        """Topic, partition and owner of those that are assigned and that their owner has not fetched."""
        return [
            (topic, index, member)
            for member in members
            for topic, indexes in sorted((member.assignment or {}).items())
            for index in indexes
            if not self._reads(state, member, topic, index)
        ]

    def _reads(self, state: ClusterState, member: MemberView, topic: str, index: int) -> bool:
        partition = state.partition(topic, index)
        if partition is None:
            return True  # the topic is deleted: there is nothing to read
        read = partition.readers.get((member.client_id, member.client_host), 0)
        since = max(self._since.get(member.member_id, 0), self._since.get(member.instance_id or "", 0))
        return read > since

"""Last requests of the members of an epoch-based group, and whether the connections of these were closed.

Rules:
1. A member is dead if the connection of its last request was closed without a leaving heartbeat: its session goes on without it. A
   connection that was closed before its coordinator loaded the group is no sign of that: the broker may have closed it.
2. A session runs from the last heartbeat: a commit does not prolong it (GroupMetadataManager.scheduleConsumerGroupSessionTimeout).
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_sim.common.text import clock
from broker_sim.explain.epoch_steps import MemberSnapshot
from broker_sim.explain.events import Event, number, text
from broker_sim.explain.phrases import an

__all__ = ["HEARTBEATS", "KEEP_ALIVE", "LEFT_FOR_A_WHILE", "LastRequests"]

HEARTBEATS = {
    "ConsumerGroupHeartbeat": "consumer",
    "ShareGroupHeartbeat": "share",
    "StreamsGroupHeartbeat": "streams",
}
"""API -> the kind of its groups."""
KEEP_ALIVE = (*HEARTBEATS, "Heartbeat", "JoinGroup", "SyncGroup")
"""APIs that prolong a session, classic members of consumer groups included."""
LEFT_FOR_A_WHILE = -2
"""The member epoch of a static member that has left and may come back."""


@dataclass(frozen=True, slots=True)
class _Request:
    api: str
    ts_ms: int
    connection: int


class LastRequests:
    """Reads the requests of one group, and connections."""

    def __init__(self) -> None:
        self._last: dict[str, _Request] = {}
        self._heartbeats: dict[str, int] = {}
        self._closed: dict[int, int] = {}
        self._loaded_ms = 0

    def asked(self, event: Event) -> None:
        """A request of a member."""
        member, api, ts_ms = text(event, "member"), text(event, "api") or "?", number(event, "ts_ms") or 0
        if member is not None:
            self._last[member] = _Request(api, ts_ms, number(event, "connection") or 0)
            if api in KEEP_ALIVE:
                self._heartbeats[member] = ts_ms

    def connection(self, event: Event) -> None:
        """A connection was opened or closed."""
        if event.get("action") == "closed":
            self._closed[number(event, "connection") or 0] = number(event, "ts_ms") or 0

    def loaded(self, ts_ms: int) -> None:
        """The group's coordinator was loaded or unloaded."""
        self._loaded_ms = ts_ms

    def died_ms(self, member: MemberSnapshot) -> int | None:
        """Time at which the connection of a member's last request was closed, if the member is dead since then (rule 1); else None."""
        last = self._last.get(member.member)
        closed_ms = None if last is None or member.epoch == LEFT_FOR_A_WHILE else self._closed.get(last.connection)
        return closed_ms if closed_ms is not None and closed_ms > self._loaded_ms else None

    def session_ends_ms(self, member: MemberSnapshot) -> int | None:
        """Time at which a member's session ends unless it sends a heartbeat before; None if that is not known."""
        since_ms, session_ms = self._heartbeats.get(member.member), number(member.shown, "session_timeout_ms")
        return None if since_ms is None or session_ms is None else max(since_ms, self._loaded_ms) + session_ms

    def words(self, member: str) -> str:
        """Clause about a member: ``its last request was a ConsumerGroupHeartbeat at 10:00:03.000; its connection was closed at ..``; ""
        if it sent none."""
        last = self._last.get(member)
        if last is None:
            return ""
        words = f"its last request was {an(last.api)} at {clock(last.ts_ms)}"
        closed_ms = self._closed.get(last.connection)
        return words if closed_ms is None else f"{words}; its connection was closed at {clock(closed_ms)}"

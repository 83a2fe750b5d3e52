"""The definition of a rebalance that explanations, pictures and the pipeline's tables share.

    reader = Rebalances(Rebalance)
    for step in steps:                       # all steps of one group, in order
        for turn, rebalance in reader.take(step):
            ...                              # "began", "closed", "ended": what the step did, for callers that add to it
    reader.rebalances                           # all rebalances of the group, the last one perhaps unfinished

Rules:
1. A rebalance begins with a step that enters PreparingRebalance, or passes through it: the generation was incremented. Its join phase
   ends with the first of CompletingRebalance, Stable and Empty.
2. It ends at Stable or Empty; "dead" when the group is deleted; "moved" when its coordinator was unloaded, or when the group is
   loaded without an event of the unload: a broker that was killed writes none; "failed" when the next one begins before.
3. The first step that is known of a group may find it within a rebalance. That one is not ``whole``: its beginning and its
   cause, and in CompletingRebalance the end of its join phase, are before the journal.
4. Requests are not read here, and a step depends on itself and the steps before it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from broker_sim.explain.events import Call, GroupSnapshot
from kafka_wire.group_states import GROUP_STATES

__all__ = [
    "COMPLETING",
    "DEAD",
    "EMPTY",
    "PREPARING",
    "STABLE",
    "Cause",
    "End",
    "GroupStep",
    "Kind",
    "Phases",
    "Rebalances",
]

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GROUP_STATES

Kind = Literal[
    "first_member",  # joined an empty group
    "joined",
    "left",
    "session_expired",
    "pending_expired",  # got MEMBER_ID_REQUIRED and did not rejoin in time
    "metadata_changed",  # a follower with another subscription
    "leader_rejoined",
    "rejoined",
    "replaced",  # a static member with a new member id
    "max_size_reached",  # group.max.size: a member was removed
    "revocation_timeout",  # of a consumer, share or streams group: a member did not revoke, or a classic one rejoin, in time
    "converted",  # to the consumer protocol (KIP-848), or back
    "sync_timeout",  # sent no SyncGroup within the rebalance timeout
    "append_failed",  # the assignment could not be stored
    "appended",
    "rebalance_timer",  # the join phase ended by its timer
    "loaded",
    "over_capacity",  # loaded with more than group.max.size members
    "unloaded",
    "deleted",
    "unknown",
]
"""Kinds of causes of the coordinator's steps."""

End = Literal["", "stable", "empty", "failed", "moved", "dead"]
"""End of a rebalance; "" while it is in progress."""

Turn = Literal["found", "began", "within", "closed", "ended"]
"""Effect of a step on a rebalance: the first step found it in progress, began it, happened during its join phase, ended the join phase,
ended the rebalance. One step may do several of these, in this order."""


@dataclass(slots=True)
class Cause:
    """Cause of a rebalance, or another event during its join phase. Fields that ``kind`` does not need may be unset."""

    kind: Kind
    ts_ms: int
    members: list[str] = field(default_factory=list)
    error: str | None = None  # append_failed: the log's
    reason: str | None = None  # the client's own reason
    by: str = ""  # left, deleted: who removed the members, or the group, if not the members themselves
    call: Call | None = None
    added_topics: list[str] = field(default_factory=list)
    lost_topics: list[str] = field(default_factory=list)
    grown_topics: list[str] = field(default_factory=list)  # "orders (2 to 6 partitions)": what grew before
    last_call: Call | None = None  # session_expired: the last request of the member
    closed_ms: int | None = None  # session_expired: when its connection closed
    protocol_type: str = ""  # of the group; "" where it isn't known
    metadata: str = ""  # metadata_changed: the change of a member's metadata besides its subscription
    after: Call | None = None  # leader_rejoined, metadata_changed: the error after which it rejoined


@dataclass(frozen=True, slots=True, eq=False)
class GroupStep:
    """One step of a coordinator with one group; None: the group is not in that coordinator.

    A journal that begins late shows existing groups as loaded: ``before`` is the same as ``after`` then.
    """

    ts_ms: int
    before: GroupSnapshot | None
    after: GroupSnapshot | None
    cause: Cause


@dataclass(slots=True, eq=False)
class Phases:
    """The phases of a rebalance, ms of the broker's clock. ``found_in``: the state in which the first step found it, "" where its
    beginning was seen (rule 3); else ``began_ms`` is the first moment that is known."""

    began_ms: int
    generation_before: int
    cause: Cause
    from_empty: bool = False
    found_in: str = ""
    closed_ms: int | None = None
    generation: int | None = None  # the resulting one; None: its join phase did not end
    end: End = ""
    ended_ms: int | None = None
    ended_by: Cause | None = None
    within: list[Cause] = field(
        default_factory=list, repr=False
    )  # causes of the steps during the join phase, without the first
    closing_cause: Cause | None = None  # what ended the join phase
    late: list[str] = field(default_factory=list)  # members that were removed as it closed
    leader: str | None = None
    synced_ms: int | None = None  # when the leader's SyncGroup came
    unsynced: list[str] = field(default_factory=list, repr=False)  # members whose SyncGroup is not deferred
    disconnected: list[str] = field(default_factory=list, repr=False)
    # those of ``late`` and ``unsynced`` whose connection was closed before their phase ended: they sent no LeaveGroup
    left_ms: int | None = field(default=None, repr=False)  # since when the group, Stable at the end, is Stable no more

    @property
    def whole(self) -> bool:
        """Whether its beginning was seen."""
        return not self.found_in


R = TypeVar("R", bound=Phases)


class Rebalances(Generic[R]):
    """Reads the steps of one group. ``kind``: what it makes, ``Phases`` or a class with more to it, whose own fields have defaults.
    ``closed_ms``: when the connection was closed over which a member sent its last request so far; None if it is open."""

    def __init__(self, kind: type[R], closed_ms: Callable[[str], int | None] = lambda member: None) -> None:
        self._kind = kind
        self._closed_ms = closed_ms
        self.rebalances: list[R] = []
        self.open: R | None = None
        """The one in progress."""
        self.since_ms: int | None = None
        """Time at which the steps begin: that of the first one, unless set. A rebalance found in progress begins there."""
        self._first = True

    def take(self, step: GroupStep) -> list[tuple[Turn, R]]:
        """The next step; returns what it did."""
        turns: list[tuple[Turn, R]] = []
        before, after, kind = step.before, step.after, step.cause.kind
        if self._first:
            self._first = False
            if before is not None and before.state in (PREPARING, COMPLETING):
                turns.append(("found", self._under_way(before, step)))
        if self.open is not None and (kind == "unloaded" or (kind == "loaded" and not turns)):
            turns.append(("ended", self._end("moved", step)))
        begun = begins(before, after)
        last = self.rebalances[-1] if self.rebalances else None
        if last is not None and last.end == "stable" and last.left_ms is None:
            last.left_ms = step.ts_ms if begun or after is None or after.state != STABLE else None
        if after is None or after.state == DEAD:
            if self.open is not None:
                turns.append(("ended", self._end("dead", step)))
            return turns
        if begun:
            if self.open is not None:
                turns.append(("ended", self._end("failed", step)))
            turns.append(("began", self._begin(before, step)))
        elif self.open is not None and self.open.closed_ms is None:
            self.open.within.append(step.cause)
            turns.append(("within", self.open))
        if self.open is None:
            return turns
        if after.state in (COMPLETING, STABLE, EMPTY) and self.open.closed_ms is None:
            self.open.closed_ms, self.open.generation = step.ts_ms, after.generation
            self._close(step, before, after)
            turns.append(("closed", self.open))
        elif self.open.closed_ms is not None and self.open.synced_ms is None:
            leader = after.members.get(self.open.leader or "")
            if after.state == STABLE or (leader is not None and leader.get("deferred") == "SyncGroup"):
                self.open.synced_ms = step.ts_ms
        if after.state == COMPLETING:
            synced = {name for name, member in after.members.items() if member.get("deferred") == "SyncGroup"}
            self.open.unsynced = [name for name in self.open.unsynced if name not in synced]
        if after.state == STABLE:
            turns.append(("ended", self._end("stable", step)))
        elif after.state == EMPTY:
            turns.append(("ended", self._end("empty", step)))
        return turns

    def _under_way(self, before: GroupSnapshot, step: GroupStep) -> R:
        since_ms = step.ts_ms if self.since_ms is None else self.since_ms
        rebalance = self._kind(since_ms, before.generation, Cause("unknown", since_ms), found_in=before.state)
        if before.state == COMPLETING:
            rebalance.generation_before = before.generation - 1
            rebalance.generation, rebalance.closed_ms = before.generation, since_ms
        self.rebalances.append(rebalance)
        self.open = rebalance
        return rebalance

    def _begin(self, before: GroupSnapshot | None, step: GroupStep) -> R:
        generation = 0 if before is None else before.generation
        from_empty = before is None or before.state in (EMPTY, DEAD)
        self.open = self._kind(step.ts_ms, generation, step.cause, from_empty)
        self.rebalances.append(self.open)
        return self.open

    def _close(self, step: GroupStep, before: GroupSnapshot | None, after: GroupSnapshot) -> None:
        assert self.open is not None
        self.open.closing_cause, self.open.leader = step.cause, after.leader
        had = () if before is None else before.members
        if step.cause.kind == "rebalance_timer":
            self.open.late = [name for name in had if name not in after.members]
            self._note_disconnected(self.open, self.open.late)
        self.open.unsynced = list(after.members)

    def _end(self, end: End, step: GroupStep) -> R:
        assert self.open is not None
        ended, self.open = self.open, None
        ended.end, ended.ended_ms, ended.ended_by = end, step.ts_ms, step.cause
        self._note_disconnected(ended, ended.unsynced)
        return ended

    def _note_disconnected(self, rebalance: R, members: list[str]) -> None:
        rebalance.disconnected += [name for name in members if self._closed_ms(name) is not None]


def begins(before: GroupSnapshot | None, after: GroupSnapshot | None) -> bool:
    """Rule 1: whether a rebalance begins with a step."""
    if after is None:
        return False
    went_up = before is not None and after.generation > before.generation
    return (after.state == PREPARING or went_up) and (before is None or before.state != PREPARING)

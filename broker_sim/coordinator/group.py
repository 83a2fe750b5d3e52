"""`Group`: the interface of all kinds of groups, and their committed and pending offsets.

Each kind of groups is a package beside this module (``classic``): its subclass of `Group`, its request handlers, and its entry in
``shard``. This module has what all kinds share: committed offsets, pending transactional offsets, and what readers see.

Source: Group.java (4.x); 3.x has classic groups alone, with the same checks in GroupMetadataManager.scala.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from broker_sim.coordinator.outcome import CommitOffsets, Offset, RepeatedCommit, RepeatedLayout, TimerKey
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.coordinator.policy import Policy
    from broker_sim.coordinator.records import Record
    from broker_sim.coordinator.topics import Topics
    from kafka_wire.messages.k15_describe_groups import DescribedGroup

__all__ = ["Group", "PendingTxnOffset"]


@dataclass(slots=True)
class PendingTxnOffset:
    """Offsets of one partition in open transactions: producer id -> position in the log, and the offset. ``committed_at``: position of
    the last other commit of the partition since; -1 without one."""

    by_producer: dict[int, tuple[int, Offset]] = field(default_factory=dict)
    committed_at: int = -1


@dataclass(slots=True, eq=False)
class Group(ABC):
    """One group. ``offsets``, ``pending_txn_offsets`` and the stored records of a kind are hard state, which only ``store`` writes; the
    rest is working state."""

    kind: ClassVar[str]
    """The group type that ListGroups returns: ``classic``."""

    group_id: str
    visible_at_high_watermark: int = 0  # readers of committed state see the group from this high watermark on
    version: int = 0  # counts the changes that can change responses, except for those of offsets and ``current_of``
    offset_changes: int = 0  # counts every change of ``offsets``
    never_settled_commits: dict[tuple[str, int], None] = field(default_factory=dict)  # refused, and pending for ever
    pending_txn_offsets: dict[tuple[str, int], PendingTxnOffset] = field(default_factory=dict)
    _offsets: dict[str, dict[int, Offset]] = field(default_factory=dict)
    _repeated: dict[RepeatedLayout, RepeatedCommit] = field(default_factory=dict)
    # newer than _offsets: the last commit of each layout

    # properties of each kind

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The name of its state in responses."""

    @property
    @abstractmethod
    def listed_protocol_type(self) -> str:
        """The group's protocol type in ListGroups; "" for none."""

    @property
    @abstractmethod
    def is_dead(self) -> bool:
        """Whether it was deleted; references to it may still exist."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether it has no members, so that it may be deleted and its offsets expire."""

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Whether it has no members and no pending members."""

    @property
    @abstractmethod
    def reads_topics(self) -> bool:
        """Whether its members' subscriptions are known, so that OffsetDelete can spare subscribed topics."""

    @property
    def never_expires(self) -> bool:
        """Whether it is kept although it is empty and has no offsets."""
        return False

    @abstractmethod
    def validate_commit(self, request: CommitOffsets) -> Err:
        """The error of an OffsetCommit or TxnOffsetCommit of this member; NONE if it may commit."""

    def stale_partitions(self, request: CommitOffsets, topics: Topics) -> Mapping[tuple[str, int], Err]:
        """The partitions of a valid commit that are refused, with their error: the member hasn't had them since the epoch of its
        request."""
        return {}

    @abstractmethod
    def validate_fetch(self, member_id: str | None, member_epoch: int) -> Err:
        """The error of an OffsetFetch, which names a member since v9; NONE if the member may fetch."""

    @abstractmethod
    def session_of(self, member_id: str) -> tuple[TimerKey, int] | None:
        """The timer of the session that a commit of this member restarts, and the session timeout in ms."""

    def current_of(self, member_id: str) -> object | None:
        """The member's epoch and assignment, another object after each change, which ``version`` does not count. None for kinds of
        groups whose ``version`` counts all."""
        return None

    def repeats(self, member_id: str) -> bool:
        """Whether the response to a request that says nothing new is the same as long as ``version`` and ``current_of`` are."""
        return True

    @abstractmethod
    def subscribed(self, topic: str) -> bool:
        """Whether any member subscribes to ``topic``."""

    @abstractmethod
    def retention_begins_ms(self, topic: str, offset: Offset) -> int | None:
        """Since when, in ms, the retention of a committed offset runs; None while it does not run."""

    @abstractmethod
    def tombstones(self, policy: Policy) -> list[Record]:
        """The tombstones that delete it, without those of its offsets."""

    @abstractmethod
    def described(self, policy: Policy) -> DescribedGroup:
        """The group's row in DescribeGroups, the request for classic groups."""

    @abstractmethod
    def resume(self) -> bool:
        """Restore the working state after the log was loaded. Returns False if the log has no record of the group itself."""

    @abstractmethod
    def end(self) -> None:
        """Mark it as deleted for remaining references."""

    # offsets

    @property
    def has_pending_offsets(self) -> bool:
        """Whether offsets are pending that are not committed offsets yet: in open transactions, or refused for ever."""
        return bool(self.pending_txn_offsets or self.never_settled_commits)

    @property
    def offsets(self) -> dict[str, dict[int, Offset]]:
        """The committed offsets, by topic and partition; only `store` changes them."""
        if self._repeated:
            self._apply_repeated()
        return self._offsets

    def put_offset(self, topic: str, partition: int, offset: Offset) -> None:
        """Set a committed offset; called by `store`."""
        if self._repeated:
            self._apply_repeated()
        self.offset_changes += 1
        partitions = self._offsets.get(topic)
        if partitions is None:
            partitions = self._offsets[topic] = {}
        partitions[partition] = offset

    def remove_offset(self, topic: str, partition: int) -> None:
        """Remove a committed offset, whose tombstone is committed; called by `store`."""
        if self._repeated:
            self._apply_repeated()
        partitions = self._offsets.get(topic)
        if partitions is not None:
            self.offset_changes += 1
            partitions.pop(partition, None)
            if not partitions:
                del self._offsets[topic]

    def detach_offsets(self) -> None:
        """Drop the offsets without changing the dicts, which a succeeding group may share; called by `store`."""
        self.offset_changes += 1
        self._offsets, self._repeated = {}, {}

    def put_repeated(self, commit: RepeatedCommit) -> None:
        """Store a committed repeated commit; called by `store`. Its offsets are unpacked when ``offsets`` is read."""
        self.offset_changes += 1
        repeated = self._repeated
        layout = commit.layout
        if layout not in repeated and not all(layout.partitions.isdisjoint(other.partitions) for other in repeated):
            self._apply_repeated()  # of two layouts with a partition in common the later one's offset counts
        repeated[layout] = commit

    def _apply_repeated(self) -> None:
        for commit in self._repeated.values():
            for topic, partition, offset in commit.offsets():
                self._offsets.setdefault(topic, {})[partition] = offset
        self._repeated.clear()

    def adopt_offsets_of(self, other: Group) -> None:
        """Share the offsets of ``other``, the group of another kind that this one replaces."""
        self._offsets, self._repeated, self.pending_txn_offsets = (
            other._offsets,
            other._repeated,
            other.pending_txn_offsets,
        )
        self.never_settled_commits, self.visible_at_high_watermark = (
            other.never_settled_commits,
            other.visible_at_high_watermark,
        )
        other.version += 1

    def shares_offsets_with(self, other: Group) -> bool:
        """Whether one of them has replaced the other and shares its offsets."""
        return self._offsets is other._offsets

    def offset(self, topic: str, partition: int) -> Offset | None:
        """The committed offset, if any."""
        partitions = self.offsets.get(topic)
        return None if partitions is None else partitions.get(partition)

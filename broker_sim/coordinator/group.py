"""A group as the shard, the log and the other rooms see it, whatever its kind: `Group` is the interface, and its offsets.

A kind of groups is a package beside this module (``classic``): its subclass of `Group`, the rooms of its requests, and its entry in
``shard``. What all kinds share stands here: committed offsets, what is staged, and what a reader may see.

Source: the interface of Group.java (4.x); 3.x has classic groups alone, with the same questions asked in GroupMetadataManager.scala.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from broker_sim.coordinator.outcome import CommitOffsets, Layout, Offset, RepeatedCommit, TimerKey
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.coordinator.policy import Policy
    from broker_sim.coordinator.records import Record
    from broker_sim.coordinator.topics import Topics
    from kafka_wire.messages.k15_describe_groups import DescribedGroup

__all__ = ["Group", "Staged"]


@dataclass(slots=True)
class Staged:
    """What open transactions commit for one partition: producer id -> position in the log, and the offset. ``committed_at``: where
    the log has the last commit that counts already, as far as it came while this was open; -1 else."""

    by_producer: dict[int, tuple[int, Offset]] = field(default_factory=dict)
    committed_at: int = -1


@dataclass(slots=True, eq=False)
class Group(ABC):
    """One group. ``offsets``, ``staged`` and what a kind stores are hard state, which ``store`` alone writes; the rest is working
    state."""

    kind: ClassVar[str]
    """Kafka's name of it, as ListGroups tells it: ``classic``."""

    group_id: str
    visible_from: int = 0  # the high watermark from which on readers see it, where they see what is committed alone
    version: int = 0  # counts every change of what requests are answered by, but for the offsets and ``current_of``
    offset_changes: int = 0  # counts every change of ``offsets``
    stuck_commits: dict[tuple[str, int], None] = field(default_factory=dict)  # refused, and on their way for ever
    staged: dict[tuple[str, int], Staged] = field(default_factory=dict)  # what open transactions commit, if they do
    _offsets: dict[str, dict[int, Offset]] = field(default_factory=dict)
    _repeated: dict[Layout, RepeatedCommit] = field(default_factory=dict)
    # committed later than what _offsets says: the last commit of each layout

    # what a kind answers

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The name of its state, as clients are told it."""

    @property
    @abstractmethod
    def listed_protocol_type(self) -> str:
        """What ListGroups tells of its protocol type; "" for none."""

    @property
    @abstractmethod
    def is_dead(self) -> bool:
        """Whether it is no more, though somebody holds it."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether it has no members, so that it may be deleted and its offsets expire."""

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Whether nobody is in it or about to be."""

    @property
    @abstractmethod
    def reads_topics(self) -> bool:
        """Whether its members read topics as far as anybody can tell, so that OffsetDelete of what they don't read is safe."""

    @property
    def never_expires(self) -> bool:
        """Whether it stays though it is empty and has no offsets."""
        return False

    @abstractmethod
    def validate_commit(self, request: CommitOffsets) -> Err:
        """Who may commit into it now."""

    def late_commits(self, request: CommitOffsets, topics: Topics) -> Mapping[tuple[str, int], Err]:
        """The partitions of a commit that passes which don't, and why: those that the member hasn't had since the epoch it names."""
        return {}

    @abstractmethod
    def validate_fetch(self, member_id: str | None, member_epoch: int) -> Err:
        """Who may fetch its offsets: OffsetFetch v9+ names a member."""

    @abstractmethod
    def session_of(self, member_id: str) -> tuple[TimerKey, int] | None:
        """The session that a commit of this member is a sign of life for, and its timeout in ms."""

    def current_of(self, member_id: str) -> object | None:
        """What ``version`` does not count, as it is this member's alone, and another object after each change: the member epoch and the
        assignment. None: there is nothing of the kind."""
        return None

    @abstractmethod
    def subscribed(self, topic: str) -> bool:
        """Whether it reads ``topic``."""

    @abstractmethod
    def retention_begins_ms(self, topic: str, offset: Offset) -> int | None:
        """When the retention of a committed offset has begun; None while it doesn't run."""

    @abstractmethod
    def tombstones(self, policy: Policy) -> list[Record]:
        """The records that end it in the log, its offsets' excepted."""

    @abstractmethod
    def described(self, policy: Policy) -> DescribedGroup:
        """What DescribeGroups, the classic groups' request, tells of it."""

    @abstractmethod
    def resume(self) -> bool:
        """The log has been read to its end: take up the work where it says that the group was. Whether it says anything."""

    @abstractmethod
    def end(self) -> None:
        """It is no more; whoever still holds it finds it dead."""

    # offsets

    @property
    def has_more_coming(self) -> bool:
        """Whether offsets count as being on their way though the log has nothing of them yet."""
        return bool(self.staged or self.stuck_commits)

    @property
    def offsets(self) -> dict[str, dict[int, Offset]]:
        """The committed offsets, by topic and partition; not to be changed but by `store`."""
        if self._repeated:
            self._settle()
        return self._offsets

    def put_offset(self, topic: str, partition: int, offset: Offset) -> None:
        """It is committed; `store` says so."""
        if self._repeated:
            self._settle()
        self.offset_changes += 1
        partitions = self._offsets.get(topic)
        if partitions is None:
            partitions = self._offsets[topic] = {}
        partitions[partition] = offset

    def remove_offset(self, topic: str, partition: int) -> None:
        """Its tombstone is; `store` says so."""
        if self._repeated:
            self._settle()
        partitions = self._offsets.get(topic)
        if partitions is not None:
            self.offset_changes += 1
            partitions.pop(partition, None)
            if not partitions:
                del self._offsets[topic]

    def leave_offsets(self) -> None:
        """It has none any more, though they are not gone for who takes its place; `store` says so."""
        self.offset_changes += 1
        self._offsets, self._repeated = {}, {}

    def take(self, commit: RepeatedCommit) -> None:
        """It is committed; `store` says so. It stays as it is until ``offsets`` is asked for, or a later one takes its place."""
        self.offset_changes += 1
        repeated = self._repeated
        layout = commit.layout
        if layout not in repeated and not all(layout.partitions.isdisjoint(each.partitions) for each in repeated):
            self._settle()  # of two layouts with a partition in common the later one's offset counts
        repeated[layout] = commit

    def _settle(self) -> None:
        for commit in self._repeated.values():
            for topic, partition, offset in commit.offsets():
                self._offsets.setdefault(topic, {})[partition] = offset
        self._repeated.clear()

    def take_offsets_of(self, other: Group) -> None:
        """It has come in the place of another one of the same name, of another kind, whose offsets are its own from here on."""
        self._offsets, self._repeated, self.staged = other._offsets, other._repeated, other.staged
        self.stuck_commits, self.visible_from = other.stuck_commits, other.visible_from
        other.version += 1

    def shares_offsets_with(self, other: Group) -> bool:
        """Whether one of them has come in the place of the other, with its offsets."""
        return self._offsets is other._offsets

    def offset(self, topic: str, partition: int) -> Offset | None:
        """The committed offset, if any."""
        partitions = self.offsets.get(topic)
        return None if partitions is None else partitions.get(partition)

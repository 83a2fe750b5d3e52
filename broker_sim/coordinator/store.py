"""The groups of a shard as the log has them. All of it is written by ``replay``, record by record, live and when a log is loaded.

1. Hard state is a group's committed ``offsets``, its ``stored`` record (generation, protocol, leader, members, assignments) and its
   ``pending_txn_offsets``. Only this module writes it: when a record is committed, when a log is loaded, and, as Kafka 3.x deletes
   before it appends (``Policy.tombstones_are_awaited``), when a tombstone is appended. Requests are checked against ``groups``, which
   has no groups whose tombstone is pending; readers of committed state still find these in ``pending_deletion``.
2. So the hard state of a shard that is rebuilt from its log equals that of the shard that wrote it.
3. Everything else in a group is working state: joining members, the next generation, sessions, deferred requests. Handlers change it
   ahead of the log; a load loses it, and ``resume`` restores it from the stored records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from broker_sim.coordinator.classic.group import ClassicGroup
from broker_sim.coordinator.group import Group, PendingTxnOffset
from broker_sim.coordinator.kinds import KIND_OF_RECORD
from broker_sim.coordinator.outcome import Offset, RepeatedCommit
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.records import EpochRecord, GroupRecord, OffsetRecord, Record

G = TypeVar("G", bound=Group)

Key = tuple[str, str, int]
"""Group, topic, partition."""


@dataclass(slots=True)
class GroupStore:
    """``groups``: the groups of one offsets partition; ``pending_deletion``: those whose tombstone is pending, by group id, the oldest
    first; ``transactions``: producer id of an open transaction -> the partitions with pending offsets."""

    policy: Policy
    groups: dict[str, Group] = field(default_factory=dict)
    pending_deletion: dict[str, list[Group]] = field(default_factory=dict)
    transactions: dict[int, dict[Key, None]] = field(default_factory=dict)
    ended_groups: dict[str, Group] = field(default_factory=dict)
    """While a log is read: groups with a tombstone, whose offsets have none; a group of another kind that replaces them gets the
    offsets (the conversion of a group to another protocol)."""

    def replay(self, record: Record, position: int = -1, producer_id: int = -1) -> None:
        """Apply the log's record at ``position``; ``producer_id`` is that of a transactional batch, else -1."""
        if isinstance(record, GroupRecord):
            self._group(record)
        elif isinstance(record, EpochRecord):
            self._epochs(record)
        elif record.value is None:
            self._offset_gone(record.group_id, record.topic, record.partition)
        elif producer_id < 0:
            group = None if self.pending_deletion else self.groups.get(record.group_id)  # fast path, without a call
            self._offset(
                group or self._holder_or_new(record.group_id), record.topic, record.partition, record.value, position
            )
        else:
            self._stage(record, record.value, position, producer_id)

    def replay_commit(self, commit: RepeatedCommit, position: int = -1) -> None:
        """Apply the records of a commit that repeats a layout, the first of them at ``position``; as a whole, unless open transactions
        have pending offsets of the group."""
        group = self._holder_or_new(commit.layout.command.group_id)
        if not group.pending_txn_offsets:
            group.put_repeated(commit)
            return
        for at, (topic, partition, offset) in enumerate(commit.offsets(), position):
            self._offset(group, topic, partition, offset, at)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a control record: COMMIT publishes the producer's pending offsets, except where a later commit exists; ABORT drops
        them."""
        for group_id, topic, partition in self.transactions.pop(producer_id, ()):
            group = self._known(group_id)
            staged = None if group is None else group.pending_txn_offsets.get((topic, partition))
            if group is None or staged is None or producer_id not in staged.by_producer:
                continue  # deleted meanwhile
            position, offset = staged.by_producer.pop(producer_id)
            if committed and position > staged.committed_at:
                self._offset(group, topic, partition, offset, position)
            if not staged.by_producer:
                del group.pending_txn_offsets[topic, partition]

    def discard_pending_txn_offset(self, group: Group, topic: str, partition: int) -> None:
        """Drop the pending offsets of a partition whose offset is deleted without a tombstone for them (see
        ``Policy.tombstones_end_pending_txn_offsets``)."""
        group.pending_txn_offsets.pop((topic, partition), None)

    def abort_transactions(self) -> None:
        for producer_id in list(self.transactions):
            self.end_transaction(producer_id, committed=False)

    def resume(self) -> None:
        """Restore the working state of all groups after the log was loaded: Stable with members, Empty without. A group of which
        nothing is left is dropped in 3.x; in 4.x its first offset created it, even if the offset was removed since or its transaction
        aborted."""
        for group in list(self.groups.values()):
            if not group.resume() and not (
                group.offsets or group.pending_txn_offsets or self.policy.offset_read_makes_group
            ):
                del self.groups[group.group_id]
        self.ended_groups.clear()

    def replace(self, before: Group, made: Group | None) -> None:
        """Replace ``before`` by ``made``, a group of another kind with its offsets, or delete it (None). The records are pending:
        requests do not find ``before`` any more, readers of committed state do, and records that are committed before these are its
        own."""
        if self.groups.get(before.group_id) is before:
            del self.groups[before.group_id]
            self.pending_deletion.setdefault(before.group_id, []).append(before)
            before.version += 1
        if made is not None:
            self.groups[before.group_id] = made

    def revert(self, before: Group, made: Group | None) -> None:
        """Restore ``before``, as the records of `replace` could not be appended, unless a later group has the id."""
        self._end_deletion(before)
        if self.groups.get(before.group_id, made) is made:
            self.groups[before.group_id] = before
            if made is not None:
                made.version += 1
        before.version += 1

    def _end_deletion(self, group: Group) -> None:
        left = [other for other in self.pending_deletion.pop(group.group_id, ()) if other is not group]
        if left:
            self.pending_deletion[group.group_id] = left

    def oldest_deleted(self, group_id: str) -> Group | None:
        """The first group of that name whose tombstone is pending, which is the one in the log; None without one."""
        deleted = self.pending_deletion.get(group_id)
        return deleted[0] if deleted else None

    def discard(self, group: Group) -> None:
        """Remove a group that has no records in the log."""
        group.end()
        self.groups.pop(group.group_id, None)

    def _known(self, group_id: str) -> Group | None:
        """The group of a record in the log. Records before a tombstone belong to the deleted group, those after it to a new group of
        that name, which may exist already."""
        return self.oldest_deleted(group_id) or self.groups.get(group_id)

    def _holder(self, group_id: str) -> Group | None:
        """The group of an offset's record: as ``_known``, but the replacing group if it shares the offsets."""
        if not self.pending_deletion:
            return self.groups.get(group_id)
        group, now = self._known(group_id), self.groups.get(group_id)
        return now if group is not None and now is not None and now.shares_offsets_with(group) else group

    def _holder_or_new(self, group_id: str) -> Group:
        """As ``_holder``; creates a simple group if there is no group."""
        group = self._holder(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, state_ts_ms=-1)
        return group

    def _group(self, record: GroupRecord) -> None:
        if record.value is not None:
            self._classic(record.group_id).store(record.value)
            return
        deleted = self.oldest_deleted(record.group_id)
        group = deleted or self.groups.get(record.group_id)
        if group is None or (deleted is None and not isinstance(group, ClassicGroup)):
            return  # a group of another kind has replaced it already
        if isinstance(group, ClassicGroup):
            group.stored = None
        if deleted is not None:
            self._end_deletion(deleted)
        self._end(group, deleted=deleted is not None)

    def _classic(self, group_id: str) -> ClassicGroup:
        group = self._known(group_id)
        if not isinstance(group, ClassicGroup):
            group = self._replace(group_id, ClassicGroup(group_id, state_ts_ms=-1))
        return group

    def _epochs(self, record: EpochRecord) -> None:
        """A record of an epoch-based group: the first one creates the group, which takes the offsets of a simple group; the last of its
        tombstones deletes it."""
        group = self._known(record.group_id)
        kind = KIND_OF_RECORD[record.type]
        if record.value is not None:
            if not isinstance(group, kind):
                group = self._replace(record.group_id, kind.made(record.group_id, self.policy))
            group.stored.replay(record)
        elif isinstance(group, kind):
            was_known = group.stored.is_known
            group.stored.replay(record)
            if was_known and not group.stored.is_known:
                deleted = self.oldest_deleted(record.group_id) is group
                if deleted:
                    self._end_deletion(group)
                self._end(group, deleted=deleted)

    def _replace(self, group_id: str, made: G) -> G:
        """Replace a group by one of another kind with the same offsets."""
        before = self.ended_groups.pop(group_id, None) or self.groups.get(group_id)
        if before is not None:
            made.adopt_offsets_of(before)
        self.groups[group_id] = made
        return made

    def _end(self, group: Group, *, deleted: bool) -> None:
        """Delete a group, whose last record is a tombstone."""
        if self.policy.group_tombstone_ends_offsets and group.offsets and not self._is_succeeded(group):
            left = self.ended_groups[group.group_id] = ClassicGroup(group.group_id, state_ts_ms=-1)
            left.adopt_offsets_of(group)
            group.detach_offsets()
        if deleted:
            if group.pending_txn_offsets:  # added meanwhile; no tombstone deletes them
                staged = self._holder_or_new(group.group_id).pending_txn_offsets
                for at, pending in group.pending_txn_offsets.items():
                    staged.setdefault(at, pending)
            group.end()
        elif not group.offsets and not group.pending_txn_offsets and group.is_idle:
            self.discard(group)

    def _is_succeeded(self, group: Group) -> bool:
        """Whether another group has replaced it and shares its offsets."""
        successor = self.oldest_deleted(group.group_id) or self.groups.get(group.group_id)
        return successor is not None and successor is not group and successor.shares_offsets_with(group)

    def _offset_gone(self, group_id: str, topic: str, partition: int) -> None:
        group = self._holder(group_id) if self.pending_deletion else self.groups.get(group_id)
        if group is None:
            return
        group.remove_offset(topic, partition)
        if group.pending_txn_offsets and (topic, partition) in group.pending_txn_offsets:
            if self.policy.tombstones_end_pending_txn_offsets:
                del group.pending_txn_offsets[topic, partition]
            else:
                group.pending_txn_offsets[topic, partition].committed_at = -1

    def _offset(self, group: Group, topic: str, partition: int, offset: Offset, position: int) -> None:
        group.put_offset(topic, partition, offset)
        if group.pending_txn_offsets and (topic, partition) in group.pending_txn_offsets:
            group.pending_txn_offsets[topic, partition].committed_at = position

    def _stage(self, record: OffsetRecord, offset: Offset, position: int, producer_id: int) -> None:
        """An offset in an open transaction: it is committed with the commit marker, unless a later plain commit exists."""
        group, at = self._holder_or_new(record.group_id), (record.topic, record.partition)
        group.pending_txn_offsets.setdefault(at, PendingTxnOffset()).by_producer[producer_id] = position, offset
        self.transactions.setdefault(producer_id, {})[record.group_id, *at] = None

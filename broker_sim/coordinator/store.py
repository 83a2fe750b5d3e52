"""What the log has made of a shard's groups, and the one way to it: ``replay``, record by record, live as at a load.

1. Hard state is a group's committed ``offsets``, its ``stored`` record (generation, protocol, leader, members, assignments) and the
   offsets that open transactions have ``staged``. This module alone writes it: when the log has committed a record, when a log is
   loaded, and - where Kafka 3.x deletes before it appends (``Policy.tombstones_are_awaited``) - when a tombstone is handed to the log.
   Requests are checked against ``groups``, where a deletion that is on its way has happened already; who reads what is committed still
   finds the group, in ``buried``.
2. So a shard that is rebuilt from its log is equal to the one that wrote it, in all that is hard.
3. Everything else in a group is working state: who is joining, the generation that is being agreed on, sessions, parked requests.
   Handlers change it ahead of the log; it is lost with the shard, and ``resume`` makes it anew from what is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_sim.coordinator.classic.group import ClassicGroup
from broker_sim.coordinator.group import Group, Staged
from broker_sim.coordinator.outcome import Offset, RepeatedCommit
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.records import GroupRecord, OffsetRecord, Record

Key = tuple[str, str, int]
"""Group, topic, partition."""


@dataclass(slots=True)
class GroupStore:
    """The groups of one offsets partition; those whose tombstone is on its way into the log; open transactions: producer id -> what it
    has staged."""

    policy: Policy
    groups: dict[str, Group] = field(default_factory=dict)
    buried: dict[str, Group] = field(default_factory=dict)
    transactions: dict[int, dict[Key, None]] = field(default_factory=dict)

    def replay(self, record: Record, position: int = -1, producer_id: int = -1) -> None:
        """Apply a record that the log holds at ``position``; ``producer_id`` is that of a transactional batch, else -1."""
        if isinstance(record, GroupRecord):
            self._group(record)
        elif record.value is None:
            self._offset_gone(record.group_id, record.topic, record.partition)
        elif producer_id < 0:
            group = None if self.buried else self.groups.get(record.group_id)  # the usual case, without a call
            self._offset(group or self._made(record.group_id), record.topic, record.partition, record.value, position)
        else:
            self._stage(record, record.value, position, producer_id)

    def replay_commit(self, commit: RepeatedCommit) -> None:
        """Apply the records of a commit that repeats a layout, without looking at them one by one."""
        self._made(commit.layout.command.group_id).take(commit)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a control record: COMMIT publishes what the producer has staged, but where a later commit stands; ABORT drops it."""
        for group_id, topic, partition in self.transactions.pop(producer_id, ()):
            group = self._known(group_id)
            staged = None if group is None else group.staged.get((topic, partition))
            if group is None or staged is None or producer_id not in staged.by_producer:
                continue  # deleted meanwhile
            position, offset = staged.by_producer.pop(producer_id)
            if committed and position > staged.committed_at:
                self._offset(group, topic, partition, offset, position)
            if not staged.by_producer:
                del group.staged[topic, partition]

    def forget_staged(self, group: Group, topic: str, partition: int) -> None:
        """What open transactions commit for a partition comes no more: somebody deletes its offset. Kafka strikes it off without a
        record, so a load finds it staged again."""
        group.staged.pop((topic, partition), None)

    def abort_transactions(self) -> None:
        """Nobody has ended the transactions that are open: their coordinator does, and nothing of them shows."""
        for producer_id in list(self.transactions):
            self.end_transaction(producer_id, committed=False)

    def resume(self) -> None:
        """The log has been read to its end: groups take up their work where it says they were, Stable with members and Empty without.
        In 3.x a group of which nothing is left has not been met; in 4.x its first offset has made it, even if that was removed since,
        or its transaction aborted."""
        for group in list(self.groups.values()):
            if not group.resume() and not (group.offsets or group.staged or self.policy.offset_read_makes_group):
                del self.groups[group.group_id]

    def bury(self, group: Group) -> None:
        """Its tombstone is on its way: it is gone for requests, and there for who reads what is committed."""
        del self.groups[group.group_id]
        self.buried.setdefault(group.group_id, group)
        group.version += 1

    def dig_up(self, group: Group) -> None:
        """The log has refused the tombstone."""
        self.groups.setdefault(group.group_id, self.buried.pop(group.group_id, group))

    def forget(self, group: Group) -> None:
        """It is gone without a record, or has never been: only working state is lost."""
        group.end()
        self.groups.pop(group.group_id, None)

    def _known(self, group_id: str) -> Group | None:
        """The group that a record of the log speaks of. What stands in the log before a tombstone is the buried one's, and what stands
        behind it belongs to a new group of that name, which may be at work already."""
        return self.buried.get(group_id) or self.groups.get(group_id)

    def _made(self, group_id: str) -> Group:
        """The same; one that isn't there yet becomes a simple one."""
        group = self._known(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, state_ts_ms=-1)
        return group

    def _group(self, record: GroupRecord) -> None:
        if record.value is not None:
            made = self._made(record.group_id)
            if isinstance(made, ClassicGroup):
                made.store(record.value)
            return
        buried = self.buried.pop(record.group_id, None)
        group = buried or self.groups.get(record.group_id)
        if group is None:
            return
        if isinstance(group, ClassicGroup):
            group.stored = None
        if self.policy.group_tombstone_ends_offsets:
            group.clear_offsets()
        if buried is not None:
            buried.end()
        elif not group.offsets and not group.staged and group.is_idle:
            self.forget(group)

    def _offset_gone(self, group_id: str, topic: str, partition: int) -> None:
        group = self._known(group_id) if self.buried else self.groups.get(group_id)
        if group is None:
            return
        group.remove_offset(topic, partition)
        if group.staged and (topic, partition) in group.staged:
            group.staged[topic, partition].committed_at = -1

    def _offset(self, group: Group, topic: str, partition: int, offset: Offset, position: int) -> None:
        group.put_offset(topic, partition, offset)
        if group.staged and (topic, partition) in group.staged:
            group.staged[topic, partition].committed_at = position

    def _stage(self, record: OffsetRecord, offset: Offset, position: int, producer_id: int) -> None:
        """Of an open transaction: it counts from its commit marker on, and only where no plain commit stands behind it."""
        group, at = self._made(record.group_id), (record.topic, record.partition)
        group.staged.setdefault(at, Staged()).by_producer[producer_id] = position, offset
        self.transactions.setdefault(producer_id, {})[record.group_id, *at] = None

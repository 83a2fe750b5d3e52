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
from typing import TypeVar

from broker_sim.coordinator.classic.group import ClassicGroup
from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.group import Group, Staged
from broker_sim.coordinator.outcome import Offset, RepeatedCommit
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.records import (
    SHARE_RECORDS,
    STREAMS_RECORDS,
    EpochRecord,
    GroupRecord,
    OffsetRecord,
    Record,
)
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.streams.group import StreamsGroup

G = TypeVar("G", bound=Group)

_KINDS: dict[int, type[ConsumerGroup | ShareGroup | StreamsGroup]] = {
    **dict.fromkeys(SHARE_RECORDS, ShareGroup),
    **dict.fromkeys(STREAMS_RECORDS, StreamsGroup),
}
"""By the types of their records; all others by epochs are of consumer groups."""

Key = tuple[str, str, int]
"""Group, topic, partition."""


@dataclass(slots=True)
class GroupStore:
    """The groups of one offsets partition; those whose tombstone is on its way into the log, the oldest of a name first; open
    transactions: producer id -> what it has staged."""

    policy: Policy
    groups: dict[str, Group] = field(default_factory=dict)
    buried: dict[str, list[Group]] = field(default_factory=dict)
    transactions: dict[int, dict[Key, None]] = field(default_factory=dict)
    left: dict[str, Group] = field(default_factory=dict)
    """While a log is read: groups that a tombstone has ended, with offsets that it has not; a group of another kind that takes their
    place has them (that is how groups go over to another protocol)."""

    def replay(self, record: Record, position: int = -1, producer_id: int = -1) -> None:
        """Apply a record that the log holds at ``position``; ``producer_id`` is that of a transactional batch, else -1."""
        if isinstance(record, GroupRecord):
            self._group(record)
        elif isinstance(record, EpochRecord):
            self._epochs(record)
        elif record.value is None:
            self._offset_gone(record.group_id, record.topic, record.partition)
        elif producer_id < 0:
            group = None if self.buried else self.groups.get(record.group_id)  # the usual case, without a call
            self._offset(group or self._made(record.group_id), record.topic, record.partition, record.value, position)
        else:
            self._stage(record, record.value, position, producer_id)

    def replay_commit(self, commit: RepeatedCommit, position: int = -1) -> None:
        """Apply the records of a commit that repeats a layout, the first of them at ``position``; without looking at them one by one,
        where no transaction commits for the group too."""
        group = self._made(commit.layout.command.group_id)
        if not group.staged:
            group.take(commit)
            return
        for at, (topic, partition, offset) in enumerate(commit.offsets(), position):
            self._offset(group, topic, partition, offset, at)

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
        """What open transactions commit for a partition comes no more: somebody deletes its offset, and no tombstone says so (see
        ``Policy.tombstones_end_staged``)."""
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
        self.left.clear()

    def bury(self, group: Group) -> None:
        """Its tombstone is on its way: it is gone for requests, and there for who reads what is committed."""
        del self.groups[group.group_id]
        self.buried.setdefault(group.group_id, []).append(group)
        group.version += 1

    def dig_up(self, group: Group) -> None:
        """The log has refused the tombstone."""
        self._exhume(group)
        self.groups.setdefault(group.group_id, group)

    def succeed(self, before: Group, made: Group) -> None:
        """``made``, of another kind, has taken the place of ``before`` and has its offsets; what ends the one and begins the other is
        on its way. What the log takes before that is still the former one's."""
        if self.groups.get(before.group_id) is before:
            self.bury(before)
        self.groups[made.group_id] = made

    def undo(self, before: Group, made: Group) -> None:
        """The log has refused it."""
        self._exhume(before)
        if self.groups.get(made.group_id, made) is made:
            made.version += 1
            self.groups[made.group_id] = before
        before.version += 1

    def _exhume(self, group: Group) -> None:
        left = [each for each in self.buried.pop(group.group_id, ()) if each is not group]
        if left:
            self.buried[group.group_id] = left

    def oldest(self, group_id: str) -> Group | None:
        """Of the groups of that name whose tombstone is on its way the first, which is what the log has; None where there is none."""
        buried = self.buried.get(group_id)
        return buried[0] if buried else None

    def forget(self, group: Group) -> None:
        """It is gone without a record, or has never been: only working state is lost."""
        group.end()
        self.groups.pop(group.group_id, None)

    def _known(self, group_id: str) -> Group | None:
        """The group that a record of the log speaks of. What stands in the log before a tombstone is the buried one's, and what stands
        behind it belongs to a new group of that name, which may be at work already."""
        return self.oldest(group_id) or self.groups.get(group_id)

    def _holder(self, group_id: str) -> Group | None:
        """The same, of an offset: who has taken a group's place with its offsets has them, whatever became of the rest."""
        group, now = self._known(group_id), self.groups.get(group_id)
        return now if group is not None and now is not None and now.shares_offsets_with(group) else group

    def _made(self, group_id: str) -> Group:
        """The same; one that isn't there yet becomes a simple one."""
        group = self._holder(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, state_ts_ms=-1)
        return group

    def _group(self, record: GroupRecord) -> None:
        if record.value is not None:
            self._classic(record.group_id).store(record.value)
            return
        buried = self.oldest(record.group_id)
        group = buried or self.groups.get(record.group_id)
        if group is None or (buried is None and not isinstance(group, ClassicGroup)):
            return  # one of another kind has taken its place already
        if isinstance(group, ClassicGroup):
            group.stored = None
        if buried is not None:
            self._exhume(buried)
        self._end(group, buried=buried is not None)

    def _classic(self, group_id: str) -> ClassicGroup:
        group = self._known(group_id)
        if not isinstance(group, ClassicGroup):
            group = self._replace(group_id, ClassicGroup(group_id, state_ts_ms=-1))
        return group

    def _epochs(self, record: EpochRecord) -> None:
        """A record of a group by epochs: its first one makes the group, in the place of a simple one whose offsets it has; the last of
        its tombstones ends it."""
        group = self._known(record.group_id)
        kind = _KINDS.get(record.type, ConsumerGroup)
        if record.value is not None:
            if not isinstance(group, kind):
                group = self._replace(record.group_id, kind.made(record.group_id, self.policy))
            group.stored.replay(record)
        elif isinstance(group, kind):
            was_known = group.stored.is_known
            group.stored.replay(record)
            if was_known and not group.stored.is_known:
                buried = self.oldest(record.group_id) is group
                if buried:
                    self._exhume(group)
                self._end(group, buried=buried)

    def _replace(self, group_id: str, made: G) -> G:
        """The group is of another kind from here on, and has the offsets that it had."""
        before = self.left.pop(group_id, None) or self.groups.get(group_id)
        if before is not None:
            made.take_offsets_of(before)
        self.groups[group_id] = made
        return made

    def _end(self, group: Group, *, buried: bool) -> None:
        """The last of a group's records is a tombstone."""
        if self.policy.group_tombstone_ends_offsets and group.offsets and not self._is_succeeded(group):
            left = self.left[group.group_id] = ClassicGroup(group.group_id, state_ts_ms=-1)
            left.take_offsets_of(group)
            group.leave_offsets()
        if buried:
            if group.staged:  # meanwhile, and no tombstone says that it is gone
                staged = self._made(group.group_id).staged
                for at, one in group.staged.items():
                    staged.setdefault(at, one)
            group.end()
        elif not group.offsets and not group.staged and group.is_idle:
            self.forget(group)

    def _is_succeeded(self, group: Group) -> bool:
        """Whether another one has taken its place, and has its offsets already."""
        successor = self.oldest(group.group_id) or self.groups.get(group.group_id)
        return successor is not None and successor is not group and successor.shares_offsets_with(group)

    def _offset_gone(self, group_id: str, topic: str, partition: int) -> None:
        group = self._holder(group_id) if self.buried else self.groups.get(group_id)
        if group is None:
            return
        group.remove_offset(topic, partition)
        if group.staged and (topic, partition) in group.staged:
            if self.policy.tombstones_end_staged:
                del group.staged[topic, partition]
            else:
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

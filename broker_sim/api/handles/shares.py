"""A share group in the user's hand (KIP-932): what a consumer group's handle has, and which records are in whose hands.

shippers = await kafka.share_group("shippers").stable(members=2)
await shippers.locked("orders", 0, 3)
await shippers.expire_locks()
print(shippers.explain())
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker_sim.api.handles.consumption import Consumption
from broker_sim.api.handles.groups import GroupHandle, MemberView
from broker_sim.api.handles.lag import Lag, Offsets
from broker_sim.api.wait import TIMEOUT
from broker_sim.common.text import UsageError, unknown
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.share_partition import partition as at_leader
from broker_sim.coordinator.share_state.state import NOWHERE, ShareKey
from broker_sim.runtime.share_observer import member_text
from kafka_wire.errors import Err

if TYPE_CHECKING:
    from broker_sim.explain.deliveries import RecordDelivery
    from broker_sim.metadata.cluster_state import Partition
    from broker_sim.runtime.share_partitions import LivePartition, SharePartitions

__all__ = ["Lock", "ShareGroupHandle", "SharedPartition"]


@dataclass(frozen=True, slots=True)
class Lock:
    """Records ``first`` to ``last`` of a partition that a member has acquired. ``deliveries``: how often each was delivered, this time
    included; ``until_ms``: when the lock ends, on the brokers' clock."""

    topic: str
    partition: int
    first: int
    last: int
    member_id: str
    deliveries: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class SharedPartition:
    """A partition as a share group has it. ``start_offset``: the earliest record that isn't done with, -1 before the first is read;
    ``next_offset``: the earliest that was never delivered; ``in_flight``: records that count against
    group.share.partition.max.record.locks; ``locked``: records that members have now; ``backlog``: committed records that are not
    done with. ``loaded``: whether its leader has loaded it for the group; if not, no record is acquired."""

    start_offset: int
    next_offset: int
    in_flight: int
    locked: int
    backlog: int
    loaded: bool


class ShareGroupHandle(GroupHandle):
    """A share group of ``cluster``; it need not exist yet. Its `lag` is its backlog: committed records without the completed
    ones."""

    # state

    @property
    def partitions(self) -> dict[tuple[str, int], SharedPartition]:
        """The share group's position in every partition that it has read or that is assigned."""
        partitions = {}
        for key, partition in self._shared().items():
            live = self._live(key)
            if live is not None and live.share is not None:
                share = live.share
                end = partition.last_stable_offset if live.read_committed else partition.high_watermark
                start, after, done = share.start_offset, share.next_offset, share.complete_count
                locked = sum(lock.last - lock.first + 1 for lock in self._locks_of(live))
                shown = SharedPartition(start, after, share.in_flight, locked, max(0, end - start - done), True)
            else:
                shown = self._stored(key, partition)
            partitions[partition.topic.name, partition.index] = shown
        return partitions

    def _stored(self, key: ShareKey, partition: Partition) -> SharedPartition:
        """The state that the share coordinator has stored, of a partition that no leader has loaded."""
        shard = self.cluster.coordinators.share_states.leading(key)
        state = None if isinstance(shard, Err) else shard.known(key)
        if state is None or state.start_offset == NOWHERE:
            return SharedPartition(NOWHERE, NOWHERE, 0, 0, 0, False)
        policy, limits = self._leaders.policy, self._leaders.limits(self.group_id)
        share = at_leader.SharePartition.loaded(policy, limits, state.start_offset, state.batches)
        backlog = max(0, partition.high_watermark - share.start_offset - share.complete_count)
        return SharedPartition(share.start_offset, share.next_offset, share.in_flight, 0, backlog, False)

    @property
    def locks(self) -> list[Lock]:
        """The records that its members have acquired and not acknowledged yet."""
        lives = (self._live(key) for key in self._shared())
        return [lock for live in lives if live is not None for lock in self._locks_of(live)]

    def committed(self) -> Offsets:
        """The share group's start offset in each partition that it has read; it commits no offsets."""
        return {
            at: partition.start_offset for at, partition in self.partitions.items() if partition.start_offset != NOWHERE
        }

    def lag(self) -> Lag:
        """The share group's backlog in each partition: committed records without the completed ones."""
        return Lag.of_backlog({at: partition.backlog for at, partition in self.partitions.items()})

    def _unread(self, consumption: Consumption, members: Sequence[MemberView]) -> list[tuple[str, int, MemberView]]:
        """Topic, partition and owner of what was assigned and has no start offset: any member's first ShareFetch sets it, by
        share.auto.offset.reset."""
        begun = {at for at, partition in self.partitions.items() if partition.loaded}
        return [
            (topic, index, member)
            for member in members
            for topic, indexes in (member.assignment or {}).items()
            for index in indexes
            if (topic, index) not in begun
        ]

    # waits

    async def locked(
        self, topic: str, partition: int, offset: int, member: str | None = None, timeout: object = TIMEOUT
    ) -> ShareGroupHandle:
        """Wait until a member has acquired that record: any member, or the one with that member id or client id. Returns the
        handle."""

        def holds() -> bool:
            return any(
                lock.first <= offset <= lock.last
                and (lock.topic, lock.partition) == (topic, partition)
                and (member is None or lock.member_id in self._ids(member))
                for lock in self.locks
            )

        who = "any member" if member is None else repr(member)
        await self._until(holds, f"{topic}-{partition} {offset} locked by {who}", timeout)
        return self

    async def no_locks(self, timeout: object = TIMEOUT) -> ShareGroupHandle:
        """Wait until no record is acquired. Returns the handle."""
        await self._until(lambda: not self.locks, "no locks", timeout)
        return self

    async def delivered(
        self, topic: str, partition: int, offset: int, times: int = 1, timeout: object = TIMEOUT
    ) -> ShareGroupHandle:
        """Wait until that record has been delivered that number of times. Returns the handle."""

        def holds() -> bool:
            return len(self.deliveries(topic, partition).get(offset, ())) >= times

        await self._until(holds, f"{topic}-{partition} {offset} delivered {times} times", timeout)
        return self

    async def done_with(self, topic: str, partition: int, offset: int, timeout: object = TIMEOUT) -> ShareGroupHandle:
        """Wait until its start offset is after that record. Returns the handle."""
        await self.wait(committed={(topic, partition): offset + 1}, timeout=timeout)
        return self

    # deeds

    async def expire_locks(
        self, topic: str | None = None, partition: int | None = None, member: str | None = None
    ) -> list[Lock]:
        """Expire acquisition locks now: all, those of one partition, or of the member with that member id or client id. Returns the
        expired locks. Raises UsageError for an unknown member or partition."""
        self._check_named(topic, partition, member)
        ids = None if member is None else self._ids(member)
        ended: list[Lock] = []
        for key, at in self._shared().items():
            live = self._live(key)
            if live is None or (topic is not None and topic != at.topic.name):
                continue
            if partition is not None and partition != at.index:
                continue
            mine = [lock for lock in self._locks_of(live) if ids is None or lock.member_id in ids]
            if mine:
                named = {lock.member_id for lock in mine}
                runs = [] if live.share is None else live.share.locked()
                self._leaders.expire_now(live, {run[2].member for run in runs if self._text(run[2].member) in named})
                ended += mine
        return ended

    def _check_named(self, topic: str | None, partition: int | None, member: str | None) -> None:
        there = self.partitions
        if partition is not None and topic is None:
            raise UsageError("expire_locks: a partition needs its topic")
        if topic is not None and not any(name == topic and partition in (None, at) for name, at in there):
            named = topic if partition is None else f"{topic}-{partition}"
            raise unknown("partition", named, [f"{t}-{p}" for t, p in there], of=f"share group {self.group_id!r}")
        if member is not None and not self._ids(member):
            names = [name for member in self.members for name in (member.member_id, member.client_id) if name]
            raise unknown("member", member, dict.fromkeys(names), of=f"share group {self.group_id!r}")

    # what became of it

    def deliveries(self, topic: str, partition: int = 0) -> Mapping[int, list[RecordDelivery]]:
        """The deliveries of a partition's records in the journal: offset -> its deliveries in order."""
        from broker_sim.explain.deliveries import deliveries

        partition_deliveries = deliveries(self._journal.events, self.group_id).get(f"{topic}-{partition}")
        return {} if partition_deliveries is None else partition_deliveries.records

    # look-ups

    @property
    def _leaders(self) -> SharePartitions:
        return self.cluster.coordinators.shares

    def _shared(self) -> dict[ShareKey, Partition]:
        group = self._consumer()
        topics = self.cluster.state.topics_by_id
        if not isinstance(group, ShareGroup):
            return {}
        return {
            ShareKey(self.group_id, topic_id, number): topics[topic_id].partitions[number]
            for topic_id, topic in group.stored.initialized.items()
            if topic_id in topics
            for number in sorted(topic.partitions)
            if number < len(topics[topic_id].partitions)
        }

    def _live(self, key: ShareKey) -> LivePartition | None:
        made = self.cluster.coordinators.made_shares
        return None if made is None else made.live(key)

    def _text(self, member: str) -> str:
        return member_text(member, ids_are_uuids=self._leaders.policy.ids_are_uuids)

    def _locks_of(self, live: LivePartition) -> list[Lock]:
        topic, index = live.partition.topic.name, live.partition.index
        if live.share is None:
            return []
        locks: list[Lock] = []
        for first, last, acquired in live.share.locked():
            lock = Lock(
                topic, index, first, last, self._text(acquired.member), acquired.deliveries, acquired.deadline_ms
            )
            before = locks[-1] if locks else None
            if before is not None and before.last + 1 == first and _alike(before, lock):
                lock = locks.pop()
                lock = Lock(topic, index, lock.first, last, lock.member_id, lock.deliveries, lock.until_ms)
            locks.append(lock)
        return locks

    def _ids(self, member: str) -> set[str]:
        """The member ids of that name; one that has left may hold locks yet."""
        ids = {member.member_id for member in self._find(member)}
        return ids or {lock.member_id for lock in self.locks if lock.member_id == member}


def _alike(lock: Lock, other: Lock) -> bool:
    return (lock.member_id, lock.deliveries, lock.until_ms) == (other.member_id, other.deliveries, other.until_ms)

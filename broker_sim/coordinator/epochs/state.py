"""What the log says of a group by epochs, record by record: `EpochState`, and which records are which in a kind's `Layout`.

A group has two of them. ``stored`` is what the log has committed, and what readers see; ``latest`` has the records besides that are on
their way into the log, and is what requests are checked against and computed from (Kafka keeps both in one structure with snapshots).
Both take records through the same ``replay``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from broker_sim.coordinator.epochs.holdings import Held, K, Units
from broker_sim.coordinator.epochs.reconcile import Current
from broker_sim.coordinator.records import EpochRecord

M = TypeVar("M")


@dataclass(frozen=True)
class Layout(Generic[K]):
    """The record types of a kind of group, by what they say, and how its payloads are read. What isn't among them is the kind's own."""

    group: int
    member: int
    target_metadata: int
    target: int
    current: int
    read_target: Callable[[Any], Units[K]]
    read_current: Callable[[Any], Current[K]]


@dataclass(slots=True)
class EpochState(Generic[K, M]):
    """Epochs, members by id (as their record says), what they should hold and where they stand. ``owners`` follows from the latter: who
    holds a unit. ``first_epoch``: what both epochs are before any record says so."""

    layout: Layout[K]
    first_epoch: int = 0
    group_epoch: int = field(init=False)
    metadata_hash: int = 0
    target_epoch: int = field(init=False)
    target_ts_ms: int = 0  # when the target was computed; 0 where that is not said
    members: dict[str, M] = field(default_factory=dict)
    targets: dict[str, Units[K]] = field(default_factory=dict)
    currents: dict[str, Current[K]] = field(default_factory=dict)
    owners: dict[K, dict[int, str]] = field(default_factory=dict)
    is_known: bool = False  # some record has said something
    subscription_version: int = field(default=0, compare=False)  # counts changes of what the group reads

    def __post_init__(self) -> None:
        self.group_epoch = self.target_epoch = self.first_epoch

    def replay(self, record: EpochRecord) -> None:
        """Apply one record."""
        layout, kind, value = self.layout, record.type, record.value
        self.is_known = self.is_known or value is not None
        if kind == layout.current:
            if record.read is None and value is not None:
                record.read = layout.read_current(value)
            self._stand(record.key.member_id, record.read)
        elif kind == layout.target:
            if record.read is None and value is not None:
                record.read = layout.read_target(value)
            self._aim(record.key.member_id, record.read)
        elif kind == layout.member:
            self.put_member(record.key.member_id, value)
        elif kind == layout.group:
            if value is None:
                self.is_known = False
                self.group_epoch, self.metadata_hash = self.first_epoch, 0
            else:
                self.group_epoch, self.metadata_hash = value.epoch, value.metadata_hash
        elif kind == layout.target_metadata:
            if value is None:
                self.target_epoch, self.target_ts_ms = self.first_epoch, 0
            else:
                self.target_epoch = value.assignment_epoch
                self.target_ts_ms = getattr(value, "assignment_timestamp", 0)
        else:
            self.replay_other(record)

    def replay_other(self, record: EpochRecord) -> None:
        """A record that only this kind of group has."""

    def put_member(self, member_id: str, member: M | None) -> None:
        """What a member says of itself, or that it is gone."""
        if member is None:
            self.members.pop(member_id, None)
        else:
            self.members[member_id] = member

    def topics(self) -> Collection[str]:
        """What its members read together, each name once, in no order."""
        raise NotImplementedError

    def copy(self) -> Self:
        """Another one that is equal; what is in it is shared, since nobody changes it."""
        raise NotImplementedError

    def _copy_into(self, other: Self) -> Self:
        other.group_epoch, other.metadata_hash = self.group_epoch, self.metadata_hash
        other.target_epoch, other.target_ts_ms = self.target_epoch, self.target_ts_ms
        other.members, other.targets, other.currents = dict(self.members), dict(self.targets), dict(self.currents)
        other.owners = {key: dict(holders) for key, holders in self.owners.items()}
        other.is_known = self.is_known
        return other

    def current(self, member_id: str) -> Current[K]:
        """Where a member stands; nowhere yet, if it has no record of it."""
        return self.currents.get(member_id) or Current()

    def target(self, member_id: str) -> Units[K]:
        """What a member should hold."""
        return self.targets.get(member_id, {})

    def is_taken(self, key: K, number: int) -> bool:
        """Whether any member holds a unit, or has been told to give it up and hasn't yet."""
        return number in self.owners.get(key, ())

    def _aim(self, member_id: str, target: Units[K] | None) -> None:
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target

    def _stand(self, member_id: str, current: Current[K] | None) -> None:
        before = self.currents.get(member_id)
        if before is not None:
            self._release(member_id, before.assigned)
            self._release(member_id, before.revoking)
        if current is None:
            self.currents.pop(member_id, None)
            return
        self.currents[member_id] = current
        self._own(member_id, current.assigned)
        self._own(member_id, current.revoking)

    def _own(self, member_id: str, held: Held[K]) -> None:
        for key, numbers in held.items():
            self.owners.setdefault(key, {}).update(dict.fromkeys(numbers, member_id))

    def _release(self, member_id: str, held: Held[K]) -> None:
        for key, numbers in held.items():
            holders = self.owners.get(key, {})
            for number in numbers:
                if holders.get(number) == member_id:
                    del holders[number]
            if not holders:
                self.owners.pop(key, None)


AnyState = EpochState[Hashable, Any]

"""The state of an epoch-based group from its records: `EpochState`; and the record types of a kind: `Layout`.

A group has two of them. ``stored`` has the committed records, and readers see it; ``latest`` also has the pending records, and requests
are checked against it (Kafka keeps both in one structure with snapshots). Both apply records through the same ``replay``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from broker_sim.coordinator.epochs.holdings import K, UnitEpochs, Units
from broker_sim.coordinator.epochs.reconcile import Current
from broker_sim.coordinator.records import EpochRecord

M = TypeVar("M")


@dataclass(frozen=True)
class Layout(Generic[K]):
    """The record types of a kind of group, and functions that read their payloads. Other record types are handled by the kind
    itself."""

    group: int
    member: int
    target_metadata: int
    target: int
    current: int
    read_target: Callable[[Any], Units[K]]
    read_current: Callable[[Any], Current[K]]


@dataclass(slots=True)
class EpochState(Generic[K, M]):
    """Epochs, members by id (as their records), target and current assignments. ``owners`` follows from the latter: the owner of each
    unit. ``first_epoch``: both epochs before the first record."""

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
    counts_names: bool = field(default=True, compare=False)
    """Whether it counts the members that name each topic. Only working state is asked for that, and a member may name 140,000."""

    def __post_init__(self) -> None:
        self.group_epoch = self.target_epoch = self.first_epoch

    def replay(self, record: EpochRecord) -> None:
        """Apply one record of the group to the state."""
        layout, kind, value = self.layout, record.type, record.value
        self.is_known = self.is_known or value is not None
        if kind == layout.current:
            self._put_current(record.key.member_id, record.parsed(layout.read_current))
        elif kind == layout.target:
            self._aim(record.key.member_id, record.parsed(layout.read_target))
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
        """Set or remove a member's record."""
        if member is None:
            self.members.pop(member_id, None)
        else:
            self.members[member_id] = member

    def topics(self) -> Collection[str]:
        """Names of the topics that the group's members read, each once, in no order."""
        raise NotImplementedError

    def copy(self) -> Self:
        """A copy that shares the values, which are never changed."""
        raise NotImplementedError

    def _copy_into(self, other: Self) -> Self:
        other.group_epoch, other.metadata_hash = self.group_epoch, self.metadata_hash
        other.target_epoch, other.target_ts_ms = self.target_epoch, self.target_ts_ms
        other.members, other.targets, other.currents = dict(self.members), dict(self.targets), dict(self.currents)
        other.owners = {key: dict(holders) for key, holders in self.owners.items()}
        other.is_known = self.is_known
        return other

    def current(self, member_id: str) -> Current[K]:
        """A member's current assignment; an empty one if it has no record."""
        return self.currents.get(member_id) or Current()

    def target(self, member_id: str) -> Units[K]:
        """The target assignment of a member; empty if the assignor has not seen the member."""
        return self.targets.get(member_id, {})

    def is_taken(self, key: K, number: int) -> bool:
        """Whether any member owns the unit, or must revoke it and has not done so."""
        return number in self.owners.get(key, ())

    def _aim(self, member_id: str, target: Units[K] | None) -> None:
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target

    def _put_current(self, member_id: str, current: Current[K] | None) -> None:
        before = self.currents.get(member_id)
        if before is not None and current is not None and _own_the_same(before, current):
            self.currents[member_id] = current
            return
        if before is not None:
            self._release(member_id, before.assigned)
            self._release(member_id, before.revoking)
        if current is None:
            self.currents.pop(member_id, None)
            return
        self.currents[member_id] = current
        self._own(member_id, current.assigned)
        self._own(member_id, current.revoking)

    def _own(self, member_id: str, owned: UnitEpochs[K]) -> None:
        for key, numbers in owned.items():
            self.owners.setdefault(key, {}).update(dict.fromkeys(numbers, member_id))

    def _release(self, member_id: str, owned: UnitEpochs[K]) -> None:
        for key, numbers in owned.items():
            holders = self.owners.get(key, {})
            for number in numbers:
                if holders.get(number) == member_id:
                    del holders[number]
            if not holders:
                self.owners.pop(key, None)


def _own_the_same(before: Current[K], after: Current[K]) -> bool:
    """Whether a member has another epoch and nothing else, as most have after an assignment."""
    return before.assigned == after.assigned and not before.revoking and not after.revoking


AnyState = EpochState[Hashable, Any]

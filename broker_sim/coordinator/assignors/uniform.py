"""The assignor ``uniform``: equal numbers of partitions for all members, with as few moves as possible.

It has two algorithms, as in Kafka. If all members subscribe to the same topics, each has a quota, keeps its former partitions up to it,
and gets free partitions to fill it (UniformHomogeneousAssignmentBuilder). Otherwise a free partition goes to the subscriber with the
fewest partitions, and then partitions move from members with the most to those with the fewest, until no member has two more than
another one that could take one of its partitions (UniformHeterogeneousAssignmentBuilder; the order of several equal moves may differ
from Kafka's).
"""

from __future__ import annotations

from collections.abc import Hashable

from broker_sim.coordinator.assignors.model import Assigned, Subscribed
from broker_sim.coordinator.epochs.holdings import Units, units_of

_Unit = tuple[Hashable, int]


def assign(subscribed: Subscribed) -> Assigned:
    """Assign the partitions of all subscribed topics (UniformAssignor.assign)."""
    if not subscribed.members or not subscribed.partitions:
        return {}
    return _by_quota(subscribed) if subscribed.is_homogeneous else _Balancing(subscribed).assigned()


def _by_quota(subscribed: Subscribed) -> Assigned:
    reads = next(iter(subscribed.members.values()))
    partitions = {topic: count for topic, count in subscribed.partitions.items() if topic in reads}
    taken = {
        (topic, number)
        for target in subscribed.targets.values()
        for topic, numbers in target.items()
        for number in numbers
    }
    free: list[_Unit] = [
        (topic, n) for topic, count in partitions.items() for n in range(count) if (topic, n) not in taken
    ]
    quota, extras = divmod(sum(partitions.values()), len(subscribed.members))
    kept: dict[str, Units[Hashable]] = {}  # the very target that a member had, where nothing of it changes
    room: dict[str, int] = {}
    for member_id in subscribed.members:
        target = subscribed.targets.get(member_id, {})
        left = most = quota + (extras > 0)  # who has one more than the plain quota keeps it, as long as there are such
        own: dict[Hashable, tuple[int, ...]] = {}
        whole = True
        for topic, numbers in target.items():
            stays = numbers[:left] if topic in partitions else ()
            whole = whole and len(stays) == len(numbers)
            if stays:
                own[topic] = stays
                left -= len(stays)
            if topic in partitions:
                free += [(topic, number) for number in numbers[len(stays) :]]
        kept[member_id] = target if whole else own
        if most - left > quota:
            extras -= 1
        else:
            room[member_id] = quota - (most - left)
    for member_id in list(room)[len(room) - extras :]:  # of the others the last ones have it
        room[member_id] += 1
    given = iter(free)
    for member_id, shortage in room.items():
        taken_now = [unit for _, unit in zip(range(shortage), given, strict=False)]
        if taken_now:
            kept[member_id] = units_of([*kept[member_id].items(), *((topic, (number,)) for topic, number in taken_now)])
    return kept


def _by_topic(units: list[_Unit]) -> dict[Hashable, tuple[int, ...]]:
    return units_of((topic, (number,)) for topic, number in units)


class _Balancing:
    """Members that read different topics."""

    def __init__(self, subscribed: Subscribed) -> None:
        self._partitions = subscribed.partitions
        self._readers: dict[Hashable, list[str]] = {topic: [] for topic in subscribed.partitions}
        for member_id, topics in subscribed.members.items():
            for topic in topics:
                if topic in self._readers:
                    self._readers[topic].append(member_id)
        self._has: dict[str, dict[_Unit, None]] = {member_id: {} for member_id in subscribed.members}
        self._owner: dict[_Unit, str] = {}
        for member_id, topics in subscribed.members.items():
            for topic, numbers in subscribed.targets.get(member_id, {}).items():
                for number in numbers:
                    if topic in topics and number < self._partitions.get(topic, 0):
                        self._give((topic, number), member_id)

    def assigned(self) -> Assigned:
        units = [
            (topic, number)
            for topic, count in self._partitions.items()
            if self._readers[topic]
            for number in range(count)
        ]
        units.sort(key=self._rank)
        for unit in units:
            if unit not in self._owner:
                self._give(unit, self._least(unit[0]))
        moved = True
        while moved:
            moved = False
            for unit in units:
                owner, least = self._owner[unit], self._least(unit[0])
                if len(self._has[owner]) > len(self._has[least]) + 1:
                    del self._has[owner][unit]
                    self._give(unit, least)
                    moved = True
        return {member_id: _by_topic(list(units)) for member_id, units in self._has.items()}

    def _rank(self, unit: _Unit) -> tuple[float, int, int]:
        """Where the choice is small and there is much to share comes first."""
        topic, number = unit
        readers = len(self._readers[topic])
        return -self._partitions[topic] / readers, readers, number

    def _least(self, topic: Hashable) -> str:
        return min(self._readers[topic], key=lambda member_id: (len(self._has[member_id]), member_id))

    def _give(self, unit: _Unit, member_id: str) -> None:
        self._has[member_id][unit] = None
        self._owner[unit] = member_id

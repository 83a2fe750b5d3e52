"""The assignor ``uniform``: equal numbers of partitions for all members, with as few moves as possible.

It has two algorithms, as in Kafka. If all members subscribe to the same topics, each has a quota, keeps its former partitions up to it,
and gets free partitions to fill it (UniformHomogeneousAssignmentBuilder). Otherwise a free partition goes to the subscriber with the
fewest partitions, and then partitions move, topic by topic, from the subscribers with the most to those with the fewest
(UniformHeterogeneousAssignmentBuilder).

The results are those of Kafka 4.1 and later; 4.0 distributes partitions in another order.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from typing import Any

from broker_sim.coordinator.assignors.model import Assigned, Subscribed
from broker_sim.coordinator.epochs.holdings import Units, units_of

_Unit = tuple[Hashable, int]

_MOST_ROUNDS = 16
_NO_ONE = -1


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
    """Members that subscribe to different topics. They are numbers, in the order in which they are served."""

    def __init__(self, subscribed: Subscribed) -> None:
        self._subscribed, self._members = subscribed, list(subscribed.members)
        self._load = [0] * len(self._members)
        self._subscribers: dict[Hashable, list[int]] = {}
        for member, topics in enumerate(subscribed.members.values()):
            for topic in topics & subscribed.partitions.keys():
                self._subscribers.setdefault(topic, []).append(member)
        self._owner = {topic: [_NO_ONE] * subscribed.partitions[topic] for topic in self._subscribers}
        for member, (member_id, topics) in enumerate(subscribed.members.items()):
            for topic, numbers in subscribed.targets.get(member_id, {}).items():
                for number in numbers if topic in topics else ():
                    if number < subscribed.partitions.get(topic, 0):
                        self._give(topic, number, member)

    def assigned(self) -> Assigned:
        topics = sorted(self._subscribers, key=self._rank)
        for topic in topics:
            by_load = _ByLoad(self._subscribers[topic], self._load)
            for number, owner in enumerate(self._owner[topic]):
                if owner == _NO_ONE:
                    self._give(topic, number, by_load.next_least())
        self._balance([topic for topic in topics if len(self._subscribers[topic]) > 1])
        units: dict[str, list[_Unit]] = {member_id: [] for member_id in self._members}
        for topic, owners in self._owner.items():
            for number, member in enumerate(owners):
                units[self._members[member]].append((topic, number))
        return {member_id: _by_topic(own) for member_id, own in units.items()}

    def _rank(self, topic: Hashable) -> tuple[float, int, tuple[Any, ...]]:
        """Topics with many partitions for each subscriber come first, then those with few subscribers."""
        partitions, subscribers = self._subscribed.partitions[topic], len(self._subscribers[topic])
        order = struct.unpack(">qq", topic) if isinstance(topic, bytes) else (topic,)  # Uuid.compareTo: signed halves
        return -partitions / subscribers, subscribers, order

    def _balance(self, topics: list[Hashable]) -> None:
        """Balance topic after topic, until a whole round has moved nothing, or after some rounds: members whose subscriptions overlap
        may stay a little uneven."""
        last = _NO_ONE
        for _ in range(_MOST_ROUNDS):
            for at, topic in enumerate(topics):
                if at == last:
                    return
                if self._balance_topic(topic) or last == _NO_ONE:
                    last = at

    def _balance_topic(self, topic: Hashable) -> bool:
        """Move partitions from the subscribers with the most to those with the fewest. Returns whether any was moved."""
        by_load = _ByLoad(self._subscribers[topic], self._load)
        if by_load.is_even:
            return False
        owned: dict[int, list[int]] = {}
        for number, member in enumerate(self._owner[topic]):
            owned.setdefault(member, []).append(number)
        moved = False
        while True:
            most = by_load.next_most()
            while most is not None and not owned.get(most):
                by_load.exclude_most()
                most = by_load.next_most()
            if most is None:
                return moved
            number, least = owned[most].pop(), by_load.next_least()
            if by_load.levels_meet:
                return moved
            self._load[most] -= 1
            self._give(topic, number, least)
            moved = True

    def _give(self, topic: Hashable, number: int, member: int) -> None:
        self._owner[topic][number] = member
        self._load[member] += 1


class _ByLoad:
    """The subscribers of a topic by their number of partitions, while these move from the end of the list to its beginning.

    At each end is a range of members that had the same number of partitions, its level. A range is traversed, one partition a
    member, before its level moves by one and the range grows by the members that are at the new level (MemberAssignmentBalancer).
    """

    def __init__(self, subscribers: list[int], load: list[int]) -> None:
        self._load = load
        self._order = order = sorted(subscribers, key=lambda member: (load[member], member))
        self._least_level, self._least_end, self._least_at = load[order[0]] - 1, 0, 0
        self._most_level, self._most_start, self._most_end = load[order[-1]] + 1, len(order), len(order)
        self._most_at = len(order) - 1
        self.is_even = load[order[-1]] - load[order[0]] <= 1
        """Whether there was nothing to move at the beginning."""

    @property
    def levels_meet(self) -> bool:
        """Whether another move would not make the members more equal."""
        return self._most_level - self._least_level <= 1

    def next_least(self) -> int:
        """The member that gets the next partition."""
        order, load = self._order, self._load
        if self._least_at >= self._least_end:
            self._least_level += 1
            while self._least_end < len(order) and load[order[self._least_end]] == self._least_level:
                self._least_end += 1
            self._least_at = 0
        self._least_at += 1
        return order[self._least_at - 1]

    def next_most(self) -> int | None:
        """The member that gives the next partition; None if all that could are excluded."""
        order, load = self._order, self._load
        if self._most_at < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:  # all of the range are excluded
                self._most_level = load[order[self._most_start - 1]]
            else:
                self._most_level -= 1
            while self._most_start > 0 and load[order[self._most_start - 1]] == self._most_level:
                self._most_start -= 1
            self._most_at = self._most_end - 1
        if self._most_at < 0:
            return None
        self._most_at -= 1
        return order[self._most_at + 1]

    def exclude_most(self) -> None:
        """Take the member that `next_most` has returned out of its range: it has no partition of the topic to give."""
        order, at, end = self._order, self._most_at + 1, self._most_end - 1
        order[at], order[end] = order[end], order[at]
        self._most_end = end

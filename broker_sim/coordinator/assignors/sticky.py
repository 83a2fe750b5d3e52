"""Kafka's task assignor of streams groups, ``sticky``: active tasks stay with their members while that is balanced, the rest goes to
the process with the least load, and standby tasks to other processes than the active task's.

Ties are broken by the order of Java's hash maps and of its priority queue, which is followed here: clients see the outcome. Source:
StickyTaskAssignor.java, ProcessState.java (4.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from broker_sim.coordinator.classic.vote import java_order, string_hash

Task = tuple[str, int]
"""Subtopology id and partition."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member as the assignor sees it. ``active`` and ``standby``: the tasks that it has; ``offsets``: the sums of changelog
    offsets that it has reported for tasks whose state it has on its disk."""

    process_id: str
    active: tuple[Task, ...] = ()
    standby: tuple[Task, ...] = ()
    offsets: Mapping[Task, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskCount:
    """Number of tasks of a subtopology, and whether they keep state: only stateful tasks have standby tasks."""

    tasks: int
    is_stateful: bool


@dataclass(slots=True)
class StreamsAssignment:
    """The target assignment of a streams group's member."""

    active: list[Task] = field(default_factory=list)
    standby: list[Task] = field(default_factory=list)


def assign(
    subtopologies: Mapping[str, TaskCount], members: Mapping[str, StreamsMember], standby_replicas: int
) -> dict[str, StreamsAssignment]:
    """Member id -> its tasks, for each of ``members``."""
    if not members:
        return {}
    return _Assigning(subtopologies, members, standby_replicas).done()


class _Queue(Generic[T]):
    """java.util.PriorityQueue: of equal elements that comes first which its sifting leaves on top."""

    def __init__(self, key: Callable[[T], float], items: Iterable[T]) -> None:
        self._key, self._heap = key, list[T]()
        for item in items:
            self.add(item)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, item: T) -> None:
        heap, at = self._heap, len(self._heap)
        heap.append(item)
        while at > 0:
            parent = (at - 1) // 2
            if self._key(item) >= self._key(heap[parent]):
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = item

    def poll(self) -> T:
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            at, size = 0, len(heap)
            while at < size // 2:
                child = 2 * at + 1
                if child + 1 < size and self._key(heap[child]) > self._key(heap[child + 1]):
                    child += 1
                if self._key(last) <= self._key(heap[child]):
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = last
        return first


class _Process:
    """A Streams instance: its members (threads), and the tasks that they have been given so far."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.counts: dict[str, int] = {}
        self.tasks: dict[Task, None] = {}
        self._by_load: _Queue[list[str]] | None = None

    @property
    def load(self) -> float:
        return sum(self.counts.values()) / len(self.counts)

    def give(self, member_id: str, task: Task) -> int:
        """The member's number of tasks afterwards."""
        self._by_load = None
        return self._give(member_id, task)

    def _give(self, member_id: str, task: Task) -> int:
        self.tasks[task] = None
        self.counts[member_id] += 1
        return self.counts[member_id]

    def give_to_least_loaded(self, task: Task) -> tuple[str, int]:
        """Give ``task`` to the process's member with the fewest tasks. Returns that member's id and its number of tasks now."""
        if self._by_load is None:
            named = [[member_id] for member_id in java_order(self.counts)]
            self._by_load = _Queue(lambda item: self.counts[item[0]], named)
        entry = self._by_load.poll()
        count = self._give(entry[0], task)
        self._by_load.add(entry)
        return entry[0], count


class _Quota:
    """Maximum number of tasks per member, so that all have about as many; it decreases as members reach it."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.per_member = _ceil(tasks, members)

    def count(self, tasks: int) -> None:
        """A member has that many."""
        if tasks == self.per_member:
            self._members -= 1
            self._tasks -= tasks
            self.per_member = _ceil(self._tasks, self._members)


def _ceil(tasks: int, members: int) -> int:
    return -(-tasks // members) if members else 0


class _Assigning:
    def __init__(
        self, subtopologies: Mapping[str, TaskCount], members: Mapping[str, StreamsMember], standby_replicas: int
    ) -> None:
        self.subtopologies, self.replicas = subtopologies, standby_replicas
        self.members = {member_id: members[member_id] for member_id in java_order(members)}
        active = sum(subtopology.tasks for subtopology in subtopologies.values())
        standby = sum(
            subtopology.tasks * standby_replicas for subtopology in subtopologies.values() if subtopology.is_stateful
        )
        self.active_quota, self.quota = _Quota(active, len(members)), _Quota(active + standby, len(members))
        self.result = {member_id: StreamsAssignment() for member_id in self.members}
        self.processes: dict[str, _Process] = {}
        self.active_before: dict[Task, str] = {}
        for member_id, member in self.members.items():
            process = self.processes.setdefault(member.process_id, _Process(member.process_id))
            process.counts[member_id] = 0
            self.active_before.update(dict.fromkeys(member.active, member_id))
        in_order = _computed_order([member.process_id for member in self.members.values()])
        self.in_order = [self.processes[process_id] for process_id in in_order]

    def done(self) -> dict[str, StreamsAssignment]:
        self._assign_active()
        if self.replicas > 0:
            self._assign_standby()
        return self.result

    @cached_property
    def standby_before(self) -> dict[Task, list[str]]:
        """Task -> members that have its state: first those with a standby task of it, of them those that are furthest."""
        ranked: dict[Task, list[tuple[int, int, str]]] = {}
        for member_id, member in self.members.items():
            for task in member.standby:
                ranked.setdefault(task, []).append((0, -member.offsets.get(task, 0), member_id))
            for task, offset in member.offsets.items():
                if task not in member.standby:
                    ranked.setdefault(task, []).append((1, -offset, member_id))
        return {task: [row[2] for row in sorted(rows, key=lambda row: row[:2])] for task, rows in ranked.items()}

    def _process(self, member_id: str) -> _Process:
        return self.processes[self.members[member_id].process_id]

    def _count(self, member_id: str) -> int:
        return self._process(member_id).counts[member_id]

    def _has_active(self, member_id: str, task: Task, count: int) -> None:
        self.result[member_id].active.append(task)
        self.active_quota.count(count)
        self.quota.count(count)

    def _has_standby(self, member_id: str, task: Task, count: int) -> None:
        self.result[member_id].standby.append(task)
        self.quota.count(count)

    def _assign_active(self) -> None:
        tasks = [
            (name, number) for name, subtopology in self.subtopologies.items() for number in range(subtopology.tasks)
        ]
        tasks.sort(key=lambda task: (task[1], task[0]))

        def keep(before: Callable[[Task], str | None]) -> list[Task]:
            left = []
            for task in tasks:
                member_id = before(task)
                if member_id is not None and self._count(member_id) < self.active_quota.per_member:
                    self._has_active(member_id, task, self._process(member_id).give(member_id, task))
                else:
                    left.append(task)
            return left

        tasks = keep(self.active_before.get)
        tasks = keep(lambda task: self._least_loaded(self.standby_before.get(task, [])))
        by_load = _Queue(lambda process: process.load, self.in_order)
        for task in sorted(tasks):
            process = by_load.poll()
            member_id, count = process.give_to_least_loaded(task)
            self._has_active(member_id, task, count)
            by_load.add(process)

    def _least_loaded(self, member_ids: Iterable[str], standby: Task | None = None) -> str | None:
        """The member with the least load, for a ``standby`` task without those whose process has that task; None without one."""
        best: tuple[float, int, str] | None = None
        for member_id in member_ids:
            process = self._process(member_id)
            if standby is not None and standby in process.tasks:
                continue
            load, count = process.load, process.counts[member_id]
            if best is None or (load < best[0] and count < best[1]):
                best = load, count, member_id
        return None if best is None else best[2]

    def _assign_standby(self) -> None:
        stateful = [
            (name, subtopology.tasks) for name, subtopology in self.subtopologies.items() if subtopology.is_stateful
        ]
        tasks = [(name, number) for name, count in stateful for number in range(count)]
        tasks.sort(key=lambda task: (task[1], task[0]), reverse=True)
        left: list[tuple[Task, int]] = []
        for task in tasks:
            for replica in range(self.replicas):
                member_id = self._standby_holder(task)
                if member_id is None:
                    left.append((task, self.replicas - replica))
                    break
                self._has_standby(member_id, task, self._process(member_id).give(member_id, task))
        left.sort(key=lambda row: row[0], reverse=True)
        by_load = _Queue(lambda process: process.load, self.in_order)
        for task, replicas in left:
            for _ in range(replicas):
                if not self._to_least_loaded(by_load, task):
                    break

    def _standby_holder(self, task: Task) -> str | None:
        """The member that had the active task, else one that had a standby task of it, if it may have a standby task now; else None."""
        before = self.active_before.get(task)
        if (
            before is not None
            and task not in self._process(before).tasks
            and self._count(before) < self.quota.per_member
        ):
            return before
        member_id = self._least_loaded(self.standby_before.get(task, []), task)
        return member_id if member_id is not None and self._count(member_id) < self.quota.per_member else None

    def _to_least_loaded(self, by_load: _Queue[_Process], task: Task) -> bool:
        """Whether some process could have it."""
        passed: list[_Process] = []
        assigned = False
        while by_load and not assigned:
            process = by_load.poll()
            passed.append(process)
            if task not in process.tasks:
                member_id, count = process.give_to_least_loaded(task)
                self._has_standby(member_id, task, count)
                assigned = True
        for process in reversed(passed):
            by_load.add(process)
        return assigned


def _computed_order(names: Sequence[str]) -> list[str]:
    """The keys of a java.util.HashMap that was made for as many keys as there are ``names``, and asked for each of them with
    computeIfAbsent: it looks whether it has to grow when it is asked, not when it has got a key more, and puts a new key first in its
    bucket."""
    buckets = 1
    while buckets < len(names):
        buckets *= 2
    keys: dict[str, None] = {}
    for name in names:
        if len(keys) > buckets * 3 // 4:
            buckets *= 2
        keys[name] = None

    def bucket(name: str) -> int:
        code = string_hash(name)
        return (code ^ code >> 16) & (buckets - 1)

    last_first = list(reversed(keys))
    return sorted(last_first, key=bucket)

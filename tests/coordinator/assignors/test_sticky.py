"""The task assignor of streams groups against Kafka's own of 4.4.0, whose answers stand beside this (``kafkas_tasks`` made them by
running it)."""

from __future__ import annotations

import pytest

from broker_sim.coordinator.assignors.sticky import StreamsMember, TaskCount, assign
from tests.coordinator.assignors.kafkas_tasks import Answer, Case, Tasks, golden

ROWS = golden()


def _tasks(tasks: Tasks) -> tuple[tuple[str, int], ...]:
    return tuple((name, number) for name, numbers in tasks.items() for number in numbers)


def ours(case: Case, order: list[str] | None = None) -> dict[str, tuple[list[tuple[str, int]], list[tuple[str, int]]]]:
    members = {
        member: StreamsMember(process, _tasks(active), _tasks(standby))
        for member, (process, active, standby) in case.members.items()
    }
    given = {member: members[member] for member in order or members}
    found = assign({name: TaskCount(*one) for name, one in case.subtopologies.items()}, given, case.replicas)
    return {member: (sorted(one.active), sorted(one.standby)) for member, one in found.items()}


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_tasks_are_assigned_as_kafka_does(row: int) -> None:
    case, answer = ROWS[row]
    wanted = {member: (sorted(_tasks(active)), sorted(_tasks(standby))) for member, (active, standby) in answer.items()}
    assert ours(case) == wanted


def test_every_task_is_active_once_and_a_process_holds_a_task_once() -> None:
    for case, _ in ROWS:
        found = ours(case)
        wanted = sorted((name, number) for name, (count, _) in case.subtopologies.items() for number in range(count))
        assert sorted(task for active, _ in found.values() for task in active) == wanted
        held: list[tuple[str, tuple[str, int]]] = [
            (case.members[member][0], task) for member, tasks in found.items() for task in (*tasks[0], *tasks[1])
        ]
        assert len(held) == len(set(held))


def test_the_process_with_the_greatest_offsets_gets_the_active_task() -> None:
    rows = {"old": 10, "new": 500}
    members = {name: StreamsMember(f"p-{name}", offsets={("0", 0): offset}) for name, offset in rows.items()}
    found = assign({"0": TaskCount(1, is_stateful=True)}, members, 0)
    assert {name: one.active for name, one in found.items()} == {"old": [], "new": [("0", 0)]}


def test_no_members_have_no_tasks() -> None:
    assert assign({"0": TaskCount(2, is_stateful=False)}, {}, 1) == {}
    answer: Answer = {}
    assert ours(Case(1, {"0": (2, False)}, {})) == answer

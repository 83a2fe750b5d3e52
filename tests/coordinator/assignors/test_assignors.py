"""Assignors against Kafka's own, whose answers stand in golden.json (``kafkas`` made it by running them)."""

from __future__ import annotations

import pytest

from broker_sim.coordinator.assignors import ASSIGNORS, Subscribed
from tests.coordinator.assignors.kafkas import Case, Targets, golden, kafkas

GOLDEN = golden()
EXACT = [row for row in GOLDEN if row[0].is_homogeneous or row[0].assignor == "range"]
BALANCED = [row for row in GOLDEN if row not in EXACT]


def ours(case: Case) -> Targets:
    before = {
        member: {topic: tuple(sorted(numbers)) for topic, numbers in target.items()}
        for member, target in case.targets.items()
    }
    members = {member: frozenset(topics) for member, topics in case.members.items()}
    found = ASSIGNORS[case.assignor](Subscribed(case.partitions, members, before))  # type: ignore[arg-type]
    return {
        member: {topic: list(numbers) for topic, numbers in found.get(member, {}).items()}  # type: ignore[misc]
        for member in case.members
    }


def sizes(targets: Targets) -> list[int]:
    return sorted(sum(len(numbers) for numbers in target.values()) for target in targets.values())


def owners(targets: Targets) -> dict[tuple[int, int], str]:
    return {(t, n): member for member, target in targets.items() for t, numbers in target.items() for n in numbers}


def moves(before: Targets, after: Targets) -> int:
    now = owners(after)
    return sum(now.get(unit) != member for unit, member in owners(before).items())


def test_the_golden_file_has_enough_of_everything() -> None:
    assert len(EXACT) > 100
    assert len(BALANCED) > 20
    assert sum(case.assignor == "range" for case, _ in EXACT) > 50


@pytest.mark.parametrize("row", EXACT, ids=lambda row: f"{row[0].assignor}-{GOLDEN.index(row)}")
def test_range_and_uniform_of_alike_members_are_kafkas(row: tuple[Case, Targets]) -> None:
    case, answer = row
    assert ours(case) == answer


@pytest.mark.parametrize("row", BALANCED, ids=lambda row: str(GOLDEN.index(row)))
def test_uniform_of_members_that_read_different_topics_is_as_even_as_kafkas(row: tuple[Case, Targets]) -> None:
    case, answer = row
    mine = ours(case)
    assert sizes(mine) == sizes(answer)
    assert owners(mine).keys() == owners(answer).keys()
    assert all(topic in case.members[member] for member, target in mine.items() for topic in target)
    assert moves(case.targets, mine) <= moves(case.targets, answer) + 1


@pytest.mark.real_kafka
@pytest.mark.parametrize("version", ["4.1.0", "4.4.0"])
def test_the_golden_file_is_what_kafka_answers(version: str) -> None:
    exact = [row for row in GOLDEN if row in EXACT]
    assert kafkas([case for case, _ in exact], version) == [answer for _, answer in exact]

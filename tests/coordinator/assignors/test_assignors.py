"""Assignors against Kafka's own, whose answers stand in golden.json (``kafkas`` made it by running them)."""

from __future__ import annotations

import pytest

from broker_sim.coordinator.assignors import ASSIGNORS, Subscribed
from tests.coordinator.assignors.kafkas import Case, Targets, golden, kafkas

GOLDEN = golden()
HETEROGENEOUS = [case for case, _ in GOLDEN if case.assignor == "uniform" and not case.is_homogeneous]


def ours(case: Case) -> Targets:
    before = {
        member: {topic: tuple(sorted(numbers)) for topic, numbers in target.items()}
        for member, target in case.targets.items()
    }
    members = {member: frozenset(topics) for member, topics in case.members.items()}
    subscribed = Subscribed(case.partitions, members, before, case.is_homogeneous)  # type: ignore[arg-type]
    found = ASSIGNORS[case.assignor](subscribed)
    return {
        member: {topic: list(numbers) for topic, numbers in found.get(member, {}).items()}  # type: ignore[misc]
        for member in case.members
    }


def test_the_golden_file_has_enough_of_everything() -> None:
    assert len(GOLDEN) > 300
    assert len(HETEROGENEOUS) > 60
    assert sum(case.assignor == "range" for case, _ in GOLDEN) > 50


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: f"{row[0].assignor}-{GOLDEN.index(row)}")
def test_assignments_are_kafkas(row: tuple[Case, Targets]) -> None:
    case, answer = row
    assert ours(case) == answer


def test_topics_of_equal_rank_are_ordered_by_their_ids_as_signed_numbers() -> None:
    """As Uuid.compareTo: the topic whose id begins with the highest bit comes first."""
    high, low = b"\xff" * 16, b"\x01" * 16
    both = frozenset((high, low))
    members = {"a": both, "b": both, "c": frozenset((high,)), "d": frozenset((low,))}
    found = ASSIGNORS["uniform"](Subscribed({low: 1, high: 1}, members, {}, False))
    assert {member: dict(target) for member, target in found.items()} == {
        "a": {high: (0,)},
        "b": {low: (0,)},
        "c": {},
        "d": {},
    }


@pytest.mark.real_kafka
@pytest.mark.parametrize("version", ["4.1.0", "4.4.0"])
def test_the_golden_file_is_what_kafka_answers(version: str) -> None:
    assert kafkas([case for case, _ in GOLDEN], version) == [answer for _, answer in GOLDEN]

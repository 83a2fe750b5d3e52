"""Share groups' assignors against Kafka's own, of 4.1.0 and of 4.4.0, whose answers stand beside this (``kafkas`` made them by running
them)."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.coordinator.assignors.simple import ASSIGNORS
from tests.coordinator.assignors.kafkas import SIMPLE, Case, Targets, golden

NAMES = {"4.1.0": "simple until 4.1", "4.4.0": "simple"}
ROWS = [(version, number, row) for version, path in SIMPLE.items() for number, row in enumerate(golden(path))]


def _id(topic: int) -> bytes:
    return topic.to_bytes(16, "big")


def ours(version: str, case: Case) -> Targets:
    shared = {_id(topic): tuple(range(count)) for topic, count in case.partitions.items()}
    members = {member: frozenset(map(_id, topics)) for member, topics in case.members.items()}
    targets = {
        member: {_id(topic): tuple(numbers) for topic, numbers in target.items()}
        for member, target in case.targets.items()
    }
    found = ASSIGNORS[NAMES[version]](shared, members, targets, is_homogeneous=case.is_homogeneous)
    return {
        member: {int.from_bytes(topic, "big"): list(numbers) for topic, numbers in sorted(found[member].items())}
        for member in case.members
    }


EXACT = [one for one in ROWS if one[0] != "4.1.0" or one[2][0].is_homogeneous]


@pytest.mark.parametrize(
    ("version", "number", "row"), EXACT, ids=lambda value: value if isinstance(value, str) else None
)
def test_who_shares_in_what_is_as_kafka_has_it(version: str, number: int, row: tuple[Case, Targets]) -> None:
    case, answer = row
    assert ours(version, case) == answer


def test_of_4_1_where_members_read_different_topics_nothing_is_left_out() -> None:
    """There a member keeps more of what it had than Kafka lets it keep, and shares it with who has it besides."""
    for version, number, (case, answer) in ROWS:
        if (version, number) in {(one, at) for one, at, _ in EXACT}:
            continue
        mine = ours(version, case)
        for member, target in answer.items():
            for topic, numbers in target.items():
                assert set(numbers) <= set(mine[member].get(topic, ())), (version, number, member)
        assert all(topic in case.members[member] for member, target in mine.items() for topic in target)


def test_the_golden_files_have_enough_of_everything() -> None:
    for version in SIMPLE:
        cases = [row[0] for at, _, row in ROWS if at == version]
        assert sum(case.is_homogeneous for case in cases) > 40
        assert sum(not case.is_homogeneous for case in cases) > 20
        assert any(len(case.members) > sum(case.partitions.values()) for case in cases), version


def test_nobody_reads_nothing() -> None:
    nothing: dict[str, Any] = {}
    for assign in ASSIGNORS.values():
        assert assign({}, {}, {}, is_homogeneous=True) == nothing
        assert assign({_id(1): (0, 1)}, {"m": frozenset()}, {}, is_homogeneous=True) == {"m": {}}

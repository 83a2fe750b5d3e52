"""Cases for assignors, and what Kafka's own make of them: ``python -m tests.coordinator.assignors.kafkas`` writes the golden files
anew."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.real_kafka import java_command

GOLDEN = Path(__file__).with_name("golden.json")
KAFKA = "4.1.0"
SIMPLE = {version: Path(__file__).with_name(f"golden_simple_{version}.json") for version in ("4.1.0", "4.4.0")}
"""Recorded targets of share groups' assignor by version, as it has changed."""

Targets = dict[str, dict[int, list[int]]]


@dataclass
class Case:
    """Topics are numbers. ``members``: member -> what it reads; ``targets``: what they had."""

    assignor: str
    partitions: dict[int, int]
    members: dict[str, list[int]]
    targets: Targets

    @property
    def is_homogeneous(self) -> bool:
        return len({tuple(sorted(topics)) for topics in self.members.values()}) == 1

    def lines(self) -> list[str]:
        """As ``Assign.java`` reads it."""
        members = [
            f"{member} {','.join(map(str, topics)) or '-'} {_written(self.targets.get(member, {}))}"
            for member, topics in self.members.items()
        ]
        topics = [f"{topic} {count}" for topic, count in self.partitions.items()]
        return [f"{self.assignor} {'same' if self.is_homogeneous else 'other'}", *topics, *members, ""]


def _written(target: dict[int, list[int]]) -> str:
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in target.items()) or "-"


def _read(text: str) -> dict[int, list[int]]:
    pairs = [each.split(":") for each in text.split(";")] if text != "-" else []
    return {int(topic): [int(number) for number in numbers.split(",") if number] for topic, numbers in pairs}


def kafkas(cases: list[Case], version: str = KAFKA) -> list[Targets]:
    """Return the targets that Kafka's assignors compute."""
    source = Path(__file__).parent / "java" / "Assign.java"
    question = "\n".join(line for case in cases for line in case.lines()) + "\n"
    done = subprocess.run(
        java_command(version, str(source)), input=question.encode(), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    blocks = done.stdout.decode().strip().split("\n\n")
    return [{line.split(" ")[0]: _read(line.split(" ")[1]) for line in block.splitlines()} for block in blocks]


def histories(seeds: int, steps: int, names: Sequence[str] = ("uniform", "range"), version: str = KAFKA) -> list[Case]:
    """Groups that members join and leave and whose topics come and grow, step by step; each step starts from what Kafka made of the
    one before."""
    rngs = [random.Random(seed) for seed in range(seeds)]
    cases: list[Case] = []
    present = [_first(rng, names[seed % len(names)]) for seed, rng in enumerate(rngs)]
    for step in range(steps):
        answers = kafkas(present, version)
        cases += present
        present = [_next(rng, case, answer, step) for rng, case, answer in zip(rngs, present, answers, strict=True)]
    return cases


def _first(rng: random.Random, assignor: str) -> Case:
    partitions = {topic: rng.randint(1, 9) for topic in range(1, rng.randint(2, 5))}
    return Case(assignor, partitions, {"m0": list(partitions)}, {})


def _next(rng: random.Random, case: Case, answer: Targets, step: int) -> Case:
    partitions, members = dict(case.partitions), {member: list(topics) for member, topics in case.members.items()}
    kind = rng.randrange(6)
    if kind == 0 and len(members) > 1:
        members.pop(rng.choice(list(members)))
    elif kind == 1:
        topic = rng.choice(list(partitions))
        partitions[topic] += rng.randint(1, 4)
    elif kind in (2, 3) and case.assignor != "range" and len(partitions) > 1:
        members[rng.choice(list(members))] = sorted(rng.sample(list(partitions), rng.randint(1, len(partitions))))
    else:
        members[f"m{step + 1}"] = list(partitions)
    return Case(case.assignor, partitions, members, {m: t for m, t in answer.items() if m in members})


def main() -> None:
    _write(GOLDEN, [*histories(40, 6), *histories(40, 6, ["uniform"])], KAFKA)
    for version, path in SIMPLE.items():
        _write(path, histories(20, 6, ["simple"], version), version)


def _write(path: Path, cases: list[Case], version: str) -> None:
    rows: list[Any] = [
        [case.assignor, case.partitions, case.members, case.targets, answer]
        for case, answer in zip(cases, kafkas(cases, version), strict=True)
    ]
    path.write_text("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")


def golden(path: Path = GOLDEN) -> list[tuple[Case, Targets]]:
    """The cases with Kafka's answers."""

    def keyed(named: dict[str, Any]) -> dict[int, Any]:
        return {int(key): value for key, value in named.items()}

    def targets(named: dict[str, dict[str, list[int]]]) -> Targets:
        return {member: keyed(target) for member, target in named.items()}

    return [
        (Case(assignor, keyed(partitions), members, targets(before)), targets(after))
        for assignor, partitions, members, before, after in json.loads(path.read_text())
    ]


if __name__ == "__main__":
    main()

"""Cases for the task assignor of streams groups, and what Kafka's own makes of them: ``python -m
tests.coordinator.assignors.kafkas_tasks`` writes the golden file anew."""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.real_kafka import java_command

GOLDEN = Path(__file__).with_name("golden_sticky_4.4.0.json")
KAFKA = "4.4.0"

Tasks = dict[str, list[int]]
Answer = dict[str, tuple[Tasks, Tasks]]
"""Member -> its active and its standby tasks, by subtopology."""


@dataclass
class Case:
    """``subtopologies``: id -> number of tasks, and whether it keeps state. ``members``: member -> its process, and the active and
    standby tasks of its last target."""

    replicas: int
    subtopologies: dict[str, tuple[int, bool]]
    members: dict[str, tuple[str, Tasks, Tasks]]

    def lines(self) -> list[str]:
        """As ``AssignTasks.java`` reads it."""
        named = [f"{name} {count} {str(stateful).lower()}" for name, (count, stateful) in self.subtopologies.items()]
        members = [
            f"{member} {process} {_written(active)} {_written(standby)}"
            for member, (process, active, standby) in self.members.items()
        ]
        return [str(self.replicas), *named, *members, ""]


def _written(tasks: Tasks) -> str:
    return ";".join(f"{name}:{','.join(map(str, numbers))}" for name, numbers in tasks.items()) or "-"


def _read(text: str) -> Tasks:
    pairs = [each.split(":") for each in text.split(";")] if text != "-" else []
    return {name: [int(number) for number in numbers.split(",")] for name, numbers in pairs}


def kafkas(cases: list[Case]) -> list[Answer]:
    """Return the assignments that Kafka's assignor computes."""
    source = Path(__file__).parent / "java" / "AssignTasks.java"
    question = "\n".join(line for case in cases for line in case.lines()) + "\n"
    done = subprocess.run(
        java_command(KAFKA, str(source)), input=question.encode(), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    blocks = [block.splitlines() for block in done.stdout.decode().strip().split("\n\n")]
    rows = [[line.split(" ") for line in block] for block in blocks]
    return [{member: (_read(active), _read(standby)) for member, active, standby in row} for row in rows]


def histories(seeds: int, steps: int) -> list[Case]:
    """Groups that members join and leave, step by step; each step starts from what Kafka made of the one before."""
    rngs = [random.Random(seed) for seed in range(seeds)]
    cases: list[Case] = []
    present = [_first(rng) for rng in rngs]
    for step in range(steps):
        answers = kafkas(present)
        cases += present
        present = [_next(rng, case, answer, step) for rng, case, answer in zip(rngs, present, answers, strict=True)]
    return cases


def _first(rng: random.Random) -> Case:
    subtopologies = {str(name): (rng.randint(1, 7), rng.random() < 0.6) for name in range(rng.randint(1, 4))}
    members = {f"m{number}": (f"p{rng.randrange(4)}", Tasks(), Tasks()) for number in range(rng.randint(1, 5))}
    return Case(rng.choice((0, 0, 1, 1, 2)), subtopologies, members)


def _next(rng: random.Random, case: Case, answer: Answer, step: int) -> Case:
    members = {member: (process, *answer[member]) for member, (process, _, _) in case.members.items()}
    kind = rng.randrange(4)
    if kind == 0 and len(members) > 1:
        members.pop(rng.choice(list(members)))
    else:
        members[f"n{step}{'x' * rng.randrange(3)}"] = (f"p{rng.randrange(20)}", {}, {})
    subtopologies = dict(case.subtopologies)
    if kind == 1:
        name = rng.choice(list(subtopologies))
        subtopologies[name] = (subtopologies[name][0] + 1, subtopologies[name][1])
    return Case(case.replicas, subtopologies, members)


def main() -> None:
    cases = histories(60, 8)
    rows = [
        [case.replicas, case.subtopologies, case.members, answer]
        for case, answer in zip(cases, kafkas(cases), strict=True)
    ]
    GOLDEN.write_text("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")


def golden() -> list[tuple[Case, Answer]]:
    """The cases with Kafka's answers."""
    return [
        (
            Case(replicas, {name: (one[0], one[1]) for name, one in named.items()}, members),
            {member: (tasks[0], tasks[1]) for member, tasks in answer.items()},
        )
        for replicas, named, members, answer in json.loads(GOLDEN.read_text())
    ]


if __name__ == "__main__":
    main()

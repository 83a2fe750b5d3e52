"""``Group.version`` counts every change of what a group's requests are answered by: what is remembered of them hangs on it alone."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker_sim.coordinator.classic.group import HEARTBEAT_ANSWER, ClassicGroup
from broker_sim.coordinator.outcome import CommitOffsets
from kafka_wire.errors import Err
from tests.coordinator.test_histories import GROUPS
from tests.coordinator.test_store import Deleting

INSTANCES = (None, "i1", "i2")


def answers(group: ClassicGroup, ids: list[str]) -> dict[Any, Any]:
    """Return the answer to each of ``ids``, with every instance id and generation, and the length of its session."""
    out: dict[Any, Any] = {}
    for member_id in dict.fromkeys([*ids, *group.members]):
        out[member_id] = group.session_of(member_id)
        for instance_id in INSTANCES:
            for generation in range(-1, group.generation + 2):
                who = member_id, instance_id, generation
                heard = group.check_member(member_id, instance_id)
                if heard is Err.NONE:
                    right = generation == group.generation
                    heard = HEARTBEAT_ANSWER[group.state] if right else Err.ILLEGAL_GENERATION
                request = CommitOffsets(group.group_id, generation, member_id, instance_id, [])
                out[who] = heard, group.validate_commit(request)
    return out


class Watched(Deleting):
    """A history in which sessions change, and after each step of which every group that there has been is looked at."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.sessions = random.Random(f"sessions {seed}")
        self.known: dict[int, tuple[ClassicGroup, int, dict[Any, Any]]] = {}
        self.same = self.other = 0
        join = self.core.join

        def joined(*args: Any, **more: Any) -> int:
            more["session_ms"] = self.sessions.choice([20_000, 20_000, 30_000])
            return join(*args, **more)

        self.core.join = joined  # type: ignore[method-assign]

    def check(self) -> None:
        super().check()
        there = [self.core.shard.classic(group_id) for group_id in GROUPS]
        groups = {
            id(group): group for group in (*there, *(known[0] for known in self.known.values())) if group is not None
        }
        for key, group in groups.items():
            now = answers(group, self.ids[-6:])
            _, version, before = self.known.get(key, (group, -1, {}))
            self.known[key] = group, group.version, now
            if version != group.version:
                self.other += 1
                continue
            self.same += 1
            for who in now.keys() & before.keys():
                assert now[who] == before[who], (group.group_id, version, who)


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_who_would_be_answered_otherwise_finds_another_version(first: int) -> None:
    same = other = 0
    for seed in range(first, first + 6):
        history = Watched(seed)
        history.run(150)
        same, other = same + history.same, other + history.other
    assert same > 500
    assert other > 100

"""The version of offset commit values by release."""

from __future__ import annotations

import pytest

from broker_sim.coordinator.policy import policy_of
from tests.coordinator.harness import Core


@pytest.mark.parametrize(
    ("coordinator", "release", "version"),
    [
        ("scala", (3, 4), 3),
        ("scala", (3, 9), 3),
        ("java", (3, 9), 3),
        ("java", (4, 0), 3),
        ("java", (4, 1), 4),
        ("java", (4, 4), 4),
    ],
)
def test_topic_ids_came_into_commits_with_4_1(coordinator: str, release: tuple[int, int], version: int) -> None:
    core = Core(policy=policy_of(coordinator, release))
    core.commit(5)
    core.commit(6, expire_ts_ms=core.now_ms + 1000)
    values = [value for key, value in core.log if key and value is not None]
    assert [int.from_bytes(value[:2], "big") for value in values[-2:]] == [version, 1]

"""Regular expressions whose result could not be recorded: they are resolved again."""

from __future__ import annotations

import pytest

from kafka_wire.errors import Err
from tests.coordinator.consumer.crowd import Crowd

EACH = pytest.mark.parametrize("release", [(4, 1), (4, 2), (4, 4)], ids=["4.1", "4.2", "4.4"])


@EACH
def test_a_refresh_whose_append_failed_is_repeated(release: tuple[int, int]) -> None:
    core = Crowd(release, {"fa": 1})
    core.told("A", 0, subscribed_topic_names=[], subscribed_topic_regex="f.*")
    core.advance(0)
    core.told("A", 1)
    core.topics({"fz": 1})
    for _ in range(2):
        core.advance(6_000)
        core.told("A", 2)
    core.log_error = Err.NOT_LEADER_OR_FOLLOWER
    core.advance(0)
    core.log_error = Err.NONE
    assert core.consumer().latest.matched["f.*"].topics == ["fa"]
    core.written()
    core.told("A", 2)
    core.advance(0)
    assert core.written() == ["16 fa,fz", "3 e3"]


@EACH
def test_a_refresh_whose_append_failed_is_repeated_by_the_coordinator_that_has_loaded_the_group(
    release: tuple[int, int],
) -> None:
    """Each coordinator counts the versions of its topics itself: the first of both is 1."""
    core = Crowd(release, {"fa": 1})
    core.told("A", 0, subscribed_topic_names=[], subscribed_topic_regex="f.*")
    core.advance(0)
    core.told("A", 1)
    assert core.consumer().latest.matched["f.*"].version == 1
    for _ in range(2):
        core.advance(6_000)
        core.told("A", 2)
    other = core.reloaded({"fa": 1, "fz": 1})
    other.log_error = Err.NOT_LEADER_OR_FOLLOWER
    other.hb("A", 2)
    other.advance(0)
    other.log_error = Err.NONE
    assert other.consumer().latest.matched["f.*"].topics == ["fa"]
    for _ in range(2):
        other.advance(6_000)
        other.hb("A", 2)
    other.advance(0)
    assert other.consumer().latest.matched["f.*"].topics == ["fa", "fz"]

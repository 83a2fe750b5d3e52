"""A topic of very many partitions: a look at what a group lacks costs a look at each, not at each pair."""

from __future__ import annotations

from typing import Any

from broker_sim.coordinator.share.partitions import Topic, TopicState, uninitialized, without

MANY = 2000


class Number(int):
    """A partition's number that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Number.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


class Group:
    """Part of a share group that `uninitialized` reads."""

    def __init__(self, initialized: Topic, initializing: Topic) -> None:
        self.latest = self
        self.named, self.initialized, self.initializing = {"t": 1}, initialized, initializing


class Shard:
    """Part of a shard that `uninitialized` reads: one topic."""

    def __init__(self) -> None:
        self.topics = self
        self.by_name = {"t": self}
        self.topic_id, self.partitions = b"t", MANY


def topic(numbers: range) -> Topic:
    return Topic({b"t": TopicState("t", tuple(map(Number, numbers)))})


def test_what_a_group_lacks_is_found_in_one_pass() -> None:
    Number.compared = 0
    shard: Any = Shard()
    group: Any = Group(topic(range(0, MANY, 2)), topic(range(1, MANY - 1, 2)))
    assert uninitialized(shard, group) == {b"t": TopicState("t", (MANY - 1,))}
    assert Number.compared <= 4 * MANY


def test_what_is_left_without_others_is_found_in_one_pass() -> None:
    Number.compared = 0
    left = without(topic(range(MANY)), topic(range(0, MANY, 2)))
    assert len(left[b"t"].partitions) == MANY // 2
    assert Number.compared <= 4 * MANY

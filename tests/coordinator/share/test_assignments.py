"""Assignments of share members as their subscriptions change, by release: each sequence was sent to 4.1.0, 4.2.0 and 4.4.0."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.coordinator.outcome import TopicsChanged
from broker_sim.coordinator.policy import JAVA, JAVA_SINCE, Policy
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.topics import TopicImage
from kafka_wire.errors import Err
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatResponse
from tests.coordinator.share.test_share_group import Shared

TOPICS = {name: bytes([number]) * 16 for number, name in enumerate("tuv", 1)}
POLICIES = {f"{major}.{minor}": policy for (major, minor), policy in JAVA_SINCE if (major, minor) > (4, 1)}
TARGET, CURRENT = 13, 14
RELEASES = pytest.mark.parametrize("policy", [JAVA, *POLICIES.values()], ids=["4.1", *POLICIES])
SINCE_4_2 = pytest.mark.parametrize("policy", [*POLICIES.values()], ids=[*POLICIES])


class Group(Shared):
    """With topics t and u of two partitions, v of one."""

    def __init__(self, policy: Policy, **settings: Any) -> None:
        super().__init__(policy, **settings)
        self.step(TopicsChanged({name: TopicImage(id_, 1 if name == "v" else 2) for name, id_ in TOPICS.items()}))
        self.epochs: dict[str, int] = {}

    def beat(self, member: str, *names: str, epoch: int | None = None) -> dict[str, list[int]] | None:
        """A heartbeat with the member's epoch: its assignment, by topic."""
        epoch = self.epochs.get(member, 0) if epoch is None else epoch
        answer: ShareGroupHeartbeatResponse = self.heartbeat(member, epoch, list(names) or None)
        assert answer.error_code == Err.NONE, answer
        self.epochs[member] = answer.member_epoch
        if answer.assignment is None:
            return None
        names_of = {id_: name for name, id_ in TOPICS.items()}
        return {names_of[topic.topic_id]: topic.partitions for topic in answer.assignment.topic_partitions}

    def values(self, kind: int) -> list[dict[str, list[int]]]:
        """The records of targets or of current assignments, in order."""
        names_of = {id_: name for name, id_ in TOPICS.items()}
        return [
            {names_of[topic.topic_id]: topic.partitions for topic in self.topics_of(value)}
            for written, value in self.written()
            if written == kind and value is not None
        ]

    @staticmethod
    def topics_of(value: Any) -> Any:
        return value.topic_partitions if hasattr(value, "topic_partitions") else value.assigned_partitions


@RELEASES
def test_a_member_that_joins_again(policy: Policy) -> None:
    """Before 4.2 epoch 0 is an epoch as any other: the previous one is accepted, an older one is not."""
    group = Group(policy)
    first = group.heartbeat("ann", 0, ["t"])
    assert group.heartbeat("ann", 0, ["t"]).error_code == Err.NONE, "its previous epoch is 0"
    group.epochs["ann"] = first.member_epoch
    for _ in range(2):
        group.beat("ann")
    again = group.heartbeat("ann", 0, ["t", "u"])
    if policy is JAVA:
        assert again.error_code == Err.FENCED_MEMBER_EPOCH
        assert "does not match the previous member epoch" in (again.error_message or "")
    else:
        assert (again.error_code, again.member_epoch) == (Err.NONE, group.epochs["ann"] + 1)


@RELEASES
def test_a_topic_that_the_group_gives_up(policy: Policy) -> None:
    """Before 4.2 each heartbeat increments the epoch until the topic is read again."""
    group = Group(policy)
    group.beat("ann", "t", "u")
    assert group.beat("ann") == {"t": [0, 1], "u": [0, 1]}
    assert group.beat("ann", "t") == {"t": [0, 1]}
    before = group.epochs["ann"]
    for _ in range(3):
        group.beat("ann")
    assert group.epochs["ann"] - before == (3 if policy is JAVA else 0)
    assert group.beat("ann", "t", "u") == {"t": [0, 1], "u": [0, 1]}
    before = group.epochs["ann"]
    for _ in range(3):
        group.beat("ann")
    assert group.epochs["ann"] == before


@SINCE_4_2
def test_a_topic_without_partitions_stays_in_the_target_of_who_gave_it_up(policy: Policy) -> None:
    group = Group(policy)
    group.beat("ann", "t", "v")
    group.beat("ann")
    group.beat("bob", "t")
    group.beat("ann", "v")
    assert group.values(TARGET)[-2:] == [{"t": [], "v": [0]}, {"t": [0, 1]}] or group.values(TARGET)[-2:] == [
        {"t": [0, 1]},
        {"t": [], "v": [0]},
    ]
    assert group.values(CURRENT)[-1] == {"v": [0]}, "it is given only what it reads"
    loaded = group.reload().shard.groups["g"]
    assert isinstance(loaded, ShareGroup)
    assert loaded.stored == group.group().stored


@SINCE_4_2
def test_a_topic_that_no_member_reads_stays_in_a_target_while_members_read_different_ones(policy: Policy) -> None:
    group = Group(policy)
    group.beat("ann", "t", "u")
    group.beat("ann")
    group.beat("bob", "v")
    for member in ("ann", "bob", "ann"):
        group.beat(member)
    targets = len(group.values(TARGET))
    assert group.beat("ann", "t") == {"t": [0, 1]}
    assert len(group.values(TARGET)) == targets, "its target still has u"
    group.heartbeat("bob", -1)
    group.beat("ann")
    assert group.values(TARGET)[-1] == {"t": [0, 1]}


@SINCE_4_2
def test_within_the_assignment_interval_a_member_has_at_once_no_more_than_it_reads(policy: Policy) -> None:
    group = Group(policy, assignment_interval_ms=60_000)
    group.beat("ann", "t", "u")
    group.now_ms += 60_000
    group.beat("ann")
    before = group.epochs["ann"]
    assert group.beat("ann", "t") == {"t": [0, 1]}
    assert group.beat("ann", "t", "u") == {"t": [0, 1], "u": [0, 1]}
    delayed = policy.assignment_times_are_stored
    assert group.epochs["ann"] - before == (0 if delayed else 2)

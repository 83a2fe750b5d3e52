"""Limits on the topics and partitions that one request may create, and its cost: the answers of brokers of 3.4.0 to 4.4.0."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sim.handlers import k19_create_topics, k37_create_partitions  # before a limit is set: they take its value
from broker_sim.metadata import creation_limits
from kafka_wire.errors import Err
from kafka_wire.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kafka_wire.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.data_plane.helpers import creatable
from tests.support.ctx import Sim

TOO_MANY = (Err.POLICY_VIOLATION, "Excessively large number of partitions per request.")
TOO_LARGE = (Err.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
TOO_MANY_MORE = (Err.POLICY_VIOLATION, "Excessively large number of additional partitions per request.")
FAILED = (Err.UNKNOWN_SERVER_ERROR, None)
DONE = (Err.NONE, None)
TWICE = (Err.INVALID_REQUEST, "Duplicate topic name.")
RELEASES = ("3.4", "3.9", "4.0", "4.3", "4.4")
DEFAULTS = {"num.partitions": 4}


def validated(sim: Sim, *topics: CreatableTopic, only: bool = True) -> dict[str, tuple[int, str | None]]:
    answer = sim.call(CreateTopicsRequest(list(topics), 1000, only), 5)
    return {topic.name: (topic.error_code, topic.error_message) for topic in answer.topics}


def by_hand(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name, -1, -1, [CreatableReplicaAssignment(n, [1]) for n in range(partitions)], [])


@pytest.mark.parametrize("as_version", RELEASES)
def test_the_partitions_of_a_request_are_counted_over_all_its_topics(as_version: str) -> None:
    sim = Sim(config=DEFAULTS, as_version=as_version)
    refused = {"3.4": DONE, "3.9": TOO_LARGE}.get(as_version, TOO_MANY)
    for topics in (
        [creatable("a", 10_001, 1)],
        [creatable("a", 5001, 1), creatable("b", 5001, 1)],
        [by_hand("a", 10_001)],
        [creatable("a", 9997, 1), creatable("b", -1, -1)],
        [creatable("a", 5000, 1), by_hand("b", 5001)],
    ):
        assert set(validated(sim, *topics).values()) == {refused}, topics[0].num_partitions


@pytest.mark.parametrize("as_version", RELEASES)
def test_so_are_the_records_of_the_controller(as_version: str) -> None:
    sim = Sim(config=DEFAULTS, as_version=as_version)
    refused = DONE if as_version == "3.4" else TOO_LARGE
    compact = {"cleanup.policy": "compact"}
    for topics in (
        [creatable("a", 10_000, 1)],
        [creatable("a", 9999, 1, compact)],
        [creatable("a", 9996, 1), creatable("b", -1, -1)],
        [creatable(f"t{n}", 1, 1) for n in range(5001)],
    ):
        assert set(validated(sim, *topics).values()) == {refused}
    for topics in (
        [creatable("a", 9999, 1)],
        [creatable("a", 9998, 1, compact)],
        [creatable("a", 9994, 1), creatable("b", -1, -1)],
        [creatable(f"t{n}", 1, 1) for n in range(5000)],
    ):
        assert set(validated(sim, *topics).values()) == {DONE}


@pytest.mark.parametrize("as_version", ["3.9", "4.1", "4.4"])
def test_topics_that_are_refused_for_another_reason_make_no_records(as_version: str) -> None:
    sim = Sim(topics={"there": 1}, as_version=as_version)
    exists = (Err.TOPIC_ALREADY_EXISTS, "Topic 'there' already exists.")
    assert validated(sim, creatable("there", 5000, 1), creatable("a", 5000, 1)) == {"there": exists, "a": DONE}
    names = ["b d", "c d"]
    wrong = [creatable(name, 1, 1) for name in names] + [creatable(f"t{n}", 1, 1) for n in range(4999)]
    answers = validated(sim, *wrong)
    assert [name for name, answer in answers.items() if answer != DONE] == names


@pytest.mark.parametrize("as_version", RELEASES)
def test_topics_named_twice_do_not_count(as_version: str) -> None:
    sim = Sim(as_version=as_version)
    twice = [creatable("a", 6000, 1), creatable("a", 6000, 1), creatable("b", 1, 1)]
    assert validated(sim, *twice) == {"a": TWICE, "b": DONE}


@pytest.mark.parametrize("as_version", ["4.0", "4.4"])
def test_the_number_is_checked_before_anything_else(as_version: str) -> None:
    sim = Sim(topics={"there": 1}, as_version=as_version)
    for wrong in (creatable("a b", 1, 1), creatable("there", 1, 1), creatable("q", 1, 9), creatable("q", -5, 1)):
        assert set(validated(sim, wrong, creatable("b", 10_001, 1)).values()) == {TOO_MANY}
    late = sim.call(CreateTopicsRequest([creatable("a", 10_001, 1)], 0, True), 5)
    assert late.topics[0].error_code == Err.REQUEST_TIMED_OUT


def test_the_replication_factor_is_checked_before_the_records() -> None:
    sim = Sim(as_version="3.9")
    answers = validated(sim, creatable("q", 10_001, 9), creatable("f", 1, 1))
    assert (answers["q"][0], answers["f"]) == (Err.INVALID_REPLICATION_FACTOR, DONE)


@pytest.mark.parametrize("as_version", RELEASES)
def test_a_request_that_is_too_large_creates_nothing(as_version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (creation_limits, k19_create_topics):
        monkeypatch.setattr(module, "MAX_AT_ONCE", 10)
    sim = Sim(as_version=as_version)
    refused = FAILED if as_version == "3.4" else TOO_LARGE
    assert set(validated(sim, creatable("a", 4, 1), creatable("b", 5, 1), only=False).values()) == {refused}
    assert sim.state.topics == {}
    assert set(validated(sim, creatable("a", 4, 1), creatable("b", 4, 1), only=False).values()) == {DONE}


def test_3_4_validates_more_but_not_what_does_not_fit_into_memory() -> None:
    sim = Sim(as_version="3.4")
    words = "2147483647 partitions in one request are too many for broker-sim, which allows 100000"
    assert validated(sim, creatable("a", 2**31 - 1, 1)) == {"a": (Err.POLICY_VIOLATION, words)}
    assert validated(sim, creatable("a", 100_000, 1)) == {"a": DONE}


@pytest.mark.parametrize("as_version", RELEASES)
def test_validating_keeps_one_object_for_all_partitions_and_one_list_for_all_settings(as_version: str) -> None:
    sim = Sim(as_version=as_version)
    topic = sim.state.create_topic("a", 9999, validate_only=True)
    assert len(topic.partitions) == 9999
    assert len({id(partition) for partition in topic.partitions}) == 1
    compact = {"cleanup.policy": "compact"}
    made = [creatable("a", 1, 1), creatable("b", 1, 1), creatable("c", 1, 1, compact), creatable("d", 1, 1, compact)]
    a, b, c, d = sim.call(CreateTopicsRequest(made, 1000, True), 5).topics
    assert a.configs is b.configs
    assert c.configs is d.configs
    settings = [{one.name: one.value for one in topic.configs}["cleanup.policy"] for topic in (a, b, c, d)]
    assert settings == ["delete", "delete", "compact", "compact"]


# ------------------------------------------------------------------------------------------------ CreatePartitions


def grown(sim: Sim, only: bool = True, **counts: int) -> dict[str, tuple[int, str | None]]:
    rows = [CreatePartitionsTopic(name, count, None) for name, count in counts.items()]
    answer = sim.call(CreatePartitionsRequest(rows, 1000, only), 3)
    return {row.name: (row.error_code, row.error_message) for row in answer.results}


def sizes(sim: Sim) -> dict[str, int]:
    return {name: len(topic.partitions) for name, topic in sim.state.topics.items()}


@pytest.mark.parametrize("as_version", RELEASES)
def test_new_partitions_are_counted_over_all_topics(as_version: str) -> None:
    sim = Sim(topics={"a": 1, "b": 1, "c": 3}, as_version=as_version)
    assert grown(sim, a=10_001) == {"a": DONE}
    assert grown(sim, a=5001, b=5001) == {"a": DONE, "b": DONE}
    of_three = {"3.4": (DONE, DONE, DONE), "4.4": (TOO_MANY_MORE,) * 3}.get(as_version, (DONE, FAILED, FAILED))
    assert grown(sim, a=6001, b=6001, c=5) == dict(zip("abc", of_three, strict=True))
    unknown = (Err.UNKNOWN_TOPIC_OR_PARTITION, None)
    assert grown(sim, x=20_000, c=5) == {"x": unknown, "c": DONE}
    alone = {"3.4": DONE, "4.4": TOO_MANY_MORE}.get(as_version, FAILED)
    assert grown(sim, a=10_002) == {"a": alone}
    rows = [CreatePartitionsTopic("a", 10_002, [CreatePartitionsAssignment([1])] * 10_001)]
    [row] = sim.call(CreatePartitionsRequest(rows, 1000, True), 3).results
    assert (row.error_code, row.error_message) == alone


def test_topics_that_can_not_grow_do_not_count() -> None:
    sim = Sim(topics={"a": 1, "b": 3}, as_version="4.4")
    fewer = (Err.INVALID_PARTITIONS, "The topic b currently has 3 partition(s); 1 would not be an increase.")
    assert grown(sim, a=10_001, b=1) == {"a": DONE, "b": fewer}
    assert grown(sim, a=10_002, b=1) == {"a": TOO_MANY_MORE, "b": TOO_MANY_MORE}


@pytest.mark.parametrize(
    ("as_version", "answers", "after"),
    [
        ("3.4", (FAILED, FAILED, FAILED), (1, 1, 1)),
        ("3.9", (DONE, FAILED, FAILED), (7, 5, 1)),
        ("4.1", (DONE, FAILED, FAILED), (7, 5, 1)),
        ("4.4", (TOO_MANY_MORE,) * 3, (1, 1, 1)),
    ],
)
def test_how_far_topics_grow_that_are_to_grow_too_much(
    as_version: str, answers: Any, after: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """4.1.0 left topics with 6,001, 3,999 and 5 partitions of 6,001, 6,001 and 5, and said -1 of the second one."""
    for module in (creation_limits, k37_create_partitions):
        monkeypatch.setattr(module, "MAX_AT_ONCE", 10)
    sim = Sim(topics={"a": 1, "b": 1, "c": 1}, as_version=as_version)
    assert grown(sim, only=False, a=7, b=8, c=2) == dict(zip("abc", answers, strict=True))
    assert tuple(sizes(sim).values()) == after

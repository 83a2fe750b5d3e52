"""Long lists of a member are read, compared and described in pieces: none touches more than `MOST` names, be it in one call
of a function in C. A name counts how often it is hashed or compared."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any

import pytest

from broker_sim.common.slices import at_once, distinct, in_order
from broker_sim.coordinator.classic.vote import java_order, java_ordering
from broker_sim.coordinator.outcome import Client
from broker_sim.coordinator.streams.describing import describing
from broker_sim.coordinator.streams.heartbeat import expecting
from broker_sim.coordinator.streams.requests import StreamsHeartbeat, reading_tags
from broker_sim.coordinator.streams.topology import receiving
from broker_sim.coordinator.topics import TopicImage, Topics
from kafka_wire.messages.k88_streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.coordinator.streams.harness import Streams
from tests.support.counted_names import Name

COUNT = 40_000
MOST = 24 * 4000
"""A chunk of 4,000 that is sorted takes less than 12 comparisons each; a part that is merged as many again."""


def names(count: int = COUNT, prefix: str = "") -> list[str]:
    found: list[str] = [Name(f"{prefix}{number:x}") for number in range(count)]
    random.Random(1).shuffle(found)
    return found


def most_of(job: Generator[None, None, Any]) -> tuple[Any, int]:
    """The result, and how often a piece touched names at most."""
    most = 0
    while True:
        Name.touched = 0
        try:
            next(job)
        except StopIteration as done:
            return done.value, max(most, Name.touched)
        most = max(most, Name.touched)


JOBS: dict[str, tuple[Callable[[list[str]], Generator[None, None, Any]], Callable[[list[str]], Any]]] = {
    "in order": (in_order, sorted),
    "equal, in order": (lambda some: in_order(["same"] * len(some)), lambda some: ["same"] * len(some)),
    "each once": (distinct, dict.fromkeys),
    "as Java's map": (java_ordering, java_order),
}


@pytest.mark.parametrize("what", JOBS)
def test_names_are_ordered_in_pieces(what: str) -> None:
    job, at_once_as = JOBS[what]
    some = names()
    result, most = most_of(job(some))
    assert result == at_once_as(some)
    assert most <= MOST


@pytest.mark.parametrize("size", [0, 1, 3_999, 4_000, 4_001, 8_000, 20_000])
@pytest.mark.parametrize("different", [3, 10**9])
def test_names_of_any_number_come_in_order(size: int, different: int) -> None:
    draw = random.Random(size)
    some = [f"{draw.randrange(different):x}" for _ in range(size)]
    assert at_once(in_order(some)) == sorted(some)


TOPOLOGIES: dict[str, Callable[[], Subtopology]] = {
    "unknown source topics": lambda: Subtopology("0", names()),
    "equal source topics": lambda: Subtopology("0", [Name("read")] * COUNT),
    "sink topics": lambda: Subtopology("0", ["read"], repartition_sink_topics=names()),
    "repartition topics": lambda: Subtopology(
        "0", ["read"], repartition_source_topics=[TopicInfo(name, 1) for name in names(COUNT // 2, "r")]
    ),
    "changelogs": lambda: Subtopology("0", ["read"], [], [TopicInfo(name) for name in names(COUNT // 2, "c")]),
    "settings": lambda: Subtopology("0", ["read"], [], [TopicInfo("log", 0, 0, [KeyValue(n, "") for n in names()])]),
    "copartition groups": lambda: Subtopology(
        "0", ["read"], [], [], [], [TopicInfo("r", 1)], [CopartitionGroup([0], [], [0])] * COUNT
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", TOPOLOGIES)
def test_a_topology_is_read_compared_and_described_in_pieces(what: str) -> None:
    topology = Topology(0, [TOPOLOGIES[what]()])
    topics = Topics()
    topics.change({"read": TopicImage(b"r" * 16, 1)})
    received, most = most_of(receiving(topology, topics))
    assert most <= MOST
    again, most = most_of(receiving(topology, topics, received.topology))
    assert most <= MOST
    assert again.same is received.topology

    core = Streams(initial_rebalance_delay_ms=0)
    core.topic("read", 1)
    tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    core.beat("A", 0, rebalance_timeout_ms=30_000, process_id="p", topology=topology, **tasks)
    described, most = most_of(describing(core.shard, "g"))
    assert most <= MOST
    assert described.topology.subtopologies[0].subtopology_id == "0"


def test_client_tags_are_read_and_encoded_in_pieces() -> None:
    request = StreamsGroupHeartbeatRequest("g", "A", 0, client_tags=[KeyValue(name, "") for name in names()])
    tags, most = most_of(reading_tags(request))
    assert [one.key for one in tags] == sorted(str(one.key) for one in request.client_tags or ())
    assert most <= MOST
    expected, pieces = None, 0
    job = expecting(None, Client("c", "/h", 1), StreamsHeartbeat(request, tags=tags))
    while True:
        try:
            next(job)
            pieces += 1
        except StopIteration as done:
            expected = done.value
            break
    assert pieces >= COUNT // 4000
    assert expected is not None
    assert expected.value.client_tags == tags

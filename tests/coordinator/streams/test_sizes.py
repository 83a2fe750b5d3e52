"""Topologies of any size: what is decided about one takes a time that grows with its size, and a limit keeps what is assigned small."""

from __future__ import annotations

import pytest

from broker_sim.common.slices import at_once
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.streams.topology import MOST_TASKS, Configured, ReceivedTopology, receiving
from broker_sim.coordinator.topics import TopicImage, Topics
from kafka_wire.errors import Err
from kafka_wire.messages.k88_streams_group_heartbeat import Subtopology, TopicInfo, Topology

LONG = 500


def _topics(**partitions: int) -> Topics:
    images = {name: TopicImage(name.encode().ljust(16), count) for name, count in partitions.items()}
    return Topics(images, {image.topic_id: name for name, image in images.items()})


def _brought(rows: list[Subtopology], **partitions: int) -> tuple[ReceivedTopology, int]:
    """And the number of pieces that it took."""
    job, pieces = receiving(Topology(0, rows), _topics(**partitions)), 0
    while True:
        try:
            next(job)
            pieces += 1
        except StopIteration as done:
            return done.value, pieces


def _chain(length: int) -> list[Subtopology]:
    """Each reads what the next one writes: of Kafka's rounds each decides one topic."""
    rows = [
        Subtopology(f"{n}", repartition_sink_topics=[f"r{n}"], repartition_source_topics=[TopicInfo(f"r{n + 1}")])
        for n in range(length)
    ]
    return [*rows, Subtopology(f"{length}", ["in"], repartition_sink_topics=[f"r{length}"])]


def test_a_chain_of_subtopologies_is_decided_without_a_round_for_each() -> None:
    received, pieces = _brought(_chain(LONG), **{"in": 2})
    assert isinstance(received.result, Configured)
    assert {one.tasks for one in received.result.subtopologies.values()} == {2}
    assert len(received.result.missing) == LONG
    assert pieces < 10  # 500 rounds of 500 would be 125 and more


def test_a_loop_is_refused_as_before() -> None:
    rows = _chain(3)[:-1]
    rows[-1].repartition_source_topics = [TopicInfo("r0")]
    received, _ = _brought(rows)
    assert isinstance(received.result, Refused)
    assert received.result.error is Err.STREAMS_INVALID_TOPOLOGY


@pytest.mark.parametrize("more", [0, 1])
def test_no_more_tasks_than_can_be_assigned_at_once(more: int) -> None:
    rows = [Subtopology(f"{n}", ["in"]) for n in range(MOST_TASKS // 1000)] + [Subtopology("rest", ["one"])] * more
    received = at_once(receiving(Topology(0, rows), _topics(**{"in": 1000, "one": 1})))
    assert isinstance(received.result, Refused if more else Configured)

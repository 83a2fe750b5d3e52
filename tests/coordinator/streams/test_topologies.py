"""Topics that a streams group derives from a topology: the topics it reads, the ones it needs, and those that do not fit together."""

from __future__ import annotations

import pytest

from broker_sim.common.slices import at_once
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.streams.describing import describing
from broker_sim.coordinator.streams.topology import StatusCode
from kafka_wire.errors import Err
from kafka_wire.messages.k88_streams_group_heartbeat import (
    CopartitionGroup,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.coordinator.streams.harness import COUNTING, PLAIN, POLICIES, Streams

ALL = pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))


def test_a_topology_stays_as_it_is() -> None:
    core = Streams()
    core.join("A", Topology(2, PLAIN.subtopologies))
    for other in (Topology(3, PLAIN.subtopologies), Topology(2, [Subtopology("0", ["t", "u"])])):
        refused = core.beat("B", 0, topology=other)
        assert (refused.error_code, refused.error_message) == (42, "Topology updates are not supported yet.")
    assert core.join("C", Topology(1, [Subtopology("9", ["t"])])).status == [StatusCode.STALE_TOPOLOGY]
    assert list(core.group().latest.members) == ["A", "C"]
    core.beat("C")
    assert core.threads["C"].status == [StatusCode.STALE_TOPOLOGY]


def test_a_topology_without_a_sensible_epoch_is_an_error_of_the_server() -> None:
    core = Streams()
    assert core.beat("A", 0, topology=Topology(-1)).error_code == Err.UNKNOWN_SERVER_ERROR
    assert core.log == []
    assert "g" not in core.shard.groups


@ALL
def test_missing_source_topics_keep_the_group_not_ready(policy: Policy) -> None:
    core = Streams(policy)
    thread = core.join("A", Topology(0, [Subtopology("0", ["gone", "t"])]))
    assert (thread.status, thread.active) == ([StatusCode.MISSING_SOURCE_TOPICS], {})
    assert at_once(describing(core.shard, "g")).group_state == "NotReady"
    core.topic("gone", 3)
    assert core.acknowledge("A").active == {"0": [0, 1, 2]}
    assert (thread.status, at_once(describing(core.shard, "g")).group_state) == ([], "Stable")
    core.topic("gone", None)
    core.acknowledge("A")
    assert (thread.status, thread.active) == ([StatusCode.MISSING_SOURCE_TOPICS], {})


def test_internal_topics_have_as_many_partitions_as_what_they_are_made_of() -> None:
    core = Streams()
    thread = core.join("A", COUNTING)
    assert thread.status == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert {name: one.partitions for name, one in core.missing.items()} == {"rep": 2, "log": 2}
    core.create()
    assert core.acknowledge("A").active == {"0": [0, 1], "1": [0, 1]}
    assert (thread.status, core.missing) == ([], {})


def test_an_internal_topic_with_other_partitions_is_reported() -> None:
    core = Streams()
    core.topic("rep", 3)
    core.topic("log", 2)
    thread = core.join("A", COUNTING)
    assert thread.status == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    [status] = core.beat("A").status or ()
    assert status.status_detail == "Existing topic log has different number of partitions: expected 3, found 2"
    assert core.missing == {}


@pytest.mark.parametrize(
    ("fixed", "partitions", "words"),
    [
        (0, 3, "Following topics do not have the same number of partitions: [{t=2, u=3}]"),
        (
            4,
            2,
            "Number of partitions [4] of repartition topic [rep] doesn't match number of partitions [2] of the source topic.",
        ),
    ],
)
def test_topics_that_are_read_together_have_as_many_partitions(fixed: int, partitions: int, words: str) -> None:
    core = Streams()
    core.topic("u", partitions)
    both = Subtopology(
        "0",
        ["t", "u"],
        repartition_sink_topics=["rep"],
        repartition_source_topics=[TopicInfo("rep", fixed)],
        copartition_groups=[CopartitionGroup([0, 1], [], [0])],
    )
    core.join("A", Topology(0, [both]))
    [status] = core.beat("A").status or ()
    assert (status.status_code, status.status_detail) == (StatusCode.INCORRECTLY_PARTITIONED_TOPICS, words)


def test_a_copartitioned_repartition_topic_follows_its_neighbours() -> None:
    core = Streams()
    core.topic("wide", 5)
    one = Subtopology("0", ["wide"], repartition_sink_topics=["rep"])
    both = Subtopology(
        "1", ["t"], repartition_source_topics=[TopicInfo("rep")], copartition_groups=[CopartitionGroup([0], [], [0])]
    )
    core.join("A", Topology(0, [one, both]))
    assert {name: topic.partitions for name, topic in core.missing.items()} == {"rep": 2}


@pytest.mark.parametrize(
    "subtopologies",
    [
        [Subtopology("0", ["t"], repartition_source_topics=[TopicInfo("rep")])],
        [Subtopology("0", repartition_sink_topics=["rep"], repartition_source_topics=[TopicInfo("rep")])],
        [Subtopology("0")],
    ],
)
def test_topologies_that_no_topics_make_work_are_refused(subtopologies: list[Subtopology]) -> None:
    core = Streams()
    assert core.beat("A", 0, topology=Topology(0, subtopologies)).error_code == Err.STREAMS_INVALID_TOPOLOGY
    assert core.log == []


def test_tasks_that_the_topology_does_not_have_are_refused() -> None:
    core = Streams()
    core.join("A")
    none: list[TaskIds] = []
    for tasks in ([TaskIds("7", [0])], [TaskIds("0", [2])]):
        answer = core.beat("A", active_tasks=tasks, standby_tasks=none, warmup_tasks=none)
        assert answer.error_code == Err.INVALID_REQUEST

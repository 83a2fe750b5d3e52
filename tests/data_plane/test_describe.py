"""DescribeCluster, DescribeTopicPartitions, DescribeLogDirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_sim.metadata.entity_configs import Entity
from kafka_wire.codec import decode, encode
from kafka_wire.errors import Err
from kafka_wire.messages.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafka_wire.messages.k60_describe_cluster import DescribeClusterRequest
from kafka_wire.messages.k74_list_config_resources import ListConfigResourcesRequest
from kafka_wire.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.data_plane.helpers import batch, fill
from tests.support.ctx import Sim

# ------------------------------------------------------------------------------------------------ DescribeCluster


def test_the_cluster() -> None:
    sim = Sim(brokers=2)
    answer = sim.call(DescribeClusterRequest(True), 0)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, sim.state.cluster_id, 1)
    assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [(1, "127.0.0.1", 9092), (2, "127.0.0.1", 9093)]
    assert answer.cluster_authorized_operations == 8096
    assert sim.call(DescribeClusterRequest(False), 0).cluster_authorized_operations == -(2**31)


def test_a_dead_broker_is_told_as_fenced_to_those_who_ask() -> None:
    sim = Sim(brokers=2)
    sim.state.brokers[2].alive = False
    assert [b.broker_id for b in sim.call(DescribeClusterRequest(), 2).brokers] == [1]
    shown = sim.call(DescribeClusterRequest(include_fenced_brokers=True), 2).brokers
    assert [(b.broker_id, b.is_fenced) for b in shown] == [(1, False), (2, True)]


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (
            2,
            Err.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ),
        (7, Err.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 7"),
    ],
)
def test_other_endpoints(kind: int, error: Err, message: str) -> None:
    answer = Sim().call(DescribeClusterRequest(endpoint_type=kind), 1)
    assert (answer.error_code, answer.error_message, answer.brokers, answer.cluster_id) == (error, message, [], "")


# ------------------------------------------------------------------------------------------------
# DescribeTopicPartitions


def pages(
    sim: Sim, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[int, str | None, list[int]]], tuple[str, int] | None]:
    """((error, topic, partitions) ..., the next cursor)."""
    start = None if cursor is None else DescribeTopicPartitionsRequestCursor(*cursor)
    request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, start)
    answer = decode(DescribeTopicPartitionsResponse, 0, encode(sim.call(request, 0), 0))
    topics = [(one.error_code, one.name, [p.partition_index for p in one.partitions]) for one in answer.topics]
    after = answer.next_cursor
    return topics, None if after is None else (after.topic_name, after.partition_index)


@pytest.fixture
def sim() -> Sim:
    return Sim(brokers=2, topics={"b": 3, "a": 2})


def test_topics_come_in_the_order_of_their_names(sim: Sim) -> None:
    assert pages(sim) == ([(0, "a", [0, 1]), (0, "b", [0, 1, 2])], None)
    assert pages(sim, "b", "x", "b", "a") == ([(0, "a", [0, 1]), (0, "b", [0, 1, 2]), (3, "x", [])], None)
    assert pages(sim, "b c") == ([(17, "b c", [])], None)


def test_pages_are_filled_and_go_on_where_they_ended(sim: Sim) -> None:
    cursor: tuple[str, int] | None = None
    seen: list[tuple[str | None, int]] = []
    for _ in range(3):
        topics, cursor = pages(sim, limit=2, cursor=cursor)
        seen += [(name, index) for _, name, found in topics for index in found]
    assert cursor is None
    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]
    assert pages(sim, limit=2)[1] == ("b", 0)


@pytest.mark.parametrize("limit", [0, -1, 1])
def test_a_page_has_one_partition_at_least(sim: Sim, limit: int) -> None:
    assert pages(sim, limit=limit) == ([(0, "a", [0])], ("a", 1))


def test_the_brokers_limit() -> None:
    sim = Sim(topics={"a": 5}, config={"max.request.partition.size.limit": 2})
    assert pages(sim) == ([(0, "a", [0, 1])], ("a", 2))


def test_cursors_that_point_nowhere(sim: Sim) -> None:
    assert pages(sim, "a", "b", cursor=("b", 1)) == ([(0, "b", [1, 2])], None)
    assert pages(sim, "a", cursor=("a", 9)) == ([(0, "a", [])], None)
    assert pages(sim, "a", cursor=("a", -1)) == ([(Err.INVALID_REQUEST, "a", [])], None)
    assert pages(sim, "a", "b", cursor=("x", 0)) == ([(42, "a", []), (42, "b", [])], None)
    assert pages(sim, cursor=("aa", 2)) == ([(0, "b", [0, 1, 2])], None)  # its topic was deleted meanwhile


def test_partitions_are_told_in_full(sim: Sim) -> None:
    sim.state.brokers[2].alive = False
    [topic] = sim.call(DescribeTopicPartitionsRequest([TopicRequest("b")]), 0).topics
    [_, partition, _] = topic.partitions
    assert (topic.topic_id, topic.topic_authorized_operations) == (sim.state.topics["b"].topic_id, 3576)
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (2, [2], [2])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])  # null breaks readers
    assert partition.offline_replicas == [2]


# ------------------------------------------------------------------------------------------------ DescribeLogDirs


def test_log_directories_in_memory() -> None:
    sim = Sim(brokers=2, topics={"t": 2})
    fill(sim, "t", 1)
    [result] = sim.call(DescribeLogDirsRequest(None), 4).results
    assert (result.error_code, result.log_dir, result.total_bytes, result.usable_bytes) == (0, "(memory)", -1, -1)
    [topic] = result.topics
    assert [(p.partition_index, p.partition_size, p.offset_lag) for p in topic.partitions] == [(0, len(batch()), 0)]
    [other] = sim.call(DescribeLogDirsRequest(None), 4, broker=2).results
    assert [p.partition_index for p in other.topics[0].partitions] == [1]


@pytest.mark.usefixtures("killed_logs")
def test_log_directories_on_disk(tmp_path: Path) -> None:
    sim = Sim(topics={"t": 2, "u": 1}, data_dir=tmp_path)
    asked = [DescribableLogDirTopic("t", [1, 7]), DescribableLogDirTopic("x", [0])]
    [result] = sim.call(DescribeLogDirsRequest(asked), 4).results
    assert result.log_dir == str(tmp_path)
    assert [(topic.name, [p.partition_index for p in topic.partitions]) for topic in result.topics] == [("t", [1])]
    assert result.total_bytes > result.usable_bytes > 0
    assert sim.call(DescribeLogDirsRequest([]), 4).results[0].topics == []


# ------------------------------------------------------------------------------------------------ ListConfigResources


GROUP, METRICS, LOGGER, BROKER, TOPIC = 32, 16, 8, 4, 2


@pytest.mark.parametrize(
    ("version", "types", "shown"),
    [
        (0, [], [(METRICS, "m")]),
        (1, [], [(GROUP, "g"), (METRICS, "m"), (LOGGER, "1"), (BROKER, "1"), (TOPIC, "a"), (TOPIC, "b")]),
        (1, [METRICS, GROUP, METRICS], [(GROUP, "g"), (METRICS, "m")]),
        (1, [TOPIC], [(TOPIC, "a"), (TOPIC, "b")]),
        (1, [BROKER], [(BROKER, "1")]),
    ],
)
def test_what_has_settings_is_listed(version: int, types: list[int], shown: list[tuple[int, str]]) -> None:
    """As 4.1.0 and 4.4.0 list it: by type, in this order; brokers that are down have none."""
    sim = Sim(brokers=2, topics={"a": 1, "b": 2})
    sim.state.brokers[2].alive = False
    sim.state.alter_entity(Entity.GROUP, "g", {"consumer.session.timeout.ms": "50000"})
    sim.state.alter_entity(Entity.CLIENT_METRICS, "m", {"interval.ms": "1000"})
    answer = sim.call(ListConfigResourcesRequest(types), version)
    assert answer.error_code == Err.NONE
    assert [(one.resource_type, one.resource_name) for one in answer.config_resources] == shown


@pytest.mark.parametrize("types", [[0], [3], [-1], [TOPIC, 99]])
def test_a_type_that_has_no_settings_is_refused(types: list[int]) -> None:
    answer = Sim().call(ListConfigResourcesRequest(types), 1)
    assert (answer.error_code, answer.config_resources) == (Err.UNSUPPORTED_VERSION, [])

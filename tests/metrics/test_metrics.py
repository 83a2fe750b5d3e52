"""Metrics of brokers, partitions, requests and groups, and the scrapes that return them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from broker_sim import Cluster, UsageError
from broker_sim.control.http import ControlServer
from broker_sim.metrics import Metrics
from kafka_wire.messages.k08_offset_commit import OffsetCommitRequest
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.handles.members import TOPIC, Member
from tests.metrics.exposition import samples
from tests.support.wire import Wire

CONFIG: dict[str, object] = {"group.initial.rebalance.delay.ms": 0}
COORDINATOR = "kafka_server_group_coordinator_metrics_"


@pytest.fixture
async def kafka() -> AsyncIterator[Cluster]:
    async with Cluster(
        brokers=2, clock="manual", topics={TOPIC: 2}, internal_topics="at-start", config=CONFIG
    ) as cluster:
        cluster.observe()
        yield cluster


def value(text: str, name: str, **labels: str) -> float | None:
    return samples(text).get((name, tuple(sorted(labels.items()))))


def total(text: str, name: str, **labels: str) -> float:
    """The sum of all samples with these labels."""
    return sum(
        sample
        for (family, own), sample in samples(text).items()
        if family == name and labels.items() <= dict(own).items()
    )


async def test_all_brokers_or_one(kafka: Cluster) -> None:
    metrics = Metrics(kafka)
    both, one = metrics.text(), metrics.text(broker=1)
    leaders = "kafka_server_replicamanager_leadercount"
    assert value(both, leaders, broker="1") == value(one, leaders)
    assert total(both, leaders) == len(list(kafka.state.partitions()))
    assert "broker=" not in one
    assert (value(both, "kafka_brokers"), value(one, "kafka_brokers")) == (2, None)
    assert total(both, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    with pytest.raises(UsageError, match="no broker 3; expected one of 1, 2"):
        metrics.text(broker=3)
    assert await metrics.scrape() == metrics.text()


async def test_what_came_before_the_first_scrape_is_counted_and_nothing_after_the_end(kafka: Cluster) -> None:
    member = await Member.connect(kafka)
    await member.enter()
    metrics = Metrics(kafka)
    joins = "kafka_network_requestmetrics_requests_total"
    assert total(metrics.text(), joins, request="JoinGroup") == 2
    assert total(metrics.text(), f"{COORDINATOR}group_completed_rebalance_count") == 1
    metrics.close()
    await member.commit(1)
    assert total(metrics.text(), joins, request="OffsetCommit") == 0
    await member.close()


async def test_lag_and_commits_of_a_group(kafka: Cluster) -> None:
    kafka.topic(TOPIC).fill(20)
    metrics, member = Metrics(kafka), await Member.connect(kafka)
    await member.enter((0, 1))
    await member.commit(4, 0)
    await member.commit(9, 1)
    group = {"consumergroup": "billing", "topic": TOPIC}
    text = metrics.text()
    assert value(text, "kafka_consumergroup_current_offset", **group, partition="0") == 4
    assert value(text, "kafka_consumergroup_lag", **group, partition="1") == 1
    assert value(text, "kafka_consumergroup_lag_sum", **group) == 7
    assert value(text, "kafka_consumergroup_members", consumergroup="billing") == 1
    assert total(text, f"{COORDINATOR}offset_commit_count") == 2
    assert total(text, "kafka_coordinator_group_groupmetadatamanager_numgroupsstable") == 1
    assert total(text, "kafka_coordinator_group_groupmetadatamanager_numoffsets") == 2
    await member.close()


async def test_a_consumer_group_and_what_its_member_is_refused(kafka: Cluster) -> None:
    metrics = Metrics(kafka)
    wire = await Wire.connect(kafka.broker(kafka.offsets_log("g").leader).address)
    owned: list[TopicPartitions] = []
    request = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=[TOPIC], topic_partitions=owned
    )
    assert (await wire.send(request, 1)).error_code == 0
    await wire.send(OffsetCommitRequest("g", 7, "m", topics=[]), 9)
    text = metrics.text()
    assert total(text, f"{COORDINATOR}group_count", protocol="consumer") == 1
    assert total(text, f"{COORDINATOR}consumer_group_count", state="Stable") == 1
    assert total(text, f"{COORDINATOR}consumer_group_rebalance_count") == 1
    assert total(text, f"{COORDINATOR}num_partitions", state="active") == 50
    await wire.close()


async def test_a_partition_in_trouble_and_a_broker_that_is_down(kafka: Cluster) -> None:
    metrics, log = Metrics(kafka), kafka.log(TOPIC, 0)
    labels = {"topic": TOPIC, "partition": "0"}
    with log.under_min_isr():
        text = metrics.text(broker=log.leader)
        assert value(text, "kafka_cluster_partition_underminisr", **labels) == 1
        assert value(text, "kafka_server_replicamanager_underminisrpartitioncount") == 1
    assert value(metrics.text(broker=log.leader), "kafka_cluster_partition_underminisr", **labels) == 0
    await kafka.broker_down(log.leader)
    text = metrics.text()
    assert value(text, "kafka_brokers") == 1
    assert total(text, "kafka_controller_kafkacontroller_fencedbrokercount") == 1
    assert total(text, "kafka_controller_kafkacontroller_offlinepartitionscount") > 0
    assert value(text, "kafka_topic_partition_leader", **labels) == -1


async def test_a_scrape_over_http(kafka: Cluster) -> None:
    server = ControlServer(kafka)
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:

            async def get(query: str) -> tuple[int, str, str]:
                async with session.get(f"{server.url}/metrics{query}") as answer:
                    return answer.status, answer.content_type, await answer.text()

            status, kind, text = await get("")
            assert (status, kind) == (200, "text/plain")
            assert value(text, "kafka_brokers") == 2
            assert "broker=" not in (await get("?broker=1"))[2]
            assert "no broker 7" in (await get("?broker=7"))[2]
            assert (await get("?broker=x"))[0] == 400
            assert (await get("?node=1"))[:2] == (400, "application/json")
            assert (await get("?cluster=other"))[0] == 404
            async with session.post(f"{server.url}/metrics") as answer:
                assert answer.status == 405
    finally:
        await server.stop()

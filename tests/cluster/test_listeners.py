"""Brokers with several listeners: each tells its clients its own address, and has its own security protocol."""

from __future__ import annotations

import logging
import re
import socket
import ssl
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from broker_sim import Cluster, ClusterThread, UsageError
from broker_sim.api.cluster import ClusterError
from broker_sim.api.cluster_options import read_options
from broker_sim.cli import environment
from broker_sim.cli.main import parse
from broker_sim.control import render
from broker_sim.control.clusters import Clusters
from broker_sim.control.on_brokers import overview
from broker_sim.scenario.clients import Access
from broker_sim.simulation.world import simulate
from kafka_wire.errors import Err
from kafka_wire.messages import k78_share_fetch as share_fetch
from kafka_wire.messages import k79_share_acknowledge as share_acknowledge
from kafka_wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k03_metadata import MetadataRequest
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k17_sasl_handshake import SaslHandshakeRequest
from kafka_wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.messages.k60_describe_cluster import DescribeClusterRequest
from kafka_wire.record_batch import Record, encode_batch
from tests.authentication.exchange import authenticate, secured
from tests.clients.relay import CuttingRelay
from tests.support.ports import free_ports
from tests.support.wire import Wire, WireClosedError

ROOT = Path(__file__).parents[2]
NAMES = ["PLAINTEXT", "EXTERNAL"]
BOTH = ["EXTERNAL://localhost:0"]
"""A free port for each broker; the first listener is told as 127.0.0.1."""


@pytest.fixture
async def kafka() -> AsyncIterator[Cluster]:
    options: dict[str, Any] = {"as_version": "4.4", "clock": "manual"}
    async with Cluster(brokers=2, topics={"orders": 2}, listeners=BOTH, **options) as cluster:
        yield cluster


async def ask(kafka: Cluster, listener: str, request: object, version: int, broker: int = 1) -> Any:
    wire = await Wire.connect(kafka.bootstrap_of(listener).split(",")[broker - 1])
    try:
        return await wire.send(request, version)
    finally:
        await wire.close()


def ends(nodes: Iterable[Any]) -> list[tuple[int, str, int]]:
    return [(node.node_id, node.host, node.port) for node in nodes]


def led_by(kafka: Cluster, leader: int) -> int:
    """A partition of orders."""
    return next(p.index for p in kafka.state.topics["orders"].partitions if p.leader == leader)


async def in_metadata(kafka: Cluster, listener: str) -> list[tuple[int, str, int]]:
    answer = await ask(kafka, listener, MetadataRequest(topics=[]), 12)
    return ends(answer.brokers)


async def in_describe_cluster(kafka: Cluster, listener: str) -> list[tuple[int, str, int]]:
    answer = await ask(kafka, listener, DescribeClusterRequest(), 1)
    return [(broker.broker_id, broker.host, broker.port) for broker in answer.brokers]


async def in_find_coordinator(kafka: Cluster, listener: str) -> list[tuple[int, str, int]]:
    """One group of each coordinator."""
    groups: dict[int, str] = {}
    for number in range(50):
        groups.setdefault(kafka.offsets_log(f"g{number}").leader, f"g{number}")
    keys = [groups[node] for node in sorted(groups)]
    new = await ask(kafka, listener, FindCoordinatorRequest(key_type=0, coordinator_keys=keys), 4)
    old = [await ask(kafka, listener, FindCoordinatorRequest(key=key), 3) for key in keys]
    assert ends(new.coordinators) == ends(old)
    return ends(old)


async def in_produce(kafka: Cluster, listener: str) -> list[tuple[int, str, int]]:
    """A batch at the wrong broker, for each of them."""
    batch = encode_batch([Record(0, 0, None, b"one")])
    found = []
    for leader in (1, 2):
        index = led_by(kafka, leader)
        data = [TopicProduceData("orders", partition_data=[PartitionProduceData(index, batch)])]
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)
        answer = await ask(kafka, listener, request, 10, broker=3 - leader)
        assert answer.responses[0].partition_responses[0].error_code == Err.NOT_LEADER_OR_FOLLOWER
        found += ends(answer.node_endpoints)
    return found


async def in_fetch(kafka: Cluster, listener: str) -> list[tuple[int, str, int]]:
    found = []
    for leader in (1, 2):
        topic = kafka.state.topics["orders"]
        index = led_by(kafka, leader)
        topics = [FetchTopic(topic_id=topic.topic_id, partitions=[FetchPartition(index, partition_max_bytes=1024)])]
        answer = await ask(kafka, listener, FetchRequest(max_wait_ms=0, topics=topics), 16, broker=3 - leader)
        assert answer.responses[0].partitions[0].error_code == Err.NOT_LEADER_OR_FOLLOWER
        found += ends(answer.node_endpoints)
    return found


async def in_share_groups(kafka: Cluster, listener: str) -> list[tuple[int, str, int]]:
    """A session that asks the wrong broker for records, then acknowledges some there: it has none, whoever leads the partition."""
    found: list[tuple[int, str, int]] = []
    topic = kafka.state.topics["orders"]
    for leader in (1, 2):
        index = led_by(kafka, leader)
        wire = await Wire.connect(kafka.bootstrap_of(listener).split(",")[2 - leader])
        member = "AAAAAAAAAAAAAAAAAAAAAA"
        wanted = [share_fetch.FetchTopic(topic.topic_id, [share_fetch.FetchPartition(index)])]
        fetched = await wire.send(share_fetch.ShareFetchRequest("shared", member, 0, max_records=1, topics=wanted), 1)
        batch = share_acknowledge.AcknowledgementBatch(0, 0, [1])
        partition = share_acknowledge.AcknowledgePartition(index, [batch])
        told = [share_acknowledge.AcknowledgeTopic(topic.topic_id, [partition])]
        acknowledged = await wire.send(share_acknowledge.ShareAcknowledgeRequest("shared", member, 1, topics=told), 1)
        await wire.close()
        assert acknowledged.responses[0].partitions[0].error_code == Err.UNKNOWN_TOPIC_OR_PARTITION
        assert ends(acknowledged.node_endpoints) == []
        found += ends(fetched.node_endpoints)
    return found


@pytest.mark.parametrize(
    "told", [in_metadata, in_describe_cluster, in_find_coordinator, in_produce, in_fetch, in_share_groups]
)
async def test_clients_are_told_the_addresses_of_the_listener_that_they_came_to(
    kafka: Cluster, told: Callable[[Cluster, str], Awaitable[list[tuple[int, str, int]]]]
) -> None:
    answers = [await told(kafka, listener) for listener in (*NAMES, *NAMES)]  # twice: metadata is kept encoded
    for listener, answer in zip((*NAMES, *NAMES), answers, strict=True):
        assert ",".join(f"{host}:{port}" for _, host, port in answer) == kafka.bootstrap_of(listener)
        assert [node_id for node_id, _, _ in answer] == [1, 2]
    assert kafka.bootstrap == kafka.bootstrap_of("plaintext") != kafka.bootstrap_of("EXTERNAL")
    assert "localhost" in kafka.bootstrap_of("EXTERNAL")


async def test_a_consumer_outside_needs_no_name_of_the_inside() -> None:
    """As in a container network: nothing resolves the first listener's host where this consumer runs."""
    inside: dict[str, Any] = {"advertised_host": "broker.invalid", "host": "127.0.0.1"}
    config = {"group.initial.rebalance.delay.ms": 0}
    async with Cluster(topics={"orders": 1}, listeners="EXTERNAL://127.0.0.1:0", config=config, **inside) as kafka:
        outside = kafka.bootstrap_of("EXTERNAL")
        async with AIOKafkaProducer(bootstrap_servers=outside) as producer:
            await producer.send_and_wait("orders", b"one")
        settings: dict[str, Any] = {"group_id": "billing", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("orders", bootstrap_servers=outside, **settings) as consumer:
            assert (await consumer.getone()).value == b"one"


async def test_a_broker_that_is_down_refuses_at_all_its_ports_and_comes_back_to_them(kafka: Cluster) -> None:
    addresses = [kafka.bootstrap_of(listener).split(",")[0] for listener in NAMES]
    open_ones = [await Wire.connect(address) for address in addresses]
    await kafka.broker_down(1)
    for address, wire in zip(addresses, open_ones, strict=True):
        await wire.closed()
        await wire.close()
        with pytest.raises(ConnectionRefusedError):
            await Wire.connect(address)
    await kafka.broker_up(1)
    for listener, address in zip(NAMES, addresses, strict=True):
        assert kafka.bootstrap_of(listener).split(",")[0] == address
        assert [node_id for node_id, _, _ in await in_metadata(kafka, listener)] == [1, 2]


async def test_stop_and_start_again_take_the_same_ports(kafka: Cluster) -> None:
    before = [kafka.bootstrap_of(listener) for listener in NAMES]
    await kafka.stop()
    await kafka.start()
    assert [kafka.bootstrap_of(listener) for listener in NAMES] == before


async def test_ports_of_listeners_follow_one_another_by_broker() -> None:
    port = free_ports(4)
    async with Cluster(brokers=2, port=port, listeners=[f"EXTERNAL://localhost:{port + 2}"]) as kafka:
        assert kafka.bootstrap == f"127.0.0.1:{port},127.0.0.1:{port + 1}"
        assert kafka.bootstrap_of("EXTERNAL") == f"localhost:{port + 2},localhost:{port + 3}"


async def test_a_port_in_use_is_one_error_that_leaves_no_other_port_taken() -> None:
    first = free_ports(3)
    with socket.create_server(("127.0.0.1", first + 2)):
        with pytest.raises(ClusterError, match=f"^port {first + 2} of 127.0.0.1 is in use$"):
            await Cluster(port=first, listeners=[f"A://localhost:{first + 1}", f"B://:{first + 2}"]).start()
        for port in (first, first + 1):
            with socket.create_server(("127.0.0.1", port)):
                pass


async def test_brokers_describe_all_their_listeners() -> None:
    listeners, told = (
        ["PLAINTEXT://0.0.0.0:0", "EXTERNAL://localhost:0"],
        ["PLAINTEXT://[::1]:0", "EXTERNAL://me:32768"],
    )
    async with secured(listeners=listeners, advertised_listeners=told) as kafka:
        keys = ["listeners", "advertised.listeners", "listener.security.protocol.map"]
        request = DescribeConfigsRequest([DescribeConfigsResource(4, "1", keys)])
        ports = [endpoint.bound[1] for endpoint in kafka.brokers[0].endpoints.values() if endpoint.bound]
        wire = await Wire.connect(f"127.0.0.1:{ports[1]}")
        values = {config.name: config.value for config in (await wire.send(request, 4)).results[0].configs}
        await wire.close()
        bound = zip(("127.0.0.1", "0.0.0.0", "localhost"), ports, strict=True)
        names = ("SASL_PLAINTEXT", "PLAINTEXT", "EXTERNAL")
        assert values == {
            "listeners": ",".join(f"{name}://{host}:{port}" for name, (host, port) in zip(names, bound, strict=True)),
            "advertised.listeners": f"SASL_PLAINTEXT://127.0.0.1:{ports[0]},PLAINTEXT://[::1]:{ports[1]},EXTERNAL://me:32768",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "EXTERNAL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        }


async def test_plaintext_inside_and_sasl_outside(caplog: pytest.LogCaptureFixture) -> None:
    async with secured(listeners=["PLAINTEXT://localhost:0", "EXTERNAL://localhost:0"]) as kafka:
        assert kafka.listener_names == ["SASL_PLAINTEXT", "PLAINTEXT", "EXTERNAL"]
        assert len(await in_metadata(kafka, "PLAINTEXT")) == 1
        for listener in ("SASL_PLAINTEXT", "EXTERNAL"):
            with pytest.raises(WireClosedError):
                await in_metadata(kafka, listener)
            wire = await Wire.connect(kafka.bootstrap_of(listener))
            assert (await authenticate(wire)).error_code == Err.NONE
            answer = await wire.send(MetadataRequest(topics=[]), 12)
            assert [f"{b.host}:{b.port}" for b in answer.brokers] == [kafka.bootstrap_of(listener)]
            await wire.close()
        with caplog.at_level(logging.WARNING):
            await ask(kafka, "PLAINTEXT", SaslHandshakeRequest("PLAIN"), 1)
        assert "the listener has none; use security.protocol=PLAINTEXT, or the SASL_PLAINTEXT listener" in caplog.text


async def test_tls_outside_with_a_certificate_for_every_listener() -> None:
    options: dict[str, Any] = {"security_protocol": "SSL", "host": "0.0.0.0"}
    async with Cluster(**options, listeners="PLAINTEXT://localhost:0,EXTERNAL://127.0.0.2:0") as kafka:
        assert len(await in_metadata(kafka, "PLAINTEXT")) == 1
        host, port = kafka.bootstrap_of("EXTERNAL").split(":")
        context = ssl.create_default_context(cafile=kafka.security.ca_file)
        async with AIOKafkaProducer(
            bootstrap_servers=f"{host}:{port}", security_protocol="SSL", ssl_context=context
        ) as producer:
            assert {(node.host, node.port) for node in producer.client.cluster.brokers()} == {(host, int(port))}


async def test_what_is_observed_and_refused_is_so_on_all_listeners(kafka: Cluster) -> None:
    with kafka.fault("FindCoordinator", error="COORDINATOR_NOT_AVAILABLE"):
        for listener in NAMES:
            answer = await ask(kafka, listener, FindCoordinatorRequest(key="billing"), 3)
            assert answer.error_code == Err.COORDINATOR_NOT_AVAILABLE


async def test_the_control_api_shows_them(kafka: Cluster) -> None:
    shown = overview(cast(Clusters, {"default": kafka}), "default")
    assert shown["listeners"] == {"PLAINTEXT": kafka.bootstrap, "EXTERNAL": kafka.bootstrap_of("EXTERNAL")}
    line = render.text("cluster.get", shown)
    assert line.startswith(f"default: {kafka.bootstrap}, EXTERNAL at {kafka.bootstrap_of('EXTERNAL')}, as 4.4")


def test_on_a_thread() -> None:
    with ClusterThread(listeners=BOTH) as kafka:
        assert kafka.bootstrap_of("external").startswith("localhost:")


async def test_an_unknown_listener_has_no_address(kafka: Cluster) -> None:
    with pytest.raises(UsageError, match="no listener 'EXTERNALS'; did you mean 'EXTERNAL'"):
        kafka.bootstrap_of("EXTERNALS")


def test_the_compose_file_s_broker_is_reached_from_containers_and_from_the_host() -> None:
    broker = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["broker"]
    arguments = parse(["serve", "--from-env", *broker["command"]])
    environment.apply(arguments, {})
    assert (arguments.host, arguments.port, arguments.advertised_host) == ("0.0.0.0", 9092, "broker")
    given = {
        "listeners": arguments.listener,
        "advertised_listeners": arguments.advertised_listener,
        "host": arguments.host,
    }
    listener = read_options(given)["listeners"][1]
    assert broker["ports"] == [f"{listener.advertised_port}:{listener.port}"]
    assert (listener.host, listener.advertised_host) == ("0.0.0.0", "localhost")


def test_the_image_has_what_its_broker_may_be_asked_for() -> None:
    """TLS, compressed batches, the control API and a faster event loop are extras; a missing one is an error at run time."""
    image = (ROOT / "Dockerfile").read_text()
    extras = re.search(r"pip install .*'\.\[(.*)\]'", image)
    assert extras is not None
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"compression", "control", "tls", "uvloop"} <= set(extras[1].split(",")) <= set(known)
    assert re.search(r"^HEALTHCHECK .*\\\n +CMD \[", image, re.MULTILINE)


# --- what is advertised and what is bound -------------------------------------------------------------------------------


def ports_of(kafka: Cluster) -> list[int]:
    """Return the ports that the first listeners of the brokers are bound to."""
    bound = [next(iter(broker.endpoints.values())).bound for broker in kafka.brokers]
    return [place[1] for place in bound if place is not None]


async def test_clients_come_through_proxies_that_are_advertised_after_the_start() -> None:
    config = {"group.initial.rebalance.delay.ms": 0}
    async with AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(Cluster(brokers=3, topics={"orders": 3}, config=config))
        relays = [stack.enter_context(CuttingRelay(f"127.0.0.1:{port}", cut=0)) for port in ports_of(kafka)]
        for broker, relay in zip(kafka.brokers, relays, strict=True):
            kafka.broker(broker.node_id).advertise(relay.address)
        bootstrap = relays[0].address
        assert kafka.bootstrap == ",".join(relay.address for relay in relays)
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for partition in range(3):
                await producer.send_and_wait("orders", b"one", partition=partition)
        settings: dict[str, Any] = {"group_id": "billing", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("orders", bootstrap_servers=bootstrap, **settings) as consumer:
            assert [(await consumer.getone()).value for _ in range(3)] == [b"one"] * 3
        assert all(relay.relayed >= 2 for relay in relays)


async def test_the_journal_has_what_is_advertised(kafka: Cluster) -> None:
    events = kafka.observe().events
    kafka.broker(1).advertise("EXTERNAL://other:1")
    assert {key: events[-1][key] for key in ("event", "broker", "action", "listener", "address")} == {
        "event": "broker",
        "broker": 1,
        "action": "advertises",
        "listener": "EXTERNAL",
        "address": "other:1",
    }


async def test_what_is_advertised_outlives_restarts() -> None:
    kafka = Cluster(brokers=2, listeners=["EXTERNAL://:0"], advertised_listeners=["EXTERNAL://outside:32768"])
    async with kafka:
        assert kafka.bootstrap_of("EXTERNAL") == "outside:32768,outside:32769"
        kafka.broker(2).advertise("external://elsewhere:7")
        await kafka.broker(2).restart()
        assert kafka.bootstrap_of("EXTERNAL") == "outside:32768,elsewhere:7"
        inside = kafka.bootstrap
    async with kafka:
        assert (kafka.bootstrap, kafka.bootstrap_of("EXTERNAL")) == (inside, "outside:32768,elsewhere:7")
        assert [end[1:] for end in await in_metadata(kafka, "PLAINTEXT")] == [
            ("127.0.0.1", port) for port in ports_of(kafka)
        ]


@pytest.mark.parametrize(
    ("listener", "said"),
    [
        ("EXTERNALS://h:1", "no listener 'EXTERNALS'; did you mean 'EXTERNAL'"),
        ("h", "'PLAINTEXT://h' is not a listener, as in 'EXTERNAL://localhost:29092'"),
        ("0.0.0.0:1", "clients can't connect to 0.0.0.0"),
        ("h:0", "'h:0' has no port that clients can connect to"),
    ],
)
async def test_what_can_not_be_advertised(kafka: Cluster, listener: str, said: str) -> None:
    before = kafka.bootstrap
    with pytest.raises(UsageError, match=re.escape(said)):
        kafka.broker(1).advertise(listener)
    assert kafka.bootstrap == before


async def test_kafka_s_own_settings_say_it_too() -> None:
    """As an image's KAFKA_LISTENERS and KAFKA_ADVERTISED_LISTENERS: the controller's listener is not opened."""
    config = {
        "listeners": "CLIENTS://:0,BROKER://127.0.0.1:0,CONTROLLER://:0",
        "advertised.listeners": "CLIENTS://localhost:32768,BROKER://broker:9093",
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "node.id": "0",
        "broker.rack": "eu-1",
    }
    async with Cluster(config=config, users={"alice": "secret"}) as kafka:
        assert kafka.listener_names == ["CLIENTS", "BROKER"]
        assert (kafka.bootstrap, kafka.bootstrap_of("BROKER")) == ("localhost:32768", "broker:9093")
        bound = {name: endpoint.bound for name, endpoint in kafka.brokers[0].endpoints.items()}
        assert bound["CLIENTS"] is not None
        assert bound["CLIENTS"][0] == ""  # all addresses, as in Kafka
        assert bound["BROKER"] is not None
        wire = await Wire.connect(f"127.0.0.1:{bound['BROKER'][1]}")
        answer = await wire.send(MetadataRequest(topics=[]), 12)
        await wire.close()
        assert [(b.node_id, b.host, b.port, b.rack) for b in answer.brokers] == [(0, "broker", 9093, "eu-1")]
        wire = await Wire.connect(f"127.0.0.1:{bound['CLIENTS'][1]}")
        assert (await authenticate(wire)).error_code == Err.NONE
        assert ends((await wire.send(MetadataRequest(topics=[]), 12)).brokers) == [(0, "localhost", 32768)]
        await wire.close()


async def test_sasl_by_the_map_alone_and_scenario_clients_at_a_plaintext_first_listener() -> None:
    config = {
        "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:SASL_PLAINTEXT",
    }
    async with Cluster(config=config, users={"alice": "secret"}) as kafka:
        assert Access.to(kafka) == Access(kafka.bootstrap)
        wire = await Wire.connect(kafka.bootstrap_of("OUT"))
        assert (await authenticate(wire)).error_code == Err.NONE
        await wire.close()


async def test_brokers_have_any_node_ids_and_racks_in_turn() -> None:
    async with Cluster(brokers=3, topics={"orders": 3}, racks=["a", "b"], config={"node.id": 1000}) as kafka:
        answer = await ask(kafka, "PLAINTEXT", DescribeClusterRequest(), 1)
        assert [(b.broker_id, b.rack) for b in answer.brokers] == [(1000, "a"), (1001, "b"), (1002, "a")]
        assert {partition.leader for partition in kafka.state.topics["orders"].partitions} == {1000, 1001, 1002}
        await kafka.broker_down(1001)
        assert await in_metadata(kafka, "PLAINTEXT") == [
            (node.node_id, node.host, node.port) for node in kafka.brokers if node.node_id != 1001
        ]


def test_a_simulation_has_its_own_addresses() -> None:
    with simulate(1) as sim, pytest.raises(UsageError, match="cluster: listeners is the simulation's"):
        sim.cluster(listeners=BOTH)

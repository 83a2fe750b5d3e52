"""The arguments of a cluster: what may be given for each, and what is said of the rest."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from broker_sim import Cluster, ClusterError, ClusterThread
from broker_sim.api import cluster, cluster_options
from broker_sim.api.cluster_options import ARGUMENTS, NewTopic, Options, read_options, topics_of
from broker_sim.control.operations import check

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"brokers": "three"}, "brokers: 'three' is not a whole number from 1"),
    ({"brokers": True}, "brokers: True is not a whole number from 1"),
    ({"brokers": 0}, "brokers: 0 is not a whole number from 1"),
    ({"broker": 3}, "no argument 'broker'; did you mean 'brokers'?"),
    ({"configs": {}}, "no argument 'configs'; did you mean 'config'?"),
    ({"version": "3.9"}, "no argument 'version'; did you mean 'as_version'?"),
    ({"topic": "orders"}, "no argument 'topic'; did you mean 'topics'?"),
    ({"config": ["num.partitions"]}, "config: ['num.partitions'] is not a map of names to values"),
    ({"as_version": 3.9}, "as_version: 3.9 is not a release of Kafka in quotes, as in '3.9'"),
    ({"data_dir": 7}, "data_dir: 7 is not a directory"),
    ({"sync": 3}, "sync: 3 is not true or false"),
    ({"host": 1}, "host: 1 is not a host's name or address"),
    ({"port": "nine"}, "port: 'nine' is not a whole number from 0 to 65535"),
    ({"advertised_host": 1}, "advertised_host: 1 is not a host's name or address"),
    ({"clock": 10}, "clock: 10 is not 'real', 'scaled:10' or 'manual'"),
    ({"clock": "manuel"}, "no clock 'manuel'; did you mean 'manual'?"),
    ({"seed": 7.5}, "seed: 7.5 is not a whole number or a text"),
    ({"journal": 1}, "journal: 1 is not True, False or a directory"),
    ({"as_version": "3.3"}, "no Kafka release '3.3' (expected 3.4 to 3.9, or 4.0 to 4.4)"),
    ({"config": {"num.partition": 3}}, "did you mean 'num.partitions'?"),
    ({"rng": 7}, "rng: 7 is not a random.Random"),
    ({"topics": 6}, "topics: 6 is not a list or a map of topics, as in ['orders', 'payments:6'] or {'orders': 6}"),
    ({"topics": [6]}, "topics: 6 is not a topic name"),
    ({"topics": ["orders:six"]}, "topics: 'orders:six': no number of partitions after the colon"),
    ({"topics": {"orders": "six"}}, "topics: 'orders': 'six' is not a number for partitions"),
    ({"topics": {"orders": {"partitions": None}}}, "topics: 'orders': None is not a number for partitions"),
    ({"listeners": 3}, "listeners: 3 is not a list"),
    ({"listeners": ["localhost:29092"]}, "'localhost:29092' is not a listener, as in 'EXTERNAL://0.0.0.0:29092'"),
    ({"listeners": ["EXTERNAL://localhost"]}, "'EXTERNAL://localhost' is not a listener"),
    ({"listeners": ["EXTERNAL://localhost:70000"]}, "'EXTERNAL://localhost:70000' is not a listener"),
    ({"listeners": ["EXTERNAL://a b:1"]}, "'EXTERNAL://a b:1' is not a listener"),
    ({"listeners": [7]}, "7 is not a listener"),
    (
        {"advertised_listeners": ["PLAINTEXT://0.0.0.0:1"]},
        "clients can't connect to 0.0.0.0 (expected a host that they",
    ),
    (
        {"advertised_listeners": ["PLAINTEXT://:1"]},
        "clients can't connect to an empty host (expected a host that they can",
    ),
    ({"advertised_listeners": ["A://h:1"], "listeners": ["B://:0"]}, "no listener A (expected PLAINTEXT, B)"),
    ({"advertised_listeners": ["PLAINTEXT://h:65535"], "brokers": 2}, "PLAINTEXT: port 65535 is invalid for 2 brokers"),
    (
        {"advertised_listeners": ["PLAINTEXT://h:1"], "advertised_host": "h"},
        "advertised_host and PLAINTEXT of advertised_listeners exclude each other; give one of them",
    ),
    ({"listeners": ["A://h:1", "a://h:2"]}, "A: each listener must have a different name"),
    ({"listeners": ["PLAINTEXT://h:1"], "port": 2}, "PLAINTEXT: port says 2 already; give one of them"),
    (
        {"config": {"listeners": "A://:1", "listener.security.protocol.map": "B:SSL"}},
        "A: no security protocol (expected one in listener.security.protocol.map)",
    ),
    ({"config": {"listeners": "PLAINTEXT://:1"}, "port": 2}, "port and the setting listeners exclude each other"),
    (
        {"config": {"listeners": "PLAINTEXT://:1"}, "listeners": ["A://:2"]},
        "listeners and the setting listeners exclude each other; give one of them",
    ),
    ({"config": {"listeners": "9092"}}, "listeners: '9092' is not a listener, as in 'EXTERNAL://0.0.0.0:29092'"),
    (
        {"config": {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}},
        "advertised.listeners: 'PLAINTEXT://0.0.0.0:1': clients can't connect to 0.0.0.0",
    ),
    ({"config": {"listener.security.protocol.map": "A:TLS"}}, "'A:TLS' is not the protocol of a listener"),
    (
        {"config": {"listeners": "A://:1,B://:2", "listener.security.protocol.map": "A:SSL,B:SASL_SSL"}},
        "SASL_SSL and SSL: brokers have one security protocol beside PLAINTEXT",
    ),
    ({"config": {"node.id": "one"}}, "node.id: 'one' is not a whole number"),
    ({"config": {"node.id": 1, "broker.id": 2}}, "node.id and broker.id are different; give one of them"),
    ({"config": {"broker.rack": "a"}, "racks": ["b"]}, "racks and the setting broker.rack exclude each other"),
    ({"listeners": ["CONTROLLER://h:1"]}, "CONTROLLER: each listener must have a different name"),
    ({"listeners": ["SASL_SSL://h:1"]}, "SASL_SSL: the security protocol is PLAINTEXT (expected PLAINTEXT, or a"),
    ({"listeners": ["A://h:65535"], "brokers": 2}, "A: port 65535 is invalid for 2 brokers"),
    (
        {"listeners": ["A://h:9093"], "brokers": 2, "port": 9092},
        "A: each listener must have a different port, and PLAINTEXT has one of 9093 to 9094",
    ),
    (
        {"listeners": ["A://h:9", "B://h:9"]},
        "B: each listener must have a different port, and A has 9",
    ),
    ({"listener": ["A://h:1"]}, "no argument 'listener'; did you mean 'listeners'?"),
]


@pytest.mark.parametrize(("given", "said"), WRONG, ids=[f"{given}" for given, _ in WRONG])
def test_a_mistake_is_one_line_that_names_the_argument(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ClusterError) as error:
        Cluster(**given)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ClusterError) as error:
        Cluster(
            brokers="three",
            port="x",
            clock="manuel",
            config={"num.partition": 3, "num.partitions": 4, "log.roll.ms": "soon"},
        )  # type: ignore[arg-type]
    told = str(error.value).splitlines()
    assert [line[:8] for line in told[:3]] == ["brokers:", "port: 'x", "no clock"]
    assert ["num.partition" in told[3], "log.roll.ms" in told[4], len(told)] == [True, True, 5]
    with pytest.raises(ClusterError) as error:
        Cluster("three", broker=3, prot=1, as_version="2.8")  # type: ignore[arg-type, call-arg]
    assert [line.split(" ")[0] for line in str(error.value).splitlines()] == ["no", "no", "brokers:", "no"]


def test_what_is_spelled_is_read_as_over_http() -> None:
    kafka = Cluster(brokers="2", sync="yes", seed="7", config={"num.partitions": 3.0})  # type: ignore[arg-type]
    assert (len(kafka._nodes), kafka._sync, kafka.seed) == (2, True, 7)
    assert kafka.config.int("num.partitions") == 3


def test_none_is_not_given() -> None:
    nothing: dict[str, Any] = dict.fromkeys(ARGUMENTS)
    assert read_options(nothing) == read_options({})
    assert Cluster(**nothing).host == "127.0.0.1"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["orders", "payments:6"], {"orders": 1, "payments": 6}),
        ("orders,payments=6", {"orders": 1, "payments": 6}),
        ('{"orders": {"partitions": 2, "preallocate": true}}', {"orders": {"partitions": 2, "preallocate": "true"}}),
        ({"orders": "6"}, {"orders": 6}),
        ({"orders": {"replication_factor": 2.0}}, {"orders": {"partitions": 1, "replication_factor": 2}}),
    ],
)
def test_topics_are_the_same_in_python_and_over_http(given: Any, meant: dict[str, Any]) -> None:
    over_http = check("cluster.create", {"topics": given})["topics"]
    assert over_http == meant
    assert topics_of(over_http) == topics_of(meant)
    if not isinstance(given, str):
        assert topics_of(given) == topics_of(meant)


def test_topics_in_every_form() -> None:
    assert topics_of(None) == {}
    assert topics_of("orders") == topics_of(["orders"]) == {"orders": NewTopic(1)}
    assert topics_of(("orders:6", "payments")) == {"orders": NewTopic(6), "payments": NewTopic(1)}
    wanted = {"a": NewTopic(3), "b": NewTopic(1, 2, {"cleanup.policy": "compact", "preallocate": "true"})}
    settings = {"replication_factor": 2, "cleanup.policy": "compact", "preallocate": True}
    assert topics_of({"a": 3, "b": settings}) == wanted


async def test_a_topic_has_its_settings_from_the_start() -> None:
    topics = {"orders": {"partitions": 2, "cleanup.policy": "compact"}, "payments": -1}
    async with Cluster(topics=topics, config={"num.partitions": 4}) as kafka:
        orders = kafka.state.topics["orders"]
        assert len(orders.partitions) == 2
        assert orders.configs == {"cleanup.policy": "compact"}
        assert kafka.topic("payments").partitions == 4


def test_a_setting_that_no_topic_has_is_told() -> None:
    with (
        pytest.raises(ClusterError, match=r"topic 'orders': .*cleanup\.polcy"),
        ClusterThread(topics={"orders": {"cleanup.polcy": "compact"}}),
    ):
        pass


def test_the_options_of_both_clusters_are_one() -> None:
    assert tuple(inspect.signature(Cluster.__init__).parameters)[1:] == ARGUMENTS
    options, own = get_type_hints(Options), get_type_hints(Cluster.__init__, {**vars(cluster_options), **vars(cluster)})
    assert {name: own[name] for name in options} == options
    defaults = {name: each.default for name, each in inspect.signature(Cluster.__init__).parameters.items()}
    assert {name: value for name, value in defaults.items() if value not in (None, inspect.Parameter.empty)} == {
        name: value for name, value in read_options({}).items() if name not in ("listeners", "nodes")
    }


async def test_a_new_cluster_has_the_given_id_and_keeps_it(tmp_path: Path) -> None:
    async with Cluster(cluster_id="4L6g3nShT-eMCtK--X86sw", data_dir=tmp_path) as kafka:
        assert kafka.state.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    async with Cluster(cluster_id="another", data_dir=tmp_path) as kafka:  # as apache/kafka's image: formatted once
        assert kafka.state.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    with pytest.raises(ClusterError, match="a cluster id, 1 to 200 visible characters"):
        Cluster(cluster_id="a b")

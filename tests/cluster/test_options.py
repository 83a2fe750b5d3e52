"""The arguments of a cluster: what may be given for each, and what is said of the rest."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from broker_sim import Cluster, ClusterError, ClusterThread
from broker_sim.api.cluster_options import ARGUMENTS, NewTopic, Options, topics_of
from broker_sim.control.operations import check

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"brokers": "three"}, "brokers='three': a whole number is meant, as in brokers=3"),
    ({"brokers": True}, "brokers=True: a whole number is meant, as in brokers=3"),
    ({"brokers": None}, "brokers=None: a whole number is meant, as in brokers=3"),
    ({"broker": 3}, "no argument 'broker'; did you mean 'brokers'?"),
    ({"configs": {}}, "no argument 'configs'; did you mean 'config'?"),
    ({"version": "3.9"}, "no argument 'version'; did you mean 'as_version'?"),
    ({"topic": "orders"}, "no argument 'topic'; did you mean 'topics'?"),
    ({"config": ["num.partitions"]}, "settings by Kafka's names are meant, as in config={'num.partitions': 3}"),
    ({"as_version": 3.9}, "as_version=3.9: a release of Kafka in quotes is meant, as in as_version='3.9'"),
    ({"data_dir": 7}, "data_dir=7: a directory is meant"),
    ({"sync": "yes"}, "sync='yes': True or False is meant"),
    ({"host": 1}, "host=1: an address to listen on is meant"),
    ({"port": "9092"}, "port='9092': a port's number is meant, as in port=9092"),
    ({"advertised_host": 1}, "advertised_host=1: a host name is meant"),
    ({"clock": 10}, "clock=10: 'real', 'scaled:10' or 'manual' is meant"),
    ({"clock": "manuel"}, "no clock 'manuel'; did you mean 'manual'?"),
    ({"seed": 7.5}, "seed=7.5: a whole number or a text is meant, as in seed=7"),
    ({"journal": 1}, "journal=1: True, False or a directory is meant"),
    ({"rng": 7}, "rng=7: a random.Random is meant"),
    ({"topics": 6}, "topics=6: topics are meant, as in topics=['orders', 'payments:6'] or topics={'orders': 6}"),
    ({"topics": [6]}, "topics: 6 is no topic's name"),
    ({"topics": ["orders:six"]}, "topics: 'orders:six': a number of partitions is meant behind the colon"),
    ({"topics": {"orders": "six"}}, "topics: 'orders': 'six' is no number for partitions"),
    ({"topics": {"orders": {"partitions": None}}}, "topics: 'orders': None is no number for partitions"),
]


@pytest.mark.parametrize(("given", "said"), WRONG, ids=[f"{given}" for given, _ in WRONG])
def test_a_mistake_is_one_line_that_names_the_argument(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ClusterError) as error:
        Cluster(**given)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ClusterError) as error:
        Cluster(brokers="three", port="x", clock="manuel")  # type: ignore[arg-type]
    assert [line[:6] for line in str(error.value).splitlines()] == ["broker", "port='", "no clo"]


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
    options = {name: each.__forward_arg__ for name, each in Options.__annotations__.items()}
    assert {name: Cluster.__init__.__annotations__[name] for name in options} == options

"""A Kafka Streams application with exactly_once_v2 counts every record once, whatever becomes of it: it is killed in the midst of its
work, and its successor goes on from the state that its transactions have left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_sim import ClusterThread
from tests.clients.clients import HERE, java_command
from tests.clients.exactly_once import App, cluster, read
from tests.support.maven import streams_classpath

pytestmark = [pytest.mark.clients]  # may have to fetch Kafka Streams first

VERSION = "4.1.0"
KEYS, EACH = 4, 50


def app(bootstrap: str, directory: Path) -> App:
    """The application in a process of its own."""
    source = HERE / "java" / "ExactlyOnce.java"
    command = java_command(f"streams-{VERSION}", source, VERSION, streams_classpath(VERSION))
    return App([*command, bootstrap, "counter", str(directory / "state"), "in", "out"], directory)


@pytest.fixture
def kafka() -> Iterator[ClusterThread]:
    with cluster("4.1") as thread:
        yield thread


def feed(bootstrap: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(KEYS * EACH):
        producer.produce("in", key=f"k{number % KEYS}", value=b"x")
    assert producer.flush(20) == 0


def test_every_record_is_counted_once_although_the_application_is_killed(kafka: ClusterThread, tmp_path: Path) -> None:
    once = [f"k{key}={count}" for key in range(KEYS) for count in range(1, EACH + 1)]
    twice = once + [f"k{key}={count}" for key in range(KEYS) for count in range(EACH + 1, 2 * EACH + 1)]
    first = app(kafka.bootstrap, tmp_path)
    feed(kafka.bootstrap)
    assert sorted(read(kafka.bootstrap, len(once))) == sorted(once)
    feed(kafka.bootstrap)
    first.kill()  # with what it has begun
    successor = app(kafka.bootstrap, tmp_path)
    try:
        assert sorted(read(kafka.bootstrap, len(twice))) == sorted(twice)
    finally:
        successor.close()

"""A Kafka Streams application of the streams protocol (KIP-1071), unmodified: the broker creates its internal topics and assigns its
tasks; a second instance takes over half of them, with their state, and gives them back when it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_sim import ClusterThread
from tests.clients.clients import HERE, java_command
from tests.clients.exactly_once import App, read
from tests.support.maven import streams_classpath

pytestmark = [pytest.mark.clients]  # may have to fetch Kafka Streams first

VERSION = "4.3.1"
WORDS = ("ant", "bee", "cat", "dog", "eel", "fox")
EACH = 20
INTERNAL = ("words-words-repartition", "words-counts-changelog")


def app(bootstrap: str, directory: Path) -> App:
    """An instance of the application in a process of its own."""
    source = HERE / "java" / "WordCount.java"
    command = java_command(f"words-{VERSION}", source, VERSION, streams_classpath(VERSION))
    directory.mkdir()
    return App([*command, bootstrap, "words", str(directory / "state"), "in", "out"], directory)


@pytest.fixture
def kafka() -> Iterator[ClusterThread]:
    config = {
        "offsets.topic.num.partitions": 3,
        "group.streams.initial.rebalance.delay.ms": 0,
        "group.streams.assignment.interval.ms": 0,
        "group.streams.min.heartbeat.interval.ms": 100,
        "group.streams.heartbeat.interval.ms": 100,
        "auto.create.topics.enable": "false",
    }
    with ClusterThread(2, topics={"in": 2, "out": 2}, as_version="4.4", config=config) as thread:
        yield thread


def feed(bootstrap: str) -> None:
    """Each word EACH times, in both partitions."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(EACH):
        producer.produce("in", value=" ".join(WORDS), partition=number % 2)
    assert producer.flush(20) == 0


def counts(rounds: int) -> set[str]:
    return {f"{word}={count}" for word in WORDS for count in range(1, rounds * EACH + 1)}


def test_two_instances_share_the_tasks_and_one_goes_on_alone(kafka: ClusterThread, tmp_path: Path) -> None:
    first = app(kafka.bootstrap, tmp_path / "first")
    second: App | None = None
    group = kafka.group("words")
    try:
        feed(kafka.bootstrap)
        assert set(read(kafka.bootstrap, len(WORDS) * EACH)) == counts(1)
        assert [kafka.topic(name).partitions for name in INTERNAL] == [2, 2]
        group.wait(state="Stable", members=1)
        [alone] = group.members
        assert alone.assignment == {"in": [0, 1], INTERNAL[0]: [0, 1]}
        second = app(kafka.bootstrap, tmp_path / "second")
        group.wait(state="Stable", members=2)
        shared = [one.assignment or {} for one in group.members]
        assert sorted(sum(map(len, one.values())) for one in shared) == [2, 2]
        feed(kafka.bootstrap)
        assert set(read(kafka.bootstrap, 2 * len(WORDS) * EACH)) == counts(2)
        second.close()
        group.wait(state="Stable", members=1)
        [left] = group.members
        assert left.member_id == alone.member_id
        assert left.assignment == alone.assignment
        feed(kafka.bootstrap)
        assert set(read(kafka.bootstrap, 3 * len(WORDS) * EACH)) == counts(3)
    finally:
        first.close()
        if second is not None and second.process.poll() is None:
            second.close()
    group.wait(state="Empty", members=0)

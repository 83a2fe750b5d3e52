"""MirrorMaker 2 between two clusters: a topic with its settings, its records, and the translated offsets of a group."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from broker_sim import ClusterThread
from tests.beside.connect import VERSION
from tests.beside.programs import UP_S, Program, java, topic_setting
from tests.clients.driver import eventually
from tests.support.maven import connect_classpath

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]  # may have to fetch MirrorMaker first

SETTINGS = """\
clusters=east,west
east.bootstrap.servers={east}
west.bootstrap.servers={west}
east->west.enabled=true
west->east.enabled=false
topics=orders
groups=billing
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=1
status.storage.partitions=1
dedicated.mode.enable.internal.rest=false
emit.checkpoints.interval.seconds=1
sync.group.offsets.enabled=true
sync.group.offsets.interval.seconds=1
refresh.topics.interval.seconds=2
refresh.groups.interval.seconds=2
offset.lag.max=0
"""
CONFIG = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
RETENTION = "3600000"


def produce(bootstrap: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce("orders", str(value), partition=value % 2)
    assert producer.flush(UP_S) == 0


def bill(bootstrap: str, topic: str, count: int) -> list[int]:
    """Return the next values that the group ``billing`` reads, sorted; their offsets are committed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[int] = []
    while len(read) < count:
        message = consumer.poll(UP_S)
        assert message is not None, f"{len(read)} of {count} records, and no more for {UP_S:.0f} s"
        assert message.error() is None, message.error()
        read.append(int(message.value()))
        consumer.commit(message, asynchronous=False)
    consumer.close()
    return sorted(read)


def create(bootstrap: str) -> None:
    topic = NewTopic("orders", 2, config={"retention.ms": RETENTION})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])["orders"].result(UP_S)


def ends(kafka: ClusterThread, topic: str) -> list[int]:
    """The high watermarks of both partitions; [] before the topic exists."""
    return [kafka.log(topic, index).high_watermark for index in (0, 1)] if topic in kafka.topics() else []


def test_topics_and_the_offsets_of_groups_are_mirrored(tmp_path: Path) -> None:
    with ClusterThread(1, config=CONFIG) as east, ClusterThread(1, config=CONFIG) as west:
        create(east.bootstrap)
        produce(east.bootstrap, range(100))
        assert bill(east.bootstrap, "orders", 100) == list(range(100))
        settings = tmp_path / "mirror.properties"
        settings.write_text(SETTINGS.format(east=east.bootstrap, west=west.bootstrap))
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        with Program("mirror", java("-cp", connect_classpath(VERSION), main, str(settings)), tmp_path, 0) as mirror:
            mirrored = "east.orders"
            eventually("the records are copied", lambda: ends(west, mirrored), lambda found: found == [50, 50], UP_S)
            offsets = {(mirrored, 0): 50, (mirrored, 1): 50}
            group = west.group("billing")
            eventually("the group's offsets are translated", lambda: dict(group.committed()), offsets.__eq__, UP_S)
            produce(east.bootstrap, range(100, 110))
            eventually("new records are copied", lambda: ends(west, mirrored), lambda found: found == [55, 55], UP_S)
            assert mirror.process.poll() is None, mirror.tail()
        assert topic_setting(west.bootstrap, mirrored, "retention.ms") == RETENTION
        assert {mirrored, "heartbeats", "east.checkpoints.internal"} <= set(west.topics())
        assert "mm2-offset-syncs.west.internal" in east.topics()
        assert bill(west.bootstrap, mirrored, 10) == list(range(100, 110))

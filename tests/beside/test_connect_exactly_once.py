"""Kafka Connect with exactly-once sources: each line of a file is in the topic once, although the worker is killed in the midst of its
work.

A worker of that kind begins with transactions of its own: it writes connectors' settings in them, fences the last generation of a
connector's tasks (Admin.fenceProducers), and its tasks keep their offsets with what they write. Only a distributed worker has
exactly-once sources.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.beside.connect import Worker
from tests.beside.programs import UP_S
from tests.clients.exactly_once import cluster, read

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]  # may have to fetch Kafka Connect first

LINES, MORE = 20_500, 300
"""The connector takes 2000 lines into a transaction."""


def await_first(bootstrap: str) -> None:
    """Until something is committed."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "first", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition("out", index, 0) for index in (0, 1)])
    message = consumer.poll(UP_S)
    consumer.close()
    assert message is not None, f"nothing is committed after {UP_S:.0f} s"
    assert message.error() is None, message.error()


def test_each_line_is_there_once_although_the_worker_is_killed(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"line {number}\n" for number in range(LINES)))
    connector = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "file": str(lines),
        "topic": "out",
        "tasks.max": "1",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
    }
    with cluster("4.1") as kafka:
        with Worker(kafka.bootstrap, tmp_path, exactly_once_source_support="enabled") as first:
            first.ask("/connectors", {"name": "lines", "config": connector})
            await_first(kafka.bootstrap)
            first.kill()  # with what it has begun
        with lines.open("a") as more:
            more.writelines(f"line {number}\n" for number in range(LINES, LINES + MORE))
        with Worker(kafka.bootstrap, tmp_path, exactly_once_source_support="enabled"):
            seen = read(kafka.bootstrap, LINES + MORE, deadline_s=150)
        assert sorted(seen) == sorted(f"line {number}" for number in range(LINES + MORE))

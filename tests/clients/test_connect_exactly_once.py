"""Kafka Connect with exactly-once sources: each line of a file is in the topic once, although the worker is killed in the midst of its
work.

A worker of that kind begins with transactions of its own: it writes connectors' settings in them, fences the last generation of a
connector's tasks (Admin.fenceProducers), and its tasks keep their offsets with what they write.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.clients.clients import JVM
from tests.clients.exactly_once import cluster, read
from tests.support.real_kafka import connect_classpath, free_port, need_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]  # may have to fetch Kafka Connect first

VERSION = "4.1.0"
LINES, MORE = 20_500, 300
"""The connector takes 2000 lines into a transaction."""
UP_S = 120.0

WORKER = """\
bootstrap.servers={bootstrap}
group.id=connect
exactly.once.source.support=enabled
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
config.storage.topic=connect-configs
offset.storage.topic=connect-offsets
status.storage.topic=connect-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=3
status.storage.partitions=1
listeners=http://127.0.0.1:{port}
plugin.discovery=service_load
plugin.path={directory}
session.timeout.ms=6000
heartbeat.interval.ms=1000
"""
"""Of a distributed worker: one that stands alone has no exactly-once sources."""


class Worker:
    """A worker in a process of its own."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.port, self.log = free_port(), directory / "worker.log"
        properties = directory / "worker.properties"
        properties.write_text(WORKER.format(bootstrap=bootstrap, port=self.port, directory=directory))
        java = [
            need_tool("java"),
            *JVM,
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp",
            connect_classpath(VERSION),
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*java, "org.apache.kafka.connect.cli.ConnectDistributed", str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "LC_ALL": "C"},
            )

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Its answer; until it is up, and while it shares its work out, it is asked again."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        give_up, refused = time.monotonic() + UP_S, ""
        while time.monotonic() < give_up:
            if self.process.poll() is not None:
                pytest.fail(f"the worker has ended:\n{self.log.read_text()[-3000:]}")
            request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
            try:
                with urllib.request.urlopen(request, timeout=UP_S) as answer:
                    return json.load(answer)
            except (urllib.error.URLError, ConnectionError) as error:
                refused = str(error)
                time.sleep(0.2)
        pytest.fail(f"{path}: {refused} for {UP_S:.0f} s:\n{self.log.read_text()[-3000:]}")

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(60)


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
        first = Worker(kafka.bootstrap, tmp_path)
        try:
            first.ask("/connectors")
            first.ask("/connectors", {"name": "lines", "config": connector})
            await_first(kafka.bootstrap)
        finally:
            first.kill()  # with what it has begun
        with lines.open("a") as more:
            more.writelines(f"line {number}\n" for number in range(LINES, LINES + MORE))
        successor = Worker(kafka.bootstrap, tmp_path)
        try:
            seen = read(kafka.bootstrap, LINES + MORE, deadline_s=150)
        finally:
            successor.kill()
        assert sorted(seen) == sorted(f"line {number}" for number in range(LINES + MORE))

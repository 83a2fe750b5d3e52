"""Share groups (KIP-932) with the clients that have them, unmodified: KafkaShareConsumer of 4.1 and 4.4, franz-go's ``ShareGroup``,
librdkafka's ``ShareConsumer``, ``kafka-console-share-consumer`` and ``kafka-share-groups``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_sim import ClusterThread
from broker_sim.metadata.entity_configs import Entity
from kafka_wire.record_batch import build_batch
from tests.clients.clients import HERE, built, run_tool
from tests.clients.driver import eventually
from tests.support.real_kafka import classpath, java_program, java_tool, need_tool

pytestmark = [pytest.mark.clients]  # may have to fetch Kafka first

TOPIC, GROUP = "orders", "shippers"
TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
TOOLS = "4.1.0"
CONFIG: dict[str, dict[str, object]] = {
    "4.1": {"group.coordinator.rebalance.protocols": "classic,consumer,share"},
    "4.4": {"group.share.assignment.interval.ms": 0},
}


@contextmanager
def filled(as_version: str, group: str, *values: str) -> Iterator[ClusterThread]:
    """A broker whose topic has these records in each of two partitions, and a group that begins with the first."""
    with ClusterThread(topics={TOPIC: 2}, as_version=as_version, config=CONFIG[as_version]) as kafka:

        def fill(cluster: Any) -> None:
            cluster.state.alter_entity(Entity.GROUP, group, {"share.auto.offset.reset": "earliest"})
            now_ms = cluster.state.clock.now_ms()
            for index in range(2):
                rows = [(None, f"{value}-{index}".encode()) for value in values]
                cluster.state.partition(TOPIC, index).append(build_batch(rows, now_ms), now_ms=now_ms)

        kafka.run(fill)
        yield kafka


def java(version: str) -> list[str]:
    classes = java_program(version, HERE / "java" / "ShareMember.java")
    options = [need_tool("java"), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [*options, "-cp", os.pathsep.join([str(classes), classpath(version)]), "ShareMember"]


def franz_go() -> list[str]:
    tool = need_tool("go")
    sources = [HERE / "go" / name for name in ("share/main.go", "go.mod", "go.sum")]

    def build(target: Path) -> None:
        run_tool([tool, "build", "-buildvcs=false", "-o", str(target / "member"), "./share"], HERE / "go")

    return [str(built("franz-go-share", sources, build) / "member")]


def librdkafka() -> list[str]:
    return [sys.executable, str(HERE / "python" / "confluent_share_member.py")]


@pytest.mark.parametrize(
    ("member", "as_version"),
    [
        pytest.param(lambda: java("4.1.0"), "4.1", id="java-4.1.0-4.1"),
        pytest.param(lambda: java("4.1.0"), "4.4", id="java-4.1.0-4.4"),
        pytest.param(lambda: java("4.4.0"), "4.4", id="java-4.4.0-4.4"),
        pytest.param(franz_go, "4.1", id="franz-go-4.1"),
        pytest.param(franz_go, "4.4", id="franz-go-4.4"),
        pytest.param(librdkafka, "4.4", id="librdkafka-4.4"),
        pytest.param(librdkafka, "4.1", id="librdkafka-4.1"),
    ],
)
def test_a_member_accepts_releases_and_rejects(member: Callable[[], list[str]], as_version: str) -> None:
    with filled(as_version, GROUP, "one", "again", "bad", "two") as kafka:
        command = [*member(), kafka.bootstrap, GROUP, TOPIC, "6"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        told = done.stdout.split("\n")
        assert done.returncode == 0, done.stdout + done.stderr
        assert told[-4:] == [told[-4], "accepted 6", "left", ""], done.stdout + done.stderr
        expected = {
            *(f"{value}-{index} 1 accept" for value in ("one", "two") for index in range(2)),
            *(f"again-{index} 1 release" for index in range(2)),
            *(f"again-{index} 2 accept" for index in range(2)),
            *(f"bad-{index} 1 reject" for index in range(2)),
        }
        assert sorted(line for line in told if line.count(" ") == 2) == sorted(expected)
        eventually(  # a client that sends no final epoch hangs up, which the broker hears of a moment later
            "nothing is held for the group, as the last session has ended",
            lambda: kafka.run(lambda cluster: [one.key.partition for one in cluster.coordinators.shares.loaded()]),
            lambda live: live == [],
        )


def test_kafka_s_tools_read_show_and_forget_a_share_group() -> None:
    group = "console-share-consumer"
    with filled("4.4", group, "one", "two") as kafka:

        def run(*args: str) -> str:
            done = java_tool(TOOLS, TOOL, "--bootstrap-server", kafka.bootstrap, *args)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        reads = ["--topic", TOPIC, "--max-messages", "4", "--timeout-ms", "60000"]
        done = java_tool(TOOLS, CONSOLE, "--bootstrap-server", kafka.bootstrap, *reads, timeout_s=120)
        assert sorted(done.stdout.split()) == ["one-0", "one-1", "two-0", "two-1"], done.stdout + done.stderr
        assert run("--list").split() == [group]
        rows = [line.split() for line in run("--describe", "--group", group).splitlines() if TOPIC in line]
        assert [row[:3] for row in rows] == [[group, TOPIC, "0"], [group, TOPIC, "1"]]
        assert "Empty" in run("--describe", "--group", group, "--state")
        assert "Successful" in run("--delete-offsets", "--group", group, "--topic", TOPIC)
        assert "successful" in run("--delete", "--group", group)
        assert run("--list").split() == []

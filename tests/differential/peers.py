"""The two sides: a real Kafka of a version, and the simulator as that version, each in processes of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.differential.play import Peer
from tests.support.real_kafka import RealKafka

REFERENCES = {"3.4": "3.4.0", "3.9": "3.9.1", "4.1": "4.1.0", "4.4": "4.4.0"}
OFFSETS_PARTITIONS = 4
ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0


def settings(version: str) -> dict[str, object]:
    """Broker settings of both sides: small limits, so that chance reaches them."""
    common: dict[str, object] = {
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 100,
        "group.max.session.timeout.ms": 60_000,
        "group.max.size": 4,
        "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
        "auto.create.topics.enable": "false",
        "offset.metadata.max.bytes": 100,
        "offsets.retention.check.interval.ms": 600_000,
        "num.partitions": 2,
        "max.incremental.fetch.session.cache.slots": 1_000_000,  # a full cache is no function of one play's requests
        "log.segment.delete.delay.ms": 1000,
        "log.index.size.max.bytes": 65536,
    }
    if version.startswith("4."):
        # a write would wait for others to join its batch: how many do is chance
        common["group.coordinator.append.linger.ms"] = 0
    return common


@contextlib.contextmanager
def real(version: str, brokers: int = 1) -> Iterator[Peer]:
    """A real broker of `version` ("4.1")."""
    with RealKafka(REFERENCES[version], brokers, settings(version)) as kafka:
        yield Peer(
            f"Kafka {REFERENCES[version]}",
            version,
            {node: ("127.0.0.1", kafka.nodes[node].port) for node in kafka.nodes},
        )


@contextlib.contextmanager
def simulated(version: str, brokers: int = 1) -> Iterator[Peer]:
    """The simulator as `version`. It ends with this process."""
    command = [
        sys.executable,
        "-m",
        "broker_sim",
        "serve",
        "--as-version",
        version,
        "--brokers",
        str(brokers),
        "--until-eof",
    ]
    for name, value in settings(version).items():
        command += ["--config", f"{name}={value}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True)
    try:
        yield Peer(f"the simulator as {version}", version, _addresses(process))
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _addresses(process: subprocess.Popen[str]) -> dict[int, tuple[str, int]]:
    """What the ready line tells. Raises RuntimeError where none comes in time."""
    alarm = threading.Timer(START_S, process.kill)
    alarm.start()
    assert process.stdout is not None
    line = process.stdout.readline()
    alarm.cancel()
    head, _, told = line.strip().partition("bootstrap=")
    if not head.startswith("broker-sim ready"):
        raise RuntimeError(f"waited {START_S:g} s for the simulator to be ready; it said {line!r}")
    found: dict[int, Any] = {}
    for node, address in enumerate(told.split(","), 1):
        host, _, port = address.rpartition(":")
        found[node] = (host, int(port))
    return found

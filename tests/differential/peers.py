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
from tests.differential.worlds import RealWorld, ServedWorld
from tests.support.real_kafka import RealKafka

REFERENCES = {"3.4": "3.4.0", "3.9": "3.9.1", "4.1": "4.1.0", "4.2": "4.2.1", "4.4": "4.4.0"}
ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0


SWEEPING: dict[str, object] = {"offsets.retention.check.interval.ms": 100, "offsets.retention.minutes": 1}
"""Settings of both sides where offsets and groups are to expire in a play."""


def offsets_partitions(brokers: int) -> int:
    """Number of offsets partitions: where coordinators move, plays have theirs for themselves."""
    return 4 if brokers == 1 else 24


SHARING: dict[str, object] = {"group.coordinator.rebalance.protocols": "classic,consumer,share"}
"""Beside 4.1, whose share groups are a preview: where a play has some."""


def with_sharing(version: str, kind: str) -> bool:
    """Whether the brokers of a run of that kind alone need 4.1's share groups."""
    return version == "4.1" and kind == "shares"


def settings(version: str, brokers: int = 1, *, sweeping: bool = False, sharing: bool = False) -> dict[str, object]:
    """Broker settings of both sides: small limits, so that chance reaches them."""
    return _common(version, brokers) | (SWEEPING if sweeping else {}) | (SHARING if sharing else {})


def _common(version: str, brokers: int) -> dict[str, object]:
    common: dict[str, object] = {
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 100,
        "group.max.session.timeout.ms": 60_000,
        "group.max.size": 4,
        "offsets.topic.num.partitions": offsets_partitions(brokers),
        "auto.create.topics.enable": "false",
        "offset.metadata.max.bytes": 100,
        "offsets.retention.check.interval.ms": 600_000,
        "num.partitions": 2,
        "max.incremental.fetch.session.cache.slots": 1_000_000,  # a full cache is no function of one play's requests
        "log.segment.delete.delay.ms": 1000,
        "log.index.size.max.bytes": 65536,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        "offsets.topic.replication.factor": min(brokers, 3),
        "transaction.state.log.replication.factor": min(brokers, 3),
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
    }
    if version.startswith("4."):
        # a write would wait for others to join its batch: how many do is chance
        common["group.coordinator.append.linger.ms"] = 0
        common["share.coordinator.append.linger.ms"] = 0
        common["share.coordinator.state.topic.num.partitions"] = 4
        common["share.coordinator.state.topic.replication.factor"] = min(brokers, 3)
        common["share.coordinator.state.topic.min.isr"] = 1
    if version == "4.4":
        common["group.consumer.assignment.interval.ms"] = 0  # whether a heartbeat falls into the interval is chance
        common["group.streams.assignment.interval.ms"] = 0
        common["group.share.assignment.interval.ms"] = 0
    if version in ("4.2", "4.4"):
        common["group.streams.initial.rebalance.delay.ms"] = 0
        common["group.streams.max.size"] = 3
    if brokers > 1:
        common |= {
            "auto.leader.rebalance.enable": "false",
            "replica.fetch.wait.max.ms": 25,  # so soon a follower hears what is committed
            "replica.lag.time.max.ms": 120_000,  # a machine in use makes no ISR smaller
            "broker.session.timeout.ms": 6000,  # for so long nobody registers again after a shutdown
            "broker.heartbeat.interval.ms": 500,
        }
    return common


INLINE = {f"group.{kind}.assignor.offload.enable": "false" for kind in ("consumer", "share", "streams")}
"""Settings of Kafka 4.4 alone: whether an assignor's thread is done before the next heartbeat is chance."""


@contextlib.contextmanager
def real(version: str, brokers: int = 1, *, sweeping: bool = False, sharing: bool = False) -> Iterator[Peer]:
    """A real broker of `version` ("4.1")."""
    config = settings(version, brokers, sweeping=sweeping, sharing=sharing) | (INLINE if version == "4.4" else {})
    features = {"share.version": 1} if sharing else None
    with RealKafka(REFERENCES[version], brokers, config, features=features) as kafka:
        yield Peer(
            f"Kafka {REFERENCES[version]}",
            version,
            {node: ("127.0.0.1", kafka.nodes[node].port) for node in kafka.nodes},
            RealWorld(kafka),
        )


@contextlib.contextmanager
def simulated(version: str, brokers: int = 1, *, sweeping: bool = False, sharing: bool = False) -> Iterator[Peer]:
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
        *(["--control", "0"] if brokers > 1 else []),
    ]
    for name, value in settings(version, brokers, sweeping=sweeping, sharing=sharing).items():
        command += ["--config", f"{name}={value}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True)
    try:
        addresses = _addresses(process)
        world = ServedWorld(list(addresses), _told(process, "broker-sim control: ")) if brokers > 1 else None
        yield Peer(f"the simulator as {version}", version, addresses, world)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _addresses(process: subprocess.Popen[str]) -> dict[int, tuple[str, int]]:
    found: dict[int, Any] = {}
    for node, address in enumerate(_told(process, "broker-sim ready: bootstrap=").split(","), 1):
        host, _, port = address.rpartition(":")
        found[node] = (host, int(port))
    return found


def _told(process: subprocess.Popen[str], head: str) -> str:
    """Return the next line without its head. Raises RuntimeError if none comes in time."""
    alarm = threading.Timer(START_S, process.kill)
    alarm.start()
    assert process.stdout is not None
    line = process.stdout.readline()
    alarm.cancel()
    if not line.startswith(head):
        raise RuntimeError(f"waited {START_S:g} s for the simulator to say {head!r}; it said {line!r}")
    return line.removeprefix(head).strip()

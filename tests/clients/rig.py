"""Environment of the client matrix: the broker under test and the driver processes.

BROKER_SIM_CLIENTS_TARGET chooses the broker: "sim" (default), "sim:3.4" (another --as-version), "disk" and "disk:3.4"
(with --data), "kafka:4.1.0" for a real Apache Kafka, which proves the matrix itself, or "at:host:port" for a broker that
runs already with BROKER_CONFIG.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.clients import CLIENTS, Client
from tests.clients.driver import ClientError, Driver, eventually
from tests.clients.scenarios import SESSION_MS, SHORT_SESSION_MS
from tests.clients.simulator import Simulator
from tests.support.leftovers import lasting
from tests.support.real_kafka import RealKafka

TARGET = os.environ.get("BROKER_SIM_CLIENTS_TARGET", "sim")
BROKER_CONFIG: dict[str, object] = {
    "group.initial.rebalance.delay.ms": 50,
    "group.min.session.timeout.ms": min(1000, SHORT_SESSION_MS, SESSION_MS),
    "offsets.topic.num.partitions": 10,
}
CONSUMER_GROUPS: dict[str, object] = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 6000,
}
"""Settings of brokers that have groups by epochs: there the broker sets these times."""


class Target:
    """The broker under test: its address, and its log where it has one."""

    def __init__(self, bootstrap: str, log_path: Path | None = None) -> None:
        self.bootstrap = bootstrap
        self.log_path = log_path

    def log(self, start: int = 0) -> str:
        if self.log_path is None:
            return ""
        with self.log_path.open("rb") as handle:
            handle.seek(start)
            return handle.read().decode(errors="replace")


class Garage:
    """Starts driver processes; the long-lived one of each client lives until the session ends."""

    def __init__(self, target: Target, directory: Path) -> None:
        self.target = target
        self.directory = directory
        self.running: dict[str, Driver] = {}
        self.missing: dict[str, BaseException] = {}
        self.count = 0

    def new(self, client: Client, bootstrap: str | None = None) -> Driver:
        """A new driver process, of the target or of another address."""
        if client.name in self.missing:
            raise self.missing[client.name]
        try:
            command = client.command()
        except (pytest.skip.Exception, pytest.fail.Exception) as missing:  # do not build again for each test
            self.missing[client.name] = missing
            raise
        self.count += 1
        log = self.directory / f"{client.name}-{self.count}.log"
        return Driver([*command, bootstrap or self.target.bootstrap], log)

    def driver(self, client: Client) -> Driver:
        found = self.running.get(client.name)
        if found is None or found.process.poll() is not None:
            with lasting():
                found = self.running[client.name] = self.new(client)
            found.call("hello")
        return found


def config_of(version: str) -> dict[str, object]:
    """The settings of a broker of that version, of the newest where none is said."""
    return BROKER_CONFIG if version.startswith("3.") else {**BROKER_CONFIG, **CONSUMER_GROUPS}


@contextmanager
def serve_target(directory: Path) -> Iterator[Target]:
    """The broker that BROKER_SIM_CLIENTS_TARGET names."""
    kind, _, version = TARGET.partition(":")
    if kind in ("sim", "disk"):
        data = directory / "data" if kind == "disk" else None
        with Simulator(directory / "stderr.log", config_of(version), as_version=version or None, data=data) as served:
            yield Target(served.bootstrap, served.log_path)
    elif kind == "at":
        yield Target(version)
    else:
        with RealKafka(version, config=config_of(version)) as kafka:
            warm_up(kafka.bootstrap, directory / "warm-up.log")
            yield Target(kafka.bootstrap)


def warm_up(bootstrap: str, log_path: Path) -> None:
    """Has a real broker create its offsets topic: librdkafka's assign() gives up on the errors of that moment."""
    (client,) = (client for client in CLIENTS if client.name == "aiokafka")
    driver = Driver([*client.command(), bootstrap], log_path)

    def answers() -> bool:
        try:
            for number in range(60):  # enough group names to meet every offsets partition
                driver.call("group_offsets", group=f"warm-{number}", partitions=[("none", 0)])
        except ClientError:
            return False
        return True

    try:
        eventually("every offsets partition answers", answers)
    finally:
        driver.close()

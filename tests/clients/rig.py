"""What the client matrix runs on: the broker under test and the driver processes.

BROKER_SIM_CLIENTS_TARGET chooses the broker: "sim" (default), "sim:3.4" (another --as-version), "kafka:4.1.0" for a
real Apache Kafka, which proves the matrix itself, or "at:host:port" for one that runs already with BROKER_CONFIG.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.clients import CLIENTS, Client
from tests.clients.driver import ClientError, Driver, eventually
from tests.clients.scenarios import SESSION_MS, SHORT_SESSION_MS
from tests.support.real_kafka import RealKafka

TARGET = os.environ.get("BROKER_SIM_CLIENTS_TARGET", "sim")
BROKER_CONFIG: dict[str, object] = {
    "group.initial.rebalance.delay.ms": 50,
    "group.min.session.timeout.ms": min(1000, SHORT_SESSION_MS, SESSION_MS),
    "offsets.topic.num.partitions": 10,
}
READY_S = 20.0


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


@contextmanager
def simulator(log_path: Path, as_version: str | None) -> Iterator[Target]:
    """`broker-sim serve` with three brokers, started as a user would."""
    command = [sys.executable, "-m", "broker_sim", "serve", "--brokers", "3"]
    if as_version:
        command += ["--as-version", as_version]
    for name, value in BROKER_CONFIG.items():
        command += ["--config", f"{name}={value}"]
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        yield Target(_bootstrap_line(process, log_path), log_path)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        process.stdout.close()


def _bootstrap_line(process: subprocess.Popen[str], log_path: Path) -> str:
    assert process.stdout is not None
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if select.select([process.stdout], [], [], 0.1)[0]:
            line = process.stdout.readline().strip()
            if line:
                return line.rpartition("=")[2]
            break
    raise AssertionError(
        f"waited {READY_S} s for the simulator's bootstrap line; its log:\n{log_path.read_text()[-3000:]}"
    )


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
            found = self.running[client.name] = self.new(client)
            found.call("hello")
        return found


@contextmanager
def serve_target(directory: Path) -> Iterator[Target]:
    """The broker that BROKER_SIM_CLIENTS_TARGET names."""
    kind, _, version = TARGET.partition(":")
    if kind == "sim":
        with simulator(directory / "stderr.log", version or None) as served:
            yield served
    elif kind == "at":
        yield Target(version)
    else:
        with RealKafka(version, config=BROKER_CONFIG) as kafka:
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

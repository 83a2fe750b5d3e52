"""Parts that tests of exactly-once applications share: the application as a process, a cluster, its output under read_committed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker_sim import ClusterThread

__all__ = ["App", "cluster", "read"]


class App:
    """An application that says RUNNING on its stdout, logs to stderr, and ends with its stdin."""

    def __init__(self, command: Sequence[str], directory: Path) -> None:
        self.log = directory / "app.log"
        with self.log.open("ab") as log_file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log_file, text=True
            )
        self.until("RUNNING")

    def until(self, state: str) -> None:
        """Wait until it says so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == state:
                return
        pytest.fail(f"the application ended before it was {state}:\n{self.log.read_text()[-3000:]}")

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self._ended()

    def close(self) -> None:
        """Let it end what it does."""
        self._ended()

    def _ended(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(60)


def cluster(as_version: str) -> ClusterThread:
    """Two brokers, ``in`` and ``out`` with two partitions each, and transactions that are looked after twice a second."""
    config = {
        "transaction.state.log.num.partitions": 3,
        "offsets.topic.num.partitions": 3,
        "group.initial.rebalance.delay.ms": 0,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    }
    return ClusterThread(2, topics={"in": 2, "out": 2}, as_version=as_version, config=config)


def read(bootstrap: str, wanted: int, deadline_s: float = 90, topic: str = "out", partitions: int = 2) -> list[str]:
    """Return the output that read_committed sees, once at least `wanted` values are there and none follows."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    seen: list[str] = []
    give_up = time.monotonic() + deadline_s
    while time.monotonic() < give_up:
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None, message.error()
            seen.append(message.value().decode())
        elif len(seen) >= wanted:
            consumer.close()
            return seen
    consumer.close()
    pytest.fail(f"{len(seen)} of {wanted} results after {deadline_s} s: {seen[-5:]}")

"""`group.protocol=consumer` (KIP-848) with Rust's client: the rdkafka crate, unmodified, in processes of its own."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from broker_sim import ClusterThread
from tests.clients.clients import rust_program
from tests.clients.driver import eventually

pytestmark = [pytest.mark.clients]  # has to build librdkafka first

TOPIC, GROUP = "orders", "shippers"
WAIT_S = 60


class Member:
    """A member's process: the partitions that it owns and the values that it has read, by what it prints."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.owned: set[int] = set()
        self.values: list[str] = []
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as printed:
            for line in printed:
                what, *rest = line.split()
                if what == "assigned":
                    self.owned |= {int(one) for one in rest}
                elif what == "revoked":
                    self.owned -= {int(one) for one in rest}
                elif what == "read":
                    self.values.append(rest[1])
                self.lines.append(line.rstrip())

    def commit(self) -> None:
        assert self.process.stdin is not None
        before = self.lines.count("committed")
        self.process.stdin.write("commit\n")
        until(lambda: self.lines.count("committed") > before, "the commit was answered", self)

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(WAIT_S) == 0
        self._reader.join(WAIT_S)
        assert self.lines[-1] == "left"

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)


def until(holds: Callable[[], bool], what: str, *members: Member) -> None:
    """Wait until ``holds()``; names what it waited for, and what the members printed."""
    eventually(what, lambda: (holds(), [one.lines for one in members]), lambda seen: seen[0], WAIT_S)


@contextmanager
def members(kafka: ClusterThread) -> Iterator[Callable[[], Member]]:
    started: list[Member] = []

    def start() -> Member:
        started.append(Member([rust_program("member"), kafka.bootstrap, GROUP, TOPIC]))
        return started[-1]

    try:
        yield start
    finally:
        for one in started:
            one.kill()


def produce(kafka: ClusterThread, *values: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number, value in enumerate(values):
        producer.produce(TOPIC, value, partition=number % 4)
    assert producer.flush(WAIT_S) == 0


@pytest.mark.parametrize("as_version", ["4.1", "4.4"])
def test_members_share_a_topic_and_go_on_from_what_was_committed(as_version: str) -> None:
    config = {"group.consumer.assignment.interval.ms": 0} if as_version == "4.4" else {}
    with ClusterThread(topics={TOPIC: 4}, as_version=as_version, config=config) as kafka, members(kafka) as start:
        first = start()
        until(lambda: first.owned == {0, 1, 2, 3}, "the first member owns all partitions", first)
        second = start()
        until(
            lambda: len(first.owned) == len(second.owned) == 2 and not first.owned & second.owned,
            "each of two members owns two partitions",
            first,
            second,
        )
        old = [f"old-{number}" for number in range(20)]
        produce(kafka, *old)
        until(lambda: sorted(first.values + second.values) == sorted(old), "each record is read once", first, second)
        for one in (first, second):
            one.commit()
        mine = list(first.values)
        second.leave()
        until(lambda: first.owned == {0, 1, 2, 3}, "what the second left is the first's", first)
        new = [f"new-{number}" for number in range(8)]
        produce(kafka, *new)
        until(lambda: sorted(first.values) == sorted([*mine, *new]), "the first reads what is new, and no more", first)
        first.leave()

"""Brokers in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from broker_sim.control.client import ControlClient
from tests.control.outside import Brokers, Outside

FAST_GROUPS = ("--config", "group.initial.rebalance.delay.ms=0")


@pytest.fixture(scope="module")
def process() -> Iterator[Outside]:
    """A process that ends with the module, cleanly."""
    one = Outside()
    yield one
    code, _, errors = one.close()
    assert code == 0, errors
    assert "Traceback" not in errors, errors


@pytest.fixture
def cluster(process: Outside) -> Iterator[Brokers]:
    """A virtual cluster of that process as ``kafka`` is one; it starts in milliseconds, a process in half a second."""
    config = {"group.initial.rebalance.delay.ms": 0}
    made = process.client.perform("cluster.create", brokers=2, topics={"orders": 2}, config=config)
    yield Brokers(made["bootstrap"], ControlClient(process.url, cluster=made["id"]))
    process.client.perform("cluster.delete", cluster=made["id"])


@pytest.fixture
def outside() -> Iterator[Callable[..., Outside]]:
    """Start ``broker-sim serve --control 0 ...``; all end with the test, cleanly."""
    running: list[Outside] = []

    def start(*arguments: str, **options: str) -> Outside:
        running.append(Outside(*arguments, **options))
        return running[-1]

    yield start
    for one in running:
        code, _, errors = one.close()
        assert code == 0, errors
        assert "Traceback" not in errors, errors


@pytest.fixture
def kafka(outside: Callable[..., Outside]) -> Outside:
    """Two brokers, a topic of two partitions, groups that form at once."""
    return outside("--brokers", "2", "--topic", "orders:2", *FAST_GROUPS)

"""Every behaviour of a log is tested on disk and in memory: `make_log` opens one in the way of the parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_sim.storage import PartitionLog
from tests.storage.batches import config

MakeLog = Callable[..., PartitionLog]


@pytest.fixture(params=["disk", "memory"])
def make_log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeLog]:
    """`make_log(segment_bytes=1000, ...)`: an empty log with these settings; closed after the test."""
    opened: list[PartitionLog] = []

    def make(**settings: Any) -> PartitionLog:
        directory = tmp_path / f"topic-{len(opened)}" if request.param == "disk" else None
        log = PartitionLog(directory, config(**settings))
        opened.append(log)
        return log

    yield make
    for log in opened:
        log.close()


@pytest.fixture(autouse=True)
def logs_are_killed(killed_logs: None) -> None:
    """Kill the logs that a test leaves open."""

"""Outcome of a run of tests, as a file: for whoever runs several, one after the other (tests/stages.py).

Where the environment names a folder in BROKER_SIM_OUTCOMES, each run writes one file there when it ends; runs of pytest that tests
start don't, they no longer find the name. An option would have to stand in every command, the README's too.

    {"passed": 7852, "skipped": 3, "seconds": 301.2, "failed": {"tests/x.py::test_y": "assert 2 == 1"}}
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

FOLDER = "BROKER_SIM_OUTCOMES"
"""The environment variable."""

LINE = 200
"""Greatest number of characters of an error that are kept; the whole error is in the run's output."""


@dataclass
class Outcomes:
    """Outcome of one run; ``failed``: the error's first line by the test's id, or by the file that could not be loaded."""

    passed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> list[Outcomes]:
        """Return the outcomes of all runs that left a file, in the order in which they ended."""
        files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        return [cls(**json.loads(file.read_text())) for file in files]


class Writer:
    """A plugin: sees the reports of all processes that run tests side by side, and writes the file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counts: Counter[str] = Counter()
        self._failed: dict[str, str] = {}
        self._began_s = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.setdefault(report.nodeid, _line(report))
        elif report.when == "call" or report.skipped:
            self._counts[report.outcome] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed.setdefault(report.nodeid, _line(report))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        seconds = round(time.monotonic() - self._began_s, 1)
        outcomes = Outcomes(self._counts["passed"], self._counts["skipped"], seconds, self._failed)
        (self._folder / f"{os.getpid()}.json").write_text(json.dumps(asdict(outcomes)))


def _line(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The line that tells the error: that of its crash, else the last one of the text."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash is not None else str(report.longrepr)).strip().splitlines() or [""]
    return (lines[0] if crash is not None else lines[-1])[:LINE]


def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.pop(FOLDER, None)
    if folder is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Writer(Path(folder)), "outcomes")

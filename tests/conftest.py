"""Rules for the whole suite.

* `real_kafka` (a JVM and Kafka's jars), `spark` (Java 17), `clients` (a foreign toolchain), `browser` (Chromium) and `real_time`
  (clients in processes of their own, or a clock that nobody moves) tests are no part of `make test`. In `make test-foreign` they find
  out for themselves whether they can run, and skip with the reason where they can't. Where CI=true a skip of theirs is a failure.
* `slow` tests run with `--slow`, and where CI=true; `long` ones, more seeds and longer runs of what others test, with `--long`.
* What a test leaves behind fails that test (tests/support/leftovers.py); one that hangs is named with all stacks, and the others run
  (tests/support/hangs.py).
* Hypothesis has no deadline of its own on a noisy machine, pytest-timeout has; where CI=true its examples are repeatable.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Generator
from typing import Any

import hypothesis
import pytest

pytest_plugins = [
    "pytester",
    "tests.support.journal_check",
    "tests.support.outcomes",
    "tests.support.leftovers",
    "tests.support.hangs",
    "tests.support.killed_logs",
]

CI = os.environ.get("CI") == "true"
_REAL = re.compile(r"\[(\d\.\d)-(?:.+-)?kafka(?:\]|-(?!python))")
"""In the ids of tests that are run on the simulator and on real brokers: of which release."""

_UVLOOP = re.compile(r"\[uvloop(?:-|\])")
"""In the ids of tests that run on uvloop, too: its time is the machine's."""

_WHOLE = (
    "tests/pipeline/",
    "tests/clients/",
    "tests/importing/",
    "tests/incidents/test_recorded.py",
    "tests/scenarios/test_observed.py",
    "tests/scenarios/test_shipped.py",
    "tests/server/test_work_at_once.py",
    "tests/simulation/test_leaks.py",
    "tests/test_tidy.py",
)
"""Modules that make something dear for all their tests: runs on Spark, clients' processes, brokers, scenarios side by side, the
outlines of all files."""

SLOW_S = 800
"""The timeout of a slow test that names none: ten seconds of work take more than a minute where four others share the core."""

NEVER_SKIPPED_IN_CI = ("real_kafka", "clients", "real_time", "slow", "spark", "browser")

hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if CI else "default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too (CI=true does)")
    parser.addoption("--long", action="store_true", help="run the tests marked long, too")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Side by side: what shares real brokers, those of one release, or what a module makes for all its tests, stays in one process;
    else a test at a time."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if real := _REAL.search(nodeid):
                return f"real brokers of {real[1]}"
            path = nodeid.partition("::")[0]
            return path if path.startswith(_WHOLE) else nodeid

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            """Drop tests that are done: xdist looks through all that a process was ever given, after each test."""
            super().mark_test_complete(node, item_index, duration)
            given = self.assigned_work[node]
            scope = self._split_scope(self.registered_collections[node][item_index])
            if all(given[scope].values()):
                del given[scope]

        def remove_node(self, node: Any) -> str | None:
            """A process that crashed leaves the tests behind the one that it ran to the others; xdist would give them that one, too."""
            given = self.assigned_work.pop(node)
            pending = [(scope, nodeid) for scope, unit in given.items() for nodeid, done in unit.items() if not done]
            if not pending:
                return None
            scope, crashed = pending[0]
            given[scope][crashed] = True
            self.workqueue.update((scope, unit) for scope, unit in given.items() if not all(unit.values()))
            for other in self.assigned_work:
                self._reschedule(other)
            return crashed

        def _reschedule(self, node: Any) -> None:
            """A process begins a test when it knows the next one, or that there is none: one that begins late needs two."""
            super()._reschedule(node)
            if self._pending_of(self.assigned_work[node]) < 2:
                super()._reschedule(node)

    return Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if _UVLOOP.search(item.nodeid):
            item.add_marker(pytest.mark.real_time)
    left_out = set()
    if not config.getoption("--long"):
        left_out.add("long")
    if not (CI or config.getoption("--slow")):
        left_out.add("slow")
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_S))
    deselected = [item for item in items if any(item.get_closest_marker(name) for name in left_out)]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        gone = set(deselected)
        items[:] = [item for item in items if item not in gone]
    if hasattr(
        config, "workerinput"
    ):  # side by side: one that takes long and begins last would be waited for by all the others
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def pytester(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project. Hypothesis' plugin is left out of its sessions: it imports all of hypothesis when they end, half of their time."""
    pytester.plugins.append("no:hypothesispytest")
    return pytester


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the reasons why tests were skipped: one line for each reason, not one for each test."""
    reasons = Counter(str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []))
    if reasons:
        terminalreporter.section("skipped")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:6} {reason.removeprefix('Skipped: ')}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if CI and report.skipped and not hasattr(report, "wasxfail"):
        marker = next((name for name in NEVER_SKIPPED_IN_CI if item.get_closest_marker(name)), None)
        if marker is not None:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            report.outcome = "failed"
            report.longrepr = f"a test marked {marker} may not be skipped where CI=true: {reason}"
    return report

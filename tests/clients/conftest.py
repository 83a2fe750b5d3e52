"""Fixtures of the client matrix: the broker under test and one long-lived driver process per client (rig.py)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import transaction_scenarios  # noqa: F401 - they stand in the table, too
from tests.clients.clients import CLIENTS
from tests.clients.rig import Garage, Target, serve_target
from tests.clients.scenarios import SCENARIOS


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with serve_target(tmp_path_factory.mktemp("target")) as served:
        yield served


@pytest.fixture(scope="session")
def garage(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Garage]:
    garage = Garage(target, tmp_path_factory.mktemp("drivers"))
    yield garage
    for driver in garage.running.values():
        driver.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Writes the matrix as a Markdown table where BROKER_SIM_CLIENTS_TABLE names a file."""
    if path := os.environ.get("BROKER_SIM_CLIENTS_TABLE"):
        Path(path).write_text(markdown(terminalreporter))


def markdown(reporter: pytest.TerminalReporter) -> str:
    outcomes: dict[str, str] = {}
    for outcome, shown in (("passed", "ok"), ("skipped", "skipped"), ("error", "ERROR"), ("failed", "FAIL")):
        for report in reporter.getreports(outcome):
            name = getattr(report, "nodeid", "").partition("test_matrix.py::test_client[")[2]
            if name:
                outcomes[name.rstrip("]")] = shown
    lines = [
        "| behaviour | " + " | ".join(client.name for client in CLIENTS) + " |",
        "|---|" + "---|" * len(CLIENTS),
    ]
    for scenario in SCENARIOS:
        cells = [outcomes.get(f"{client.name}-{scenario.name}", "-") for client in CLIENTS]
        lines.append(f"| {scenario.name.replace('_', ' ')} | " + " | ".join(cells) + " |")
    lines += ["", "A dash: not possible in that client.", ""]
    lines += [f"- {c.name}: {'; '.join(dict.fromkeys(c.cannot.values()))}." for c in CLIENTS if c.cannot]
    return "\n".join(lines) + "\n"

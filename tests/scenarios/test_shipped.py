"""Every scenario that comes with broker-sim, with every client that it concerns: its verdict holds, or the client is known for it.

In real time, as their clients live in processes of their own; `test_virtual` has the verdicts in virtual time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker_sim.scenario.commands import LINE, shipped
from broker_sim.scenario.model import read
from tests.scenarios.apps import APPS
from tests.scenarios.stage import Stage

NAMES = sorted(path.stem for path in shipped().glob("*.yaml"))
CLIENTS = ("aiokafka", "confluent", "java-4.1")
OLD_JAVA = {name for name in NAMES if name.startswith(("stuck", "not-coordinator", "offset-fetch"))}
"""Scenarios that are also run with the Java client of 3.4, which uses other protocol versions for most of their requests."""

WITHOUT_CLIENTS = {
    "join-storm": "classic",
    **{name: "aiokafka" for name in NAMES if name.startswith("transaction-")},
    **{name: "consumer" for name in NAMES if name.startswith("consumer-group-")},
    **{name: "share" for name in NAMES if name.startswith("share-group-")},
    **{name: "streams" for name in NAMES if name.startswith("streams-")},
}
"""Scenarios whose clients are no client library's, or work in transactions, and with whom they are played."""

KNOWN_BREAKS = {(name, kind): what for name in NAMES for kind, what in read(shipped() / f"{name}.yaml").known.items()}
"""(scenario, client) -> what that client does about it, as the file says. Each was seen in the journal; see docs/faults.md."""


def parts() -> Iterator[Any]:
    for name in NAMES:
        clients = (*CLIENTS, "java-3.4") if name in OLD_JAVA else CLIENTS
        for client in [WITHOUT_CLIENTS[name]] if name in WITHOUT_CLIENTS else clients:
            marks: list[pytest.MarkDecorator] = [pytest.mark.real_time]
            if client.startswith("java"):
                marks.append(pytest.mark.clients)
            if (name, client) in KNOWN_BREAKS:
                marks.append(pytest.mark.xfail(strict=True, raises=AssertionError, reason=KNOWN_BREAKS[name, client]))
            yield pytest.param(name, client, id=f"{name}-{client}", marks=marks)


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Everything of this module that was selected is under way, in the order of the tests."""
    with Stage() as stage:
        booked = []
        for item in request.session.items:
            if getattr(item, "originalname", "") == test_the_verdict_holds.__name__ and item.path == request.path:
                name, client = item.callspec.params["name"], item.callspec.params["client"]  # type: ignore[attr-defined]
                try:
                    booked.append(((name, client), APPS[client]()))
                except (pytest.skip.Exception, pytest.fail.Exception):
                    continue  # its own test says so
        stage.book(booked)
        yield stage


@pytest.mark.parametrize(("name", "client"), list(parts()))
def test_the_verdict_holds(stage: Stage, name: str, client: str) -> None:
    outcome = stage.outcome(name, client)
    assert outcome.ended == {}, outcome.report()
    assert outcome.code == 0, outcome.report()


@pytest.mark.parametrize("name", NAMES)
def test_its_description_begins_with_one_short_line(name: str) -> None:
    scenario = read(shipped() / f"{name}.yaml")
    assert scenario.summary == scenario.description.splitlines()[0]
    assert len(scenario.summary) <= LINE - 4
    assert any(one.kind != "never" for one in scenario.expect), "a run in which nothing happens would do"

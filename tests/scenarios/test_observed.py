"""Statements of docs/faults.md about clients are true: some of its faults, seen again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from broker_sim.faults.conditions import KINDS
from broker_sim.faults.rules import VERDICTS
from broker_sim.scenario.runner import ScenarioOptions
from broker_sim.scenario.virtual import play
from tests.scenarios.cases import CASES, Observed, observe, scenario
from tests.scenarios.observe import CLIENTS, TARGET
from tests.scenarios.stage import Stage

AGAIN = [
    ("no_leader", 0, "aiokafka"),
    ("loading", 0, "aiokafka"),
    ("loading", 0, "confluent"),
    ("error_after", 0, "aiokafka"),
    ("error", 0, "confluent"),
]


def key(name: str, number: int) -> str:
    return f"{name}/{CASES[name][number].title}"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    cases = {key(name, number): CASES[name][number] for name, number, _ in AGAIN}
    with Stage(lambda title: scenario(cases[title])) as stage:
        stage.book_all((key(name, number), client) for name, number, client in AGAIN)
        yield stage


@pytest.mark.real_time
@pytest.mark.parametrize(("name", "number", "client"), AGAIN)
def test_a_fault_has_the_documented_effect(stage: Stage, name: str, number: int, client: str) -> None:
    written = json.loads(TARGET.read_text())[key(name, number)][client]
    seen = observe(stage.outcome(key(name, number), client).events)
    is_as_written(seen, written)


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, cases in CASES.items() for number in range(len(cases))]
)
def test_aiokafka_meets_every_fault_so_in_virtual_time(name: str, number: int) -> None:
    outcome = play(scenario(CASES[name][number]), ScenarioOptions(clients={"*": "aiokafka"}))
    assert outcome.ended == {}, outcome.report()
    is_as_written(observe(outcome.events), json.loads(TARGET.read_text())[key(name, number)]["aiokafka"])


def is_as_written(seen: Observed, written: dict[str, Any]) -> None:
    assert (set(seen.hears), seen.tells) == (set(written["hears"]), written["tells"])
    assert (seen.looked_up, seen.read_meanwhile) == (written["looked_up"], written["read_meanwhile"])
    assert seen.back_ms is not None
    assert not seen.went_back


def test_every_fault_was_seen_with_every_client() -> None:
    assert list(CASES) == [*KINDS, *VERDICTS]
    written = json.loads(TARGET.read_text())
    titles = [key(name, number) for name, cases in CASES.items() for number in range(len(cases))]
    assert {title: list(seen) for title, seen in written.items()} == {title: list(CLIENTS) for title in titles}

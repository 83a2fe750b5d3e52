"""Every scenario with every client that can do it (scenarios.py, clients.py), through the client's own API over TCP."""

from __future__ import annotations

import re

import pytest

from tests.clients import transaction_scenarios  # noqa: F401 - they register themselves
from tests.clients.clients import CLIENTS, Client, marks
from tests.clients.rig import Garage, Target
from tests.clients.scenarios import SCENARIOS, Lab, Scenario

BROKER_TROUBLE = re.compile(r"Traceback|ERROR|CRITICAL|WARNING|closing the connection")


def cell(client: Client, scenario: Scenario) -> object:
    return pytest.param(client, scenario, id=f"{client.name}-{scenario.name}", marks=marks(client))


CELLS = [cell(c, s) for c in CLIENTS for s in SCENARIOS if not s.needs & c.cannot.keys()]


@pytest.mark.parametrize(("client", "scenario"), CELLS)
def test_client(client: Client, scenario: Scenario, garage: Garage, target: Target) -> None:
    for attempt in range(1, client.attempts + 1):
        try:
            run_once(client, scenario, garage, target)
        except AssertionError:
            if attempt == client.attempts:
                raise
        else:
            return


def run_once(client: Client, scenario: Scenario, garage: Garage, target: Target) -> None:
    driver = garage.driver(client)
    client_log, broker_log = len(driver.log().encode()), len(target.log().encode())
    lab = Lab(client, driver, lambda: garage.new(client))
    try:
        try:
            scenario.run(lab)
        finally:
            lab.close()
    except Exception as error:
        error.add_note(f"the client's log since then:\n{driver.log(client_log)[-3000:]}")
        error.add_note(f"the broker's log since then:\n{target.log(broker_log)[:3000]}")
        raise
    lost = [line for line in driver.log(client_log).splitlines() if re.search(client.closed_log, line)]
    assert lost == [], "the broker closed a connection that the client had not given up"
    trouble = target.log(broker_log)
    assert not BROKER_TROUBLE.search(trouble), f"the broker logged trouble:\n{trouble[:3000]}"


def test_every_need_is_a_reason_somewhere_or_universal() -> None:
    """A misspelt need would silently run everywhere; a misspelt reason would silently exclude nothing."""
    needs = {need for scenario in SCENARIOS for need in scenario.needs}
    inside_scenarios = {"position", "pattern-follows"}
    for client in CLIENTS:
        assert client.cannot.keys() <= needs | inside_scenarios

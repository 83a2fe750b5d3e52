"""Operations on scenarios: run the incident of a scenario file on the brokers that clients of a test use.

Scenarios stand above operations, which their steps are, so what runs them is loaded by its name when it is needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError
from broker_sim.control.shapes import SCENARIO
from broker_sim.control.table import TIMEOUT, operation
from broker_sim.fields.field import Field
from broker_sim.fields.kinds import Count, Flag, Text

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster

MAX_FILE = 1 << 20
"""Characters of a scenario file; a request's body is not larger."""


class ScenarioFailed(AssertionError):
    """An expectation of a scenario failed, a step timed out or could not be done; the message is the report."""


def running() -> Any:
    """`broker_sim.scenario.running`."""
    return importlib.import_module("broker_sim.scenario.running")


def scenario_of(name: str | None, file: str | None) -> Any:
    """The scenario of a file's text, else the included one of that name. Raises UsageError with the lines of what is wrong."""
    if file is None and name is None:
        raise UsageError("file is missing: the text of a scenario file; or name: an included scenario")
    if file is None:
        commands = importlib.import_module("broker_sim.scenario.commands")
        path = commands.included(name)
        file, name = path.read_text(encoding="utf-8"), path.name
    return running().parsed(file, name or "scenario")


SCENARIO_FILE = Text(most=MAX_FILE)
FILE = Field("file", SCENARIO_FILE, "the text of a scenario file", example="steps: [{do: {mark: now}}]")
SCENARIO_ID = Field(
    "scenario", Count(1), "id of the scenario, from the response of scenario.start", required=True, example=1
)


@operation(
    "scenario.start",
    "POST /scenarios",
    Field("name", Text(), "name of an included scenario; with file: name of the file in messages"),
    FILE,
    Field("start_clients", Flag(), "start the file's clients, too, in place of waiting for those of the test"),
    Field("any_settings", Flag(), "run it although the cluster's release or settings are not those of the file"),
    answer=SCENARIO,
)
async def start(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Run the steps of a scenario file on these brokers, with the clients that use them, until scenario.end."""
    scenario = scenario_of(given.get("name"), given.get("file"))
    flags = {name: given.get(name, False) for name in ("start_clients", "any_settings")}
    run = await running().start(cluster, scenario, **flags)
    return run.to_dict()


@operation("scenario.list", "GET /scenarios", answer={"scenarios": [SCENARIO]})
async def list_scenarios(cluster: Cluster, given: dict[str, Any]) -> Any:
    """List the scenarios of scenario.start that were not ended, oldest first."""
    return {"scenarios": [run.to_dict() for run in running().runs(cluster)]}


@operation("scenario.get", "GET /scenarios/{scenario}", SCENARIO_ID, answer=SCENARIO)
async def get_scenario(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Show a scenario: the steps that are done, what it waits for, its progress, verdict and expectations."""
    return running().find(cluster, given["scenario"]).to_dict()


@operation(
    "scenario.wait",
    "GET /scenarios/{scenario}/wait",
    SCENARIO_ID,
    Field("step", Text(), "wait until this step is done (default: until the scenario has ended)"),
    TIMEOUT,
    answer=SCENARIO,
    waits=True,
    errors=(409,),
)
async def wait_scenario(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Wait until a scenario has ended, or until a step is done. A scenario whose expectations failed is an error then."""
    run = running().find(cluster, given["scenario"])
    await run.wait(given.get("step"), given["timeout"])
    return run.to_dict()


@operation(
    "scenario.end",
    "DELETE /scenarios/{scenario}",
    SCENARIO_ID,
    Field("must_hold", Flag(), "false: no error if its expectations failed (default: an error, once)"),
    answer=SCENARIO,
)
async def end_scenario(cluster: Cluster, given: dict[str, Any]) -> Any:
    """End a scenario: cancel it if it runs, and clear the states, rules, holds and stopped brokers that its steps left."""
    run = running().find(cluster, given["scenario"])
    try:
        await run.end()
    except OSError as error:
        raise UsageError(f"a broker can't bind its port: {error.strerror or error}") from None
    if given.get("must_hold", True):
        run.check()
    return run.to_dict()

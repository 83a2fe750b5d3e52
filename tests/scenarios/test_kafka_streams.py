"""Scenarios of streams groups with Kafka Streams itself (``group.protocol=streams``) in place of members that only heartbeat: what the
files say of Kafka Streams is what it does."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

import pytest

from broker_sim.scenario.commands import shipped
from broker_sim.scenario.model import read
from broker_sim.scenario.runner import ScenarioOptions, run
from tests.clients.clients import java_command
from tests.support.maven import streams_classpath

pytestmark = [pytest.mark.clients, pytest.mark.real_time]  # may have to fetch Kafka Streams first

HERE = Path(__file__).parent
VERSION = "4.3.1"


def kafka_streams(state: Path) -> str:
    """The command line of java/StreamsApp.java, whose instances keep their state below ``state``."""
    source, own = HERE / "java" / "StreamsApp.java", f"-Djava.io.tmpdir={state}"
    return shlex.join(java_command(f"scenario-streams-{VERSION}", source, VERSION, streams_classpath(VERSION), own))


@pytest.mark.parametrize(
    ("name", "client"),
    [("streams-application-with-a-changed-topology", "streams"), ("streams-member-never-revokes-its-task", "app-2")],
)
def test_the_verdict_holds_with_kafka_streams(name: str, client: str, tmp_path: Path) -> None:
    scenario = read(shipped() / f"{name}.yaml")
    outcome = asyncio.run(run(scenario, ScenarioOptions(clients={client: kafka_streams(tmp_path)})))
    assert outcome.ended == {}, outcome.report()
    assert outcome.code == 0, outcome.report()

"""An app that is told to leave leaves, whatever it is doing at that moment."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from broker_sim.scenario.apps import consumer_app, streams_app
from broker_sim.scenario.apps.common import AppSettings, Obey, ScenarioPipe, until_told_to_leave
from broker_sim.scenario.apps.heartbeating import HeartbeatingMember
from kafka_wire.api_keys import ApiKey

SETTINGS = {"bootstrap": "broker:9092", "client_id": "app", "group": "counts", "topics": ["orders"]}
DEADLINE_S = 10


class Pipe(ScenarioPipe):
    """Commands and reports of a test."""

    def __init__(self) -> None:
        self.reports: list[str] = []
        self.obey: Obey = lambda command, argument: None

    def report(self, reports: str, **details: Any) -> None:
        self.reports.append(reports)

    def listen(self, obey: Obey) -> None:
        self.obey = obey


class Answers:
    """A connection whose heartbeats are answered when the test says so."""

    def __init__(self) -> None:
        self.heartbeat: asyncio.Future[None] | None = None
        self.asked = asyncio.Event()

    async def connect(self, host: str, port: int) -> None:
        """Nothing to do."""

    async def ask(self, api: int, version: int, request: Any, answer: type[Any]) -> Any:
        if api != ApiKey.FIND_COORDINATOR and request.member_epoch >= 0:
            self.heartbeat = asyncio.get_running_loop().create_future()
            self.asked.set()
            await self.heartbeat
        found = answer()
        if api != ApiKey.FIND_COORDINATOR:
            found.member_epoch = 1
        return found

    def close(self) -> None:
        """Nothing to do."""


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("app", [consumer_app, streams_app], ids=["consumer", "streams"])
async def test_it_leaves_if_told_while_a_heartbeat_is_being_answered(app: Any, steps: int) -> None:
    """``steps`` of the event loop lie between the answer and the command."""
    pipe, wire = Pipe(), Answers()
    member: HeartbeatingMember = app.Member(AppSettings(json.dumps(SETTINGS)), pipe)
    member.wire = wire  # type: ignore[assignment]
    life = asyncio.ensure_future(until_told_to_leave(member, pipe))
    async with asyncio.timeout(DEADLINE_S):
        await wire.asked.wait()
        assert wire.heartbeat is not None
        wire.heartbeat.set_result(None)
        for _ in range(steps):
            await asyncio.sleep(0)
        pipe.obey("leave", "")
        assert await life == 0
    assert pipe.reports[-1] == "left"

"""Common parts of members of epoch-based groups that implement the protocol themselves: FindCoordinator, heartbeats, and the leave."""

from __future__ import annotations

import asyncio
import itertools
from abc import abstractmethod
from typing import TypeVar

from broker_sim.scenario.apps.common import AppSettings, Member, ScenarioPipe
from broker_sim.scenario.wire import Wire
from kafka_wire.api_keys import ApiKey
from kafka_wire.errors import Err
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

ELSEWHERE = (Err.NOT_COORDINATOR, Err.COORDINATOR_NOT_AVAILABLE, Err.COORDINATOR_LOAD_IN_PROGRESS)
FENCED = (Err.UNKNOWN_MEMBER_ID, Err.FENCED_MEMBER_EPOCH, Err.GROUP_ID_NOT_FOUND)

_FIND = 1
_RETRY_S = 0.05
_PATIENCE_S = 2.0
"""Longer than any answer takes that comes."""

T = TypeVar("T")


class HeartbeatingMember(Member):
    """One process: a member id of its own."""

    def __init__(self, settings: AppSettings, line: ScenarioPipe) -> None:
        self.settings, self.report = settings, line.report
        assert settings.group is not None
        self.group = settings.group
        self.member_id = f"{settings.client_id}-member"
        self.wire = Wire(settings.client_id, settings.security)
        self.epoch = 0
        self.in_doubt = False
        """Whether the answer to its last heartbeat is lost."""
        self.has_failed = False
        """Whether it was refused for good: it heartbeats no more."""

    @abstractmethod
    async def beat(self) -> bool:
        """One heartbeat; False where the coordinator is elsewhere. Raises OSError or EOFError where no answer comes."""

    @abstractmethod
    async def say_goodbye(self) -> None:
        """The heartbeat with which it leaves. Raises as `beat`."""

    async def run(self) -> None:
        """Until cancelled, or refused for good."""
        while not self.has_failed:
            try:
                await self._find()
                await self._live_on()
            except (OSError, EOFError, asyncio.IncompleteReadError):
                self.in_doubt = True
                await asyncio.sleep(_RETRY_S)

    async def leave(self) -> None:
        """Leave the group with a last heartbeat, if the member has joined, and close the connection. A lost coordinator is ignored."""
        if self.epoch > 0:
            try:
                await self._find()
                await self.say_goodbye()
            except (OSError, EOFError):
                return
        self.wire.close()

    async def ask(self, api: int, version: int, request: object, answer: type[T]) -> T:
        """Raises OSError where no answer comes."""
        # not wait_for: before Python 3.12 that loses a cancellation which comes with the answer, and the member would never leave
        async with asyncio.timeout(_PATIENCE_S):
            response: T = await self.wire.ask(api, version, request, answer)
        return response

    async def _live_on(self) -> None:
        """Heartbeats, until the coordinator is elsewhere."""
        pause_s = (self.settings.ms("heartbeat_interval") or 5000) / 1000
        here = await self.beat()
        while here and not self.has_failed:
            await asyncio.sleep(pause_s)
            here = await self.beat()

    async def _find(self) -> None:
        """Look up the group's coordinator, and connect to it."""
        hosts = itertools.cycle(self.settings.bootstrap.split(","))
        while True:
            host, _, port = next(hosts).rpartition(":")
            await self.wire.connect(host, int(port))
            coordinator: FindCoordinatorResponse = await self.ask(
                ApiKey.FIND_COORDINATOR, _FIND, FindCoordinatorRequest(self.group), FindCoordinatorResponse
            )
            if coordinator.error_code == Err.NONE:
                await self.wire.connect(coordinator.host, coordinator.port)
                return
            await asyncio.sleep(_RETRY_S)

"""Members of a classic group in one process: ``python -m broker_sim.scenario.apps.classic_app SETTINGS``; for groups of hundreds.

Each member has a connection of its own and sends requests of the group protocol only: FindCoordinator, JoinGroup, SyncGroup,
Heartbeat, LeaveGroup, in versions that every Kafka has. The leader assigns the partitions round robin.
The setting ``members`` is their number.
Reports: ``assigned`` for each member and generation, ``error``, and at the end ``left``.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Iterable
from typing import Any

from broker_sim.scenario.apps.common import AppSettings, ScenarioPipe, program
from broker_sim.scenario.wire import Wire
from kafka_wire.api_keys import ApiKey
from kafka_wire.codec import decode, encode
from kafka_wire.errors import Err
from kafka_wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

_METADATA, _FIND, _JOIN, _HEARTBEAT, _LEAVE, _SYNC = 1, 1, 5, 3, 1, 3
_RETRY_S = 0.05
_AGAIN = (Err.REBALANCE_IN_PROGRESS, Err.COORDINATOR_LOAD_IN_PROGRESS)
_ELSEWHERE = (Err.NOT_COORDINATOR, Err.COORDINATOR_NOT_AVAILABLE)


class Member:
    """One member of the group, on a connection of its own: it joins, syncs and sends heartbeats until it leaves."""

    def __init__(self, settings: AppSettings, number: int, line: ScenarioPipe) -> None:
        self.settings, self.name, self.report = settings, f"{settings.client_id}-{number}", line.report
        assert settings.group is not None
        self.group = settings.group
        self.wire = Wire(self.name, settings.security)
        self.member_id, self.generation = "", -1
        self.partitions: dict[str, int] = {}

    async def run(self) -> None:
        """Join, and join again, until cancelled."""
        while True:
            try:
                await self._find()
                while await self._join_and_sync() or self.generation < 0:
                    await self._beat()
            except (OSError, EOFError, asyncio.IncompleteReadError):
                await asyncio.sleep(_RETRY_S)

    async def _find(self) -> None:
        """Look up the group's coordinator, and connect to it."""
        hosts = itertools.cycle(self.settings.bootstrap.split(","))
        while True:
            host, _, port = next(hosts).rpartition(":")
            await self.wire.connect(host, int(port))
            asked = MetadataRequest([MetadataRequestTopic(name=topic) for topic in self.settings.topics])
            metadata: MetadataResponse = await self.wire.ask(ApiKey.METADATA, _METADATA, asked, MetadataResponse)
            self.partitions = {topic.name or "": len(topic.partitions) for topic in metadata.topics}
            coordinator: FindCoordinatorResponse = await self.wire.ask(
                ApiKey.FIND_COORDINATOR, _FIND, FindCoordinatorRequest(self.group), FindCoordinatorResponse
            )
            if coordinator.error_code == Err.NONE:
                await self.wire.connect(coordinator.host, coordinator.port)
                return
            await asyncio.sleep(_RETRY_S)

    async def _join_and_sync(self) -> bool:
        """One generation; False where the coordinator is elsewhere. Leaves ``generation`` at -1 where it has to be tried again."""
        self.generation, settings = -1, self.settings
        metadata = struct.pack(">h", 0) + encode(ConsumerProtocolSubscription(settings.topics), 0)
        joined: JoinGroupResponse = await self.wire.ask(
            ApiKey.JOIN_GROUP,
            _JOIN,
            JoinGroupRequest(
                self.group,
                settings.ms("session_timeout") or 45_000,
                settings.ms("max_poll_interval") or 300_000,
                self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol("range", metadata)],
            ),
            JoinGroupResponse,
        )
        error = Err(joined.error_code)
        if error is Err.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return True
        if error is not Err.NONE:
            return await self._refused("JoinGroup", error)
        self.member_id = joined.member_id
        assignments = self._dealt([member.member_id for member in joined.members]) if joined.members else {}
        synced: SyncGroupResponse = await self.wire.ask(
            ApiKey.SYNC_GROUP,
            _SYNC,
            SyncGroupRequest(
                self.group,
                joined.generation_id,
                self.member_id,
                assignments=[SyncGroupRequestAssignment(name, given) for name, given in assignments.items()],
            ),
            SyncGroupResponse,
        )
        error = Err(synced.error_code)
        if error is not Err.NONE:
            return await self._refused("SyncGroup", error)
        self.generation = joined.generation_id
        mine = (
            decode(ConsumerProtocolAssignment, 0, synced.assignment, 2).assigned_partitions if synced.assignment else []
        )
        self.report(
            "assigned",
            member=self.name,
            partitions=[f"{topic.topic}-{index}" for topic in mine for index in topic.partitions],
        )
        return True

    def _dealt(self, members: list[str]) -> dict[str, bytes]:
        """Every partition of the topics, to the members in turn."""
        dealt: dict[str, dict[str, list[int]]] = {name: {} for name in members}
        turn = itertools.cycle(members)
        for topic, partitions in self.partitions.items():
            for index in range(partitions):
                dealt[next(turn)].setdefault(topic, []).append(index)
        return {name: struct.pack(">h", 0) + _assignment(topics) for name, topics in dealt.items()}

    async def _beat(self) -> None:
        """Heartbeats, until the group wants something else."""
        pause_s = (self.settings.ms("heartbeat_interval") or 3000) / 1000
        while self.generation >= 0:
            await asyncio.sleep(pause_s)
            response: HeartbeatResponse = await self.wire.ask(
                ApiKey.HEARTBEAT,
                _HEARTBEAT,
                HeartbeatRequest(self.group, self.generation, self.member_id),
                HeartbeatResponse,
            )
            error = Err(response.error_code)
            if error is not Err.NONE:
                self.generation = -1
                if not await self._refused("Heartbeat", error):
                    raise EOFError
                return

    async def _refused(self, api: str, error: Err) -> bool:
        """Handle an error: report it, reset an unknown member id, wait before a retry. Returns whether to keep this coordinator."""
        if error not in _AGAIN:
            self.report("error", member=self.name, text=f"{api}: {error.name}")
        if error in (Err.UNKNOWN_MEMBER_ID, Err.ILLEGAL_GENERATION):
            self.member_id = ""
        if error is not Err.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(_RETRY_S)
        return error not in _ELSEWHERE

    async def leave(self) -> None:
        """Send LeaveGroup, and close the connection."""
        if self.member_id:
            try:
                await self._find()
                request = LeaveGroupRequest(self.group, self.member_id)
                await self.wire.ask(ApiKey.LEAVE_GROUP, _LEAVE, request, LeaveGroupResponse)
            except (OSError, EOFError):
                return
        self.wire.close()


def _assignment(topics: dict[str, list[int]]) -> bytes:
    parts: Iterable[Any] = (
        ConsumerProtocolAssignmentTopicPartition(name, partitions) for name, partitions in topics.items()
    )
    return encode(ConsumerProtocolAssignment(list(parts)), 0)


async def live(settings: AppSettings, line: ScenarioPipe) -> int:
    """The whole program; its exit code."""
    members = [Member(settings, number, line) for number in range(1, settings.members + 1)]
    stop = asyncio.Event()

    def obey(command: str, argument: str) -> None:
        if command == "leave":
            stop.set()

    line.listen(obey)
    tasks = [asyncio.ensure_future(member.run()) for member in members]
    await stop.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*(member.leave() for member in members))
    line.report("left")
    return 0


if __name__ == "__main__":
    program(live)

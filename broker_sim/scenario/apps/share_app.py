"""A member of a share group (KIP-932) that speaks the protocol itself: ``python -m broker_sim.scenario.apps.share_app SETTINGS``.

It heartbeats, fetches from the leaders of its partitions, works on each record for ``work``, and acknowledges what one fetch has
brought in one ShareAcknowledge. With ``commit: never`` it acknowledges nothing: it holds what it has. Of ``config`` it knows

    fails_on: [orders-0 5, orders-0 7 1]    records on which its work fails, each as LOG OFFSET, or LOG OFFSET DELIVERIES: at so many
                                  deliveries at first, and then no more
    then: reject                  what it says of those: release (default: try again), or reject
    holds: [orders-0 9]           records that it does not acknowledge at their first delivery: their locks expire
    wait: 500                     how long a fetch waits for records, in ms

Reports: ``assigned`` with its partitions, ``read`` for each record that it acquires, ``committed`` with the offset after the last
accepted record of each partition, ``lost`` when it is fenced, ``error`` with the reason, and at the end ``left``.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
from dataclasses import dataclass, field
from typing import Any, TypeVar

from broker_sim.scenario.apps.common import AppSettings, Member, ScenarioPipe, program, until_told_to_leave
from broker_sim.scenario.wire import Wire
from kafka_wire.api_keys import ApiKey
from kafka_wire.errors import Err
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_wire.messages.k78_share_fetch import FetchPartition, FetchTopic, ShareFetchRequest, ShareFetchResponse
from kafka_wire.messages.k79_share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)

_METADATA, _FIND, _HEARTBEAT, _SHARE = 12, 1, 1, 1
_RETRY_S = 0.1
_PATIENCE_S = 3.0
"""Longer than any answer takes that comes."""
_ACCEPT, _RELEASE, _REJECT = 1, 2, 3
_FENCED = (Err.UNKNOWN_MEMBER_ID, Err.FENCED_MEMBER_EPOCH, Err.GROUP_ID_NOT_FOUND)
_ELSEWHERE = (Err.NOT_COORDINATOR, Err.COORDINATOR_NOT_AVAILABLE, Err.COORDINATOR_LOAD_IN_PROGRESS)
_LOST = (OSError, EOFError, asyncio.IncompleteReadError)

Unit = tuple[bytes, int]
T = TypeVar("T")


@dataclass(slots=True)
class _Session:
    """Share session with one leader: a connection of its own, and the epoch of the next request."""

    wire: Wire
    epoch: int = 0
    fetched: set[Unit] = field(default_factory=set)


_ALWAYS = 1 << 30


def _failing(entry: str) -> tuple[str, int]:
    """`orders-0 5 1` as record and deliveries that fail."""
    log, offset, *deliveries = entry.split()
    return f"{log} {offset}", int(deliveries[0]) if deliveries else _ALWAYS


class ShareMember(Member):
    """One process: a member id of its own, which 4.1 wants to be a uuid."""

    def __init__(self, settings: AppSettings, line: ScenarioPipe) -> None:
        self.settings, self.report = settings, line.report
        assert settings.group is not None
        self.group = settings.group
        digest = hashlib.sha256(settings.client_id.encode()).digest()[:16]
        self.member_id = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        self.fails_on = dict(_failing(str(entry)) for entry in settings.config.get("fails_on", ()))
        self.holds = set(map(str, settings.config.get("holds", ())))
        self.then = _REJECT if settings.config.get("then") == "reject" else _RELEASE
        self.wait_ms = int(settings.config.get("wait", 500))
        self.coordinator = Wire(settings.client_id, settings.security)
        self.names: dict[bytes, str] = {}
        self.leaders: dict[Unit, tuple[str, int]] = {}
        self.sessions: dict[tuple[str, int], _Session] = {}
        self.epoch = 0
        self.has: set[Unit] = set()

    async def run(self) -> None:
        """Fetch and acknowledge records until cancelled."""
        await asyncio.gather(self._belong(), self._read())

    async def _ask(self, wire: Wire, api: int, version: int, request: object, answer: type[T]) -> T:
        """Raises OSError where no answer comes."""
        async with asyncio.timeout(_PATIENCE_S):  # not wait_for: see `HeartbeatingMember.ask`
            response: T = await wire.ask(api, version, request, answer)
        return response

    # --- membership

    async def _belong(self) -> None:
        pause_s = (self.settings.ms("heartbeat_interval") or 1000) / 1000
        while True:
            try:
                await self._find()
                here = await self._beat()
                while here:
                    await asyncio.sleep(pause_s if self.has else _RETRY_S)
                    here = await self._beat()
            except _LOST:
                pass
            await asyncio.sleep(_RETRY_S)

    async def _find(self) -> None:
        """Look up the group's coordinator, and connect to it."""
        for bootstrap in itertools.cycle(self.settings.bootstrap.split(",")):
            host, _, port = bootstrap.rpartition(":")
            await self.coordinator.connect(host, int(port))
            request = FindCoordinatorRequest(self.group)
            response = await self._ask(
                self.coordinator, ApiKey.FIND_COORDINATOR, _FIND, request, FindCoordinatorResponse
            )
            if response.error_code == Err.NONE:
                await self.coordinator.connect(response.host, response.port)
                return
            await asyncio.sleep(_RETRY_S)

    async def _beat(self) -> bool:
        """False where the coordinator is elsewhere."""
        names = self.settings.topics if self.epoch == 0 else None
        request = ShareGroupHeartbeatRequest(self.group, self.member_id, self.epoch, subscribed_topic_names=names)
        answer = await self._ask(
            self.coordinator, ApiKey.SHARE_GROUP_HEARTBEAT, _HEARTBEAT, request, ShareGroupHeartbeatResponse
        )
        error = Err(answer.error_code)
        if error is Err.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                assigned = answer.assignment.topic_partitions
                await self._take({(topic.topic_id, index) for topic in assigned for index in topic.partitions})
            return True
        self.report("error", text=f"ShareGroupHeartbeat: {error.name}")
        if error in _FENCED:
            self.report("lost", partitions=sorted(self._log(unit) for unit in self.has))
            self.epoch, self.has = 0, set()
        return error not in _ELSEWHERE

    async def _take(self, units: set[Unit]) -> None:
        if units != self.has:
            if any(unit not in self.leaders for unit in units):
                await self._look_up()
            self.has = units
            if units:
                self.report("assigned", partitions=sorted(map(self._log, units)))

    async def _look_up(self) -> None:
        """Look up the leaders of the assigned partitions."""
        wire = Wire(self.settings.client_id, self.settings.security)
        try:
            host, _, port = self.settings.bootstrap.split(",")[0].rpartition(":")
            await wire.connect(host, int(port))
            metadata = await self._ask(wire, ApiKey.METADATA, _METADATA, MetadataRequest(None), MetadataResponse)
        finally:
            wire.close()
        brokers = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
        for topic in metadata.topics:
            self.names[topic.topic_id] = topic.name or ""
            for row in topic.partitions:
                if row.leader_id in brokers:
                    self.leaders[topic.topic_id, row.partition_index] = brokers[row.leader_id]

    def _log(self, unit: Unit) -> str:
        return f"{self.names.get(unit[0], unit[0].hex())}-{unit[1]}"

    # --- records

    async def _read(self) -> None:
        while True:
            await asyncio.sleep(self.hangs_for_s)
            by_leader: dict[tuple[str, int], set[Unit]] = {}
            for unit in self.has:
                if unit in self.leaders:
                    by_leader.setdefault(self.leaders[unit], set()).add(unit)
            if not by_leader:
                await asyncio.sleep(_RETRY_S)
                continue
            for leader, units in sorted(by_leader.items()):
                try:
                    await self._fetch(leader, units)
                except _LOST:
                    self._forget(leader)
                    await asyncio.sleep(_RETRY_S)

    def _forget(self, leader: tuple[str, int]) -> None:
        """The session is of no use any more, and what it had comes again, to whomever."""
        session = self.sessions.pop(leader, None)
        if session is not None:
            session.wire.close()

    async def _fetch(self, leader: tuple[str, int], units: set[Unit]) -> None:
        session = self.sessions.get(leader)
        if session is None:
            session = _Session(Wire(self.settings.client_id, self.settings.security))
            await session.wire.connect(*leader)
            self.sessions[leader] = session
        topics: dict[bytes, FetchTopic] = {}
        for topic_id, index in sorted(units - session.fetched):
            topics.setdefault(topic_id, FetchTopic(topic_id, [])).partitions.append(FetchPartition(index, []))
        records = self.settings.max_poll_records or 500
        request = ShareFetchRequest(
            self.group,
            self.member_id,
            session.epoch,
            max_wait_ms=self.wait_ms,
            min_bytes=1,
            max_records=records,
            batch_size=records,
            topics=list(topics.values()),
        )
        answer = await self._ask(session.wire, ApiKey.SHARE_FETCH, _SHARE, request, ShareFetchResponse)
        if answer.error_code:
            self.report("error", text=f"ShareFetch: {Err(answer.error_code).name}")
            self._forget(leader)
            await asyncio.sleep(_RETRY_S)
            return
        session.epoch, session.fetched = session.epoch + 1, session.fetched | units
        rows = [(topic.topic_id, row) for topic in answer.responses for row in topic.partitions]
        got = {(topic_id, row.partition_index): row.acquired_records for topic_id, row in rows if row.acquired_records}
        if any(row.error_code for _, row in rows):
            await self._look_up()
            self._forget(leader)
        if got:
            said = {unit: await self._work(unit, acquired) for unit, acquired in got.items()}
            said = {unit: batches for unit, batches in said.items() if batches}
            if self.settings.commit != "never" and said:
                await self._acknowledge(leader, said)

    async def _work(self, unit: Unit, acquired: list[Any]) -> list[AcknowledgementBatch]:
        """Process acquired records. Returns their acknowledgements, one type for each record; none for the records of ``holds``."""
        log, said = self._log(unit), []
        for run in acquired:
            first, types = run.first_offset, list[int]()
            for offset in range(run.first_offset, run.last_offset + 1):
                self.report("read", log=log, offset=offset, deliveries=run.delivery_count)
                if self.settings.work_s:
                    await asyncio.sleep(self.settings.work_s)
                await asyncio.sleep(self.hangs_for_s)
                record = f"{log} {offset}"
                if record in self.holds and run.delivery_count == 1:
                    if types:
                        said.append(AcknowledgementBatch(first, offset - 1, types))
                    first, types = offset + 1, []
                    continue
                types.append(self.then if run.delivery_count <= self.fails_on.get(record, 0) else _ACCEPT)
            if types:
                said.append(AcknowledgementBatch(first, run.last_offset, types))
        return said

    async def _acknowledge(self, leader: tuple[str, int], said: dict[Unit, list[AcknowledgementBatch]]) -> None:
        session = self.sessions.get(leader)
        if session is None:
            return
        topics: dict[bytes, AcknowledgeTopic] = {}
        for (topic_id, index), batches in said.items():
            topic = topics.setdefault(topic_id, AcknowledgeTopic(topic_id, []))
            topic.partitions.append(AcknowledgePartition(index, batches))
        request = ShareAcknowledgeRequest(self.group, self.member_id, session.epoch, topics=list(topics.values()))
        answer = await self._ask(session.wire, ApiKey.SHARE_ACKNOWLEDGE, _SHARE, request, ShareAcknowledgeResponse)
        if answer.error_code:
            self.report("commit_failed", text=f"ShareAcknowledge: {Err(answer.error_code).name}")
            self._forget(leader)
            return
        session.epoch += 1
        done: dict[str, int] = {}
        for acknowledged_topic in answer.responses:
            for row in acknowledged_topic.partitions:
                unit = acknowledged_topic.topic_id, row.partition_index
                if row.error_code:
                    self.report("commit_failed", text=f"{self._log(unit)}: {Err(row.error_code).name}")
                elif _ACCEPT in itertools.chain.from_iterable(
                    acknowledged.acknowledge_types for acknowledged in said[unit]
                ):
                    done[self._log(unit)] = said[unit][-1].last_offset + 1
        if done:
            self.report("committed", offsets=done)

    async def leave(self) -> None:
        """Say goodbye: what it has is free again, and it is no member any more."""
        for session in self.sessions.values():
            session.wire.close()
        if self.epoch > 0:
            try:
                await self._find()
                request = ShareGroupHeartbeatRequest(self.group, self.member_id, -1)
                await self._ask(
                    self.coordinator, ApiKey.SHARE_GROUP_HEARTBEAT, _HEARTBEAT, request, ShareGroupHeartbeatResponse
                )
            except _LOST:
                return
        self.coordinator.close()


async def live(settings: AppSettings, line: ScenarioPipe) -> int:
    """The whole program; its exit code."""
    return await until_told_to_leave(ShareMember(settings, line), line)


if __name__ == "__main__":
    program(live)

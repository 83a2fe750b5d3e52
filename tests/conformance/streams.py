"""Members of a streams group (KIP-1071) by hand, and the group's records in few words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kafka_wire.errors import Err
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.messages.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kafka_wire.messages.k89_streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from kafka_wire.offsets_log import decode_key, decode_value
from kafka_wire.record_batch import batches, records
from tests.conformance.driver import GIVE_UP_S, POLL_S, Kafka, clock_s
from tests.conformance.logs import OFFSETS, fetch_all, offsets_partition

STATES = ("?", "STABLE", "UNREVOKED", "UNRELEASED")
PARTITIONS = 4  # of __consumer_offsets


class Threads:
    """Members of the test's group, by their ids; each has the response it got last."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.epochs: dict[str, int] = {}
        self.tasks: dict[str, list[list[TaskIds]]] = {}
        kafka.ignore("topic_id", because="it is drawn")

    async def at_once(self, **settings: object) -> Threads:
        """Assignments are not put off; ``settings`` are the group's own."""
        wanted = {"initial.rebalance.delay.ms": 0, "assignment.interval.ms": 0}
        wanted |= {name.replace("_", "."): value for name, value in settings.items()}  # type: ignore[misc]
        for name, value in wanted.items():
            await self.set(name, value)
        return self

    async def set(self, name: str, value: object) -> None:
        """A setting of the group's own, which the broker has when this returns."""
        whole = f"streams.{name}"
        resource = AlterConfigsResource(32, self.kafka.group, [AlterableConfig(whole, 0, str(value))])
        answer = await self.kafka.watch(IncrementalAlterConfigsRequest([resource]), 1)
        assert answer.responses[0].error_code == Err.NONE, answer
        asked = DescribeConfigsRequest([DescribeConfigsResource(32, self.kafka.group)])

        async def is_set() -> bool:
            row = (await self.kafka.watch(asked, 4)).results[0]
            return any(one.name == whole and one.value == str(value) for one in row.configs)

        await until(f"{whole} to be {value}", is_set)

    async def beat(self, member: str, epoch: int | None = None, **said: Any) -> StreamsGroupHeartbeatResponse:
        """A heartbeat with the member's epoch, or another one."""
        at = self.epochs.get(member, 0) if epoch is None else epoch
        version = said.pop("version", 1)
        answer = await self.kafka.ask(StreamsGroupHeartbeatRequest(self.kafka.group, member, at, **said), version)
        assert isinstance(answer, StreamsGroupHeartbeatResponse)
        if answer.error_code == Err.NONE:
            self.epochs[member] = answer.member_epoch
            if answer.active_tasks is not None:
                self.tasks[member] = [answer.active_tasks, answer.standby_tasks or [], answer.warmup_tasks or []]
        return answer

    async def join(self, member: str, topology: Topology | None, **said: Any) -> StreamsGroupHeartbeatResponse:
        fields = {"rebalance_timeout_ms": 5000, "process_id": f"p-{member}", "topology": topology}
        lists: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        return await self.beat(member, 0, **{**fields, **lists, **said})

    async def acknowledge(self, member: str, epoch: int | None = None) -> StreamsGroupHeartbeatResponse:
        """A heartbeat that says which tasks it has."""
        active, standby, warmup = self.tasks[member]
        return await self.beat(member, epoch, active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)

    async def described(self, *, version: int = 1) -> DescribedGroup:
        group = (await self.kafka.ask(StreamsGroupDescribeRequest([self.kafka.group]), version)).groups[0]
        assert isinstance(group, DescribedGroup)
        return group

    async def created(self, member: str, *names: str) -> dict[str, int]:
        """Waits for topics that the broker is to create, and for its coordinator to know them (not recorded); their partitions."""

        wire = await self.kafka.wire("admin", record=False)  # a member is known by its client id, too

        async def are_known() -> bool:
            request = StreamsGroupHeartbeatRequest(self.kafka.group, member, self.epochs[member])
            answer = await wire.send(request, 1)
            assert answer.error_code == Err.NONE, answer
            self.epochs[member] = answer.member_epoch
            return not answer.status

        await until(f"the topics {', '.join(names)}", are_known)
        asked = MetadataRequest([MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)
        return {one.name: len(one.partitions) for one in (await self.kafka.watch(asked, 12)).topics}

    async def log(self) -> None:
        """The group's batches, noted for the comparison between targets: each record in few words, those of one type sorted."""
        raw = await fetch_all(self.kafka.watch, OFFSETS, offsets_partition(self.kafka.group, PARTITIONS))
        found = []
        for position, header in batches(raw):
            rows = [] if header.is_control else [(row.key or b"", row.value) for row in records(raw, position, header)]
            lines = [(decode_key(key)[0], _line(key, value)) for key, value in rows if self._is_mine(key)]
            if lines:
                order = {kind: at for at, (kind, _) in reversed(list(enumerate(lines)))}
                found.append([line for _, line in sorted(lines, key=lambda one: (order[one[0]], one[1]))])
        self.kafka.recording.note("log", found)

    def _is_mine(self, key: bytes) -> bool:
        named = decode_key(key)[1]
        return getattr(named, "group_id", getattr(named, "group", None)) == self.kafka.group


async def until(what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    give_up = clock_s() + GIVE_UP_S
    while not await holds():
        assert clock_s() < give_up, f"waited {GIVE_UP_S:g} s for {what}"
        await asyncio.sleep(POLL_S)


def plain(*topics: str, epoch: int = 0) -> Topology:
    """One subtopology without state."""
    return Topology(epoch, [Subtopology("0", list(topics))])


def counting(source: str, repartition: str, changelog: str) -> Topology:
    """A repartition topic between two subtopologies, the second of which keeps state."""
    return Topology(
        0,
        [
            Subtopology("0", [source], repartition_sink_topics=[repartition]),
            Subtopology(
                "1", repartition_source_topics=[TopicInfo(repartition)], state_changelog_topics=[TopicInfo(changelog)]
            ),
        ],
    )


def _line(key: bytes, value: bytes | None) -> str:
    """``22A 4<4 UNREVOKED 0:0@4 -0:1@4``."""
    kind, named = decode_key(key)
    said, who = decode_value(kind, value), f"{kind}{getattr(named, 'member_id', '')}"
    if said is None:
        return f"{who} gone"
    if kind == 17:
        settings = ",".join(f"{one.key}={one.value}" for one in said.last_assignment_configs or ())
        hashed = "" if said.metadata_hash else " nothing"
        return f"{who} e{said.epoch} topology {said.validated_topology_epoch} {settings}{hashed}"
    if kind == 19:
        tags = ",".join(f"{one.key}={one.value}" for one in said.client_tags)
        return (
            f"{who} {said.instance_id} {said.rack_id} {said.rebalance_timeout_ms} t{said.topology_epoch} {said.process_id!r} "
            f"{said.user_endpoint} {tags}"
        )
    if kind == 20:
        return f"{who} e{said.assignment_epoch}{' timed' if said.assignment_timestamp else ''}"
    if kind == 21:
        return f"{who} {_tasks(said.active_tasks)} | {_tasks(said.standby_tasks)} | {_tasks(said.warmup_tasks)}"
    if kind == 22:
        going = _tasks(said.active_tasks_pending_revocation), _tasks(said.standby_tasks_pending_revocation)
        has = _tasks(said.active_tasks), _tasks(said.standby_tasks)
        return f"{who} {said.member_epoch}<{said.previous_member_epoch} {STATES[said.state]} {has} - {going}"
    if kind == 23:
        return f"{who} e{said.epoch} {[one.subtopology_id for one in said.subtopologies]}"
    return f"{kind} ..."


def _tasks(listed: list[Any]) -> str:
    rows = []
    for one in listed:
        since = getattr(one, "assignment_epochs", None)
        rows.append(f"{one.subtopology_id}:{','.join(map(str, one.partitions))}{f'@{since}' if since else ''}")
    return " ".join(rows)

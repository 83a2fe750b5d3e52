"""The hands of the conformance tests: a Kafka to ask (`Kafka`), members that join it (`Member`), and short forms.

Rules: what a test sends by `ask`, a `Member` or a wire of `Kafka.wire` is recorded and compared between targets; what
only watches (`until`, `state`) is not. Nothing sleeps to wait for a state: it polls with a deadline. `stays_parked` and
the silent members of timer tests are the exception: there the passing of time is the behaviour. Time is `clock_s()`, the loop's: the
simulator's tests have one that no stall of the machine can reach (tests/support/unhurried.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from kafka_wire.codec import encode
from kafka_wire.errors import Err
from kafka_wire.messages.consumer_protocol import ConsumerProtocolSubscription
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafka_wire.messages.k15_describe_groups import DescribedGroup, DescribeGroupsRequest
from kafka_wire.messages.k16_list_groups import ListedGroup, ListGroupsRequest
from kafka_wire.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from tests.conformance.recording import Recording
from tests.support.wire import DEADLINE_S, Wire, within

POLL_S = 0.02
PARKED_MS = 120
SHORT_MS = 3000
"""The session, or rebalance timeout, of one who is to miss it, where it has something to do before: a machine may stall for a second or
two. Everybody else's is long."""
GIVE_UP_S = 60.0
"""Seconds to wait for an event that must happen, on any machine."""
Partition = tuple[str, int]


class RecordedWire(Wire):
    """A Wire that notes every exchange in the test's recording, under the client id of the connection."""

    recording: Recording | None = None

    def start(self, request: Any, version: int) -> asyncio.Future[Any]:
        answer = super().start(request, version)
        if self.recording is not None:
            self.recording.add(self.client_id or "null", request, version, answer)
        return answer


class Kafka:
    """One target as one test sees it. `old`: the Scala coordinator (3.x), else the Java one (4.x).

    `group` is a group id that no other test uses; `name(suffix)` gives further unique ones (group, topic, instance).
    `brokers` maps node id -> "host:port". Topics t0 and t1 (3 partitions each) exist; nobody writes to them.
    """

    def __init__(self, generation: str, kind: str, brokers: Mapping[int, str], group: str) -> None:
        self.generation = generation
        self.kind = kind
        self.old = generation.startswith("3.")
        self.brokers = dict(brokers)
        self.group = group
        ports = {int(address.rpartition(":")[2]): node_id for node_id, address in brokers.items()}
        self.recording = Recording(self.old, group, ports)
        self.cluster: Any = None  # the RealKafka or the simulator's Cluster behind it
        self._wires: list[Wire] = []
        self._shared: dict[tuple[int, bool], Wire] = {}

    def name(self, suffix: str) -> str:
        """A name of this test alone."""
        return f"{self.group}-{suffix}"

    def owns(self, name: str) -> bool:
        """Whether `group` or one made by `name`."""
        return self.recording.owns(name)

    def pick(self, *, old: Any, new: Any) -> Any:
        """Return the value that is expected of this generation."""
        return old if self.old else new

    def ignore(self, field: str, *, because: str) -> None:
        """Leaves a response field out of the comparison between targets, in this test."""
        self.recording.ignored[field] = because

    async def wire(self, client_id: str | None = "wire", *, broker: int = 1, record: bool = True) -> RecordedWire:
        """A new connection, closed when the test ends."""
        wire = await RecordedWire.connect(self.brokers[broker], client_id=client_id)
        assert isinstance(wire, RecordedWire)
        wire.recording = self.recording if record else None
        self._wires.append(wire)
        return wire

    async def ask(self, request: Any, version: int, *, broker: int = 1) -> Any:
        """Sends on a connection shared by all `ask`s of the test."""
        return await (await self._shared_wire(broker, record=True)).send(request, version)

    async def watch(self, request: Any, version: int, *, broker: int = 1) -> Any:
        """As `ask`, unrecorded."""
        return await (await self._shared_wire(broker, record=False)).send(request, version)

    async def _shared_wire(self, broker: int, *, record: bool) -> Wire:
        key = (broker, record)
        if key not in self._shared:
            self._shared[key] = await self.wire("admin" if record else "watcher", broker=broker, record=record)
        return self._shared[key]

    async def close(self) -> None:
        await asyncio.gather(*(wire.close() for wire in self._wires))

    # ---- groups

    async def describe(self, group: str | None = None, *, version: int = 5) -> DescribedGroup:
        """The group as DescribeGroups shows it (recorded)."""
        response = await self.ask(DescribeGroupsRequest([group if group is not None else self.group]), version)
        described: DescribedGroup = response.groups[0]
        return described

    async def state(self, group: str | None = None) -> DescribedGroup:
        """The group as DescribeGroups shows it (not recorded)."""
        described: DescribedGroup = (
            await self.watch(DescribeGroupsRequest([group if group is not None else self.group]), 5)
        ).groups[0]
        return described

    async def until(
        self,
        state: str | None = None,
        *,
        members: int | None = None,
        group: str | None = None,
        deadline_s: float = GIVE_UP_S,
    ) -> DescribedGroup:
        """Polls until the group has this state and number of members."""
        give_up = clock_s() + deadline_s
        while True:
            seen = await self.state(group)
            if state in (None, seen.group_state) and members in (None, len(seen.members)):
                return seen
            if clock_s() > give_up:
                wanted = f"state {state or 'any'} with {'any' if members is None else members} members"
                raise TimeoutError(
                    f"waited {deadline_s} s for {wanted}; it is {seen.group_state} with {len(seen.members)}"
                )
            await asyncio.sleep(POLL_S)

    async def until_forgotten(self, deadline_s: float = GIVE_UP_S) -> None:
        """Polls until the group is not listed any more: one that is being removed is Dead, and still there, for a moment."""
        give_up = clock_s() + deadline_s
        while self.group in {one.group_id for one in (await self.watch(ListGroupsRequest(), 4)).groups}:
            if clock_s() > give_up:
                raise TimeoutError(f"waited {deadline_s} s for {self.group} to be listed no more")
            await asyncio.sleep(POLL_S)

    async def member(self, name: str = "m1", **options: Any) -> Member:
        """A member that has not joined yet, on a connection of its own; `options` as Member's."""
        broker = options.pop("broker", 1)
        return Member(self, await self.wire(name, broker=broker), name, **options)

    async def stable(self, count: int = 1, **options: Any) -> list[Member]:
        """A Stable group of m1 (the leader) ... m<count>, generation 1 for one member, else 2."""
        members = await self.joined(count, **options)
        await sync_all(members)
        return members

    async def joined(self, count: int = 1, **options: Any) -> list[Member]:
        """As `stable`, before anyone has sent SyncGroup: CompletingRebalance. `short`: whose session is SHORT_MS."""
        options.setdefault("group", self.group)
        instances = options.pop("instances", None) or [None] * count
        short = options.pop("short", None)
        members = [
            await self.member(f"m{number}", **options, instance=instances[number - 1]) for number in range(1, count + 1)
        ]
        if short is not None:
            members[short - 1].session_ms = SHORT_MS
        await members[0].join()
        if count > 1:
            parked = []
            for number, member in enumerate(members[1:], 2):
                parked.append(await member.enter())
                await self.until("PreparingRebalance", members=number, group=options["group"])
            await members[0].join()
            for task in parked:
                await task
        return members

    async def forget(self, group: str) -> None:
        """Deletes a group that tests share: the one with the empty id (not recorded)."""
        await self.watch(DeleteGroupsRequest([group]), 2)

    # ---- offsets

    async def commit(
        self, offsets: Mapping[Partition, Any], *, version: int = 8, group: str | None = None, **fields: Any
    ) -> dict[Partition, Err]:
        """Commits {(topic, partition): offset or (offset, metadata)}; the error of each partition."""
        request = commit_request(group if group is not None else self.group, offsets, **fields)
        return commit_errors(await self.ask(request, version))

    async def committed(
        self,
        partitions: Iterable[Partition] | None,
        *,
        version: int = 8,
        group: str | None = None,
        require_stable: bool = False,
        record: bool = True,
    ) -> dict[Partition, int]:
        """{(topic, partition): committed offset}, None asks for all; the errors must be NONE."""
        group = group if group is not None else self.group
        request = fetch_request(group, partitions, version, require_stable=require_stable)
        response = await (self.ask if record else self.watch)(request, version)
        answer = response.groups[0] if version >= 8 else response
        assert answer.error_code == Err.NONE
        out = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                assert partition.error_code == Err.NONE
                out[topic.name, partition.partition_index] = partition.committed_offset
        return out

    async def topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        """Creates a topic and waits until its leader, the only broker, answers for it (not recorded)."""
        await create_topic(self.watch, name, partitions, configs)
        await topic_known(self.watch, name, partitions)
        return name


async def create_topic(
    watch: Callable[[Any, int], Awaitable[Any]], name: str, partitions: int, configs: Mapping[str, str] | None = None
) -> None:
    """CreateTopics. It may take a while until a broker knows the new topic: `topic_known`."""
    settings = [CreatableTopicConfig(*one) for one in (configs or {}).items()]
    topic = CreatableTopic(name, partitions, 1, [], settings)
    response = await watch(CreateTopicsRequest([topic], timeout_ms=10000), 5)
    assert response.topics[0].error_code in (Err.NONE, Err.TOPIC_ALREADY_EXISTS), response


async def topic_known(
    watch: Callable[[Any, int], Awaitable[Any]], name: str, partitions: int, *, alone: bool = True
) -> None:
    """Polls ListOffsets until this broker leads every partition, or (not `alone`) knows that another does."""
    enough = {Err.NONE} if alone else {Err.NONE, Err.NOT_LEADER_OR_FOLLOWER}
    wanted = [ListOffsetsPartition(index, timestamp=-1) for index in range(partitions)]
    give_up = clock_s() + GIVE_UP_S
    while True:
        response = await watch(ListOffsetsRequest(-1, topics=[ListOffsetsTopic(name, wanted)]), 5)
        errors = {partition.error_code for partition in response.topics[0].partitions}
        if errors <= enough:
            return
        if clock_s() > give_up:
            raise TimeoutError(f"waited {GIVE_UP_S:g} s for the broker to know {name}: {response}")
        await asyncio.sleep(POLL_S)


async def offsets_topic_ready(watch: Callable[[Any, int], Awaitable[Any]]) -> None:
    """Polls FindCoordinator until the group coordinator is there (the first call creates __consumer_offsets)."""
    give_up = clock_s() + GIVE_UP_S
    while True:
        response = await watch(FindCoordinatorRequest("any"), 0)
        if response.error_code == Err.NONE:
            return
        if clock_s() > give_up:
            raise TimeoutError(f"waited {GIVE_UP_S:g} s for the group coordinator: {response}")
        await asyncio.sleep(POLL_S)


class Member:
    """One client of a group: its connection, what it says, and what it was told (id, generation, leader).

    Every request takes the member's present view; keyword arguments replace single fields of the request.
    """

    def __init__(
        self,
        kafka: Kafka,
        wire: RecordedWire,
        name: str,
        *,
        group: str | None = None,
        instance: str | None = None,
        session_ms: int = 20_000,
        rebalance_ms: int = 20_000,
        protocol_type: str = "consumer",
        protocols: Sequence[tuple[str, bytes]] | None = None,
        join_version: int = 9,
    ) -> None:
        self.kafka = kafka
        self.wire = wire
        self.name = name
        self.group = group if group is not None else kafka.group
        self.instance = instance
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.protocol_type = protocol_type
        self.protocols = list(protocols) if protocols is not None else [("range", subscription("t0"))]
        self.join_version = join_version
        self.id = ""
        self.generation = -1
        self.leader = ""
        self.assignment = b""

    # ---- JoinGroup

    def join_request(self, **fields: Any) -> JoinGroupRequest:
        given: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocols": [JoinGroupRequestProtocol(name, metadata) for name, metadata in self.protocols],
        }
        return JoinGroupRequest(**{**given, **fields})

    def start_join(self, *, version: int | None = None, **fields: Any) -> asyncio.Task[JoinGroupResponse]:
        """JoinGroup with the present id; the member takes over id and generation when it is answered NONE."""
        answer = self.wire.start(self.join_request(**fields), self.join_version if version is None else version)
        return background(self._take_join(answer))

    async def _take_join(self, answer: asyncio.Future[Any]) -> JoinGroupResponse:
        response: JoinGroupResponse = await answer
        if response.error_code == Err.NONE:
            self.id, self.generation, self.leader = response.member_id, response.generation_id, response.leader
        return response

    async def try_join(self, *, version: int | None = None, **fields: Any) -> JoinGroupResponse:
        """One JoinGroup, whatever its answer."""
        response: JoinGroupResponse = await within(
            self.start_join(version=version, **fields), DEADLINE_S, f"the JoinGroup response of {self.name}"
        )
        return response

    async def ask_id(self) -> str:
        """The first JoinGroup of a dynamic member: MEMBER_ID_REQUIRED and the id to join with (KIP-394)."""
        response = await self.try_join(member_id="")
        assert response.error_code == Err.MEMBER_ID_REQUIRED, Err(response.error_code)
        self.id = response.member_id
        return self.id

    async def enter(self, **fields: Any) -> asyncio.Task[JoinGroupResponse]:
        """JoinGroup of a newcomer or of one who is in; its own id is fetched first where the protocol wants that."""
        if not self.id and self.instance is None and self.join_version >= 4:
            await self.ask_id()
        return self.start_join(**fields)

    async def join(self, **fields: Any) -> JoinGroupResponse:
        """`enter` and its answer, which must be NONE."""
        task = await self.enter(**fields)
        response: JoinGroupResponse = await within(task, DEADLINE_S, f"the JoinGroup response of {self.name}")
        assert response.error_code == Err.NONE, Err(response.error_code)
        return response

    @property
    def is_leader(self) -> bool:
        return self.id == self.leader

    # ---- the other requests

    def start_sync(
        self, assignments: Mapping[str, bytes] | None = None, *, version: int = 5, **fields: Any
    ) -> asyncio.Task[SyncGroupResponse]:
        given: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocols[0][0],
            "assignments": [SyncGroupRequestAssignment(*item) for item in (assignments or {}).items()],
        }
        answer = self.wire.start(SyncGroupRequest(**{**given, **fields}), version)
        return background(self._take_sync(answer))

    async def _take_sync(self, answer: asyncio.Future[Any]) -> SyncGroupResponse:
        response: SyncGroupResponse = await answer
        if response.error_code == Err.NONE:
            self.assignment = response.assignment
        return response

    async def sync(
        self, assignments: Mapping[str, bytes] | None = None, *, version: int = 5, **fields: Any
    ) -> SyncGroupResponse:
        response: SyncGroupResponse = await within(
            self.start_sync(assignments, version=version, **fields),
            DEADLINE_S,
            f"the SyncGroup response of {self.name}",
        )
        return response

    async def heartbeat(self, *, version: int = 4, wire: Wire | None = None, **fields: Any) -> Err:
        given: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }
        response = await (wire or self.wire).send(HeartbeatRequest(**{**given, **fields}), version)
        return Err(response.error_code)

    async def leave(self, *, version: int = 5, wire: Wire | None = None) -> LeaveGroupResponse:
        """Leaves with the present id and instance; the error of a v0-2 or of the whole request must be NONE."""
        identity = MemberIdentity(self.id, self.instance)
        request = LeaveGroupRequest(self.group, self.id if version < 3 else "", [identity] if version >= 3 else [])
        response: LeaveGroupResponse = await (wire or self.wire).send(request, version)
        assert response.error_code == Err.NONE, Err(response.error_code)
        return response

    async def commit(
        self, offsets: Mapping[Partition, Any], *, version: int = 8, wire: Wire | None = None, **fields: Any
    ) -> dict[Partition, Err]:
        given: dict[str, Any] = {
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }
        request = commit_request(self.group, offsets, **{**given, **fields})
        return commit_errors(await (wire or self.wire).send(request, version))

    async def second_wire(self) -> RecordedWire:
        """Return a second connection of the same client: its first one is muted while a request is parked on it."""
        return await self.kafka.wire(self.name)


async def sync_all(members: Sequence[Member]) -> None:
    """The leader (the first) hands everyone b"to-<name>"; then the others ask for theirs."""
    assignments = {member.id: f"to-{member.name}".encode() for member in members}
    for member in members:
        response = await member.sync(assignments if member is members[0] else None)
        assert response.error_code == Err.NONE, Err(response.error_code)


async def rejoin_all(members: Sequence[Member]) -> list[JoinGroupResponse]:
    """Everyone sends JoinGroup, the first (whose rejoin starts a rebalance) first; all answers, which must be NONE."""
    tasks = [await members[0].enter()]
    if len(members) > 1:
        await members[0].kafka.until("PreparingRebalance", group=members[0].group)
    tasks += [await member.enter() for member in members[1:]]
    answers = [await within(task, DEADLINE_S, "a JoinGroup response") for task in tasks]
    assert [Err(answer.error_code) for answer in answers] == [Err.NONE] * len(answers)
    return answers


_BACKGROUND: set[asyncio.Task[Any]] = set()


def background(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A task that is kept alive; what it raises is raised where it is awaited, and nowhere else."""
    task = asyncio.create_task(coroutine)
    _BACKGROUND.add(task)
    task.add_done_callback(_forget)
    return task


def _forget(task: asyncio.Task[Any]) -> None:
    _BACKGROUND.discard(task)
    if not task.cancelled():
        task.exception()


async def stays_parked(*tasks: asyncio.Future[Any], ms: int = PARKED_MS) -> None:
    """Asserts that none of the requests is answered for `ms`."""
    done, _ = await asyncio.wait(tasks, timeout=ms / 1000)
    assert not done, f"answered although it should be parked: {[task.result() for task in done]}"


async def timed(awaitable: Awaitable[Any], since: float | None = None) -> tuple[Any, float]:
    """The result and how many ms after `since` (`clock_s()`, default now) it was there."""
    start = clock_s() if since is None else since
    result = await within(awaitable, DEADLINE_S, "a parked request's answer")
    return result, (clock_s() - start) * 1000


def clock_s() -> float:
    """The time of the test's loop, in seconds: the simulator's, too, where it is the target."""
    return asyncio.get_running_loop().time()


def subscription(*topics: str) -> bytes:
    """ConsumerProtocolSubscription v0 of these topics, as a consumer puts it into its JoinGroup metadata."""
    return b"\0\0" + encode(ConsumerProtocolSubscription(list(topics)), 0)


def commit_request(group: str, offsets: Mapping[Partition, Any], **fields: Any) -> OffsetCommitRequest:
    """OffsetCommitRequest of {(topic, partition): offset | (offset, metadata)}; topics in the order of appearance."""
    partition_fields = {
        name: fields.pop(name) for name in ("committed_leader_epoch", "commit_timestamp") if name in fields
    }
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, index), value in offsets.items():
        offset, metadata = value if isinstance(value, tuple) else (value, "")
        item = OffsetCommitRequestPartition(index, offset, committed_metadata=metadata, **partition_fields)
        topics.setdefault(topic, OffsetCommitRequestTopic(topic)).partitions.append(item)
    return OffsetCommitRequest(group, topics=list(topics.values()), **fields)


def commit_errors(response: Any) -> dict[Partition, Err]:
    return {
        (topic.name, partition.partition_index): Err(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    }


def fetch_request(
    group: str, partitions: Iterable[Partition] | None, version: int, *, require_stable: bool = False
) -> OffsetFetchRequest:
    """OffsetFetch of one group in the shape of `version` (v8+: groups)."""
    topics: dict[str, list[int]] | None = None
    if partitions is not None:
        topics = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
    if version >= 8:
        many = (
            None
            if topics is None
            else [OffsetFetchRequestTopics(name, partition_indexes=asked) for name, asked in topics.items()]
        )
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=many)], require_stable=require_stable)
    few = None if topics is None else [OffsetFetchRequestTopic(*item) for item in topics.items()]
    return OffsetFetchRequest(group, few, require_stable=require_stable)


async def listed(kafka: Kafka, *, version: int = 4, **filters: Any) -> dict[str, ListedGroup]:
    """ListGroups: this test's groups by id."""
    response = await kafka.ask(ListGroupsRequest(**filters), version)
    assert response.error_code == Err.NONE
    return {group.group_id: group for group in response.groups if kafka.owns(group.group_id)}

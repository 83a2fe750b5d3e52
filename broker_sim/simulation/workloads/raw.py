"""Clients that speak the wire protocol themselves, and members of a group that behave. `hostile` has one that does not.

Every answer goes through `Answers`; every committed offset is a different number, which identifies the commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from broker_sim.simulation.checks.answers import Answers
from broker_sim.simulation.checks.sent import SentRequest
from broker_sim.simulation.workloads.deeds import Deed, Deeds
from kafka_wire.api_keys import advertised
from kafka_wire.codec import decode_from, encode
from kafka_wire.errors import Err
from kafka_wire.frame import encode_request_header, frame, response_is_tagged
from kafka_wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
)

if TYPE_CHECKING:
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.protocols import RunControl

__all__ = [
    "GROUP",
    "Member",
    "RawClient",
    "RawConnection",
    "RawContext",
    "UncheckedAnswers",
    "commit_request",
    "fetch_request",
    "join_request",
    "sync_request",
]

GROUP = "billing"
"""Group id with a negative hash."""
TOPIC, OTHER = "orders", "elsewhere"
SESSION_MS, REBALANCE_MS = 2000, 3000
PATIENCE_S = 3 + REBALANCE_MS / 1000
"""As a consumer's for its JoinGroup: who has sent another one in its name gets the answer."""
HEALING_S = PATIENCE_S + 2 * (REBALANCE_MS + SESSION_MS) / 1000
PORT = 9092
CONFIG = {
    "group.initial.rebalance.delay.ms": 300,
    "group.min.session.timeout.ms": 1000,
    "offsets.commit.timeout.ms": 1000,
    "offsets.topic.num.partitions": 7,
}
"""Kafka's proportions, in a tenth of the time."""

_HEAD = 4
_STATIC_SINCE = {JoinGroupRequest: 5, SyncGroupRequest: 3, HeartbeatRequest: 3, OffsetCommitRequest: 7}
VERSIONS = {
    JoinGroupRequest: (3, 9),
    SyncGroupRequest: (3, 5),
    HeartbeatRequest: (3, 4),
    LeaveGroupRequest: (3, 5),
    OffsetCommitRequest: (7, 9),
    OffsetFetchRequest: (5, 7),
    OffsetDeleteRequest: (0, 0),
    FindCoordinatorRequest: (3, 3),
}


class UncheckedAnswers(Answers):
    """Checks nothing: for clients among others whom it does not see."""

    def sent(self, api: str, body: object, version: int, broker: int) -> SentRequest:
        """A request as `Answers.sent` returns it, which is not kept for checks."""
        now_s = self._now_s()
        return SentRequest(api, version, body, broker, "", "", None, -1, 0, now_s, -1, False, now_s)

    def answered(self, ask: SentRequest, body: object) -> None:
        """Ignore the response: nothing is known of the state that it must follow from."""

    def lost(self, ask: SentRequest) -> None:
        """Ignore that the response is missing."""


class RawConnection(asyncio.Protocol):
    """One connection to a broker: any number of requests at once, matched to their answers by their correlation ids."""

    def __init__(self, answers: Answers, broker: int, client_id: str) -> None:
        self.answers, self.broker, self.client_id = answers, broker, client_id
        self._transport: asyncio.Transport
        self._buffer = b""
        self._number = 0
        self._waiting: dict[int, tuple[Any, int, asyncio.Future[Any], SentRequest]] = {}
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        for _, _, future, ask in self._waiting.values():
            self.answers.lost(ask)
            if not future.done():
                future.set_exception(ConnectionResetError("the broker has hung up"))
                future.exception()  # its waiter may have been cancelled
        self._waiting.clear()

    def start(self, request: Any, version: int) -> asyncio.Future[Any]:
        """Send now; the future gives the response. Raises ConnectionResetError."""
        if self.lost:
            raise ConnectionResetError("the connection is closed")
        key = type(request).__spec__.api_key
        self._number += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        api = type(request).__name__.removesuffix("Request")
        ask = self.answers.sent(api, request, version, self.broker)
        if self._waiting:
            ask.started_s = math.inf  # one at a time: those before it may wait for a group
        self._waiting[self._number] = request, version, future, ask
        head = encode_request_header(key, version, self._number, self.client_id)
        self._transport.write(frame(head + encode(request, version)))
        return future

    def start_unanswered(self, request: Any, version: int) -> None:
        """Send what gets no answer, as a Produce with acks=0. Raises ConnectionResetError."""
        if self.lost:
            raise ConnectionResetError("the connection is closed")
        self._number += 1
        head = encode_request_header(type(request).__spec__.api_key, version, self._number, self.client_id)
        self._transport.write(frame(head + encode(request, version)))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _HEAD:
            end = _HEAD + int.from_bytes(self._buffer[:_HEAD], "big")
            if len(self._buffer) < end:
                return
            payload, self._buffer = self._buffer[_HEAD:end], self._buffer[end:]
            self._take(payload)

    def _take(self, payload: bytes) -> None:
        request, version, future, ask = self._waiting.pop(int.from_bytes(payload[:4], "big"))
        module = sys.modules[type(request).__module__]
        kind = getattr(module, type(request).__name__.removesuffix("Request") + "Response")
        tagged = response_is_tagged(type(request).__spec__.api_key, version)
        response, _ = decode_from(kind, version, payload, 5 if tagged else 4)
        self.answers.answered(ask, response)
        for *_, behind in self._waiting.values():
            behind.started_s = ask.got_s  # its turn comes now
            break
        if not future.done():
            future.set_result(response)

    def close(self) -> None:
        """Abort the connection; its open requests count as lost."""
        self._transport.abort()

    def forget(self) -> None:
        """Record that the client's host has crashed: no request will be answered."""
        for _, _, _, ask in self._waiting.values():
            self.answers.lost(ask)


@dataclass(slots=True)
class RawContext:
    """Common state of all clients of a run. ``book``: members that have been seen: id, instance, generation."""

    sim: RunControl
    kafka: SimCluster
    answers: Answers
    partitions: int = 6
    book: list[tuple[str, str | None, int]] = field(default_factory=list)
    generation: int = 0
    last_value: int = 0
    working: dict[str, tuple[int, frozenset[int]]] = field(default_factory=dict)
    """Generation and partitions of each cooperative member, by its name."""
    producers: set[int] = field(default_factory=set)
    """Producer ids that have been given to anybody."""
    settled: bool = False
    """Nothing but the last reads is to come."""
    only: Iterable[Deed] | None = None
    """Deeds of clients that draw them: those that are done; None: all."""
    guest: bool = False
    """Others work with the group's offsets: who is hostile leaves those alone that may be taken."""

    deeds: Deeds = field(init=False)
    """Deeds of clients that draw them."""

    def __post_init__(self) -> None:
        self.deeds = Deeds(self.sim.seed, self.only)

    def value(self) -> int:
        """An offset that no client has committed so far."""
        self.last_value += 1
        return self.last_value

    def note(self, member: str, instance: str | None, generation: int) -> None:
        """Remember a member that the hostile client may impersonate."""
        self.generation = max(self.generation, generation)
        self.book.append((member, instance, generation))
        del self.book[:-12]

    @property
    def coordinator(self) -> int:
        """The broker that leads the group's partition, -1 for none."""
        partition = self.answers.partition(GROUP)
        return -1 if partition is None else partition.leader


class RawClient:
    """Client with connections: to each broker as many as are needed. ``SPANS``: versions of the requests that it sends."""

    SPANS: ClassVar[Mapping[Any, tuple[int, int]]] = VERSIONS

    def __init__(self, context: RawContext, name: str) -> None:
        self.context, self.name = context, name
        self.rng = random.Random(f"{context.sim.seed}/{name}")
        self._lines: dict[tuple[int, int], RawConnection] = {}
        spoken = advertised(context.kafka.state.as_version)
        self._spans = {
            kind: (low, min(high, spoken[kind.__spec__.api_key][1])) for kind, (low, high) in self.SPANS.items()
        }
        self._versions = {kind: self.rng.randint(*span) for kind, span in self._spans.items()}

    def begin(self) -> None:
        """Begin a new process, without the state of an earlier one."""
        self.forget()
        self._lines.clear()

    def version(self, request: object) -> int:
        """Most clients stay with one version of each API; static members need one that knows them."""
        least = 0 if getattr(request, "group_instance_id", None) is None else _STATIC_SINCE[type(request)]
        return max(least, self._choose(request))

    def _choose(self, request: object) -> int:
        return self._versions[type(request)]

    async def line(self, broker: int, number: int = 0) -> RawConnection:
        """The n-th connection to a broker. Raises OSError."""
        line = self._lines.get((broker, number))
        if line is None or line.lost:
            loop, answers = asyncio.get_running_loop(), self.context.answers
            host = self.context.kafka.hosts[broker - 1]
            connecting = loop.create_connection(lambda: RawConnection(answers, broker, self.name), host, PORT)
            _, made = await asyncio.wait_for(connecting, PATIENCE_S)
            line = self._lines[broker, number] = made
        return line

    async def ask(self, request: object, broker: int, number: int = 0) -> Any:
        """Send and wait for the response; hang up where none comes. Raises OSError."""
        line = await self.line(broker, number)
        try:
            return await asyncio.wait_for(line.start(request, self.version(request)), PATIENCE_S)
        except TimeoutError:
            line.close()
            raise

    def leave(self, broker: int, number: int = 0) -> None:
        """Take another connection next time; this one stays, with what is under way on it."""
        self._lines.pop((broker, number), None)

    async def find(self) -> int:
        """The group's coordinator, of whichever broker is asked. Raises OSError."""
        while True:
            answer = await self.ask(
                FindCoordinatorRequest(GROUP, 0), self.rng.randint(1, len(self.context.kafka.hosts))
            )
            if answer.error_code == 0:
                node_id: int = answer.node_id
                return node_id
            await asyncio.sleep(0.1)

    def forget(self) -> None:
        """See `RawConnection.forget`."""
        for line in self._lines.values():
            line.forget()

    def close(self) -> None:
        """Abort the connections to all brokers."""
        for line in self._lines.values():
            if not line.lost:
                line.close()


# --- requests -----------------------------------------------------------------------------------------------------------


def join_request(member: str, instance: str | None, flavour: int = 0) -> JoinGroupRequest:
    """``flavour``: other metadata, another subscription."""
    topics = ConsumerProtocolSubscription([TOPIC], bytes([flavour]) if flavour else None)
    metadata = b"\0\0" + encode(topics, 0)
    protocols = [JoinGroupRequestProtocol("range", metadata)]
    return JoinGroupRequest(GROUP, SESSION_MS, REBALANCE_MS, member, instance, "consumer", protocols)


def sync_request(
    member: str, instance: str | None, generation: int, members: list[str], parts: int
) -> SyncGroupRequest:
    """``members``: all of them where ``member`` leads; each gets its share of the partitions."""
    assignments = []
    for number, name in enumerate(members):
        mine = ConsumerProtocolAssignmentTopicPartition(TOPIC, list(range(number, parts, len(members))))
        given = b"\0\0" + encode(ConsumerProtocolAssignment([mine]), 0)
        assignments.append(SyncGroupRequestAssignment(name, given))
    return SyncGroupRequest(GROUP, generation, member, instance, "consumer", "range", assignments)


def commit_request(
    member: str, instance: str | None, generation: int, values: dict[int, int], topic: str = TOPIC
) -> OffsetCommitRequest:
    """An OffsetCommit of `GROUP` for ``topic``; ``values``: offset by partition."""
    parts = [OffsetCommitRequestPartition(index, value) for index, value in values.items()]
    return OffsetCommitRequest(
        GROUP, generation, member, instance, topics=[OffsetCommitRequestTopic(topic, partitions=parts)]
    )


def fetch_request(partitions: int) -> OffsetFetchRequest:
    """Create a request for all offsets that the clients here commit."""
    every = list(range(partitions))
    return OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic(TOPIC, every), OffsetFetchRequestTopic(OTHER, [0, 1])])


# --- who behaves --------------------------------------------------------------------------------------------------------

_REJOIN = {Err.REBALANCE_IN_PROGRESS, Err.ILLEGAL_GENERATION}
_LOST_ID = {Err.UNKNOWN_MEMBER_ID, Err.FENCED_INSTANCE_ID}
_MOVED = {Err.NOT_COORDINATOR, Err.COORDINATOR_NOT_AVAILABLE, Err.COORDINATOR_LOAD_IN_PROGRESS}


class Member(RawClient):
    """One request at a time, as a consumer does: joins, syncs, then Heartbeats and commits in turn, and reads what it has committed."""

    def __init__(self, context: RawContext, name: str, instance: str | None = None) -> None:
        super().__init__(context, name)
        self.instance = instance
        self.member, self.generation = "", -1
        self.silent = False
        self.beats = 0

    async def run(self) -> None:
        """Be a member of the group until the host is stopped."""
        self.begin()
        self.member, self.generation = "", -1
        while True:
            with contextlib.suppress(OSError):
                await self._serve(await self.find())
            await asyncio.sleep(0.05)

    async def _serve(self, broker: int) -> None:
        while True:
            mine = await self._join(broker)
            if mine is None:
                return
            error = await self._steady(broker, mine)
            if error in _MOVED:
                return
            if error in _LOST_ID:
                self._lost()
                await asyncio.sleep(0.2)

    def _join_request(self) -> JoinGroupRequest:
        return join_request(self.member, self.instance)

    def _sync_request(self, answer: Any) -> SyncGroupRequest:
        """``answer``: to its JoinGroup; it has members for who leads."""
        members = [member.member_id for member in answer.members]
        return sync_request(self.member, self.instance, self.generation, members, self.context.partitions)

    def _synced(self, answer: object) -> list[int] | None:
        """The partitions to commit; None where it is to join again at once."""
        return list(range(self.context.partitions))

    def _lost(self) -> None:
        self.member = ""

    async def _join(self, broker: int) -> list[int] | None:
        """The partitions of this generation; None where another coordinator is to be found."""
        while True:
            answer = await self.ask(self._join_request(), broker)
            error = Err(answer.error_code)
            if error in _MOVED:
                return None
            if error is Err.MEMBER_ID_REQUIRED:
                self.member = answer.member_id
            elif error in _LOST_ID:
                self._lost()
                await asyncio.sleep(0.2)
            elif error is Err.NONE:
                self.member, self.generation = answer.member_id, answer.generation_id
                self.context.note(self.member, self.instance, self.generation)
                answer = await self.ask(self._sync_request(answer), broker)
                error = Err(answer.error_code)
                mine = self._synced(answer) if error is Err.NONE else None
                if mine is not None:
                    return mine
                if error in _MOVED:
                    return None
                if error in _LOST_ID:
                    self._lost()
            else:
                await asyncio.sleep(0.2)

    async def _steady(self, broker: int, mine: list[int]) -> Err:
        """Until something is not well."""
        context = self.context
        while True:
            await asyncio.sleep(self.rng.uniform(0.15, 0.35))
            if self.silent:
                await asyncio.sleep(2.5 * SESSION_MS / 1000)
                self.silent = False
            answer = await self.ask(HeartbeatRequest(GROUP, self.generation, self.member, self.instance), broker)
            error = Err(answer.error_code)
            if error is Err.NONE:
                self.beats += 1
                if mine:
                    values = {index: context.value() for index in mine[:2]}
                    answer = await self.ask(commit_request(self.member, self.instance, self.generation, values), broker)
                    error = Err(answer.topics[0].partitions[0].error_code)
                if self.rng.random() < 0.3:
                    await self.ask(fetch_request(context.partitions), broker)
            if error is not Err.NONE:
                return error

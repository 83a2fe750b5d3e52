"""Real two-broker clusters with a follower that is frozen (SIGSTOP): all bodies of one version in one freeze.

Node 1 is the controller and leads every partition of __consumer_offsets; node 2 follows. Phase A is from the freeze to
the end of node 2's session with the controller (broker.session.timeout.ms), which takes it out of every ISR: phase B.
Before it there are rounds for few bodies, one after the other (ROUNDS), while the others wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from kafka_wire.errors import Err
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafka_wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.conformance.driver import commit_request
from tests.stuck.cells import Cell
from tests.stuck.target import (
    CONFIG,
    MAX_MESSAGE_BYTES,
    OFFSETS_TOPIC,
    POLL_MS,
    TOPIC,
    Answer,
    Asked,
    Exchange,
    Stuck,
    title,
    told,
)
from tests.support.real_kafka import RealKafka, election_frame, reassignment_frame
from tests.support.wire import Wire

RELEASES = {"3.4": "3.4.0", "4.1": "4.1.0"}
TIMEOUT_MS = 2000
SESSION_MS = 8000
HEARTBEAT_MS = 500
BEFORE_SHRINK_MS = 1600
EARLY_MS, LATE_MS = 150, 1300
SETTLE_S = 0.5
ROUNDS = ("choke", "blink", "handover")
SETTINGS: dict[str, object] = CONFIG | {
    "offsets.commit.timeout.ms": TIMEOUT_MS,
    "replica.lag.time.max.ms": 60_000,
    "broker.session.timeout.ms": SESSION_MS,
    "broker.heartbeat.interval.ms": HEARTBEAT_MS,
}


class Stage:
    """Barrier at which bodies wait before a step of the world: it is taken once, when each body has arrived or left."""

    def __init__(self, step: Callable[[], Awaitable[None]], bodies: int) -> None:
        self._step = step
        self._missing = set(range(bodies))
        self._here = 0
        self._everybody = asyncio.Event()
        self._taken: asyncio.Future[None] | None = None

    async def arrive(self, body: int) -> None:
        """Returns when the step is done; raises what it raised."""
        self._here += 1
        self.leave(body)
        await self._everybody.wait()
        if self._taken is None:
            self._taken = asyncio.ensure_future(self._step())
        await asyncio.shield(self._taken)

    def leave(self, body: int) -> None:
        """Do not wait for this body (any more)."""
        self._missing.discard(body)
        if not self._missing:
            self._everybody.set()


class Campaign:
    """A cluster of one version on which `cells` run side by side; `outcomes` then holds None or the error of each."""

    def __init__(self, version: str, cells: Sequence[Cell]) -> None:
        self._version = version
        self._cells = cells
        self.outcomes: dict[Cell, BaseException | None] = {}
        self.partitions = sum(cell.partitions for cell in cells)
        self.started = time.monotonic()
        self._choked = False
        self._frozen = 0.0
        self._kafka = RealKafka(RELEASES[version], 2, SETTINGS | {"offsets.topic.num.partitions": self.partitions})
        self._idle: dict[tuple[int, str], list[Wire]] = {}
        steps = {
            "prepared": self._nothing,
            "choke": self._choke,
            "choke ends": self._unchoke,
            "blink": self._pause,
            "blink ends": self._resume,
            "handover": self._pause,
            "handover ends": self._resume,
            "freeze": self._freeze,
            "heal": self._heal,
            "move": self._move,
        }
        self.stages = {name: Stage(step, len(cells)) for name, step in steps.items()}
        self.shrunk: asyncio.Future[None] = asyncio.Future()

    async def run(self) -> None:
        """Everything, from the cluster's start to its end."""
        await asyncio.to_thread(self._kafka.__enter__)
        try:
            await self._prepare()
            first, bodies = 0, []
            for number, cell in enumerate(self._cells):
                partitions = tuple(range(first, first + cell.partitions))
                bodies.append(self._run(cell, RealStuck(self, number, cell, partitions)))
                first += cell.partitions
            await asyncio.gather(*bodies)
        finally:
            self.shrunk.cancel()
            await asyncio.gather(*(wire.close() for wires in self._idle.values() for wire in wires))
            await asyncio.to_thread(self._kafka.close, graceful=False)

    async def _run(self, cell: Cell, target: RealStuck) -> None:
        self.outcomes[cell] = None
        try:
            await cell.body(target)
        except Exception as error:
            error.add_note("\n".join(map(str, target.record)))
            self.outcomes[cell] = error
        finally:
            await target.close()
            for stage in self.stages.values():
                stage.leave(target.number)

    # ---- connections

    async def wire(self, broker: int, client_id: str) -> Wire:
        """A connection on which nothing is unanswered; hand it back with `give_back`."""
        idle = self._idle.setdefault((broker, client_id), [])
        if idle:
            return idle.pop()
        return await Wire.connect(f"127.0.0.1:{self._kafka.nodes[broker].port}", client_id=client_id)

    def give_back(self, broker: int, client_id: str, wire: Wire) -> None:
        self._idle[broker, client_id].append(wire)

    async def _send(self, request: Any, version: int, *, broker: int = 1) -> Any:
        wire = await self.wire(broker, "campaign")
        response = await wire.send(request, version)
        self.give_back(broker, "campaign", wire)
        return response

    # ---- the world

    async def _prepare(self) -> None:
        offsets = CreatableTopic(
            OFFSETS_TOPIC,
            -1,
            -1,
            [CreatableReplicaAssignment(index, [1, 2]) for index in range(self.partitions)],
            [
                CreatableTopicConfig("cleanup.policy", "compact"),
                CreatableTopicConfig("min.insync.replicas", "2"),
                CreatableTopicConfig("max.message.bytes", str(MAX_MESSAGE_BYTES)),
            ],
        )
        data = CreatableTopic(TOPIC, -1, -1, [CreatableReplicaAssignment(index, [1]) for index in range(3)])
        response = await self._send(CreateTopicsRequest([offsets, data], timeout_ms=20_000), 5)
        assert [topic.error_code for topic in response.topics] == [0, 0], response
        await _until("both brokers to know the topics", self._everything_known, 30)
        await _until("every group to have its coordinator", lambda: self._coordinated(1), 30)

    async def _everything_known(self) -> bool:
        topics = [MetadataRequestTopic(name=name) for name in (OFFSETS_TOPIC, TOPIC)]
        for broker in (1, 2):
            response = await self._send(MetadataRequest(topics), 8, broker=broker)
            led = {topic.name: [p for p in topic.partitions if p.leader_id == 1] for topic in response.topics}
            if [len(led[OFFSETS_TOPIC]), len(led[TOPIC])] != [self.partitions, 3]:
                return False
        return await self._in_sync([1, 2])

    async def _coordinated(self, broker: int) -> bool:
        """Whether `broker` answers for groups of every partition (more names than are needed)."""
        groups = [f"probe.{number}" for number in range(8 * self.partitions)]
        response = await self._send(DescribeGroupsRequest(groups), 5, broker=broker)
        return all(group.error_code == Err.NONE for group in response.groups)

    async def _in_sync(self, nodes: list[int]) -> bool:
        response = await self._send(MetadataRequest([MetadataRequestTopic(name=OFFSETS_TOPIC)]), 8)
        return all(sorted(partition.isr_nodes) == nodes for partition in response.topics[0].partitions)

    async def _nothing(self) -> None:
        """Everybody is prepared: that is all."""

    async def _choke(self) -> None:
        self._choked = True
        await self._limit(1)

    async def _unchoke(self) -> None:
        if self._choked:
            await self._limit(MAX_MESSAGE_BYTES)

    async def _limit(self, max_message_bytes: int) -> None:
        """Sets max.message.bytes; returns when the broker goes by it."""
        config = AlterableConfig("max.message.bytes", 0, str(max_message_bytes))
        resource = AlterConfigsResource(2, OFFSETS_TOPIC, [config])
        response = await self._send(IncrementalAlterConfigsRequest([resource]), 1)
        assert response.responses[0].error_code == Err.NONE, response
        wanted = max_message_bytes >= MAX_MESSAGE_BYTES

        async def seen() -> bool:
            answer = await self._send(commit_request("limit", {(TOPIC, 0): 1}), 8)
            return bool(answer.topics[0].partitions[0].error_code == Err.NONE) == wanted

        await _until(f"max.message.bytes={max_message_bytes} to count", seen, 20)
        await asyncio.sleep(SETTLE_S)  # one log after the other gets it

    async def _pause(self) -> None:
        self._kafka.nodes[2].pause()

    async def _resume(self) -> None:
        """Until the controller has heard of it: its session runs from its last heartbeat, so that the pauses of the rounds would add
        up with the freeze that comes next, and the ISR shrink in the midst of phase A. Nothing but the broker's pace tells of one."""
        self._kafka.nodes[2].resume()
        await asyncio.sleep(3 * HEARTBEAT_MS / 1000)

    async def _freeze(self) -> None:
        self._kafka.nodes[2].pause()
        self._frozen = time.monotonic()
        self.shrunk = asyncio.ensure_future(
            _until("node 2 to fall out of every ISR", lambda: self._in_sync([1]), SESSION_MS / 1000 + 20)
        )

    async def wait_shrunk(self) -> None:
        """Returns when the ISR of every partition is node 1."""
        await asyncio.shield(self.shrunk)
        await asyncio.sleep(SETTLE_S)  # the broker's metadata know it a little before its partitions do

    async def shrink_is_near(self) -> None:
        """Returns a little before the frozen node's session with the controller ends."""
        due = self._frozen + (SESSION_MS - BEFORE_SHRINK_MS) / 1000
        await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _heal(self) -> None:
        self.shrunk.cancel()
        self._kafka.nodes[2].resume()
        await _until("node 2 to be in every ISR", lambda: self._in_sync([1, 2]), 40)
        await asyncio.sleep(SETTLE_S)  # until the leader has heard how far the follower is

    async def hand_over(self, partitions: Sequence[int]) -> None:
        """Node 2 is elected leader, as the preferred one, whether it runs or not."""
        replicas = {index: [2, 1] for index in partitions}
        await self._tell_controller(reassignment_frame(OFFSETS_TOPIC, replicas))
        await self._tell_controller(election_frame(OFFSETS_TOPIC, partitions))

    async def _move(self) -> None:
        await self._tell_controller(reassignment_frame(OFFSETS_TOPIC, {index: [2] for index in range(self.partitions)}))
        await _until("node 2 to coordinate every group", lambda: self._coordinated(2), 30)

    async def _tell_controller(self, request: bytes) -> None:
        wire = await self.wire(1, "campaign")
        wire.write_raw(request)
        await wire.next_frame()
        await wire.close()


async def _until(what: str, seen: Callable[[], Awaitable[bool]], deadline_s: float) -> None:
    give_up = time.monotonic() + deadline_s
    while not await seen():
        if time.monotonic() > give_up:
            raise TimeoutError(f"waited {deadline_s:g} s for {what}")
        await asyncio.sleep(POLL_MS / 1000)


class RealAsked(Asked):
    """A request whose answer a task reads."""

    def __init__(self, task: asyncio.Task[Answer]) -> None:
        self._task = task

    @property
    def answered(self) -> bool:
        return self._task.done()

    async def answer(self) -> Answer:
        return await self._task


class RealStuck(Stuck):
    """The campaign's cluster as one body sees it."""

    def __init__(self, campaign: Campaign, number: int, cell: Cell, partitions: tuple[int, ...]) -> None:
        super().__init__(cell.version.startswith("3"), cell.phase, partitions, campaign.partitions, TIMEOUT_MS)
        self.number = number
        self._campaign = campaign
        self._round: str | None = None
        self._tasks: list[asyncio.Task[Answer]] = []

    async def close(self) -> None:
        """Drops what is still unanswered, connection and all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ms(self) -> float:
        return (time.monotonic() - self._campaign.started) * 1000

    def start(self, request: Any, version: int, *, broker: int = 1, client_id: str = "c") -> Asked:
        task = asyncio.create_task(self._ask(request, version, broker, client_id))
        self._tasks.append(task)
        return RealAsked(task)

    async def _ask(self, request: Any, version: int, broker: int, client_id: str) -> Answer:
        wire = await self._campaign.wire(broker, client_id)
        start_ms = self._ms()
        exchange = Exchange(title(request), start_ms)
        self.record.append(exchange)
        try:
            response = await wire.send(request, version)
        except BaseException:
            wire.abort()
            await wire.close()
            raise
        end_ms = self._ms()
        self._campaign.give_back(broker, client_id, wire)
        exchange.answer, exchange.took_ms = told(response), end_ms - start_ms
        return Answer(response, end_ms - start_ms, end_ms)

    async def sleep(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    async def _enter(self, wanted: str | None) -> None:
        """Lets the rounds before the `wanted` one (None: all) pass, and begins that one."""
        stages = self._campaign.stages
        self._round = wanted
        await stages["prepared"].arrive(self.number)
        for name in ROUNDS:
            if name == wanted:
                await stages[name].arrive(self.number)
                return
            stages[name].leave(self.number)
            await stages[f"{name} ends"].arrive(self.number)

    async def freeze(self, *, briefly: bool = False, shrinks: bool = False) -> None:
        await self._enter("blink" if briefly else None)
        if not briefly:
            await self._campaign.stages["freeze"].arrive(self.number)
            if self.phase == "B":
                await self._campaign.wait_shrunk()

    async def choke(self) -> None:
        await self._enter("choke")

    async def freeze_and_hand_over(self, waiting: Callable[[], Awaitable[None]]) -> None:
        await self._enter("handover")
        await waiting()
        await self._campaign.hand_over(self.partitions)

    async def shrinking(self, every_ms: int) -> AsyncIterator[None]:
        await self._campaign.shrink_is_near()
        while not self._campaign.shrunk.done():
            yield
            await asyncio.wait([self._campaign.shrunk], timeout=every_ms / 1000)
        await self._campaign.wait_shrunk()

    async def heal(self) -> None:
        await self._campaign.stages[f"{self._round} ends" if self._round else "heal"].arrive(self.number)

    async def move(self) -> None:
        if self._round:
            for name, stage in self._campaign.stages.items():
                if name != "move":
                    stage.leave(self.number)
        await self._campaign.stages["move"].arrive(self.number)

    def after(self, ms: int, answer: Answer) -> Answer:
        took = answer.took_ms
        assert ms - EARLY_MS < took < ms + LATE_MS, f"it took {took:.0f} ms: {answer.response}"
        return answer

    def together(self, *answers: Answer) -> None:
        times = [answer.at_ms for answer in answers]
        assert max(times) - min(times) < LATE_MS / 2, answers

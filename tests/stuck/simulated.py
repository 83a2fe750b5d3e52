"""The simulator without sockets as a target of tests/stuck: states of partitions, and a clock that moves when a body
waits for an answer."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from broker_sim.common.chance import Chance
from broker_sim.faults.conditions import PartitionFault, PartitionFaults
from broker_sim.metadata import leader_election
from broker_sim.metadata.cluster_state import OFFSETS_TOPIC, Partition
from broker_sim.runtime.asking import DEFERRED
from broker_sim.runtime.group_coordinator import GroupCoordinator
from tests.stuck.target import CONFIG, MAX_MESSAGE_BYTES, TOPIC, Answer, Asked, Exchange, Stuck, title, told
from tests.support.ctx import FakeContext, Sim

PARTITIONS = 4
NEVER_MS = 30_000
SHRINKS_AFTER_MS = 900


class SimAsked(Asked):
    """A request that a handler has; waiting for its answer lets the timers fire one by one."""

    def __init__(self, target: SimStuck, request: Any, version: int, broker: int, client_id: str) -> None:
        self._target, self._what = target, title(request)
        self._exchange = Exchange(self._what, target.now_ms)
        target.record.append(self._exchange)
        self._answer: Answer | None = None
        self._ctx = target.hand_over(request, version, broker, client_id, self._replied)

    def _replied(self, response: Any) -> None:
        exchange, now_ms = self._exchange, self._target.now_ms
        exchange.answer, exchange.took_ms = told(response), now_ms - exchange.at_ms
        self._answer = Answer(response, exchange.took_ms, now_ms)

    @property
    def answered(self) -> bool:
        return self._answer is not None

    async def answer(self) -> Answer:
        give_up_ms = self._target.now_ms + NEVER_MS
        clock = self._target.sim.clock
        while self._answer is None:
            deadline_ms = clock.next_deadline_ms()
            if deadline_ms is None or deadline_ms > give_up_ms:
                raise TimeoutError(f"{self._what} is not answered, whatever time passes")
            clock.advance(deadline_ms - clock.now_ms())
        return self._answer


class _Context(FakeContext):
    """Tells at once when it is answered."""

    def reply(self, response: Any) -> None:
        super().reply(response)
        self.told(response)

    told: Any


class SimStuck(Stuck):
    """A world for one body: two brokers, broker 1 leads."""

    def __init__(self, version: str, phase: str) -> None:
        self.sim = Sim(brokers=2, config=CONFIG | {"offsets.topic.num.partitions": PARTITIONS}, as_version=version)
        state = self.sim.state
        state.create_topic(TOPIC, 3)
        configs = {"min.insync.replicas": "2", "max.message.bytes": str(MAX_MESSAGE_BYTES)}
        assignments = {index: [1, 2] for index in range(PARTITIONS)}
        self._topic = state.create_topic(
            OFFSETS_TOPIC, -1, replication_factor=-1, configs=configs, assignments=assignments
        )
        self.runtime = self.sim.coordinators.groups = GroupCoordinator(state, chance=Chance.seeded(1))
        self.runtime.start()
        self.conditions = PartitionFaults(state, lambda _: self.runtime, Chance.seeded(2))
        self._lasting: list[PartitionFault] = []
        self._shrunk_ms = 0
        timeout_ms = state.config.int("offsets.commit.timeout.ms")
        super().__init__(version.startswith("3"), phase, (0, 1), PARTITIONS, timeout_ms)

    @property
    def now_ms(self) -> int:
        return self.sim.clock.now_ms()

    @property
    def logs(self) -> list[Partition]:
        """The body's partitions of __consumer_offsets."""
        return [self._topic.partitions[index] for index in self.partitions]

    def hand_over(self, request: Any, version: int, broker: int, client_id: str, replied: Any) -> FakeContext:
        """Gives the request to its handler, as a connection does, and ends the turn."""
        module = type(request).__module__.rpartition(".")[2]
        handler = importlib.import_module(f"broker_sim.handlers.{module}")
        ctx = _Context(
            self.sim.state.brokers[broker], self.sim.coordinators, type(request).__spec__.api_key, version, client_id
        )
        ctx.told = replied
        returned = handler.handle(ctx, request)
        if returned is not None and returned is not DEFERRED:
            ctx.reply(returned)
        self.runtime.flush_batches()
        return ctx

    def start(self, request: Any, version: int, *, broker: int = 1, client_id: str = "c") -> Asked:
        return SimAsked(self, request, version, broker, client_id)

    async def sleep(self, ms: int) -> None:
        self.sim.clock.advance(ms)

    async def freeze(self, *, briefly: bool = False, shrinks: bool = False) -> None:
        self._shrunk_ms = self.now_ms + SHRINKS_AFTER_MS
        args: dict[str, Any] = {"isr_shrinks_after": f"{SHRINKS_AFTER_MS}ms"} if shrinks else {}
        state = "stuck" if self.phase == "A" else "under_min_isr"
        self._set(state, **args)

    async def choke(self) -> None:
        self._set("too_large")

    async def freeze_and_hand_over(self, waiting: Callable[[], Awaitable[None]]) -> None:
        await self.freeze()
        await waiting()
        await self.move()

    def _set(self, state: str, **args: Any) -> None:
        for partition in self.logs:
            self._lasting.append(self.conditions.set(partition, state, **args))

    async def shrinking(self, every_ms: int) -> AsyncIterator[None]:
        while self.now_ms < self._shrunk_ms:
            yield
            self.sim.clock.advance(every_ms)

    async def heal(self) -> None:
        for condition in self._lasting:
            self.conditions.heal(condition)
        self._lasting.clear()

    async def move(self) -> None:
        for partition in self.logs:
            leader_election.move(self.sim.state, partition, 2)
            self.runtime.reload(partition)
        self.sim.clock.advance(0)

    def after(self, ms: int, answer: Answer) -> Answer:
        assert answer.took_ms == ms, f"it took {answer.took_ms:.0f} ms: {answer.response}"
        return answer

    def together(self, *answers: Answer) -> None:
        assert len({answer.at_ms for answer in answers}) == 1, answers

"""Clients that speak the wire protocol themselves: members that behave, and one that does not.

    report = run_hostile(seed, journal=False)        # a whole run: brokers, members, the hostile client, moves, slow logs, silence
    report.broken                                   # what invariant was broken, or None

Rules:
1. Everything a client does is drawn from the seed, its own name and the deed's number (`deeds`); every answer goes through `Answers`.
2. The hostile client uses several connections at once, sends before it has been answered, and takes the identities of others: ids and
   generations out of the book in which all members write theirs.
3. Every committed offset is a different number, which identifies the commit.
4. Without a journal the brokers take their short ways (repeated commits, heartbeats, joins): half of all runs should be so.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker_sim.metadata import leader_election
from broker_sim.simulation.checks.invariants import Answers, InvariantBroken, Invariants
from broker_sim.simulation.workloads.raw import (
    CONFIG,
    GROUP,
    HEALING_S,
    OTHER,
    SESSION_MS,
    TOPIC,
    Member,
    RawClient,
    RawContext,
    commit_request,
    fetch_request,
    join_request,
    sync_request,
)
from broker_sim.simulation.world import simulate
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import OffsetCommitRequest
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import Partition
    from broker_sim.simulation.world import Simulation

__all__ = ["Hostile", "Report", "read_twice", "run_hostile"]


# --- who does not -------------------------------------------------------------------------------------------------------


class Hostile(RawClient):
    """See the module. Its deeds are its methods that begin with ``_do_``; none waits for what it has sent longer than it must."""

    LINES = 3
    over = False
    """Whether the client has stopped its deeds."""
    _owing: asyncio.Task[None] | None = None

    def _choose(self, request: object) -> int:
        return self.rng.randint(*self._spans[type(request)]) if self.rng.random() < 0.3 else super()._choose(request)

    async def run(self) -> None:
        """Send invalid and stale requests until the workload ends."""
        self.begin()
        deeds = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("_do_")]
        self.context.deeds.life(self.name, self.rng)
        few = self.rng.random() < 0.25  # swarm: each run has its favourites, some have few
        deeds = [self._do_take_part] if few else self.rng.sample(deeds, self.rng.randint(1, len(deeds)))
        weights = [self.rng.random() ** 2 for _ in deeds]
        pause_s = self.rng.choice((0.1, 0.1, 0.4, 1.0))
        while not self.over:
            number = self.context.deeds.begin(self.name, self.rng)
            await asyncio.sleep(self.rng.expovariate(1 / pause_s))
            deed = self.rng.choices(deeds, weights)[0]
            if self.context.deeds.does(self.name, number):
                with contextlib.suppress(OSError):
                    await deed()

    def _somebody(self) -> tuple[str, str | None, int]:
        return self.rng.choice(self.context.book) if self.context.book else ("nobody", None, 1)

    def _commit(self, member: str, instance: str | None, generation: int) -> OffsetCommitRequest:
        """An OffsetCommit of an offset that no other client commits; without a member id, of a partition that no consumer reads."""
        topic, parts = (OTHER, 2) if self.context.guest else (TOPIC, self.context.partitions)
        return commit_request(member, instance, generation, {self.rng.randrange(parts): self.context.value()}, topic)

    async def _send(self, *requests: Any, broker: int | None = None, number: int | None = None) -> list[Any]:
        """All at once over one connection."""
        if broker is None:
            broker = self.context.coordinator
        if broker < 1:
            return []
        line = await self.line(broker, self.rng.randrange(self.LINES) if number is None else number)
        return [line.start(request, self.version(request)) for request in requests]

    async def _do_commit_in_anothers_name(self) -> None:
        member, instance, generation = self._somebody()
        await self._send(self._commit(member, instance, generation + self.rng.choice((-1, 0, 0, 0, 1))))

    async def _do_commit_as_nobody(self) -> None:
        member = self.rng.choice(("", "nobody"))
        await self._send(self._commit(member, None, self.rng.choice((-1, self.context.generation))))

    async def _do_commit_poison(self) -> None:
        """Commit a large offset under a member id that was never assigned: it must be refused, since an accepted one would skip
        records."""
        stranger = f"nobody-{self.rng.randrange(9)}"
        values = {index: 1_000_000 + self.context.value() for index in range(self.context.partitions)}
        await self._send(commit_request(stranger, None, max(0, self.context.generation), values))

    async def _do_stale_requests(self) -> None:
        member, instance, generation = self._somebody()
        await self._send(
            HeartbeatRequest(GROUP, generation, member, instance),
            sync_request(member, instance, generation - self.rng.randint(0, 1), [], self.context.partitions),
            self._commit(member, instance, generation - self.rng.randint(0, 1)),
        )

    async def _do_commit_while_the_generation_moves(self) -> None:
        """Join again with a member, and commit over another connection until the next generation is there: one of these commits is on
        its way into the log when that happens. (One alone, sent before the JoinGroup, is none: what tells the others to join again
        waits, in Kafka 4, for the commit.)"""
        member, instance, generation = self._somebody()
        await self._send(join_request(member, instance, self.rng.randint(1, 200)), number=1)
        before = self.context.generation
        for _ in range(self.rng.randint(1, 40)):
            answers = await self._send(self._commit(member, instance, generation), number=0)
            if answers:
                await asyncio.wait(answers, timeout=self.rng.uniform(0.01, 0.5))
            await self._send(fetch_request(self.context.partitions), number=2)
            if self.context.generation != before:
                break

    async def _do_leave_in_the_middle(self) -> None:
        member, instance, generation = self._somebody()
        await self._send(
            self._commit(member, instance, generation),
            LeaveGroupRequest(GROUP, member, [MemberIdentity(member, instance)]),
            HeartbeatRequest(GROUP, generation, member, instance),
            self._commit(member, instance, generation),
            fetch_request(self.context.partitions),
        )

    async def _do_duplicate_join(self) -> None:
        member, instance, _ = self._somebody()
        for number in range(2):
            await self._send(join_request(member, instance, self.rng.randint(0, 3)), number=number)

    async def _do_ask_a_stranger(self) -> None:
        member, instance, generation = self._somebody()
        for broker in range(1, len(self.context.kafka.hosts) + 1):
            if broker != self.context.coordinator:
                await self._send(
                    HeartbeatRequest(GROUP, generation, member, instance),
                    self._commit(member, instance, generation),
                    self._commit("", None, -1),
                    fetch_request(self.context.partitions),
                    broker=broker,
                )

    async def _do_take_part(self) -> None:
        """Joins, and perhaps never syncs, leads or heartbeats."""
        if self._owing is not None and not self._owing.done():
            return
        instance = f"static-{self.rng.randint(1, 2)}" if self.rng.random() < 0.3 else None
        (first,) = await self._send(join_request("", instance), number=self.LINES) or [None]
        answer = await first if first is not None else None
        if answer is None or answer.error_code not in (Err.NONE, Err.MEMBER_ID_REQUIRED):
            return
        if answer.error_code == Err.MEMBER_ID_REQUIRED:
            if self.rng.random() < 0.2:
                return
            (second,) = await self._send(join_request(answer.member_id, None), number=self.LINES) or [None]
            answer = await second if second is not None else None
            if answer is None or answer.error_code:
                return
        member, generation = answer.member_id, answer.generation_id
        self.context.note(member, instance, generation)
        if self.rng.random() < 0.6:
            self._owing = asyncio.get_running_loop().create_task(self._live_on(member, instance, generation))
            return
        members = [member.member_id for member in answer.members]
        request = sync_request(member, instance, generation, members, self.context.partitions)
        await self._send(request, number=self.LINES)
        if self.rng.random() < 0.5:
            await asyncio.sleep(1.6 * SESSION_MS / 1000)
            await self._send(HeartbeatRequest(GROUP, generation, member, instance))

    async def _live_on(self, member: str, instance: str | None, generation: int) -> None:
        """Send heartbeats of a member that still owes its SyncGroup."""
        with contextlib.suppress(OSError):
            for _ in range(8):
                await self._send(HeartbeatRequest(GROUP, generation, member, instance), number=self.LINES + 1)
                await asyncio.sleep(SESSION_MS / 4000)

    async def _do_delete_what_nobody_reads(self) -> None:
        parts = [OffsetDeleteRequestPartition(index) for index in range(2)]
        await self._send(OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic(OTHER, parts)]))

    async def _do_commit_elsewhere(self) -> None:
        member, instance, generation = self._somebody()
        values = {self.rng.randrange(2): self.context.value()}
        await self._send(commit_request(member, instance, generation, values, OTHER))

    async def _do_hang_up(self) -> None:
        for line in list(self._lines.values()):
            if not line.lost and self.rng.random() < 0.5:
                line.close()


# --- the run ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Report:
    """Result of a run. ``checked``: number of checked responses."""

    seed: object
    broken: InvariantBroken | None
    checked: int
    beats: int
    virtual_s: float
    generation: int


async def _incidents(context: RawContext, rng: random.Random) -> None:
    """The coordinator moves, its log is slow or stuck."""
    conditions = context.kafka.conditions
    appetite = rng.choice((0.1, 0.5, 2.0))
    while True:
        await asyncio.sleep(rng.uniform(0.5, 2.5) / appetite)
        partition = context.answers.partition(GROUP)
        if partition is None:
            continue
        kind = rng.choice(("move", "move", "slow", "slow", "stuck"))
        if kind == "move":
            _move(context, partition, rng)
            continue
        args = {"latency": f"{rng.randint(20, 400)}ms"} if kind == "slow" else {}
        condition = conditions.set(partition, kind, replace=True, **args)
        await asyncio.sleep(rng.uniform(0.2, 1.6))
        if rng.random() < 0.4:  # records that its followers do not have are lost
            _move(context, partition, rng)
        conditions.heal(condition)


def _move(context: RawContext, partition: Partition, rng: random.Random) -> None:
    others = [node for node in context.kafka.state.brokers if node != partition.leader]
    leader_election.move(context.kafka.state, partition, rng.choice(others))


async def _silence(members: list[Member], rng: random.Random) -> None:
    pause_s = rng.choice((3.0, 6.0, 60.0))
    while True:
        await asyncio.sleep(rng.uniform(pause_s, 2 * pause_s))
        rng.choice(members).silent = True


def run_hostile(
    seed: object, *, journal: bool = False, seconds: float = 12.0, brokers: int = 2, as_version: str = "4.1"
) -> Report:
    """A group of three members and the hostile client, ``seconds`` of their time, then everything is healed and read again."""
    with simulate(seed, invariants=False) as sim:
        kafka = sim.cluster(brokers, {TOPIC: 6, OTHER: 2}, journal=journal, config=CONFIG, as_version=as_version)
        errors: list[InvariantBroken] = []

        def broken(error: InvariantBroken) -> None:
            errors.append(error)
            if not context.settled:
                sim.loop.stop()

        kafka.state.ensure_offsets_topic()
        answers = Answers(kafka.state, lambda: sim.elapsed_s, broken)
        watch = Invariants(kafka, broken) if journal else None
        context = RawContext(sim, kafka, answers)
        members = [
            Member(context, f"member-{n}", "fixed" if n == 3 and sim.rng.random() < 0.5 else None) for n in (1, 2, 3)
        ]
        hostile = Hostile(context, "hostile")
        for member in members:
            sim.host(member.name).spawn(member.run())
        sim.host(hostile.name).spawn(hostile.run())
        incidents = sim.loop.create_task(_incidents(context, random.Random(f"{seed}/incidents")))
        silence = sim.loop.create_task(_silence(members, random.Random(f"{seed}/silence")))
        _run(sim, seconds, errors, answers, [incidents, silence])
        if not errors:
            sim.crash("hostile", reset=True)
            hostile.forget()
            incidents.cancel()
            silence.cancel()
            kafka.conditions.heal_all()
            _run(sim, HEALING_S, errors, answers, [])
        if not errors:
            _converged(sim, context, members, answers, errors)
        if not errors and watch is not None:
            watch.finish()
        for task in (incidents, silence):
            task.cancel()
        for client in (*members, hostile):
            sim.crash(client.name, reset=True)  # a broken broker may never answer them
        sim.run_for(0.1)
        beats = sum(member.beats for member in members)
        return Report(seed, errors[0] if errors else None, answers.checked, beats, sim.elapsed_s, context.generation)


def _run(sim: Simulation, seconds: float, errors: list[Any], answers: Answers, tasks: list[asyncio.Task[Any]]) -> None:
    end_s = sim.elapsed_s + seconds
    while sim.elapsed_s < end_s and not errors:
        sim.run_for(min(1.0, end_s - sim.elapsed_s))
        answers.overdue()
        for task in tasks:
            if task.done() and task.exception() is not None:
                task.result()


def _converged(
    sim: Simulation, context: RawContext, members: list[Member], answers: Answers, errors: list[Any]
) -> None:
    """All is well again: within the group's timeouts everybody is a member of one generation, and everything acked is read, before
    and after a move."""
    before = [member.beats for member in members]
    sim.run_for(2)
    if any(member.beats == then for member, then in zip(members, before, strict=True)):
        text = ", ".join(f"{m.name} {m.member or '-'} generation {m.generation}" for m in members)
        errors.append(InvariantBroken("all groups are Stable after healing", text, answers.history(GROUP)))
        return
    partition = answers.partition(GROUP)
    assert partition is not None
    context.settled = True
    sim.run(read_twice(context, partition), within=30)


async def read_twice(context: RawContext, partition: Partition) -> None:
    """Read all that the group has committed, from its coordinator and, after a move, from the next one."""
    reader = RawClient(context, "reader")
    reading: Coroutine[Any, Any, Any]
    for _ in range(2):
        while True:
            reading = reader.ask(fetch_request(context.partitions), await reader.find())
            if (await reading).error_code == 0:
                break
            await asyncio.sleep(0.1)
        others = [node for node in context.kafka.state.brokers if node != partition.leader]
        leader_election.move(context.kafka.state, partition, others[0])
    reader.close()

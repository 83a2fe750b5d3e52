"""The acts of the demo, one function each."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from broker_sim.demo import incident
from broker_sim.demo.consumer import COMMIT_EVERY, GROUP, SESSION_MS, TOPIC
from broker_sim.demo.ledger import TopicProgress
from broker_sim.demo.processes import PARTITIONS, ConsumerProcess, DemoBroker, DemoFailed, tail
from broker_sim.demo.view import View
from broker_sim.demo.watch import GroupPoller
from broker_sim.explain.rebalances import COMPLETING, PREPARING, STABLE

RECORDS = 400
"""Records in each partition: more than the consumers read before the command ``fast``."""

ENOUGH = 3 * COMMIT_EVERY + COMMIT_EVERY // 2  # in the middle between two commits
"""Records that a member reads before the next act begins."""

WAIT_S = 20.0

_SCRATCH = "broker-sim-demo-"
"""Prefix of the names of temporary directories; the rest of them can't be known beforehand."""


class DemoRun:
    """Participants of a run of the demo, and their state."""

    def __init__(self, directory: Path, as_version: str) -> None:
        self.directory = directory
        self.view = View()
        self.ledger = TopicProgress(PARTITIONS, RECORDS)
        self.broker = DemoBroker(directory, as_version)
        self.members: dict[str, ConsumerProcess] = {}
        self.generation = 0
        self.stable = False
        self.in_group: list[str] = []
        self.rebalance_since_s = 0.0
        self.watch: GroupPoller | None = None
        self._news = asyncio.Event()

    # what is heard

    def heard(self, member: ConsumerProcess, event: dict[str, Any]) -> None:
        """Handle an event that a consumer has reported."""
        kind, name = event["event"], member.name
        if kind == "read":
            member.reads += 1
            member.since_commit += 1
            self.ledger.read(name, event["partition"], event["offset"])
        elif kind == "committed":
            member.since_commit = 0
            self.ledger.commit({int(p): offset for p, offset in event["offsets"].items()})
        elif kind == "assigned":
            positions = {int(p): offset for p, offset in event["positions"].items()}
            self.ledger.assigned(name, positions)
            member.owned, member.since_commit, member.reads_when_assigned = sorted(positions), 0, member.reads
            self.view.mark(name, "#")
            self.view.say(name, f"continues from the committed offsets, partition@offset: {_offsets(positions)}")
        elif kind == "revoked":
            member.owned = []
            self.view.mark(name, "~")
        elif kind == "left":
            member.ended = "left"
            self.view.mark(name, ">")
        elif kind == "died":
            self.ledger.problems.append(f"{name} ended by itself (exit code {event['code']}):\n{tail(member.log)}")
        self._news.set()

    def on_group(self, state: str, clients: list[str]) -> None:
        """The group's state or members have changed."""
        for name in clients:
            if name not in self.in_group:
                self.view.say("group", f"{name} joins: it sent JoinGroup")
        for name in self.in_group:
            if name not in clients:
                self.view.say("group", f"{name} is out: {self._why_gone(name)}")
        if not self.in_group and clients and not self.generation:
            self._rebalancing()
        if state in (PREPARING, COMPLETING) and self.stable:
            self._rebalancing()
            self.view.say("group", "rebalance: every member revokes its partitions and rejoins")
        if self.members:
            self.stable = state == STABLE
        self.in_group = clients
        self._news.set()

    def _why_gone(self, name: str) -> str:
        if self.members[name].ended == "killed":
            self.view.mark(name, "!")
            return f"its session timed out, {SESSION_MS / 1000:.0f} s without a heartbeat"
        return "it sent LeaveGroup"

    def _rebalancing(self) -> None:
        self.rebalance_since_s = self.view.now_s()
        self.view.generation("~")

    def on_generation(self, number: int, assignment: dict[str, list[int]]) -> None:
        """The coordinator has written a generation into ``__consumer_offsets``."""
        self.generation = number
        self.view.generation(str(number))
        who = "  ".join(f"{name} has {_list(partitions)}" for name, partitions in sorted(assignment.items()))
        took = f", {self.view.now_s() - self.rebalance_since_s:.2f} s after the rebalance began"
        self.view.say("group", f"generation {number}{took}: {who or 'no member is left'}")
        self._news.set()

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait for news that make ``holds()`` true. Raises DemoFailed, and at the first problem at once."""
        try:
            async with asyncio.timeout(WAIT_S):
                while not holds():
                    if self.ledger.problems:
                        raise DemoFailed(f"stopped while waiting for this: {what}")
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            if self.watch is not None:
                self.watch.check()
            raise DemoFailed(f"waited {WAIT_S:.0f} s for this: {what}") from None

    # helpers of the acts

    async def add(self, *names: str) -> None:
        for name in names:
            self.members[name] = member = ConsumerProcess(name, self.directory, self.heard)
            await member.start(self.broker.bootstrap)
            self.view.mark(name, "~")

    async def settled(self, generation: int, *names: str) -> None:
        """Wait until these members alone are a stable group that reads."""
        members = [self.members[name] for name in names]
        before = {member.name: member.reads for member in members}

        def reads(member: ConsumerProcess) -> bool:
            since = max(before[member.name], member.reads_when_assigned)
            return bool(member.owned) and member.reads >= since + ENOUGH

        def holds() -> bool:
            together = self.generation >= generation and self.stable and self.in_group == sorted(names)
            return together and all(map(reads, members))

        await self.until(f"a stable group of {', '.join(names)}, each of them reading", holds)

    def alive(self) -> list[ConsumerProcess]:
        return [member for member in self.members.values() if not member.ended]

    # the acts

    async def play(self) -> None:
        """Play all acts of the demo. Raises DemoFailed."""
        await self.fill()
        await self.together()
        await self.crash()
        await self.broker_killed()
        await self.join_and_leave()
        await self.finish()

    async def fill(self) -> None:
        self.view.title("1. A broker, and a topic with records")
        await self.broker.start()
        self.view.mark("broker", "=")
        self.view.say("broker", f"ready on {self.broker.bootstrap}, as Kafka {self.broker.as_version}")
        small_batches = {"max_batch_size": 512, "linger_ms": 1}
        async with AIOKafkaProducer(bootstrap_servers=self.broker.bootstrap, **small_batches) as producer:
            for partition in range(PARTITIONS):
                batch = [
                    await producer.send(TOPIC, f"order {partition}-{number}".encode(), partition=partition)
                    for number in range(RECORDS)
                ]
                await asyncio.gather(*batch)
        self.view.say("broker", f"topic {TOPIC}: {PARTITIONS} partitions, {PARTITIONS * RECORDS} records")
        self.watch = GroupPoller(self.broker.bootstrap, self.on_group, self.on_generation)
        await self.watch.start()

    async def together(self) -> None:
        self.view.title(f"2. Three real aiokafka consumers form the group {GROUP!r}")
        await self.add("c1", "c2", "c3")
        await self.settled(1, "c1", "c2", "c3")

    async def crash(self) -> None:
        self.view.title("3. One of them crashes")
        c2 = self.members["c2"]
        await self.until("c2 having read something uncommitted", lambda: c2.since_commit >= COMMIT_EVERY // 2)
        await c2.kill()
        self.view.mark("c2", "X")
        self.view.say(
            "c2", f"killed with SIGKILL: {c2.since_commit} records read and not committed, no LeaveGroup sent"
        )
        await self.settled(self.generation + 1, "c1", "c3")

    async def broker_killed(self) -> None:
        self.view.title("4. The broker is killed while it is in use, and restarts on its data directory")
        readers = self.alive()
        await self.until("uncommitted reads", lambda: all(m.since_commit for m in readers))
        await self.broker.kill()
        acknowledged = dict(self.ledger.committed)
        self.view.mark("broker", "X")
        self.view.say("broker", "killed with SIGKILL; nothing was flushed or closed")
        generation = self.generation
        await self.broker.start()
        self.view.say("broker", f"ready again on {self.broker.bootstrap}")
        answered = await self._committed_after_restart()
        self.ledger.restarted(answered, acknowledged)
        self.view.say("broker", f"committed before the kill: {_offsets(acknowledged)}")
        self.view.say("broker", f"returned by OffsetFetch:   {_offsets(answered)}")
        self.view.mark("broker", "=")
        await self.settled(generation, *(member.name for member in readers))
        kept = "still generation" if self.generation == generation else "now generation"
        self.view.say("group", f"{kept} {self.generation}: the members reconnected and continue")

    async def _committed_after_restart(self) -> dict[int, int]:
        assert self.watch is not None
        answered: dict[int, int] = {}
        async with asyncio.timeout(WAIT_S):
            while not answered:
                with contextlib.suppress(KafkaError, OSError):  # its connection is being made again
                    answered = await self.watch.committed()
        return answered

    async def join_and_leave(self) -> None:
        self.view.title("5. A new consumer joins, and leaves properly")
        names = [member.name for member in self.alive()]
        await self.add("c4")
        await self.settled(self.generation + 1, *names, "c4")
        self.members["c4"].command("leave")
        self.view.say("c4", "stops: it commits and sends LeaveGroup")
        await self.settled(self.generation + 1, *names)

    async def finish(self) -> None:
        self.view.title("6. The remaining records, without pauses")
        for member in self.alive():
            member.command("fast")
        await self.until("every record having been read", lambda: self.ledger.all_read)
        for member in self.alive():
            member.command("leave")
        await self.until("the consumers having left", lambda: not self.alive() and self.in_group == [])
        await self.until("the last commit", lambda: self.ledger.all_committed)

    async def close(self) -> None:
        """End the watching client, the member processes and the broker."""
        if self.watch is not None:
            with contextlib.suppress(KafkaError, OSError):
                await self.watch.stop()
        for member in self.members.values():
            await member.kill()
        await self.broker.kill()


def _list(numbers: list[int]) -> str:
    return ",".join(map(str, numbers)) or "nothing"


def _offsets(offsets: dict[int, int]) -> str:
    return "  ".join(f"{partition}@{offset}" for partition, offset in sorted(offsets.items()))


def run(data: str | None, as_version: str) -> int:
    """Play it; returns the exit code."""
    with contextlib.ExitStack() as stack:
        directory = Path(data or stack.enter_context(tempfile.TemporaryDirectory(prefix=_SCRATCH)))
        directory.mkdir(parents=True, exist_ok=True)
        pictures = directory if data else Path(tempfile.mkdtemp(prefix=_SCRATCH))  # stays
        logging.basicConfig(filename=directory / "demo.log")  # aiokafka logs every failed connection
        try:
            return asyncio.run(_run(directory, as_version, pictures))
        except KeyboardInterrupt:
            return 130


async def _run(directory: Path, as_version: str, pictures: Path) -> int:
    demo = DemoRun(directory, as_version)
    view, ledger = demo.view, demo.ledger
    try:
        await demo.play()
    except DemoFailed as failure:
        ledger.problems.append(str(failure))
    finally:
        await demo.close()
    if not demo.broker.port:
        print(f"broker-sim demo: {ledger.problems[-1]}", file=sys.stderr)
        return 2
    view.title("What happened")
    print(view.picture())
    view.title("Checks")
    total = PARTITIONS * RECORDS
    for problem in ledger.problems:
        view.say("PROBLEM", problem)
    if ledger.problems:
        print(f"\nbroker's log:\n{tail(demo.broker.log)}", file=sys.stderr)
        return 1
    view.say("check", f"{total} records written, all of them read: nothing was lost")
    view.say("check", f"{ledger.twice} read twice, each of them not committed when its reader crashed")
    view.say("check", "every acknowledged commit survived the SIGKILL, and every member continued from it")
    broken = await incident.play(view, as_version, pictures)
    for problem in broken:
        view.say("PROBLEM", problem)
    return 1 if broken else 0

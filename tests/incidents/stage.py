"""A cluster of real brokers, the groups on it, and the clock of one play.

    async with Stage(kafka, random.Random(7), folder, play="members") as stage:
        group = await stage.group(members=2)
        with group.event("crash", "killed a member"):
            group.members[0].kill()
            await stage.pass_time(8)

Every wait for something has a deadline that says what for; time that is to pass (`pass_time`) passes while a deadline is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.incidents.ledger import Act, Event, GroupFacts, Ledger
from tests.incidents.member import LAYOUTS, Options
from tests.support.real_kafka import RealKafka, java_command, java_program, java_tool

__all__ = ["Group", "Member", "Stage", "now_ms", "offsets_partition"]

OFFSETS = "__consumer_offsets"
STATES = ("__transaction_state", "__share_group_state")
"""Topics of the other coordinators: an operator's copy has them, too."""
_CHANCE: ContextVar[random.Random] = ContextVar("chance")
TICK_S = 0.2
JOIN_S = 90.0
"""Seconds that a group may take until all its partitions are assigned, on a machine that is busy with other work."""
WORDS = (
    *("billing", "audit", "orders", "payments", "ledger", "search", "mail", "stock", "prices", "routes"),
    *("fraud", "invoices", "returns", "carts", "clicks", "geo", "feeds", "alerts", "quotes", "trips"),
    *("menus", "seats", "loans", "claims", "scores", "users", "teams", "plans", "notes", "maps"),
)
JAVA_LOGGING = """log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={log}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
TOOLS = {"4.4.0": "4.1.0"}
"""Releases whose command line tools Maven does not have, and those that talk to them as well."""
SUFFIXES = ("", "-eu", "-us", "-v2", "-sync", "-export", "-worker", "-batch", "-etl", "-index")
ROOT = Path(__file__).resolve().parents[2]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def offsets_partition(group: str, partitions: int) -> int:
    """As Kafka: the absolute value of Java's String.hashCode, modulo the partitions (Utils.abs, GroupMetadataManager.partitionFor)."""
    value = 0
    for unit in group:
        value = (value * 31 + ord(unit)) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF if value < 2**31 else 2**32 - value) % partitions


class Member:
    """One consumer's process."""

    def __init__(self, group: Group, options: Options) -> None:
        self.group, self.options = group, options
        self.partitions: list[int] = []
        self.closed = False
        self.assigned_ms: int | None = None
        """Time at which it had partitions first."""
        self._done: list[str] = []
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(self._java() if self.options.client == "java" else [sys.executable, "-m", "tests.incidents.member"]),
            json.dumps(asdict(self.options)),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            cwd=ROOT, start_new_session=True,
        )  # fmt: skip
        self._reader = asyncio.create_task(self._read(self._process))
        self._act("started", session_ms=self.options.session_ms, instance_id=self.options.instance_id)

    def _act(self, did: str, at_ms: int | None = None, **detail: Any) -> None:
        self.group.facts.acts.append(Act(now_ms() if at_ms is None else at_ms, self.options.client_id, did, detail))

    def _java(self) -> list[str]:
        """Return the command of a Java client, whose log has the layout of Kafka's own tools, which many services copy."""
        version = self.group.stage.kafka.version
        name = "Sharer" if self.options.protocol == "share" else "Member"
        classes = java_program(version, ROOT / "tests" / "incidents" / f"{name}.java")
        layout = self.group.stage.scratch / f"{self.options.client_id}.properties"
        layout.write_text(JAVA_LOGGING.format(log=self.options.log))
        jvm = ("-Xmx64m", "-Xss512k", f"-Dlog4j.configuration=file:{layout}")
        command = java_command(version, name, jvm=jvm, log4j=True)
        command[command.index("-cp") + 1] += f"{os.pathsep}{classes}"
        return command

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            said = json.loads(line)
            if said["event"] == "assigned":
                self.partitions = said["partitions"]
                self._act("assigned", said["at_ms"], partitions=self.partitions)
                if self.partitions and self.assigned_ms is None:
                    self.assigned_ms = said["at_ms"]
            elif said["event"] == "closed":
                self.closed = True
                self._act("closed", said["at_ms"])
            elif said["event"] == "committed":
                self._act("committed", said["at_ms"], offsets=said["offsets"])
            else:
                self._done.append(said["do"] if "do" in said else said["did"])
        self.partitions = []
        self._act("ended", code=await process.wait())

    @property
    def lives(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def tell(self, do: str, **how: Any) -> None:
        """A command, see `member`."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._act(do, **how)
        self._process.stdin.write(json.dumps({"do": do, **how}).encode() + b"\n")

    async def did(self, do: str) -> None:
        """Returns when the last `do` that it was told is done."""
        await self.group.stage.until(f"{self.options.client_id} to have done {do}", lambda: do in self._done, 60)
        self._done.remove(do)

    def kill(self) -> None:
        """SIGKILL: no word to the broker but the closed connection."""
        assert self._process is not None
        if self.lives:
            self._act("killed")
            self._process.kill()
        self.partitions = []

    async def gone(self, deadline_s: float = 40) -> None:
        await self.group.stage.until(f"{self.options.client_id} to end", lambda: not self.lives, deadline_s)

    async def close(self) -> None:
        """Orderly: leaves as its library does."""
        if self.lives:
            self.tell("close")
            await self.gone()


class Group:
    """A consumer group with its topic."""

    def __init__(
        self, stage: Stage, name: str, topic: str, partitions: int, facts: GroupFacts, how: dict[str, Any]
    ) -> None:
        self.stage, self.name, self.topic, self.partitions, self.facts, self.how = (
            stage,
            name,
            topic,
            partitions,
            facts,
            how,
        )
        self.members: list[Member] = []

    @property
    def living(self) -> list[Member]:
        return [one for one in self.members if one.lives]

    async def add(self, **how: Any) -> Member:
        """One more member, started; `how` are fields of `Options`."""
        number = len(self.members) + 1
        chosen = {**self.how, **how}
        client_id = chosen.pop("client_id", None) or f"{self.name}-{number}"
        log = self.stage.client_logs / f"{client_id}.log"
        options = Options(
            bootstrap=self.stage.bootstrap,
            group=self.name,
            topic=self.topic,
            client_id=client_id,
            log=str(log),
            partitions=self.partitions,
            **chosen,
        )
        member = Member(self, options)
        await member.start()
        self.members.append(member)
        if client_id not in self.facts.clients:
            self.facts.clients.append(client_id)
        return member

    async def again(self, member: Member, **how: Any) -> Member:
        """A process like `member`'s, started in its place."""
        options = asdict(member.options)
        for name in ("bootstrap", "group", "topic", "log", "partitions"):
            del options[name]
        return await self.add(**{**options, **how})

    async def settled(self) -> None:
        """Returns when the living members have each partition once between them; of a share group, when each has read something."""
        if self.facts.type == "share":
            await self.stage.until(
                f"each member of {self.name} to have read", lambda: all(one.partitions for one in self.living), JOIN_S
            )
            return
        everything = list(range(self.partitions))

        def given_out() -> bool:
            return sorted(part for one in self.living for part in one.partitions) == everything

        await self.stage.until(f"{self.name} to have given out {self.partitions} partitions", given_out, JOIN_S)

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in self.members))

    async def grow(self, partitions: int) -> None:
        """Increase the number of the topic's partitions to ``partitions``; records are written to each of them."""
        asked = [NewPartitions(self.topic, partitions)]
        await asyncio.to_thread(self.stage.admin.create_partitions(asked)[self.topic].result, 30)
        self.partitions = partitions
        await self.settled()  # before anything is written there
        await self.stage.look_at(self.topic)
        self.stage.traffic(self.topic).partitions = partitions

    @contextlib.contextmanager
    def event(self, kind: str, did: str, *, healthy: bool = False, **detail: Any) -> Iterator[Event]:
        """Write what happens in the block into the ledger as an event, with its start and its end."""
        with self.stage.event(kind, did, healthy=healthy, group=self.name, **detail) as event:
            event.log_partitions = [self.facts.log_partition]
            yield event


@dataclass
class Traffic:
    """Records that are written to a topic: a rate per second, in turn to each partition."""

    topic: str
    partitions: int
    rate: float
    owed: float = 0
    turn: int = 0
    extra: list[tuple[int, bytes, dict[str, Any]]] = field(default_factory=list)
    """Single records: partition, value, and where the offset is put that it got."""


class Stage:
    def __init__(
        self, kafka: RealKafka, rng: random.Random, folder: Path, *, play: str, seed: int, clients: tuple[str, ...],
        offsets_partitions: int, replicas: dict[int, list[int]] | None = None,
        offsets_config: dict[str, str] | None = None, protocol: str = "classic",
    ) -> None:  # fmt: skip
        self.kafka, self.folder, self.protocol = kafka, folder, protocol
        self._rng = rng
        self.clients, self.offsets_partitions = clients, offsets_partitions
        self.bootstrap = ""
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.client_logs = folder / "logs" / "clients"
        self.client_logs.mkdir(parents=True)
        self.layout = rng.randrange(len(LAYOUTS))
        self.groups: dict[str, Group] = {}
        self.events: list[Event] = []
        self.calm: list[int] = list(range(offsets_partitions))
        """Partitions of the offsets topic that groups get who ask for none."""
        self.ends = time.monotonic() + 3600
        self._play, self._seed, self._replicas = play, seed, replicas
        self._offsets_config = offsets_config or {}
        self._traffic: list[Traffic] = []
        self._tools = asyncio.Lock()

    @property
    def rng(self) -> random.Random:
        """Chance: each kind that is played has its own, so that what it draws does not hang on who is quicker."""
        return _CHANCE.get(self._rng)

    def draws(self, what: str) -> None:
        """The task that calls this has chance of its own, by that name, from now on."""
        _CHANCE.set(random.Random(f"{self._play} {self.kafka.version} {self._seed} {what}"))

    # ---- before and after

    async def __aenter__(self) -> Stage:
        self.from_ms = now_ms()
        self.bootstrap = f"127.0.0.1:{self.kafka.nodes[1].port}"  # the one that nothing is done to
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "log_level": 0})
        if self._replicas is not None:
            rows = [self._replicas[index] for index in range(self.offsets_partitions)]
            config = {"cleanup.policy": "compact", **self._offsets_config}
            await self.created(NewTopic(OFFSETS, len(rows), replica_assignment=rows, config=config))
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._writer.cancel()
        for group in self.groups.values():
            for member in group.living:
                member.kill()
        await asyncio.gather(*(one.gone() for group in self.groups.values() for one in group.members))

    async def created(self, topic: NewTopic) -> None:
        future = self.admin.create_topics([topic], operation_timeout=20)[topic.topic]
        await asyncio.to_thread(future.result, 30)

        def known() -> bool:  # a member that is quicker than the broker's metadata has no partitions for minutes
            found = self.admin.list_topics(topic.topic, timeout=20).topics[topic.topic]
            return found.error is None and all(row.leader > 0 for row in found.partitions.values())

        await asyncio.to_thread(self.poll_until, f"{topic.topic} to have leaders", known, 60)

    # ---- time

    async def pass_time(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            await asyncio.sleep(min(TICK_S, left))

    async def until(self, what: str, seen: Callable[[], bool], deadline_s: float) -> None:
        deadline = time.monotonic() + deadline_s
        while not seen():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {deadline_s:g} s for {what}")
            await asyncio.sleep(TICK_S / 2)

    async def any_time(self, least_s: float, most_s: float) -> None:
        """A time that the seed draws."""
        await self.pass_time(self.rng.uniform(least_s, most_s))

    # ---- groups

    def name(self, log_partition: int | None = None) -> str:
        """A name that nobody has yet, of a group in that partition of the offsets topic if one is told."""
        wanted = self.calm if log_partition is None else [log_partition]
        names = [word + suffix for word in WORDS for suffix in SUFFIXES]
        free = [
            one for one in names if one not in self.groups and offsets_partition(one, self.offsets_partitions) in wanted
        ]
        return self.rng.choice(free)

    async def group(
        self, *, members: int = 2, partitions: int | None = None, rate: float | None = None, log_partition: int | None = None,
        clients: tuple[str, ...] = (), **how: Any,
    ) -> Group:  # fmt: skip
        """A group, its topic and its members, settled."""
        rng = self.rng
        name = self.name(log_partition)
        topic = f"{rng.choice(WORDS)}.{len(self.groups) + 1}"
        partitions = partitions or rng.choice((3, 4, 6))
        able = (
            clients or self.clients
        )  # of a kind that only some libraries can do, one of these, whatever was asked for
        client = rng.choice([one for one in able if one in self.clients] or able)
        how = {"client": client, "layout": self.layout, "protocol": self.protocol, **how}
        kind = "assigned" if not how.get("join", True) else how["protocol"]
        facts = GroupFacts(offsets_partition(name, self.offsets_partitions), kind, topic)
        group = self.groups[name] = Group(self, name, topic, partitions, facts, how)
        everywhere = (
            [[1 + (index % len(self.kafka.nodes))] for index in range(partitions)]
            if self._replicas is None
            else [[1]] * partitions
        )
        await self.created(NewTopic(topic, partitions, replica_assignment=everywhere))
        self.flow(topic, partitions, rng.uniform(4, 20) if rate is None else rate)
        for _ in range(members):
            await group.add()
        if members:
            await group.settled()
        return group

    @contextlib.contextmanager
    def event(
        self, kind: str, did: str, *, healthy: bool = False, group: str | None = None, **detail: Any
    ) -> Iterator[Event]:
        event = Event(kind, healthy, now_ms(), 0, did, group, [], detail)
        self.events.append(event)
        try:
            yield event
        except BaseException:  # nobody knows how much of it was done
            self.events.remove(event)
            raise
        event.end_ms = now_ms()

    # ---- what is written

    def flow(self, topic: str, partitions: int, rate: float) -> None:
        self._traffic.append(Traffic(topic, partitions, rate))

    def traffic(self, topic: str) -> Traffic:
        return next(one for one in self._traffic if one.topic == topic)

    async def look_at(self, topic: str) -> None:
        """Refresh the producer's metadata of a topic that may have more partitions: records to an unknown partition are refused."""
        await asyncio.to_thread(self._producer.list_topics, topic, 20)

    async def _write(self) -> None:
        number = 0
        while True:
            for one in self._traffic:
                one.owed += one.rate * TICK_S
                while one.owed >= 1:
                    one.owed -= 1
                    one.turn, number = (one.turn + 1) % one.partitions, number + 1
                    self._produce(one.topic, one.turn, b"%d" % number)
                while one.extra:
                    self._produce(one.topic, *one.extra.pop())
            self._producer.poll(0)
            await asyncio.sleep(TICK_S)

    def _produce(self, topic: str, partition: int, value: bytes, detail: dict[str, Any] | None = None) -> None:
        def delivered(error: object, message: Any) -> None:
            if detail is not None and error is None:
                detail["offset"] = message.offset()

        with contextlib.suppress(BufferError):
            self._producer.produce(topic, value, partition=partition, on_delivery=delivered)

    # ---- tools

    async def consumer_groups(self, *args: str) -> str:
        """kafka-consumer-groups.sh with these arguments; one at a time, for the machine's sake."""
        modern = self.kafka.version.startswith("4")
        main = (
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
            if modern
            else "kafka.admin.ConsumerGroupCommand"
        )
        async with self._tools:
            done = await asyncio.to_thread(
                java_tool,
                TOOLS.get(self.kafka.version, self.kafka.version),
                main,
                "--bootstrap-server",
                self.bootstrap,
                *args,
                timeout_s=120,
            )
        if done.returncode != 0 or "Error:" in done.stdout + done.stderr:
            raise RuntimeError(f"kafka-consumer-groups {' '.join(args)}: {done.stdout}{done.stderr}")
        return done.stdout

    async def empty(self, group: Group) -> None:
        """Returns when the group has no members."""

        def seen() -> bool:
            found = self.admin.describe_consumer_groups([group.name])[group.name].result(20)
            return not found.members

        await asyncio.to_thread(self.poll_until, f"{group.name} to be empty", seen, 60)

    @staticmethod
    def poll_until(what: str, seen: Callable[[], bool], deadline_s: float) -> None:
        deadline = time.monotonic() + deadline_s
        while not seen():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {deadline_s:g} s for {what}")
            time.sleep(TICK_S)

    # ---- what is left

    def leaders(self, topic: str) -> dict[int, int]:
        found = self.admin.list_topics(topic, timeout=20).topics[topic].partitions
        return {index: row.leader for index, row in found.items()}

    async def leave(self, *, running: bool, data_topics: bool) -> None:
        """Copies what an operator would: of each partition the leader's folder, all logs; and writes the ledger."""
        self.to_ms = now_ms()
        if self._writer.done():  # it had failed: what looks like an idle topic is none
            self._writer.result()
        self._writer.cancel()
        self._producer.flush(10)
        topics = [OFFSETS]
        listed = self.admin.list_topics(timeout=20).topics
        topics += [name for name in listed if name in STATES or (data_topics and not name.startswith("__"))]
        leaders = {(topic, index): leader for topic in topics for index, leader in self.leaders(topic).items()}
        if not running:
            for member in [one for group in self.groups.values() for one in group.living]:
                member.kill()
            for node in reversed(list(self.kafka.nodes.values())):
                await asyncio.to_thread(node.stop)
        for (topic, index), leader in leaders.items():
            node = self.kafka.nodes.get(leader) or self.kafka.nodes[1]
            source = node.data_dir / f"{topic}-{index}"
            if source.is_dir():
                shutil.copytree(source, self.folder / "data" / source.name)
        for node in self.kafka.nodes.values():
            shutil.copytree(node.logs_dir, self.folder / "logs" / "brokers" / f"node-{node.node_id}")
        shutil.rmtree(self.scratch)
        self.ledger("running" if running else "stopped").write(self.folder)

    def ledger(self, copied: str) -> Ledger:
        groups = {name: group.facts for name, group in self.groups.items()}
        for facts in groups.values():  # what a process said is read a moment later
            facts.acts.sort(key=lambda act: act.at_ms)
        settings = {name: str(value) for name, value in self.kafka.config.items()}
        return Ledger(
            self.kafka.version, self._play, self._seed, len(self.kafka.nodes), copied, self.from_ms, self.to_ms, settings, groups,
            sorted(self.events, key=lambda one: one.start_ms),
        )  # fmt: skip


@contextlib.asynccontextmanager
async def staged(kafka: RealKafka, *args: Any, **kwargs: Any) -> AsyncIterator[Stage]:
    """The cluster is started, and ended."""
    await asyncio.to_thread(kafka.__enter__)
    try:
        async with Stage(kafka, *args, **kwargs) as stage:
            yield stage
    finally:
        await asyncio.to_thread(kafka.close, graceful=False)

"""Workloads for sweeps: each is an entry with its clients and their topics. ``aiokafka_workload`` and ``wire_workload`` run them.

WORKLOADS["static"].hosts(members=2)        # ('c1', 'c2', 'p1')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker_sim.simulation.faults.swarm import Targets
from broker_sim.simulation.workloads.raw import OTHER, TOPIC
from kafka_wire.schema import Release

__all__ = ["REBALANCE_S", "REQUEST_S", "SESSION_S", "WORKLOADS", "GroupSpec", "Workload"]

SESSION_S, REBALANCE_S, REQUEST_S = 10.0, 20.0, 12.0
"""The clients' timeouts: short ones, so that thirty seconds hold a life."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group of consumers. ``pattern``: they subscribe to what matches it; ``commit_every_s``: they leave the commit to auto-commit;
    ``static``: they have instance ids; ``assigned``: they share the partitions out among themselves and are no members of anything."""

    group: str = "billing"
    members: int = 3
    topics: tuple[str, ...] = (TOPIC,)
    pattern: str | None = None
    work_s: float = 0.0
    commit_every_s: float | None = None
    static: bool = False
    strategy: str = "range"
    assigned: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """``teams``: of aiokafka consumers. ``topics``: with their numbers of partitions; ``produced``: those that get records.
    ``hostile``: with a client that breaks all rules; ``admin``: with one that creates, extends and deletes topics. ``raw``: the
    members speak the protocol themselves, in a tenth of Kafka's times, and ``cooperative``ly where that is said, or that of groups
    ``by_epochs``, of a share group (``shares``), or of a ``streams`` group; ``heartbeats``: an API of theirs that faults hit
    more often than others. ``versions``: the releases that a seed chooses from.
    ``bank``: the members are a bank's tellers, who work with "aiokafka" or on the "wire" (`bank`), where transactions are of the
    version ``flow``, 0 for the one that the seed draws. ``probers``: who knows what every answer must be, each with topics and
    groups of its own (`probing`). ``disk``: the brokers keep their logs on one, and have "cached" what they acknowledge, or
    "synced" it."""

    name: str
    description: str
    teams: tuple[GroupSpec, ...] = (GroupSpec(),)
    topics: Mapping[str, int] = field(default_factory=lambda: {TOPIC: 6})
    produced: tuple[str, ...] = (TOPIC,)
    brokers: int = 3
    every_s: float = 0.4
    idempotent: bool = False
    hostile: bool = False
    admin: bool = False
    raw: bool = False
    cooperative: bool = False
    bank: str = ""
    flow: int = 0
    by_epochs: bool = False
    shares: bool = False
    streams: bool = False
    heartbeats: str = ""
    versions: tuple[Release, ...] = ("3.4", "4.1")
    probers: tuple[str, ...] = ()
    disk: str = ""
    config: Mapping[str, object] = field(default_factory=dict)

    @property
    def members(self) -> int:
        """Number of members of the largest group, or of probers."""
        return len(self.probers) or max(team.members for team in self.teams)

    @property
    def since(self) -> Release:
        """The first release that knows its kind of group."""
        return "4.2" if self.streams else "4.1" if self.shares else "4.0" if self.by_epochs else "3.4"

    @property
    def pace(self) -> float:
        """Factor by which the workload's times are shorter than a consumer's usual ones."""
        return 5.0 if self.raw else 1.0

    def clients(self, members: int | None = None) -> tuple[str, ...]:
        """The consumers' hosts, where a group has that many of them at most."""
        if self.probers:
            return tuple(f"c{number}" for number in range(1, min(len(self.probers), members or 99) + 1))
        count = sum(min(team.members, members or team.members) for team in self.teams)
        return tuple(f"c{number}" for number in range(1, count + 1))

    def hosts(self, members: int | None = None) -> tuple[str, ...]:
        """The hosts of all clients of the workload."""
        produced = () if self.raw or self.probers or self.bank else self.produced
        producers = tuple(f"p{number}" for number in range(1, len(produced) + 1))
        others = [name for name in ("hostile", "admin") if getattr(self, name)]
        others += ["clerk", "auditor"] if self.bank else []
        return (*self.clients(members), *producers, *others)

    def targets(self, members: int | None = None) -> Targets:
        """Targets of the faults that a seed draws."""
        logs = tuple(f"{topic}-{index}" for topic, count in self.topics.items() for index in range(count))
        brokers = tuple(f"broker-{number}" for number in range(1, self.brokers + 1))
        groups = tuple(team.group for team in self.teams)
        hanging = () if self.raw or self.probers else self.clients(members)
        transactions = int(str(self.config.get(_TRANSACTION_LOGS, 0))) if self.bank else 0
        return Targets(
            groups, logs, brokers, self.hosts(members), hanging, self.pace, self.disk, transactions, self.heartbeats
        )


_EVERYTHING = {TOPIC: 4, "orders-eu": 2}
_SMALL_LOGS = {
    "offsets.topic.num.partitions": 5,
    "log.index.interval.bytes": 200,
    "log.retention.check.interval.ms": 4000,
    "log.roll.ms": 2500,
}
"""Logs that roll, are compacted and have indexes within seconds."""

_TRANSACTION_LOGS = "transaction.state.log.num.partitions"
_BANK = {TOPIC: 2, "accounts": 3, "audit": 1}
_BOOKED = {_TRANSACTION_LOGS: 3, "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}

_SHORT_SESSIONS = {"group.min.session.timeout.ms": 1000}

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("group", "three consumers that commit after each batch, three brokers"),
        Workload("alone", "the same on one broker", brokers=1),
        Workload("auto", "consumers that leave the commit to auto-commit", (GroupSpec(commit_every_s=2.0),)),
        Workload("static", "static members, which come back to what they had", (GroupSpec(static=True),)),
        Workload(
            "sticky",
            "five consumers, sticky assignor, slow work",
            (GroupSpec(members=5, work_s=0.3, strategy="sticky"),),
            {TOPIC: 8},
        ),
        Workload(
            "several",
            "three groups, two of them on one topic, the third on two",
            (
                GroupSpec(members=2),
                GroupSpec("audit", 2, (TOPIC, "refunds"), commit_every_s=2.0),
                GroupSpec("mail", 1, ("refunds",), static=True, strategy="roundrobin"),
            ),
            {TOPIC: 4, "refunds": 3},
            (TOPIC, "refunds"),
        ),
        Workload(
            "pattern",
            "two consumers of all topics that match a pattern, and a client that creates, extends and deletes such topics",
            (GroupSpec(members=2, topics=tuple(_EVERYTHING), pattern="^(orders|extra)"),),
            _EVERYTHING,
            tuple(_EVERYTHING),
            admin=True,
        ),
        Workload(
            "admin",
            "a group at work, while topics and other groups are made, grown, described, reset and deleted",
            (GroupSpec(members=2),),
            {TOPIC: 4, OTHER: 2},
            admin=True,
        ),
        Workload("idempotent", "an idempotent producer", (GroupSpec(members=2),), idempotent=True, every_s=0.2),
        Workload(
            "assigned", "two consumers that assign themselves their partitions and commit", (GroupSpec("billing", 2, assigned=True),)
        ),
        Workload(
            "mixed",
            "two aiokafka members, and in the same group the hostile client",
            (GroupSpec(members=2),),
            {TOPIC: 6, OTHER: 2},
            hostile=True,
            config=_SHORT_SESSIONS,
        ),
        Workload(
            "hostile",
            "three members and the hostile client, all of them on the wire protocol",
            topics={TOPIC: 6, OTHER: 2},
            hostile=True,
            raw=True,
            config={"group.max.size": 4},
        ),
        Workload(
            "cooperative",
            "four members that give up a partition before another one gets it (KIP-429; aiokafka has no such assignor)",
            (GroupSpec(members=4),),
            {TOPIC: 6, OTHER: 2},
            raw=True,
            cooperative=True,
        ),
        Workload(
            "consumer-groups",
            "five members of a consumer group (KIP-848): static members, regular expressions, classic members, and new topics",
            (GroupSpec(members=5),),
            {TOPIC: 6, OTHER: 2},
            raw=True,
            by_epochs=True,
            versions=("4.1", "4.4"),
        ),
        Workload(
            "share-groups",
            "three members of a share group (KIP-932) that accept, release, reject, renew and ignore acquired records",
            topics={TOPIC: 2},
            raw=True,
            shares=True,
            heartbeats="ShareGroupHeartbeat",
            versions=("4.1", "4.4"),
        ),
        Workload(
            "streams-groups",
            "five members of a streams group (KIP-1071) in several processes: static ones, standby tasks, an older topology",
            (GroupSpec(members=5),),
            raw=True,
            streams=True,
            heartbeats="StreamsGroupHeartbeat",
            versions=("4.2", "4.4"),
        ),
        Workload(
            "disk",
            "brokers whose process is killed and starts again from its disk",
            (GroupSpec(members=2),),
            {TOPIC: 4},
            every_s=0.2,
            disk="cached",
            config=_SMALL_LOGS,
        ),
        Workload(
            "power",
            "brokers that sync what they acknowledge, on machines that lose power",
            (GroupSpec(members=2),),
            {TOPIC: 4},
            every_s=0.2,
            idempotent=True,
            disk="synced",
            config=_SMALL_LOGS,
        ),
        Workload(
            "logs",
            "two clients with topics of their own, who know what every answer about records must be",
            topics={TOPIC: 2},
            produced=(),
            probers=("logs", "logs"),
        ),
        Workload(
            "lives",
            "two clients with groups of their own, who know what every answer of a coordinator must be",
            topics={TOPIC: 3, OTHER: 2},
            produced=(),
            probers=("lives", "lives", "groups"),
        ),
        Workload(
            "topics",
            "a client that makes, grows, describes and deletes topics and knows what every answer must be, and one that writes",
            topics={TOPIC: 2},
            produced=(),
            brokers=5,
            probers=("topics", "logs"),
        ),
        Workload(
            "transactions",
            "two clients that write in transactions and know what may be read at which isolation",
            topics={TOPIC: 2},
            produced=(),
            probers=("transactions", "transactions"),
            config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500},
        ),
        Workload(
            "bank",
            "aiokafka tellers who read orders and write accounts in transactions, with a transactional id for each partition",
            topics=_BANK,
            bank="aiokafka",
            config=_BOOKED,
        ),
        Workload(
            "tellers",
            "the same on the wire protocol, in both versions of transactions",
            topics=_BANK,
            bank="wire",
            raw=True,
            config=_BOOKED,
        ),
        Workload(
            "kept",
            "the same clients of records and of groups, with brokers whose process is killed and starts again from its disk",
            topics={TOPIC: 3},
            produced=(),
            brokers=2,
            probers=("logs", "groups"),
            disk="cached",
            config={"log.index.interval.bytes": 60},
        ),
    )
}  # fmt: skip
"""By name."""

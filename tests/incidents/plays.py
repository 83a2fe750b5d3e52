"""Kinds of events that happen side by side in one cluster."""

from __future__ import annotations

import asyncio
import random
import shutil
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.incidents.audit import surprises
from tests.incidents.kinds import brokers, healthy, membership, modern, offsets, rollouts, shares, transactions
from tests.incidents.ledger import Ledger
from tests.incidents.stage import Stage, staged
from tests.support.real_kafka import RealKafka

__all__ = ["PLAYS", "Play", "perform"]

Kind = Callable[[Stage], Awaitable[None]]
CLIENTS = ("aiokafka", "kafka-python", "confluent")
MODERN = ("confluent", "java")
"""Clients that support the protocol of KIP-848."""
JVM = ("-Xmx256m", "-Xss512k", "-Duser.timezone=UTC")
STAGGER_S = 2.5
"""Between the starts of two kinds: their processes share a few cores."""


@dataclass(frozen=True)
class Play:
    """``kinds``: all of them; ``traps``: how many of the healthy ones, drawn."""

    kinds: Sequence[Kind]
    traps: int
    nodes: int = 1
    config: dict[str, Any] = field(default_factory=dict)
    protocol: str = "classic"
    clients: tuple[str, ...] = CLIENTS
    partitions: tuple[int, ...] = (5, 8, 12)
    since: int = 3
    """The first major version of Kafka that can do it."""
    replicas: dict[int, list[int]] | None = None
    """Replicas by partition of the offsets topic, where they matter; `min_insync` is the topic's."""
    min_insync: int = 1
    hit: tuple[int, ...] = ()
    """Partitions of it that something is done to: other kinds' groups lie elsewhere."""
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Version -> levels that its brokers are formatted with, where their own do not do."""


PLAYS = {
    "membership": Play(membership.KINDS, traps=4),
    "offsets": Play(
        offsets.KINDS,
        traps=4,
        config={"offsets.retention.minutes": offsets.RETENTION_MIN, "offsets.retention.check.interval.ms": 2000},
    ),
    "consumer-groups": Play(
        modern.KINDS,
        traps=0,
        config={
            "group.consumer.session.timeout.ms": 8000,
            "group.consumer.min.session.timeout.ms": 5000,
            "group.consumer.heartbeat.interval.ms": 1500,
            "group.consumer.min.heartbeat.interval.ms": 1000,
        },
        protocol="consumer",
        since=4,
        clients=MODERN,
    ),
    "share-groups": Play(
        shares.KINDS,
        traps=0,
        config=shares.CONFIG,
        protocol="share",
        since=4,
        clients=("java",),
        features={"4.1.0": {"share.version": 1}},
    ),
    "transactions": Play(transactions.KINDS, traps=2),
    "rollouts": Play(rollouts.KINDS, traps=2),
    "stuck": Play((brokers.stuck,), 4, 3, brokers.STUCK_IN_ISR, replicas=brokers.FROZEN, min_insync=2, hit=(0, 3, 6)),
    "stuck-shrunk": Play(
        (brokers.stuck,), 4, 3, brokers.STUCK_SHRUNK, replicas=brokers.FROZEN, min_insync=2, hit=(0, 3, 6)
    ),
    "moves": Play(
        *((brokers.move_by_restart, brokers.move_by_reassignment), 4, 3, brokers.COMMON),
        replicas=brokers.MOVED,
        hit=(0, 2, 3, 5, 6),
    ),
    "unclean": Play((brokers.unclean,), 2, 3, brokers.UNCLEAN, replicas=brokers.UNCLEAN_REPLICAS, hit=(0, 3, 6)),
    "healthy": Play(healthy.KINDS, traps=0),
}

CONFIG = {
    "group.initial.rebalance.delay.ms": 500,
    "group.min.session.timeout.ms": 1000,
    "transaction.state.log.num.partitions": 3,
    "log.index.size.max.bytes": 65_536,
    "num.partitions": 3,
}


async def perform(play_name: str, version: str, seed: int, folder: Path, *, clients: tuple[str, ...] = ()) -> list[str]:
    """Plays it, and leaves `folder`; comes back what went wrong: kinds that failed (their events are not in the ledger), and what
    happened that nobody did. Such a folder is no truth."""
    play, rng = PLAYS[play_name], random.Random(f"{play_name} {version} {seed}")
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    partitions = len(play.replicas) if play.replicas else rng.choice(play.partitions)
    config = {**CONFIG, "offsets.topic.num.partitions": partitions, **play.config}
    kafka = RealKafka(version, play.nodes, config, log_files=True, jvm=JVM, features=play.features.get(version))
    kinds = [*play.kinds, *rng.sample(healthy.KINDS, play.traps)]
    rng.shuffle(kinds)
    failed: list[str] = []
    async with staged(
        kafka, rng, folder, play=play_name, seed=seed, clients=clients or play.clients, offsets_partitions=partitions,
        replicas=play.replicas, offsets_config={"min.insync.replicas": str(play.min_insync)}, protocol=play.protocol,
    ) as stage:  # fmt: skip
        stage.calm = [index for index in stage.calm if index not in play.hit]
        await asyncio.gather(*(_one(stage, kind, at, failed) for at, kind in enumerate(kinds)))
        await stage.leave(running=rng.random() < 0.5, data_topics=rng.random() < 0.6)
    return failed + list(surprises(folder, Ledger.read(folder)))


async def _one(stage: Stage, kind: Kind, at: int, failed: list[str]) -> None:
    stage.draws(f"{at} {kind.__name__}")
    await stage.pass_time(at * STAGGER_S)
    try:
        await kind(stage)
    except Exception as error:
        failed.append(f"{kind.__name__}: {type(error).__name__}: {error}")
        traceback.print_exc()

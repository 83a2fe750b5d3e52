"""The rows of the table: which load, against whom, and what the ratio must be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.systems import System, kafka, kfake, librdkafka_mock

PIPELINED = ("--conns", "8", "--inflight", "16")
ONE_BY_ONE = ("--conns", "64", "--inflight", "1")


@dataclass(frozen=True)
class Goal:
    """``ours / theirs`` must reach ``ratio`` in the row's measure (for times: theirs / ours). ``peers``: names; the fastest counts."""

    peers: tuple[str, ...]
    ratio: float


@dataclass(frozen=True)
class BenchmarkRow:
    """One line of the table in docs/performance.md. ``load`` are kload's arguments; ``measure`` is "req_s", "mb_s" or "wall_ms"."""

    name: str
    title: str
    load: tuple[str, ...]
    peers: tuple[System, ...]
    goals: tuple[Goal, ...]
    measure: str = "req_s"
    disk: bool = False
    timed: bool = True
    """Whether kload runs for a time (else it does a fixed amount of work)."""
    before: tuple[str, ...] = ()
    """A load that fills the broker first, in the same process."""
    as_version: str = ""
    """The Kafka release that the simulator behaves as; "": the default."""

    def without(self, peer: str) -> BenchmarkRow:
        """The row without the peers whose name begins so, and without goals against them alone."""
        peers = tuple(system for system in self.peers if not system.name.startswith(peer))
        goals = tuple(goal for goal in self.goals if not goal.peers[0].startswith(peer))
        return replace(self, peers=peers, goals=goals)


KFAKE = "kfake"
MOCK = "librdkafka mock"
KAFKA_5, KAFKA_0 = "Kafka 4.1.0 linger 5", "Kafka 4.1.0 linger 0"


def _heartbeat() -> list[BenchmarkRow]:
    peers = (kfake(), librdkafka_mock())
    return [
        BenchmarkRow(
            "heartbeat",
            "Heartbeat v4, 8x16",
            ("heartbeat", *PIPELINED),
            peers,
            (Goal((KFAKE,), 4), Goal((MOCK,), 2)),
        ),
        BenchmarkRow("heartbeat-64x1", "Heartbeat v4, 64x1", ("heartbeat", *ONE_BY_ONE), peers, (Goal((KFAKE,), 1.2),)),
    ]


def _commit() -> list[BenchmarkRow]:
    memory, mocked = (kfake(),), (kfake(), librdkafka_mock())
    disk = (kfake(disk=True), kafka(linger_ms=0), kafka(linger_ms=5))
    ten = ("commit", "--partitions", "10")
    return [
        BenchmarkRow(
            "commit",
            "OffsetCommit v8, 10 partitions, 8x16",
            (*ten, *PIPELINED),
            mocked,
            (Goal((KFAKE,), 1.3), Goal((MOCK,), 1)),
        ),
        BenchmarkRow(
            "commit-64x1",
            "OffsetCommit v8, 10 partitions, 64x1",
            (*ten, *ONE_BY_ONE),
            mocked,
            (Goal((KFAKE,), 0.8), Goal((MOCK,), 1)),
        ),
        BenchmarkRow(
            "commit-disk",
            "OffsetCommit v8, 10 partitions, on disk, 8x16",
            (*ten, *PIPELINED),
            disk,
            (Goal((KFAKE,), 4), Goal((KAFKA_0, KAFKA_5), 3)),
            disk=True,
        ),
        BenchmarkRow(
            "commit-disk-64x1",
            "OffsetCommit v8, 10 partitions, on disk, 64x1",
            (*ten, *ONE_BY_ONE),
            disk,
            (Goal((KFAKE,), 2.5), Goal((KAFKA_0, KAFKA_5), 3)),
            disk=True,
        ),
        BenchmarkRow(
            "commit-1",
            "OffsetCommit v8, 1 partition, 8x16",
            ("commit", "--partitions", "1", *PIPELINED),
            memory,
            (Goal((KFAKE,), 1.5),),
        ),
        BenchmarkRow(
            "offset-fetch",
            "OffsetFetch v8, 10 partitions, 8x16",
            ("offset-fetch", "--partitions", "10", *PIPELINED),
            memory,
            (Goal((KFAKE,), 1.3),),
        ),
    ]


def _data() -> list[BenchmarkRow]:
    produce = ("produce", "--records", "100", "--size", "100", *PIPELINED)
    return [
        BenchmarkRow(
            "connect",
            "ApiVersions + Metadata, new connection",
            ("connect", "--conns", "8"),
            (kfake(),),
            (Goal((KFAKE,), 0.8),),
        ),
        BenchmarkRow(
            "produce",
            "Produce, 100 x 100 B batches",
            (*produce, "--count", "30000"),
            (kfake(), librdkafka_mock()),
            (Goal((KFAKE,), 1.2), Goal((MOCK,), 1)),
            measure="mb_s",
            timed=False,
        ),
        BenchmarkRow(
            "fetch",
            "Fetch back, 1 MiB at a time",
            ("fetch", "--conns", "8", "--max-bytes", str(1 << 20)),
            (kfake(), kafka()),
            (Goal((KFAKE,), 3), Goal((KAFKA_5,), 1)),
            measure="mb_s",
            before=(*produce, "--count", "20000"),
        ),
    ]


def _transactions() -> list[BenchmarkRow]:
    def row(name: str, flow: int) -> BenchmarkRow:
        load = ("transaction", "--flow", str(flow), "--conns", "8", "--records", "10")
        title = f"a transaction of a batch and a group's offset, version {flow}, 8x1"
        return BenchmarkRow(name, title, load, (kfake(),), (Goal((KFAKE,), 1),))

    return [row("transaction", 2), row("transaction-1", 1)]


def _rebalance(members: int) -> BenchmarkRow:
    return BenchmarkRow(
        f"rebalance-{members}",
        f"one joins a stable group of {members:,}",
        ("rebalance", "--members", str(members), "--rounds", "5"),
        (kfake(),),
        (Goal((KFAKE,), 1),),
        measure="wall_ms",
        timed=False,
    )


def _consumer_groups() -> list[BenchmarkRow]:
    """Heartbeats and rebalances of consumer groups (KIP-848)."""

    def rebalance(members: int) -> BenchmarkRow:
        partitions = ("--topic", "wide", "--partitions", str(2 * members))
        return BenchmarkRow(
            f"consumer-rebalance-{members}",
            f"one joins a reconciled consumer group of {members:,}",
            ("consumer-rebalance", "--members", str(members), *partitions, "--rounds", "5"),
            (kfake(),),
            (Goal((KFAKE,), 1),),
            measure="wall_ms",
            timed=False,
        )

    heartbeats = [
        BenchmarkRow(
            name, f"ConsumerGroupHeartbeat v1, {title}", ("consumer-heartbeat", *load), (kfake(),), (Goal((KFAKE,), 1),)
        )
        for name, title, load in (
            ("consumer-heartbeat", "8x16", PIPELINED),
            ("consumer-heartbeat-64x1", "64x1", ONE_BY_ONE),
        )
    ]
    return [*heartbeats, *map(rebalance, (10, 100, 1000))]


def _share_groups() -> list[BenchmarkRow]:
    """Reading and acknowledging in share groups (KIP-932)."""
    return [
        BenchmarkRow(
            "share",
            "ShareFetch of 100 records that accepts the 100 before, 8x1",
            ("share", "--conns", "8", "--records", "100"),
            (kfake(),),
            (Goal((KFAKE,), 1),),
            before=("produce", "--records", "100", "--size", "100", *PIPELINED, "--count", "40000"),
            as_version="4.4",
        )
    ]


def rows() -> Sequence[BenchmarkRow]:
    """All rows, in the order in which they are printed."""
    rebalances = map(_rebalance, (10, 100, 500, 1000))
    return [
        *_heartbeat(),
        *_commit(),
        *_data(),
        *_transactions(),
        *rebalances,
        *_consumer_groups(),
        *_share_groups(),
    ]

"""A stream on the directory of a broker that works: segments grow, roll and are cleaned, and every record comes once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.metadata.topics import OFFSETS_TOPIC
from broker_sim.pipeline.offset_logs import find_logs
from broker_sim.pipeline.offsets_source import OffsetsOptions, OffsetsStream
from broker_sim.pipeline.schemas import OFFSET_LOG
from kafka_wire.errors import Err
from tests.conformance.driver import Kafka, create_topic, offsets_topic_ready, topic_known
from tests.importing.past import offsets_of
from tests.support.real_kafka import RealKafka

GROUPS = ("billing", "audit", "mail")
COLUMNS = ("log_partition", "log_offset", "kind", "group", "partition", "committed_offset")
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "offsets.topic.segment.bytes": 1 << 14,
    "log.cleaner.backoff.ms": 100,
    "log.cleaner.min.cleanable.ratio": 0.01,
}
ROUNDS = 150


class Follower:
    """A stream's reader, driven as Spark drives it, with a new one now and then as after a restart."""

    def __init__(self, directory: Path) -> None:
        self.options = OffsetsOptions.of({"path": str(directory)})
        self.table = OFFSET_LOG.only(COLUMNS)
        self.stream = OffsetsStream(self.options, self.table)
        self.at: dict[str, int] = {}
        self.rows: list[dict[str, Any]] = []
        self.files: set[str] = set()
        """Segments that were ever there."""

    def poll(self) -> None:
        found = find_logs([*self.options.paths])
        self.files |= {segment.path for log in found.logs for segment in log.segments}
        end = self.stream.latestOffset(self.at)
        for share in self.stream.partitions(self.at, end):
            for rows in self.stream.read(share):
                self.rows += rows.to_pylist()
        self.at = end

    def restart(self) -> None:
        self.stream = OffsetsStream(self.options, self.table)

    def cleaned(self) -> int:
        """Return the number of seen segments that have been deleted."""
        return sum(not Path(path).exists() for path in self.files)


async def follow(hand: Kafka, directory: Path, maintain: Callable[[], Awaitable[None]]) -> tuple[Follower, int]:
    """Groups commit, the stream is polled; until all is committed and something has been cleaned. Rounds are given back."""
    await create_topic(hand.watch, "orders", 2)
    await topic_known(hand.watch, "orders", 2)
    await offsets_topic_ready(hand.watch)
    for group in GROUPS:
        await offsets_of(await hand.wire(), group)
    follower = Follower(directory)
    deadline, number = time.monotonic() + 60, 0
    while number < ROUNDS or not follower.cleaned():
        assert time.monotonic() < deadline, f"waited 60 s for the cleaner; {number} commits of each group were made"
        for group in GROUPS:
            errors = await hand.commit({("orders", p): (number, "x" * 200) for p in range(2)}, group=group)
            assert set(errors.values()) == {Err.NONE}
        if number % 5 == 0:
            await asyncio.to_thread(follower.poll)
        if number % 40 == 7:
            follower.restart()
        if number % 20 == 19:
            await maintain()
        number += 1
    follower.poll()
    return follower, number


def judge(follower: Follower, rounds: int) -> None:
    places = Counter((row["log_partition"], row["log_offset"]) for row in follower.rows)
    assert set(places.values()) == {1}
    assert follower.cleaned() > 0
    seen: dict[tuple[str, int], list[int]] = {}
    for row in follower.rows:
        if row["kind"] == "commit":
            seen.setdefault((row["group"], row["partition"]), []).append(row["committed_offset"])
    assert set(seen) == {(group, partition) for group in GROUPS for partition in range(2)}
    for numbers in seen.values():
        assert numbers == sorted(numbers)
        assert numbers[-1] == rounds - 1
        assert len(numbers) > rounds // 2  # what the cleaner took before a poll came is gone; most is not


@pytest.mark.real_kafka
async def test_on_a_real_broker_with_its_cleaner() -> None:
    with RealKafka("3.4.0", config=SETTINGS) as kafka:
        hand = Kafka("3.4", "kafka", {1: kafka.bootstrap}, "unused")
        try:
            judge(*await follow(hand, kafka.nodes[1].data_dir, lambda: asyncio.sleep(0)))
        finally:
            await hand.close()


async def test_on_the_simulator_with_its_cleaner(tmp_path: Path) -> None:
    settings = {name: value for name, value in SETTINGS.items() if name != "log.cleaner.backoff.ms"}
    async with Cluster(data_dir=tmp_path, as_version="3.4", config=settings) as cluster:

        async def maintain() -> None:
            cluster.state.run_log_maintenance(cluster.state.clock.now_ms() + 1)

        hand = Kafka("3.4", "simulator", {1: cluster.bootstrap}, "unused")
        try:
            judge(*await follow(hand, tmp_path, maintain))
        finally:
            await hand.close()
    assert (tmp_path / f"{OFFSETS_TOPIC}-0").is_dir()

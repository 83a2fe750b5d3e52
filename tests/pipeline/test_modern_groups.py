"""KIP-848 groups in the tables `rebalances`, `member_churn` and `offset_regressions`: one script, at a real broker and at ours."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.cli.main import main
from broker_sim.pipeline.duck.session import DuckSession
from broker_sim.pipeline.schemas import OFFSET_LOG
from broker_sim.pipeline.tables.events import EVENTS
from broker_sim.pipeline.tables.group_states import group_states
from broker_sim.pipeline.tables.member_churn import memberships
from broker_sim.pipeline.tables.rebalances import rebalances
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.conformance.driver import create_topic, offsets_topic_ready, topic_known
from tests.importing.past import copy_of
from tests.pipeline.offsets import Log
from tests.support.real_kafka import RealKafka
from tests.support.wire import DEADLINE_S, Wire

GROUP = "billing"
AT_ONCE = {"4.1": {}, "4.4": {"group.consumer.assignment.interval.ms": 0}}


class Member:
    """A consumer of KIP-848, as raw requests."""

    def __init__(self, wire: Wire, name: str, instance: str | None = None) -> None:
        self.wire, self.name, self.instance = wire, name, instance
        self.epoch = 0
        self.has: list[TopicPartitions] = []

    async def beat(self) -> None:
        first = self.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            GROUP,
            self.name,
            self.epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=30_000 if first else -1,
            subscribed_topic_names=["orders"] if first else None,
            topic_partitions=self.has,
        )
        answer = await self.wire.send(request, 1)
        deadline_s = time.monotonic() + DEADLINE_S
        while answer.error_code in (
            Err.NOT_COORDINATOR,
            Err.COORDINATOR_NOT_AVAILABLE,
            Err.COORDINATOR_LOAD_IN_PROGRESS,
        ):
            assert time.monotonic() < deadline_s, f"waited {DEADLINE_S} s for the group's coordinator: {answer}"
            await asyncio.sleep(0.05)
            answer = await self.wire.send(request, 1)
        assert answer.error_code == Err.NONE, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.has = [TopicPartitions(one.topic_id, one.partitions) for one in answer.assignment.topic_partitions]

    async def leave(self, epoch: int) -> None:
        request = ConsumerGroupHeartbeatRequest(GROUP, self.name, epoch, instance_id=self.instance)
        assert (await self.wire.send(request, 1)).error_code == Err.NONE

    async def commit(self, offset: int) -> None:
        rows = [OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, offset, -1, "")])]
        answer = await self.wire.send(OffsetCommitRequest(GROUP, self.epoch, self.name, topics=rows), 9)
        assert answer.topics[0].partitions[0].error_code == Err.NONE


async def script(bootstrap: str) -> None:
    """Two members, the second one static; a commit that goes back over an epoch, and one within; a static member comes back under
    another id; the first leaves."""
    wire = await Wire.connect(bootstrap)
    try:
        await create_topic(wire.send, "orders", 4)
        await topic_known(wire.send, "orders", 4)
        await offsets_topic_ready(wire.send)
        ann, bob, again = Member(wire, "ann"), Member(wire, "bob", "web"), Member(wire, "bob-2", "web")
        await ann.beat()
        await ann.commit(100)
        for member in (bob, ann, ann, bob):
            await member.beat()
        await ann.commit(60)
        await ann.commit(40)
        await bob.leave(-2)
        await again.beat()
        await ann.leave(-1)
        await again.beat()
    finally:
        await wire.close()


def told(data: Path, out: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tables."""
    from pyarrow import parquet

    words = ["--engine", "duckdb", "--input", str(data), "--out", str(out), "--quiet"]
    assert main(["pipeline", "run", *words]) == 0
    names = ("rebalances", "member_churn", "offset_regressions")
    return {name: parquet.read_table(out / "tables" / name).to_pylist() for name in names}


def check(tables: dict[str, list[dict[str, Any]]]) -> None:
    rebalances = sorted(tables["rebalances"], key=lambda row: row["generation"])
    assert [(row["kind"], row["cause"], row["size_before"], row["size_after"], row["end"]) for row in rebalances] == [
        ("consumer", "join", 0, 1, "stable"),
        ("consumer", "join", 1, 2, "stable"),
        ("consumer", "departed", 2, 1, "stable"),
    ]
    (churn,) = tables["member_churn"]
    counted = ("members", "static_members", "joins", "replacements", "departures", "present", "tenures", "source")
    assert [churn[name] for name in counted] == [3, 1, 2, 1, 1, 1, 2, "log"]
    back = sorted(tables["offset_regressions"], key=lambda row: row["log_offset"])
    epochs = [row["generation"] for row in rebalances]
    assert [(row["by"], row["how"], row["from_generation"], row["to_generation"], row["members"]) for row in back] == [
        (40, "rebalance", epochs[0], epochs[1], 2),
        (20, "rewind", epochs[1], epochs[1], 2),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("as_version", ["4.1", "4.4"])
def test_at_ours(as_version: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with Cluster(data_dir=tmp_path / "data", as_version=as_version, config=AT_ONCE[as_version]) as kafka:
            await script(kafka.bootstrap)

    asyncio.run(play())
    check(told(tmp_path / "data", tmp_path / "out"))


@pytest.mark.real_kafka
def test_at_a_real_one(tmp_path: Path) -> None:
    with RealKafka("4.1.0") as kafka:
        asyncio.run(script(kafka.bootstrap))
        kafka.nodes[1].stop()
        copy_of(kafka.nodes[1].data_dir, tmp_path / "data")
    check(told(tmp_path / "data", tmp_path / "out"))


# ------------------------------------------------------------------------------------------------ by hand


class Records(Log):
    """Records of a KIP-848 group, too."""

    def told(
        self, at: int, what: str, member: str | None = None, epoch: int | None = None, *, gone: bool = False
    ) -> None:
        detail = None if gone else '{"clientId": "app", "memberEpoch": 9, "state": 0}'
        self.add(
            "other", at, group=GROUP, record_type=f"ConsumerGroup{what}", member=member, generation=epoch, detail=detail
        )

    def joins(self, at: int, member: str, epoch: int) -> None:
        self.told(at, "MemberMetadata", member)
        self.told(at, "Metadata", epoch=epoch)


def of_members(log: Log) -> list[tuple[Any, ...]]:
    duck = DuckSession()
    rows = memberships(EVENTS.frame(duck), OFFSET_LOG.frame(duck, log.rows)).orderBy("member").collect()
    return [(row["member"], row["joined_ms"] is not None, row["left_ms"] is not None) for row in rows]


def test_members_of_a_converted_group_stay() -> None:
    log = Records()
    log.generation(0, 1, ["a"])
    log.add("group_tombstone", 1, group=GROUP)
    log.joins(1, "a", 2)
    log.joins(2, "b", 3)
    assert of_members(log) == [("a", True, False), ("b", True, False)]
    log.told(3, "MemberMetadata", "b", gone=True)
    log.told(3, "MemberMetadata", "a", gone=True)
    log.told(3, "Metadata", gone=True)
    log.generation(3, 4, ["a"])
    assert of_members(log) == [("a", True, False), ("b", True, True)]


def test_a_converted_group_did_not_begin_without_members() -> None:
    log = Records()
    log.generation(0, 1, ["a"])
    log.generation(1, 2, ["a"])
    log.add("group_tombstone", 2, group=GROUP)
    log.joins(2, "a", 2)
    log.joins(3, "b", 3)
    assert of_members(log) == [("a", True, False), ("b", True, False)]


def test_a_deleted_group_has_no_members() -> None:
    log = Records()
    log.joins(0, "a", 1)
    log.told(1, "MemberMetadata", "a", gone=True)
    log.told(1, "Metadata", gone=True)
    states = group_states(OFFSET_LOG.frame(DuckSession(), log.rows)).orderBy("log_offset").collect()
    assert [(row["kind"], row["generation"]) for row in states] == [("group", 1), ("group_tombstone", None)]
    assert of_members(log) == [("a", True, True)]


def test_remaining_records_after_compaction_show_the_members() -> None:
    """The group's record is older than those of its members, and of an epoch above the first."""
    log = Records()
    log.told(0, "Metadata", epoch=7)
    log.told(1, "MemberMetadata", "a")
    log.told(2, "CurrentMemberAssignment", "a")
    assert of_members(log) == [("a", False, False)]


def test_an_epoch_whose_last_member_departs_before_it_reaches_it_was_never_stable() -> None:
    """Members of a share group need not heartbeat before their session ends."""
    log = Records()
    log.joins(0, "a", 1)
    log.told(0, "CurrentMemberAssignment", "a")
    log.joins(1, "b", 2)
    for at, member, epoch in ((2, "a", 3), (5, "b", 4)):
        log.told(at, "CurrentMemberAssignment", member, gone=True)
        log.told(at, "MemberMetadata", member, gone=True)
        log.told(at, "Metadata", epoch=epoch)
    duck = DuckSession()
    found = rebalances(EVENTS.frame(duck), OFFSET_LOG.frame(duck, log.rows)).orderBy("generation").collect()
    assert [(row["generation"], row["end"]) for row in found] == [
        (1, "stable"),
        (2, "failed"),
        (3, "failed"),
        (4, "empty"),
    ]

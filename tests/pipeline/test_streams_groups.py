"""Streams groups (KIP-1071) in the tables and findings: one script, at a real broker and at ours; and what a log tells is what the
journal tells."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from broker_sim.api.cluster import Cluster
from broker_sim.cli.main import main
from broker_sim.pipeline.finding import Finding
from broker_sim.pipeline.findings import findings
from kafka_wire.errors import Err
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k88_streams_group_heartbeat import Subtopology
from tests.conformance.driver import create_topic, offsets_topic_ready, topic_known
from tests.importing.past import copy_of
from tests.pipeline.facts import facts
from tests.support.real_kafka import RealKafka
from tests.support.streams import COUNTS, GROUP, PLAIN, App
from tests.support.wire import DEADLINE_S, Wire

AT_ONCE = {"group.streams.initial.rebalance.delay.ms": 0, "group.streams.assignment.interval.ms": 0}
_LOADS = (Err.NOT_COORDINATOR, Err.COORDINATOR_NOT_AVAILABLE, Err.COORDINATOR_LOAD_IN_PROGRESS)


async def joined(bootstrap: str, name: str, subtopologies: list[Subtopology], instance: str | None = None) -> App:
    """A member that is in, however long the coordinator takes to load."""
    deadline_s = time.monotonic() + DEADLINE_S
    app = await App.joined(bootstrap, name, subtopologies, instance=instance)
    while app.epoch == 0:
        assert time.monotonic() < deadline_s, f"waited {DEADLINE_S} s for the group's coordinator"
        await asyncio.sleep(0.05)
        answer = await app.beat()
        assert answer.error_code in (Err.NONE, *_LOADS), answer
    return app


async def script(bootstrap: str, waits: Callable[[float], Awaitable[object]]) -> None:
    """An application whose internal topic is created on the way; a second member, which waits for the first one's tasks; a static one
    that comes back under another id; the first leaves."""
    wire = await Wire.connect(bootstrap)
    await create_topic(wire.send, "orders", 4)
    await topic_known(wire.send, "orders", 4)
    await offsets_topic_ready(wire.send)
    ann = await joined(bootstrap, "ann", COUNTS)
    deadline_s = time.monotonic() + DEADLINE_S
    while not ann.tasks["active_tasks"]:
        assert time.monotonic() < deadline_s, f"waited {DEADLINE_S} s for the internal topic"
        await waits(0.05)
        await ann.beat()
    bob = await joined(bootstrap, "bob", COUNTS, "web")
    await ann.beat(revokes=False)
    await waits(12.0)
    for app in (ann, bob):
        await app.beat()
    await bob.leave(-2)
    again = await joined(bootstrap, "bob-2", COUNTS, "web")
    await ann.leave()
    await again.beat()
    for app in (ann, bob, again):
        await app.wire.close()
    await wire.close()


def told(data: Path, out: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tables."""
    words = ["--engine", "duckdb", "--input", str(data), "--out", str(out), "--quiet"]
    assert main(["pipeline", "run", *words]) == 0
    names = ("rebalances", "member_churn", "groups")
    return {name: parquet.read_table(out / "tables" / name).to_pylist() for name in names}


def found(tables: dict[str, list[dict[str, Any]]], kind: str) -> Finding:
    rows = tables["rebalances"]
    (one,) = [one for one in findings(facts(rebalances=rows, counts={"rebalances": len(rows)})) if one.kind == kind]
    return one


def check(tables: dict[str, list[dict[str, Any]]], ms: int) -> None:
    """``ms``: how long the tasks were held on to."""
    rebalances = sorted(tables["rebalances"], key=lambda row: row["generation"])
    assert {row["kind"] for row in rebalances} == {"streams"}
    assert [(row["cause"], row["size_before"], row["size_after"], row["topology_ready"]) for row in rebalances] == [
        ("join", 0, 1, False),
        ("metadata change", 1, 1, True),
        ("join", 1, 2, True),
        ("departed", 2, 1, True),
    ]
    moved = rebalances[2]
    assert (moved["revoked_by"], moved["revoked_tasks"]) == ("ann", ["0_2", "0_3"])
    assert moved["revoked_ms"] >= ms
    assert [row["revoked_by"] for row in rebalances].count(None) == 3
    (churn,) = tables["member_churn"]
    counted = ("members", "static_members", "joins", "replacements", "departures", "present", "source")
    assert [churn[name] for name in counted] == [3, 1, 2, 1, 1, 1, "log"]
    (group,) = tables["groups"]
    assert (group["group"], group["kind"], group["state"], group["members"]) == (GROUP, "streams", "members", 1)


@pytest.mark.slow
def test_at_ours(tmp_path: Path) -> None:
    explained = ""

    async def play() -> None:
        nonlocal explained
        data = tmp_path / "data"
        async with Cluster(data_dir=data, as_version="4.4", clock="manual", journal=True, config=AT_ONCE) as kafka:
            await script(kafka.bootstrap, lambda s: kafka.time.advance(s))
            explained = " ".join(kafka.group(GROUP).explain().split())

    asyncio.run(play())
    tables = told(tmp_path / "data", tmp_path / "out")
    check(tables, 12_000)
    assert (
        "ann kept tasks 0_2 and 0_3 for 12 s after it was asked to revoke them." in found(tables, "slow rebalance").text
    )
    # the same of the journal, which tells the two processes with that group.instance.id apart
    assert "web (bob) waited 12 s for tasks 0_2 and 0_3, which ann had not revoked" in explained
    assert "MISSING_INTERNAL_TOPICS" in explained


@pytest.mark.real_kafka
def test_at_a_real_one(tmp_path: Path) -> None:
    with RealKafka("4.4.0", config=AT_ONCE) as kafka:
        asyncio.run(script(kafka.bootstrap, lambda s: asyncio.sleep(0)))
        kafka.nodes[1].stop()
        copy_of(kafka.nodes[1].data_dir, tmp_path / "data")
    check(told(tmp_path / "data", tmp_path / "out"), 0)


@pytest.mark.slow
def test_a_topology_without_its_topics_is_a_finding(tmp_path: Path) -> None:
    explained = ""

    async def play() -> None:
        nonlocal explained
        data = tmp_path / "data"
        async with Cluster(data_dir=data, as_version="4.4", clock="manual", journal=True, config=AT_ONCE) as kafka:
            kafka.state.ensure_offsets_topic()
            group = kafka.group(GROUP)
            app = await App.joined(kafka.bootstrap, "ann", PLAIN)
            await kafka.time.advance("30s")
            kafka.create_topic("orders", 2)
            await app.beat()
            explained = " ".join(group.explain().split())
            await app.wire.close()

    asyncio.run(play())
    unready = found(told(tmp_path / "data", tmp_path / "out"), "not ready")
    assert unready.severity == "warn"
    assert unready.text.startswith("g had no task assigned for 30 s from ")
    assert "no task is assigned: MISSING_SOURCE_TOPICS, source topics orders are missing" in explained


@pytest.mark.slow
def test_a_client_that_only_heartbeats_and_reads_is_known_by_its_group(tmp_path: Path) -> None:
    """Exactly once, the offsets are committed by a producer, which has another client id."""

    async def play() -> None:
        async with Cluster(as_version="4.4", clock="manual", journal=tmp_path / "journal", config=AT_ONCE) as kafka:
            kafka.state.ensure_offsets_topic()
            kafka.create_topic("orders", 1)
            kafka.topic("orders").fill(20)
            app, producer = await App.joined(kafka.bootstrap, "ann", PLAIN), await Wire.connect(kafka.bootstrap)
            row = OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, 3, -1, "")])
            await producer.send(OffsetCommitRequest(GROUP, app.epoch, "ann", topics=[row]), 9)
            fetch = FetchRequest(topics=[FetchTopic("orders", partitions=[FetchPartition(0, fetch_offset=9)])])
            await app.wire.send(fetch, 4)
            for wire in (app.wire, producer):
                await wire.close()

    asyncio.run(play())
    words = ["--engine", "duckdb", "--journal", str(tmp_path / "journal"), "--out", str(tmp_path / "out"), "--quiet"]
    assert main(["pipeline", "run", *words]) == 0
    (skip,) = parquet.read_table(tmp_path / "out" / "tables" / "offset_skips").to_pylist()
    assert [skip[name] for name in ("group", "client_id", "from_offset", "to_offset")] == [GROUP, "ann", 3, 9]

"""`rebalances.cause_changes`: what has changed where no member came or went. Explanations say the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from broker_sim import Cluster
from broker_sim.cli.main import main
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from tests.explain.test_cooperative import Cooperative, rebalance
from tests.handles.members import TOPIC


def told(journal: Path, out: Path) -> list[tuple[Any, ...]]:
    words = ["--engine", "duckdb", "--journal", str(journal), "--out", str(out), "--quiet"]
    assert main(["pipeline", "run", *words]) == 0
    rows = sorted(parquet.read_table(out / "tables" / "rebalances").to_pylist(), key=lambda row: row["generation"])
    return [(row["cause"], row["who_clients"], row["cause_changes"]) for row in rows]


@pytest.mark.slow
def test_the_steps_of_a_cooperative_rebalance_and_a_topic_that_grows(tmp_path: Path) -> None:
    explained = ""

    async def play() -> None:
        nonlocal explained
        config = {"group.initial.rebalance.delay.ms": 0}
        async with Cluster(topics={TOPIC: 4}, clock="manual", config=config, journal=tmp_path / "journal") as kafka:
            a, b = [await Cooperative.connect(kafka, client_id=name) for name in ("app-1", "app-2")]
            asks = MetadataRequest([MetadataRequestTopic(name=TOPIC)])
            await a.wire.send(asks, 7)
            await a.enter((0, 1, 2, 3))
            a.owned = (0, 1, 2, 3)
            b.member_id = (await b.join()).member_id
            await rebalance(b, a, {a: (0, 1), b: ()})
            await kafka.time.advance("1s")
            await rebalance(a, b, {a: (0, 1), b: (2, 3)})
            await kafka.time.advance("1s")
            kafka.topic(TOPIC).grow_to(6)
            await a.wire.send(asks, 7)
            await rebalance(a, b, {a: (0, 1, 4), b: (2, 3, 5)})
            explained = " ".join(kafka.group("billing").explain().split())
            for member in (a, b):
                await member.wire.close()

    asyncio.run(play())
    assert told(tmp_path / "journal", tmp_path / "out") == [
        ("join", ["app-1"], None),
        ("join", ["app-2"], None),
        ("metadata change", ["app-1"], ["app-1: revoked orders-2, orders-3"]),
        ("metadata change", ["app-1"], ["orders: 4 to 6 partitions"]),
    ]
    assert "app-1 at /127.0.0.1 joined again with orders-2 and orders-3 revoked" in explained
    assert "app-1 at /127.0.0.1 joined again, as topics had more partitions: orders (4 to 6 partitions)" in explained

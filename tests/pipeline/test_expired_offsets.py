"""A group whose offsets expired begins anew: who says why, with the journal beside the log, and alone. (librdkafka #1442)"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.cli.main import main
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from tests.handles.members import TOPIC, Member
from tests.pipeline.journal_runs import leave
from tests.support.sampling import sampled

CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.retention.minutes": 2,
    "offsets.retention.check.interval.ms": 10_000,
}


async def read_all(kafka: Cluster) -> Member:
    """A member reads from the log's beginning, and commits its end."""
    member = await Member.connect(kafka, client_id="app")
    await member.enter((0,))
    row = FetchTopic(TOPIC, partitions=[FetchPartition(0, fetch_offset=0)])
    await member.wire.send(FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=[row]), 11)
    await member.commit(50)
    return member


@pytest.mark.parametrize("source", sampled(["data", "journal"], 2))
def test_records_read_again_had_been_committed(source: str, tmp_path: Path) -> None:
    async def play() -> None:
        places: dict[str, Any] = {"data_dir": tmp_path / "data", "journal": tmp_path / "journal"}
        async with Cluster(topics={TOPIC: 1}, clock="manual", config=CONFIG, **places) as kafka:
            kafka.topic(TOPIC).fill(50)
            first = await read_all(kafka)
            await kafka.time.advance("10s")
            await leave(first)
            await kafka.time.advance("3min")
            second = await read_all(kafka)
            for member in (first, second):
                await member.wire.close()

    asyncio.run(play())
    out = tmp_path / "out"
    assert (
        main(["pipeline", "run", "--engine", "duckdb", "--input", str(tmp_path / source), "--out", str(out), "--quiet"])
        == 0
    )
    found = {one["kind"]: one for one in json.loads((out / "findings.json").read_text())["findings"]}
    assert (
        "they expired (offsets.retention.minutes), 2 min 10 s after the last commit" in found["deleted offsets"]["text"]
    )
    assert found["duplicates"]["advice"].startswith("The committed offset had been deleted before")
    # offsets that only a journal's numbers stand for are no evidence
    assert bool(found["deleted offsets"]["evidence"]) is (source == "data")

"""Groups by epochs (KIP-848, share and streams groups) in the tables of a journal: the same rows as of the log of the same run, and
besides what a log doesn't know."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from broker_sim import Cluster
from broker_sim.cli.main import main
from broker_sim.pipeline.assignments import TYPES, assignments
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.handles.members import Member as Classic
from tests.handles.test_consumer_groups import Consumer
from tests.pipeline.test_modern_groups import AT_ONCE, script
from tests.pipeline.test_streams_groups import AT_ONCE as STREAMS_AT_ONCE
from tests.pipeline.test_streams_groups import script as streams_script
from tests.support.wire import Wire

Row = dict[str, Any]
TABLES = ("rebalances", "member_churn", "groups", "offset_resets", "offset_regressions")
ONE_SOURCE = {
    "rebalances": (
        *("cause", "cause_detail", "cause_certainty", "cause_changes", "log_offset", "missing_before", "bounces"),
    ),
    "member_churn": ("leaves", "expirations", "static_expirations", "timeouts"),
    "groups": ("state_offset", "generations", "protocol_type"),
    "offset_regressions": ("log_offset", "before_log_offset"),
}
"""Columns that a journal alone, or a log alone, can fill, or that are numbers of its records."""


IN_ORDER = ("group", "generation", "started_ms", "partition", "to_offset")


def tables(source: Path, out: Path) -> dict[str, list[Row]]:
    """The tables of a journal, or of a log, alone."""
    words = ["--engine", "duckdb", "--input", str(source), "--out", str(out), "--run-id", "run", "--quiet"]
    assert main(["pipeline", "run", *words]) == 0
    return {name: parquet.read_table(out / "tables" / name).to_pylist() for name in (*TABLES, "offset_log")}


def both(
    tmp_path: Path, play: Callable[[Cluster], Awaitable[object]], **options: Any
) -> tuple[dict[str, list[Row]], dict[str, list[Row]]]:
    """Return the tables of a run's journal, and those of its log."""

    async def run() -> None:
        places = {"data_dir": tmp_path / "run" / "data", "journal": tmp_path / "run" / "journal"}
        async with Cluster(clock="manual", **places, **options) as kafka:
            await play(kafka)

    asyncio.run(run())
    shutil.copytree(tmp_path / "run" / "data", tmp_path / "log" / "data")
    return tables(tmp_path / "run" / "journal", tmp_path / "of-journal"), tables(
        tmp_path / "log" / "data", tmp_path / "of-log"
    )


def known(column: str, value: Any) -> Any:
    """Return a column's value as a log has it: without the reason why an epoch waited for members that were removed."""
    if column != "waits" or value is None:
        return value
    return [{name: wait[name] for name in ("ms", "who", "clients")} for wait in value]


def alike(told: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Without what one of the sources alone has."""
    found: dict[str, list[Row]] = {}
    for name, rows in told.items():
        left_out = {"source", *ONE_SOURCE.get(name, ())}
        some = [
            {column: known(column, value) for column, value in row.items() if column not in left_out} for row in rows
        ]
        found[name] = sorted(some, key=lambda row: [str(row.get(column)) for column in IN_ORDER])
    return found


def same(journal: dict[str, list[Row]], log: dict[str, list[Row]]) -> None:
    ours, theirs = alike(journal), alike(log)
    for name in TABLES:
        assert [list(row.items()) for row in ours[name]] == [list(row.items()) for row in theirs[name]], name
    assert assigned(journal) == assigned(log) != []


def assigned(told: dict[str, list[Row]]) -> list[tuple[Any, ...]]:
    """Return client, times, and partitions that it had, was to revoke, or waited for; without topics, which a log has by ids."""
    log = sorted(told["offset_log"], key=lambda row: (row["log_partition"], row["log_offset"]))
    rows = assignments([row for row in log if re.match(TYPES, row["record_type"] or "")], {})
    found = []
    for row in rows:
        units = [sorted((unit.number, unit.role) for unit in row[name]) for name in ("has", "revoking", "missing")]
        found.append((row["client"], row["from_ms"], row["to_ms"], *units))
    return sorted(found, key=lambda row: (row[1], row[0]))


def causes(told: dict[str, list[Row]]) -> list[tuple[Any, ...]]:
    rows = sorted(told["rebalances"], key=lambda row: row["started_ms"])
    return [(row["kind"], row["cause"], row["who_clients"], row["cause_changes"]) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("as_version", ["4.1", "4.4"])
def test_a_consumer_group(as_version: str, tmp_path: Path) -> None:
    async def play(kafka: Cluster) -> None:
        await script(kafka.bootstrap)

    journal, log = both(tmp_path, play, as_version=as_version, config=AT_ONCE[as_version])
    same(journal, log)
    assert [row[1] for row in causes(journal)] == ["join", "join", "leave"]
    assert [row[1] for row in causes(log)] == ["join", "join", "departed"]
    (churn,) = journal["member_churn"]
    assert (churn["leaves"], churn["expirations"]) == (1, 0)
    assert journal["offset_resets"] == []


@pytest.mark.slow
def test_a_streams_group(tmp_path: Path) -> None:
    async def play(kafka: Cluster) -> None:
        await streams_script(kafka.bootstrap, lambda s: kafka.time.advance(s))

    journal, log = both(tmp_path, play, as_version="4.4", config=STREAMS_AT_ONCE)
    same(journal, log)
    assert [row[1] for row in causes(journal)] == ["join", "metadata change", "join", "leave"]


@pytest.mark.slow
def test_a_share_group(tmp_path: Path) -> None:
    async def play(kafka: Cluster) -> None:
        kafka.state.ensure_offsets_topic()
        wire = await Wire.connect(kafka.bootstrap, client_id="app")

        async def beat(member: str, epoch: int) -> int:
            topics = ["orders"] if epoch == 0 else None
            answer = await wire.send(ShareGroupHeartbeatRequest("shared", member, epoch, None, topics), 1)
            assert answer.error_code == 0
            return int(answer.member_epoch)

        for member in ("ann", "bob"):
            await beat(member, 0)
            await kafka.time.advance("1s")
        await beat("ann", -1)
        await kafka.time.advance("50s", expire=["app"])
        await wire.close()

    journal, log = both(tmp_path, play, as_version="4.2", topics={"orders": 2})
    same(journal, log)
    assert [row[:2] for row in causes(journal)] == [
        ("share", "join"),
        ("share", "join"),
        ("share", "leave"),
        ("share", "session timeout"),
    ]


@pytest.mark.slow
def test_a_classic_group_that_is_upgraded_and_downgraded(tmp_path: Path) -> None:
    async def play(kafka: Cluster) -> None:
        old = await Classic.connect(kafka, group="g", client_id="old")
        await old.enter((0, 1, 2, 3))
        await kafka.time.advance("1s")
        new = await Consumer.joined(kafka, "A")
        await kafka.time.advance("1s")
        new.epoch, new.owned = -1, []
        await new.beat()
        await kafka.time.advance("1s")
        await old.enter((0, 1, 2, 3))
        for wire in (old.wire, new.wire):
            await wire.close()

    config = {"group.initial.rebalance.delay.ms": 0}
    journal, log = both(tmp_path, play, as_version="4.1", topics={"orders": 4}, config=config)
    expected = [
        ("classic", 0, 1, "join", ["old"], 0, 1),
        ("consumer", 1, 2, "join", ["app-A"], 1, 2),
        ("classic", 2, 3, "downgrade", ["app-A"], 2, 1),
    ]
    names = ("kind", "generation_before", "generation", "cause", "who_clients", "size_before", "size_after")
    for told in (journal, log):
        rows = sorted(told["rebalances"], key=lambda row: row["generation"])
        assert [tuple(row[name] for name in names) for row in rows] == expected
        (churn,) = told["member_churn"]
        assert [churn[name] for name in ("members", "joins", "departures", "present")] == [2, 2, 1, 1]


@pytest.mark.slow
def test_causes_of_an_epoch_without_a_member(tmp_path: Path) -> None:
    async def play(kafka: Cluster) -> None:
        a = await Consumer.joined(kafka, "A")
        kafka.topic("orders").grow_to(6)
        await kafka.time.advance("1s")
        await a.beat()
        await a.beat(subscribed_topic_names=["orders", "payments"])
        await a.wire.close()

    journal, log = both(tmp_path, play, as_version="4.1", topics={"orders": 4, "payments": 1})
    assert [row[1] for row in causes(journal)] == [row[1] for row in causes(log)]
    assert causes(journal)[1:] == [
        ("consumer", "metadata change", [], ["orders: 2 partitions new"]),
        ("consumer", "metadata change", [], ["app-A: subscribed to payments", "payments: 1 partition new"]),
    ]

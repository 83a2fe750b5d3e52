"""An acknowledged commit survives SIGKILL at any instant; what a kill tore is cut off, and nothing before it is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_wire.errors import Err
from tests.durability.broker_process import BrokerProcess
from tests.durability.groups import commit_request, committed, coordinator_is_there
from tests.support.processes import DEADLINE_S
from tests.support.wire import Wire, WireClosedError

PARTITIONS = 3
GROUPS = ("billing", "audit", "search")
OPTIONS = ("--topic", f"orders:{PARTITIONS}", "--config", "offsets.topic.num.partitions=5", "--log-level", "warning")


async def commit_until_it_dies(
    bootstrap: str, group: str, start: int, acked: dict[str, int], sent: dict[str, int], heard: asyncio.Event
) -> None:
    """Commit rising offsets of all partitions of the topic, four requests in flight, until the connection breaks. ``heard`` is set by
    each acknowledgement."""
    wire = await Wire.connect(bootstrap)
    try:
        await coordinator_is_there(wire, group)
        offset, flying = start, []
        while True:
            while len(flying) < 4:
                offset += 1
                sent[group] = offset
                flying.append(
                    (offset, wire.start(commit_request(group, "orders", dict.fromkeys(range(PARTITIONS), offset)), 8))
                )
            first, answer = flying.pop(0)
            response = await answer
            assert {p.error_code for p in response.topics[0].partitions} == {Err.NONE}
            acked[group] = first
            heard.set()
    except (WireClosedError, ConnectionError):
        pass
    finally:
        await wire.close()


@pytest.mark.parametrize("as_version", [pytest.param("3.4", marks=pytest.mark.slow), "4.1"])
async def test_acknowledged_commits_survive_kills(tmp_path: Path, as_version: str) -> None:
    rng = random.Random(as_version)
    acked: dict[str, int] = dict.fromkeys(GROUPS, 0)
    sent: dict[str, int] = dict.fromkeys(GROUPS, 0)
    options = ("--data", str(tmp_path / "data"), "--as-version", as_version, *OPTIONS)
    heard = asyncio.Event()
    for _ in range(4):
        with BrokerProcess(*options) as broker:
            committing = [
                asyncio.create_task(commit_until_it_dies(broker.bootstrap, group, sent[group], acked, sent, heard))
                for group in GROUPS
            ]
            async with asyncio.timeout(DEADLINE_S):
                for _ in range(rng.randrange(1, 300)):  # acknowledgements until the kill, drawn by the seed
                    heard.clear()
                    await heard.wait()
            broker.kill()
            await asyncio.gather(*committing)
    with BrokerProcess(*options) as broker:
        wire = await Wire.connect(broker.bootstrap)
        for group in GROUPS:
            offsets = await committed(wire, group)
            assert set(offsets) == {("orders", partition) for partition in range(PARTITIONS)}
            assert all(acked[group] <= offset <= sent[group] for offset in offsets.values()), (
                group,
                offsets,
                acked,
                sent,
            )
            assert len(set(offsets.values())) == 1, "a request's offsets are one batch: all or nothing"
        await wire.close()


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    return tmp_path / "data"


def offsets_logs(data: Path) -> list[Path]:
    return [log for log in sorted(data.glob("__consumer_offsets-*/*.log")) if log.stat().st_size > 0]


async def commit_some(data: Path, count: int) -> int:
    """Commit offsets 1 to ``count`` for one group; returns the size of its log after the last but one."""
    size = 0
    with BrokerProcess("--data", str(data), *OPTIONS) as broker:
        wire = await Wire.connect(broker.bootstrap)
        await coordinator_is_there(wire, "billing")
        for offset in range(1, count + 1):
            size = sum(log.stat().st_size for log in offsets_logs(data))
            response = await wire.send(commit_request("billing", "orders", {0: offset}), 8)
            assert response.topics[0].partitions[0].error_code == Err.NONE
        await wire.close()
    return size


@pytest.mark.parametrize("damage", ["torn", "garbage", "flipped"])
async def test_a_damaged_tail_is_cut_with_one_clear_line(data: Path, damage: str) -> None:
    size = await commit_some(data, 20)
    [log] = offsets_logs(data)
    content = log.read_bytes()
    expected = 20
    if damage == "torn":
        log.write_bytes(content[: size + 30])
        expected = 19
    elif damage == "garbage":
        log.write_bytes(content + random.Random(1).randbytes(100))
    else:
        flipped = bytearray(content)
        flipped[size + 70] ^= 0xFF
        log.write_bytes(bytes(flipped))
        expected = 19
    stderr = data.parent / "stderr"
    with BrokerProcess("--data", str(data), *OPTIONS, stderr=stderr) as broker:
        wire = await Wire.connect(broker.bootstrap)
        assert await committed(wire, "billing") == {("orders", 0): expected}
        response = await wire.send(commit_request("billing", "orders", {0: 99}), 8)
        assert response.topics[0].partitions[0].error_code == Err.NONE
        await wire.close()
    lines = [line for line in stderr.read_text().splitlines() if log.name in line]
    assert len(lines) == 1, stderr.read_text()
    with BrokerProcess("--data", str(data), *OPTIONS) as broker:
        wire = await Wire.connect(broker.bootstrap)
        assert await committed(wire, "billing") == {("orders", 0): 99}
        await wire.close()

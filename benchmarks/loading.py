"""Time until a broker serves a group whose offsets partition holds many commits: from process start to the first OffsetFetch that
is answered, with the same log directory for the simulator and for Apache Kafka, which made it.

The log is what one is before compaction: commits of ten partitions each, of 200 groups, over and over. `RECORDS` are 116 MB.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.scale import Figure
from benchmarks.systems import Unavailable, free_port
from benchmarks.watched import longest, reset, shared
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from kafka_wire.offsets_log import offset_commit_key, offset_commit_value
from kafka_wire.record_batch import build_batch
from tests.support.real_kafka import Node, RealKafka
from tests.support.wire import Wire, WireClosedError

RECORDS = 1_900_000
GROUPS, PARTITIONS, TOPIC = 200, 10, "orders"
_LIMIT_US = 1.0
_LIMIT_PIECE_MS = 100
_DEADLINE_S = 300
_VERSION = "4.1.0"
_SETTINGS: dict[str, object] = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1}


def loading(say: Callable[[str], None], *, kafka: bool) -> list[Figure]:
    """CPU time per record, the longest callback while the log loads, and the time to the first answer against Kafka's (left out
    without ``kafka``)."""
    try:
        return asyncio.run(_measured(say, kafka=kafka))
    except Unavailable as error:
        say(f"loading: {error}")
        return []


async def _measured(say: Callable[[str], None], *, kafka: bool) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="loading-") as temporary, RealKafka(_VERSION, config=_SETTINGS) as real:
        directory, node = Path(temporary), real.nodes[1]
        say(f"loading: a log of {RECORDS:,} commits")
        await _first_commit(node.port)
        node.stop()
        empty = directory / "few"
        shutil.copytree(node.data_dir, empty)
        _fill(node.data_dir / "__consumer_offsets-0")
        await _started(node)  # it makes the indexes of the segment, so that nobody has to recover it
        node.stop()
        say("loading: the simulator")
        data = directory / "many"
        shutil.copytree(node.data_dir, data)
        await _simulator(empty, directory / "of the first")
        few, _ = await _simulator(empty, directory / "of few")
        first, _ = await _simulator(data, directory / "of a copy")
        many, piece = await _simulator(data, directory / "of many")
        us_each = (many.cpu_s - few.cpu_s) / RECORDS * 1e6
        note = f"{many.cpu_s:.1f} s CPU for {RECORDS:,} in {_megabytes(node):.0f} MB, {few.cpu_s:.1f} s for one"
        figures = [
            Figure("loading an offsets partition, each commit", us_each, "us", _LIMIT_US, note),
            Figure(
                "loading an offsets partition, the longest callback", piece[0] * 1000, "ms", _LIMIT_PIECE_MS, piece[1]
            ),
            Figure("loading an offsets partition, memory", many.rss_mib - few.rss_mib, "MiB", 0),
            Figure("loading a copy of Kafka's directory for the first time", first.seconds, "s", 0),
        ]
        if kafka:
            say("loading: Kafka")
            theirs = await _started(node)
            note = f"{many.seconds:.1f} s against {theirs:.1f} s"
            title = f"process start to the first OffsetFetch answered, against Kafka {_VERSION}"
            figures.append(Figure(title, many.seconds / theirs, "x", 1, note))
        return figures


async def _started(node: Node) -> float:
    """Seconds from Kafka's start until it answers with the partition loaded."""
    began = time.monotonic()
    node.start()
    await _answered(node.port, began)
    return time.monotonic() - began


class _Start:
    """One start: seconds and CPU seconds to the first answer, and what the process holds then."""

    def __init__(self, pid: int, began: float) -> None:
        self.seconds = time.monotonic() - began
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        self.cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        status = Path(f"/proc/{pid}/status").read_text()
        self.rss_mib = int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def _simulator(data: Path, memory: Path) -> tuple[_Start, tuple[float, str]]:
    port = free_port()
    watch = shared(memory)
    options = ["--data", str(data), "--port", str(port), "--log-level", "error", "--as-version", "4.1"]
    began = time.monotonic()
    with _process([sys.executable, "-m", "benchmarks.watched", str(memory), "serve", *options]) as pid:
        await _until(port, ApiVersionsRequest(), 0, lambda answer: answer.error_code, began)
        reset(watch)  # nobody waited for the callback that imports the broker and opens its logs
        await _answered(port, began)
        return _Start(pid, began), longest(watch)


@contextmanager
def _process(command: list[str]) -> Iterator[int]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


async def _answered(port: int, began: float) -> None:
    """Wait until the broker has answered what group 0 has committed."""
    topics = [OffsetFetchRequestTopic(TOPIC, [0])]
    await _until(port, OffsetFetchRequest("group-0", topics), 5, lambda answer: answer.error_code, began)


async def _first_commit(port: int) -> None:
    """Commit a first offset, which creates the offsets topic."""
    began = time.monotonic()
    await _until(port, FindCoordinatorRequest("group-0", 0), 2, lambda answer: answer.error_code, began)
    topic = OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(0, 1, -1, "")])
    request = OffsetCommitRequest("group-0", -1, "", topics=[topic])
    await _until(port, request, 7, lambda answer: answer.topics[0].partitions[0].error_code, began)


async def _until(port: int, request: Any, version: int, error_of: Callable[[Any], int], began: float) -> None:
    last: object = "no connection"
    while time.monotonic() < began + _DEADLINE_S:
        try:
            wire = await Wire.connect(f"127.0.0.1:{port}")
            try:
                while time.monotonic() < began + _DEADLINE_S:
                    last = Err(error_of(await wire.send(request, version)))
                    if last in (Err.NONE, Err.UNKNOWN_TOPIC_OR_PARTITION):
                        return
                    await asyncio.sleep(0.01)
            finally:
                await wire.close()
        except (ConnectionError, WireClosedError) as error:
            last = error
            await asyncio.sleep(0.01)
    raise RuntimeError(f"waited {_DEADLINE_S} s for {type(request).__name__} to be answered: {last!r}")


def _fill(partition: Path) -> None:
    """The only segment becomes a log of RECORDS commits, behind which every group has committed 1,000,000 and more."""
    for path in partition.iterdir():
        if path.suffix in (".index", ".timeindex", ".snapshot"):
            path.unlink()
    count = RECORDS // PARTITIONS
    first_ms = int(time.time() * 1000) - count
    kinds = [
        [(offset_commit_key(f"group-{group}", TOPIC, at), _value(group, first_ms)) for at in range(PARTITIONS)]
        for group in range(GROUPS)
    ]
    with (partition / f"{0:020d}.log").open("wb") as log:
        for number in range(count):
            batch = build_batch(kinds[number % GROUPS], first_ms + number)
            log.write((number * PARTITIONS).to_bytes(8, "big") + batch[8:])


def _value(group: int, now_ms: int) -> bytes:
    return offset_commit_value(3, 1_000_000 + group, 0, "", now_ms)


def _megabytes(node: Node) -> float:
    return (node.data_dir / "__consumer_offsets-0" / f"{0:020d}.log").stat().st_size / 1e6

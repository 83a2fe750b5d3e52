"""Cost of the pipeline on Spark: reading the offsets log, beside the way that needs no source of its own, and how it grows.

    python -m benchmarks --only pipeline

Every session is a process of its own, pinned to the cores that it may use with its JVM and its Python workers: `local[1]` has one,
`local[2]` two. The same bytes are read by

* `consumer_offsets`, the whole table and those columns alone that the other way gives;
* `binaryFile` and `mapInArrow`: Spark opens the files, a function parses record by record into tuples, Arrow makes columns of them.

Both write to nowhere (`noop`), warm, all ways in turns, and the median of some runs counts. Where other work shares the cores, the
ratios by CPU time are the ones to trust. The log is 50 partitions of commits, ten in a batch, as a consumer of ten partitions
makes them.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy

from benchmarks.scale import Figure

COMMITS = 1_000_000
TIMES = 10
"""Factor by which more commits are read to see how cost grows."""

PARTITIONS = 50
PER_BATCH = 10
RUNS = 5
WARM = 2

RATIO, SECOND_CORE, GROWTH, MEMORY_GROWTH = 1.5, 1.6, 1.2, 1.2
"""The goals: times as fast as the other way; with a second core; cost of a row among ten times as many; memory likewise."""

Run = tuple[float, float]
"""Seconds, and CPU seconds of the process, its JVM and their workers."""

_COLUMNS = (
    "log_partition",
    "log_offset",
    "record_ts_ms",
    "group",
    "topic",
    "partition",
    "committed_offset",
    "committed_leader_epoch",
    "metadata",
    "commit_ts_ms",
)


def pipeline(say: Callable[[str], None] = lambda text: None) -> list[Figure]:
    """All figures; those of a machine without Java or PySpark are none. Raises RuntimeError where a session fails."""
    from broker_sim.pipeline.session import JavaMissing, SparkMissing, find_java, need_pyspark

    try:
        need_pyspark()
        find_java()
    except (JavaMissing, SparkMissing) as error:
        return [Figure(f"pipeline: not measured: {error}", 0, "", 0)]
    runs: dict[str, list[Run]] = {name: [] for name in ("one core", "table", "plain", "columns")}
    with tempfile.TemporaryDirectory(prefix="broker-sim-bench-") as place:
        say("pipeline: writing logs")
        small, large = Path(place, "small"), Path(place, "large")
        write_logs(small, COMMITS)
        repeat_logs(small, large, TIMES)
        say("pipeline: starting Spark")
        with _SparkProcess(1, small, large) as first, _SparkProcess(2, small, large) as two:
            for number in range(WARM + RUNS):
                for name, mine in runs.items():  # in turns: whatever else the machine does, it does to all of them
                    say(f"pipeline: {name}, {number + 1} of {WARM + RUNS}")
                    run = first.run("table") if name == "one core" else two.run(name)
                    if number >= WARM:
                        mine.append(run)
            before = two.ask("memory")
            say(f"pipeline: {TIMES} times as many")
            runs["large"] = [two.run("large")]
            return _figures(runs, before, two.ask("memory"))


def _figures(runs: dict[str, list[Run]], before: float, after: float) -> list[Figure]:
    table, columns, plain, large = (runs[name] for name in ("table", "columns", "plain", "large"))
    return [
        _at_least("pipeline: consumer_offsets, the whole table, against binaryFile", plain, table, RATIO),
        _at_least("pipeline: consumer_offsets, the same columns, against it", plain, columns, RATIO),
        _at_least("pipeline: consumer_offsets on two cores against one", runs["one core"], table, SECOND_CORE, 2),
        Figure(
            f"pipeline: a row's cost among {TIMES} times as many",
            _seconds(large) / TIMES / _seconds(table),
            "x",
            GROWTH,
            f"{_seconds_text(large, COMMITS * TIMES)}; {_seconds_text(table)}",
        ),
        Figure(
            "pipeline: a worker's memory then", after / before, "x", MEMORY_GROWTH, f"{before:.0f} to {after:.0f} MiB"
        ),
    ]


def _seconds(runs: list[Run]) -> float:
    return statistics.median(wall for wall, _ in runs)


def _cpu(runs: list[Run]) -> float:
    return statistics.median(cpu for _, cpu in runs)


def _seconds_text(runs: list[Run], rows: int = COMMITS) -> str:
    return f"{rows / _seconds(runs):,.0f} rows/s, {_cpu(runs) / rows * 1e6:.2f} us CPU each"


def _at_least(title: str, peer: list[Run], ours: list[Run], goal: float, cores: int = 1) -> Figure:
    """Return the figure of a speedup that has to reach a goal: the goal divided by the speedup, which has to stay below one.

    ``cores``: how many times as many cores ``ours`` has.
    """
    ratio, by_cpu = _seconds(peer) / _seconds(ours), cores * _cpu(peer) / _cpu(ours)
    note = f"{ratio:.2f}x, by CPU {by_cpu:.2f}x, goal {goal:g}x: {_seconds_text(ours)}; {_seconds_text(peer)}"
    return Figure(title, goal / ratio, "of the goal", 1, note)


# ------------------------------------------------------------------------------------------------ logs


def write_logs(directory: Path, commits: int) -> None:
    """Logs as `benchmarks.pipeline` reads them: four groups in each, one segment."""
    from kafka_wire.offsets_log import offset_commit_key, offset_commit_value
    from kafka_wire.record_batch import build_batch

    commits_each = commits // PARTITIONS
    for partition in range(PARTITIONS):
        folder = directory / f"__consumer_offsets-{partition}"
        folder.mkdir(parents=True)
        keys = [
            [offset_commit_key(f"group-{partition}-{group}", "orders", number) for number in range(PER_BATCH)]
            for group in range(4)
        ]
        with (folder / f"{0:020d}.log").open("wb") as file:
            for at in range(0, commits_each, PER_BATCH):
                now_ms = 1_700_000_000_000 + at
                value = offset_commit_value(4, at, 3, "", now_ms)
                pairs = [(key, value) for key in keys[at // PER_BATCH % 4]]
                file.write(build_batch(pairs, now_ms, base_offset=at, leader_epoch=1))


def repeat_logs(source: Path, target: Path, times: int) -> None:
    """Every segment of `write_logs` so many times over, with later offsets: they lie outside of what a CRC covers."""
    for path in sorted(source.glob("*/*.log")):
        folder = target / path.parent.name
        folder.mkdir(parents=True)
        data = numpy.frombuffer(path.read_bytes(), numpy.uint8).copy()
        at, positions = 0, []
        while at < data.size:
            positions.append(at)
            at += 12 + int.from_bytes(data[at + 8 : at + 12].tobytes(), "big")
        places = numpy.array(positions)[:, None] + numpy.arange(8)
        bases = data[places].view(">i8").reshape(-1).astype(numpy.int64)
        end = int(bases[-1]) + PER_BATCH
        for number in range(times):
            data[places] = (bases + number * end).astype(">i8").view(numpy.uint8).reshape(-1, 8)
            (folder / f"{number * end:020d}.log").write_bytes(data.tobytes())


# ------------------------------------------------------------------------------------------------ sessions


class _SparkProcess:
    """A process with so many cores and a Spark session, that does one thing after the other."""

    def __init__(self, cores: int, small: Path, large: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.pipeline", str(cores), str(small), str(large)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ask(self, what: str) -> Any:
        """Return the session's answer. Raises RuntimeError if the session has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(
                f"the Spark session ended while it was asked for {what!r}: exit code {self.process.wait()}"
            )
        return json.loads(answer)

    def run(self, way: str) -> Run:
        """One reading in that way."""
        wall, cpu = self.ask(way)
        return wall, cpu


def serve(cores: int, small: str, large: str) -> None:
    """The process of a `_SparkProcess`: a way, or "memory", on each line of stdin; an answer in JSON for each."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    from broker_sim.pipeline.schemas import OFFSET_LOG
    from broker_sim.pipeline.session import spark_session

    spark = spark_session(f"local[{cores}]", "broker-sim benchmark")
    narrow = OFFSET_LOG.only(_COLUMNS).spark()
    ways = {
        "table": spark.read.format("consumer_offsets").load(small),
        "columns": spark.read.format("consumer_offsets").schema(narrow).load(small),
        "plain": spark.read.format("binaryFile").load(f"{small}/*/*.log").mapInArrow(parsed_plainly, narrow),
        "large": spark.read.format("consumer_offsets").load(large),
    }
    for line in sys.stdin:
        what = line.strip()
        print(json.dumps(_worker_mib() if what == "memory" else _timed(ways[what])), flush=True)
    spark.stop()


def _timed(frame: Any) -> Run:
    began, used = time.perf_counter(), sum(_cpu_s(pid) for pid in _ours())
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began, sum(_cpu_s(pid) for pid in _ours()) - used


def _ours() -> list[int]:
    """Ids of this process and of all its descendants."""
    below: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            below.setdefault(int(_stat(int(path.name))[1]), []).append(int(path.name))
    pids = [os.getpid()]
    for pid in pids:
        pids += below.get(pid, [])
    return pids


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _cpu_s(pid: int) -> float:
    with contextlib.suppress(OSError):
        return sum(int(ticks) for ticks in _stat(pid)[11:15]) / os.sysconf("SC_CLK_TCK")  # with that of ended children
    return 0.0


def _worker_mib() -> float:
    """The most memory that one of the Python workers ever had."""
    most = 0.0
    for pid in _ours():
        with contextlib.suppress(OSError):
            if b"pyspark.daemon" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                continue
            status = Path(f"/proc/{pid}/status").read_text().splitlines()
            most = max(most, *(float(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:")))
    return most


# ------------------------------------------------------------------------------------------------ the other way

_LENGTH = struct.Struct(">i")
_HEADER = struct.Struct(">qiibIhiqqqhii")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_V4 = struct.Struct(">hqi")
_INT64 = struct.Struct(">q")


def parsed_plainly(batches: Iterator[Any]) -> Iterator[Any]:
    """For mapInArrow: rows of `binaryFile` become rows of `_COLUMNS`, a tuple for each record. Commits of value v4 alone."""
    import pyarrow

    from broker_sim.pipeline.schemas import OFFSET_LOG

    schema = OFFSET_LOG.only(_COLUMNS).arrow()
    for batch in batches:
        for path, content in zip(batch["path"].to_pylist(), batch["content"].to_pylist(), strict=True):
            rows = list(_tuples(int(path.split("/")[-2].rpartition("-")[2]), content))
            for first in range(0, len(rows), 10_000):
                columns = zip(*rows[first : first + 10_000], strict=True)
                arrays = [pyarrow.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
                yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _tuples(log_partition: int, data: bytes) -> Iterator[tuple[Any, ...]]:
    import google_crc32c

    at = 0
    while at < len(data):
        base, length, _, _, crc, _, _, base_ts, _, _, _, _, count = _HEADER.unpack_from(data, at)
        end = at + 12 + length
        assert google_crc32c.value(data[at + 21 : end]) == crc
        at += 61
        for _ in range(count):
            _, at = _varint(data, at)
            time_delta, at = _varint(data, at + 1)
            delta, at = _varint(data, at)
            _, at = _varint(data, at)
            (size,) = _INT16.unpack_from(data, at + 2)
            at += 4
            group = data[at : at + size].decode()
            at += size
            (size,) = _INT16.unpack_from(data, at)
            at += 2
            topic = data[at : at + size].decode()
            at += size
            (partition,) = _INT32.unpack_from(data, at)
            _, at = _varint(data, at + 4)
            _, offset, epoch = _V4.unpack_from(data, at)
            at += 14
            size = data[at] - 1
            at += 1
            metadata = data[at : at + size].decode()
            at += size
            (commit_ts,) = _INT64.unpack_from(data, at)
            at += 10  # no tagged fields, no headers
            yield (
                log_partition,
                base + delta,
                base_ts + time_delta,
                group,
                topic,
                partition,
                offset,
                epoch,
                metadata,
                commit_ts,
            )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


if __name__ == "__main__":
    from benchmarks.pipeline import serve as serve_there  # so that Spark's workers import what they run

    serve_there(int(sys.argv[1]), sys.argv[2], sys.argv[3])

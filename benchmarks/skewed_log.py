"""Writes an offsets log of any size, one group of which has most of the commits: what one worker can't hold.

    python -m benchmarks.skewed_log DIR --commits 16000000 --measure

Eight groups in two partitions of `__consumer_offsets`, in segment files of Kafka's usual size. The first group has 60 % of the commits.
A member commits ten partitions at once; the log's pace is the same however long it is, so that a log of ten times as many commits tells
of ten times as long. Now and then something happens: a rebalance, an offset that goes back, a silence of one partition.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c
import numpy

from broker_sim.storage import partition_for
from kafka_wire.messages.offsets_log import GroupMetadataValue, MemberMetadata
from kafka_wire.offsets_log import group_key, group_value, offset_commit_key, offset_commit_value
from kafka_wire.record_batch import build_batch
from tests.pipeline.cluster import standalone

__all__ = ["write_skewed_log"]

MASTER = "local[2]"
PARTITIONS = 50
LOGS = (7, 31)
PER_BATCH = 10
BATCH_MS = 60
"""Between two commits of the whole log."""
BEGAN_MS = 1_760_000_000_000
BLOCK = 20_000
"""Batches that are made at once."""
SEGMENT_BATCHES = 140_000
"""As large as Kafka's default of offsets.topic.segment.bytes, 100 MiB."""
EVENT_BATCHES = 50_000
"""After so many batches of the log something happens."""
SHARES = (0.6, *(0.4 / 7,) * 7)
MEMBERS = (20, *(5,) * 7)
"""Members of each group; each has ten partitions of its own."""

_OFFSET, _STAMP = 1 << 48, 1 << 49
"""Placeholders in a template: their bytes are found in it and replaced."""


@dataclass(slots=True)
class _Template:
    """The batch of one member's commit, and where in it the varying fields are."""

    data: Any
    offsets: list[int]
    stamps: list[int]


def write_skewed_log(directory: Path, commits: int) -> None:
    """About so many commits. Writes folders `__consumer_offsets-N` into ``directory``."""
    names = list(_group_names())
    writers = {log: _Writer(directory, log) for log in LOGS}
    templates = [[_template(name, member) for member in range(MEMBERS[at])] for at, name in enumerate(names)]
    positions = [[0] * MEMBERS[at] for at in range(len(names))]
    turns = [0] * len(names)
    for at, name in enumerate(names):
        writers[partition_for(name, PARTITIONS)].write(_generation(name, 1, MEMBERS[at], BEGAN_MS), 1)
    chance = numpy.random.default_rng(17)
    now_ms, made, generation = BEGAN_MS, 0, 1
    while made < commits // PER_BATCH:
        number = min(BLOCK, commits // PER_BATCH - made)
        stamps = now_ms + BATCH_MS * numpy.arange(number, dtype=numpy.int64)
        who = chance.choice(len(names), number, p=SHARES)
        if made // EVENT_BATCHES != (made + number) // EVENT_BATCHES:
            happened = made // EVENT_BATCHES % 3
            if happened == 0:
                generation += 1
                for at, name in enumerate(names[:2]):
                    writers[partition_for(name, PARTITIONS)].write(
                        _generation(name, generation, MEMBERS[at], now_ms), 1
                    )
            elif happened == 1:
                positions[0][3] = max(0, positions[0][3] - 500)
            else:
                hit = [partition_for(names[at], PARTITIONS) == LOGS[0] for at in who[number // 2 :]]
                stamps[number // 2 :] += 45_000 * numpy.array(hit)
        for log in LOGS:
            pieces: list[Any] = [None] * number
            for at, name in enumerate(names):
                if partition_for(name, PARTITIONS) != log:
                    continue
                mine = numpy.flatnonzero(who == at)
                for member in range(MEMBERS[at]):
                    of_member = mine[(turns[at] + numpy.arange(mine.size)) % MEMBERS[at] == member]
                    rows = _filled(templates[at][member], positions[at][member], stamps[of_member])
                    positions[at][member] += of_member.size * 10
                    for place, row in zip(of_member.tolist(), rows, strict=True):
                        pieces[place] = row
                turns[at] += mine.size
            writers[log].write_rows([row for row in pieces if row is not None])
        made += number
        now_ms = int(stamps.max()) + BATCH_MS
    for writer in writers.values():
        writer.close()


def _group_names() -> Iterator[str]:
    """A name for each group: four in each log."""
    found: dict[int, int] = dict.fromkeys(LOGS, 0)
    for number in count():
        name = f"service-{number}"
        log = partition_for(name, PARTITIONS)
        if found.get(log, 4) < 4:
            found[log] += 1
            yield name
        if all(have == 4 for have in found.values()):
            return


def _generation(name: str, generation: int, members: int, now_ms: int) -> bytes:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader=f"{name}-0",
        current_state_timestamp=now_ms,
        members=[
            MemberMetadata(
                member_id=f"{name}-{member}",
                client_id=f"{name}-{member}",
                client_host="/127.0.0.1",
                rebalance_timeout=300_000,
                session_timeout=45_000,
                subscription=b"",
                assignment=b"",
            )
            for member in range(members)
        ],
    )
    return build_batch([(group_key(name), group_value(3, value))], now_ms, leader_epoch=1)


def _template(name: str, member: int) -> _Template:
    value = offset_commit_value(4, _OFFSET, 3, "", _STAMP)
    keys = [offset_commit_key(name, "orders", member * PER_BATCH + number) for number in range(PER_BATCH)]
    data = build_batch([(key, value) for key in keys], _STAMP, leader_epoch=1)
    return _Template(
        numpy.frombuffer(data, numpy.uint8),
        _places(data, _OFFSET.to_bytes(8, "big")),
        _places(data, _STAMP.to_bytes(8, "big")),
    )


def _places(data: bytes, wanted: bytes) -> list[int]:
    places, at = [], data.find(wanted)
    while at >= 0:
        places.append(at)
        at = data.find(wanted, at + 8)
    return places


def _filled(template: _Template, position: int, stamps: Any) -> list[bytes]:
    """The member's next commits, one at each time. Base offsets and CRCs are the writer's."""
    rows = numpy.tile(template.data, (stamps.size, 1))
    offsets = position + 10 * (1 + numpy.arange(stamps.size, dtype=numpy.int64))
    for places, values in ((template.offsets, offsets), (template.stamps, stamps)):
        field = numpy.ascontiguousarray(values.astype(">i8")).view(numpy.uint8).reshape(-1, 8)
        for at in places:
            rows[:, at : at + 8] = field
    return [row.tobytes() for row in rows]


class _Writer:
    """The segments of one log."""

    def __init__(self, directory: Path, log: int) -> None:
        self.folder = directory / f"__consumer_offsets-{log}"
        self.folder.mkdir(parents=True)
        self.end, self.batches = 0, 0
        self.file: BinaryIO | None = None

    def write_rows(self, rows: list[bytes]) -> None:
        for row in rows:
            self.write(row, PER_BATCH)

    def write(self, batch: bytes, records: int) -> None:
        if self.file is None or self.batches >= SEGMENT_BATCHES:
            self.close()
            self.file = (self.folder / f"{self.end:020d}.log").open("wb")
            self.batches = 0
        tail = batch[21:]
        self.file.write(
            b"".join((self.end.to_bytes(8, "big"), batch[8:17], google_crc32c.value(tail).to_bytes(4, "big"), tail))
        )
        self.end += records
        self.batches += 1

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


def read_and_sort(directory: Path) -> float:
    """Seconds in which Spark reads the log and sorts it: what any way to process it costs at least."""
    from broker_sim.pipeline.session import spark_session

    spark = spark_session(MASTER, "broker-sim benchmark")
    log = spark.read.format("consumer_offsets").load(str(directory))
    began = time.perf_counter()
    log.sort("log_partition", "log_offset").write.format("noop").mode("overwrite").save()
    took = time.perf_counter() - began
    spark.stop()
    return took


def run(directory: Path, engine: str, master: str = MASTER) -> tuple[float, float]:
    """Seconds of a whole `pipeline run`, and the most MiB of memory of its Python process."""
    with tempfile.TemporaryDirectory(prefix="broker-sim-bench-") as out:
        command = [
            sys.executable,
            "-m",
            "broker_sim",
            "pipeline",
            "run",
            "--input",
            str(directory),
            "--out",
            f"{out}/report",
        ]
        command += ["--engine", engine, *(["--master", master] if engine == "spark" else [])]
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took = time.perf_counter() - began
    return took, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def scaling(directory: Path) -> tuple[float, float]:
    """Seconds of a `pipeline run` on a standalone cluster of one worker with one core, and of two such workers."""
    took = []
    for workers in (1, 2):
        with tempfile.TemporaryDirectory(prefix="broker-sim-bench-") as place:
            started = standalone(Path(sys.executable), Path(place), workers=workers, cores=1, memory="2g")
            with started as url:
                took.append(run(directory, "spark", url)[0])
    return took[0], took[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.skewed_log", description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--commits", type=int, default=1_000_000)
    parser.add_argument(
        "--measure",
        action="store_true",
        help="run the pipeline on it, on DuckDB and Spark, beside Spark's read and sort",
    )
    parser.add_argument(
        "--scaling", action="store_true", help="run it on a standalone cluster of one worker and of two workers"
    )
    args = parser.parse_args()
    if not args.directory.exists():
        write_skewed_log(args.directory, args.commits)
    if args.measure:
        seconds, mib = run(args.directory, "duckdb")
        print(f"DuckDB: {seconds:.0f} s, {mib:,.0f} MiB, {mib * 2**20 / args.commits:.0f} bytes a commit")
        least = read_and_sort(args.directory)
        seconds, _ = run(args.directory, "spark")
        print(
            f"Spark, {MASTER}: {seconds:.0f} s, {seconds / least:.1f} times as long as it reads and sorts ({least:.0f} s)"
        )
    if args.scaling:
        one, two = scaling(args.directory)
        print(f"Spark, standalone: one worker {one:.0f} s, two workers {two:.0f} s, {one / two:.2f} times as fast")


if __name__ == "__main__":
    main()

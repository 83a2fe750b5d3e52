"""Ends of the data topics' logs over time: from the headers of their batches, without reading a record.

Rules:
1. A batch has the log end after it, and its time: its largest timestamp. Where clients' clocks went back, the last time is kept; a
   log doesn't shrink.
2. Of each partition one end for each ``step_ms`` is kept, the last one, so that a large topic costs little memory.
3. Where a log begins is known of its end alone: by the name of its first segment, or the checkpoint that Kafka keeps of starts which
   have moved within a segment.
4. An unreadable record ends the reading of the file without a report: ends are an addition to the offsets log. Nothing is guessed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError
from broker_sim.pipeline import files
from broker_sim.pipeline.files import Source
from broker_sim.pipeline.segments import log_partition_of, segments_of
from broker_sim.pipeline.tables.lag import LOG_ENDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["data_folders", "ends_of", "log_ends", "log_ends_rows"]

_HEAD = struct.Struct(">qi4xb4x2xi8xq")
"""base offset, length, (leader epoch), magic, (crc, attributes), last offset delta, (base timestamp), max timestamp."""
_LENGTH_END = 12
"""A batch is so many bytes longer than its length field."""
MAGIC = 2
_STARTS = "log-start-offset-checkpoint"


def data_folders(directory: str) -> Iterator[tuple[str, int, str]]:
    """(topic, partition, folder) of the data topics in a log directory; internal ones are left out. Raises UsageError."""
    for entry in files.listing(directory):
        known = log_partition_of(entry.name) if entry.is_dir else None
        if known is not None and not entry.name.startswith("__"):
            yield *known, files.inside(directory, entry.name)


def ends_of(path: str) -> Iterator[tuple[int, int]]:
    """(largest timestamp in ms, log end offset) after each batch of a segment, up to the first that is none."""
    try:
        with Source(path) as file:
            size, at = file.size(), 0
            while at + _HEAD.size <= size:
                base, length, magic, delta, timestamp = _HEAD.unpack(file.read(at, _HEAD.size))
                if magic != MAGIC or length <= 0 or delta < 0 or at + _LENGTH_END + length > size:
                    return
                yield timestamp, base + delta + 1
                at += _LENGTH_END + length
    except (OSError, struct.error):
        return


def _moved_starts(directory: str) -> dict[tuple[str, str], int]:
    """(topic, partition) -> where the log begins, as `log-start-offset-checkpoint` has it; {} where that can't be read."""
    try:
        with Source(files.inside(directory, _STARTS)) as file:
            lines = file.read(0, file.size()).decode().splitlines()[2:]
        return {(topic, partition): int(offset) for topic, partition, offset in map(str.split, lines)}
    except (OSError, ValueError, UsageError):
        return {}


def log_ends_rows(directory: str, run_id: str, step_ms: int = 1000) -> list[dict[str, Any]]:
    """Rows of LOG_ENDS from the segments below ``directory``; none where it is no directory."""
    rows: list[dict[str, Any]] = []
    moved = _moved_starts(directory)
    try:
        for topic, partition, folder in data_folders(directory):
            kept: dict[int, tuple[int, int]] = {}
            now_ms, segments = 0, list(segments_of(folder))
            first = min((segment.base for segment in segments), default=0)
            for segment in segments:
                for timestamp, end in ends_of(segment.path):
                    now_ms = max(now_ms, timestamp)
                    kept[now_ms // step_ms] = (now_ms, end)
            rows += [
                {"run_id": run_id, "source": "log", "topic": topic, "partition": partition, "at_ms": at_ms, "end": end}
                for at_ms, end in kept.values()
            ]
            if kept:
                rows[-1]["start"] = max(first, moved.get((topic, str(partition)), 0))
    except UsageError:
        return rows
    return rows


def log_ends(spark: SparkSession, directory: str, run_id: str, step_ms: int = 1000) -> DataFrame:
    """LOG_ENDS of a directory as a DataFrame."""
    import pyarrow

    rows = log_ends_rows(directory, run_id, step_ms)
    ends: DataFrame = LOG_ENDS.of_arrow(spark, pyarrow.Table.from_pylist(rows, schema=LOG_ENDS.arrow()))
    return ends

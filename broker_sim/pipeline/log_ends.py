"""How the logs of the data topics grew: from the headers of their batches, without reading a record.

Rules:
1. A batch says where the log ended after it, and when: its largest timestamp. Where clients' clocks went back, time stands still; a log
   doesn't shrink.
2. Of each partition one end for each ``step_ms`` is kept, the last one, so that a large topic costs little memory.
3. What can't be read ends the file's story, quietly: ends are an addition, the offsets log is the subject. Nothing is guessed.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from broker_sim.pipeline.tables.lag import LOG_ENDS

__all__ = ["ends_of", "log_ends", "log_ends_rows", "partition_folders"]

_FOLDER = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)")
_SEGMENT = re.compile(r"\d{20}\.log")
_HEAD = struct.Struct(">qiib4xhi8xq")
"""base offset, length, leader epoch, magic, (crc), attributes, last offset delta, (base timestamp), max timestamp."""
_LENGTH_AT = 12
"""A batch is so much longer than its length field says."""
MAGIC = 2


def partition_folders(directory: Path) -> Iterator[tuple[str, int, Path]]:
    """(topic, partition, folder) of the data topics in a log directory; internal ones are left out."""
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return
    for entry in entries:
        found = _FOLDER.fullmatch(entry.name)
        if found is not None and not entry.name.startswith("__") and entry.is_dir():
            yield found["topic"], int(found["partition"]), entry


def ends_of(path: Path) -> Iterator[tuple[int, int]]:
    """(largest timestamp in ms, log end offset) after each batch of a segment, up to the first that is none."""
    try:
        with open(path, "rb") as file:
            size, at = os.fstat(file.fileno()).st_size, 0
            while at + _HEAD.size <= size:
                file.seek(at)
                base, length, _, magic, _, delta, timestamp = _HEAD.unpack(file.read(_HEAD.size))
                if magic != MAGIC or length <= 0 or delta < 0 or at + _LENGTH_AT + length > size:
                    return
                yield timestamp, base + delta + 1
                at += _LENGTH_AT + length
    except (OSError, struct.error):
        return


def log_ends_rows(directory: Path, run_id: str, step_ms: int = 1000) -> list[dict[str, Any]]:
    """Rows of LOG_ENDS from the segments below ``directory``."""
    rows: list[dict[str, Any]] = []
    for topic, partition, folder in partition_folders(directory):
        kept: dict[int, tuple[int, int]] = {}
        now_ms = 0
        for segment in sorted(one for one in folder.iterdir() if _SEGMENT.fullmatch(one.name)):
            for timestamp, end in ends_of(segment):
                now_ms = max(now_ms, timestamp)
                kept[now_ms // step_ms] = (now_ms, end)
        rows += [
            {"run_id": run_id, "source": "log", "topic": topic, "partition": partition, "at_ms": at_ms, "end": end}
            for at_ms, end in kept.values()
        ]
    return rows


def log_ends(spark: Any, directory: Path, run_id: str, step_ms: int = 1000) -> Any:
    """LOG_ENDS of a directory as a DataFrame."""
    import pyarrow

    rows = log_ends_rows(directory, run_id, step_ms)
    return spark.createDataFrame(pyarrow.Table.from_pylist(rows, schema=LOG_ENDS.arrow()), schema=LOG_ENDS.spark())

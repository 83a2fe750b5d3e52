"""Kafka's checkpoint files: a version line, a count line, one row a line; written whole and renamed into place.

`leader-epoch-checkpoint` (epoch, start offset) lies beside a log; `log-start-offset-checkpoint` (topic, partition,
offset) lies in the data directory and names the logs whose start has moved since they began, and so do
`cleaner-offset-checkpoint` with the offsets at which compaction last ended and `replication-offset-checkpoint` with the ends of all
logs, written by a clean shutdown (Kafka's high watermarks).
Source: CheckpointFile, LeaderEpochCheckpointFile, OffsetCheckpointFile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker_sim.storage.files import FILES, Files

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"
PARTITION_FILE = "partition.metadata"
ENDS_FILE = "replication-offset-checkpoint"
PARTITION_FILES = (LOG_START_FILE, CLEANER_FILE)


class CheckpointError(ValueError):
    """A checkpoint file that does not read as one."""


def read_rows(path: Path, files: Files = FILES) -> list[list[str]]:
    """The rows of a checkpoint as words; none where the file is absent or empty. Raises CheckpointError."""
    try:
        text = files.read_file(path).decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise CheckpointError(f"{path} is not text") from None
    if not text:
        return []
    lines = text.splitlines()
    rows = [line.split() for line in lines[2:] if line.strip()]
    if lines[0].strip() != "0" or len(lines) < 2 or lines[1].strip() != str(len(rows)):
        raise CheckpointError(f"{path} does not begin with version 0 and its number of rows")
    if not text.endswith("\n"):
        raise CheckpointError(f"{path} is cut within its last row")  # which may look like one
    return rows


def write_rows(path: Path, rows: Iterable[Iterable[object]], *, files: Files = FILES, sync: bool = False) -> None:
    """Put a checkpoint into place. Raises OSError."""
    lines = [" ".join(str(word) for word in row) for row in rows]
    files.replace_file(path, "\n".join(["0", str(len(lines)), *lines, ""]).encode(), sync=sync)


def partition_of_dir(name: str) -> tuple[str, int] | None:
    """(topic, partition) of a log directory's name, or None where it is none."""
    topic, dash, number = name.rpartition("-")
    if not (topic and dash and number.isascii() and number.isdigit()):
        return None
    return topic, int(number)


def read_offsets(data_dir: Path, name: str, files: Files = FILES) -> dict[tuple[str, int], int]:
    """Offsets by (topic, partition) of the data directory's checkpoint `name`. Raises CheckpointError."""
    path = data_dir / name
    try:
        result = {(topic, int(partition)): int(offset) for topic, partition, offset in read_rows(path, files)}
        if any(not 0 <= offset < 2**63 for offset in result.values()):
            raise ValueError("an invalid offset")
        return result
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from None


def offsets_or_none(data_dir: Path, name: str, files: Files = FILES) -> dict[tuple[str, int], int] | None:
    """As `read_offsets`; None where the file is damaged. A damaged file is logged and renamed to `<name>.damaged`, so that nothing of
    it is overwritten and the next log that needs it does not log it again. Raises OSError.
    """
    try:
        return read_offsets(data_dir, name, files)
    except CheckpointError as error:
        aside = data_dir / f"{name}.damaged"
        files.rename(data_dir / name, aside)
        logger.warning("%s is not used and was renamed to %s: %s", data_dir / name, aside.name, error)
        return None


def write_row(log_dir: Path, name: str, offset: int | None, *, files: Files = FILES, sync: bool = False) -> None:
    """Record (None: forget) the offset of the log in `log_dir` in checkpoint `name`; other logs' rows stay.

    Raises OSError.
    """
    key = partition_of_dir(log_dir.name)
    if key is None:
        return
    offsets = offsets_or_none(log_dir.parent, name, files) or {}
    if offsets.get(key) == offset:
        return
    if offset is None:
        del offsets[key]
    else:
        offsets[key] = offset
    rows = [(topic, partition, known) for (topic, partition), known in offsets.items()]
    write_rows(log_dir.parent / name, rows, files=files, sync=sync)

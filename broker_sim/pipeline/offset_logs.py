"""Logs of `__consumer_offsets` below a name, and the division of their bytes among tasks.

    found = find_logs(["DIR"])          # found.logs, found.skipped
    for part in share_out(found.logs, tasks=4): ...

Rules:
1. A name is a data directory (of the simulator, or a copy of a broker's), one `__consumer_offsets-N` folder, one `.log` file in it,
   or a pattern of them. Folders of other topics in a data directory are ignored; one that was named is reported.
2. A run is a data directory, by its name, unless a run id is given: then all inputs belong to one run. A log partition that a run
   has twice (copies of several brokers) is read once: from the copy that reaches further.
3. A share is ranges of offsets, not of files: the cleaner may rewrite the files before they are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from broker_sim.common.text import UsageError
from broker_sim.pipeline import files
from broker_sim.pipeline.segments import OFFSETS_TOPIC, SegmentFile, Skipped, log_partition_of, segments_of

__all__ = ["LEAST_BYTES", "FoundLogs", "Log", "Slice", "find_logs", "packed", "share_out"]

LEAST_BYTES = 256 * 1024
"""Bytes whose reading costs about as much as a task."""

FILE_BYTES = 16 * 1024
"""Bytes whose reading costs about as much as a folder with its file."""

_LEAVING = re.compile(rf"{OFFSETS_TOPIC}-[0-9]+\.[0-9a-f]+-(?P<why>delete|future|stray)")
_WHY = {
    "delete": "Kafka was deleting it",
    "future": "an unfinished move between disks",
    "stray": "Kafka no longer knew it",
}


@dataclass(frozen=True)
class Log:
    """The log of one partition of `__consumer_offsets`: its folder and segments."""

    run_id: str
    partition: int
    path: str
    segments: tuple[SegmentFile, ...]

    @property
    def key(self) -> str:
        """Key of the log in a stream's offsets."""
        return f"{self.run_id}/{self.partition}"

    @property
    def size(self) -> int:
        """The size of all its segments in bytes."""
        return sum(segment.size for segment in self.segments)


@dataclass
class FoundLogs:
    """Logs by run and partition, and what was named and is none."""

    logs: list[Log] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(frozen=True)
class Slice:
    """The offsets in [start, end) of a log; ``end`` None is wherever it ends. ``hint`` as `segments.read_offsets` takes it."""

    path: str
    run_id: str
    start: int = 0
    end: int | None = None
    hint: tuple[int, int] | None = None
    size: int = 0
    """Bytes, about."""


# ------------------------------------------------------------------------------------------------ finding


def find_logs(names: Iterable[str], run_id: str | None = None) -> FoundLogs:
    """Logs below the names. Raises UsageError for a name without a file or folder."""
    result = FoundLogs()
    logs: dict[tuple[str, int], Log] = {}
    for name in names:
        matches = files.expand(name)
        if not matches or files.entry(matches[0]) is None:
            raise UsageError(f"{name}: no such file or folder")
        for match in matches:
            for log in _logs_at(match, run_id, result.skipped):
                _keep_further(logs, log, result.skipped)
    result.logs = [logs[key] for key in sorted(logs)]
    return result


def _logs_at(path: str, run_id: str | None, skipped: list[Skipped]) -> list[Log]:
    here = files.entry(path)
    if here is None:
        return []
    if not here.is_dir:
        return _of_file(path, run_id, skipped)
    named = log_partition_of(path)
    if named is not None and named[0] == OFFSETS_TOPIC:
        return _of_folder(path, run_id or _run_of(files.parent(path)), skipped)
    below = files.listing(path)
    logs: list[Log] = []
    others = 0
    for entry in below:
        inner = files.inside(path, entry.name)
        topic = log_partition_of(inner)
        if entry.is_dir and topic is not None and topic[0] == OFFSETS_TOPIC:
            logs += _of_folder(inner, run_id or _run_of(path), skipped)
            others += 1
        elif leaving := _LEAVING.fullmatch(entry.name):
            skipped.append(Skipped(inner, None, None, _WHY[leaving["why"]]))
    if not others:
        skipped.append(Skipped(path, None, None, _why_no_log(path, named, [entry.name for entry in below])))
    return logs


def _why_no_log(path: str, named: tuple[str, int] | None, names: Sequence[str]) -> str:
    has_segments = any(name.endswith(".log") for name in names)
    if named is not None and has_segments:
        return f"a partition of the topic {named[0]}, not of {OFFSETS_TOPIC}"
    if has_segments:
        return f"segments in a folder without their partition in its name, as {OFFSETS_TOPIC}-12 does"
    return f"no {OFFSETS_TOPIC}-N folder in it"


def _run_of(directory: str) -> str:
    return files.base_name(directory) or directory


def _of_folder(path: str, run_id: str, skipped: list[Skipped]) -> list[Log]:
    named = log_partition_of(path)
    assert named is not None
    try:
        segments = tuple(segments_of(path))
    except UsageError as error:
        skipped.append(Skipped(path, None, None, f"it can't be read: {str(error).removeprefix(f'{path}: ')}"))
        return []
    if not segments:
        skipped.append(Skipped(path, None, None, "no segments in it"))
    return [Log(run_id, named[1], path, segments)]


def _of_file(path: str, run_id: str | None, skipped: list[Skipped]) -> list[Log]:
    folder = files.parent(path)
    named = log_partition_of(folder)
    if named is None or named[0] != OFFSETS_TOPIC or not path.endswith(".log"):
        skipped.append(Skipped(path, None, None, f"not a segment in a {OFFSETS_TOPIC}-N folder"))
        return []
    mine = tuple(segment for segment in segments_of(folder) if files.base_name(segment.path) == files.base_name(path))
    if not mine:
        skipped.append(Skipped(path, None, None, "not a segment: what cleaning has left, or no number"))
        return []
    return [Log(run_id or _run_of(files.parent(folder)), named[1], folder, mine)]


def _keep_further(logs: dict[tuple[str, int], Log], log: Log, skipped: list[Skipped]) -> None:
    key = (log.run_id, log.partition)
    other = logs.get(key)
    if other is None or other.path == log.path:
        both = log.segments if other is None else tuple(sorted({*other.segments, *log.segments}, key=lambda s: s.base))
        logs[key] = Log(log.run_id, log.partition, log.path, both)
        return
    further, shorter = (log, other) if _reach(log) > _reach(other) else (other, log)
    logs[key] = further
    skipped.append(Skipped(shorter.path, None, None, f"another copy of it reaches as far or further: {further.path}"))


def _reach(log: Log) -> tuple[int, int]:
    return (log.segments[-1].base, log.segments[-1].size) if log.segments else (-1, 0)


# ------------------------------------------------------------------------------------------------ sharing out


def share_out(logs: Iterable[Log], tasks: int) -> list[list[Slice]]:
    """Slices of all that the logs hold, in at most ``tasks`` shares of about the same size; none is empty."""
    logs = [log for log in logs if log.segments]
    total = sum(log.size for log in logs)
    tasks = max(1, min(tasks, -(-total // LEAST_BYTES)))
    most = max(1, -(-total // tasks))
    return packed([part for log in logs for part in _slices(log, most)], tasks)


def _slices(log: Log, most: int) -> list[Slice]:
    """A log as one slice, or cut between segments where it is more than a share."""
    cuts: list[list[SegmentFile]] = [[log.segments[0]]]
    for segment in log.segments[1:]:
        apart = segment.base != cuts[-1][-1].until
        if apart or sum(piece.size for piece in cuts[-1]) + segment.size > most:
            cuts.append([])
        cuts[-1].append(segment)
    return [
        Slice(log.path, log.run_id, cut[0].base, cut[-1].until, None, sum(piece.size for piece in cut)) for cut in cuts
    ]


def packed(slices: Sequence[Slice], bins: int) -> list[list[Slice]]:
    """Slices in at most so many shares, the largest first into the smallest."""
    shares: list[list[Slice]] = [[] for _ in range(bins)]
    sizes = [0] * bins
    for part in sorted(slices, key=lambda part: part.size, reverse=True):
        smallest = sizes.index(min(sizes))
        shares[smallest].append(part)
        sizes[smallest] += part.size + FILE_BYTES
    return [share for share in shares if share]

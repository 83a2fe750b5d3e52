"""Inputs of a run: its folder, journal and name; refused in one line before Spark starts if there is nothing to read.

Rules:
1. A journal without a name is searched for in the input folder, in `journal` below it and in `journal` beside it. Where it can't be
   read, and there is a log, it is ignored and reported as `skipped`; one that was named is refused.
2. Logs of brokers and clients alone are an input, too: what tickets have.
3. A run's name is part of paths: letters, digits, `.`, `_` and `-`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from broker_sim.common.text import UsageError
from broker_sim.pipeline import files, journal_files
from broker_sim.pipeline.lines import reading
from broker_sim.pipeline.lines.reading import LineFile
from broker_sim.pipeline.segments import OFFSETS_TOPIC, log_partition_of, segments_of
from broker_sim.pipeline.share_logs import SHARE_TOPIC
from broker_sim.pipeline.transaction_logs import STATE_TOPIC

__all__ = ["Inputs", "find", "run_name"]

_RUN_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Inputs:
    """``log``: a log directory with folders of `__consumer_offsets`, or None; ``journal``: a journal's path, or None;
    ``size``: bytes of all; ``sizes``: (log partition, bytes of its segments); ``lines``: brokers' and clients' logs;
    ``states``: folders of `__transaction_state`; ``shares``: of `__share_group_state`; ``unread``: (file or folder, why) of what was
    found and passed over."""

    run_id: str
    log: str | None
    journal: str | None
    folders: tuple[str, ...] = ()
    size: int = 0
    sizes: tuple[tuple[int, int], ...] = ()
    lines: tuple[LineFile, ...] = ()
    states: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()


def find(
    directory: str | None,
    journal: str | None,
    run_id: str | None,
    *,
    look: bool = True,
    broker_logs: Collection[str] = (),
    client_logs: Collection[str] = (),
) -> Inputs:
    """The files to read: data directory, journal (with ``look`` also one beside the directory), logs of brokers and clients. All are
    found before an engine starts, so that a wrong path is reported at once. Raises UsageError."""
    if directory is None and journal is None and not broker_logs and not client_logs:
        raise UsageError("nothing to read; give --input DIR, --journal PATH, --broker-log PATH or --client-log PATH")
    lines = (*reading.find(broker_logs, "broker"), *reading.find(client_logs, "client"))
    if run_id is not None and _RUN_ID.fullmatch(run_id) is None:
        raise UsageError(f"--run-id {run_id!r}: not a name (expected letters, digits, '.', '_' and '-')")
    folders: tuple[str, ...] = ()
    unread: list[tuple[str, str]] = []
    if directory is not None:
        folders = _log_folders(directory)
        if journal is None and look:
            journal = _beside(directory)
            if journal is not None and folders:
                try:
                    journal_files.whole([journal])
                except UsageError as error:
                    unread.append((everywhere(journal), str(error)))
                    journal = None
        if not folders and journal is None:
            raise UsageError(
                f"--input {directory}: no directory {OFFSETS_TOPIC}-N in it, and no journal in or beside it (expected a "
                "data directory of broker-sim, or a copy of a Kafka broker's log directory)"
            )
    lines = tuple(replace(file, path=everywhere(file.path)) for file in lines)
    kept_files = journal_files.find([journal]) if journal is not None else []
    if journal is not None and not kept_files:
        raise UsageError(f"--journal {journal}: no journal file is in it")
    sizes = [
        ((log_partition_of(folder) or ("", -1))[1], sum(segment.size for segment in segments_of(folder)))
        for folder in folders
    ]
    size = sum(file.size for file in kept_files) + sum(file.size for file in lines) + sum(size for _, size in sizes)
    log = everywhere(directory) if directory is not None and folders else None
    kept = None if journal is None else everywhere(journal)
    return Inputs(
        run_name(run_id, directory or journal or lines[0].path),
        log,
        kept,
        tuple(map(everywhere, folders)),
        size,
        tuple(sizes),
        lines,
        _folders_of(STATE_TOPIC, directory) if log is not None and directory is not None else (),
        _folders_of(SHARE_TOPIC, directory) if log is not None and directory is not None else (),
        tuple(unread),
    )


def everywhere(name: str) -> str:
    """A name that means the same in every process, whatever folder that runs in: Spark's may have begun elsewhere."""
    return files.local_path(name) or name


def run_name(run_id: str | None, place: str) -> str:
    """The run's name: the given one, else that of the folder."""
    return (run_id or _NOT_IN_IDS.sub("-", files.base_name(place)).strip("-") or "run")[:100]


def _log_folders(directory: str) -> tuple[str, ...]:
    """The folders of `__consumer_offsets` in it; itself where it is one. Raises UsageError."""
    known = log_partition_of(directory)
    if known is not None and known[0] == OFFSETS_TOPIC:
        return (directory,)
    entry = files.entry(directory)
    if entry is None:
        raise UsageError(f"--input {directory}: no such directory")
    if not entry.is_dir:
        raise UsageError(f"--input {directory}: not a directory (expected one that contains __consumer_offsets-N)")
    return tuple(
        files.inside(directory, entry.name)
        for entry in files.listing(directory)
        if entry.is_dir and (log_partition_of(entry.name) or ("", 0))[0] == OFFSETS_TOPIC
    )


def _folders_of(topic: str, directory: str) -> tuple[str, ...]:
    """The folders of another coordinator's topic beside those of `__consumer_offsets`."""
    return tuple(
        everywhere(files.inside(directory, entry.name))
        for entry in files.listing(directory)
        if entry.is_dir and (log_partition_of(entry.name) or ("", 0))[0] == topic
    )


def _beside(directory: str) -> str | None:
    """The journal that belongs to a data directory, if there is one."""
    names = {entry.name for entry in files.listing(directory)}
    if any(name.startswith("journal-") and ".ndjson" in name for name in names):
        return directory
    for place in (files.inside(directory, "journal"), files.inside(files.parent(directory), "journal")):
        entry = files.entry(place)
        if entry is not None and entry.is_dir and journal_files.find([place]):
            return place
    return None

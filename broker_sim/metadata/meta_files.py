"""Files of a cluster's metadata on disk: `cluster.json`, `meta.properties` and the partitions' directories.

    DIR/cluster.json       topics with their ids, settings, replicas and leader epochs; the next producer id;
                           dynamic settings
    DIR/meta.properties    Kafka's own file: cluster id and node id (MetaProperties.java, version 1)
    DIR/<topic>-<n>/       one log each, with Kafka's partition.metadata

Rules:
1. A file is replaced by renaming a complete one over it, never written in place. `cluster.json` is on the disk, its
   directory's entries too, when its writing returns: as Kafka's metadata log, whatever becomes of the records.
2. What cannot be understood raises StoreError naming the file, and is left as it is: a state that was not read is never
   overwritten.
3. Directories of partitions are created before `cluster.json` lists them, and deleted after it no longer does. So a directory without
   records that it does not list belongs to an interrupted creation, for which no client got a response.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from typing import TYPE_CHECKING, Any

from broker_sim.storage.checkpoints import CLEANER_FILE, LEADER_EPOCH_FILE, LOG_START_FILE
from broker_sim.storage.checkpoints import PARTITION_FILE as PARTITION_FILE
from broker_sim.storage.files import FILES, Closable, Files
from kafka_wire.uuids import uuid_bytes, uuid_text

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger("broker_sim.metadata")

PRODUCER_ID_BLOCK = 1000
"""Number of producer ids that are reserved in one write (ProducerIdsBlock.java)."""

STATE_FILE = "cluster.json"
PROPERTIES_FILE = "meta.properties"
FORMAT = 1

LOCK_FILE = ".lock"
"""Kafka's name for the file that is locked while a broker uses a log directory."""

_DIRECTORY = r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<index>0|[1-9][0-9]{0,9})"
_OF_A_NEW_LOG = (
    rf"[0-9]{{20}}\.(log|index|timeindex|snapshot)|({re.escape(PARTITION_FILE)}|{re.escape(LEADER_EPOCH_FILE)})(\.tmp)?"
)


_ODD = "is a link, or not a regular file; a data directory has files and directories alone: copy its target (cp -rL)"


class StoreError(Exception):
    """The data directory has contents that can't be interpreted; the text names the file."""


def lock_directory(directory: Path, files: Files) -> Closable:
    """Make the directory, see that it can be written, and keep others out until that is closed. Raises StoreError."""
    files.make_dir(directory, sync=True)
    try:
        return files.lock(directory / LOCK_FILE)
    except BlockingIOError:
        raise StoreError("in use by another cluster, or by a Kafka broker: stop it, or take a copy") from None


def read_bytes(directory: Path, files: Files = FILES) -> bytes | None:
    """`cluster.json` as it is, durable from now on: another process may not have synced it. None if the file is missing.
    Raises OSError.
    """
    path = directory / STATE_FILE
    try:
        fd = files.open(path)
    except FileNotFoundError:
        return None
    try:
        files.sync(fd)
    finally:
        files.close(fd)
    files.sync_dir(directory)
    return files.read_file(path)


def topic_text(topic_id: bytes, configs: dict[str, str], partitions: list[dict[str, Any]]) -> str:
    """The JSON of one topic in `cluster.json`."""
    return json.dumps({"id": uuid_text(topic_id), "configs": configs, "partitions": partitions})


def write_state(
    directory: Path, state: dict[str, Any], topics: dict[str, str], before: bytes | None, *, files: Files = FILES
) -> bytes:
    """Write `cluster.json`: `state`, and every topic's text, one a line; returns the whole of it. Raises OSError, and then the
    one that was there `before` still is: one that is in place and can be neither made durable nor taken back counts.
    Where it has credentials of users its owner alone may read it.
    """
    private = bool(state.get("scram_credentials"))
    path = directory / STATE_FILE
    head = json.dumps({"format": FORMAT, **state}, indent=1)[:-2]
    rows = ",\n".join(f"  {json.dumps(name)}: {text}" for name, text in topics.items())
    data = f'{head},\n "topics": {{\n{rows}\n }}\n}}\n'.encode()
    try:
        files.replace_file(path, data, sync=True, private=private)
    except OSError:
        if not _stands(path, data, before, files):
            raise
        log.exception("%s may not outlive a loss of power", path)
    return data


def _stands(path: Path, data: bytes, before: bytes | None, files: Files) -> bool:
    """Take `data` back; whether it is there nevertheless."""
    if before is None:
        return False
    for sync in (True, False):  # if not for a loss of power, then for the next process
        with contextlib.suppress(OSError):
            if files.read_file(path) != data:
                return False
            files.replace_file(path, before, sync=sync, private=True)  # it may have had credentials
    try:
        return files.read_file(path) == data
    except OSError:
        return False


def write_properties(
    directory: Path, cluster_id: str, node_id: int, directory_id: str, *, files: Files = FILES
) -> None:
    """Write Kafka's meta.properties unless the file names a cluster. One that does not is logged, and renamed to
    `meta.properties.damaged`."""
    path = directory / PROPERTIES_FILE
    if files.exists(path) and read_cluster_id(directory, files) is None:
        aside = path.with_name(f"{PROPERTIES_FILE}.damaged")
        files.rename(path, aside)
        log.warning("%s has no cluster.id; it was renamed to %s, and a new one has %s", path, aside.name, cluster_id)
    if not files.exists(path):
        lines = ["#", "version=1", f"cluster.id={cluster_id}", f"node.id={node_id}", f"directory.id={directory_id}"]
        files.replace_file(path, ("\n".join(lines) + "\n").encode(), sync=True)


def read_cluster_id(directory: Path, files: Files = FILES) -> str | None:
    """The cluster id in meta.properties, None if the file or the property is missing."""
    try:
        text = files.read_file(directory / PROPERTIES_FILE).decode(errors="replace")
    except FileNotFoundError:
        return None
    match = re.search(r"^cluster\.id=([!-~]{1,200})$", text, re.MULTILINE)
    return match[1] if match else None


def write_partition_id(directory: Path, topic_id: bytes, *, files: Files = FILES, sync: bool = False) -> None:
    """Write Kafka's partition.metadata unless the file exists and contains a topic id."""
    path = directory / PARTITION_FILE
    if read_partition_id(directory, files) is None:
        files.replace_file(path, f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode(), sync=sync)


def read_partition_id(directory: Path, files: Files = FILES) -> bytes | None:
    """The topic id in a partition's directory; None without a file or without an id in it."""
    try:
        text = files.read_file(directory / PARTITION_FILE).decode(errors="replace")
    except FileNotFoundError:
        return None
    match = re.search(r"^topic_id: (\S+)$", text, re.MULTILINE)
    try:
        return uuid_bytes(match[1]) if match else None
    except ValueError:
        return None


def is_log(directory: Path, files: Files = FILES) -> bool:
    """Whether a directory that is named as a partition's has anything that a log has, or nothing at all."""
    names = files.names(directory)
    return not names or any(re.fullmatch(_OF_A_NEW_LOG, name) for name in names)


def holds_records(directory: Path, files: Files = FILES) -> bool:
    """Whether a partition's directory has records, or a file that a new log has not: it must not be removed."""
    for name in files.names(directory):
        if re.fullmatch(_OF_A_NEW_LOG, name) is None or files.is_dir(directory / name):
            return True
        if name.endswith(".log"):
            fd = files.open(directory / name)
            try:
                if files.size(fd):
                    return True
            finally:
                files.close(fd)
    return False


def refuse_links(directory: Path, files: Files = FILES) -> None:
    """Raise StoreError where something that is to be a file or a directory of ours is a link, a pipe or a device: who follows it
    writes somewhere else. For directories out of other hands. Raises OSError.
    """
    ours = (STATE_FILE, PROPERTIES_FILE, LOG_START_FILE, CLEANER_FILE)
    for name in files.odd_names(directory):
        if name.removesuffix(".tmp") in ours or re.fullmatch(_DIRECTORY, name):
            raise StoreError(f"{directory / name} {_ODD}")
    for logs in find_partitions(directory, files).values():
        for path in logs.values():
            for name in files.odd_names(path):
                raise StoreError(f"{path / name} {_ODD}")


def find_partitions(directory: Path, files: Files = FILES) -> dict[str, dict[int, Path]]:
    """Topic -> partition -> directory of every partition's log in a data directory, in the order of their names."""
    logs: dict[str, dict[int, Path]] = {}
    for directory_name in files.names(directory):
        name, path = re.fullmatch(_DIRECTORY, directory_name), directory / directory_name
        if name is not None and files.is_dir(path) and not directory_name.startswith("__cluster_metadata-"):
            logs.setdefault(name["topic"], {})[int(name["index"])] = path
    return logs

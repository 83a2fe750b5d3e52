"""What a cluster's metadata looks like on disk: `cluster.json`, `meta.properties` and the partitions' directories.

    DIR/cluster.json       topics with their ids, settings, replicas and leader epochs; the next producer id; dynamic
    settings DIR/meta.properties    Kafka's own file: cluster id and node id (MetaProperties.java, version 1)
    DIR/<topic>-<n>/       one log each, with Kafka's partition.metadata

Rules: a file is replaced by renaming a complete one over it, never written in place. What cannot be understood raises
StoreError naming the file, and is left as it is: a state that was not read is never overwritten.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from broker_sim.storage.checkpoints import PARTITION_FILE as PARTITION_FILE
from broker_sim.storage.files import FILES, Files

STATE_FILE = "cluster.json"
PROPERTIES_FILE = "meta.properties"
FORMAT = 1

_DIRECTORY = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<index>[0-9]+)")


class StoreError(Exception):
    """The data directory holds something that is not ours to guess; the text names the file."""


def uuid_text(raw: bytes) -> str:
    """A uuid as Kafka writes it: base64 for URLs, unpadded (Uuid.toString)."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of `uuid_text`; raises ValueError."""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"{text!r} is no uuid")
    return raw


def read_state(directory: Path, files: Files = FILES) -> dict[str, Any] | None:
    """What `write_state` wrote; None where there is none. Raises StoreError."""
    path = directory / STATE_FILE
    try:
        state = json.loads(files.read_file(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StoreError(f"{path} is not JSON: {error}") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise StoreError(f"{path} is not a cluster state of format {FORMAT}")
    return state


def topic_text(topic_id: bytes, configs: dict[str, str], partitions: list[dict[str, Any]]) -> str:
    """What `cluster.json` holds of one topic, as JSON."""
    return json.dumps({"id": uuid_text(topic_id), "configs": configs, "partitions": partitions})


def write_state(
    directory: Path, state: dict[str, Any], topics: dict[str, str], *, files: Files = FILES, sync: bool = False
) -> None:
    """Write `cluster.json`: `state`, and every topic's text, one a line. The first one is always synced, so that a loss of power
    leaves a whole one: those after it take its place.
    """
    path = directory / STATE_FILE
    sync = sync or not files.exists(path)
    head = json.dumps({"format": FORMAT, **state}, indent=1)[:-2]
    rows = ",\n".join(f"  {json.dumps(name)}: {text}" for name, text in topics.items())
    files.replace_file(path, f'{head},\n "topics": {{\n{rows}\n }}\n}}\n'.encode(), sync=sync)


def write_properties(
    directory: Path, cluster_id: str, node_id: int, directory_id: str, *, files: Files = FILES
) -> None:
    """Kafka's meta.properties, if there is none."""
    path = directory / PROPERTIES_FILE
    if not files.exists(path):
        lines = ["#", "version=1", f"cluster.id={cluster_id}", f"node.id={node_id}", f"directory.id={directory_id}"]
        files.replace_file(path, ("\n".join(lines) + "\n").encode(), sync=True)


def read_cluster_id(directory: Path, files: Files = FILES) -> str | None:
    """The cluster id in meta.properties, None where it is not told."""
    try:
        text = files.read_file(directory / PROPERTIES_FILE).decode(errors="replace")
    except FileNotFoundError:
        return None
    found = re.search(r"^cluster\.id=(\S+)$", text, re.MULTILINE)
    return found[1] if found else None


def write_partition_id(directory: Path, topic_id: bytes, *, files: Files = FILES, sync: bool = False) -> None:
    """Kafka's partition.metadata, if there is none, or none that tells an id."""
    path = directory / PARTITION_FILE
    if read_partition_id(directory, files) is None:
        files.replace_file(path, f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode(), sync=sync)


def read_partition_id(directory: Path, files: Files = FILES) -> bytes | None:
    """The topic id in a partition's directory; None without a file or without an id in it."""
    try:
        text = files.read_file(directory / PARTITION_FILE).decode(errors="replace")
    except FileNotFoundError:
        return None
    found = re.search(r"^topic_id: (\S+)$", text, re.MULTILINE)
    try:
        return uuid_bytes(found[1]) if found else None
    except ValueError:
        return None


def find_partitions(directory: Path, files: Files = FILES) -> dict[str, dict[int, Path]]:
    """Topic -> partition -> directory of every partition's log in a data directory, in the order of their names."""
    found: dict[str, dict[int, Path]] = {}
    for each in files.names(directory):
        name, path = _DIRECTORY.fullmatch(each), directory / each
        if name is not None and files.is_dir(path) and not each.startswith("__cluster_metadata-"):
            found.setdefault(name["topic"], {})[int(name["index"])] = path
    return found

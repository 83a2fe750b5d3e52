"""Topics in a KRaft broker's `__cluster_metadata-0`: ids, numbers of partitions, settings.

    read_topics(Path("copy"))["orders"].partitions      # 6

Rules:
1. The newest snapshot (`*.checkpoint`), then the log behind it: later records win, a removed topic is left out.
2. Of each record only what is asked for is read; records of other kinds are passed over, and so is all that can't be read.
Source: metadata/*.json of Kafka (TopicRecord 2, PartitionRecord 3, ConfigRecord 4, RemoveTopicRecord 9), KIP-630.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from broker_sim.metadata.topics import METADATA_TOPIC
from kafka_wire import record_batch as rb

_TOPIC, _PARTITION, _CONFIG, _REMOVE_TOPIC = 2, 3, 4, 9
_TOPIC_RESOURCE = 2  # ConfigResource.Type
_UUID_BYTES = 16
Row = TypeVar("Row")


@dataclass
class KnownTopic:
    """A topic as the controller has it."""

    name: str
    topic_id: bytes
    partitions: int = 0
    configs: dict[str, str] = field(default_factory=dict)


def read_topics(directory: Path) -> dict[str, KnownTopic]:
    """The topics in a data directory's metadata, by name; none without metadata. Raises OSError."""
    path = directory / f"{METADATA_TOPIC}-0"
    if not path.is_dir():
        return {}
    snapshots = sorted(file for file in path.iterdir() if file.suffix == ".checkpoint" and file.stem[:20].isdigit())
    start = int(snapshots[-1].stem[:20]) if snapshots else 0
    image = _Image()
    for file in snapshots[-1:]:
        for _, record in records_of(file):
            image.take(record.value)
    for file in segments(path):
        for _, record in records_of(file):
            if record.offset >= start:
                image.take(record.value)
    return image.topics()


def segments(path: Path) -> list[Path]:
    """The segments of a log directory, oldest first."""
    return sorted(file for file in path.iterdir() if file.name.endswith(".log") and file.stem.isdigit())


def records_of(file: Path) -> Iterator[tuple[rb.BatchHeader, rb.Record]]:
    """Every record of a segment with its batch's header, control records too, up to the first batch that is damaged or cut. Raises
    UnsupportedCompression, UnsupportedForMessageFormat, OSError.
    """
    return rows_of(file, lambda batch, header: rb.records(batch, 0, header))


def rows_of(file: Path, read: Callable[[bytes, rb.BatchHeader], Iterable[Row]]) -> Iterator[tuple[rb.BatchHeader, Row]]:
    """As `records_of`, with what ``read`` makes of each batch."""
    if file.stat().st_size == 0:
        return
    with file.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            for position, header in rb.batches(data):  # type: ignore[arg-type]
                batch = data[position : position + header.size]
                rb.check_crc(batch, 0, header)
                for row in read(batch, header):
                    yield header, row
        except (rb.UnsupportedCompression, rb.UnsupportedForMessageFormat):
            raise
        except rb.RecordBatchError:
            return


class _Image:
    """Topics as far as they have been read."""

    def __init__(self) -> None:
        self._by_id: dict[bytes, KnownTopic] = {}
        self._configs: dict[str, dict[str, str]] = {}

    def topics(self) -> dict[str, KnownTopic]:
        for topic in self._by_id.values():
            topic.configs = self._configs.get(topic.name, {})
        return {topic.name: topic for topic in self._by_id.values()}

    def take(self, value: bytes | None) -> None:
        """Apply a record's value: frame version, record type and version as varints, and the message."""
        if value is None:
            return
        try:
            frame, at = rb.unsigned_varint(value, 0, 5)
            kind, at = rb.unsigned_varint(value, at, 5)
            _, at = rb.unsigned_varint(value, at, 5)
            if frame == 1:
                self._apply(kind, value, at)
        except (rb.RecordBatchError, IndexError, ValueError):
            return

    def _apply(self, kind: int, value: bytes, at: int) -> None:
        if kind == _TOPIC:
            name, at = _string(value, at)
            topic_id = _uuid(value, at)
            self._by_id[topic_id] = KnownTopic(name or "", topic_id)
        elif kind == _PARTITION:
            index = int.from_bytes(value[at : at + 4], "big")
            topic = self._by_id.get(_uuid(value, at + 4))
            if topic is not None:
                topic.partitions = max(topic.partitions, index + 1)
        elif kind == _CONFIG and value[at] == _TOPIC_RESOURCE:
            resource, at = _string(value, at + 1)
            name, at = _string(value, at)
            text, at = _string(value, at)
            configs = self._configs.setdefault(resource or "", {})
            if text is None:
                configs.pop(name or "", None)
            else:
                configs[name or ""] = text
        elif kind == _REMOVE_TOPIC:
            removed = self._by_id.pop(_uuid(value, at), None)
            if removed is not None:
                self._configs.pop(removed.name, None)


def _string(value: bytes, at: int) -> tuple[str | None, int]:
    """A compact nullable string, and where it ends. Raises ValueError, IndexError."""
    size, at = rb.unsigned_varint(value, at, 5)
    end = at + size - 1
    if size == 0:
        return None, at
    if end > len(value):
        raise ValueError("a string reaches beyond its record")
    return value[at:end].decode(), end


def _uuid(value: bytes, at: int) -> bytes:
    if at + _UUID_BYTES > len(value):
        raise ValueError("a uuid reaches beyond its record")
    return value[at : at + _UUID_BYTES]

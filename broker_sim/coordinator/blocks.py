"""OffsetCommits that repeat a layout: what stays the same is encoded once, what changes is carried as the bytes it came in.

A consumer commits the same partitions again and again; only offsets and leader epochs change. A ``CommitShape`` holds what is common to
all of its commits. Such a commit means exactly what the ``CommitOffsets`` of its offsets means, and passes the same checks; it only
becomes ``Offset`` objects where somebody looks at them (``Group.offsets``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from broker_sim.coordinator.outcome import CommitOffsets, Offset, TimerKey
from kafka_wire.offsets_log import offset_commit_key, offset_commit_value
from kafka_wire.record_batch import record_heads, varint

if TYPE_CHECKING:
    from broker_sim.coordinator.group import Group, Member, State

VALUE_VERSION = 4
"""The version of the values that blocks write: flexible, as the requests whose bytes they take over."""

CHUNK_BYTES = 12
"""What changes from commit to commit: a partition's offset (int64) and leader epoch (int32), adjacent in requests and in values."""

_VALUE_HEAD = 2  # the version
_VALUE_TAIL = 9  # commit timestamp and tags
_BATCH_HEAD = 61
_RECORD_HEAD = 5 + 1 + 1 + 5  # at most: length, attributes, timestamp and offset delta
_CHUNK = struct.Struct(">qi")
_END = struct.Struct(">q2x")  # of each record: commit timestamp, no tags, no headers


class CommitShape:
    """``command``: the commit as it was seen first; its offsets give partitions and metadata, their values are ignored."""

    __slots__ = (
        "_bodies",
        "_first",
        "_parts",
        "_sizes",
        "_tails",
        "armed",
        "command",
        "count",
        "partitions",
        "passed",
        "size_bytes",
    )

    def __init__(self, command: CommitOffsets) -> None:
        self.command = command
        self.count = len(command.offsets)
        self.passed: tuple[Group, State, int, Member, TimerKey] | None = None
        """For the coordinator: the group, its state and generation, the member and its session, when this passed the checks."""
        self.armed: Any = None
        """For the runtime: the member's session among its timers."""
        self.partitions = frozenset((topic, partition) for topic, partition, _ in command.offsets)
        heads: list[bytes] = []  # of each record: key, and the value up to the chunk
        self._tails: list[bytes] = []  # what stands between the chunk and the timestamp: the metadata
        self._sizes: list[int] = []  # of each record behind its offset delta
        for topic, partition, offset in command.offsets:
            key = offset_commit_key(command.group_id, topic, partition)
            value = offset_commit_value(VALUE_VERSION, 0, 0, offset.metadata, 0)
            heads.append(varint(len(key)) + key + varint(len(value)) + value[:_VALUE_HEAD])
            self._tails.append(value[_VALUE_HEAD + CHUNK_BYTES : -_VALUE_TAIL])
            self._sizes.append(len(heads[-1]) + len(value) - _VALUE_HEAD + 1)  # and no headers
        self._parts = [b""] * (4 * self.count)
        self._parts[1::4] = heads
        self._first: list[bytes] | None = None  # where the records' heads are those of a batch that begins with them
        if len(set(self._tails)) == 1:
            self._first = [b""] * (3 * self.count)
            self._first[::3] = [
                record_heads(size, at, 1)[0] + head
                for at, (size, head) in enumerate(zip(self._sizes, heads, strict=True))
            ]
        self.size_bytes = _BATCH_HEAD + sum(self._sizes) + _RECORD_HEAD * self.count
        """More than a batch of these records alone has."""
        self._bodies: Callable[[list[bytes], bytes, int], bytes] = (
            self._even if len(set(self._sizes)) == 1 and len(set(self._tails)) == 1 else self._uneven
        )

    def offsets(self, chunks: Sequence[bytes], commit_ts_ms: int) -> list[tuple[str, int, Offset]]:
        """As ``CommitOffsets.offsets``."""
        unpack = _CHUNK.unpack
        return [
            (topic, partition, Offset(offset, epoch, like.metadata, commit_ts_ms))
            for (topic, partition, like), (offset, epoch) in zip(self.command.offsets, map(unpack, chunks), strict=True)
        ]

    def alone(self, chunks: Sequence[bytes], commit_ts_ms: int) -> Sequence[bytes]:
        """The records of a commit that has a batch for itself, in pieces that are good until the next call."""
        parts = self._first
        if parts is None:
            return (self.body(chunks, commit_ts_ms, 0),)
        parts[1::3] = chunks
        parts[2::3] = [self._tails[0] + _END.pack(commit_ts_ms)] * self.count
        return parts

    def body(self, chunks: Sequence[bytes], commit_ts_ms: int, first: int) -> bytes:
        """The records of a commit as a batch holds them, numbered from ``first`` on."""
        end = _END.pack(commit_ts_ms)
        parts = self._parts
        parts[2::4] = chunks
        return self._bodies(parts, end, first)

    def _even(self, parts: list[bytes], end: bytes, first: int) -> bytes:
        count = self.count
        parts[::4] = record_heads(self._sizes[0], first, count)
        parts[3::4] = [self._tails[0] + end] * count
        return b"".join(parts)

    def _uneven(self, parts: list[bytes], end: bytes, first: int) -> bytes:
        parts[::4] = [head for at, size in enumerate(self._sizes, first) for head in record_heads(size, at, 1)]
        parts[3::4] = [tail + end for tail in self._tails]
        return b"".join(parts)


Commit = tuple[CommitShape, Sequence[bytes], *tuple[Any, ...]]
"""A commit of a shape: the request's bytes for each partition, in the shape's order. What comes behind is the caller's."""


class CommitBlocks:
    """The commits of one turn, in their order. Each has a token of its own, counted on from the request's, and each is answered as a
    ``CommitOffsets`` of the same instant is."""

    __slots__ = ("commit_ts_ms", "commits")

    def __init__(self, commits: Sequence[Commit], commit_ts_ms: int) -> None:
        self.commits, self.commit_ts_ms = commits, commit_ts_ms

    def bodies(self) -> tuple[Sequence[bytes], int]:
        """The records as one batch holds them, in pieces that are good until the next call, and their number."""
        ts, first = self.commit_ts_ms, 0
        if len(self.commits) == 1:
            shape, chunks, *_ = self.commits[0]
            return shape.alone(chunks, ts), shape.count
        out: list[bytes] = []
        for shape, chunks, *_ in self.commits:
            out.append(shape.body(chunks, ts, first))
            first += shape.count
        return out, first

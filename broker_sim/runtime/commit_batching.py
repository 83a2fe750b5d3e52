"""OffsetCommits that repeat a layout: queued until the end of the event loop's iteration, then appended as one batch.

A consumer commits the same partitions again and again; only offsets and leader epochs change. A `CommitLayout` holds what is common to
all of its commits, encoded once; what changes stays in the request's bytes (`BatchedCommit`). Such a commit passes the same checks and
has the same effect as ``CommitOffsets`` with its offsets.

In the usual case, when the records are committed at once and no group has changed since a commit of that layout passed its checks
(`Validation`), one event without tokens takes the place of two: with 64 connections that commit once each, an iteration makes many
batches of one or two commits, and the two events cost a third of a commit's processor time. Otherwise the commits go event by event.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from broker_sim.coordinator.group import Group
from broker_sim.coordinator.outcome import (
    Client,
    CommitBatch,
    CommitOffsets,
    CommitsLogged,
    Offset,
    RepeatedCommit,
    Request,
    TimerKey,
)
from broker_sim.runtime.timers import Armed
from broker_sim.storage.errors import StorageError
from kafka_wire.errors import Err
from kafka_wire.offsets_log import offset_commit_key, offset_commit_tags, offset_commit_value
from kafka_wire.record_batch import RecordBatchError, record_heads, varint

if TYPE_CHECKING:
    from broker_sim.runtime.asking import Replying
    from broker_sim.runtime.group_coordinator import GroupCoordinator, GroupShardContext

__all__ = [
    "CHUNK_BYTES",
    "VALUE_VERSION",
    "BatchedCommit",
    "CommitLayout",
    "CommitResponder",
    "batch_of",
    "flush_commits",
]

VALUE_VERSION = 4
"""The version of the values that blocks write: flexible, as the requests whose bytes they take over."""

CHUNK_BYTES = 12
"""Bytes that differ from commit to commit: a partition's offset (int64) and leader epoch (int32), adjacent in requests and values."""

_VALUE_HEAD = 2  # the version
_TIMESTAMP = struct.Struct(">q")
_BATCH_HEAD = 61
_RECORD_HEAD = 5 + 1 + 1 + 5  # at most: length, attributes, timestamp and offset delta
_CHUNK = struct.Struct(">qi")
_NO_HEADERS = b"\0"


_NO_CLIENT = Client("", "", 0)
"""The client of requests whose handling does not depend on it."""


class CommitResponder(Protocol):
    """Writes the replies to the commits of a layout."""

    @property
    def good(self) -> tuple[bytes, bytes]:
        """The frame of a reply without errors: the bytes before and after the correlation id."""

    def answer(self, connection: Replying, reply: list[bytes], correlation_id: bytes, error: Err) -> None:
        """Fill in ``reply``, which has its place on the connection (``reserve_reply``)."""


class Validation(NamedTuple):
    """A commit of a layout passed the checks of its group when the group had this ``version``, and its member this ``current``.
    ``session``: the timer of its member's session, and the session timeout in ms."""

    group: Group
    version: int
    current: object | None
    session: tuple[TimerKey, int] | None


class CommitLayout:
    """``command``: the commit as it was seen first; its offsets give partitions and metadata, their values are ignored."""

    __slots__ = (
        "_bodies",
        "_ends",
        "_first",
        "_parts",
        "_sizes",
        "_tails",
        "armed",
        "command",
        "count",
        "partitions",
        "size_bytes",
        "validation",
    )

    def __init__(self, command: CommitOffsets) -> None:
        self.command = command
        self.count = len(command.offsets)
        self.validation: Validation | None = None
        self.armed: Armed[Any] | None = None
        """The member's session among the timers."""
        self.partitions = frozenset((topic, partition) for topic, partition, _ in command.offsets)
        heads: list[bytes] = []  # of each record: key, and the value up to the chunk
        self._tails: list[bytes] = []  # between the chunk and the timestamp: the metadata
        self._ends: list[bytes] = []  # after the timestamp: the topic's id, if that is stored
        self._sizes: list[int] = []  # of each record behind its offset delta
        for topic, partition, offset in command.offsets:
            key = offset_commit_key(command.group_id, topic, partition)
            tags = offset_commit_tags(offset.topic_id)
            value = offset_commit_value(VALUE_VERSION, 0, 0, offset.metadata, 0, topic_id=offset.topic_id)
            heads.append(varint(len(key)) + key + varint(len(value)) + value[:_VALUE_HEAD])
            self._tails.append(value[_VALUE_HEAD + CHUNK_BYTES : -_TIMESTAMP.size - len(tags)])
            self._ends.append(tags + _NO_HEADERS)
            self._sizes.append(len(heads[-1]) + len(value) - _VALUE_HEAD + 1)  # and no headers
        self._parts = [b""] * (4 * self.count)
        self._parts[1::4] = heads
        self._first: list[bytes] | None = None  # where the records' heads are those of a batch that begins with them
        alike = len(set(self._tails)) == len(set(self._ends)) == 1
        if alike:
            self._first = [b""] * (3 * self.count)
            self._first[::3] = [
                record_heads(size, at, 1)[0] + head
                for at, (size, head) in enumerate(zip(self._sizes, heads, strict=True))
            ]
        self.size_bytes = _BATCH_HEAD + sum(self._sizes) + _RECORD_HEAD * self.count
        """More than a batch of these records alone has."""
        self._bodies: Callable[[list[bytes], bytes, int], bytes] = (
            self._even if alike and len(set(self._sizes)) == 1 else self._uneven
        )

    def offsets(self, chunks: Sequence[bytes], commit_ts_ms: int) -> list[tuple[str, int, Offset]]:
        """The offsets of a commit, as in ``CommitOffsets.offsets``."""
        unpack = _CHUNK.unpack
        return [
            (topic, partition, Offset(offset, epoch, like.metadata, commit_ts_ms, -1, like.topic_id))
            for (topic, partition, like), (offset, epoch) in zip(self.command.offsets, map(unpack, chunks), strict=True)
        ]

    def alone(self, chunks: Sequence[bytes], commit_ts_ms: int) -> Sequence[bytes]:
        """The records of a commit that has a batch for itself, in pieces that are good until the next call."""
        parts = self._first
        if parts is None:
            return (self.body(chunks, commit_ts_ms, 0),)
        parts[1::3] = chunks
        parts[2::3] = [self._tails[0] + _TIMESTAMP.pack(commit_ts_ms) + self._ends[0]] * self.count
        return parts

    def body(self, chunks: Sequence[bytes], commit_ts_ms: int, first: int) -> bytes:
        """The records of a commit, numbered from ``first`` on, as in a batch."""
        parts = self._parts
        parts[2::4] = chunks
        return self._bodies(parts, _TIMESTAMP.pack(commit_ts_ms), first)

    def _even(self, parts: list[bytes], timestamp: bytes, first: int) -> bytes:
        count = self.count
        parts[::4] = record_heads(self._sizes[0], first, count)
        parts[3::4] = [self._tails[0] + timestamp + self._ends[0]] * count
        return b"".join(parts)

    def _uneven(self, parts: list[bytes], timestamp: bytes, first: int) -> bytes:
        parts[::4] = [head for at, size in enumerate(self._sizes, first) for head in record_heads(size, at, 1)]
        parts[3::4] = [tail + timestamp + end for tail, end in zip(self._tails, self._ends, strict=True)]
        return b"".join(parts)


class BatchedCommit:
    """A commit of a layout (`coordinator.outcome.RepeatedCommit`): the request's bytes for each partition, in the layout's order; its
    reply and correlation id; who answers it, and where."""

    __slots__ = ("answer", "chunks", "commit_ts_ms", "connection", "correlation_id", "layout", "reply")

    def __init__(
        self,
        layout: CommitLayout,
        chunks: Sequence[bytes],
        reply: list[bytes],
        correlation_id: bytes,
        answer: CommitResponder,
        connection: Replying,
    ) -> None:
        self.layout, self.chunks = layout, chunks
        self.reply, self.correlation_id, self.answer, self.connection = reply, correlation_id, answer, connection
        self.commit_ts_ms = 0

    def offsets(self) -> list[tuple[str, int, Offset]]:
        return self.layout.offsets(self.chunks, self.commit_ts_ms)


def batch_of(commits: Sequence[RepeatedCommit]) -> tuple[Sequence[bytes], int]:
    """The records of commits for one batch, in pieces that are valid until the next call, and their number."""
    out: list[bytes] = []
    first = 0
    for commit in commits:
        assert isinstance(commit, BatchedCommit)
        layout = commit.layout
        if len(commits) == 1:
            return layout.alone(commit.chunks, commit.commit_ts_ms), layout.count
        out.append(layout.body(commit.chunks, commit.commit_ts_ms, first))
        first += layout.count
    return out, first


def flush_commits(runtime: GroupCoordinator, context: GroupShardContext, now_ms: int) -> None:
    """Append the commits that were queued for a shard, and answer them."""
    commits: list[BatchedCommit]
    commits, context.queued_requests, context.queued_bytes = context.queued_requests, [], 0
    for commit in commits:
        commit.commit_ts_ms = now_ms
    partition, buggify = context.partition, runtime.state.buggify
    if (
        partition.high_watermark_frozen
        or partition.append_interceptor is not None
        or partition.isr_too_small
        or partition.deleted
        or runtime.observer is not None
        or (buggify is not None and buggify.fires("commits by events"))
        or not _are_still_valid(context, commits)
    ):
        _by_events(runtime, context, commits, now_ms)
        return
    error, last_offset = Err.NONE, -1
    try:
        last_offset = partition.append_records(*batch_of(commits), now_ms=now_ms)
    except (StorageError, RecordBatchError) as failure:
        error = runtime.append_failed(partition, failure)
    high_watermark = partition.high_watermark
    if error is not Err.NONE or last_offset >= high_watermark:
        _by_events(runtime, context, commits, now_ms, (error, last_offset))
        return
    context.shard.step(CommitsLogged(commits, last_offset, high_watermark), now_ms)
    for commit in commits:
        validation = commit.layout.validation
        if validation is not None and validation.session is not None:
            _restart_session(runtime, context, commit.layout, validation.session, now_ms)
        before, behind = commit.answer.good
        commit.reply += (before, commit.correlation_id, behind)
        commit.connection.replied()


def _are_still_valid(context: GroupShardContext, commits: Sequence[BatchedCommit]) -> bool:
    """Whether all of ``commits`` pass and can be answered at once: no group has changed, and no earlier write is pending."""
    if context.shard.writes:
        return False
    for commit in commits:
        validation = commit.layout.validation
        if validation is None or validation.group.version != validation.version:
            return False
        if (
            validation.current is not None
            and validation.group.current_of(commit.layout.command.member_id) is not validation.current
        ):
            return False
    return True


def _restart_session(
    runtime: GroupCoordinator, context: GroupShardContext, layout: CommitLayout, of: tuple[TimerKey, int], now_ms: int
) -> None:
    """Restart the session of the layout's member, as the outcome of its commit does."""
    session, timeout_ms = of
    deadline_ms, armed = now_ms + timeout_ms, layout.armed
    if armed is not None and armed.alive and armed.deadline_ms <= deadline_ms:
        armed.deadline_ms = deadline_ms
    else:
        key = (context.shard.partition, session)
        runtime.timers.set(key, deadline_ms)
        layout.armed = runtime.timers.armed(key)


def _by_events(
    runtime: GroupCoordinator,
    context: GroupShardContext,
    commits: list[BatchedCommit],
    now_ms: int,
    append_result: tuple[Err, int] | None = None,
) -> None:
    """Step the shard with the queued commits. ``append_result``: error and last offset, if they were appended already."""
    tokens = [
        runtime.token(partial(commit.answer.answer, commit.connection, commit.reply, commit.correlation_id))
        for commit in commits
    ]
    outcome = runtime._outcome_of(context, Request(tokens[0], _NO_CLIENT, CommitBatch(commits)), now_ms)
    for append in outcome.appends:
        for commit in append.commits:
            assert isinstance(commit, BatchedCommit)
            _remember_validation(context, commit.layout)
    if append_result is not None:
        appends, outcome.appends = outcome.appends, []
        runtime._perform(context, outcome, now_ms)
        outcome = runtime._report_append(context, appends, *append_result, now_ms)
    runtime._perform(context, outcome, now_ms)


def _remember_validation(context: GroupShardContext, layout: CommitLayout) -> None:
    """Store that a commit of the layout has passed its group's checks."""
    group = context.shard.groups.get(layout.command.group_id)
    if group is not None:
        member_id = layout.command.member_id
        layout.validation = Validation(group, group.version, group.current_of(member_id), group.session_of(member_id))

"""OffsetCommit (8). v0 has neither member nor generation and is stored apart (``legacy_offsets``); v1 has commit timestamps; v2-4 a
retention time; v6 leader epochs; v7 static members; v9 knows GROUP_ID_NOT_FOUND; v10 has topic ids in place of names.

Order of checks: topics and partitions; the coordinator check; the metadata's length; the group's own (``coordinator.offsets``). If no
partition is left after the first, the response does not depend on the group.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from broker_sim.common.longs import as_long
from broker_sim.common.slices import Pace, at_once, listed
from broker_sim.coordinator.outcome import CommitOffsets, Offset
from broker_sim.coordinator.records import OffsetRecord
from broker_sim.coordinator.records import encode as encode_record
from broker_sim.handlers.commit_order import in_map_order
from broker_sim.handlers.groups import find_shard, merged, waits_for_timers
from broker_sim.metadata.cluster_state import ClusterState
from broker_sim.requests.context import LARGE, ConnectionLike, FastHandler, RequestContext
from broker_sim.requests.traits import ErrorTraits, PartialErrors
from broker_sim.runtime.asking import DEFERRED, Deferred, Replying
from broker_sim.runtime.commit_batching import CHUNK_BYTES, VALUE_VERSION, BatchedCommit, CommitLayout
from broker_sim.runtime.group_coordinator import GroupShardContext
from kafka_wire.api_keys import ApiKey
from kafka_wire.codec import decode, encode
from kafka_wire.errors import Err
from kafka_wire.frame import encode_response_head, response_is_tagged
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest
from kafka_wire.schema import ZERO_UUID

_PIECE = 2000
"""Partitions and topics that are looked at before others are served."""

_BY_ID = 10


_Called = tuple[str, bytes]
"""A topic's name ("" for an unknown id), and its id in the request, zero before v10."""

_NOT_THERE = (Err.UNKNOWN_TOPIC_OR_PARTITION, Err.UNKNOWN_TOPIC_ID)

Answer = Err | Mapping[tuple[str, int], Err]
"""The group's, for all that it was asked, or for some partitions (`CommitOffsets`)."""


def handle(ctx: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse | Deferred | None:
    """Sort out what can't be committed, then ask the group for the rest."""
    if request.generation_id_or_member_epoch < 0 and waits_for_timers(ctx, request):
        return None  # whether the group has members makes the answer, and this is no sign of life of one
    answered: OffsetCommitResponse | Deferred | None = ctx.in_pieces(_commit(ctx, request))
    return answered


# In the order of KafkaApis.handleOffsetCommitRequest: missing partitions first, as their errors don't depend on the coordinator.
def _commit(
    ctx: RequestContext, request: OffsetCommitRequest
) -> Generator[None, None, OffsetCommitResponse | Deferred | None]:
    runtime, topics = ctx.coordinators.groups, ctx.broker.state.topics
    now_ms = runtime.clock.now_ms()
    max_metadata = runtime.max_metadata_chars
    # the end of the longest retention lies in the past (OffsetMetadataManager.commitOffset)
    expire_ts_ms = -1 if request.retention_time_ms == -1 else as_long(now_ms + request.retention_time_ms)
    errors: dict[tuple[int, int], Err] = {}  # by position in the request
    offsets: list[tuple[str, int, Offset]] = []
    too_long: list[tuple[str, int]] = []
    known = 0
    unknown: set[_Called] = set()
    if ctx.api_version >= _BY_ID:
        request = yield from _naming(request, ctx.broker.state)
    stores_ids = ctx.api_version >= _BY_ID or runtime.settings.policy.commits_by_name_store_topic_ids
    policy, requested_topics = runtime.settings.policy, request.topics
    if policy.commits_are_maps:
        request = yield from as_a_map(request, None if policy.missing_are_maps else ctx.broker.state)
    pace = Pace(_PIECE)
    for t, requested in enumerate(request.topics):
        if pace.full():
            yield
        name = requested.name
        topic = topics.get(name)
        count = 0 if topic is None else len(topic.partitions)
        if topic is None:
            unknown.add((name, requested.topic_id))
        topic_id = topic.topic_id if topic is not None and stores_ids else ZERO_UUID
        absent = (
            Err.UNKNOWN_TOPIC_OR_PARTITION if topic is not None or ctx.api_version < _BY_ID else Err.UNKNOWN_TOPIC_ID
        )
        for p, part in enumerate(requested.partitions):
            if pace.full():
                yield
            if not 0 <= part.partition_index < count:
                errors[t, p] = absent
                continue
            known += 1
            metadata = part.committed_metadata or ""
            if len(metadata) > max_metadata or (not metadata.isascii() and utf16_length(metadata) > max_metadata):
                errors[t, p] = Err.OFFSET_METADATA_TOO_LARGE
                too_long.append((name, part.partition_index))
                continue
            commit_ts_ms = now_ms if part.commit_timestamp == -1 else part.commit_timestamp
            offset = Offset(
                part.committed_offset, part.committed_leader_epoch, metadata, commit_ts_ms, expire_ts_ms, topic_id
            )
            offsets.append((name, part.partition_index, offset))

    def response(error: Answer) -> Generator[None, None, OffsetCommitResponse]:
        return _response(request, errors, error, unknown)

    if known == 0:
        return (yield from response(Err.NONE))
    if ctx.api_version == 0:
        for name, index, offset in offsets:
            runtime.legacy_offsets[request.group_id, name, index] = offset
        return (yield from response(Err.NONE))
    offsets = yield from in_map_order(offsets, too_long, requested_topics, policy)
    command = _command(request, ctx.api_version, offsets, too_long)
    if len(offsets) > _PIECE:
        value_version = policy.commit_value_version
        records = (OffsetRecord(request.group_id, *offset) for offset in offsets)
        command.encoded = yield from listed((encode_record(record, value_version) for record in records), _PIECE // 4)
    shard = find_shard(ctx, request.group_id, empty_id_is_legal=True)
    if isinstance(shard, Err):
        return (yield from response(shard))
    answered: Deferred | None = runtime.submit(shard, ctx, command, response)
    return answered


def _command(
    request: OffsetCommitRequest,
    version: int,
    offsets: list[tuple[str, int, Offset]],
    too_long: Sequence[tuple[str, int]] = (),
) -> CommitOffsets:
    return CommitOffsets(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        offsets,
        epoch_errors=version >= 9,
        too_long=too_long,
    )


def _response(
    request: OffsetCommitRequest,
    errors: dict[tuple[int, int], Err],
    error: Answer,
    unknown: Collection[_Called],
) -> Generator[None, None, OffsetCommitResponse]:
    """Every partition asked for; ``error`` is the group's answer. ``unknown``: the topics that aren't there.

    4.x answers what isn't there first, then what its coordinator was asked, topic by topic: where nothing stood before, one named
    twice has two entries.
    """
    existing: list[tuple[_Called, OffsetCommitResponseTopic]] = []
    missing: dict[_Called, OffsetCommitResponseTopic] = {}
    pace = Pace(_PIECE)
    for t, topic in enumerate(request.topics):
        if pace.full():
            yield
        name, topic_id, requested = topic.name, topic.topic_id, []
        called = name, topic_id
        shown_name = name if topic_id == ZERO_UUID else ""
        absent = OffsetCommitResponseTopic(shown_name, topic_id)
        if called in unknown:
            absent = missing.setdefault(called, absent)
        for p, part in enumerate(topic.partitions):
            if pace.full():
                yield
            own = errors.get((t, p), Err.NONE) if errors else Err.NONE
            groups = error if isinstance(error, Err) else error.get((name, part.partition_index), Err.NONE)
            row = OffsetCommitResponsePartition(part.partition_index, _worst(own, groups))
            if own not in _NOT_THERE:
                requested.append(row)
            else:
                missing.setdefault(called, absent).partitions.append(row)
        if requested:
            existing.append((called, OffsetCommitResponseTopic(shown_name, topic_id, requested)))
    return OffsetCommitResponse(topics=merged(missing, existing))


def _naming(request: OffsetCommitRequest, state: ClusterState) -> Generator[None, None, OffsetCommitRequest]:
    """A request by ids with the topics' names, as far as there are any."""
    known = state.topics_by_id
    topics = yield from listed(
        (
            replace(topic, name=known[topic.topic_id].name if topic.topic_id in known else "")
            for topic in request.topics
        ),
        _PIECE,
    )
    return replace(request, topics=topics)


_Commit = TypeVar("_Commit", OffsetCommitRequest, TxnOffsetCommitRequest)


def as_a_map(request: _Commit, state: ClusterState | None) -> Generator[None, None, _Commit]:
    """The partitions of a request as a map, made in pieces: of a partition that is named twice the later one, even if it is refused; of
    a topic without partitions nothing. With `state`, missing topics and partitions are not in the map, and come first."""
    topics: dict[str, dict[int, Any]] = {}
    outside: list[Any] = []
    pace = Pace(_PIECE)
    for topic in request.topics:
        if pace.full():
            yield
        missing = []
        for part in topic.partitions:
            if pace.full():
                yield
            if state is None or state.partition(topic.name, part.partition_index) is not None:
                topics.setdefault(topic.name, {})[part.partition_index] = part
            else:
                missing.append(part)
        if missing or (state is not None and topic.name not in state.topics):
            outside.append(replace(topic, partitions=missing))
    kept = ((topic, topics.pop(topic.name, None)) for topic in request.topics)
    inside: list[Any] = yield from listed(
        (replace(topic, partitions=list(parts.values())) for topic, parts in kept if parts), _PIECE
    )
    return replace(request, topics=[*outside, *inside])


def _worst(own: Err, error: Err) -> Err:
    """A topic that isn't there stays so; metadata that is too long is looked at only where the group takes the commit."""
    if own is Err.NONE or (own is Err.OFFSET_METADATA_TOO_LARGE and error is not Err.NONE):
        return error
    return own


def utf16_length(text: str) -> int:
    """The length of a Java string."""
    return len(text) + sum(1 for char in text if char > "\uffff")


# --- commits that repeat a layout -------------------------------------------------------------------------------------

_SHAPES = 4
"""Layouts that a connection remembers."""
_MAX_PARTITIONS = 1000


class _Shapes(dict[int, "_Known"]):
    """A connection's layouts, by size of the body and API version (`_key`). One that never repeats itself isn't learned for long."""

    __slots__ = ("learned", "used")

    def __init__(self) -> None:
        super().__init__()
        self.learned = self.used = 0


class _Known:
    """One layout: how to take a body apart into what must be as it was and what may change, and what comes of it."""

    __slots__ = ("_version", "constants", "context", "good", "layout", "request", "state_version", "unpack")

    def __init__(
        self,
        body: bytes,
        request: OffsetCommitRequest,
        version: int,
        topic_ids: Mapping[str, bytes],
        context: GroupShardContext,
        state_version: int,
    ) -> None:
        layout, constants = _layout(body, request, version)
        self.unpack = struct.Struct(layout).unpack_from
        self.constants = constants
        self.request = request
        self._version = version
        self.good = _pieces(request, version, Err.NONE)
        self.context, self.state_version = context, state_version
        offsets = [
            (
                topic.name,
                part.partition_index,
                Offset(0, -1, part.committed_metadata or "", 0, topic_id=topic_ids.get(topic.name, ZERO_UUID)),
            )
            for topic in request.topics
            for part in topic.partitions
        ]
        self.layout = CommitLayout(_command(request, version, offsets))

    def answer(self, connection: Replying, reply: list[bytes], correlation_id: bytes, error: Answer) -> None:
        """Fill in a reply that was late."""
        before, behind = self.good if error is Err.NONE else _pieces(self.request, self._version, error)
        reply += (before, correlation_id, behind)
        connection.replied()


def _pieces(request: OffsetCommitRequest, version: int, error: Answer) -> tuple[bytes, bytes]:
    """A reply's frame, the part before and the one behind the correlation id."""
    body = encode(at_once(_response(request, {}, error, ())), version)
    head = encode_response_head(response_is_tagged(ApiKey.OFFSET_COMMIT, version), 0, len(body))
    return head[:4], head[8:] + body


def _layout(body: bytes, request: OffsetCommitRequest, version: int) -> tuple[str, tuple[bytes, ...]]:
    """The struct format that splits such a body, and the constant parts in between.

    The positions of offsets and leader epochs are found by encoding the request twice, with all their bits clear and set.
    """
    low, high = (encode(_with_offsets(request, value, version), version) for value in (0, -1))
    formats, constants, at = [">"], [], 0
    while True:
        start = at
        while at < len(low) and low[at] == high[at]:
            at += 1
        constants.append(body[start:at])
        formats.append(f"{at - start}s")
        if at == len(low):
            return "".join(formats), tuple(constants)
        formats.append(f"{CHUNK_BYTES}s")
        at += CHUNK_BYTES


def _with_offsets(request: OffsetCommitRequest, value: int, version: int) -> OffsetCommitRequest:
    topics = [
        replace(
            t,
            name="" if version >= _BY_ID else t.name,
            partitions=[replace(p, committed_offset=value, committed_leader_epoch=value) for p in t.partitions],
        )
        for t in request.topics
    ]
    return replace(request, topics=topics)


def _learn(connection: ConnectionLike, shapes: _Shapes, body: bytes, version: int) -> None:
    """Remember the layout of a commit that nothing but its group could refuse."""
    shapes.learned += 1
    runtime, state = connection.coordinators.groups, connection.broker.state
    policy = runtime.settings.policy
    request = decode(OffsetCommitRequest, version, body)
    plain = encode(request, version) == body
    if version >= _BY_ID:
        request = at_once(_naming(request, state))
    asked = [(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions]
    if not 0 < len(asked) <= _MAX_PARTITIONS or len(set(asked)) < len(asked) or not plain:
        return
    if not policy.shares_batches or policy.commit_value_version != VALUE_VERSION:
        return
    if not all(topic.partitions for topic in request.topics):
        return  # what its answer is hangs on which of these topics there are
    for topic in request.topics:
        for part in topic.partitions:
            metadata = part.committed_metadata or ""
            if (
                state.partition(topic.name, part.partition_index) is None
                or len(metadata) * 2 > runtime.max_metadata_chars
            ):
                return
    shard = find_shard(connection, request.group_id, empty_id_is_legal=True)
    if isinstance(shard, Err):
        return
    if len(shapes) >= _SHAPES:
        shapes.clear()
    stores_ids = version >= _BY_ID or policy.commits_by_name_store_topic_ids
    topic_ids = {topic.name: state.topics[topic.name].topic_id for topic in request.topics} if stores_ids else {}
    known = _Known(body, request, version, topic_ids, runtime.context_of(shard), state.version)
    shapes[len(body) << 4 | version] = known


def _fast(version: int) -> FastHandler:
    """A commit whose bytes are those of an earlier one of the connection, but for offsets and leader epochs."""

    def fast(connection: ConnectionLike, frame: bytes, body: int, correlation_id: int) -> Deferred | None:
        shapes = connection.scratch
        if not isinstance(shapes, _Shapes):
            shapes = connection.scratch = _Shapes()
        known = shapes.get(len(frame) - body << 4 | version)
        if known is not None:
            pieces = known.unpack(frame, body)
            if pieces[::2] == known.constants and connection.broker.state.version == known.state_version:
                context = known.context
                if not context.partition.high_watermark_frozen and context.partition.append_interceptor is None:
                    shapes.used += 1
                    reply = connection.reserve_reply()
                    commit = BatchedCommit(known.layout, pieces[1::2], reply, frame[8:12], known, connection)
                    connection.coordinators.groups.queue_commit(context, commit)
                    return DEFERRED
        if len(frame) < LARGE and shapes.learned <= _SHAPES + shapes.used // _SHAPES:
            _learn(connection, shapes, frame[body:], version)
        return None

    return fast


FAST: dict[int, FastHandler] = {version: _fast(version) for version in (8, 9, 10)}


_OF_PARTITIONS = {
    Err.UNKNOWN_TOPIC_OR_PARTITION,
    Err.UNKNOWN_TOPIC_ID,
    Err.TOPIC_AUTHORIZATION_FAILED,
    Err.OFFSET_METADATA_TOO_LARGE,
    Err.INVALID_COMMIT_OFFSET_SIZE,
}
"""Errors of one partition; all others are the group's."""

TRAITS = ErrorTraits(parts=PartialErrors(frozenset(_OF_PARTITIONS)))

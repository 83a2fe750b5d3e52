"""OffsetCommit (8). v0 has neither member nor generation and is kept apart (``legacy_offsets``); v1 carries commit timestamps; v2-4
a retention time; v6 leader epochs; v7 static members; v9 is the first that knows GROUP_ID_NOT_FOUND.

Order of checks: topics and partitions; the gate; the metadata's length; the group's own (``coordinator.offsets``). Where no partition
is left after the first, the answer goes out without a look at the group.
"""

from __future__ import annotations

from broker_sim.coordinator.outcome import CommitOffsets, Offset
from broker_sim.handlers.context import Deferred, RequestContext
from broker_sim.handlers.groups import gate
from protocol.errors import Err
from protocol.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_FOR_EVER_MS = (1 << 63) - 1


def handle(ctx: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse | Deferred | None:
    """Sort out what can't be committed, then ask the group for the rest."""
    runtime, topics = ctx.broker.runtime, ctx.broker.state.topics
    now_ms = runtime.clock.now_ms()
    max_metadata = runtime.max_metadata_chars
    expire_ts_ms = -1 if request.retention_time_ms < 0 else min(now_ms + request.retention_time_ms, _FOR_EVER_MS)
    errors: dict[tuple[int, int], Err] = {}  # by position in the request
    offsets: list[tuple[str, int, Offset]] = []
    known = 0
    for t, requested in enumerate(request.topics):
        name = requested.name
        topic = topics.get(name)
        count = 0 if topic is None else len(topic.partitions)
        for p, part in enumerate(requested.partitions):
            if not 0 <= part.partition_index < count:
                errors[t, p] = Err.UNKNOWN_TOPIC_OR_PARTITION
                continue
            known += 1
            metadata = part.committed_metadata or ""
            if len(metadata) > max_metadata or (not metadata.isascii() and utf16_length(metadata) > max_metadata):
                errors[t, p] = Err.OFFSET_METADATA_TOO_LARGE
                continue
            commit_ts_ms = now_ms if part.commit_timestamp < 0 else part.commit_timestamp
            offset = Offset(part.committed_offset, part.committed_leader_epoch, metadata, commit_ts_ms, expire_ts_ms)
            offsets.append((name, part.partition_index, offset))

    def response(error: Err) -> OffsetCommitResponse:
        return _response(request, errors, error, unique=runtime.settings.policy.answers_partitions_once)

    if known == 0:
        return response(Err.NONE)
    if ctx.api_version == 0:
        for name, index, offset in offsets:
            runtime.legacy_offsets[request.group_id, name, index] = offset
        return response(Err.NONE)
    shard = gate(ctx, request.group_id, empty_id_is_legal=True)
    if isinstance(shard, Err):
        return response(shard)
    if runtime.settings.policy.answers_partitions_once:
        offsets = list({row[:2]: row for row in offsets}.values())
    body = CommitOffsets(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        offsets,
        epoch_errors=ctx.api_version >= 9,
    )
    answered: Deferred | None = runtime.submit(shard, ctx, body, response)
    return answered


def _response(
    request: OffsetCommitRequest, errors: dict[tuple[int, int], Err], error: Err, *, unique: bool
) -> OffsetCommitResponse:
    """Every partition asked for; ``error`` is the group's. Topics without partitions are left out. Kafka 4.x answers what isn't there
    before the rest; 3.x answers a partition that was asked twice once (``unique``)."""
    rows = [
        (topic.name, part.partition_index, errors.get((t, p), Err.NONE))
        for t, topic in enumerate(request.topics)
        for p, part in enumerate(topic.partitions)
    ]
    if unique:
        rows = [(name, index, own) for (name, index), own in {row[:2]: row[2] for row in rows}.items()]
    elif errors:
        rows.sort(key=lambda row: row[2] is not Err.UNKNOWN_TOPIC_OR_PARTITION)
    topics: dict[str, list[OffsetCommitResponsePartition]] = {}
    for name, index, own in rows:
        topics.setdefault(name, []).append(OffsetCommitResponsePartition(index, _worst(own, error)))
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name, parts) for name, parts in topics.items()])


def _worst(own: Err, error: Err) -> Err:
    """A topic that isn't there stays so; metadata that is too long is looked at only where the group takes the commit."""
    if own is Err.NONE or (own is Err.OFFSET_METADATA_TOO_LARGE and error is not Err.NONE):
        return error
    return own


def utf16_length(text: str) -> int:
    """The length of a Java string."""
    return len(text) + sum(1 for char in text if char > "\uffff")

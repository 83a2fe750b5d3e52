"""TxnOffsetCommit (28), versions 0-6: offsets that count when the producer's transaction is committed, and never where it is aborted.

v3 names a member, whose generation fences zombies (KIP-447): unlike OffsetCommit's it may be left out although the group has members.
v4 knows TRANSACTION_ABORTABLE. v5 adds the group's partition of ``__consumer_offsets`` to the transaction, where AddOffsetsToTxn did
(KIP-890). v6 topic ids. Its records are those of OffsetCommit, in a transactional batch.
Source: KafkaApis.handleTxnOffsetCommitRequest, GroupCoordinatorService.commitTransactionalOffsets.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from broker_sim.common.slices import Pace
from broker_sim.coordinator.outcome import BatchProducer, CommitOffsets, Offset
from broker_sim.handlers.commit_order import in_map_order
from broker_sim.handlers.groups import find_shard, merged
from broker_sim.handlers.in_transaction import ABORTABLE, ADDS, OLD, Place, ask
from broker_sim.handlers.k08_offset_commit import as_a_map, utf16_length
from broker_sim.metadata.cluster_state import OFFSETS_TOPIC
from broker_sim.requests.context import RequestContext
from broker_sim.requests.traits import ErrorTraits, PartialErrors
from broker_sim.runtime.asking import Deferred
from kafka_wire.errors import NO_ERROR, Err
from kafka_wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafka_wire.record_batch import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from kafka_wire.schema import ZERO_UUID

_PIECE = 2000
"""Partitions and topics that are looked at before others are served."""
_BY_ID = 6
_ABORTABLE_SINCE, _ADDS_SINCE = 4, 5

_Errors = dict[tuple[int, int], Err]
_WHOLE = -1
"""The place of a topic's own error."""
_Called = tuple[str, bytes]
_NOT_THERE = (Err.UNKNOWN_TOPIC_OR_PARTITION, Err.UNKNOWN_TOPIC_ID)
Answer = Err | Mapping[Place, Err]
"""Errors found before the group coordinator gets the request: one for all of it, or by position in the request."""

_AT_COORDINATOR = {
    Err.NOT_ENOUGH_REPLICAS: Err.COORDINATOR_NOT_AVAILABLE,
    Err.NOT_LEADER_OR_FOLLOWER: Err.NOT_COORDINATOR,
}


def handle(ctx: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse | Deferred | None:
    """Sort out what can't be committed, ask the transaction's coordinator, then the group."""
    answered: TxnOffsetCommitResponse | Deferred | None = ctx.in_pieces(_commit(ctx, request))
    return answered


def _commit(
    ctx: RequestContext, request: TxnOffsetCommitRequest
) -> Generator[None, None, TxnOffsetCommitResponse | Deferred | None]:
    errors: _Errors = {}
    policy = ctx.coordinators.groups.settings.policy
    requested = request.topics
    if policy.commits_are_maps:
        request = yield from as_a_map(request, None if policy.missing_are_maps else ctx.broker.state)
    offsets = yield from _sorted_out(ctx, request, errors)
    too_long = [
        (request.topics[t].name, request.topics[t].partitions[p].partition_index)
        for (t, p), error in errors.items()
        if error is Err.OFFSET_METADATA_TOO_LARGE
    ]
    offsets = yield from in_map_order(offsets, too_long, requested, policy, transactional=True)
    if not offsets and Err.OFFSET_METADATA_TOO_LARGE not in errors.values():
        return (yield from _response(request, errors, NO_ERROR))
    shard = find_shard(ctx, request.group_id)
    if isinstance(shard, Err):
        return (yield from _response(request, errors, shard))
    place = (OFFSETS_TOPIC, shard.partition)

    def verified(refused: Mapping[Place, Err]) -> None:
        error = refused.get(place, NO_ERROR)
        if error is not NO_ERROR:
            ctx.reply_made(_response(request, errors, _AT_COORDINATOR.get(error, error)))
            return
        response = _submit(ctx, request, offsets, errors)
        if response is not None:
            ctx.reply_made(response)

    version = ctx.api_version
    flow = ADDS if version >= _ADDS_SINCE else ABORTABLE if version >= _ABORTABLE_SINCE else OLD
    writer = request.transactional_id, request.producer_id, request.producer_epoch
    if ask(ctx, writer, {place: NO_SEQUENCE}, flow, verified):
        return None
    refusal = _submit(ctx, request, offsets, errors)
    return None if refusal is None else (yield from refusal)


def _sorted_out(
    ctx: RequestContext, request: TxnOffsetCommitRequest, errors: _Errors
) -> Generator[None, None, list[tuple[str, int, Offset]]]:
    """Return the offsets that may be committed as far as topics and metadata go; the errors of the others are added to ``errors``."""
    runtime, state, by_id = ctx.coordinators.groups, ctx.broker.state, ctx.api_version >= _BY_ID
    now_ms, most = runtime.clock.now_ms(), runtime.max_metadata_chars
    offsets: list[tuple[str, int, Offset]] = []
    stores_ids = by_id or runtime.settings.policy.commits_by_name_store_topic_ids
    pace = Pace(_PIECE)
    for t, requested in enumerate(request.topics):
        topic = state.topics_by_id.get(requested.topic_id) if by_id else state.topics.get(requested.name)
        absent = Err.UNKNOWN_TOPIC_ID if topic is None and by_id else Err.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None:
            errors[t, _WHOLE] = absent
        for p, part in enumerate(requested.partitions):
            if pace.full():
                yield
            metadata = part.committed_metadata or ""
            if topic is None or not 0 <= part.partition_index < len(topic.partitions):
                errors[t, p] = absent
            elif len(metadata) > most or (not metadata.isascii() and utf16_length(metadata) > most):
                errors[t, p] = Err.OFFSET_METADATA_TOO_LARGE
            else:
                topic_id = topic.topic_id if stores_ids else ZERO_UUID
                offset = Offset(part.committed_offset, part.committed_leader_epoch, metadata, now_ms, topic_id=topic_id)
                offsets.append((topic.name, part.partition_index, offset))
        if pace.full():
            yield
    return offsets


def _submit(
    ctx: RequestContext, request: TxnOffsetCommitRequest, offsets: list[tuple[str, int, Offset]], errors: _Errors
) -> Generator[None, None, TxnOffsetCommitResponse] | None:
    """Ask the group, which answers later; the response where it can't be asked."""
    shard = find_shard(ctx, request.group_id)
    if isinstance(shard, Err):
        return _response(request, errors, shard)
    if request.producer_id != NO_PRODUCER_ID and request.producer_epoch == NO_EPOCH:
        # a producer without an epoch: Kafka's record builder throws (MemoryRecordsBuilder.close)
        return _response(request, errors, Err.UNKNOWN_SERVER_ERROR)
    command = CommitOffsets(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        offsets,
        producer=BatchProducer(request.producer_id, request.producer_epoch),
        epoch_errors=ctx.api_version >= _BY_ID,
    )
    topics = ctx.broker.state.topics_by_id
    names = {topic.topic_id: topics[topic.topic_id].name for topic in request.topics if topic.topic_id in topics}
    ctx.coordinators.groups.submit(shard, ctx, command, lambda error: _response(request, errors, error, names))
    return None


def _response(
    request: TxnOffsetCommitRequest, errors: _Errors, error: Answer, names: Mapping[bytes, str] | None = None
) -> Generator[None, None, TxnOffsetCommitResponse]:
    """Every partition asked for; ``error`` is the group's answer, ``names`` those of the topics that are asked for by id. Metadata is
    looked at where the group takes the rest. What isn't there comes as in OffsetCommit (TxnOffsetCommitResponse.Builder)."""
    existing: list[tuple[_Called, TxnOffsetCommitResponseTopic]] = []
    missing: dict[_Called, TxnOffsetCommitResponseTopic] = {}
    pace = Pace(_PIECE)
    for t, topic in enumerate(request.topics):
        if pace.full():
            yield
        called, requested = (topic.name, topic.topic_id), []
        if (t, _WHOLE) in errors:
            missing.setdefault(called, TxnOffsetCommitResponseTopic(*called))
        for p, part in enumerate(topic.partitions):
            if pace.full():
                yield
            own = errors.get((t, p), NO_ERROR)
            if own in _NOT_THERE:
                row = TxnOffsetCommitResponsePartition(part.partition_index, own)
                missing.setdefault(called, TxnOffsetCommitResponseTopic(*called)).partitions.append(row)
                continue
            name = topic.name or (names or {}).get(topic.topic_id, "")
            groups = error if isinstance(error, Err) else error.get((name, part.partition_index), NO_ERROR)
            if own is NO_ERROR or (own is Err.OFFSET_METADATA_TOO_LARGE and groups is not NO_ERROR):
                own = groups
            requested.append(TxnOffsetCommitResponsePartition(part.partition_index, own))
        if requested:
            existing.append((called, TxnOffsetCommitResponseTopic(*called, requested)))
    return TxnOffsetCommitResponse(topics=merged(missing, existing))


TRAITS = ErrorTraits(
    parts=PartialErrors(
        frozenset(
            {
                Err.UNKNOWN_TOPIC_OR_PARTITION,
                Err.UNKNOWN_TOPIC_ID,
                Err.TOPIC_AUTHORIZATION_FAILED,
                Err.OFFSET_METADATA_TOO_LARGE,
            }
        )
    )
)

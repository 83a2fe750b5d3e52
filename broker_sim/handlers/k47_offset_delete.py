"""OffsetDelete (47, KIP-496): deletes committed offsets of topics that the group does not subscribe to any more."""

from __future__ import annotations

from collections.abc import Container, Generator

from broker_sim.common.slices import Pace
from broker_sim.coordinator.outcome import DeleteOffsets
from broker_sim.handlers.groups import behind_timers, find_shard, merged
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_Results = dict[tuple[str, int], Err]

_PIECE = 2000
"""Partitions and topics that are looked up, or answered, before others are served; the group looks at all of them at once."""


@behind_timers
def handle(ctx: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse | None:
    """Topics first, then the coordinator check, then the group; an error of the whole carries no topics."""
    response: OffsetDeleteResponse | None = ctx.in_pieces(_delete(ctx, request))
    return response


def _delete(ctx: RequestContext, request: OffsetDeleteRequest) -> Generator[None, None, OffsetDeleteResponse | None]:
    state, policy = ctx.broker.state, ctx.coordinators.groups.settings.policy
    wanted: list[tuple[str, int]] = []
    pace = Pace(_PIECE)
    for topic in request.topics:
        for part in topic.partitions:
            wanted.append((topic.name, part.partition_index))
            if pace.full():
                yield
        if pace.full():
            yield
    if policy.missing_are_maps:
        wanted = list(dict.fromkeys(wanted))
    existing: list[tuple[str, int]] = []
    for pair in wanted:
        if pace.full():
            yield
        if state.partition(*pair) is not None:
            existing.append(pair)
    if policy.commits_are_maps:
        existing = list(dict.fromkeys(existing))
    shard = find_shard(ctx, request.group_id)
    if isinstance(shard, Err):
        return OffsetDeleteResponse(error_code=shard)

    def response(answer: tuple[Err, _Results]) -> Generator[None, None, OffsetDeleteResponse]:
        error, results = answer
        if error is not Err.NONE:
            return OffsetDeleteResponse(error_code=error)
        if policy.missing_are_maps:
            absent = {pair: Err.UNKNOWN_TOPIC_OR_PARTITION for pair in wanted if pair not in results}
            return OffsetDeleteResponse(topics=_of_a_map(absent | results))
        answered = _of_a_map(results) if policy.commits_are_maps else (yield from _as_asked(request, results, pace))
        missing = yield from _missing(request, results, state.topics, pace)
        return OffsetDeleteResponse(topics=merged(missing, [(topic.name, topic) for topic in answered]))

    ctx.coordinators.groups.submit(shard, ctx, DeleteOffsets(request.group_id, existing), response)
    return None


def _as_asked(
    request: OffsetDeleteRequest, results: _Results, pace: Pace
) -> Generator[None, None, list[OffsetDeleteResponseTopic]]:
    """The rows of existing partitions, as often as they were requested."""
    result: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        rows: list[OffsetDeleteResponsePartition] = []
        for part in topic.partitions:
            error = results.get((topic.name, part.partition_index))
            if error is not None:
                rows.append(OffsetDeleteResponsePartition(part.partition_index, error))
            if pace.full():
                yield
        if rows:
            result.append(OffsetDeleteResponseTopic(topic.name, rows))
        if pace.full():
            yield
    return result


def _missing(
    request: OffsetDeleteRequest, results: _Results, topics: Container[str], pace: Pace
) -> Generator[None, None, dict[str, OffsetDeleteResponseTopic]]:
    """The rows of missing partitions, by topic; an unknown topic has a row even without partitions."""
    by_name: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in request.topics:
        name = topic.name
        missing: list[int] = []
        for part in topic.partitions:
            if (name, part.partition_index) not in results:
                missing.append(part.partition_index)
            if pace.full():
                yield
        if missing or name not in topics:
            rows = by_name.setdefault(name, OffsetDeleteResponseTopic(name)).partitions
            rows += [OffsetDeleteResponsePartition(index, Err.UNKNOWN_TOPIC_OR_PARTITION) for index in missing]
        if pace.full():
            yield
    return by_name


def _of_a_map(results: _Results) -> list[OffsetDeleteResponseTopic]:
    """The rows of a response with each partition once."""
    topics: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for (name, index), error in results.items():
        topics.setdefault(name, []).append(OffsetDeleteResponsePartition(index, error))
    return [OffsetDeleteResponseTopic(*topic) for topic in topics.items()]

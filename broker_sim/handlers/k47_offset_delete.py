"""OffsetDelete (47, KIP-496): committed offsets of topics that the group doesn't read any more."""

from __future__ import annotations

from broker_sim.coordinator.outcome import DeleteOffsets
from broker_sim.handlers.context import RequestContext
from broker_sim.handlers.groups import behind_timers, gate, merged
from kafka_wire.errors import Err
from kafka_wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@behind_timers
def handle(ctx: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse | None:
    """Topics first, then the gate, then the group; an error of the whole carries no topics."""
    shard = gate(ctx, request.group_id)
    if isinstance(shard, Err):
        return OffsetDeleteResponse(error_code=shard)
    state, policy = ctx.broker.state, ctx.broker.runtime.settings.policy
    wanted = [(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions]
    if policy.commits_are_maps:
        wanted = list(dict.fromkeys(wanted))
    there = [pair for pair in wanted if state.partition(*pair) is not None]

    def response(answer: tuple[Err, dict[tuple[str, int], Err]]) -> OffsetDeleteResponse:
        error, results = answer
        if error is not Err.NONE:
            return OffsetDeleteResponse(error_code=error)
        if policy.commits_are_maps:
            return _response_of_a_map(wanted, results)
        missing: dict[str, OffsetDeleteResponseTopic] = {}
        answered = []
        for topic in request.topics:
            found = OffsetDeleteResponseTopic(topic.name)
            if topic.name not in state.topics:
                missing.setdefault(topic.name, OffsetDeleteResponseTopic(topic.name))
            for part in topic.partitions:
                own = results.get((topic.name, part.partition_index))
                if own is None:
                    own, rows = (
                        Err.UNKNOWN_TOPIC_OR_PARTITION,
                        missing.setdefault(topic.name, OffsetDeleteResponseTopic(topic.name)),
                    )
                else:
                    rows = found
                rows.partitions.append(OffsetDeleteResponsePartition(part.partition_index, own))
            if found.partitions:
                answered.append(found)
        return OffsetDeleteResponse(topics=merged(missing, answered))

    ctx.broker.runtime.submit(shard, ctx, DeleteOffsets(request.group_id, there), response)
    return None


def _response_of_a_map(wanted: list[tuple[str, int]], results: dict[tuple[str, int], Err]) -> OffsetDeleteResponse:
    """As 3.x answers: each partition once, what isn't there first."""
    topics: dict[str, list[OffsetDeleteResponsePartition]] = {}
    errors = {pair: Err.UNKNOWN_TOPIC_OR_PARTITION for pair in wanted if pair not in results}
    for (name, index), own in (errors | results).items():
        topics.setdefault(name, []).append(OffsetDeleteResponsePartition(index, own))
    return OffsetDeleteResponse(topics=[OffsetDeleteResponseTopic(*topic) for topic in topics.items()])

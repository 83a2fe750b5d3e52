"""OffsetFetch (9). v0 reads the legacy store; v2 null topics mean all and errors are at the top; v7 require_stable; v8 several
groups with an error each; v9 KIP-848 members, whose id and epoch a classic group ignores; v10 has topic ids: an unknown one has an
error, and offsets committed for an earlier topic of that name are not returned. A group's state never matters: what isn't there has
offset -1 and no error."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeVar

from broker_sim.common.slices import Pace
from broker_sim.coordinator import queries
from broker_sim.coordinator.classic.vote import scala_mutable_order, string_hash
from broker_sim.coordinator.offsets import uncommitted_offsets, unstable_offsets
from broker_sim.coordinator.outcome import Offset, StableFetch
from broker_sim.coordinator.shard import Shard
from broker_sim.handlers.groups import find_shard
from broker_sim.metadata.cluster_state import ClusterState
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kafka_wire.schema import ZERO_UUID

T = TypeVar("T")
N = TypeVar("N", str, bytes)
P = TypeVar("P", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)

_BY_ID = 10
_PIECE = 2000
"""Partitions, topics and groups that are looked up before others are served."""

_Row = Iterable[tuple[int, Offset | None, Err]]
_Rows = Iterable[tuple[str, _Row]]
"""The topics of a group with their partitions, looked up as they are taken."""
_RowsById = Iterable[tuple[bytes, _Row]]


def handle(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse | None:
    """Committed offsets, in the order they were asked for."""
    waiting = _behind_writes(ctx, ctx.api_version, request)
    if not waiting:
        ctx.repeats = partial(_unchanged, ctx, ctx.api_version, request)
        response: OffsetFetchResponse | None = ctx.in_pieces(_answer(ctx, ctx.api_version, request))
        return response
    refused: dict[str, Err] = {}

    def answered(group_id: str, error: Err) -> None:
        del waiting[group_id]
        if error is not Err.NONE:
            refused[group_id] = error
        if not waiting:
            ctx.reply_made(_answer(ctx, ctx.api_version, request, refused))

    for group_id, shard in list(waiting.items()):
        ctx.coordinators.groups.ask(shard, ctx, StableFetch(group_id), partial(answered, group_id))
    return None


def _behind_writes(ctx: RequestContext, version: int, request: OffsetFetchRequest) -> dict[str, Shard]:
    """The groups asked with require_stable whose coordinator waits for its log, and them. 4.x answers when that is done."""
    if not request.require_stable:
        return {}
    groups = [group.group_id for group in request.groups] if version >= 8 else [request.group_id]
    shards = {group_id: find_shard(ctx, group_id, empty_id_is_legal=True) for group_id in groups}
    return {name: shard for name, shard in shards.items() if not isinstance(shard, Err) and shard.answers_wait}


GROUPS_EACH = (3, 5)
"""Releases before this one answer a group that is named twice once, by what was said last, and groups in the order of a hash map.
Whether all partitions are asked for is what was said first."""


def _each_group_once(request: OffsetFetchRequest) -> tuple[OffsetFetchRequest, dict[str, Err]]:
    """The request with each group once, and the groups that Kafka falls over: which name partitions first, and all of them last."""
    last = {group.group_id: group for group in request.groups}
    of_all = {group.group_id: group.topics is None for group in reversed(request.groups)}
    fallen = {
        group_id: Err.UNKNOWN_SERVER_ERROR
        for group_id in last
        if last[group_id].topics is None and not of_all[group_id]
    }
    in_order = [
        replace(last[group_id], topics=None) if of_all[group_id] else last[group_id]
        for group_id in scala_mutable_order(last, string_hash)
    ]
    return OffsetFetchRequest(groups=in_order, require_stable=request.require_stable), fallen


_ALL_WELL: dict[str, Err] = {}


def _answer(
    ctx: RequestContext,
    version: int,
    request: OffsetFetchRequest,
    refused: dict[str, Err] = _ALL_WELL,
) -> Generator[None, None, OffsetFetchResponse | None]:
    pace = Pace(_PIECE)
    if version == 0:
        return (yield from _one_group(_legacy(ctx, request), Err.NONE, pace))
    if version >= 8:
        if not request.groups and ctx.coordinators.groups.settings.policy.answers_partitions_once:
            return None  # Kafka 3.x waits for the last of no groups: such a request is never answered
        if ctx.broker.state.config.release < GROUPS_EACH:
            request, fallen = _each_group_once(request)
            refused = {**refused, **fallen}
        groups = []
        for group in request.groups:
            if pace.full(5):
                yield
            shard = refused.get(group.group_id) or find_shard(ctx, group.group_id, empty_id_is_legal=True)
            if isinstance(shard, Err):
                groups.append(OffsetFetchResponseGroup(group.group_id, error_code=shard))
                continue
            error = queries.fetch_refusal(shard, group.group_id, group.member_id, group.member_epoch)
            if error is not Err.NONE:
                groups.append(OffsetFetchResponseGroup(group.group_id, error_code=error))
                continue
            topics = yield from _of_group(ctx.broker.state, version, shard, group, request.require_stable, pace)
            groups.append(OffsetFetchResponseGroup(group.group_id, topics))
        return OffsetFetchResponse(groups=groups)
    shard = refused.get(request.group_id) or find_shard(ctx, request.group_id, empty_id_is_legal=True)
    requested = None if request.topics is None else [(t.name, t.partition_indexes) for t in request.topics]
    if isinstance(shard, Err):
        if version >= 2:
            return OffsetFetchResponse(error_code=shard)
        if ctx.coordinators.groups.settings.policy.answers_partitions_once:
            # from 3.5 on v1, which has errors at partitions alone, gets none
            requested = _each_once(requested or []) if ctx.broker.state.config.release < GROUPS_EACH else []
        error = shard
        failed: _Rows = ((name, ((i, None, error) for i in indexes)) for name, indexes in requested or [])
        return (yield from _one_group(failed, shard, pace))
    rows = _rows(shard, request.group_id, requested, require_stable=request.require_stable)
    return (yield from _one_group(rows, Err.NONE, pace))


def _of_group(
    state: ClusterState, version: int, shard: Shard, group: OffsetFetchRequestGroup, require_stable: bool, pace: Pace
) -> Generator[None, None, list[OffsetFetchResponseTopics]]:
    """The response of v8+: by names, and by ids from v10 on. Offsets that were committed for another topic of the same name are not
    returned for the requested id; missing topics come last."""
    if version < _BY_ID:
        requested = None if group.topics is None else [(t.name, t.partition_indexes) for t in group.topics]
        rows = _rows(shard, group.group_id, requested, require_stable=require_stable)

        def by_name(name: str, shown: list[OffsetFetchResponsePartitions]) -> OffsetFetchResponseTopics:
            return OffsetFetchResponseTopics(name, partitions=shown)

        return (yield from _shown(by_name, OffsetFetchResponsePartitions, rows, pace))
    topics_by_id, named, unknown = state.topics_by_id, [], []
    for topic in group.topics or ():
        if pace.full():
            yield
        if topic.topic_id in topics_by_id:
            named.append((topics_by_id[topic.topic_id].name, topic.partition_indexes))
        else:
            unknown.append((topic.topic_id, topic.partition_indexes))
    rows = _rows(shard, group.group_id, None if group.topics is None else named, require_stable=require_stable)
    known: _RowsById = (
        (
            topic.topic_id,
            (
                (i, o if o is not None and o.topic_id in (ZERO_UUID, topic.topic_id) else None, e)
                for i, o, e in partitions
            ),
        )
        for topic, partitions in ((state.topics.get(name), partitions) for name, partitions in rows)
        if topic is not None
    )
    error = Err.UNKNOWN_TOPIC_ID
    missing: _RowsById = ((topic_id, ((i, None, error) for i in indexes)) for topic_id, indexes in unknown)

    def by_id(topic_id: bytes, shown: list[OffsetFetchResponsePartitions]) -> OffsetFetchResponseTopics:
        return OffsetFetchResponseTopics(topic_id=topic_id, partitions=shown)

    return (yield from _shown(by_id, OffsetFetchResponsePartitions, chain(known, missing), pace))


def _each_once(requested: list[tuple[str, list[int]]]) -> list[tuple[str, list[int]]]:
    once: dict[str, dict[int, None]] = {}
    for name, indexes in requested:
        if indexes:
            once.setdefault(name, {}).update(dict.fromkeys(indexes))
    return [(name, list(indexes)) for name, indexes in once.items()]


def _rows(shard: Shard, group_id: str, requested: list[tuple[str, list[int]]] | None, *, require_stable: bool) -> _Rows:
    if requested is not None and shard.settings.policy.answers_partitions_once:
        requested = _each_once(requested)
    offsets = queries.committed(shard, group_id)
    stable_at_once = require_stable and not shard.settings.policy.answers_wait_for_writes
    moving = uncommitted_offsets(shard, group_id) if stable_at_once else set()
    if require_stable:
        moving |= unstable_offsets(shard, group_id)
    if requested is None:
        requested = [(name, list(partitions)) for name, partitions in offsets.items()]
    for name, indexes in requested:
        partitions = offsets.get(name, {})
        yield (
            name,
            (
                (i, None, Err.UNSTABLE_OFFSET_COMMIT) if (name, i) in moving else (i, partitions.get(i), Err.NONE)
                for i in indexes
            ),
        )


def _one_group(rows: _Rows, error: Err, pace: Pace) -> Generator[None, None, OffsetFetchResponse]:
    """The response of versions 0 to 7, which name one group."""
    topics = yield from _shown(OffsetFetchResponseTopic, OffsetFetchResponsePartition, rows, pace)
    return OffsetFetchResponse(topics=topics, error_code=error)


def _shown(
    of_topic: Callable[[N, list[P]], T], of_partition: type[P], rows: Iterable[tuple[N, _Row]], pace: Pace
) -> Generator[None, None, list[T]]:
    """The rows in the shape of v0-7 or of v8+; what isn't there has offset -1."""
    topics: list[T] = []
    for name, partitions in rows:
        shown: list[P] = []
        for i, o, e in partitions:
            shown.append(
                of_partition(i, -1, -1, "", e)
                if o is None
                else of_partition(i, o.offset, o.leader_epoch, o.metadata, e)
            )
            if pace.full():
                yield
        topics.append(of_topic(name, shown))
        if pace.full():
            yield
    return topics


def _legacy(ctx: RequestContext, request: OffsetFetchRequest) -> _Rows:
    """Yield the offsets that OffsetCommit v0 stored; a partition without one has UNKNOWN_TOPIC_OR_PARTITION, as with ZooKeeper."""
    store: dict[tuple[str, str, int], Offset] = ctx.coordinators.groups.legacy_offsets
    for topic in request.topics or []:
        offsets = ((i, store.get((request.group_id, topic.name, i))) for i in topic.partition_indexes)
        yield topic.name, ((i, o, Err.NONE if o else Err.UNKNOWN_TOPIC_OR_PARTITION) for i, o in offsets)


def _unchanged(ctx: RequestContext, version: int, request: OffsetFetchRequest) -> Callable[[], bool] | None:
    """Returns a function that returns whether the coordinators and the groups' offsets are the same as now."""
    if request.require_stable or version == 0:
        return None  # pending offsets count, too; v0 reads the legacy store
    state = ctx.broker.state
    known = []
    requested = (
        [(group.group_id, group.member_id or "") for group in request.groups]
        if version >= 8
        else [(request.group_id, "")]
    )
    for group_id, member_id in requested:
        shard = find_shard(ctx, group_id, empty_id_is_legal=True)
        group = None if isinstance(shard, Err) else shard.groups.get(group_id)
        if isinstance(shard, Err) or group is None:
            return None
        known.append((group, group.version, group.offset_changes, member_id, group.current_of(member_id)))
    state_version = state.version

    def again() -> bool:
        if state.version != state_version:
            return False
        return all(
            group.version == version and group.offset_changes == changes and group.current_of(member_id) is current
            for group, version, changes, member_id, current in known
        )

    return again

"""DescribeShareGroupOffsets (90, KIP-932), versions 0 and 1: where share groups are in partitions. v1 says how far behind that is.

What the group's state was never made for is told to be nowhere, and is no error. Source: GroupCoordinatorService.
describeShareGroupOffsets and describeShareGroupAllOffsets (4.x).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping

from broker_sim.common.slices import Pace, ended
from broker_sim.coordinator.share.describing import share_group
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.share_state.commands import Summarize, Summary
from broker_sim.coordinator.share_state.state import NOWHERE, ShareKey
from broker_sim.handlers.context import RequestContext
from broker_sim.handlers.groups import gate, waits_for_timers
from broker_sim.metadata.entity_configs import Entity
from kafka_wire.errors import Err
from kafka_wire.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kafka_wire.schema import ZERO_UUID

Group = DescribeShareGroupOffsetsResponseGroup
Topic = DescribeShareGroupOffsetsResponseTopic
Partition = DescribeShareGroupOffsetsResponsePartition

_PIECE = 2000
"""Topics and partitions that are looked up, or a fortieth as many groups, before others are served."""
_GROUP = 40


def handle(ctx: RequestContext, request: DescribeShareGroupOffsetsRequest) -> None:
    """Each group in the order asked."""
    if not waits_for_timers(ctx, request):
        ctx.in_pieces(_describe_all(ctx, request))


def _describe_all(ctx: RequestContext, request: DescribeShareGroupOffsetsRequest) -> Generator[None, None, None]:
    groups: list[Group] = []
    pace = Pace(_PIECE)
    waiting = 1 + len(request.groups)

    def done() -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            ctx.reply(DescribeShareGroupOffsetsResponse(groups=groups))

    for asked in request.groups:
        if pace.full(_GROUP):
            yield
        group = Group(asked.group_id)
        groups.append(group)
        yield from _describe(ctx, asked, group, done, pace)
    done()


def _describe(
    ctx: RequestContext, asked: DescribeShareGroupOffsetsRequestGroup, told: Group, done: Callable[[], None], pace: Pace
) -> Generator[None, None, None]:
    group_id = asked.group_id
    off = not ctx.broker.state.config.has_share_groups
    shard = Err.UNSUPPORTED_VERSION if off else gate(ctx, group_id, empty_id_is_legal=True)
    if isinstance(shard, Err):
        told.error_code, told.error_message = shard, shard.text if shard is Err.NOT_COORDINATOR else None
        done()
        return
    found = share_group(shard, group_id)
    known = found.stored.initialized if isinstance(found, ShareGroup) else {}
    wanted: Iterable[tuple[str, bytes, Iterable[int]]]
    if asked.topics is None:
        wanted = [(topic.name, topic_id, topic.partitions) for topic_id, topic in known.items()]
    else:
        topics = shard.topics.by_name
        wanted = (
            (one.topic_name, topics[one.topic_name].topic_id if one.topic_name in topics else ZERO_UUID, one.partitions)
            for one in asked.topics
        )
    rows: dict[ShareKey, list[Partition]] = {}  # a partition may be asked for twice
    there: dict[bytes, frozenset[int]] = {}
    for name, topic_id, numbers in wanted:
        topic = Topic(name, topic_id)
        told.topics.append(topic)
        if topic_id in known and topic_id not in there:
            there[topic_id] = frozenset(known[topic_id].partitions)
        if pace.full():
            yield
        for number in numbers:
            if pace.full():
                yield
            row = Partition(number, NOWHERE)
            topic.partitions.append(row)
            if number in there.get(topic_id, ()):
                rows.setdefault(ShareKey(group_id, topic_id, number), []).append(row)

    def answered(answers: list[Summary]) -> None:
        job = _filling(ctx, rows, answers, done)
        if not ended(job):
            ctx.broker.state.slices.add(job, ended)

    ctx.broker.share_states.persister.ask([Summarize(key) for key in rows], answered)


def _filling(
    ctx: RequestContext, rows: Mapping[ShareKey, list[Partition]], answers: list[Summary], done: Callable[[], None]
) -> Generator[None, None, None]:
    pace = Pace(_PIECE)
    for (key, same), summary in zip(rows.items(), answers, strict=True):
        for row in same:
            _fill(ctx, row, key, summary)
            if pace.full():
                yield
    done()


def _fill(ctx: RequestContext, row: Partition, key: ShareKey, summary: Summary) -> None:
    if summary.error is not Err.NONE:
        row.error_code, row.error_message = summary.error, summary.words
        return
    row.start_offset, row.leader_epoch = summary.start_offset, summary.leader_epoch
    topic = ctx.broker.state.topics_by_id.get(key.topic_id)
    if row.start_offset == NOWHERE or topic is None or summary.complete_count < 0:
        return
    partition = topic.partitions[key.partition]
    own = ctx.broker.state.entity_configs[Entity.GROUP].get(key.group_id, {})
    committed = own.get("share.isolation.level") == "read_committed"
    end = partition.last_stable_offset if committed else partition.high_watermark
    row.lag = end - row.start_offset - summary.complete_count

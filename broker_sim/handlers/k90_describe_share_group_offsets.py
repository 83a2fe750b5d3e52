"""DescribeShareGroupOffsets (90, KIP-932), versions 0 and 1: the start offsets of share groups. v1 has the lag.

Share coordinators are asked for all partitions of existing topics, whether the group exists or not, which creates
``__share_group_state``. A partition whose state was never initialized has the start offset -1, without an error. Source:
GroupCoordinatorService.describeShareGroupOffsets and describeShareGroupAllOffsets (4.x).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping

from broker_sim.common.slices import Pace, ended
from broker_sim.coordinator.shard import Shard
from broker_sim.coordinator.share.describing import share_group
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.share_state.commands import Summarize, Summary
from broker_sim.coordinator.share_state.state import NOWHERE, ShareKey
from broker_sim.handlers.groups import find_shard, waits_for_timers
from broker_sim.metadata.entity_configs import Entity
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
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

    for requested in request.groups:
        if pace.full(_GROUP):
            yield
        group = Group(requested.group_id)
        groups.append(group)
        yield from _describe(ctx, requested, group, done, pace)
    done()


def _describe(
    ctx: RequestContext,
    requested: DescribeShareGroupOffsetsRequestGroup,
    answer: Group,
    done: Callable[[], None],
    pace: Pace,
) -> Generator[None, None, None]:
    group_id = requested.group_id
    off = not ctx.broker.state.config.has_share_groups
    shard = Err.UNSUPPORTED_VERSION if off else find_shard(ctx, group_id, empty_id_is_legal=True)
    if isinstance(shard, Err):
        answer.error_code, answer.error_message = shard, shard.text if shard is Err.NOT_COORDINATOR else None
        done()
        return
    missing: list[Topic] = []
    if requested.topics is None:
        described = share_group(shard, group_id)
        known = described.stored.initialized if isinstance(described, ShareGroup) else {}
        rows = {topic_id: (topic.name, _rows(topic.partitions)) for topic_id, topic in known.items()}
    else:
        looked_up = yield from _looked_up(shard, requested.topics, missing, pace)
        if looked_up is None or (looked_up and not group_id):
            answer.error_code, answer.error_message, answer.topics = (
                Err.UNKNOWN_SERVER_ERROR,
                Err.UNKNOWN_SERVER_ERROR.text,
                [],
            )
            done()
            return
        rows = looked_up
    wanted: dict[ShareKey, Partition] = {}
    missing_first = ctx.coordinators.groups.settings.policy.missing_share_topics_come_first
    answer.topics += missing if missing_first else ()
    for topic_id, (name, partitions) in rows.items():
        topic = Topic(name, topic_id)
        answer.topics.append(topic)
        for number in sorted(partitions):
            if pace.full():
                yield
            topic.partitions.append(partitions[number])
            wanted[ShareKey(group_id, topic_id, number)] = partitions[number]
    answer.topics += () if missing_first else missing

    def answered(answers: list[Summary]) -> None:
        job = _filling(ctx, wanted, answers, done)
        if not ended(job):
            ctx.broker.state.slices.add(job, ended)

    ctx.coordinators.share_states.persister.ask([Summarize(key) for key in wanted], answered)


Rows = dict[bytes, tuple[str, dict[int, Partition]]]
"""By topic id its name, and each partition once."""


def _rows(numbers: Iterable[int]) -> dict[int, Partition]:
    return {number: Partition(number, NOWHERE) for number in numbers}


def _looked_up(
    shard: Shard, topics: list[DescribeShareGroupOffsetsRequestTopic], missing: list[Topic], pace: Pace
) -> Generator[None, None, Rows | None]:
    """Rows of the topics that exist, each partition once however often it is requested; other topics are added to ``missing`` as they
    are requested. None if Kafka fails the group: an existing topic without partitions, or a partition below 0."""
    result: Rows = {}
    for topic in topics:
        if pace.full():
            yield
        image = shard.topics.by_name.get(topic.topic_name)
        rows: dict[int, Partition] | list[Partition] = (
            [] if image is None else result.setdefault(image.topic_id, (topic.topic_name, {}))[1]
        )
        for number in topic.partitions:
            if pace.full():
                yield
            if isinstance(rows, dict):
                rows[number] = Partition(number, NOWHERE)
            else:
                rows.append(Partition(number, NOWHERE))
        if isinstance(rows, list):
            missing.append(Topic(topic.topic_name, ZERO_UUID, rows))
        elif not topic.partitions or min(topic.partitions) < 0:
            return None
    return result


def _filling(
    ctx: RequestContext, wanted: Mapping[ShareKey, Partition], answers: list[Summary], done: Callable[[], None]
) -> Generator[None, None, None]:
    pace = Pace(_PIECE)
    for (key, row), summary in zip(wanted.items(), answers, strict=True):
        _fill(ctx, row, key, summary)
        if pace.full():
            yield
    done()


def _fill(ctx: RequestContext, row: Partition, key: ShareKey, summary: Summary) -> None:
    if summary.error is Err.UNKNOWN_TOPIC_OR_PARTITION:
        return  # the topic has no such partition
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

"""DescribeLogDirs (35), versions 0-5: the bytes of each log of which this broker has a replica. v4 the size of the disk.

Null asks for all topics. A cluster in memory has one directory named "(memory)", without a disk's size. Source:
ReplicaManager.describeLogDirs.
"""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace, chunked
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

IN_MEMORY = "(memory)"
UNKNOWN_BYTES = -1
NAMES_ONLY_WANTED = (3, 5)
"""Releases before this one return every topic of the directory, those that were not requested without partitions."""


_PIECE = 2000
"""Partitions of the cluster that are looked at before others are served."""


def handle(ctx: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse | None:
    response: DescribeLogDirsResponse | None = ctx.in_pieces(_describe_all(ctx, request))
    return response


def _describe_all(
    ctx: RequestContext, request: DescribeLogDirsRequest
) -> Generator[None, None, DescribeLogDirsResponse]:
    broker, state = ctx.broker, ctx.broker.state
    pace = Pace(_PIECE)
    wanted: dict[str, set[int]] = {}
    for topic in request.topics or ():
        if pace.full():
            yield
        indexes = wanted.setdefault(topic.topic, set())
        for chunk in chunked(topic.partitions, _PIECE):
            indexes.update(chunk)
            if pace.full(len(chunk)):
                yield
    shown: dict[str, DescribeLogDirsTopic] = {}
    for partition in list(state.partitions()):
        if pace.full():
            yield
        name = partition.topic.name
        if broker.node_id not in partition.replicas:
            continue
        requested = request.topics is None or partition.index in wanted.get(name, ())
        if requested or state.config.release < NAMES_ONLY_WANTED:
            row = shown.setdefault(name, DescribeLogDirsTopic(name))
        if not requested:
            continue
        row.partitions.append(DescribeLogDirsPartition(partition.index, partition.log.size_bytes))
    result = DescribeLogDirsResult(Err.NONE, IN_MEMORY, list(shown.values()), UNKNOWN_BYTES, UNKNOWN_BYTES)
    if state.disk.data_dir is not None:
        result.log_dir = str(state.disk.data_dir)
        try:
            result.total_bytes, result.usable_bytes = state.disk.files.space(state.disk.data_dir)
        except OSError:
            result.error_code = Err.KAFKA_STORAGE_ERROR
    return DescribeLogDirsResponse(0, Err.NONE, [result])

"""OffsetFetch v8 that names a group twice, against what 3.4.0 and 4.1.0 answered."""

from __future__ import annotations

import pytest

from broker_sim import Cluster
from kafka_wire.errors import Err
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.support.wire import Wire

Rows = list[tuple[int, int]]
SOME, MORE = [0, 1], [2]
COMMITTED: Rows = [(0, 7)]
FALLEN = Err.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("asked", "at_3_4", "at_4_1"),
    [
        ([SOME, None], [FALLEN], [[(0, 7), (1, -1)], COMMITTED]),
        ([None, SOME], [COMMITTED], [COMMITTED, [(0, 7), (1, -1)]]),
        ([SOME, None, MORE], [[(2, -1)]], [[(0, 7), (1, -1)], COMMITTED, [(2, -1)]]),
    ],
)
async def test_a_group_is_named_twice(
    asked: list[list[int] | None], at_3_4: list[Rows | Err], at_4_1: list[Rows | Err]
) -> None:
    for release, expected in (("3.4", at_3_4), ("4.1", at_4_1)):
        async with Cluster(topics={"t": 3}, as_version=release) as cluster:
            wire = await Wire.connect(cluster.bootstrap)
            while (await wire.send(FindCoordinatorRequest("g", 0), 1)).error_code:
                pass
            rows = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 7, -1, None)])]
            await wire.send(OffsetCommitRequest("g", -1, "", topics=rows), 7)
            groups = [
                OffsetFetchRequestGroup(
                    "g", topics=None if indexes is None else [OffsetFetchRequestTopics("t", partition_indexes=indexes)]
                )
                for indexes in asked
            ]
            answer = await wire.send(OffsetFetchRequest(groups=groups), 8)
            await wire.close()
        found = [
            sorted((row.partition_index, row.committed_offset) for topic in group.topics for row in topic.partitions)
            or Err(group.error_code)
            for group in answer.groups
        ]
        assert found == expected, release

"""OffsetCommit and OffsetFetch v10, which call topics by their ids, and what of it stands in the log."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_wire.schema import ZERO_UUID
from tests.conformance.driver import Kafka
from tests.conformance.logs import log_until

pytestmark = pytest.mark.generations("4.4")

NOBODY, NOBODY_ELSE = b"\1" * 16, b"\2" * 16


class ById:
    """The common topics by their ids, and requests that call them so."""

    def __init__(self, kafka: Kafka, ids: dict[str, bytes]) -> None:
        self.kafka, self.ids = kafka, ids
        self.names = {topic_id: name for name, topic_id in ids.items()}
        kafka.ignore("topic_id", because="it is drawn")

    @classmethod
    async def of(cls, kafka: Kafka) -> ById:
        asked = [MetadataRequestTopic(name=name) for name in ("t0", "t1")]
        answer = await kafka.watch(MetadataRequest(asked), 12)
        return cls(kafka, {topic.name: topic.topic_id for topic in answer.topics})

    def called(self, topic_id: bytes) -> str:
        return self.names.get(topic_id, topic_id[:1].hex())

    async def commit(
        self, *topics: tuple[bytes, Sequence[int]], epoch: int = -1, member: str = ""
    ) -> list[tuple[str, list[tuple[int, Err]]]]:
        rows = [
            OffsetCommitRequestTopic(
                topic_id=topic_id, partitions=[OffsetCommitRequestPartition(index, 5 + index) for index in indexes]
            )
            for topic_id, indexes in topics
        ]
        answer = await self.kafka.ask(OffsetCommitRequest(self.kafka.group, epoch, member, topics=rows), 10)
        return [
            (self.called(topic.topic_id), [(row.partition_index, Err(row.error_code)) for row in topic.partitions])
            for topic in answer.topics
        ]

    async def fetch(self, *topics: tuple[bytes, Sequence[int]]) -> list[tuple[str, list[tuple[int, int, Err]]]]:
        """Without ``topics``: all that is committed."""
        rows = [
            OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=list(indexes)) for topic_id, indexes in topics
        ]
        group = OffsetFetchRequestGroup(self.kafka.group, topics=rows or None)
        answer = await self.kafka.ask(OffsetFetchRequest(groups=[group]), 10)
        return [
            (
                self.called(topic.topic_id),
                [(row.partition_index, row.committed_offset, Err(row.error_code)) for row in topic.partitions],
            )
            for topic in answer.groups[0].topics
        ]


async def test_v10_commits_by_id(kafka: Kafka) -> None:
    by_id = await ById.of(kafka)
    a, b, missing = by_id.ids["t0"], by_id.ids["t1"], Err.UNKNOWN_TOPIC_ID
    assert await by_id.commit((a, [0])) == [("t0", [(0, Err.NONE)])]
    assert await by_id.commit((a, [0, 7]), (NOBODY, [0, 1]), (b, [0])) == [
        ("t0", [(7, Err.UNKNOWN_TOPIC_OR_PARTITION), (0, Err.NONE)]),
        ("01", [(0, missing), (1, missing)]),
        ("t1", [(0, Err.NONE)]),
    ]
    assert await by_id.commit((NOBODY, [0]), (a, [0]), (NOBODY, [1]), (NOBODY_ELSE, [3])) == [
        ("01", [(0, missing), (1, missing)]),
        ("02", [(3, missing)]),
        ("t0", [(0, Err.NONE)]),
    ]
    assert await by_id.commit((ZERO_UUID, [0]), (a, [9])) == [
        ("00", [(0, missing)]),
        ("t0", [(9, Err.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]


async def test_v10_a_topic_that_is_named_twice_or_without_partitions(kafka: Kafka) -> None:
    by_id = await ById.of(kafka)
    a, b = by_id.ids["t0"], by_id.ids["t1"]
    assert await by_id.commit((a, [1]), (a, [2])) == [("t0", [(1, Err.NONE)]), ("t0", [(2, Err.NONE)])]
    assert await by_id.commit((a, [9, 1]), (a, [2])) == [
        ("t0", [(9, Err.UNKNOWN_TOPIC_OR_PARTITION), (1, Err.NONE), (2, Err.NONE)])
    ]
    assert await by_id.commit((NOBODY, [])) == [("01", [])]
    assert await by_id.commit((a, [])) == []
    assert await by_id.commit((a, [0]), (NOBODY, []), (b, [])) == [("01", []), ("t0", [(0, Err.NONE)])]


async def test_v10_what_a_group_refuses_is_not_what_is_missing(kafka: Kafka) -> None:
    by_id = await ById.of(kafka)
    a = by_id.ids["t0"]
    for error in (Err.GROUP_ID_NOT_FOUND, Err.UNKNOWN_MEMBER_ID):
        assert await by_id.commit((a, [0]), (NOBODY, [0]), epoch=5, member="m") == [
            ("01", [(0, Err.UNKNOWN_TOPIC_ID)]),
            ("t0", [(0, error)]),
        ]
        await by_id.commit((a, [0]))  # there is a group from here on


async def test_v10_fetches_by_id(kafka: Kafka) -> None:
    by_id = await ById.of(kafka)
    a, b, missing = by_id.ids["t0"], by_id.ids["t1"], Err.UNKNOWN_TOPIC_ID
    assert await by_id.fetch((a, [0]), (NOBODY, [0])) == [("t0", [(0, -1, Err.NONE)]), ("01", [(0, -1, missing)])]
    await by_id.commit((a, [0, 1]), (b, [0]))
    assert await by_id.fetch((a, [0, 1, 7])) == [("t0", [(0, 5, Err.NONE), (1, 6, Err.NONE), (7, -1, Err.NONE)])]
    assert await by_id.fetch((a, [0]), (NOBODY, [0, 1]), (b, [0]), (NOBODY_ELSE, [2]), (a, [1])) == [
        ("t0", [(0, 5, Err.NONE)]),
        ("t1", [(0, 5, Err.NONE)]),
        ("t0", [(1, 6, Err.NONE)]),
        ("01", [(0, -1, missing), (1, -1, missing)]),
        ("02", [(2, -1, missing)]),
    ]
    assert await by_id.fetch((ZERO_UUID, [0]), (a, []), (NOBODY, [])) == [
        ("t0", []),
        ("00", [(0, -1, missing)]),
        ("01", []),
    ]
    assert dict(await by_id.fetch()) == {"t0": [(0, 5, Err.NONE), (1, 6, Err.NONE)], "t1": [(0, 5, Err.NONE)]}


@pytest.mark.parametrize("version", [2, 8, 9, 10])
async def test_a_commit_s_record_says_which_topic_it_is_of(kafka: Kafka, version: int) -> None:
    by_id = await ById.of(kafka)
    a = by_id.ids["t0"]
    if version == 10:
        await by_id.commit((a, [0, 1]))
    else:
        await kafka.commit({("t0", 0): 5, ("t0", 1): 6}, version=version)
    entries = await log_until(kafka, 2)
    assert [(entry.version, entry.value.offset, entry.value.topic_id) for entry in entries] == [(4, 5, a), (4, 6, a)]
    assert [entry.raw_value[-19:] for entry in entries if entry.raw_value] == [b"\1\0\x10" + a] * 2

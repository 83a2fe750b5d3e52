"""ShareFetch and ShareAcknowledge as real brokers answer them: each sequence was sent to 4.1.0, 4.2.0 and 4.4.0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from broker_sim import Cluster
from kafka_wire.errors import Err
from kafka_wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.messages.k78_share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest
from kafka_wire.messages.k79_share_acknowledge import AcknowledgementBatch as SaidBatch
from kafka_wire.messages.k79_share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from kafka_wire.record_batch import build_batch
from tests.shares.harness import ANN, GROUP, TOPIC, Member, Said, configure, produce
from tests.support.wire import Wire

ACCEPT, RELEASE, REJECT = 1, 2, 3
NOWHERE = bytes(range(16))
OK, NO_ID, NO_PARTITION, FAILED = (
    Err.NONE,
    Err.UNKNOWN_TOPIC_ID,
    Err.UNKNOWN_TOPIC_OR_PARTITION,
    Err.UNKNOWN_SERVER_ERROR,
)
Row = tuple[int, Err, Err, list[tuple[int, int, int]]]
"""Partition, or -1 for one of an unknown topic; its error; the error of its acknowledgements; what was acquired."""

RELEASES = pytest.mark.parametrize("release", ["4.1", "4.2", "4.4"])


class Session:
    """A member's share session on a topic with two partitions."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.epoch = 0

    async def fetch(
        self, parts: Mapping[int, Sequence[Said]], *, epoch: int | None = None, **how: int
    ) -> list[Row] | Err:
        """The rows of a ShareFetch, or the error of the whole. It looks once, unless it has to wait."""
        batches = {
            at: [AcknowledgementBatch(first, last, list(types)) for first, last, types in said]
            for at, said in parts.items()
        }
        topics = [
            FetchTopic(NOWHERE if at < 0 else self.member.topic_id, [FetchPartition(max(at, 0), said)])
            for at, said in batches.items()
        ]
        limits = {"max_wait_ms": 0, "min_bytes": 1, "max_records": 500, "batch_size": 500, **how}
        request = ShareFetchRequest(GROUP, self.member.member_id, self._next(epoch), **limits, topics=topics)
        answer = await self.member.wire.send(request, self.member.version)
        if answer.error_code:
            return Err(answer.error_code)
        return sorted(
            (
                -1 if topic.topic_id == NOWHERE else row.partition_index,
                Err(row.error_code),
                Err(row.acknowledge_error_code),
                [(run.first_offset, run.last_offset, run.delivery_count) for run in row.acquired_records],
            )
            for topic in answer.responses
            for row in topic.partitions
        )

    async def acknowledge(
        self, parts: Mapping[int, Sequence[Said]], *, epoch: int | None = None
    ) -> dict[int, Err] | Err:
        """The errors of a ShareAcknowledge by partition, or that of the whole."""
        topics = [
            AcknowledgeTopic(
                NOWHERE if at < 0 else self.member.topic_id,
                [
                    AcknowledgePartition(
                        max(at, 0), [SaidBatch(first, last, list(types)) for first, last, types in said]
                    )
                ],
            )
            for at, said in parts.items()
        ]
        request = ShareAcknowledgeRequest(GROUP, self.member.member_id, self._next(epoch), topics=topics)
        answer = await self.member.wire.send(request, self.member.version)
        if answer.error_code:
            return Err(answer.error_code)
        return {
            -1 if topic.topic_id == NOWHERE else row.partition_index: Err(row.error_code)
            for topic in answer.responses
            for row in topic.partitions
        }

    def _next(self, epoch: int | None) -> int:
        """The epoch of the next request; 0 and -1 are also given by hand, and the following one is 1 after 0."""
        if epoch == -1:
            return epoch
        now = self.epoch if epoch is None else epoch
        self.epoch = now + 1
        return now


async def begin(stack: AsyncExitStack, release: str, *batches: int, joins: bool = True) -> tuple[Cluster, Session]:
    """A member of a group, with a session in which it has fetched nothing; partition 0 has ``batches`` of so many records."""
    config = {"offsets.topic.num.partitions": 1, "share.coordinator.state.topic.num.partitions": 1}
    if release == "4.1":
        config["group.coordinator.rebalance.protocols"] = "classic,consumer,share"  # type: ignore[assignment]
    elif release == "4.4":
        config["group.share.assignment.interval.ms"] = 0
    kafka = await stack.enter_async_context(Cluster(1, {TOPIC: 2}, as_version=release, config=config))
    wire = await Wire.connect(kafka.bootstrap)
    stack.push_async_callback(wire.close)
    member = Member(wire, kafka.state.topics[TOPIC].topic_id, ANN, version=1 if release == "4.1" else 2)
    await member.find()
    await configure(wire, share_auto_offset_reset="earliest")
    await produce(wire, *batches)
    if joins:
        await member.join()
    return kafka, Session(member)


@RELEASES
async def test_with_nothing_in_flight_no_offset_is_known(release: str) -> None:
    """Offsets from the start offset on are in the wrong state; a range that contains it fails the whole request; no session ends."""
    async with AsyncExitStack() as stack:
        _, session = await begin(stack, release, 5)
        assert await session.fetch({0: []}, max_wait_ms=1000) == [(0, OK, OK, [(0, 4, 1)])]
        assert await session.acknowledge({0: [(0, 4, [ACCEPT])]}) == {0: OK}
        assert await session.acknowledge({0: [(7, 7, [ACCEPT])]}) == {0: Err.INVALID_RECORD_STATE}
        assert await session.acknowledge({0: [(5, 7, [ACCEPT])]}) == {0: Err.INVALID_RECORD_STATE}
        assert await session.acknowledge({0: [(3, 7, [ACCEPT])]}) is FAILED
        assert await session.acknowledge({0: [(0, 4, [ACCEPT])]}) == {0: OK}
        assert await session.fetch({0: [(3, 7, [ACCEPT])]}) is FAILED
        assert await session.acknowledge({0: [(3, 7, [ACCEPT])]}, epoch=-1) is FAILED
        assert await session.fetch({0: [(3, 7, [ACCEPT])]}, epoch=-1) is FAILED
        assert await session.fetch({0: [(8, 8, [ACCEPT])]}) == [(0, OK, Err.INVALID_RECORD_STATE, [])]
        assert await session.fetch({0: [(8, 8, [ACCEPT])]}, epoch=-1) == [(0, OK, Err.INVALID_RECORD_STATE, [])]


@pytest.mark.parametrize(
    ("most", "first", "second", "rest"),
    [
        (1, [(0, 0, 1)], [(1, 1, 1)], [(2, 2, 1)]),
        (2, [(0, 1, 1)], [(2, 2, 1), (3, 3, 1)], [(1, 2, 2)]),
        (3, [(0, 2, 1)], [(3, 5, 1)], [(1, 2, 2), (6, 6, 1)]),
        (5, [(0, 4, 1)], [(5, 7, 1), (8, 9, 1)], [(1, 2, 2), (10, 11, 1)]),
        (8, [(0, 7, 1)], [(8, 11, 1)], [(1, 2, 2)]),
    ],
)
async def test_a_strict_limit_takes_one_range_up_to_the_end_of_a_batch_into_flight(
    most: int, first: list[Any], second: list[Any], rest: list[Any]
) -> None:
    async with AsyncExitStack() as stack:
        _, session = await begin(stack, "4.4", 3, 5, 4)
        limits = {"max_records": most, "batch_size": 2, "share_acquire_mode": 1}
        assert await session.fetch({0: []}, **limits, max_wait_ms=1000) == [(0, OK, OK, first)]
        assert await session.fetch({}, **limits) == [(0, OK, OK, second)]
        await session.acknowledge({0: [(0, 0, [ACCEPT])]})
        released = await session.acknowledge({0: [(1, 2, [RELEASE])]})
        assert released == {0: Err.INVALID_RECORD_STATE if most == 1 else OK}
        assert await session.fetch({}, **limits) == [(0, OK, OK, rest)]


@RELEASES
async def test_unknown_topic_ids(release: str) -> None:
    """Before 4.4 a response that would contain one fails, though it had its effect; from then on it has an error of its own."""
    async with AsyncExitStack() as stack:
        _, session = await begin(stack, release, 3)
        known: Row = (0, OK, OK, [(0, 2, 1)])
        unknown: Row = (-1, NO_ID, OK, [])
        both = await session.fetch({-1: [], 0: []}, max_wait_ms=1000)
        assert both == ([unknown, known] if release == "4.4" else FAILED)
        assert await session.fetch({}) == ([unknown] if release == "4.4" else FAILED)
        answer = await session.fetch({-1: [(0, 0, [ACCEPT])], 0: [(0, 0, [ACCEPT])]})
        assert answer == ([(-1, NO_ID, NO_ID, []), (0, OK, OK, [])] if release == "4.4" else FAILED)
        assert await session.acknowledge({-1: [(1, 1, [ACCEPT])], 0: [(0, 1, [ACCEPT])]}) == {-1: NO_ID, 0: OK}
        assert await session.acknowledge({-1: []}) == {-1: NO_ID}
        assert await session.fetch({-1: [(2, 2, [ACCEPT])]}, epoch=-1) == [(-1, OK, NO_ID, [])]


@RELEASES
async def test_a_topic_that_is_deleted_under_a_session(release: str) -> None:
    async with AsyncExitStack() as stack:
        _, session = await begin(stack, release, 3)
        await session.fetch({0: []}, max_wait_ms=1000)
        await session.member.wire.send(DeleteTopicsRequest([DeleteTopicState(TOPIC)], timeout_ms=1000), 6)
        assert await session.fetch({}) == ([(0, NO_PARTITION, OK, [])] if release == "4.4" else FAILED)
        answer = await session.fetch({0: [(1, 1, [ACCEPT])]})
        assert answer == ([(0, NO_PARTITION, NO_ID, [])] if release == "4.4" else FAILED)
        assert await session.acknowledge({0: [(1, 1, [ACCEPT])]}) == {0: NO_ID}
        assert await session.fetch({}, epoch=-1) == []


@RELEASES
async def test_partitions_that_the_topic_does_not_have(release: str) -> None:
    async with AsyncExitStack() as stack:
        _, session = await begin(stack, release, 3)
        await session.fetch({0: []}, max_wait_ms=1000)
        missing: Row = (7, NO_PARTITION, OK, [])
        assert await session.fetch({7: []}) == [missing]
        assert await session.fetch({}) == [missing], "an error is in each response"
        assert await session.fetch({7: [(0, 0, [ACCEPT])]}) == [(7, NO_PARTITION, NO_PARTITION, [])]
        assert await session.fetch({7: []}, epoch=0, max_wait_ms=10**6) == [missing], "nothing to wait for"


@RELEASES
async def test_the_last_request_of_a_session_has_only_acknowledgements(release: str) -> None:
    async with AsyncExitStack() as stack:
        _, session = await begin(stack, release, 3)
        await session.fetch({0: [], 1: []}, max_wait_ms=1000)
        assert await session.fetch({7: [], 0: []}) == [(7, NO_PARTITION, OK, [])]
        assert await session.fetch({0: [(0, 0, [ACCEPT])], 1: []}, epoch=-1) == [(0, OK, OK, []), (1, OK, OK, [])]
        assert await session.fetch({}, epoch=-1) is Err.SHARE_SESSION_NOT_FOUND
        await session.fetch({7: []}, epoch=0)
        assert await session.fetch({}, epoch=-1) == []


@RELEASES
async def test_acknowledgements_of_a_partition_that_could_not_be_loaded(release: str) -> None:
    """No member has joined, so the share coordinator has no state: a fetch waits all the same; an acknowledgement loads nothing."""
    async with AsyncExitStack() as stack:
        _, session = await begin(stack, release, 3, joins=False)
        assert await session.fetch({0: []}, max_wait_ms=1) == [(0, FAILED, OK, [])]
        assert await session.acknowledge({0: [(0, 0, [ACCEPT])]}) == {0: NO_PARTITION}
        assert await session.fetch({0: [(0, 0, [ACCEPT])]}, max_wait_ms=1) == [(0, FAILED, NO_PARTITION, [])]
        assert await session.fetch({0: [(0, 0, [ACCEPT])]}, epoch=-1) == [(0, OK, NO_PARTITION, [])]


@RELEASES
async def test_partitions_without_acknowledgements_are_answered_beside_others(release: str) -> None:
    async with AsyncExitStack() as stack:
        _, session = await begin(stack, release, 3)
        await session.fetch({0: [], 1: []}, max_wait_ms=1000)
        assert await session.fetch({0: [(0, 0, [ACCEPT])], 1: []}) == [(0, OK, OK, []), (1, OK, OK, [])]
        assert await session.fetch({0: [(1, 0, [ACCEPT])], 1: []}) == [(0, OK, Err.INVALID_REQUEST, [])]
        assert await session.acknowledge({0: [(1, 1, [ACCEPT])], 1: [], 8: []}) == {0: OK, 8: NO_PARTITION, 1: OK}
        assert await session.acknowledge({0: [], 1: []}) == {}


@RELEASES
async def test_what_a_fetch_releases_is_not_in_its_response_unless_it_waits(release: str) -> None:
    async with AsyncExitStack() as stack:
        _, session = await begin(stack, release, 1, 1, 1)
        assert await session.fetch({0: []}, max_records=1, max_wait_ms=1000) == [(0, OK, OK, [(0, 0, 1)])]
        assert await session.fetch({0: [(0, 0, [RELEASE])]}, max_records=1) == [(0, OK, OK, [(1, 1, 1)])]
        assert await session.fetch({}, batch_size=1) == [(0, OK, OK, [(0, 0, 2), (2, 2, 1)])]
        assert await session.fetch({0: [(1, 1, [RELEASE])]}) == [(0, OK, OK, [])]
        assert await session.fetch({0: [(0, 0, [RELEASE])]}) == [(0, OK, OK, [(1, 1, 2)])]
        waited = await session.fetch({0: [(2, 2, [RELEASE])], 1: []}, max_records=1, max_wait_ms=1000)
        assert waited == [(0, OK, OK, [(0, 0, 3)]), (1, OK, OK, [])]


@RELEASES
async def test_a_partition_that_is_being_loaded_is_not_in_the_response(release: str) -> None:
    async with AsyncExitStack() as stack:
        _, session = await begin(stack, release, 3)
        await session.fetch({1: []}, max_wait_ms=1)
        assert await session.fetch({0: []}) == []
        assert await session.fetch({}) == [(0, OK, OK, [(0, 2, 1)])]
        assert await session.fetch({}) == []


@RELEASES
async def test_a_fetch_of_nothing(release: str) -> None:
    """4.1 handles it as any other."""
    async with AsyncExitStack() as stack:
        _, session = await begin(stack, release, 3)
        await session.fetch({0: [], 1: []}, max_wait_ms=1000)
        missing: Row = (7, NO_PARTITION, OK, [])
        assert await session.fetch({7: []}, max_records=0) == [missing]
        of_no_bytes = await session.fetch({}, max_bytes=0)
        assert of_no_bytes == ([(0, FAILED, OK, []), (1, FAILED, OK, []), missing] if release == "4.1" else [missing])
        assert await session.fetch({1: []}, epoch=0, max_records=0) == ([(1, OK, OK, [])] if release == "4.1" else [])


@RELEASES
async def test_the_partition_that_comes_first(release: str) -> None:
    """Partitions take turns by the session's epoch; but a log that was read from the same offset before comes before the others."""
    async with AsyncExitStack() as stack:
        kafka, session = await begin(stack, release, 1, 1, 1, 1)
        log = kafka.state.topics[TOPIC].partitions[1]
        for at in range(4):
            log.append(build_batch([(None, b"%d" % at)], kafka.time.now_ms()), now_ms=kafka.time.now_ms())
        one = {"max_records": 1, "batch_size": 1}
        assert await session.fetch({0: [], 1: []}, **one) == [], "they are loaded now"
        assert await session.fetch({0: [], 1: []}, epoch=0, **one) == [(0, OK, OK, [(0, 0, 1)]), (1, OK, OK, [])]
        assert await session.fetch({}, **one) == [(1, OK, OK, [(0, 0, 1)])]
        await session.acknowledge({0: []})
        assert await session.fetch({}, **one) == [(0, OK, OK, [(1, 1, 1)])], (
            "its offset has not changed since it was looked at"
        )
        assert await session.fetch({}, **one) == [(1, OK, OK, [(1, 1, 1)])]

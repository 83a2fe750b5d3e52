"""Transactions as the data plane shows them: isolation in Fetch and ListOffsets, DescribeProducers, WriteTxnMarkers."""

from __future__ import annotations

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafka_wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from kafka_wire.record_batch import batches
from tests.data_plane.helpers import NOW_MS, batch, fetch, fill, list_offset, only
from tests.support.ctx import Sim

READ_COMMITTED = 1


def write(sim: Sim, producer_id: int, *, epoch: int = 0, sequence: int = 0, count: int = 1) -> None:
    """A transactional batch in t-0."""
    partition = sim.state.topics["t"].partitions[0]
    data = batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, attributes=0x10)
    partition.append(data, now_ms=NOW_MS)


def mark(
    sim: Sim,
    producer_id: int,
    *,
    commit: bool = True,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    index: int = 0,
    topic: str = "t",
    transaction_version: int = 0,
    broker: int = 1,
) -> int:
    """End it by WriteTxnMarkers; the error of the partition."""
    topics = [WritableTxnMarkerTopic(topic, [index])]
    marker = WritableTxnMarker(producer_id, epoch, commit, topics, coordinator_epoch, transaction_version)
    answer = sim.call(WriteTxnMarkersRequest([marker]), 2, broker=broker)
    [result] = answer.markers
    assert result.producer_id == producer_id
    code: int = result.topics[0].partitions[0].error_code
    return code


def seen(sim: Sim, isolation_level: int, offset: int = 0) -> tuple[list[int], list[tuple[int, int]] | None]:
    """First offsets of the batches that a fetch brings, and what it tells to pass over."""
    answer = only(sim.call(fetch({("t", 0): offset}, isolation_level=isolation_level), 12))
    aborted = answer.aborted_transactions
    told = None if aborted is None else [(one.producer_id, one.first_offset) for one in aborted]
    return [header.base_offset for _, header in batches(answer.records or b"")], told


def test_a_fetch_of_what_is_committed_stops_before_the_earliest_open_transaction() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 2)
    write(sim, 5)
    fill(sim, "t", 1)
    answer = only(sim.call(fetch({("t", 0): 0}), 12))
    assert (answer.high_watermark, answer.last_stable_offset) == (4, 2)
    assert seen(sim, READ_COMMITTED) == ([0], [])
    assert seen(sim, 0) == ([0, 2, 3], None)
    assert seen(sim, READ_COMMITTED, 2) == ([], [])
    assert mark(sim, 5) == Err.NONE
    assert seen(sim, READ_COMMITTED) == ([0, 2, 3, 4], [])


def test_what_was_aborted_comes_with_its_name() -> None:
    sim = Sim(topics={"t": 1})
    write(sim, 5)
    write(sim, 6)
    mark(sim, 5, commit=False)
    assert seen(sim, READ_COMMITTED) == ([0], [(5, 0)])
    mark(sim, 6, commit=False)
    assert seen(sim, READ_COMMITTED) == ([0, 1, 2, 3], [(5, 0), (6, 1)])
    assert seen(sim, READ_COMMITTED, 3) == ([3], [(6, 1)])
    assert seen(sim, 0) == ([0, 1, 2, 3], None)


def test_a_parked_reader_of_what_is_committed_is_woken_by_the_marker_alone() -> None:
    """The reader waits for far more than the marker's own bytes."""
    sim = Sim(topics={"t": 1})
    request = fetch({("t", 0): 0}, isolation_level=READ_COMMITTED, max_wait_ms=500, min_bytes=300)
    parked, uncommitted = sim.start(request, 12), sim.start(fetch({("t", 0): 0}, max_wait_ms=500, min_bytes=300), 12)
    write(sim, 5, count=40)
    assert uncommitted.answered
    assert not parked.answered
    mark(sim, 5)
    assert parked.answered
    assert len(only(parked.response).records) > 300


def test_a_marker_counts_once_it_is_committed() -> None:
    sim = Sim(topics={"t": 1})
    partition = sim.state.topics["t"].partitions[0]
    write(sim, 5)
    write(sim, 6)
    partition.high_watermark_frozen = True
    request = WriteTxnMarkersRequest([WritableTxnMarker(5, 0, True, [WritableTxnMarkerTopic("t", [0])], 0)])
    waiting, late = sim.start(request, 1), sim.start(request, 1)
    assert partition.last_stable_offset == 0
    partition.advance_high_watermark(3)
    assert waiting.response.markers[0].topics[0].partitions[0].error_code == Err.NONE
    assert partition.last_stable_offset == 1  # producer 6
    sim.clock.advance(30_000)
    assert late.response.markers[0].topics[0].partitions[0].error_code == Err.REQUEST_TIMED_OUT


def test_the_end_of_what_is_committed_is_the_last_stable_offset() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 2)
    write(sim, 5)
    assert list_offset(sim, -1).offset == 3
    assert list_offset(sim, -1, isolation_level=READ_COMMITTED).offset == 2
    assert list_offset(sim, NOW_MS, isolation_level=READ_COMMITTED).offset == 0
    sim.state.topics["t"].partitions[0].log.delete_records(2)
    assert list_offset(sim, NOW_MS).offset == 2
    assert list_offset(sim, NOW_MS, isolation_level=READ_COMMITTED).offset == -1
    mark(sim, 5, commit=False)
    assert list_offset(sim, -1, isolation_level=READ_COMMITTED).offset == 4


@pytest.mark.parametrize(
    ("of", "error"),
    [
        ({"epoch": 3, "coordinator_epoch": 5}, Err.NONE),
        ({"epoch": 2, "coordinator_epoch": 5}, Err.INVALID_PRODUCER_EPOCH),
        ({"epoch": 3, "coordinator_epoch": 4}, Err.TRANSACTION_COORDINATOR_FENCED),
        ({"epoch": 4, "coordinator_epoch": 5}, Err.NONE),
        (
            {"epoch": 3, "coordinator_epoch": 6, "transaction_version": 2},
            Err.NONE,
        ),  # nothing is open: it may come again
        ({"epoch": 4, "coordinator_epoch": 6, "transaction_version": -1}, Err.UNKNOWN_SERVER_ERROR),
        ({"epoch": 4, "coordinator_epoch": 6, "transaction_version": 2}, Err.NONE),
        ({"index": 9}, Err.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "nope"}, Err.UNKNOWN_TOPIC_OR_PARTITION),
        ({"broker": 2}, Err.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_who_may_write_a_marker(of: dict[str, int], error: Err) -> None:
    sim = Sim(topics={"t": 1}, brokers=2)
    write(sim, 5, epoch=2)
    assert mark(sim, 5, epoch=3, coordinator_epoch=5, commit=False) == Err.NONE
    before = sim.state.topics["t"].partitions[0].log_end_offset
    assert mark(sim, 5, **of) == error  # type: ignore[arg-type]
    assert sim.state.topics["t"].partitions[0].log_end_offset == before + (error is Err.NONE)


@pytest.mark.parametrize("version", [2, 3])
def test_in_version_2_an_open_transaction_ends_with_a_later_epoch(version: int) -> None:
    sim = Sim(topics={"t": 1})
    write(sim, 5, epoch=2)
    assert mark(sim, 5, epoch=2, transaction_version=version) == Err.INVALID_PRODUCER_EPOCH
    assert mark(sim, 5, epoch=3, transaction_version=version) == Err.NONE
    assert sim.state.topics["t"].partitions[0].last_stable_offset == 2


def test_producers_are_described_with_what_they_have_open() -> None:
    sim = Sim(topics={"t": 1}, brokers=2)
    write(sim, 9, epoch=1)
    write(sim, 5, count=3)
    mark(sim, 5, coordinator_epoch=7, epoch=1)
    request = DescribeProducersRequest([TopicRequest("t", [0, 1])])
    [topic] = sim.call(request, 0).topics
    there, nowhere = topic.partitions
    assert (nowhere.error_code, nowhere.active_producers) == (Err.UNKNOWN_TOPIC_OR_PARTITION, [])
    marked_at = sim.clock.now_ms()
    told = [
        (one.producer_id, one.producer_epoch, one.last_sequence, one.coordinator_epoch, one.current_txn_start_offset)
        for one in there.active_producers
    ]
    assert told == [(5, 1, -1, 7, -1), (9, 1, 0, -1, 0)]
    assert [one.last_timestamp for one in there.active_producers] == [marked_at, NOW_MS]
    [topic] = sim.call(request, 0, broker=2).topics
    assert topic.partitions[0].error_code == Err.NOT_LEADER_OR_FOLLOWER

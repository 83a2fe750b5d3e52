"""ListOffsets and OffsetForLeaderEpoch: where a partition begins, ends, passes a time or an epoch."""

from __future__ import annotations

import pytest

from kafka_wire.errors import Err
from kafka_wire.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_wire.record_batch import build_batch
from tests.data_plane.helpers import NOW_MS, fill, list_offset
from tests.support.ctx import Sim

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)
NOTHING = (-1, -1)


def timed(*timestamps: int, as_version: str = "4.1", **config: object) -> Sim:
    """A partition t-0 with a record at each of these times, one a batch."""
    sim = Sim(as_version=as_version, config={name.replace("_", "."): value for name, value in config.items()})
    partition = sim.state.create_topic("t", 1).partitions[0]
    for timestamp in timestamps:
        partition.append(build_batch([(b"k", b"v")], timestamp), now_ms=NOW_MS)
    return sim


def found(sim: Sim, timestamp: int, version: int = 7, **options: int) -> tuple[int, int]:
    """(timestamp, offset) of an answer without an error."""
    answer = list_offset(sim, timestamp, version=version, **options)  # type: ignore[arg-type]
    assert answer.error_code == 0
    return answer.timestamp, answer.offset


def test_the_ends_of_a_log() -> None:
    sim = timed(10, 20, 30)
    sim.state.topics["t"].partitions[0].log.delete_records(1)
    assert found(sim, EARLIEST) == (-1, 1)
    assert found(sim, EARLIEST_LOCAL, 8) == (-1, 1)
    assert found(sim, LATEST) == (-1, 3)
    assert found(sim, LATEST_TIERED, 9) == NOTHING


@pytest.mark.parametrize(
    ("timestamp", "expected"), [(0, (10, 0)), (10, (10, 0)), (11, (30, 1)), (30, (30, 1)), (31, NOTHING)]
)
def test_the_first_record_at_a_time_or_later(timestamp: int, expected: tuple[int, int]) -> None:
    assert found(timed(10, 30, 20), timestamp) == expected


def test_the_largest_timestamp() -> None:
    assert found(timed(10, 30, 20, 30), MAX_TIMESTAMP) == (30, 1)
    assert found(timed(), MAX_TIMESTAMP) == NOTHING
    assert found(timed(), 0) == NOTHING


def test_latest_is_what_is_committed_for_whoever_asks() -> None:
    sim = timed(10)
    sim.state.topics["t"].partitions[0].high_watermark_frozen = True
    fill(sim, "t", 2)
    assert found(sim, LATEST) == (-1, 1)
    assert found(sim, LATEST, isolation_level=1) == (-1, 1)
    assert found(sim, LATEST, replica_id=2) == (-1, 3)
    assert found(sim, 11) == NOTHING  # there, but not to be fetched yet


def test_leader_epochs_go_with_offsets_from_v4_on() -> None:
    sim = timed(10)
    sim.state.set_leader(sim.state.topics["t"].partitions[0], 1)
    assert list_offset(sim, LATEST, version=4).leader_epoch == 1
    assert list_offset(sim, EARLIEST, version=4).leader_epoch == 0
    assert list_offset(sim, 5, version=4).leader_epoch == 0
    assert list_offset(timed(), EARLIEST).leader_epoch == 0


@pytest.mark.parametrize(
    ("timestamp", "needs"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (PENDING_UPLOAD, 11), (-7, 99)],
)
def test_a_special_timestamp_needs_its_version(timestamp: int, needs: int) -> None:
    for version in range(1, 12):
        error = list_offset(timed(10), timestamp, version=version).error_code
        assert error == (Err.UNSUPPORTED_VERSION if version < needs else 0)


def test_3x_takes_unknown_specials_for_times() -> None:
    sim = timed(10, 20, as_version="3.4")
    assert found(sim, MAX_TIMESTAMP, 6) == (20, 1)  # which it knows, in any version
    assert found(sim, LATEST_TIERED) == (10, 0)


def test_errors_in_their_order() -> None:
    sim = Sim(brokers=2)
    sim.state.create_topic("t", 1)
    sim.state.create_topic("r", 1, replication_factor=2)
    sim.state.set_leader(sim.state.topics["r"].partitions[0], 1)
    assert list_offset(sim, LATEST, topic="x").error_code == Err.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offset(sim, LATEST, partition=1).error_code == Err.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offset(sim, LATEST, topic="x", version=7, epoch=5).error_code == Err.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offset(sim, -9, topic="x").error_code == Err.UNSUPPORTED_VERSION
    assert list_offset(sim, LATEST, broker=2, epoch=9).error_code == Err.NOT_LEADER_OR_FOLLOWER
    assert list_offset(sim, LATEST, topic="r", broker=2, epoch=9).error_code == Err.UNKNOWN_LEADER_EPOCH
    assert list_offset(sim, LATEST, topic="r", broker=2, epoch=1).error_code == Err.NOT_LEADER_OR_FOLLOWER
    assert list_offset(sim, LATEST, topic="r", epoch=0).error_code == Err.FENCED_LEADER_EPOCH
    assert list_offset(sim, LATEST, topic="r", epoch=2).error_code == Err.UNKNOWN_LEADER_EPOCH
    assert list_offset(sim, LATEST, topic="r", epoch=1).error_code == 0
    assert list_offset(sim, LATEST, topic="r", broker=2, replica_id=-2).error_code == 0


def test_an_isolation_level_that_there_is_not() -> None:
    assert list_offset(timed(), LATEST, isolation_level=9).error_code == Err.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(("as_version", "entries"), [("4.1", [(0, 42), (1, 0)]), ("3.4", [(0, 42), (0, 42), (1, 0)])])
def test_a_partition_that_stands_twice(as_version: str, entries: list[tuple[int, int]]) -> None:
    sim = Sim(topics={"t": 2}, as_version=as_version)
    asked = [ListOffsetsPartition(index, -1, LATEST) for index in (0, 0, 1)]
    [topic] = sim.call(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", asked)]), 7).topics
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == entries


# ------------------------------------------------------------------------------------------------ version 0


def old_style(sim: Sim, timestamp: int, most: int) -> list[int]:
    answer = list_offset(sim, timestamp, version=0, max_num_offsets=most)
    assert answer.error_code == 0
    return answer.old_style_offsets


def segmented() -> Sim:
    """Three segments that begin at 0, 1 and 2, written at 10, 20 and 30; the log ends at 3."""
    sim = Sim(as_version="3.4", config={"log.segment.bytes": 100}, now_ms=NOW_MS)
    partition = sim.state.create_topic("t", 1).partitions[0]
    for timestamp in (10, 20, 30):
        partition.append(build_batch([(b"k", b"v")], timestamp), now_ms=timestamp)
    return sim


def test_version_0_lists_segments_newest_first() -> None:
    sim = segmented()
    assert old_style(sim, LATEST, 10) == [3, 2, 1, 0]
    assert old_style(sim, LATEST, 2) == [3, 2]
    assert old_style(sim, EARLIEST, 10) == [0]
    assert old_style(sim, 20, 10) == [1, 0]
    assert old_style(sim, NOW_MS, 1) == [3]
    assert old_style(sim, 5, 10) == []
    assert old_style(sim, LATEST, 0) == []


def test_version_0_shows_nothing_uncommitted() -> None:
    sim = segmented()
    partition = sim.state.topics["t"].partitions[0]
    partition.high_watermark = 1
    assert old_style(sim, LATEST, 10) == [1, 0]


def test_version_0_of_an_empty_log() -> None:
    sim = Sim(as_version="3.4", topics={"t": 1})
    assert old_style(sim, LATEST, 5) == [0]
    assert old_style(sim, EARLIEST, 5) == [0]


# ------------------------------------------------------------------------------------------------ epochs


def end_of(sim: Sim, epoch: int, current: int = -1, topic: str = "t", broker: int = 1) -> tuple[int, int, int]:
    asked = OffsetForLeaderPartition(0, current, epoch)
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, [asked])])
    [answer] = sim.call(request, 4, broker=broker).topics[0].partitions
    return answer.error_code, answer.leader_epoch, answer.end_offset


def test_where_an_epoch_ended() -> None:
    sim = timed(10, 20)
    partition = sim.state.topics["t"].partitions[0]
    assert end_of(sim, 0) == (0, 0, 2)
    for _ in range(3):
        sim.state.set_leader(partition, 1)
    fill(sim, "t", 1)
    assert end_of(sim, 0) == (0, 0, 2)
    assert end_of(sim, 1) == (0, 0, 2)  # nothing was written in epochs 1 and 2
    assert end_of(sim, 3) == (0, 3, 3)
    assert end_of(sim, 4) == (0, -1, -1)
    assert end_of(sim, -1) == (0, -1, -1)


def test_the_epoch_of_a_leader_that_has_written_nothing() -> None:
    sim = Sim(topics={"t": 1})
    sim.state.set_leader(sim.state.topics["t"].partitions[0], 1)
    assert end_of(sim, 1) == (0, 1, 0)


def test_errors_of_offset_for_leader_epoch() -> None:
    sim = Sim(brokers=2, topics={"t": 1})
    assert end_of(sim, 0, topic="x") == (Err.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert end_of(sim, 0, broker=2) == (Err.NOT_LEADER_OR_FOLLOWER, -1, -1)
    assert end_of(sim, 0, current=-5)[0] == Err.FENCED_LEADER_EPOCH
    assert end_of(sim, 0, current=5)[0] == Err.UNKNOWN_LEADER_EPOCH

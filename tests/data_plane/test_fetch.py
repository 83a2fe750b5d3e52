"""Fetch: what is read, its limits, long polls, epochs and errors."""

from __future__ import annotations

import pytest

from kafka_wire.codec import decode, encode
from kafka_wire.errors import Err
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_wire.record_batch import batches
from tests.data_plane.helpers import batch, fetch, fetched, fill, only, produce
from tests.support.ctx import Sim

VERSION = 12


def read(sim: Sim, offset: int, version: int = VERSION, broker: int = 1, **options: object) -> tuple[int, list[int]]:
    """(error, first offsets of the batches) of a fetch from partition 0 of t."""
    answer = only(sim.call(fetch({("t", 0): offset}, **options), version, broker=broker))  # type: ignore[arg-type]
    return answer.error_code, [header.base_offset for _, header in batches(answer.records or b"")]


def batch_size(count: int = 1) -> int:
    return len(batch(count))


@pytest.mark.parametrize("version", range(4, 13))
def test_batches_come_as_they_lie_in_the_log(version: int) -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 2, 3)
    response = sim.call(fetch(), version)
    answer = only(decode(FetchResponse, version, encode(response, version)))
    assert answer.records == sim.state.topics["t"].partitions[0].log.read(0, 1 << 20)
    assert (answer.high_watermark, answer.last_stable_offset) == (5, 5)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert (answer.aborted_transactions, answer.preferred_read_replica) == (None, -1)


def test_reading_begins_with_the_batch_that_holds_the_offset() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 2, 3, 1)
    assert read(sim, 3) == (0, [2, 5])
    assert read(sim, 5) == (0, [5])
    assert read(sim, 6) == (0, [])


@pytest.mark.parametrize("offset", [-1, 7, 99])
def test_an_offset_out_of_range(offset: int) -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 6)
    answer = only(sim.call(fetch({("t", 0): offset}), VERSION))
    assert answer.error_code == Err.OFFSET_OUT_OF_RANGE
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)
    assert (answer.aborted_transactions, answer.records) == (None, b"")


def test_an_offset_before_the_logs_start() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 2, 2)
    sim.state.topics["t"].partitions[0].log.delete_records(2)
    assert read(sim, 1) == (Err.OFFSET_OUT_OF_RANGE, [])
    assert read(sim, 2) == (0, [2])


@pytest.mark.parametrize(("topic", "partition"), [("x", 0), ("t", 1), ("t", -1)])
def test_an_unknown_partition(topic: str, partition: int) -> None:
    answer = only(Sim(topics={"t": 1}).call(fetch({(topic, partition): 0}, max_wait_ms=500), VERSION))
    assert answer.error_code == Err.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.aborted_transactions == []


def test_topic_ids_from_v13_on() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 1)

    def by_id(topic_id: bytes) -> FetchRequest:
        partition = FetchPartition(0, partition_max_bytes=1000)
        return FetchRequest(topics=[FetchTopic("", topic_id, [partition])])

    response = sim.call(by_id(sim.state.topics["t"].topic_id), 13)
    assert response.responses[0].topic_id == sim.state.topics["t"].topic_id
    assert only(response).records
    assert only(sim.call(by_id(b"1" * 16), 13)).error_code == Err.UNKNOWN_TOPIC_ID
    assert only(sim.call(by_id(bytes(16)), 13)).error_code == Err.UNKNOWN_TOPIC_ID


# ------------------------------------------------------------------------------------------------ limits


def test_a_partitions_limit_lets_whole_batches_through() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 1, 1, 1)
    size = batch_size()
    assert read(sim, 0, partition_max_bytes=2 * size) == (0, [0, 1])
    assert read(sim, 0, partition_max_bytes=2 * size - 1) == (0, [0])


@pytest.mark.parametrize(
    "limit", [{"partition_max_bytes": 1}, {"partition_max_bytes": 0}, {"max_bytes": 1}, {"max_bytes": 0}]
)
def test_the_first_batch_comes_whole_whatever_the_limit(limit: dict[str, int]) -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 1, 1)
    assert read(sim, 0, **limit) == (0, [0])


def test_only_the_first_batch_of_the_whole_answer_may_be_too_large() -> None:
    sim = Sim(topics={"t": 2})
    fill(sim, "t", 1, 1)
    fill(sim, "t", 1, 1, partition=1)
    request = fetch({("t", 0): 0, ("t", 1): 0}, max_bytes=batch_size() + 5)
    sizes = [len(one.records or b"") for one in fetched(sim.call(request, VERSION)).values()]
    assert sizes == [batch_size(), 0]
    wide = fetch({("t", 0): 0, ("t", 1): 0}, max_bytes=3 * batch_size())
    assert [len(one.records or b"") // batch_size() for one in fetched(sim.call(wide, VERSION)).values()] == [2, 1]


def test_the_first_batch_rule_looks_past_partitions_without_data() -> None:
    sim = Sim(topics={"t": 2})
    fill(sim, "t", 1, partition=1)
    answers = fetched(sim.call(fetch({("t", 0): 0, ("t", 1): 0}, max_bytes=1), VERSION))
    assert [len(one.records or b"") for one in answers.values()] == [0, batch_size()]


def test_the_brokers_own_limit() -> None:
    sim = Sim(topics={"t": 1}, config={"fetch.max.bytes": 1024})
    fill(sim, "t", *[1] * 100)
    _, found = read(sim, 0)
    assert len(found) == 1024 // batch_size()


def test_a_negative_limit_is_met_where_there_is_something_to_read() -> None:
    sim = Sim(topics={"t": 1})
    assert read(sim, 0, partition_max_bytes=-1) == (Err.NONE, [])
    fill(sim, "t", 1)
    assert read(sim, 0, partition_max_bytes=-1) == (Err.UNKNOWN_SERVER_ERROR, [])
    assert read(sim, 5, partition_max_bytes=-1) == (Err.OFFSET_OUT_OF_RANGE, [])


def test_a_partition_that_stands_twice_is_read_once() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 1, 1)
    twice = [FetchPartition(0, fetch_offset=offset, partition_max_bytes=1000) for offset in (0, 1)]
    answer = only(sim.call(FetchRequest(topics=[FetchTopic("t", partitions=twice)]), VERSION))
    assert [header.base_offset for _, header in batches(answer.records or b"")] == [1]


# ------------------------------------------------------------------------------------------------ leaders and epochs


def test_before_v11_only_the_leader_answers() -> None:
    sim = Sim(brokers=3)
    sim.state.create_topic("t", 1, replication_factor=2)
    fill(sim, "t", 1)
    assert [read(sim, 0, 10, broker)[0] for broker in (1, 2, 3)] == [0, 6, 6]
    assert [read(sim, 0, 11, broker)[0] for broker in (1, 2, 3)] == [0, 0, 6]


def test_the_new_leader_is_told_from_v16_on() -> None:
    sim = Sim(brokers=2, topics={"t": 1})
    topic = sim.state.topics["t"]
    sim.state.set_leader(topic.partitions[0], 1)
    partition = FetchPartition(0, partition_max_bytes=1000)
    request = FetchRequest(topics=[FetchTopic("", topic.topic_id, [partition])])
    response = sim.call(request, 16, broker=2)
    answer = only(response)
    assert (answer.error_code, answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (6, 1, 1)
    assert [(node.node_id, node.port) for node in response.node_endpoints] == [(1, 9092)]
    silent = sim.call(request, 15, broker=2)
    assert (only(silent).current_leader.leader_id, silent.node_endpoints) == (-1, [])


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, 0), (-5, 0), (2, 0), (1, Err.FENCED_LEADER_EPOCH), (3, Err.UNKNOWN_LEADER_EPOCH)]
)
def test_the_clients_leader_epoch(epoch: int, error: int) -> None:
    sim = Sim(topics={"t": 1})
    for _ in range(2):
        sim.state.set_leader(sim.state.topics["t"].partitions[0], 1)
    assert read(sim, 0, current_leader_epoch=epoch)[0] == error


def test_a_reader_whose_log_diverged_is_told_where() -> None:
    sim = Sim(topics={"t": 1})
    partition = sim.state.topics["t"].partitions[0]
    fill(sim, "t", 3)
    sim.state.set_leader(partition, 1)
    sim.state.set_leader(partition, 1)
    fill(sim, "t", 2)
    answer = only(sim.call(fetch({("t", 0): 5}, last_fetched_epoch=0, max_wait_ms=500), VERSION))
    assert (answer.error_code, answer.records) == (0, b"")
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 3)
    assert read(sim, 3, last_fetched_epoch=0) == (0, [3])
    assert read(sim, 5, last_fetched_epoch=2) == (0, [])
    assert read(sim, 4, last_fetched_epoch=7) == (Err.OFFSET_OUT_OF_RANGE, [])


def test_nobody_follows() -> None:
    assert read(Sim(topics={"t": 1}), 0, replica_id=1) == (Err.NOT_LEADER_OR_FOLLOWER, [])


# ------------------------------------------------------------------------------------------------ what is committed


def test_nothing_beyond_the_high_watermark_is_read() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 1)
    sim.state.topics["t"].partitions[0].high_watermark_frozen = True
    fill(sim, "t", 1, 1)
    assert read(sim, 0) == (0, [0])
    assert read(sim, 2) == (0, [])


def test_read_committed_tells_the_aborted_transactions_which_are_none() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 1)
    answer = only(sim.call(fetch(isolation_level=1), VERSION))
    assert (answer.aborted_transactions, answer.last_stable_offset) == ([], 1)
    assert answer.records


def test_an_isolation_level_that_there_is_not() -> None:
    sim = Sim(topics={"t": 1})
    response = sim.call(fetch(isolation_level=9), VERSION)
    assert (response.error_code, only(response).error_code) == (-1, -1)
    by_id = FetchTopic("", sim.state.topics["t"].topic_id, [FetchPartition(0)])
    response = sim.call(FetchRequest(isolation_level=9, topics=[by_id]), 13)
    assert (response.error_code, response.responses) == (-1, [])


def test_an_isolation_level_counts_only_where_there_is_something_to_read() -> None:
    sim = Sim(topics={"t": 1})
    assert only(sim.call(fetch({("u", 0): 0}, isolation_level=9), VERSION)).error_code == Err.UNKNOWN_TOPIC_OR_PARTITION
    answer = sim.call(FetchRequest(isolation_level=9, session_epoch=5), VERSION)
    assert answer.error_code == Err.FETCH_SESSION_ID_NOT_FOUND


def test_what_is_not_there_is_told_last() -> None:
    sim = Sim(topics={"t": 1})
    answer = sim.call(fetch({("u", 0): 0, ("t", 7): 0, ("t", 0): 0}), VERSION)
    assert list(fetched(answer)) == [("t", 0), ("u", 0), ("t", 7)]


def test_a_topic_with_neither_name_nor_id() -> None:
    nameless = FetchRequest(topics=[FetchTopic(partitions=[FetchPartition()])], session_epoch=0)
    response = Sim(topics={"t": 1}).call(nameless, 13)
    assert (response.error_code, response.session_id, response.responses) == (-1, 0, [])
    nameless.session_epoch = -1
    assert only(Sim(topics={"t": 1}).call(nameless, 13)).error_code == Err.UNKNOWN_TOPIC_ID


# ------------------------------------------------------------------------------------------------ long polls


def test_a_fetch_without_data_waits_until_its_time_is_up() -> None:
    sim = Sim(topics={"t": 1})
    ctx = sim.start(fetch(max_wait_ms=500), VERSION)
    sim.clock.advance(499)
    assert not ctx.answered
    sim.clock.advance(1)
    assert only(ctx.response).records == b""
    fill(sim, "t", 1)  # nobody waits any more


def test_data_ends_the_wait_at_once() -> None:
    sim = Sim(topics={"t": 1, "u": 1})
    ctx = sim.start(fetch({("u", 0): 0, ("t", 0): 0}, max_wait_ms=500), VERSION)
    sim.call(produce(), 9)
    assert [len(one.records or b"") for one in fetched(ctx.response).values()] == [0, batch_size()]
    assert sim.clock.next_deadline_ms() is None


def test_min_bytes_are_waited_for() -> None:
    sim = Sim(topics={"t": 2})
    ctx = sim.start(fetch({("t", 0): 0, ("t", 1): 0}, max_wait_ms=500, min_bytes=3 * batch_size()), VERSION)
    fill(sim, "t", 1)
    fill(sim, "t", 1, partition=1)
    assert not ctx.answered
    fill(sim, "t", 1)
    assert sum(len(one.records or b"") for one in fetched(ctx.response).values()) == 3 * batch_size()


def test_what_was_there_before_counts_for_min_bytes() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 1)
    ctx = sim.start(fetch(max_wait_ms=500, min_bytes=2 * batch_size()), VERSION)
    assert not ctx.answered
    fill(sim, "t", 1)
    assert ctx.answered


def test_too_little_data_comes_when_the_time_is_up() -> None:
    sim = Sim(topics={"t": 1})
    ctx = sim.start(fetch(max_wait_ms=100, min_bytes=10_000), VERSION)
    fill(sim, "t", 1)
    sim.clock.advance(100)
    assert len(only(ctx.response).records or b"") == batch_size()


def test_no_data_is_asked_for() -> None:
    assert read(Sim(topics={"t": 1}), 0, min_bytes=0, max_wait_ms=500) == (0, [])


def test_an_error_ends_the_wait_before_it_begins() -> None:
    assert read(Sim(topics={"t": 1}), 5, max_wait_ms=500)[0] == Err.OFFSET_OUT_OF_RANGE


def test_an_empty_fetch_does_not_wait() -> None:
    assert Sim().call(fetch({}, max_wait_ms=500), VERSION).responses == []


def test_a_new_leader_ends_the_wait() -> None:
    sim = Sim(brokers=2, topics={"t": 1})
    ctx = sim.start(fetch(max_wait_ms=500, min_bytes=1000), VERSION)
    partition = sim.state.topics["t"].partitions[0]
    partition.replicas = [2]
    sim.state.set_leader(partition, 2)
    assert only(ctx.response).error_code == Err.NOT_LEADER_OR_FOLLOWER


def test_a_deleted_topic_ends_the_wait() -> None:
    sim = Sim(topics={"t": 1})
    ctx = sim.start(fetch(max_wait_ms=500, min_bytes=1000), VERSION)
    sim.state.delete_topic("t")
    assert only(ctx.response).error_code == Err.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deleted_topic_of_several_partitions_is_told_once() -> None:
    sim = Sim(topics={"t": 3, "other": 1})
    others = sim.state.topics["other"].partitions[0]
    for partition in sim.state.topics["t"].partitions:
        sim.state.set_leader(partition, 1)  # they have seen something
    asked = fetch({("t", 0): 0, ("t", 1): 0, ("t", 2): 0, ("other", 0): 0}, max_wait_ms=500, min_bytes=1000)
    ctx = sim.start(asked, VERSION)
    sim.state.delete_topic("t")
    errors = [answer.error_code for answer in fetched(ctx.response).values()]
    assert errors == [Err.UNKNOWN_TOPIC_OR_PARTITION] * 3 + [Err.NONE]
    fill(sim, "other", 1)
    assert not others._waiters


def test_a_commit_ends_the_wait() -> None:
    sim = Sim(topics={"t": 1})
    partition = sim.state.topics["t"].partitions[0]
    partition.high_watermark_frozen = True
    ctx = sim.start(fetch(max_wait_ms=500), VERSION)
    fill(sim, "t", 1)
    assert not ctx.answered
    partition.unfreeze_high_watermark()
    assert only(ctx.response).high_watermark == 1


def test_a_log_start_that_passes_the_reader_ends_the_wait() -> None:
    sim = Sim(topics={"t": 1})
    fill(sim, "t", 3)
    partition = sim.state.topics["t"].partitions[0]
    ctx = sim.start(fetch({("t", 0): 1}, max_wait_ms=500, min_bytes=10_000), VERSION)
    partition.log.delete_records(2)
    partition.wake()
    assert only(ctx.response).error_code == Err.OFFSET_OUT_OF_RANGE


def test_a_client_that_goes_leaves_nothing_waiting() -> None:
    sim = Sim(topics={"t": 1})
    ctx = sim.start(fetch(max_wait_ms=500), VERSION)
    ctx.disconnect()
    fill(sim, "t", 1)
    assert not ctx.answered
    assert sim.clock.next_deadline_ms() is None


def test_two_readers_wait_for_the_same_data() -> None:
    sim = Sim(topics={"t": 1})
    waiting = [sim.start(fetch(max_wait_ms=500), VERSION) for _ in range(2)]
    fill(sim, "t", 1)
    assert [len(only(ctx.response).records or b"") for ctx in waiting] == [batch_size()] * 2

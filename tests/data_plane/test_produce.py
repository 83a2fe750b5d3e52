"""Produce: every check, its error and what goes with it; acks; and the fast path beside the general one."""

from __future__ import annotations

import struct
from typing import Any

import google_crc32c
import pytest

from broker_sim import Cluster
from broker_sim.handlers.produce_fast import FAST
from kafka_wire.codec import encode
from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.record_batch import Codec, Record, build_batch, encode_batch
from tests.data_plane.helpers import NOW_MS, batch, produce, produced
from tests.support.ctx import Sim
from tests.support.wire import Wire

VERSION = 9


def patched(data: bytes, at: int, form: str, value: int) -> bytes:
    """A batch with a field of its header changed, its CRC right."""
    changed = bytearray(data)
    struct.pack_into(form, changed, at, value)
    struct.pack_into(">I", changed, 17, google_crc32c.value(bytes(changed[21:])))
    return bytes(changed)


def answer_to(sim: Sim, request: ProduceRequest, version: int = VERSION, **options: Any) -> Any:
    return produced(sim.call(request, version, **options))


def error_of(records: bytes, version: int = VERSION, **settings: str) -> tuple[int, int]:
    """(error, log start offset) of a batch sent to a fresh topic; nothing of it may be in the log."""
    sim = Sim()
    sim.state.create_topic("t", 1, configs={name.replace("_", "."): value for name, value in settings.items()})
    answer = answer_to(sim, produce(records=records), version)
    assert sim.state.topics["t"].partitions[0].log_end_offset == 0
    assert answer.base_offset == -1
    return answer.error_code, answer.log_start_offset


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", range(3, 13))
def test_a_batch_is_appended_and_its_offsets_told(version: int, acks: int) -> None:
    sim = Sim(topics={"t": 1})
    for expected in (0, 3):
        answer = answer_to(sim, produce(records=batch(3), acks=acks), version)
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, expected, -1)
    assert answer.log_start_offset == 0


def test_a_batch_is_stored_as_it_came_but_for_offset_and_epoch() -> None:
    sim = Sim(topics={"t": 1})
    sent = batch(2)
    sim.call(produce(records=sent), VERSION)
    stored = sim.state.topics["t"].partitions[0].log.read(0, 1 << 20)
    assert stored[16:] == sent[16:]
    assert struct.unpack_from(">qii", stored) == (0, len(sent) - 12, 0)


def test_the_brokers_time_is_told_for_log_append_time() -> None:
    sim = Sim(now_ms=5_000_000)
    sim.state.create_topic("t", 1, configs={"message.timestamp.type": "LogAppendTime"})
    assert answer_to(sim, produce()).log_append_time_ms == 5_000_000


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused(acks: int) -> None:
    sim = Sim(topics={"t": 1})
    assert answer_to(sim, produce(acks=acks)).error_code == Err.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize(("topic", "partition"), [("x", 0), ("t", 1), ("t", -1)])
def test_an_unknown_partition(topic: str, partition: int) -> None:
    sim = Sim(topics={"t": 1})
    answer = answer_to(sim, produce(topic, partition=partition))
    assert (answer.error_code, answer.base_offset) == (Err.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_topic_ids_from_v13_on() -> None:
    sim = Sim(topics={"t": 1})
    topic_id = sim.state.topics["t"].topic_id
    assert answer_to(sim, produce("", topic_id=topic_id), 13).error_code == 0
    assert answer_to(sim, produce("", topic_id=b"1" * 16), 13).error_code == Err.UNKNOWN_TOPIC_ID
    assert answer_to(sim, produce("t"), 13).error_code == Err.UNKNOWN_TOPIC_ID
    assert answer_to(sim, produce("", topic_id=topic_id, partition=3), 13).error_code == 3


def test_another_brokers_partition() -> None:
    sim = Sim(brokers=2, topics={"t": 1})
    response = sim.call(produce(), 10, broker=2)
    answer = produced(response)
    assert answer.error_code == Err.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 0)
    assert [(node.node_id, node.port) for node in response.node_endpoints] == [(1, 9092)]
    assert sim.call(produce(), 9, broker=2).node_endpoints == []


def test_internal_topics_are_the_admin_clients_alone() -> None:
    sim = Sim()
    sim.state.ensure_offsets_topic()
    request = produce("__consumer_offsets")
    assert answer_to(sim, request).error_code == Err.INVALID_TOPIC_EXCEPTION
    assert answer_to(sim, request, client_id="__admin_client").error_code == 0


# ------------------------------------------------------------------------------------------------ bad batches


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(b"", (Err.INVALID_RECORD, -1), id="empty"),
        pytest.param(batch()[:10], (Err.INVALID_RECORD, -1), id="short"),
        pytest.param(batch()[:-3], (Err.INVALID_RECORD, -1), id="cut"),
        pytest.param(batch() + batch(), (Err.INVALID_RECORD, -1), id="two"),
        pytest.param(batch()[:-1] + b"!", (Err.CORRUPT_MESSAGE, -1), id="crc"),
        pytest.param(patched(batch(), 16, ">b", 1), (Err.INVALID_RECORD, -1), id="magic 1"),
        pytest.param(patched(batch(), 16, ">b", 3), (Err.CORRUPT_MESSAGE, -1), id="magic 3"),
        pytest.param(patched(batch(), 57, ">i", 5), (Err.INVALID_RECORD, 0), id="count"),
        pytest.param(patched(batch(), 23, ">i", 7), (Err.INVALID_RECORD, 0), id="last offset"),
        pytest.param(patched(batch(), 0, ">q", 5), (Err.INVALID_RECORD, 0), id="base offset"),
        pytest.param(batch(attributes=0x20), (Err.INVALID_RECORD, 0), id="control"),
        pytest.param(batch(producer_id=5, producer_epoch=0, base_sequence=-1), (Err.INVALID_RECORD, 0), id="sequence"),
    ],
)
def test_a_bad_batch_is_refused_and_leaves_no_trace(records: bytes, expected: tuple[int, int]) -> None:
    assert error_of(records) == expected


@pytest.mark.parametrize(("release", "error"), [("3.4", Err.UNKNOWN_SERVER_ERROR), ("4.1", Err.INVALID_RECORD)])
def test_null_records(release: str, error: Err) -> None:
    sim = Sim(topics={"t": 1}, as_version=release)
    request = produce()
    request.topic_data[0].partition_data[0].records = None
    assert answer_to(sim, request).error_code == error


def test_zstd_needs_v7() -> None:
    records = encode_batch([Record(0, NOW_MS, b"k", b"v" * 100)], codec=Codec.ZSTD)
    assert error_of(records, 6) == (Err.UNSUPPORTED_COMPRESSION_TYPE, -1)
    sim = Sim(topics={"t": 1})
    assert answer_to(sim, produce(records=records), 7).error_code == 0
    assert sim.state.topics["t"].partitions[0].log.read(0, 1000)[16:] == records[16:]


def test_a_large_batch() -> None:
    assert error_of(batch(value=b"x" * 300), max_message_bytes="200") == (Err.MESSAGE_TOO_LARGE, -1)


def test_a_record_without_key_in_a_compacted_topic_is_named() -> None:
    sim = Sim()
    sim.state.create_topic("c", 1, configs={"cleanup.policy": "compact"})
    records = build_batch([(b"k", b"v"), (None, b"v")], NOW_MS)
    answer = answer_to(sim, produce("c", records))
    text = "Compacted topic cannot accept message without key in topic partition c-0"
    assert (answer.error_code, answer.log_start_offset) == (Err.INVALID_RECORD, 0)
    first = answer.record_errors[0]
    assert (first.batch_index, first.batch_index_error_message) == (1, text)
    assert text in answer.error_message
    assert answer_to(sim, produce("c", build_batch([(b"k", None)], NOW_MS))).error_code == 0


def test_a_time_in_the_future_is_named() -> None:
    sim = Sim(topics={"t": 1})
    answer = answer_to(sim, produce(records=batch(timestamp_ms=NOW_MS + 3_600_001)))
    assert (answer.error_code, answer.log_start_offset) == (Err.INVALID_TIMESTAMP, 0)
    assert answer.record_errors[0].batch_index == 0
    assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    assert (
        answer_to(Sim(topics={"t": 1}, as_version="3.4"), produce(records=batch(timestamp_ms=10**15))).error_code == 0
    )


def test_transactional_batches_in_a_request_that_names_no_transaction() -> None:
    records = batch(producer_id=5, producer_epoch=0, attributes=0x10)
    sim = Sim(topics={"t": 1})
    assert answer_to(sim, produce(records=records)).error_code == Err.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_the_last_of_a_repeated_partition_counts() -> None:
    sim = Sim(topics={"t": 2})
    first, second = batch(2), batch(3)
    data = [PartitionProduceData(0, first), PartitionProduceData(1, first), PartitionProduceData(0, second)]
    request = ProduceRequest(None, -1, 1000, [TopicProduceData("t", partition_data=data)])
    [topic] = sim.call(request, VERSION).responses
    assert [one.index for one in topic.partition_responses] == [1, 0]
    assert [p.log_end_offset for p in sim.state.topics["t"].partitions] == [3, 2]
    twice = [TopicProduceData("t", partition_data=[PartitionProduceData(0, first)]) for _ in range(2)]
    assert len(sim.call(ProduceRequest(None, -1, 1000, twice), VERSION).responses) == 1


def test_what_is_no_batch_beside_a_sound_one_of_its_partition() -> None:
    sim = Sim(topics={"t": 1})

    def answer(name: str, *given: bytes) -> tuple[int, str | None]:
        data = [PartitionProduceData(0, one) for one in given]
        [topic] = sim.call(ProduceRequest(None, -1, 1000, [TopicProduceData(name, partition_data=data)]), 8).responses
        [one] = topic.partition_responses
        return one.error_code, one.error_message

    assert answer("t", b"", batch(2)) == (Err.INVALID_RECORD, None)
    assert sim.state.topics["t"].partitions[0].log_end_offset == 2
    assert answer("x", b"", batch(2)) == (Err.UNKNOWN_TOPIC_OR_PARTITION, None)
    # a head that can't be refuses all before anything is sorted
    text = "Record size 0 is less than the minimum record overhead (14)"
    assert answer("t", batch(2), bytes(61)) == (Err.CORRUPT_MESSAGE, text)
    assert sim.state.topics["t"].partitions[0].log_end_offset == 2


def test_one_bad_partition_does_not_stop_the_others() -> None:
    sim = Sim(topics={"t": 2})
    data = [PartitionProduceData(0, b""), PartitionProduceData(1, batch())]
    request = ProduceRequest(
        None, -1, 1000, [TopicProduceData("t", partition_data=data), TopicProduceData("x", partition_data=data)]
    )
    answer = sim.call(request, VERSION)
    codes = [[one.error_code for one in topic.partition_responses] for topic in answer.responses]
    assert codes == [[Err.INVALID_RECORD, 0], [3, 3]]


# ------------------------------------------------------------------------------------------------ idempotence


def test_a_resent_batch_is_answered_with_its_first_offsets() -> None:
    sim = Sim(topics={"t": 1})
    sent = batch(2, producer_id=9, producer_epoch=0, base_sequence=0)
    assert answer_to(sim, produce(records=sent)).base_offset == 0
    again = answer_to(sim, produce(records=sent))
    assert (again.error_code, again.base_offset, again.log_append_time_ms) == (0, 0, NOW_MS)
    assert sim.state.topics["t"].partitions[0].log_end_offset == 2


@pytest.mark.parametrize(
    ("epoch", "sequence", "error"),
    [
        (1, 3, Err.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (2, 1, Err.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (0, 2, Err.INVALID_PRODUCER_EPOCH),
    ],
)
def test_gaps_and_old_epochs_of_a_producer(epoch: int, sequence: int, error: Err) -> None:
    sim = Sim(topics={"t": 1})
    assert answer_to(sim, produce(records=batch(2, producer_id=9, producer_epoch=1))).error_code == 0
    bad = batch(2, producer_id=9, producer_epoch=epoch, base_sequence=sequence)
    answer = answer_to(sim, produce(records=bad))
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (error, -1, 0)


# ------------------------------------------------------------------------------------------------ acks


def test_acks_0_is_never_answered() -> None:
    sim = Sim(topics={"t": 1})
    ctx = sim.start(produce(acks=0), VERSION)
    assert (ctx.silent, ctx.response, ctx.connection.closed) == (True, None, False)
    assert sim.state.topics["t"].partitions[0].log_end_offset == 1


def test_an_error_with_acks_0_costs_the_connection() -> None:
    ctx = Sim(topics={"t": 1}).start(produce("x", acks=0), VERSION)
    assert (ctx.silent, ctx.connection.closed) == (True, True)


def test_acks_all_waits_for_the_high_watermark() -> None:
    sim = Sim(topics={"t": 1})
    partition = sim.state.topics["t"].partitions[0]
    partition.high_watermark_frozen = True
    assert sim.start(produce(acks=1), VERSION).answered
    ctx = sim.start(produce(acks=-1), VERSION)
    partition.advance_high_watermark(1)
    assert not ctx.answered
    partition.unfreeze_high_watermark()
    answer = produced(ctx.response)
    assert (answer.error_code, answer.base_offset) == (0, 1)
    sim.clock.advance(5000)  # no timer is left that would answer twice


def test_acks_all_times_out() -> None:
    sim = Sim(topics={"t": 1})
    sim.state.topics["t"].partitions[0].high_watermark_frozen = True
    ctx = sim.start(produce(timeout_ms=300), VERSION)
    sim.clock.advance(299)
    assert not ctx.answered
    sim.clock.advance(1)
    assert produced(ctx.response).error_code == Err.REQUEST_TIMED_OUT
    sim.state.topics["t"].partitions[0].unfreeze_high_watermark()  # nobody waits any more


def test_no_time_to_wait() -> None:
    sim = Sim(topics={"t": 1})
    sim.state.topics["t"].partitions[0].high_watermark_frozen = True
    assert answer_to(sim, produce(timeout_ms=0)).error_code == Err.REQUEST_TIMED_OUT


def test_the_leader_moves_while_a_producer_waits() -> None:
    sim = Sim(brokers=2, topics={"t": 1})
    partition = sim.state.topics["t"].partitions[0]
    partition.high_watermark_frozen = True
    ctx = sim.start(produce(), VERSION)
    sim.state.set_leader(partition, 2)
    assert produced(ctx.response).error_code == Err.NOT_LEADER_OR_FOLLOWER


def test_the_topic_goes_while_a_producer_waits() -> None:
    sim = Sim(topics={"t": 1})
    sim.state.topics["t"].partitions[0].high_watermark_frozen = True
    ctx = sim.start(produce(), VERSION)
    sim.state.delete_topic("t")
    assert produced(ctx.response).error_code == Err.UNKNOWN_TOPIC_OR_PARTITION


def test_a_client_that_goes_leaves_nothing_waiting() -> None:
    sim = Sim(topics={"t": 1})
    partition = sim.state.topics["t"].partitions[0]
    partition.high_watermark_frozen = True
    ctx = sim.start(produce(), VERSION)
    ctx.disconnect()
    partition.unfreeze_high_watermark()
    assert not ctx.answered
    assert sim.clock.next_deadline_ms() is None


def test_too_few_in_sync_replicas() -> None:
    sim = Sim(brokers=2)
    partition = sim.state.create_topic("t", 1, replication_factor=2, configs={"min.insync.replicas": "2"}).partitions[0]
    partition.isr = [1]
    answer = answer_to(sim, produce())
    assert (answer.error_code, answer.log_start_offset) == (Err.NOT_ENOUGH_REPLICAS, 0)
    assert answer_to(sim, produce(acks=1)).error_code == 0
    partition.isr = [1, 2]
    partition.high_watermark_frozen = True
    ctx = sim.start(produce(), VERSION)
    partition.isr = [1]
    partition.unfreeze_high_watermark()
    assert produced(ctx.response).error_code == Err.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_more_in_sync_replicas_wanted_than_there_are() -> None:
    for as_version, error in (("4.1", 0), ("3.4", Err.NOT_ENOUGH_REPLICAS)):
        sim = Sim(as_version=as_version)
        sim.state.create_topic("t", 1, configs={"min.insync.replicas": "2"})
        assert answer_to(sim, produce()).error_code == error


# ------------------------------------------------------------------------------------------------ the fast path


class Connection:
    def __init__(self, sim: Sim, broker: int = 1) -> None:
        self.broker = sim.state.brokers[broker]


def fast(sim: Sim, request: ProduceRequest, version: int, broker: int = 1) -> bytes | None:
    answer = FAST[version](Connection(sim, broker), b"head" + encode(request, version), 4, 1)  # type: ignore[arg-type]
    assert answer is None or isinstance(answer, bytes)
    return answer


def request_of(sim: Sim, version: int, records: bytes, acks: int = -1) -> ProduceRequest:
    topic_id = sim.state.topics["orders"].topic_id if version >= 13 else bytes(16)
    return produce("" if version >= 13 else "orders", records, acks=acks, topic_id=topic_id)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", sorted(FAST))
def test_the_fast_path_answers_the_same(version: int, acks: int) -> None:
    slow, quick = Sim(topics={"orders": 1}), Sim(topics={"orders": 1})
    sent = [batch(2), batch(300), *[batch(1, producer_id=3, producer_epoch=0)] * 2]  # the last one is a resend
    for records in sent:
        expected = encode(slow.call(request_of(slow, version, records, acks), version), version)
        assert fast(quick, request_of(quick, version, records, acks), version) == expected
    assert quick.state.topics["orders"].partitions[0].log_end_offset == 303


@pytest.mark.parametrize("version", sorted(FAST))
def test_the_fast_path_leaves_everything_else_untouched(version: int) -> None:
    sim = Sim(brokers=2, topics={"orders": 1})
    partition = sim.state.topics["orders"].partitions[0]
    good = request_of(sim, version, batch())
    several = request_of(sim, version, batch())
    several.topic_data[0].partition_data.append(PartitionProduceData(0, batch()))
    two_topics = request_of(sim, version, batch())
    two_topics.topic_data.append(two_topics.topic_data[0])
    transactional = request_of(sim, version, batch())
    transactional.transactional_id = "tx"
    for left in (
        several,
        two_topics,
        transactional,
        ProduceRequest(None, -1, 1000, []),
        request_of(sim, version, batch(), acks=0),
        request_of(sim, version, batch(), acks=2),
        request_of(sim, version, b""),
        request_of(sim, version, batch()[:-1] + b"!"),
        request_of(sim, version, batch(attributes=0x10, producer_id=1, producer_epoch=0)),
        produce("other", partition=0),
        produce("orders", partition=5),
    ):
        assert fast(sim, left, version) is None
    assert fast(sim, good, version, broker=2) is None
    partition.high_watermark_frozen = True
    assert fast(sim, good, version) is None
    assert partition.log_end_offset == 0


def test_bytes_after_the_request_are_left_to_the_general_path() -> None:
    sim = Sim(topics={"orders": 1})
    frame = b"head" + encode(request_of(sim, 9, batch()), 9) + b"!"
    assert FAST[9](Connection(sim), frame, 4, 1) is None  # type: ignore[arg-type]


SHORT: dict[tuple[str, int, bool, int, int], Err] = {
    # release, version, with a transactional id, codec, the batch's `length`
    ("3.4", 9, False, 0, 38): Err.CORRUPT_MESSAGE,
    ("3.4", 8, False, 0, 48): Err.INVALID_REQUIRED_ACKS,
    ("4.4", 8, False, 0, 48): Err.INVALID_REQUIRED_ACKS,
    ("3.4", 4, False, 4, 48): Err.UNSUPPORTED_COMPRESSION_TYPE,
    ("4.4", 4, False, 4, 14): Err.UNSUPPORTED_COMPRESSION_TYPE,
    ("4.4", 9, False, 0, 14): Err.UNKNOWN_SERVER_ERROR,
    ("4.4", 9, False, 0, 38): Err.UNKNOWN_SERVER_ERROR,
    ("4.4", 9, False, 0, 39): Err.CORRUPT_MESSAGE,
    ("4.4", 9, True, 0, 38): Err.UNKNOWN_SERVER_ERROR,
    ("4.4", 9, True, 0, 44): Err.UNKNOWN_SERVER_ERROR,
    ("4.4", 9, True, 0, 48): Err.INVALID_PRODUCER_ID_MAPPING,
    ("4.4", 4, True, 4, 38): Err.UNSUPPORTED_COMPRESSION_TYPE,
}


@pytest.mark.parametrize(("release", "version", "in_transaction", "codec", "length"), SHORT)
async def test_a_batch_too_short_for_its_head(
    release: str, version: int, in_transaction: bool, codec: int, length: int
) -> None:
    """Measured on 3.4.0, 4.1.0 and 4.4.0: what looks for the batch's producer before the log sees it falls over its end."""
    transactional_id = "short" if in_transaction else None
    batch = encode_batch([Record(0, 0, None, b"v")], producer_id=1, producer_epoch=0, base_sequence=0)
    data = bytearray(batch[: 12 + length])
    data[8:12] = length.to_bytes(4, "big")
    data[22] = codec | (16 if in_transaction else 0)
    partitions = [PartitionProduceData(0, bytes(data))]
    acks = -2 if version == 8 else -1
    request = ProduceRequest(transactional_id, acks, 5000, [TopicProduceData("t", partition_data=partitions)])
    async with Cluster(topics={"t": 1}, as_version=release) as cluster:
        wire = await Wire.connect(cluster.bootstrap)
        for key, kind in (("short", 1),) if in_transaction else ():
            while (await wire.send(FindCoordinatorRequest(key, kind), 1)).error_code:
                pass
        answer = await wire.send(request, version)
        await wire.close()
    assert (
        answer.responses[0].partition_responses[0].error_code == SHORT[release, version, in_transaction, codec, length]
    )

"""Beside a real broker: it and a log here give the same answers to the same batches, and read each other's files."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from broker_sim.storage import LogConfig, PartitionLog, StorageError
from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafka_wire.record_batch import (
    Codec,
    Record,
    RecordBatchError,
    batches,
    build_batch,
    encode_batch,
    records,
    stamp,
)
from tests.storage.batches import NOW_MS, batch, config, content, idempotent, keyed
from tests.storage.transactions import end, known, stable_offset, write
from tests.support.real_kafka import VERSIONS, Node, RealKafka
from tests.support.wire import Wire, within

pytestmark = [pytest.mark.real_kafka]


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(request: pytest.FixtureRequest) -> Iterator[RealKafka]:
    with RealKafka(request.param) as running:
        yield running


@contextlib.asynccontextmanager
async def connected(kafka: RealKafka) -> AsyncIterator[Wire]:
    wire = await Wire.connect(kafka.bootstrap)
    try:
        yield wire
    finally:
        await wire.close()


async def create(wire: Wire, name: str, **configs: object) -> None:
    settings = [CreatableTopicConfig(key.replace("_", "."), str(value)) for key, value in configs.items()]
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1, [], settings)], 10_000)
    response = await wire.send(request, 5)
    assert response.topics[0].error_code == Err.NONE, response


async def produce(wire: Wire, topic: str, data: bytes) -> PartitionProduceResponse:
    """The answer for partition 0; a leader that is not there yet is asked again."""

    async def ask() -> PartitionProduceResponse:
        while True:
            request = ProduceRequest(
                None, -1, 10_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, data)])]
            )
            answer: PartitionProduceResponse = (await wire.send(request, 8)).responses[0].partition_responses[0]
            if answer.error_code not in (Err.UNKNOWN_TOPIC_OR_PARTITION, Err.NOT_LEADER_OR_FOLLOWER):
                return answer

    return await within(ask(), 60, f"a leader of {topic}")


async def fetch_all(wire: Wire, topic: str) -> list[Record]:
    """Every record of partition 0."""
    found: list[Record] = []
    offset = 0
    while True:
        part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=10 << 20, topics=[FetchTopic(topic, partitions=[part])]
        )
        answer = (await wire.send(request, 6)).responses[0].partitions[0]
        assert answer.error_code == Err.NONE
        if not answer.records:
            return found
        for pos, header in batches(answer.records):
            found += [row for row in records(answer.records, pos, header) if row.offset >= offset]
            offset = header.next_offset


def answer_here(log: PartitionLog, data: bytes) -> tuple[str, int]:
    """(error, base offset) as a broker would answer."""
    try:
        info = log.append(data, leader_epoch=0, now_ms=NOW_MS)
    except (StorageError, RecordBatchError) as error:
        return error.error.name, -1
    return "NONE", info.base_offset


def damaged(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def resealed(data: bytes) -> bytes:
    """With the CRC that the bytes have now."""
    import google_crc32c

    return damaged(data, 17, google_crc32c.value(data[21:]).to_bytes(4, "big"))


def resized(head: bytes, codec: Codec, payload: bytes) -> bytes:
    """A batch of this header and codec with another payload."""
    data = damaged(head[:61], 21, bytes([0, codec])) + payload
    return resealed(damaged(data, 8, (len(data) - 12).to_bytes(4, "big")))


def not_packed(data: bytes, codec: Codec) -> bytes:
    return resized(data, codec, data[61:])


def torn(rows: Sequence[Record], codec: Codec) -> bytes:
    data = encode_batch([row._replace(value=bytes(range(256)) * 4) for row in rows], codec=codec)
    return resized(data, codec, data[61:-20])


def packed_lie(rows: Sequence[Record], codec: Codec, count: int = 4) -> bytes:
    """Return a batch whose header has another number of records than there are, with offsets to match."""
    data = encode_batch(rows, codec=codec)
    return resealed(damaged(damaged(data, 57, count.to_bytes(4, "big")), 23, (count - 1).to_bytes(4, "big")))


QUIRKS = {("3.4.0", "torn GZIP")}
"""INVALID_RECORD there, UNKNOWN_SERVER_ERROR for all other codecs and in 4.x for this one too."""


def plain_course() -> Sequence[tuple[str, bytes]]:
    good = batch("a", "b", "c")
    rows = [Record(index, NOW_MS, b"k", b"v") for index in range(3)]
    return [
        ("good", good),
        ("wrong crc", damaged(good, 70, b"?")),
        ("base offset", stamp(good, 3, -1)),
        ("leader epoch of its own", stamp(good, 0, 77)),
        ("negative last offset delta", resealed(damaged(good, 23, (-5).to_bytes(4, "big", signed=True)))),
        ("fewer records than told", resealed(damaged(good, 57, (4).to_bytes(4, "big")))),
        (
            "count beside the offsets",
            resealed(damaged(damaged(good, 57, (2).to_bytes(4, "big")), 23, (2).to_bytes(4, "big"))),
        ),
        (
            "more records than told",
            resealed(damaged(damaged(good, 57, (2).to_bytes(4, "big")), 23, (1).to_bytes(4, "big"))),
        ),
        ("no records", resealed(damaged(damaged(good[:61], 57, bytes(4)), 8, (49).to_bytes(4, "big")))),
        ("control", build_batch([(b"\0\0\0\1", b"\0\0\0\0\0\0")], NOW_MS, attributes=0x20)),
        ("log append time", build_batch([(None, b"x")], NOW_MS, attributes=8)),
        ("too large", batch("x" * 6000)),
        ("lengths beyond the end", resealed(damaged(good, 61, b"\x7e"))),
        ("negative length", resealed(damaged(good, 61, b"\x01"))),
        ("null key and value", build_batch([(None, None)], NOW_MS)),
        *((f"compressed {codec.name}", encode_batch(rows, codec=codec)) for codec in Codec),
        ("unknown codec", resealed(damaged(good, 21, b"\0\x05"))),
        *((f"not of {codec.name}", not_packed(good, codec)) for codec in Codec if codec),
        *((f"torn {codec.name}", torn(rows, codec)) for codec in Codec if codec),
        *((f"packed lie {codec.name}", packed_lie(rows, codec)) for codec in Codec if codec),
        *((f"packed more {codec.name}", packed_lie(rows[:2], codec, 1)) for codec in Codec if codec),
        *((f"packed nothing {codec.name}", resized(good[:61], codec, b"")) for codec in Codec if codec),
        ("good again", good),
    ]


def producer_course() -> Sequence[tuple[str, bytes]]:
    return [
        ("first", idempotent(0, 2)),
        ("its resend", idempotent(0, 2)),
        ("part of it", idempotent(0, 1)),
        ("rest of it", idempotent(1, 1)),
        ("a gap", idempotent(5)),
        ("next", idempotent(2)),
        *((f"more {sequence}", idempotent(sequence)) for sequence in range(3, 9)),
        ("resend of the fifth last", idempotent(4)),
        ("resend of the sixth last", idempotent(3)),
        ("new epoch in the middle", idempotent(9, epoch=1)),
        ("new epoch", idempotent(0, epoch=1)),
        ("old epoch", idempotent(9)),
        ("resend of the new epoch", idempotent(0, epoch=1)),
        ("epoch skipped", idempotent(0, epoch=9)),
        ("unknown in the middle", idempotent(700, producer_id=8)),
        ("gap after it", idempotent(702, producer_id=8)),
        ("follows it", idempotent(701, producer_id=8)),
        ("near the wrap", idempotent(2**31 - 2, producer_id=9)),
        ("over the wrap", idempotent(2**31 - 1, 3, producer_id=9)),
        ("resend over the wrap", idempotent(2**31 - 1, 3, producer_id=9)),
        ("after the wrap", idempotent(2, producer_id=9)),
        ("negative sequence", idempotent(-1, producer_id=10)),
    ]


@pytest.mark.parametrize("course", [plain_course, producer_course])
async def test_the_same_batches_get_the_same_answers(kafka: RealKafka, course: object) -> None:
    assert callable(course)
    topic = f"answers-{course.__name__}"

    async with connected(kafka) as wire:
        await create(wire, topic, max_message_bytes=5000)
        log = PartitionLog(None, config(max_message_bytes=5000, release=(3, 4) if kafka.version < "3.6" else (4, 1)))
        there, here = [], []
        for name, data in course():
            if (kafka.version, name) in QUIRKS:
                continue
            answer = await produce(wire, topic, data)
            there.append((name, Err(answer.error_code).name, answer.base_offset))
            here.append((name, *answer_here(log, data)))
        assert [pair for pair in zip(here, there, strict=True) if pair[0][1] != pair[1][1]] == []
        assert [row[:4] for row in content(log)] == [row[:4] for row in await fetch_all(wire, topic)]


async def test_a_compacted_topic_refuses_a_missing_key_alike(kafka: RealKafka) -> None:
    async with connected(kafka) as wire:
        await create(wire, "compacted", cleanup_policy="compact")
        release = (3, 4) if kafka.version < "3.5" else (4, 1)
        log = PartitionLog(None, config(cleanup_policy="compact", release=release), name="compacted-0")
        data = build_batch([(b"k", b"v"), (None, b"v")], NOW_MS)
        answer = await produce(wire, "compacted", data)
        with pytest.raises(RecordBatchError) as caught:
            log.append(data, leader_epoch=0, now_ms=NOW_MS)
        assert answer.error_code == caught.value.error
        assert [(one.batch_index, one.batch_index_error_message) for one in answer.record_errors] == list(
            caught.value.record_errors
        )
        assert answer.error_message == str(caught.value)


def node_of(kafka: RealKafka) -> Node:
    return kafka.nodes[1]


async def test_a_real_brokers_directory_is_read_here(kafka: RealKafka, tmp_path: Path) -> None:
    async with connected(kafka) as wire:
        await create(wire, "theirs", segment_bytes=1 << 20, index_interval_bytes=4096)
        for number in range(60):
            rows = [Record(index, NOW_MS + number, b"k%d" % index, b"v%d" % number * 8000) for index in range(3)]
            answer = await produce(
                wire, "theirs", encode_batch(rows, codec=list(Codec)[number % 5 if number % 2 else 0])
            )
            assert answer.error_code == Err.NONE
            await produce(wire, "theirs", idempotent(number, timestamp_ms=NOW_MS + number))
        expected = await fetch_all(wire, "theirs")
        assert len(expected) == 240
    # The broker still runs: its indexes are preallocated, as a crash would leave them.
    shutil.copytree(node_of(kafka).data_dir / "theirs-0", tmp_path / "theirs-0")
    log = PartitionLog(tmp_path / "theirs-0", LogConfig())
    assert len(log.segments) > 1
    assert content(log) == expected
    found = log.offset_for_timestamp(NOW_MS + 30)
    assert found is not None
    assert found.offset == 120
    info = log.append(idempotent(59), leader_epoch=0, now_ms=NOW_MS)
    assert (info.duplicate, info.base_offset) == (True, 239)
    assert log.append(batch("on"), leader_epoch=5, now_ms=NOW_MS).base_offset == 240
    log.close()


async def test_a_real_broker_serves_our_directory(kafka: RealKafka, tmp_path: Path) -> None:
    async with connected(kafka) as wire:
        await create(wire, "ours", segment_bytes=1 << 20)
        await produce(wire, "ours", batch("to be replaced"))
    node = node_of(kafka)
    node.stop()
    log = PartitionLog(tmp_path / "ours-0", config(segment_bytes=20_000, index_interval_bytes=1000))
    for number in range(300):
        log.append(keyed((f"k{number}", "v" * 200), timestamp_ms=NOW_MS + number), leader_epoch=0, now_ms=NOW_MS)
        if number % 10 == 0:
            log.append(idempotent(number // 10, timestamp_ms=NOW_MS), leader_epoch=0, now_ms=NOW_MS)
    log.config = log.config.with_settings({"cleanup.policy": "compact"})
    log.compact(NOW_MS, force=True)
    log.close()
    target = node.data_dir / "ours-0"
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in (tmp_path / "ours-0").iterdir():
        shutil.copy(path, target / path.name)
    node.start()
    node.wait_ready(time.monotonic() + 60)
    async with connected(kafka) as wire:
        again = await produce(wire, "ours", idempotent(29))
        assert (again.error_code, again.base_offset) == (Err.NONE, log.producers.entries[7].last_offset)
        assert await fetch_all(wire, "ours") == content(log)
        lines = node.log().splitlines()
        assert [line for line in lines if "ours-0" in line and ("WARN" in line or "ERROR" in line)] == []
        gap = await produce(wire, "ours", idempotent(31))
        assert gap.error_code == Err.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await produce(wire, "ours", batch("next"))).base_offset == log.log_end_offset


async def test_a_real_broker_and_a_log_here_tell_the_same_of_transactions(kafka: RealKafka, tmp_path: Path) -> None:
    """A real broker reads our directory with open and ended transactions and ends one of them; we read the resulting log."""
    async with connected(kafka) as wire:
        await create(wire, "both", segment_bytes=1 << 20)
        await produce(wire, "both", batch("to be replaced"))
    node = node_of(kafka)
    node.stop()
    log = PartitionLog(tmp_path / "both-0", config(segment_bytes=600))
    for number in range(24):
        producer = number % 3
        write(log, producer, f"v{number}", sequence=number // 3, epoch=producer)
        if number > 5:
            end(log, producer, commit=number % 2 == 0, epoch=producer, coordinator_epoch=7)
    write(log, 5, "open", "still open")
    write(log, 6, "open beside it")
    log.close()
    assert len(log.segments) > 3
    target = node.data_dir / "both-0"
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in (tmp_path / "both-0").iterdir():
        shutil.copy(path, target / path.name)
    node.start()
    node.wait_ready(time.monotonic() + 60)
    first = log.producers.open[5]
    async with connected(kafka) as wire:
        assert await read_committed(wire, "both") == (
            stable_offset(log),
            [(one.producer_id, one.first_offset) for one in log.ended.aborted],
        )
        marker = WritableTxnMarker(5, 0, False, [WritableTxnMarkerTopic("both", [0])], 7)
        answer = await wire.send(WriteTxnMarkersRequest([marker]), 1)
        assert answer.markers[0].topics[0].partitions[0].error_code == Err.NONE
        stable, aborted = await read_committed(wire, "both")
        assert (stable, aborted[-1]) == (first + 2, (5, first))
    node.stop()
    shutil.copytree(node.data_dir / "both-0", tmp_path / "again-0")
    node.start()
    node.wait_ready(time.monotonic() + 60)
    again = PartitionLog(tmp_path / "again-0", config(segment_bytes=600))
    end(log, 5, commit=False, coordinator_epoch=7)
    (producers, *rest), (wanted, *wanted_rest) = known(again), known(log)
    assert rest == wanted_rest
    assert isinstance(producers, dict)
    assert isinstance(wanted, dict)
    # those of long ago that have nothing open it has forgotten (producer.id.expiration.ms)
    assert {each: row[:-1] for each, row in producers.items()} == {each: wanted[each][:-1] for each in (5, 6)}
    again.close()


async def read_committed(wire: Wire, topic: str) -> tuple[int, list[tuple[int, int]]]:
    """The last stable offset, and (producer, first offset) of all aborted transactions that a broker tells of."""
    at, found = 0, dict[tuple[int, int], None]()

    async def ask() -> tuple[int, list[tuple[int, int]]]:
        nonlocal at
        while True:
            wanted = FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=at, partition_max_bytes=1 << 20)])
            request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, isolation_level=1, topics=[wanted])
            request.session_epoch = -1
            part = (await wire.send(request, 11)).responses[0].partitions[0]
            if part.error_code != Err.NONE:
                continue  # not the leader yet
            found.update(dict.fromkeys((one.producer_id, one.first_offset) for one in part.aborted_transactions or []))
            headers = [header for _, header in batches(part.records or b"")]
            if not headers:
                return part.last_stable_offset, list(found)
            at = headers[-1].next_offset

    return await within(ask(), 60, "what a broker tells of transactions")

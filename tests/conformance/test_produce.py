"""Produce: what a broker says of the records inside a batch whose header and checksum are right."""

from __future__ import annotations

import re

import pytest

from kafka_wire.compression import Codec
from kafka_wire.errors import Err
from kafka_wire.record_batch import batches, varint
from tests.conformance.driver import Kafka
from tests.conformance.logs import fetch_all, produce
from tests.support.raw_batches import batch, record

FAR = 10**15


async def answer_to(kafka: Kafka, topic: str, data: bytes) -> Err:
    """Return the broker's answer, recorded as far as it does not depend on the time of day."""
    answer = await produce(kafka.watch, topic, 0, data)
    named = [[one.batch_index, one.batch_index_error_message] for one in answer.record_errors]
    times = re.compile(r"\d{12,}")
    kafka.recording.note(
        "the answer",
        {
            "error": answer.error_code,
            "log_start_offset": answer.log_start_offset,
            "message": times.sub("T", answer.error_message or ""),
            "records": [[index, times.sub("T", text)] for index, text in named],
        },
    )
    return Err(answer.error_code)


NO_RECORDS = {
    "a_key_beyond_its_record": [record(0), b"\x0c\0\0\x02\x32kv\0"],
    "a_record_of_no_byte": [record(0), b"\0"],
    "a_record_of_one_byte": [record(0), b"\x02\0"],
    "minus_five_headers": [record(0), record(1, headers=varint(-5))],
    "nine_headers_that_are_not_there": [record(0), record(1, headers=varint(9))],
    "a_header_without_a_name": [record(0), record(1, headers=b"\x02\x01\0")],
    "a_header_s_value_into_the_next_record": [record(0), record(1, headers=b"\x02\x02a\x0a"), record(2), record(3)],
    "bytes_behind_a_record": [record(0), record(1, behind=b"xyz")],
    "a_time_of_eleven_bytes": [record(0), b"\x20\0" + b"\xff" * 11 + b"\x02\x02k\x02v\0"],
}


@pytest.mark.parametrize("what", NO_RECORDS)
async def test_what_is_no_record_is_refused(kafka: Kafka, what: str) -> None:
    topic = await kafka.topic(kafka.name("t"))
    for codec in Codec:
        assert await answer_to(kafka, topic, batch(*NO_RECORDS[what], codec=codec)) is Err.INVALID_RECORD


async def test_the_declared_size_of_a_compressed_record_counts_before_3_6(kafka: Kafka) -> None:
    topic = await kafka.topic(kafka.name("t"))
    for codec in Codec:
        believed = Err.INVALID_RECORD if kafka.old or codec is Codec.NONE else Err.NONE
        for size in (-3, 0, 4, 9, 300):
            data = batch(record(0), record(1, size=size), codec=codec)
            assert await answer_to(kafka, topic, data) is believed


@pytest.mark.parametrize("claims", [2, 4])
async def test_as_many_records_as_the_header_says(kafka: Kafka, claims: int) -> None:
    topic = await kafka.topic(kafka.name("t"))
    for codec in Codec:
        data = batch(*map(record, range(3)), codec=codec, claims=claims)
        assert await answer_to(kafka, topic, data) is Err.INVALID_RECORD


async def test_a_length_of_six_bytes(kafka: Kafka) -> None:
    topic = await kafka.topic(kafka.name("t"))
    for codec in Codec:
        stumbles = kafka.old or codec is Codec.NONE
        data = batch(b"\xff" * 6 + record(0), codec=codec)
        assert await answer_to(kafka, topic, data) is (Err.UNKNOWN_SERVER_ERROR if stumbles else Err.INVALID_RECORD)


@pytest.mark.parametrize("numbers", [(7, 7), (1, 0), (0, 2), (-1, 0)], ids=str)
async def test_offsets_that_are_not_consecutive(kafka: Kafka, numbers: tuple[int, ...]) -> None:
    topic = await kafka.topic(kafka.name("t"))
    for codec in Codec:
        expected = Err.NONE if codec is Codec.NONE else Err.UNKNOWN_SERVER_ERROR
        assert await answer_to(kafka, topic, batch(*map(record, numbers), codec=codec)) is expected


async def test_every_record_without_a_key_is_named(kafka: Kafka) -> None:
    topic = await kafka.topic("produce-compacted", **{"cleanup.policy": "compact"})
    rows = [record(number, key=None if number in (1, 3, 4, 5) else b"k") for number in range(6)]
    for codec in (Codec.NONE, Codec.GZIP):
        assert await answer_to(kafka, topic, batch(*rows, codec=codec)) is Err.INVALID_RECORD


@pytest.mark.parametrize("times", [(0, FAR), (FAR, 0, FAR // 10, FAR, FAR + 1), (0, -FAR)], ids=str)
async def test_every_record_of_the_far_future_is_named(kafka: Kafka, times: tuple[int, ...]) -> None:
    topic = await kafka.topic(kafka.name("t"))
    rows = [record(number, ahead_ms=ahead_ms) for number, ahead_ms in enumerate(times)]
    late = max(times) > 0 and not kafka.old  # 3.4 has no bound where none is set
    for codec in (Codec.NONE, Codec.GZIP):
        expected = Err.INVALID_TIMESTAMP if late else Err.NONE
        assert await answer_to(kafka, topic, batch(*rows, codec=codec)) is expected


async def test_a_record_is_blamed_for_its_key_before_its_time(kafka: Kafka) -> None:
    topic = await kafka.topic("produce-compacted", **{"cleanup.policy": "compact"})
    rows = [record(0, key=None, ahead_ms=FAR), record(1, ahead_ms=FAR), record(2, key=None), record(3)]
    expected = kafka.pick(old=Err.INVALID_RECORD, new=Err.INVALID_TIMESTAMP)
    for codec in (Codec.NONE, Codec.GZIP):
        assert await answer_to(kafka, topic, batch(*rows, codec=codec)) is expected


async def test_what_is_no_record_outweighs_what_is_wrong_in_records(kafka: Kafka) -> None:
    topic = await kafka.topic("produce-compacted", **{"cleanup.policy": "compact"})
    rows = [record(0, key=None), record(1, ahead_ms=FAR), record(2, headers=varint(-5))]
    for codec in (Codec.NONE, Codec.GZIP):
        assert await answer_to(kafka, topic, batch(*rows, codec=codec)) is Err.INVALID_RECORD


async def test_a_time_that_only_the_header_has_is_put_right(kafka: Kafka) -> None:
    topic = await kafka.topic(kafka.name("t"))
    for codec in (Codec.NONE, Codec.GZIP):
        data = batch(record(0), record(1, ahead_ms=50), codec=codec, ahead_ms=FAR)
        assert await answer_to(kafka, topic, data) is Err.NONE
    for _, header in batches(await fetch_all(kafka.watch, topic, 0)):
        assert header.max_timestamp == header.base_timestamp + 50

"""The records of __transaction_state: the short way to their bytes gives what the codec makes of the message."""

from __future__ import annotations

import random

import pytest

from kafka_wire.codec import EncodeError
from kafka_wire.messages.transaction_log import PartitionsSchema
from kafka_wire.transaction_log import TransactionLogValue, decode_value, encode_value, transaction_value


def by_the_codec(
    version: int, *fields: int, partitions: list[PartitionsSchema] | None, tags: tuple[int, int, int]
) -> bytes:
    producer_id, epoch, timeout_ms, status, updated_ms, started_ms = fields
    tagged = dict(zip(("client_transaction_version", "previous_producer_id", "next_producer_id"), tags, strict=True))
    value = TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_timeout_ms=timeout_ms,
        transaction_status=status,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=updated_ms,
        transaction_start_timestamp_ms=started_ms,
        **(tagged if version else {}),
    )
    return encode_value(version, value)


@pytest.mark.parametrize("version", [0, 1])
def test_a_value_is_what_the_codec_makes_of_it(version: int) -> None:
    rng = random.Random(version)
    for _ in range(300):
        topics = rng.sample(["t", "orders", "__consumer_offsets", "x" * 200], rng.randrange(5))
        rows = [PartitionsSchema(topic, rng.sample(range(2**20), rng.randrange(1, 9))) for topic in topics]
        pairs = tuple((row.topic, index) for row in rows for index in row.partition_ids)
        nothing = rng.random() < 0.2
        fields = (
            rng.choice((0, -1, 5, 2**63 - 1)),
            rng.choice((-1, 0, 32_767)),
            rng.choice((0, 60_000, 2**31 - 1)),
            rng.randrange(8),
            rng.choice((-1, 0, 1_800_000_000_000)),
            rng.choice((-1, 0, 1_800_000_000_000)),
        )
        tags = rng.choice((0, 2)), rng.choice((-1, 0, 5, 2**62)), rng.choice((-1, 0, 6, 2**62))
        ours = transaction_value(version, *fields[:4], None if nothing else pairs, *fields[4:], tags)
        assert ours == by_the_codec(version, *fields, partitions=None if nothing else rows, tags=tags)
        assert decode_value(ours).transaction_partitions == (None if nothing else rows)


@pytest.mark.parametrize("fields", [(2**63, 0, 0, 0), (0, 2**15, 0, 0), (0, 0, 2**31, 0), (0, 0, 0, 128)])
def test_what_fits_in_no_field_is_an_error(fields: tuple[int, int, int, int]) -> None:
    with pytest.raises(EncodeError, match="TransactionLogValue v1"):
        transaction_value(1, *fields, (), 0, 0)


def test_a_topic_that_is_no_text_is_an_error() -> None:
    with pytest.raises(EncodeError):
        transaction_value(1, 0, 0, 0, 1, (("\ud800", 0),), 0, 0)

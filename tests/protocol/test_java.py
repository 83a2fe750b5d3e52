"""Our bytes are those of Java: Kafka's generated classes read what we write, and write the same."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from kafka_wire.codec import DecodeError, decode_from, encode
from tests.protocol.generate import EVERY, random_message
from tests.protocol.java_codec import ACCEPTED, REFUSED, UNKNOWN, reserialize
from tests.protocol.mutate import mutate

pytestmark = pytest.mark.real_kafka

GROWN = {
    "ConsumerGroupTargetAssignmentMetadataValue",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ShareGroupTargetAssignmentMetadataValue",
    "ShareSnapshotValue",
    "ShareUpdateValue",
    "StreamsGroupMetadataValue",
    "StreamsGroupTargetAssignmentMetadataValue",
    "StreamsGroupCurrentMemberAssignmentValue",
}
"""Records that have got tags since 4.1, in the version that they had: Kafka 4.4 reads them."""

MESSAGES_EACH = 25
DAMAGED_EACH = 60


def known_to(kafka: str) -> list[tuple[Any, int]]:
    """The classes that a release is asked about."""
    return [(cls, version) for cls, version in EVERY if kafka == "4.4.0" or cls.__name__ not in GROWN]


@pytest.mark.parametrize(("kafka", "at_least"), [("3.4.0", 290), ("4.1.0", 330), ("4.4.0", 330)])
def test_java_reads_our_bytes_and_writes_the_same(kafka: str, at_least: int) -> None:
    rng = Random(f"java {kafka}")
    cases = [
        (cls.__name__, version, encode(random_message(rng, cls, version), version))
        for cls, version in known_to(kafka)
        for _ in range(MESSAGES_EACH)
    ]
    known = set()
    for (name, version, ours), outcome in zip(cases, reserialize(kafka, cases), strict=True):
        if outcome.status == UNKNOWN:
            continue
        known.add((name, version))
        assert outcome.status == ACCEPTED, (name, version, ours.hex(), outcome.data.decode())
        assert outcome.data.hex() == ours.hex(), (name, version)
        assert outcome.position == len(ours)
    assert len(known) >= at_least, sorted({(cls.__name__, v) for cls, v in EVERY} - known)


@pytest.mark.parametrize("kafka", ["3.4.0", "4.1.0"])  # 4.4.0 refuses more: a negative number of tagged fields
def test_java_accepts_and_refuses_the_damaged_bytes_that_we_do(kafka: str) -> None:
    """Bytes that both accept are also read alike: both write the same again and stop reading at the same place."""
    rng = Random(f"damaged {kafka}")
    cases: list[tuple[type, int, bytes]] = []
    for cls, version in known_to(kafka):
        intact = [encode(random_message(rng, cls, version), version) for _ in range(6)]
        cases += [(cls, version, mutate(rng, rng.choice(intact), rng.choice(intact))) for _ in range(DAMAGED_EACH)]
    outcomes = reserialize(kafka, [(cls.__name__, version, data) for cls, version, data in cases])
    counts: Counter[int] = Counter()
    for (cls, version, data), outcome in zip(cases, outcomes, strict=True):
        if outcome.status == UNKNOWN:
            continue
        counts[outcome.status] += 1
        where = f"{cls.__name__} v{version}: {data.hex()}; Java: {outcome.data!r}"
        try:
            message, position = decode_from(cls, version, data)
        except DecodeError as error:
            ours, why = REFUSED, str(error)
        else:
            ours, why = ACCEPTED, ""
        if kafka == "3.4.0" and "is not valid in this version" in why:
            continue  # a tag that came after 3.4, which skips it; Kafkas that know it refuse it in older versions
        assert (ours == REFUSED) == (outcome.status == REFUSED), f"{where}; we: {why}"
        if outcome.status == ACCEPTED:
            assert position == outcome.position, where
            assert encode(message, version).hex() == outcome.data.hex(), where
    assert counts[ACCEPTED] > 3000
    assert counts[REFUSED] > 3000

"""Our bytes are those of Java: Kafka's generated classes read what we write, and write the same."""

from __future__ import annotations

from random import Random

import pytest

from protocol.codec import encode
from tests.protocol.generate import EVERY, random_message
from tests.protocol.java_codec import ACCEPTED, UNKNOWN, reserialize

pytestmark = pytest.mark.real_kafka

MESSAGES_EACH = 25


@pytest.mark.parametrize(("kafka", "at_least"), [("3.4.0", 290), ("4.1.0", 330)])
def test_java_reads_our_bytes_and_writes_the_same(kafka: str, at_least: int) -> None:
    rng = Random(f"java {kafka}")
    cases = [
        (cls.__name__, version, encode(random_message(rng, cls, version), version))
        for cls, version in EVERY
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

"""Topics to which a member subscribed, read from the bytes that its assignor wrote."""

from __future__ import annotations

import struct
from random import Random

import pytest

from kafka_wire.codec import DecodeError, decode, encode
from kafka_wire.consumer_protocol import assigned_partitions, subscribed_topics, subscription_of
from kafka_wire.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

OWNED = [ConsumerProtocolSubscriptionTopicPartition("a", [0, 1])]
SUBSCRIPTION = ConsumerProtocolSubscription(["b", "a"], b"user data", OWNED, 7, "rack")


def _metadata(version: int, body_version: int) -> bytes:
    return version.to_bytes(2, signed=True) + encode(SUBSCRIPTION, body_version)


@pytest.mark.parametrize("version", range(4))
def test_topics_of_every_version_in_the_members_order(version: int) -> None:
    assert subscribed_topics(_metadata(version, version)) == ["b", "a"]


@pytest.mark.parametrize("version", [4, 100, 32767])
def test_what_a_newer_version_appends_is_not_looked_at(version: int) -> None:
    assert subscribed_topics(_metadata(version, 3) + b"what a newer version appends") == ["b", "a"]


@pytest.mark.parametrize("version", [-32768, -1, 1, 2, 3, 9])
@pytest.mark.parametrize("behind", [b"", b"\0\0"], ids=["nothing", "a beginning"])
def test_version_0_is_enough_of_any_version(version: int, behind: bytes) -> None:
    assert subscribed_topics(_metadata(version, 0) + behind) == ["b", "a"]


def test_no_topics_are_not_no_subscription() -> None:
    assert subscribed_topics(bytes.fromhex("0000 00000000 ffffffff")) == []


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0",
        b"\0\0",
        b"range",
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\x7f\xff\xff\xff",
        b"\0\1" + bytes(4),
    ],
)
def test_what_is_no_subscription_has_no_topics(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None


def _by_the_codec(metadata: bytes) -> tuple[object, ...] | None:
    try:
        version = min(struct.unpack_from(">h", metadata)[0], 3)
        if version < 0:
            return None
        said = decode(ConsumerProtocolSubscription, version, metadata, 2)
    except (struct.error, DecodeError):
        return None
    return said.topics, {one.topic: one.partitions for one in said.owned_partitions}, said.rack_id


def test_a_subscription_is_what_the_codec_reads_whatever_is_wrong_with_it() -> None:
    rng = Random(848)
    seen = set()
    for _ in range(1000):
        version = rng.randrange(5)
        names = [rng.choice(("a", "bb", "\u00e9", "")) for _ in range(rng.randrange(4))]
        owned = [
            ConsumerProtocolSubscriptionTopicPartition(
                rng.choice("ab"), [rng.randrange(-9, 9) for _ in range(rng.randrange(3))]
            )
            for _ in range(rng.randrange(4) if version else 0)
        ]
        rack = rng.choice((None, "r", "")) if version >= 3 else None
        said = ConsumerProtocolSubscription(
            names, rng.choice((None, b"", b"xx")), owned, 5 if version > 1 else -1, rack
        )
        whole = struct.pack(">h", version) + encode(said, min(version, 3))
        damaged = bytearray(whole)
        damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 127, 128, 255))
        for metadata in (whole, whole[: rng.randrange(len(whole))], bytes(damaged)):
            found = subscription_of(metadata)
            told = None if found is None else (found.topics, found.owned, found.rack_id)
            assert told == _by_the_codec(metadata), metadata
            seen.add(told is None)
    assert seen == {True, False}


def test_a_negative_version_is_none() -> None:
    """Kafka 4.1 and 4.4 refuse a JoinGroup into a consumer group for it, as for bytes that end too soon."""
    behind = encode(ConsumerProtocolSubscription(["t0"]), 1)
    assert subscription_of(struct.pack(">h", 1) + behind) is not None
    assert subscription_of(struct.pack(">h", -2) + behind) is None
    assert assigned_partitions(struct.pack(">hii", -1, 0, -1)) is None

"""Which topics a member subscribed to, out of the bytes that its assignor wrote."""

from __future__ import annotations

import pytest

from kafka_wire.codec import encode
from kafka_wire.consumer_protocol import subscribed_topics
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

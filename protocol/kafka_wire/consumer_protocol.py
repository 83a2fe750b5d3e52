"""What a broker reads in the bytes that members exchange: which topics a consumer subscribed to; and for people, what it was assigned.

JoinGroup metadata of the protocol type "consumer" is an int16 version and a ConsumerProtocolSubscription. A broker reads no further
than version 0 reaches, whatever version it says: "V0 must prefix all" (ConsumerProtocol.java). Assignments, which only people look at,
are read in their version, or in the newest we know.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kafka_wire.codec import DecodeError, decode, encode
from kafka_wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

_INT16 = struct.Struct(">h")
_NEWEST = 3


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics of a subscription in the member's order; None when the bytes are no consumer subscription."""
    try:
        _INT16.unpack_from(metadata)
        return decode(ConsumerProtocolSubscription, 0, metadata, 2).topics
    except (struct.error, DecodeError):
        return None


@dataclass(frozen=True, slots=True)
class Subscription:
    """What the coordinator of a group of both protocols reads of a classic member: its topics; what it holds still, by topic; where
    it stands."""

    topics: list[str]
    owned: dict[str, list[int]]
    rack_id: str | None


def subscription_of(metadata: bytes) -> Subscription | None:
    """A subscription in its own version, or in the newest we know; None when the bytes are none."""
    try:
        version = _version(metadata)
        said = decode(ConsumerProtocolSubscription, version, metadata, 2)
    except (struct.error, DecodeError):
        return None
    return Subscription(said.topics, {one.topic: one.partitions for one in said.owned_partitions}, said.rack_id)


def assignment_of(partitions: dict[str, list[int]] | dict[str, tuple[int, ...]], *, as_in: bytes) -> bytes:
    """The bytes of an assignment, in the version that a member's subscription ``as_in`` is in."""
    version = _version(as_in) if len(as_in) >= _INT16.size else 0
    listed = [ConsumerProtocolAssignmentTopicPartition(topic, list(numbers)) for topic, numbers in partitions.items()]
    return _INT16.pack(version) + encode(ConsumerProtocolAssignment(listed), version)


def _version(data: bytes) -> int:
    (version,) = _INT16.unpack_from(data)
    return max(0, min(int(version), _NEWEST))


def assigned_partitions(assignment: bytes) -> dict[str, list[int]] | None:
    """The partitions of an assignment by topic; None when the bytes are no consumer assignment."""
    try:
        decoded = decode(ConsumerProtocolAssignment, _version(assignment), assignment, 2)
    except (struct.error, DecodeError):
        return None
    return {topic.topic: list(topic.partitions) for topic in decoded.assigned_partitions}

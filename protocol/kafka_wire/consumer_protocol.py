"""What a broker reads in the bytes that members exchange: which topics a consumer subscribed to; and for people, what it was assigned.

JoinGroup metadata of the protocol type "consumer" is an int16 version and a ConsumerProtocolSubscription. A broker reads no further
than version 0 reaches, whatever version it says: "V0 must prefix all" (ConsumerProtocol.java). Assignments, which only people look at,
are read in their version, or in the newest we know.
"""

from __future__ import annotations

import struct

from kafka_wire.codec import DecodeError, decode
from kafka_wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

_INT16 = struct.Struct(">h")
_NEWEST = 3


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics of a subscription in the member's order; None when the bytes are no consumer subscription."""
    try:
        _INT16.unpack_from(metadata)
        return decode(ConsumerProtocolSubscription, 0, metadata, 2).topics
    except (struct.error, DecodeError):
        return None


def assigned_partitions(assignment: bytes) -> dict[str, list[int]] | None:
    """The partitions of an assignment by topic; None when the bytes are no consumer assignment."""
    try:
        (version,) = _INT16.unpack_from(assignment)
        decoded = decode(ConsumerProtocolAssignment, max(0, min(version, _NEWEST)), assignment, 2)
    except (struct.error, DecodeError):
        return None
    return {topic.topic: list(topic.partitions) for topic in decoded.assigned_partitions}

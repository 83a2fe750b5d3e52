"""Consumer protocol, as far as a broker reads it: the topics that a consumer subscribed to; and for people, its assigned partitions.

JoinGroup metadata of the protocol type "consumer" is an int16 version and a ConsumerProtocolSubscription. A broker reads no further
than version 0 reaches, whatever version it says: "V0 must prefix all" (ConsumerProtocol.java). Assignments, which only people look at,
are read in their version, or in the newest we know.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kafka_wire.codec import DecodeError, decode, decode_from, encode
from kafka_wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from kafka_wire.wire import LENIENT

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_NEWEST = 3
_OWNED_SINCE, _RACK_SINCE = 1, 3


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics of a subscription in the member's order; None when the bytes are no consumer subscription."""
    try:
        _INT16.unpack_from(metadata)
        return decode(ConsumerProtocolSubscription, 0, metadata, 2).topics
    except (struct.error, DecodeError):
        return None


@dataclass(frozen=True, slots=True)
class Subscription:
    """The part of a classic member's subscription that a coordinator needs when a group is converted to the consumer protocol or back:
    subscribed topics, owned partitions by topic, and the rack."""

    topics: list[str]
    owned: dict[str, list[int]]
    rack_id: str | None


def subscription_of(metadata: bytes) -> Subscription | None:
    """A subscription in its own version, or in the newest we know; None when the bytes are none."""
    try:
        version = _version(metadata)
        said, pos = decode_from(ConsumerProtocolSubscription, 0, metadata, 2)
        owned: dict[str, list[int]] = {}
        if version >= _OWNED_SINCE:
            owned, pos = _owned(metadata, pos)
        rack_id = _rack(metadata, pos + _INT32.size) if version >= _RACK_SINCE else None
        if version == _RACK_SINCE - 1:
            _INT32.unpack_from(metadata, pos)  # the generation
    except (struct.error, DecodeError):
        return None
    return Subscription(said.topics, owned, rack_id)


def _owned(data: bytes, pos: int) -> tuple[dict[str, list[int]], int]:
    """The array of what a member holds, by topic, and the position behind it. A megabyte of it is 128,000 entries, which the
    coordinator reads in one step: an object for each, as `decode` makes them, took 0.1 s. Raises DecodeError, struct.error."""
    end = len(data)
    int16, int32 = _INT16.unpack_from, _INT32.unpack_from
    (count,) = int32(data, pos)
    pos += 4
    if not 0 <= count <= (end - pos) // 6:  # an entry has six bytes at least
        raise DecodeError(f"{count} topics in {end - pos} bytes")
    result: dict[bytes, tuple[int, int]] = {}
    for _ in range(count):
        (size,) = int16(data, pos)
        at = pos + 2 + size
        (many,) = int32(data, at)
        if size < 0 or not 0 <= many <= (end - at - 4) // 4:
            raise DecodeError(f"{many} partitions of a topic with {size} bytes, {end - at} are left")
        result[data[pos + 2 : at]] = at + 4, many
        pos = at + 4 + 4 * many
    numbers = {name: list(struct.unpack_from(f">{many}i", data, at)) for name, (at, many) in result.items()}
    return {name.decode("utf-8", LENIENT): owned for name, owned in numbers.items()}, pos


def _rack(data: bytes, pos: int) -> str | None:
    (size,) = _INT16.unpack_from(data, pos)
    if size > len(data) - pos - 2:
        raise DecodeError(f"the rack has {size} bytes, {len(data) - pos - 2} are left")
    return None if size < 0 else data[pos + 2 : pos + 2 + size].decode("utf-8", LENIENT)


def assignment_of(partitions: dict[str, list[int]] | dict[str, tuple[int, ...]], *, as_in: bytes) -> bytes:
    """The bytes of an assignment, in the version that a member's subscription ``as_in`` is in."""
    version = _version(as_in) if len(as_in) >= _INT16.size else 0
    listed = [ConsumerProtocolAssignmentTopicPartition(topic, list(numbers)) for topic, numbers in partitions.items()]
    return _INT16.pack(version) + encode(ConsumerProtocolAssignment(listed), version)


def _version(data: bytes) -> int:
    """A later version is read as the newest. Raises DecodeError for a negative one (ConsumerProtocol.checkSubscriptionVersion)."""
    (version,) = _INT16.unpack_from(data)
    if version < 0:
        raise DecodeError(f"unsupported version {version}")
    return min(int(version), _NEWEST)


def assigned_partitions(assignment: bytes) -> dict[str, list[int]] | None:
    """The partitions of an assignment by topic; None when the bytes are no consumer assignment."""
    try:
        decoded = decode(ConsumerProtocolAssignment, _version(assignment), assignment, 2)
    except (struct.error, DecodeError):
        return None
    return {topic.topic: list(topic.partitions) for topic in decoded.assigned_partitions}

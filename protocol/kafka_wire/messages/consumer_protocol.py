"""JoinGroup metadata and SyncGroup assignments of consumers (embedded protocol "consumer"). Opaque to
the broker but for the topics of a subscription (offset expiry, OffsetDelete).
"""

from __future__ import annotations

from kafka_wire.schema import array, bytestring, int32, message, string, struct


@struct
class ConsumerProtocolSubscriptionTopicPartition:
    topic: str = string("1+", default="")
    partitions: list[int] = array("int32", "1+", default_factory=list)


@message("0-3")
class ConsumerProtocolSubscription:
    topics: list[str] = array("string", default_factory=list)
    user_data: bytes | None = bytestring(nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = array(
        ConsumerProtocolSubscriptionTopicPartition, "1+", default_factory=list
    )
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


@struct
class ConsumerProtocolAssignmentTopicPartition:
    topic: str = string(default="")
    partitions: list[int] = array("int32", default_factory=list)


@message("0-3")
class ConsumerProtocolAssignment:
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = array(
        ConsumerProtocolAssignmentTopicPartition, default_factory=list
    )
    user_data: bytes | None = bytestring(nullable="0+", default=None)

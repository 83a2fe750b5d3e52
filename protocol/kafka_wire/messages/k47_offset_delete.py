"""OffsetDelete (47). Delete committed offsets of a group (KIP-496)."""

from __future__ import annotations

from kafka_wire.schema import array, int16, int32, message, string, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = int32(default=0)


@struct
class OffsetDeleteRequestTopic:
    name: str = string(default="")
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition, default_factory=list)


@message("0", api_key=47)
class OffsetDeleteRequest:
    group_id: str = string(default="")
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic, default_factory=list)


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = int32(default=0)
    error_code: int = int16(default=0)


@struct
class OffsetDeleteResponseTopic:
    name: str = string(default="")
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition, default_factory=list)


@message("0", api_key=47)
class OffsetDeleteResponse:
    error_code: int = int16(default=0)
    throttle_time_ms: int = int32(default=0)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic, default_factory=list)

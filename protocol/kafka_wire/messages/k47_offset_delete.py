"""OffsetDelete (47). Delete committed offsets of a group (KIP-496)."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, int16, int32, message, string, struct

API = Api(47, "0", advertised={"3.4": "0"})


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)


@struct
class OffsetDeleteRequestTopic:
    name: str = string(default="", entity=Entity.TOPIC)
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition, default_factory=list)


@message(API)
class OffsetDeleteRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic, default_factory=list)


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = int32(default=0)
    error_code: int = int16(default=0)


@struct
class OffsetDeleteResponseTopic:
    name: str = string(default="")
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition, default_factory=list)


@message(API)
class OffsetDeleteResponse:
    error_code: int = int16(default=0)
    throttle_time_ms: int = int32(default=0)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic, default_factory=list)

"""DescribeShareGroupOffsets (90, KIP-932). Where share groups are in partitions. v1 says how far behind that is (KIP-1226)."""

from __future__ import annotations

from kafka_wire.schema import (
    ERROR_TEXT,
    ZERO_UUID,
    Api,
    Entity,
    array,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)

API = Api(90, "0-1", flexible="0+", advertised={"4.1": "0", "4.2": "0-1"})


@struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str = string(default="", entity=Entity.TOPIC)
    partitions: list[int] = array("int32", default_factory=list)


@struct
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str = string(default="", entity=Entity.GROUP)
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
        DescribeShareGroupOffsetsRequestTopic, nullable="0+", default_factory=list
    )


@message(API)
class DescribeShareGroupOffsetsRequest:
    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(
        DescribeShareGroupOffsetsRequestGroup, default_factory=list
    )


@struct
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    start_offset: int = int64(default=0)
    leader_epoch: int = int32(default=0)
    lag: int = int64("1+", default=-1)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str = string(default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
        DescribeShareGroupOffsetsResponsePartition, default_factory=list
    )


@struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str = string(default="", entity=Entity.GROUP)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(
        DescribeShareGroupOffsetsResponseTopic, default_factory=list
    )
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None, failed=ERROR_TEXT)


@message(API)
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: int = int32(default=0)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(
        DescribeShareGroupOffsetsResponseGroup, default_factory=list
    )

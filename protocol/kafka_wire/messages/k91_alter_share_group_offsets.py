"""AlterShareGroupOffsets (91, KIP-932). An empty share group begins elsewhere."""

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

API = Api(91, "0", flexible="0+", advertised={"4.1": "0"})


@struct
class AlterShareGroupOffsetsRequestPartition:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    start_offset: int = int64(default=0)


@struct
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str = string(default="", entity=Entity.TOPIC)
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(
        AlterShareGroupOffsetsRequestPartition, default_factory=list
    )


@message(API)
class AlterShareGroupOffsetsRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic, default_factory=list)


@struct
class AlterShareGroupOffsetsResponsePartition:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@struct
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str = string(default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(
        AlterShareGroupOffsetsResponsePartition, default_factory=list
    )


@message(API)
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None, failed=ERROR_TEXT)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(
        AlterShareGroupOffsetsResponseTopic, default_factory=list
    )

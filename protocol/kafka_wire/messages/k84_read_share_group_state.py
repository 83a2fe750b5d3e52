"""ReadShareGroupState (84, KIP-932). A partition's leader reads what a share group has of it."""

from __future__ import annotations

from kafka_wire.schema import (
    ERROR_TEXT,
    ZERO_UUID,
    Api,
    Entity,
    array,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)

API = Api(84, "0", flexible="0+", advertised={"4.1": "0"})


@struct
class PartitionData:
    partition: int = int32(default=0, entity=Entity.PARTITION)
    leader_epoch: int = int32(default=0)


@struct
class ReadStateData:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[PartitionData] = array(PartitionData, default_factory=list)


@message(API)
class ReadShareGroupStateRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    topics: list[ReadStateData] = array(ReadStateData, default_factory=list)


@struct
class StateBatch:
    first_offset: int = int64(default=0)
    last_offset: int = int64(default=0)
    delivery_state: int = int8(default=0)
    delivery_count: int = int16(default=0)


@struct
class PartitionResult:
    partition: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None, failed=ERROR_TEXT)
    state_epoch: int = int32(default=0)
    start_offset: int = int64(default=0)
    state_batches: list[StateBatch] = array(StateBatch, default_factory=list)


@struct
class ReadStateResult:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[PartitionResult] = array(PartitionResult, default_factory=list)


@message(API)
class ReadShareGroupStateResponse:
    results: list[ReadStateResult] = array(ReadStateResult, default_factory=list)

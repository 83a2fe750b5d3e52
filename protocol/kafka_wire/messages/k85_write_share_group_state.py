"""WriteShareGroupState (85, KIP-932). A partition's leader writes down what has become of records. v1 says how many beyond the start
offset are done with (KIP-1226)."""

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

API = Api(85, "0-1", flexible="0+", advertised={"4.1": "0", "4.2": "0-1"})


@struct
class StateBatch:
    first_offset: int = int64(default=0)
    last_offset: int = int64(default=0)
    delivery_state: int = int8(default=0)
    delivery_count: int = int16(default=0)


@struct
class PartitionData:
    partition: int = int32(default=0, entity=Entity.PARTITION)
    state_epoch: int = int32(default=0)
    leader_epoch: int = int32(default=0)
    start_offset: int = int64(default=0)
    delivery_complete_count: int = int32("1+", default=-1)
    state_batches: list[StateBatch] = array(StateBatch, default_factory=list)


@struct
class WriteStateData:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[PartitionData] = array(PartitionData, default_factory=list)


@message(API)
class WriteShareGroupStateRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    topics: list[WriteStateData] = array(WriteStateData, default_factory=list)


@struct
class PartitionResult:
    partition: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None, failed=ERROR_TEXT)


@struct
class WriteStateResult:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[PartitionResult] = array(PartitionResult, default_factory=list)


@message(API)
class WriteShareGroupStateResponse:
    results: list[WriteStateResult] = array(WriteStateResult, default_factory=list)

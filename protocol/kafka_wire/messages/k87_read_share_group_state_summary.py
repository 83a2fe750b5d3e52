"""ReadShareGroupStateSummary (87, KIP-932). Where a share group is in partitions. v1 says how many records beyond the start offset are
done with (KIP-1226)."""

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

API = Api(87, "0-1", flexible="0+", advertised={"4.1": "0", "4.2": "0-1"})


@struct
class PartitionData:
    partition: int = int32(default=0, entity=Entity.PARTITION)
    leader_epoch: int = int32(default=0)


@struct
class ReadStateSummaryData:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[PartitionData] = array(PartitionData, default_factory=list)


@message(API)
class ReadShareGroupStateSummaryRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData, default_factory=list)


@struct
class PartitionResult:
    partition: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None, failed=ERROR_TEXT)
    state_epoch: int = int32(default=0)
    leader_epoch: int = int32(default=0)
    start_offset: int = int64(default=0)
    delivery_complete_count: int = int32("1+", default=-1)


@struct
class ReadStateSummaryResult:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[PartitionResult] = array(PartitionResult, default_factory=list)


@message(API)
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult, default_factory=list)

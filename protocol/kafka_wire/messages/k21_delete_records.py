"""DeleteRecords (21). Move the log start offset (KIP-107)."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, int16, int32, int64, message, string, struct

API = Api(21, "0-2", flexible="2+", advertised={"3.4": "0-2"})


@struct
class DeleteRecordsPartition:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    offset: int = int64(default=0)


@struct
class DeleteRecordsTopic:
    name: str = string(default="", entity=Entity.TOPIC)
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition, default_factory=list)


@message(API)
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic, default_factory=list)
    timeout_ms: int = int32(default=0)


@struct
class DeleteRecordsPartitionResult:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    low_watermark: int = int64(default=0, failed=-1)
    error_code: int = int16(default=0)


@struct
class DeleteRecordsTopicResult:
    name: str = string(default="", entity=Entity.TOPIC)
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult, default_factory=list)


@message(API)
class DeleteRecordsResponse:
    throttle_time_ms: int = int32(default=0)
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult, default_factory=list)

"""ListOffsets (2). Find offsets by timestamp. v0 lists several offsets a partition; v1 one; v2 isolation level; v4
leader epochs; v7 max timestamp (KIP-734); v8 and v9 tiered storage; v10 a timeout; v11 earliest pending upload.
"""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, int8, int16, int32, int64, message, string, struct

API = Api(2, "0-11", flexible="6+", advertised={"3.4": "0-7", "3.5": "0-8", "3.9": "0-9", "4.0": "1-10", "4.2": "1-11"})


@struct
class ListOffsetsPartition:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64(default=0)
    max_num_offsets: int = int32("0", default=1)


@struct
class ListOffsetsTopic:
    name: str = string(default="", entity=Entity.TOPIC)
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition, default_factory=list)


@message(API)
class ListOffsetsRequest:
    replica_id: int = int32(default=0)
    isolation_level: int = int8("2+", default=0)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic, default_factory=list)
    timeout_ms: int = int32("10+", default=0)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)
    old_style_offsets: list[int] = array("int64", "0", default_factory=list)
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = string(default="", entity=Entity.TOPIC)
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse, default_factory=list)


@message(API)
class ListOffsetsResponse:
    throttle_time_ms: int = int32("2+", default=0)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse, default_factory=list)

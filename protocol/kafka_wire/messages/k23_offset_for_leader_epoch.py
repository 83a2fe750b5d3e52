"""OffsetForLeaderEpoch (23). Where a leader epoch ends (KIP-101, KIP-320)."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, int16, int32, int64, message, string, struct

API = Api(23, "0-4", flexible="4+", advertised={"3.4": "0-4", "4.0": "2-4"})


@struct
class OffsetForLeaderPartition:
    partition: int = int32(default=0, entity=Entity.PARTITION)
    current_leader_epoch: int = int32("2+", default=-1)
    leader_epoch: int = int32(default=0)


@struct
class OffsetForLeaderTopic:
    topic: str = string(default="", entity=Entity.TOPIC)
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition, default_factory=list)


@message(API)
class OffsetForLeaderEpochRequest:
    replica_id: int = int32("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic, default_factory=list)


@struct
class EpochEndOffset:
    error_code: int = int16(default=0)
    partition: int = int32(default=0, entity=Entity.PARTITION)
    leader_epoch: int = int32("1+", default=-1)
    end_offset: int = int64(default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: str = string(default="", entity=Entity.TOPIC)
    partitions: list[EpochEndOffset] = array(EpochEndOffset, default_factory=list)


@message(API)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = int32("2+", default=0)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult, default_factory=list)

"""OffsetCommit (8). Commit offsets of a group. v0 had no generation or member; v1 alone carries commit timestamps;
v2-4 a retention time; v6 leader epochs; v7 static members (KIP-345); v9 KIP-848 members; v10 topic ids in place of names.
"""

from __future__ import annotations

from kafka_wire.schema import ZERO_UUID, Api, Entity, array, int16, int32, int64, message, string, struct, uuid

API = Api(8, "0-10", flexible="8+", advertised={"3.4": "0-8", "3.7": "0-9", "4.0": "2-9", "4.2": "2-10"})


@struct
class OffsetCommitRequestPartition:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    committed_offset: int = int64(default=0)
    committed_leader_epoch: int = int32("6+", default=-1)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string(nullable="0+", default="")


@struct
class OffsetCommitRequestTopic:
    name: str = string("0-9", default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid("10+", default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition, default_factory=list)


@message(API)
class OffsetCommitRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    generation_id_or_member_epoch: int = int32("1+", default=-1)
    member_id: str = string("1+", default="", entity=Entity.MEMBER)
    group_instance_id: str | None = string("7+", nullable="7+", default=None, entity=Entity.INSTANCE)
    retention_time_ms: int = int64("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic, default_factory=list)


@struct
class OffsetCommitResponsePartition:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)


@struct
class OffsetCommitResponseTopic:
    name: str = string("0-9", default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid("10+", default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition, default_factory=list)


@message(API)
class OffsetCommitResponse:
    throttle_time_ms: int = int32("3+", default=0)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic, default_factory=list)

"""TxnOffsetCommit (28). Commit offsets in a transaction (KIP-98). v2 leader epochs; v3 members (KIP-447); v5 adds the group's partition
to the transaction (KIP-890); v6 topic ids.
"""

from __future__ import annotations

from kafka_wire.schema import ZERO_UUID, Api, Entity, array, int16, int32, int64, message, string, struct, uuid

API = Api(28, "0-6", flexible="3+", advertised={"3.4": "0-3", "3.8": "0-4", "4.0": "0-5", "4.4": "0-6"})


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    committed_offset: int = int64(default=0)
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string(nullable="0+", default="")


@struct
class TxnOffsetCommitRequestTopic:
    name: str = string("0-5", default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid("6+", default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition, default_factory=list)


@message(API)
class TxnOffsetCommitRequest:
    transactional_id: str = string(default="", entity=Entity.TRANSACTIONAL_ID)
    group_id: str = string(default="", entity=Entity.GROUP)
    producer_id: int = int64(default=0)
    producer_epoch: int = int16(default=0)
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+", default="", entity=Entity.MEMBER)
    group_instance_id: str | None = string("3+", nullable="3+", default=None, entity=Entity.INSTANCE)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic, default_factory=list)


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)


@struct
class TxnOffsetCommitResponseTopic:
    name: str = string("0-5", default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid("6+", default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition, default_factory=list)


@message(API)
class TxnOffsetCommitResponse:
    throttle_time_ms: int = int32(default=0)
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic, default_factory=list)

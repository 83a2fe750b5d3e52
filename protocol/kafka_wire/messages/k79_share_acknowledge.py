"""ShareAcknowledge (79, KIP-932). What a member of a share group says of records that it was given. v2 renews locks (KIP-1222)."""

from __future__ import annotations

from kafka_wire.schema import (
    ZERO_UUID,
    Api,
    Entity,
    array,
    boolean,
    int16,
    int32,
    int64,
    message,
    nested,
    string,
    struct,
    uuid,
)

API = Api(79, "1-2", flexible="0+", advertised={"4.1": "1", "4.2": "1-2"})


@struct
class AcknowledgementBatch:
    first_offset: int = int64(default=0)
    last_offset: int = int64(default=0)
    acknowledge_types: list[int] = array("int8", default_factory=list)


@struct
class AcknowledgePartition:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, default_factory=list)


@struct
class AcknowledgeTopic:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition, default_factory=list)


@message(API)
class ShareAcknowledgeRequest:
    group_id: str | None = string(nullable="0+", default=None, entity=Entity.GROUP)
    member_id: str | None = string(nullable="0+", default="", entity=Entity.MEMBER)
    share_session_epoch: int = int32(default=0)
    is_renew_ack: bool = boolean("2+", default=False)
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic, default_factory=list)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32(default=0)
    leader_epoch: int = int32(default=0)


@struct
class PartitionData:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, default_factory=LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[PartitionData] = array(PartitionData, default_factory=list)


@struct
class NodeEndpoint:
    node_id: int = int32(default=0)
    host: str = string(default="")
    port: int = int32(default=0)
    rack: str | None = string(nullable="0+", default=None)


@message(API)
class ShareAcknowledgeResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", default=0)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse, default_factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, default_factory=list)

"""ShareFetch (78, KIP-932). Records for one member of a share group, and what it says of those it had. v2 renews locks (KIP-1222), and
may ask for no more records than it wants (KIP-1206)."""

from __future__ import annotations

from kafka_wire.schema import (
    ZERO_UUID,
    Api,
    Entity,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    nested,
    records,
    string,
    struct,
    uuid,
)

API = Api(78, "1-2", flexible="0+", advertised={"4.1": "1", "4.2": "1-2"})


@struct
class AcknowledgementBatch:
    first_offset: int = int64(default=0)
    last_offset: int = int64(default=0)
    acknowledge_types: list[int] = array("int8", default_factory=list)


@struct
class FetchPartition:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, default_factory=list)


@struct
class FetchTopic:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[FetchPartition] = array(FetchPartition, default_factory=list)


@struct
class ForgottenTopic:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[int] = array("int32", default_factory=list)


@message(API)
class ShareFetchRequest:
    group_id: str | None = string(nullable="0+", default=None, entity=Entity.GROUP)
    member_id: str | None = string(nullable="0+", default="", entity=Entity.MEMBER)
    share_session_epoch: int = int32(default=0)
    max_wait_ms: int = int32(default=0)
    min_bytes: int = int32(default=0)
    max_bytes: int = int32(default=2147483647)
    max_records: int = int32("1+", default=0)
    batch_size: int = int32("1+", default=0)
    share_acquire_mode: int = int8("2+", default=0)
    is_renew_ack: bool = boolean("2+", default=False)
    topics: list[FetchTopic] = array(FetchTopic, default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, default_factory=list)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32(default=0)
    leader_epoch: int = int32(default=0)


@struct
class AcquiredRecords:
    first_offset: int = int64(default=0)
    last_offset: int = int64(default=0)
    delivery_count: int = int16(default=0)


@struct
class PartitionData:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16(default=0)
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, default_factory=LeaderIdAndEpoch)
    records: bytes = records(default=b"")
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords, default_factory=list)


@struct
class ShareFetchableTopicResponse:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[PartitionData] = array(PartitionData, default_factory=list)


@struct
class NodeEndpoint:
    node_id: int = int32(default=0)
    host: str = string(default="")
    port: int = int32(default=0)
    rack: str | None = string(nullable="0+", default=None)


@message(API)
class ShareFetchResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("1+", default=0)
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse, default_factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, default_factory=list)

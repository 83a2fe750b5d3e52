"""Fetch (1). Read record batches. v4 isolation level; v7 incremental sessions (KIP-227); v9 leader epochs
(KIP-320); v11 rack (KIP-392); v12 diverging epochs; v13 topic ids (KIP-516); v15 replica state; v16 node
endpoints (KIP-951); v18 high watermark (KIP-1166).
"""

from __future__ import annotations

from kafka_wire.schema import (
    ZERO_UUID,
    Api,
    Entity,
    array,
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

API = Api(
    1,
    "4-18",
    flexible="12+",
    advertised={"3.4": "0-13", "3.5": "0-15", "3.7": "0-16", "3.9": "0-17", "4.0": "4-17", "4.1": "4-18"},
)


@struct
class ReplicaState:
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


@struct
class FetchPartition:
    partition: int = int32(default=0, entity=Entity.PARTITION)
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64(default=0)
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32(default=0)
    replica_directory_id: bytes = uuid("17+", tag=0, tagged="17+", default=ZERO_UUID)
    high_watermark: int = int64("18+", tag=1, tagged="18+", default=9223372036854775807)


@struct
class FetchTopic:
    topic: str = string("0-12", default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid("13+", default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[FetchPartition] = array(FetchPartition, default_factory=list)


@struct
class ForgottenTopic:
    topic: str = string("7-12", default="")
    topic_id: bytes = uuid("13+", default=ZERO_UUID)
    partitions: list[int] = array("int32", "7+", default_factory=list)


@message(API)
class FetchRequest:
    cluster_id: str | None = string("12+", nullable="12+", tag=0, tagged="12+", default=None)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = nested(ReplicaState, "15+", tag=1, tagged="15+", default_factory=ReplicaState)
    max_wait_ms: int = int32(default=0)
    min_bytes: int = int32(default=0)
    max_bytes: int = int32("3+", default=2147483647)
    isolation_level: int = int8("4+", default=0)
    session_id: int = int32("7+", default=0)
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic, default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+", default_factory=list)
    rack_id: str = string("11+", default="")


@struct
class EpochEndOffset:
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


@struct
class SnapshotId:
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@struct
class AbortedTransaction:
    producer_id: int = int64("4+", default=0)
    first_offset: int = int64("4+", default=0)


@struct
class PartitionData:
    partition_index: int = int32(default=0)
    error_code: int = int16(default=0)
    high_watermark: int = int64(default=0)
    last_stable_offset: int = int64("4+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: EpochEndOffset = nested(EpochEndOffset, "12+", tag=0, tagged="12+", default_factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = nested(
        LeaderIdAndEpoch, "12+", tag=1, tagged="12+", default_factory=LeaderIdAndEpoch
    )
    snapshot_id: SnapshotId = nested(SnapshotId, "12+", tag=2, tagged="12+", default_factory=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+", default_factory=list
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: bytes | None = records(nullable="0+", default=b"")


@struct
class FetchableTopicResponse:
    topic: str = string("0-12", default="")
    topic_id: bytes = uuid("13+", default=ZERO_UUID)
    partitions: list[PartitionData] = array(PartitionData, default_factory=list)


@struct
class NodeEndpoint:
    node_id: int = int32("16+", default=0)
    host: str = string("16+", default="")
    port: int = int32("16+", default=0)
    rack: str | None = string("16+", nullable="16+", default=None)


@message(API)
class FetchResponse:
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16("7+", default=0)
    session_id: int = int32("7+", default=0)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse, default_factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0, tagged="16+", default_factory=list)

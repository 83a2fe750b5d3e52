"""Produce (0). Append record batches to partitions. v3 is record batch v2 (magic 2); v7 allows zstd; v8 adds
record errors (KIP-467); v10 adds the current leader and node endpoints (KIP-951); v13 names topics by id
(KIP-516).
"""

from __future__ import annotations

from kafka_wire.schema import (
    ZERO_UUID,
    Api,
    Entity,
    array,
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
    0, "3-13", flexible="9+", advertised={"3.4": "0-9", "3.7": "0-10", "3.8": "0-11", "4.0": "3-12", "4.1": "3-13"}
)


@struct
class PartitionProduceData:
    index: int = int32(default=0, entity=Entity.PARTITION)
    records: bytes | None = records(nullable="0+", default=b"")


@struct
class TopicProduceData:
    name: str = string("0-12", default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid("13+", default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData, default_factory=list)


@message(API)
class ProduceRequest:
    transactional_id: str | None = string("3+", nullable="3+", default=None, entity=Entity.TRANSACTIONAL_ID)
    acks: int = int16(default=0)
    timeout_ms: int = int32(default=0)
    topic_data: list[TopicProduceData] = array(TopicProduceData, default_factory=list)


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = int32("8+", default=0)
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


@struct
class PartitionProduceResponse:
    index: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)
    base_offset: int = int64(default=0)
    log_append_time_ms: int = int64("2+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", default_factory=list)
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = nested(
        LeaderIdAndEpoch, "10+", tag=0, tagged="10+", default_factory=LeaderIdAndEpoch
    )


@struct
class TopicProduceResponse:
    name: str = string("0-12", default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid("13+", default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse, default_factory=list)


@struct
class NodeEndpoint:
    node_id: int = int32("10+", default=0)
    host: str = string("10+", default="")
    port: int = int32("10+", default=0)
    rack: str | None = string("10+", nullable="10+", default=None)


@message(API)
class ProduceResponse:
    responses: list[TopicProduceResponse] = array(TopicProduceResponse, default_factory=list)
    throttle_time_ms: int = int32("1+", default=0)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0, tagged="10+", default_factory=list)

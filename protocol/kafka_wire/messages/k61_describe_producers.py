"""DescribeProducers (61). The producers that partitions know, and where their transactions began (KIP-664)."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, int16, int32, int64, message, string, struct

API = Api(61, "0", flexible="0+", advertised={"3.4": "0"})


@struct
class TopicRequest:
    name: str = string(default="", entity=Entity.TOPIC)
    partition_indexes: list[int] = array("int32", default_factory=list, entity=Entity.PARTITION)


@message(API)
class DescribeProducersRequest:
    topics: list[TopicRequest] = array(TopicRequest, default_factory=list)


@struct
class ProducerState:
    producer_id: int = int64(default=0)
    producer_epoch: int = int32(default=0)
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32(default=0)
    current_txn_start_offset: int = int64(default=-1)


@struct
class PartitionResponse:
    partition_index: int = int32(default=0, entity=Entity.PARTITION)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState, default_factory=list)


@struct
class TopicResponse:
    name: str = string(default="", entity=Entity.TOPIC)
    partitions: list[PartitionResponse] = array(PartitionResponse, default_factory=list)


@message(API)
class DescribeProducersResponse:
    throttle_time_ms: int = int32(default=0)
    topics: list[TopicResponse] = array(TopicResponse, default_factory=list)

"""DescribeTopicPartitions (75). Partitions of topics, page by page (KIP-966)."""

from __future__ import annotations

from kafka_wire.schema import (
    ZERO_UUID,
    All,
    Api,
    Entity,
    array,
    boolean,
    int16,
    int32,
    message,
    nested,
    string,
    struct,
    uuid,
)

API = Api(75, "0", flexible="0+", advertised={"3.8": "0"})


@struct
class TopicRequest:
    name: str = string(default="", entity=Entity.TOPIC)


@struct
class DescribeTopicPartitionsRequestCursor:
    topic_name: str = string(default="")
    partition_index: int = int32(default=0)


@message(API)
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = array(TopicRequest, default_factory=list, all_if=All.EMPTY)
    response_partition_limit: int = int32(default=2000)
    cursor: DescribeTopicPartitionsRequestCursor | None = nested(
        DescribeTopicPartitionsRequestCursor, nullable="0+", default=None
    )


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: int = int16(default=0)
    partition_index: int = int32(default=0)
    leader_id: int = int32(default=0)
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array("int32", default_factory=list)
    isr_nodes: list[int] = array("int32", default_factory=list)
    eligible_leader_replicas: list[int] | None = array("int32", nullable="0+", default=None)
    last_known_elr: list[int] | None = array("int32", nullable="0+", default=None)
    offline_replicas: list[int] = array("int32", default_factory=list)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int = int16(default=0)
    name: str | None = string(nullable="0+", default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid(default=ZERO_UUID)
    is_internal: bool = boolean(default=False)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition, default_factory=list
    )
    topic_authorized_operations: int = int32(default=-2147483648)


@struct
class DescribeTopicPartitionsResponseCursor:
    topic_name: str = string(default="")
    partition_index: int = int32(default=0)


@message(API)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = int32(default=0)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(
        DescribeTopicPartitionsResponseTopic, default_factory=list
    )
    next_cursor: DescribeTopicPartitionsResponseCursor | None = nested(
        DescribeTopicPartitionsResponseCursor, nullable="0+", default=None
    )

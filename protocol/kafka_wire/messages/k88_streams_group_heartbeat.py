"""StreamsGroupHeartbeat (88, KIP-1071). How a Kafka Streams client joins a streams group, reports its tasks, and is assigned tasks."""

from __future__ import annotations

from kafka_wire.schema import (
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
    string,
    struct,
    uint16,
)

API = Api(88, "0-1", flexible="0+", advertised={"4.2": "0", "4.4": "0-1"})


@struct
class KeyValue:
    key: str = string(default="")
    value: str = string(default="")


@struct
class TopicInfo:
    name: str = string(default="", entity=Entity.TOPIC)
    partitions: int = int32(default=0)
    replication_factor: int = int16(default=0)
    topic_configs: list[KeyValue] = array(KeyValue, default_factory=list)


@struct
class CopartitionGroup:
    source_topics: list[int] = array("int16", default_factory=list)
    source_topic_regex: list[int] = array("int16", default_factory=list)
    repartition_source_topics: list[int] = array("int16", default_factory=list)


@struct
class Subtopology:
    subtopology_id: str = string(default="")
    source_topics: list[str] = array("string", default_factory=list, entity=Entity.TOPIC)
    source_topic_regex: list[str] = array("string", default_factory=list)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo, default_factory=list)
    repartition_sink_topics: list[str] = array("string", default_factory=list, entity=Entity.TOPIC)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo, default_factory=list)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup, default_factory=list)


@struct
class Topology:
    epoch: int = int32(default=0)
    subtopologies: list[Subtopology] = array(Subtopology, default_factory=list)


@struct
class TaskIds:
    subtopology_id: str = string(default="")
    partitions: list[int] = array("int32", default_factory=list)


@struct
class Endpoint:
    host: str = string(default="")
    port: int = uint16(default=0)


@struct
class TaskOffset:
    subtopology_id: str = string(default="")
    partition: int = int32(default=0)
    offset: int = int64(default=0)


@message(API)
class StreamsGroupHeartbeatRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    member_id: str = string(default="", entity=Entity.MEMBER)
    member_epoch: int = int32(default=0)
    endpoint_information_epoch: int = int32(default=0)
    instance_id: str | None = string(nullable="0+", default=None, entity=Entity.INSTANCE)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: Topology | None = nested(Topology, nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    process_id: str | None = string(nullable="0+", default=None)
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] | None = array(KeyValue, nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    shutdown_application: bool = boolean(default=False)


@struct
class Status:
    status_code: int = int8(default=0)
    status_detail: str = string(default="")


@struct
class TopicPartition:
    topic: str = string(default="", entity=Entity.TOPIC)
    partitions: list[int] = array("int32", default_factory=list)


@struct
class EndpointToPartitions:
    user_endpoint: Endpoint = nested(Endpoint, default_factory=Endpoint)
    active_partitions: list[TopicPartition] = array(TopicPartition, default_factory=list)
    standby_partitions: list[TopicPartition] = array(TopicPartition, default_factory=list)


@message(API)
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str = string(default="")
    member_epoch: int = int32(default=0)
    heartbeat_interval_ms: int = int32(default=0)
    acceptable_recovery_lag_legacy: int = int32("0", default=0)
    task_offset_interval_ms: int = int32(default=0)
    acceptable_recovery_lag: int = int64("1+", default=-1)
    status: list[Status] | None = array(Status, nullable="0+", default_factory=list)
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    topology_description_required: bool = boolean("1+", default=False)
    endpoint_information_epoch: int = int32(default=0)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(
        EndpointToPartitions, nullable="0+", default=None
    )

"""StreamsGroupDescribe (89, KIP-1071). A streams group's epochs, its topology, and its members with their tasks."""

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

API = Api(89, "0-1", flexible="0+", advertised={"4.2": "0", "4.4": "0-1"})


@message(API)
class StreamsGroupDescribeRequest:
    group_ids: list[str] = array("string", default_factory=list, entity=Entity.GROUP)
    include_authorized_operations: bool = boolean(default=False)
    include_topology_description: bool = boolean("1+", default=False)


@struct
class Endpoint:
    host: str = string(default="")
    port: int = uint16(default=0)


@struct
class TaskOffset:
    subtopology_id: str = string(default="")
    partition: int = int32(default=0)
    offset: int = int64(default=0)


@struct
class TaskIds:
    subtopology_id: str = string(default="")
    partitions: list[int] = array("int32", default_factory=list)


@struct
class Assignment:
    active_tasks: list[TaskIds] = array(TaskIds, default_factory=list)
    standby_tasks: list[TaskIds] = array(TaskIds, default_factory=list)
    warmup_tasks: list[TaskIds] = array(TaskIds, default_factory=list)


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
class Subtopology:
    subtopology_id: str = string(default="")
    source_topics: list[str] = array("string", default_factory=list, entity=Entity.TOPIC)
    repartition_sink_topics: list[str] = array("string", default_factory=list, entity=Entity.TOPIC)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo, default_factory=list)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo, default_factory=list)


@struct
class Topology:
    epoch: int = int32(default=0)
    subtopologies: list[Subtopology] | None = array(Subtopology, nullable="0+", default=None)


@struct
class Member:
    member_id: str = string(default="")
    member_epoch: int = int32(default=0)
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string(default="")
    client_host: str = string(default="")
    topology_epoch: int = int32(default=0)
    process_id: str = string(default="")
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue, default_factory=list)
    task_offsets: list[TaskOffset] = array(TaskOffset, default_factory=list)
    task_end_offsets: list[TaskOffset] = array(TaskOffset, default_factory=list)
    assignment: Assignment = nested(Assignment, default_factory=Assignment)
    target_assignment: Assignment = nested(Assignment, default_factory=Assignment)
    is_classic: bool = boolean(default=False)


@struct
class TopologyDescriptionNode:
    name: str = string("1+", default="")
    node_type: int = int8("1+", default=0)
    source_topics: list[str] = array("string", "1+", default_factory=list, entity=Entity.TOPIC)
    sink_topic: str | None = string("1+", nullable="1+", default=None, entity=Entity.TOPIC)
    stores: list[str] = array("string", "1+", default_factory=list)
    successors: list[str] = array("string", "1+", default_factory=list)


@struct
class TopologyDescriptionSubtopology:
    subtopology_id: str = string("1+", default="")
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode, "1+", default_factory=list)


@struct
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode = nested(TopologyDescriptionNode, "1+", default_factory=TopologyDescriptionNode)
    processor: TopologyDescriptionNode = nested(TopologyDescriptionNode, "1+", default_factory=TopologyDescriptionNode)


@struct
class TopologyDescription:
    subtopologies: list[TopologyDescriptionSubtopology] = array(
        TopologyDescriptionSubtopology, "1+", default_factory=list
    )
    global_stores: list[TopologyDescriptionGlobalStore] = array(
        TopologyDescriptionGlobalStore, "1+", default_factory=list
    )


@struct
class DescribedGroup:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string(default="", entity=Entity.GROUP)
    group_state: str = string(default="")
    group_epoch: int = int32(default=0)
    assignment_epoch: int = int32(default=0)
    topology: Topology | None = nested(Topology, nullable="0+", default=None)
    members: list[Member] = array(Member, default_factory=list)
    authorized_operations: int = int32(default=-(2**31))
    topology_description: TopologyDescription | None = nested(TopologyDescription, "1+", nullable="1+", default=None)
    topology_description_status: int = int8("1+", default=0)
    assignor_name: str | None = string("1+", nullable="1+", default=None)


@message(API)
class StreamsGroupDescribeResponse:
    throttle_time_ms: int = int32(default=0)
    groups: list[DescribedGroup] = array(DescribedGroup, default_factory=list)

"""Keys and values of __consumer_offsets records: of classic, consumer (KIP-848), share (KIP-932) and streams (KIP-1071)
groups (group-coordinator/src/main/resources/common/message). Keys have one version: the number
before them in the log is their record type, see kafka_wire.offsets_log.
"""

from __future__ import annotations

from kafka_wire.schema import (
    ZERO_UUID,
    array,
    bytestring,
    int8,
    int16,
    int32,
    int64,
    message,
    nested,
    string,
    struct,
    uint16,
    uuid,
)


@message("0", api_key=1)
class OffsetCommitKey:
    group: str = string("0", default="")
    topic: str = string("0", default="")
    partition: int = int32("0", default=0)


@message("0-4", flexible="4+", api_key=1)
class OffsetCommitValue:
    offset: int = int64(default=0)
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string(default="")
    commit_timestamp: int = int64(default=0)
    expire_timestamp: int = int64("1", default=-1)
    topic_id: bytes = uuid("4+", tag=0, tagged="4+", default=ZERO_UUID)


@message("0", api_key=2)
class GroupMetadataKey:
    group: str = string("0", default="")


@struct
class MemberMetadata:
    member_id: str = string(default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string(default="")
    client_host: str = string(default="")
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32(default=0)
    subscription: bytes = bytestring(default=b"")
    assignment: bytes = bytestring(default=b"")


@message("0-4", flexible="4+", api_key=2)
class GroupMetadataValue:
    protocol_type: str = string(default="")
    generation: int = int32(default=0)
    protocol: str | None = string(nullable="0+", default="")
    leader: str | None = string(nullable="0+", default="")
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata, default_factory=list)


@message("0", api_key=3)
class ConsumerGroupMetadataKey:
    group_id: str = string("0", default="")


@message("0", flexible="0+", api_key=3)
class ConsumerGroupMetadataValue:
    epoch: int = int32(default=0)
    metadata_hash: int = int64(tag=0, tagged="0+", default=0)


@message("0", api_key=4)
class ConsumerGroupPartitionMetadataKey:
    group_id: str = string("0", default="")


@struct
class PartitionMetadata:
    partition: int = int32(default=0)
    racks: list[str] = array("string", default_factory=list)


@struct
class TopicMetadata:
    topic_id: bytes = uuid(default=ZERO_UUID)
    topic_name: str = string(default="")
    num_partitions: int = int32(default=0)
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata, default_factory=list)


@message("0", flexible="0+", api_key=4)
class ConsumerGroupPartitionMetadataValue:
    topics: list[TopicMetadata] = array(TopicMetadata, default_factory=list)


@message("0", api_key=5)
class ConsumerGroupMemberMetadataKey:
    group_id: str = string("0", default="")
    member_id: str = string("0", default="")


@struct
class ClassicProtocol:
    name: str = string(default="")
    metadata: bytes = bytestring(default=b"")


@struct
class ClassicMemberMetadata:
    session_timeout_ms: int = int32(default=0)
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, default_factory=list)


@message("0", flexible="0+", api_key=5)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = string(nullable="0+", default="")
    rack_id: str | None = string(nullable="0+", default="")
    client_id: str = string(default="")
    client_host: str = string(default="")
    subscribed_topic_names: list[str] = array("string", default_factory=list)
    subscribed_topic_regex: str | None = string(nullable="0+", default="")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+", default="")
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, nullable="0+", tag=0, tagged="0+", default_factory=ClassicMemberMetadata
    )


@message("0", api_key=6)
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = string("0", default="")


@message("0", flexible="0+", api_key=6)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32(default=0)
    assignment_timestamp: int = int64(tag=0, tagged="0+", default=0)


@message("0", api_key=7)
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = string("0", default="")
    member_id: str = string("0", default="")


@struct
class TopicPartition:
    topic_id: bytes = uuid(default=ZERO_UUID)
    partitions: list[int] = array("int32", default_factory=list)


@message("0", flexible="0+", api_key=7)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = array(TopicPartition, default_factory=list)


@message("0", api_key=8)
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = string("0", default="")
    member_id: str = string("0", default="")


@struct
class TopicPartitions:
    topic_id: bytes = uuid(default=ZERO_UUID)
    partitions: list[int] = array("int32", default_factory=list)
    assignment_epochs: list[int] | None = array("int32", nullable="0+", tag=0, tagged="0+", default_factory=list)


@message("0", flexible="0+", api_key=8)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32(default=0)
    previous_member_epoch: int = int32(default=0)
    state: int = int8(default=0)
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, default_factory=list)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions, default_factory=list)


@message("0", api_key=16)
class ConsumerGroupRegularExpressionKey:
    group_id: str = string("0", default="")
    regular_expression: str = string("0", default="")


@message("0", flexible="0+", api_key=16)
class ConsumerGroupRegularExpressionValue:
    topics: list[str] = array("string", default_factory=list)
    version: int = int64(default=0)
    timestamp: int = int64(default=0)


@message("0", api_key=10)
class ShareGroupMemberMetadataKey:
    group_id: str = string("0", default="")
    member_id: str = string("0", default="")


@message("0", flexible="0+", api_key=10)
class ShareGroupMemberMetadataValue:
    rack_id: str | None = string(nullable="0+", default="")
    client_id: str = string(default="")
    client_host: str = string(default="")
    subscribed_topic_names: list[str] = array("string", default_factory=list)


@message("0", api_key=11)
class ShareGroupMetadataKey:
    group_id: str = string("0", default="")


@message("0", flexible="0+", api_key=11)
class ShareGroupMetadataValue:
    epoch: int = int32(default=0)
    metadata_hash: int = int64(default=0)


@message("0", api_key=12)
class ShareGroupTargetAssignmentMetadataKey:
    group_id: str = string("0", default="")


@message("0", flexible="0+", api_key=12)
class ShareGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32(default=0)
    assignment_timestamp: int = int64(tag=0, tagged="0+", default=0)


@message("0", api_key=13)
class ShareGroupTargetAssignmentMemberKey:
    group_id: str = string("0", default="")
    member_id: str = string("0", default="")


@message("0", flexible="0+", api_key=13)
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = array(TopicPartition, default_factory=list)


@message("0", api_key=14)
class ShareGroupCurrentMemberAssignmentKey:
    group_id: str = string("0", default="")
    member_id: str = string("0", default="")


@struct
class ShareTopicPartitions:
    topic_id: bytes = uuid(default=ZERO_UUID)
    partitions: list[int] = array("int32", default_factory=list)


@message("0", flexible="0+", api_key=14)
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32(default=0)
    previous_member_epoch: int = int32(default=0)
    state: int = int8(default=0)
    assigned_partitions: list[ShareTopicPartitions] = array(ShareTopicPartitions, default_factory=list)


@message("0", api_key=15)
class ShareGroupStatePartitionMetadataKey:
    group_id: str = string("0", default="")


@struct
class TopicPartitionsInfo:
    topic_id: bytes = uuid(default=ZERO_UUID)
    topic_name: str = string(default="")
    partitions: list[int] = array("int32", default_factory=list)


@struct
class TopicInfo:
    topic_id: bytes = uuid(default=ZERO_UUID)
    topic_name: str = string(default="")


@message("0", flexible="0+", api_key=15)
class ShareGroupStatePartitionMetadataValue:
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, default_factory=list)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo, default_factory=list)
    deleting_topics: list[TopicInfo] = array(TopicInfo, default_factory=list)


@message("0", api_key=17)
class StreamsGroupMetadataKey:
    group_id: str = string("0", default="")


@struct
class LastAssignmentConfig:
    key: str = string(default="")
    value: str = string(default="")


@message("0", flexible="0+", api_key=17)
class StreamsGroupMetadataValue:
    epoch: int = int32(default=0)
    metadata_hash: int = int64(default=0)
    validated_topology_epoch: int = int32(tag=0, tagged="0+", default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, nullable="0+", tag=1, tagged="0+", default_factory=list
    )
    stored_description_topology_epoch: int = int32(tag=2, tagged="0+", default=-1)
    failed_description_topology_epoch: int = int32(tag=3, tagged="0+", default=-1)


@message("0", api_key=19)
class StreamsGroupMemberMetadataKey:
    group_id: str = string("0", default="")
    member_id: str = string("0", default="")


@struct
class Endpoint:
    host: str = string(default="")
    port: int = uint16(default=0)


@struct
class KeyValue:
    key: str = string(default="")
    value: str = string(default="")


@message("0", flexible="0+", api_key=19)
class StreamsGroupMemberMetadataValue:
    instance_id: str | None = string(nullable="0+", default="")
    rack_id: str | None = string(nullable="0+", default="")
    client_id: str = string(default="")
    client_host: str = string(default="")
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32(default=0)
    process_id: str = string(default="")
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue, default_factory=list)


@message("0", api_key=20)
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: str = string("0", default="")


@message("0", flexible="0+", api_key=20)
class StreamsGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32(default=0)
    assignment_timestamp: int = int64(tag=0, tagged="0+", default=0)


@message("0", api_key=21)
class StreamsGroupTargetAssignmentMemberKey:
    group_id: str = string("0", default="")
    member_id: str = string("0", default="")


@struct
class TargetTaskIds:
    subtopology_id: str = string(default="")
    partitions: list[int] = array("int32", default_factory=list)


@message("0", flexible="0+", api_key=21)
class StreamsGroupTargetAssignmentMemberValue:
    active_tasks: list[TargetTaskIds] = array(TargetTaskIds, default_factory=list)
    standby_tasks: list[TargetTaskIds] = array(TargetTaskIds, default_factory=list)
    warmup_tasks: list[TargetTaskIds] = array(TargetTaskIds, default_factory=list)


@message("0", api_key=22)
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: str = string("0", default="")
    member_id: str = string("0", default="")


@struct
class TaskIds:
    subtopology_id: str = string(default="")
    partitions: list[int] = array("int32", default_factory=list)
    assignment_epochs: list[int] | None = array("int32", nullable="0+", tag=0, tagged="0+", default_factory=list)


@message("0", flexible="0+", api_key=22)
class StreamsGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32(default=0)
    previous_member_epoch: int = int32(default=0)
    state: int = int8(default=0)
    active_tasks: list[TaskIds] = array(TaskIds, default_factory=list)
    standby_tasks: list[TaskIds] = array(TaskIds, default_factory=list)
    warmup_tasks: list[TaskIds] = array(TaskIds, default_factory=list)
    active_tasks_pending_revocation: list[TaskIds] = array(TaskIds, default_factory=list)
    standby_tasks_pending_revocation: list[TaskIds] = array(TaskIds, default_factory=list)
    warmup_tasks_pending_revocation: list[TaskIds] = array(TaskIds, default_factory=list)


@message("0", api_key=23)
class StreamsGroupTopologyKey:
    group_id: str = string("0", default="")


@struct
class TopicConfig:
    key: str = string(default="")
    value: str = string(default="")


@struct
class InternalTopicInfo:
    name: str = string(default="")
    partitions: int = int32(default=0)
    replication_factor: int = int16(default=0)
    topic_configs: list[TopicConfig] = array(TopicConfig, default_factory=list)


@struct
class CopartitionGroup:
    source_topics: list[int] = array("int16", default_factory=list)
    source_topic_regex: list[int] = array("int16", default_factory=list)
    repartition_source_topics: list[int] = array("int16", default_factory=list)


@struct
class Subtopology:
    subtopology_id: str = string(default="")
    source_topics: list[str] = array("string", default_factory=list)
    source_topic_regex: list[str] = array("string", default_factory=list)
    state_changelog_topics: list[InternalTopicInfo] = array(InternalTopicInfo, default_factory=list)
    repartition_sink_topics: list[str] = array("string", default_factory=list)
    repartition_source_topics: list[InternalTopicInfo] = array(InternalTopicInfo, default_factory=list)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup, default_factory=list)


@message("0", flexible="0+", api_key=23)
class StreamsGroupTopologyValue:
    epoch: int = int32(default=0)
    subtopologies: list[Subtopology] = array(Subtopology, default_factory=list)

"""Keys and values of __consumer_offsets records, classic and KIP-848 ones (group-
coordinator/src/main/resources/common/message). Keys have one version: what stands before them in the log is
their record type, see kafka_wire.offsets_log.
"""

from __future__ import annotations

from kafka_wire.schema import ZERO_UUID, array, bytestring, int8, int32, int64, message, nested, string, struct, uuid


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

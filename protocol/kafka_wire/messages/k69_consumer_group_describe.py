"""ConsumerGroupDescribe (69, KIP-848). What a consumer group is up to: its epochs, and what its members have and should have. v1 tells
which protocol a member speaks.
"""

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
    message,
    nested,
    string,
    struct,
    uuid,
)

API = Api(69, "0-1", flexible="0+", advertised={"3.8": "0-0", "4.0": "0-1"})


@message(API)
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = array("string", default_factory=list, entity=Entity.GROUP)
    include_authorized_operations: bool = boolean(default=False)


@struct
class TopicPartitions:
    topic_id: bytes = uuid(default=ZERO_UUID)
    topic_name: str = string(default="")
    partitions: list[int] = array("int32", default_factory=list)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, default_factory=list)


@struct
class Member:
    member_id: str = string(default="")
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32(default=0)
    client_id: str = string(default="")
    client_host: str = string(default="")
    subscribed_topic_names: list[str] = array("string", default_factory=list)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: Assignment = nested(Assignment, default_factory=Assignment)
    target_assignment: Assignment = nested(Assignment, default_factory=Assignment)
    member_type: int = int8("1+", default=-1)


@struct
class DescribedGroup:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string(default="", entity=Entity.GROUP)
    group_state: str = string(default="")
    group_epoch: int = int32(default=0)
    assignment_epoch: int = int32(default=0)
    assignor_name: str = string(default="")
    members: list[Member] = array(Member, default_factory=list)
    authorized_operations: int = int32(default=-2147483648)


@message(API)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = int32(default=0)
    groups: list[DescribedGroup] = array(DescribedGroup, default_factory=list)

"""ShareGroupDescribe (77, KIP-932). What a share group is up to: its epochs, and what its members have."""

from __future__ import annotations

from kafka_wire.schema import (
    ZERO_UUID,
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

API = Api(77, "1", flexible="0+", advertised={"4.1": "1"})


@message(API)
class ShareGroupDescribeRequest:
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
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32(default=0)
    client_id: str = string(default="")
    client_host: str = string(default="")
    subscribed_topic_names: list[str] = array("string", default_factory=list)
    assignment: Assignment = nested(Assignment, default_factory=Assignment)


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
class ShareGroupDescribeResponse:
    throttle_time_ms: int = int32(default=0)
    groups: list[DescribedGroup] = array(DescribedGroup, default_factory=list)

"""ConsumerGroupHeartbeat (68, KIP-848). How a member of the new kind joins, stays and leaves. v1 subscriptions by a pattern."""

from __future__ import annotations

from kafka_wire.schema import ZERO_UUID, Api, Entity, array, int16, int32, message, nested, string, struct, uuid

API = Api(68, "0-1", flexible="0+", advertised={"3.7": "0-0", "4.0": "0-1"})


@struct
class TopicPartitions:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[int] = array("int32", default_factory=list)


@message(API)
class ConsumerGroupHeartbeatRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    member_id: str = string(default="", entity=Entity.MEMBER)
    member_epoch: int = int32(default=0)
    instance_id: str | None = string(nullable="0+", default=None, entity=Entity.INSTANCE)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array("string", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+", default=None)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, default_factory=list)


@message(API)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32(default=0)
    heartbeat_interval_ms: int = int32(default=0)
    assignment: Assignment | None = nested(Assignment, nullable="0+", default=None)

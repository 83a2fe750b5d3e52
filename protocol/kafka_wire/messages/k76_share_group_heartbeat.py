"""ShareGroupHeartbeat (76, KIP-932). How a member of a share group joins, stays and leaves."""

from __future__ import annotations

from kafka_wire.schema import ZERO_UUID, Api, Entity, array, int16, int32, message, nested, string, struct, uuid

API = Api(76, "1", flexible="0+", advertised={"4.1": "1"})


@message(API)
class ShareGroupHeartbeatRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    member_id: str = string(default="", entity=Entity.MEMBER)
    member_epoch: int = int32(default=0)
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array("string", nullable="0+", default=None)


@struct
class TopicPartitions:
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    partitions: list[int] = array("int32", default_factory=list)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, default_factory=list)


@message(API)
class ShareGroupHeartbeatResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32(default=0)
    heartbeat_interval_ms: int = int32(default=0)
    assignment: Assignment | None = nested(Assignment, nullable="0+", default=None)

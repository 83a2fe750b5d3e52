"""CreatePartitions (37). Raise a topic's partition count (KIP-195)."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, boolean, int16, int32, message, string, struct

API = Api(37, "0-3", flexible="2+", advertised={"3.4": "0-3"})


@struct
class CreatePartitionsAssignment:
    broker_ids: list[int] = array("int32", default_factory=list)


@struct
class CreatePartitionsTopic:
    name: str = string(default="", entity=Entity.TOPIC)
    count: int = int32(default=0)
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable="0+", default_factory=list
    )


@message(API)
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, default_factory=list)
    timeout_ms: int = int32(default=0)
    validate_only: bool = boolean(default=False)


@struct
class CreatePartitionsTopicResult:
    name: str = string(default="", entity=Entity.TOPIC)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@message(API)
class CreatePartitionsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, default_factory=list)

"""DeleteTopics (20). Delete topics. v5 error messages; v6 by topic id."""

from __future__ import annotations

from kafka_wire.schema import ZERO_UUID, Api, Entity, array, int16, int32, message, string, struct, uuid

API = Api(20, "0-6", flexible="4+", advertised={"3.4": "0-6", "4.0": "1-6"})


@struct
class DeleteTopicState:
    name: str | None = string("6+", nullable="6+", default=None, entity=Entity.TOPIC)
    topic_id: bytes = uuid("6+", default=ZERO_UUID, entity=Entity.TOPIC_ID)


@message(API)
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+", default_factory=list)
    topic_names: list[str] = array("string", "0-5", default_factory=list, entity=Entity.TOPIC)
    timeout_ms: int = int32(default=0)


@struct
class DeletableTopicResult:
    name: str | None = string(nullable="6+", default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid("6+", default=ZERO_UUID, entity=Entity.TOPIC_ID)
    error_code: int = int16(default=0)
    error_message: str | None = string("5+", nullable="5+", default=None)


@message(API)
class DeleteTopicsResponse:
    throttle_time_ms: int = int32("1+", default=0)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, default_factory=list)

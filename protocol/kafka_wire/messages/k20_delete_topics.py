"""DeleteTopics (20). Delete topics. v5 error messages; v6 by topic id."""

from __future__ import annotations

from kafka_wire.schema import ZERO_UUID, array, int16, int32, message, string, struct, uuid


@struct
class DeleteTopicState:
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+", default=ZERO_UUID)


@message("0-6", flexible="4+", api_key=20)
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+", default_factory=list)
    topic_names: list[str] = array("string", "0-5", default_factory=list)
    timeout_ms: int = int32(default=0)


@struct
class DeletableTopicResult:
    name: str | None = string(nullable="6+", default="")
    topic_id: bytes = uuid("6+", default=ZERO_UUID)
    error_code: int = int16(default=0)
    error_message: str | None = string("5+", nullable="5+", default=None)


@message("0-6", flexible="4+", api_key=20)
class DeleteTopicsResponse:
    throttle_time_ms: int = int32("1+", default=0)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, default_factory=list)

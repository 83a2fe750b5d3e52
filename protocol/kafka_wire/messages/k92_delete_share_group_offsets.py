"""DeleteShareGroupOffsets (92, KIP-932). An empty share group forgets topics."""

from __future__ import annotations

from kafka_wire.schema import ERROR_TEXT, ZERO_UUID, Api, Entity, array, int16, int32, message, string, struct, uuid

API = Api(92, "0", flexible="0+", advertised={"4.1": "0"})


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str = string(default="", entity=Entity.TOPIC)


@message(API)
class DeleteShareGroupOffsetsRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic, default_factory=list)


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str = string(default="", entity=Entity.TOPIC)
    topic_id: bytes = uuid(default=ZERO_UUID, entity=Entity.TOPIC_ID)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@message(API)
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None, failed=ERROR_TEXT)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(
        DeleteShareGroupOffsetsResponseTopic, default_factory=list
    )

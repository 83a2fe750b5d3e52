"""DeleteGroups (42). Delete empty groups (KIP-229). v3 a text with an error."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, int16, int32, message, string, struct

API = Api(42, "0-3", flexible="2+", advertised={"3.4": "0-2", "4.4": "0-3"})


@message(API)
class DeleteGroupsRequest:
    groups_names: list[str] = array("string", default_factory=list, entity=Entity.GROUP)


@struct
class DeletableGroupResult:
    group_id: str = string(default="", entity=Entity.GROUP)
    error_code: int = int16(default=0)
    error_message: str | None = string("3+", nullable="3+", default=None)


@message(API)
class DeleteGroupsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[DeletableGroupResult] = array(DeletableGroupResult, default_factory=list)

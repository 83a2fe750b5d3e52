"""DeleteGroups (42). Delete empty groups (KIP-229)."""

from __future__ import annotations

from kafka_wire.schema import array, int16, int32, message, string, struct


@message("0-2", flexible="2+", api_key=42)
class DeleteGroupsRequest:
    groups_names: list[str] = array("string", default_factory=list)


@struct
class DeletableGroupResult:
    group_id: str = string(default="")
    error_code: int = int16(default=0)


@message("0-2", flexible="2+", api_key=42)
class DeleteGroupsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[DeletableGroupResult] = array(DeletableGroupResult, default_factory=list)

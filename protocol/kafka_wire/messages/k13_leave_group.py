"""LeaveGroup (13). Leave a group. v3 a batch of members (KIP-345); v5 reason (KIP-800)."""

from __future__ import annotations

from kafka_wire.schema import array, int16, int32, message, string, struct


@struct
class MemberIdentity:
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None)


@message("0-5", flexible="4+", api_key=13)
class LeaveGroupRequest:
    group_id: str = string(default="")
    member_id: str = string("0-2", default="")
    members: list[MemberIdentity] = array(MemberIdentity, "3+", default_factory=list)


@struct
class MemberResponse:
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default="")
    error_code: int = int16("3+", default=0)


@message("0-5", flexible="4+", api_key=13)
class LeaveGroupResponse:
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16(default=0)
    members: list[MemberResponse] = array(MemberResponse, "3+", default_factory=list)

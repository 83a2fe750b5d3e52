"""LeaveGroup (13). Leave a group. v3 a batch of members (KIP-345); v5 reason (KIP-800)."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, int16, int32, message, string, struct

API = Api(13, "0-5", flexible="4+", advertised={"3.4": "0-5"})


@struct
class MemberIdentity:
    member_id: str = string("3+", default="", entity=Entity.MEMBER)
    group_instance_id: str | None = string("3+", nullable="3+", default=None, entity=Entity.INSTANCE)
    reason: str | None = string("5+", nullable="5+", default=None)


@message(API)
class LeaveGroupRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    member_id: str = string("0-2", default="", entity=Entity.MEMBER)
    members: list[MemberIdentity] = array(MemberIdentity, "3+", default_factory=list)


@struct
class MemberResponse:
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default="")
    error_code: int = int16("3+", default=0)


@message(API)
class LeaveGroupResponse:
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16(default=0)
    members: list[MemberResponse] = array(MemberResponse, "3+", default_factory=list)

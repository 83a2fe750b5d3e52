"""SyncGroup (14). Hand out and receive assignments. v3 static members (KIP-345); v5 protocol type and name
(KIP-559).
"""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, bytestring, int16, int32, message, string, struct

API = Api(14, "0-5", flexible="4+", advertised={"3.4": "0-5"})


@struct
class SyncGroupRequestAssignment:
    member_id: str = string(default="")
    assignment: bytes = bytestring(default=b"", entity=Entity.ASSIGNMENT)


@message(API)
class SyncGroupRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    generation_id: int = int32(default=0)
    member_id: str = string(default="", entity=Entity.MEMBER)
    group_instance_id: str | None = string("3+", nullable="3+", default=None, entity=Entity.INSTANCE)
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment, default_factory=list)


@message(API)
class SyncGroupResponse:
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16(default=0)
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignment: bytes = bytestring(default=b"", entity=Entity.ASSIGNMENT)

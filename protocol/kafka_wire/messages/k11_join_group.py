"""JoinGroup (11). Join a group. v1 rebalance timeout; v4 member id required (KIP-394); v5 static members
(KIP-345); v7 protocol type; v8 reason (KIP-800); v9 skip_assignment (KIP-814).
"""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, boolean, bytestring, int16, int32, message, string, struct

API = Api(11, "0-9", flexible="6+", advertised={"3.4": "0-9", "4.0": "2-9", "4.1": "0-9"})


@struct
class JoinGroupRequestProtocol:
    name: str = string(default="")
    metadata: bytes = bytestring(default=b"", entity=Entity.SUBSCRIPTION)


@message(API)
class JoinGroupRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    session_timeout_ms: int = int32(default=0)
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string(default="", entity=Entity.MEMBER)
    group_instance_id: str | None = string("5+", nullable="5+", default=None, entity=Entity.INSTANCE)
    protocol_type: str = string(default="")
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, default_factory=list)
    reason: str | None = string("8+", nullable="8+", default=None)


@struct
class JoinGroupResponseMember:
    member_id: str = string(default="")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    metadata: bytes = bytestring(default=b"", entity=Entity.SUBSCRIPTION)


@message(API)
class JoinGroupResponse:
    throttle_time_ms: int = int32("2+", default=0)
    error_code: int = int16(default=0)
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None)
    protocol_name: str | None = string(nullable="7+", default="", failed=None)
    leader: str = string(default="")
    skip_assignment: bool = boolean("9+", default=False)
    member_id: str = string(default="")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, default_factory=list)

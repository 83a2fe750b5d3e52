"""DescribeGroups (15). State and members of groups. v3 authorized operations; v4 static members; v6
GROUP_ID_NOT_FOUND (KIP-1043).
"""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, boolean, bytestring, int16, int32, message, string, struct

API = Api(15, "0-6", flexible="5+", advertised={"3.4": "0-5", "4.0": "0-6"})


@message(API)
class DescribeGroupsRequest:
    groups: list[str] = array("string", default_factory=list, entity=Entity.GROUP)
    include_authorized_operations: bool = boolean("3+", default=False)


@struct
class DescribedGroupMember:
    member_id: str = string(default="")
    group_instance_id: str | None = string("4+", nullable="4+", default=None)
    client_id: str = string(default="")
    client_host: str = string(default="")
    member_metadata: bytes = bytestring(default=b"", entity=Entity.SUBSCRIPTION)
    member_assignment: bytes = bytestring(default=b"", entity=Entity.ASSIGNMENT)


@struct
class DescribedGroup:
    error_code: int = int16(default=0)
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string(default="", entity=Entity.GROUP)
    group_state: str = string(default="")
    protocol_type: str = string(default="")
    protocol_data: str = string(default="")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, default_factory=list)
    authorized_operations: int = int32("3+", default=-2147483648)


@message(API)
class DescribeGroupsResponse:
    throttle_time_ms: int = int32("1+", default=0)
    groups: list[DescribedGroup] = array(DescribedGroup, default_factory=list)

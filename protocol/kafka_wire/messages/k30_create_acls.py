"""CreateAcls (30). Add access rules (KIP-140); v1 has pattern types (KIP-290).

Types, operations and permissions are numbers of ResourceType, PatternType, AclOperation and AclPermissionType (clients).
"""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, int8, int16, int32, message, string, struct

API = Api(30, "0-3", flexible="2+", advertised={"3.4": "0-3", "4.0": "1-3"})


@struct
class AclCreation:
    resource_type: int = int8(default=0)
    resource_name: str = string(default="")
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string(default="")
    host: str = string(default="")
    operation: int = int8(default=0)
    permission_type: int = int8(default=0)


@message(API)
class CreateAclsRequest:
    creations: list[AclCreation] = array(AclCreation, default_factory=list, entity=Entity.ACL)


@struct
class AclCreationResult:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")


@message(API)
class CreateAclsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[AclCreationResult] = array(AclCreationResult, default_factory=list, entity=Entity.ACL)

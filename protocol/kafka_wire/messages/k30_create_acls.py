"""CreateAcls (30). Add access rules (KIP-140); v1 has pattern types (KIP-290).

Types, operations and permissions are numbers of ResourceType, PatternType, AclOperation and AclPermissionType (clients).
"""

from __future__ import annotations

from kafka_wire.schema import array, int8, int16, int32, message, string, struct


@struct
class AclCreation:
    resource_type: int = int8(default=0)
    resource_name: str = string(default="")
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string(default="")
    host: str = string(default="")
    operation: int = int8(default=0)
    permission_type: int = int8(default=0)


@message("0-3", flexible="2+", api_key=30)
class CreateAclsRequest:
    creations: list[AclCreation] = array(AclCreation, default_factory=list)


@struct
class AclCreationResult:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")


@message("0-3", flexible="2+", api_key=30)
class CreateAclsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[AclCreationResult] = array(AclCreationResult, default_factory=list)

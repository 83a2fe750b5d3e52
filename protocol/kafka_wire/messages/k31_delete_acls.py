"""DeleteAcls (31). Remove access rules that filters match (KIP-140); v1 has pattern types (KIP-290).

Types, operations and permissions are numbers of ResourceType, PatternType, AclOperation and AclPermissionType (clients).
"""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, int8, int16, int32, message, string, struct

API = Api(31, "0-3", flexible="2+", advertised={"3.4": "0-3", "4.0": "1-3"})


@struct
class DeleteAclsFilter:
    resource_type_filter: int = int8(default=0)
    resource_name_filter: str | None = string(nullable="0+", default="")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+", default="")
    host_filter: str | None = string(nullable="0+", default="")
    operation: int = int8(default=0)
    permission_type: int = int8(default=0)


@message(API)
class DeleteAclsRequest:
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter, default_factory=list, entity=Entity.ACL)


@struct
class DeleteAclsMatchingAcl:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    resource_type: int = int8(default=0)
    resource_name: str = string(default="")
    pattern_type: int = int8("1+", default=3)
    principal: str = string(default="")
    host: str = string(default="")
    operation: int = int8(default=0)
    permission_type: int = int8(default=0)


@struct
class DeleteAclsFilterResult:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl, default_factory=list)


@message(API)
class DeleteAclsResponse:
    throttle_time_ms: int = int32(default=0)
    filter_results: list[DeleteAclsFilterResult] = array(
        DeleteAclsFilterResult, default_factory=list, entity=Entity.ACL
    )

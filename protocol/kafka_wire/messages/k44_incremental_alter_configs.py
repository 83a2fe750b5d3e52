"""IncrementalAlterConfigs (44). Set, delete, append to or subtract from single configs (KIP-339)."""

from __future__ import annotations

from kafka_wire.schema import RESOURCE, Api, Entity, array, boolean, int8, int16, int32, message, string, struct

API = Api(44, "0-1", flexible="1+", advertised={"3.4": "0-1"})


@struct
class AlterableConfig:
    name: str = string(default="")
    config_operation: int = int8(default=0)
    value: str | None = string(nullable="0+", default="")


@struct
class AlterConfigsResource:
    resource_type: int = int8(default=0, entity=Entity.RESOURCE_TYPE)
    resource_name: str = string(default="", entity=RESOURCE)
    configs: list[AlterableConfig] = array(AlterableConfig, default_factory=list)


@message(API)
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = array(AlterConfigsResource, default_factory=list)
    validate_only: bool = boolean(default=False)


@struct
class AlterConfigsResourceResponse:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    resource_type: int = int8(default=0, entity=Entity.RESOURCE_TYPE)
    resource_name: str = string(default="", entity=RESOURCE)


@message(API)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, default_factory=list)

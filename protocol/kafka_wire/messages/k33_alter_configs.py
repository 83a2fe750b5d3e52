"""AlterConfigs (33). Replace a resource's configs (KIP-133); superseded by IncrementalAlterConfigs."""

from __future__ import annotations

from kafka_wire.schema import array, boolean, int8, int16, int32, message, string, struct


@struct
class AlterableConfig:
    name: str = string(default="")
    value: str | None = string(nullable="0+", default="")


@struct
class AlterConfigsResource:
    resource_type: int = int8(default=0)
    resource_name: str = string(default="")
    configs: list[AlterableConfig] = array(AlterableConfig, default_factory=list)


@message("0-2", flexible="2+", api_key=33)
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = array(AlterConfigsResource, default_factory=list)
    validate_only: bool = boolean(default=False)


@struct
class AlterConfigsResourceResponse:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    resource_type: int = int8(default=0)
    resource_name: str = string(default="")


@message("0-2", flexible="2+", api_key=33)
class AlterConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, default_factory=list)

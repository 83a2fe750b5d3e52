"""DescribeConfigs (32). Configs with their sources (KIP-133). v1 synonyms; v3 documentation and types."""

from __future__ import annotations

from kafka_wire.schema import (
    ERROR_TEXT,
    RESOURCE,
    Api,
    Entity,
    array,
    boolean,
    int8,
    int16,
    int32,
    message,
    string,
    struct,
)

API = Api(32, "0-4", flexible="4+", advertised={"3.4": "0-4", "4.0": "1-4"})


@struct
class DescribeConfigsResource:
    resource_type: int = int8(default=0, entity=Entity.RESOURCE_TYPE)
    resource_name: str = string(default="", entity=RESOURCE)
    configuration_keys: list[str] | None = array("string", nullable="0+", default_factory=list)


@message(API)
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource, default_factory=list)
    include_synonyms: bool = boolean("1+", default=False)
    include_documentation: bool = boolean("3+", default=False)


@struct
class DescribeConfigsSynonym:
    name: str = string("1+", default="")
    value: str | None = string("1+", nullable="0+", default="")
    source: int = int8("1+", default=0)


@struct
class DescribeConfigsResourceResult:
    name: str = string(default="")
    value: str | None = string(nullable="0+", default="")
    read_only: bool = boolean(default=False)
    is_default: bool = boolean("0", default=False)
    config_source: int = int8("1+", default=-1)
    is_sensitive: bool = boolean(default=False)
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", default_factory=list)
    config_type: int = int8("3+", default=0)
    documentation: str | None = string("3+", nullable="0+", default="")


@struct
class DescribeConfigsResult:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="", failed=ERROR_TEXT)
    resource_type: int = int8(default=0, entity=Entity.RESOURCE_TYPE)
    resource_name: str = string(default="", entity=RESOURCE)
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult, default_factory=list)


@message(API)
class DescribeConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult, default_factory=list)

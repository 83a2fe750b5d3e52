"""ListConfigResources (74). The names of what has settings. v0 client metrics subscriptions alone, as ListClientMetricsResources
(KIP-714); v1 all types of config resources (KIP-1142)."""

from __future__ import annotations

from kafka_wire.schema import Api, array, int8, int16, int32, message, string, struct

API = Api(74, "0-1", flexible="0+", advertised={"3.7": "0", "4.1": "0-1"})


@message(API)
class ListConfigResourcesRequest:
    resource_types: list[int] = array("int8", "1+", default_factory=list)


@struct
class ConfigResource:
    resource_name: str = string(default="")
    resource_type: int = int8("1+", default=16)


@message(API)
class ListConfigResourcesResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    config_resources: list[ConfigResource] = array(ConfigResource, default_factory=list)

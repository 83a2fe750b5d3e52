"""DescribeClientQuotas (48, KIP-546). List quotas of users, client ids and addresses that a filter matches."""

from __future__ import annotations

from kafka_wire.schema import Api, array, boolean, float64, int8, int16, int32, message, string, struct

API = Api(48, "0-1", flexible="1+", advertised={"3.4": "0-1"})


@struct
class ComponentData:
    entity_type: str = string(default="")
    match_type: int = int8(default=0)
    match: str | None = string(nullable="0+", default="")


@message(API)
class DescribeClientQuotasRequest:
    components: list[ComponentData] = array(ComponentData, default_factory=list)
    strict: bool = boolean(default=False)


@struct
class EntityData:
    entity_type: str = string(default="")
    entity_name: str | None = string(nullable="0+", default="")


@struct
class ValueData:
    key: str = string(default="")
    value: float = float64(default=0.0)


@struct
class EntryData:
    entity: list[EntityData] = array(EntityData, default_factory=list)
    values: list[ValueData] = array(ValueData, default_factory=list)


@message(API)
class DescribeClientQuotasResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    entries: list[EntryData] | None = array(EntryData, nullable="0+", default_factory=list, failed=None)

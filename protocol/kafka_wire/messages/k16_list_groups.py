"""ListGroups (16). Groups of one coordinator. v4 states (KIP-518); v5 types (KIP-848)."""

from __future__ import annotations

from kafka_wire.schema import Api, array, int16, int32, message, string, struct

API = Api(16, "0-5", flexible="3+", advertised={"3.4": "0-4", "3.8": "0-5"})


@message(API)
class ListGroupsRequest:
    states_filter: list[str] = array("string", "4+", default_factory=list)
    types_filter: list[str] = array("string", "5+", default_factory=list)


@struct
class ListedGroup:
    group_id: str = string(default="")
    protocol_type: str = string(default="")
    group_state: str = string("4+", default="")
    group_type: str = string("5+", default="")


@message(API)
class ListGroupsResponse:
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16(default=0)
    groups: list[ListedGroup] = array(ListedGroup, default_factory=list)

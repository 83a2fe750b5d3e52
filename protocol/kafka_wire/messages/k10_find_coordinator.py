"""FindCoordinator (10). The broker that coordinates a group or transactional id. v1 key types; v4 several keys
(KIP-699); v6 share groups.
"""

from __future__ import annotations

from kafka_wire.schema import array, int8, int16, int32, message, string, struct


@message("0-6", flexible="3+", api_key=10)
class FindCoordinatorRequest:
    key: str = string("0-3", default="")
    key_type: int = int8("1+", default=0)
    coordinator_keys: list[str] = array("string", "4+", default_factory=list)


@struct
class Coordinator:
    key: str = string("4+", default="")
    node_id: int = int32("4+", default=0)
    host: str = string("4+", default="")
    port: int = int32("4+", default=0)
    error_code: int = int16("4+", default=0)
    error_message: str | None = string("4+", nullable="4+", default="")


@message("0-6", flexible="3+", api_key=10)
class FindCoordinatorResponse:
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16("0-3", default=0)
    error_message: str | None = string("1-3", nullable="1-3", default="")
    node_id: int = int32("0-3", default=0)
    host: str = string("0-3", default="")
    port: int = int32("0-3", default=0)
    coordinators: list[Coordinator] = array(Coordinator, "4+", default_factory=list)

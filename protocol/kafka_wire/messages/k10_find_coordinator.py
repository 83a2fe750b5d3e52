"""FindCoordinator (10). The broker that coordinates a group or transactional id. v1 key types; v4 several keys
(KIP-699); v6 share groups.
"""

from __future__ import annotations

from kafka_wire.schema import COORDINATED, ERROR_TEXT, Api, array, int8, int16, int32, message, string, struct

API = Api(10, "0-6", flexible="3+", advertised={"3.4": "0-4", "3.8": "0-5", "3.9": "0-6"})


@message(API)
class FindCoordinatorRequest:
    key: str = string("0-3", default="", entity=COORDINATED)
    key_type: int = int8("1+", default=0)
    coordinator_keys: list[str] = array("string", "4+", default_factory=list, entity=COORDINATED)


@struct
class Coordinator:
    key: str = string("4+", default="", entity=COORDINATED)
    node_id: int = int32("4+", default=0, failed=-1)
    host: str = string("4+", default="")
    port: int = int32("4+", default=0, failed=-1)
    error_code: int = int16("4+", default=0)
    error_message: str | None = string("4+", nullable="4+", default="", failed=ERROR_TEXT)


@message(API)
class FindCoordinatorResponse:
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16("0-3", default=0)
    error_message: str | None = string("1-3", nullable="1-3", default="", failed=ERROR_TEXT)
    node_id: int = int32("0-3", default=0, failed=-1)
    host: str = string("0-3", default="")
    port: int = int32("0-3", default=0, failed=-1)
    coordinators: list[Coordinator] = array(Coordinator, "4+", default_factory=list)

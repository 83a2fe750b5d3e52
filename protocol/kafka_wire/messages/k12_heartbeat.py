"""Heartbeat (12). Keep a membership alive. v3 static members (KIP-345)."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, int16, int32, message, string

API = Api(12, "0-4", flexible="4+", advertised={"3.4": "0-4"})


@message(API)
class HeartbeatRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    generation_id: int = int32(default=0)
    member_id: str = string(default="", entity=Entity.MEMBER)
    group_instance_id: str | None = string("3+", nullable="3+", default=None, entity=Entity.INSTANCE)


@message(API)
class HeartbeatResponse:
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16(default=0)

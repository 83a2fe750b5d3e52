"""Heartbeat (12). Keep a membership alive. v3 static members (KIP-345)."""

from __future__ import annotations

from kafka_wire.schema import int16, int32, message, string


@message("0-4", flexible="4+", api_key=12)
class HeartbeatRequest:
    group_id: str = string(default="")
    generation_id: int = int32(default=0)
    member_id: str = string(default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@message("0-4", flexible="4+", api_key=12)
class HeartbeatResponse:
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16(default=0)

"""SaslAuthenticate (36). A token of the chosen mechanism (KIP-152); v1 tells how long the session lasts (KIP-368)."""

from __future__ import annotations

from kafka_wire.schema import Api, bytestring, int16, int64, message, string

API = Api(36, "0-2", flexible="2+", advertised={"3.4": "0-2"})


@message(API)
class SaslAuthenticateRequest:
    auth_bytes: bytes = bytestring(default=b"")


@message(API)
class SaslAuthenticateResponse:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    auth_bytes: bytes = bytestring(default=b"")
    session_lifetime_ms: int = int64("1+", default=0)

"""SaslHandshake (17). Choose a mechanism of authentication (KIP-43); since v1 tokens go in SaslAuthenticate (KIP-152)."""

from __future__ import annotations

from kafka_wire.schema import Api, array, int16, message, string

API = Api(17, "0-1", advertised={"3.4": "0-1"})


@message(API)
class SaslHandshakeRequest:
    mechanism: str = string(default="")


@message(API)
class SaslHandshakeResponse:
    error_code: int = int16(default=0)
    mechanisms: list[str] = array("string", default_factory=list)

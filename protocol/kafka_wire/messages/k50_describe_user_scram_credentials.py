"""DescribeUserScramCredentials (50, KIP-554). List users' SCRAM mechanisms and iterations; null or no users asks for all."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, int8, int16, int32, message, string, struct

SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""By their numbers in requests and responses (ScramMechanism)."""

API = Api(50, "0", flexible="0+", advertised={"3.5": "0-0"})


@struct
class UserName:
    name: str = string(default="", entity=Entity.USER)


@message(API)
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None = array(UserName, nullable="0+", default_factory=list)


@struct
class CredentialInfo:
    mechanism: int = int8(default=0)
    iterations: int = int32(default=0)


@struct
class DescribeUserScramCredentialsResult:
    user: str = string(default="", entity=Entity.USER)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    credential_infos: list[CredentialInfo] = array(CredentialInfo, default_factory=list)


@message(API)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult, default_factory=list)

"""AlterUserScramCredentials (51, KIP-554). Create, replace and delete users' SCRAM credentials.

The client salts the password: the broker learns the salted password, never the password itself (RFC 5802).
"""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, bytestring, int8, int16, int32, message, string, struct

API = Api(51, "0", flexible="0+", advertised={"3.5": "0-0"})


@struct
class ScramCredentialDeletion:
    name: str = string(default="", entity=Entity.USER)
    mechanism: int = int8(default=0)


@struct
class ScramCredentialUpsertion:
    name: str = string(default="", entity=Entity.USER)
    mechanism: int = int8(default=0)
    iterations: int = int32(default=0)
    salt: bytes = bytestring(default=b"")
    salted_password: bytes = bytestring(default=b"")


@message(API)
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion, default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion, default_factory=list)


@struct
class AlterUserScramCredentialsResult:
    user: str = string(default="", entity=Entity.USER)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")


@message(API)
class AlterUserScramCredentialsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult, default_factory=list)

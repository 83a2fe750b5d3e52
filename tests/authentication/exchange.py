"""A client's part of SASL over a raw connection, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_sim import Cluster
from broker_sim.authentication.client import client_tokens
from broker_sim.authentication.security import MECHANISMS
from kafka_wire.messages.k17_sasl_handshake import SaslHandshakeRequest
from kafka_wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tests.support.bearer_tokens import web_token
from tests.support.wire import Wire

ALICE = {"alice": "secret"}
ALL_MECHANISMS = {"sasl.enabled.mechanisms": ",".join(MECHANISMS)}


def secured(users: Mapping[str, str] = ALICE, config: Mapping[str, object] | None = None, **options: Any) -> Cluster:
    """A SASL_PLAINTEXT cluster whose clock stands still; failed authentications are answered at once unless ``config`` says when."""
    settings = {"connection.failed.authentication.delay.ms": 0, **(config or {})}
    return Cluster(security_protocol="SASL_PLAINTEXT", users=users, config=settings, clock="manual", **options)


async def handshake(wire: Wire, mechanism: str = "PLAIN", version: int = 1) -> Any:
    """The answer to SaslHandshake."""
    return await wire.send(SaslHandshakeRequest(mechanism), version)


async def token(wire: Wire, data: bytes, version: int = 2) -> SaslAuthenticateResponse:
    """The answer to one SaslAuthenticate."""
    answer: SaslAuthenticateResponse = await wire.send(SaslAuthenticateRequest(data), version)
    return answer


async def authenticate(
    wire: Wire, user: str = "alice", password: str = "secret", mechanism: str = "PLAIN", version: int = 2
) -> SaslAuthenticateResponse:
    """SaslHandshake and the whole exchange; the last answer, that of a failure included."""
    assert (await handshake(wire, mechanism)).error_code == 0
    tokens = client_tokens(mechanism, user, password)
    data = next(tokens)
    while True:
        answer = await token(wire, data, version)
        if answer.error_code:
            return answer
        try:
            data = tokens.send(answer.auth_bytes)
        except StopIteration:
            return answer


def jwt(claims: dict[str, Any], alg: str = "none", signature: str = "") -> str:
    """A JSON web token, unsecured by default."""
    return web_token({"alg": alg}, claims, signature)

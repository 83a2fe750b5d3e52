"""SaslHandshake (17), versions 0-1 (KIP-43, KIP-152): the mechanism that a client wants.

After version 0 tokens come without headers. A listener without SASL, and an authenticated connection whose session has no end, return
ILLEGAL_SASL_STATE without mechanisms, from which the client knows that its security.protocol does not fit. Sources:
KafkaApis.handleSaslHandshakeRequest, SaslServerAuthenticator.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from broker_sim.common.refusals import named
from broker_sim.common.text import short
from broker_sim.requests.context import InterceptedContext, RequestContext
from broker_sim.requests.error_response import after_failure_delay, refuse_client
from kafka_wire.errors import Err
from kafka_wire.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from broker_sim.authentication.authenticator import Authenticator

log = logging.getLogger("broker_sim")


def handle(ctx: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse | None:
    authenticator = ctx.connection.authenticator
    if authenticator is None:
        _report(ctx, request.mechanism)
        return SaslHandshakeResponse(error_code=Err.ILLEGAL_SASL_STATE)
    if not authenticator.may_handshake():
        return SaslHandshakeResponse(error_code=Err.ILLEGAL_SASL_STATE)
    mechanisms = list(authenticator.mechanisms)
    if not authenticator.handshake(request.mechanism):
        refused = SaslHandshakeResponse(error_code=Err.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
        enabled = ", ".join(mechanisms)
        refuse_client(
            ctx,
            None if authenticator.user else refused,  # Kafka does not answer one that authenticates again
            f"SASL mechanism {short(request.mechanism)} is not enabled (sasl.enabled.mechanisms: {enabled})",
        )
        return None
    if ctx.api_version == 0 and authenticator.expects_token:
        ctx.connection.read_tokens(partial(_token, authenticator), partial(after_failure_delay, ctx.broker.state))
    return SaslHandshakeResponse(mechanisms=mechanisms)


def _token(authenticator: Authenticator, token: bytes) -> bytes:
    return authenticator.authenticate(token)[0]


def _report(ctx: RequestContext, mechanism: str) -> None:
    """Warn of a client that closes its connection because of the answer, once each, and report every one to the tap."""
    protocol, endpoints = ctx.broker.protocol(ctx.connection.listener), ctx.broker.endpoints.items()
    others = [name for name, endpoint in endpoints if endpoint.protocol.startswith("SASL")]
    instead = f"the {others[0]} listener" if others else f"start the cluster with security_protocol SASL_{protocol}"
    reason = f"asks for SASL, mechanism {short(mechanism)}: the listener has none; use security.protocol={protocol}, or {instead}"
    if isinstance(ctx, InterceptedContext):
        ctx.tap.refused(ctx.connection, reason)
    if ctx.broker.state.warned_once.first("SaslHandshake", ctx.client_id, ctx.client_host):
        log.warning("%s (client id %s) %s", ctx.client_host, named(ctx.client_id), reason)

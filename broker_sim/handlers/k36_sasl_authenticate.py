"""SaslAuthenticate (36), versions 0-2: one token of the exchange that SaslHandshake has begun.

v1 has the milliseconds until the client has to authenticate again (KIP-368). A failure is answered after
connection.failed.authentication.delay.ms, and the connection is closed. Sources: SaslServerAuthenticator.handleSaslToken,
KafkaApis.handleSaslAuthenticateRequest.
"""

from __future__ import annotations

from broker_sim.requests.context import RequestContext
from broker_sim.requests.error_response import refuse_client
from kafka_wire.errors import Err
from kafka_wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(ctx: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse | None:
    authenticator = ctx.connection.authenticator
    if authenticator is None or not authenticator.expects_token:
        return SaslAuthenticateResponse(
            error_code=Err.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    from broker_sim.authentication import AuthenticationFailed, Unanswered

    try:
        answer, lifetime_ms = authenticator.authenticate(bytes(request.auth_bytes))
    except AuthenticationFailed as error:
        refused = SaslAuthenticateResponse(error_code=Err.SASL_AUTHENTICATION_FAILED, error_message=error.shown)
        refuse_client(ctx, None if isinstance(error, Unanswered) else refused, f"authentication failed: {error}")
        return None
    if lifetime_ms:
        ctx.connection.forget_repeats()
    return SaslAuthenticateResponse(error_message="", auth_bytes=answer, session_lifetime_ms=lifetime_ms)

"""SaslAuthenticate (36), versions 0-2: on a PLAINTEXT listener every client is authenticated already, which Kafka returns as an error.

Source: KafkaApis.handleSaslAuthenticateRequest.
"""

from __future__ import annotations

from broker_sim.handlers.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(ctx: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=Err.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )

"""SaslHandshake (17), versions 0-1: every listener is PLAINTEXT, for which Kafka returns ILLEGAL_SASL_STATE without mechanisms.

The client then reports that its security.protocol does not fit. Source: KafkaApis.handleSaslHandshakeRequest.
"""

from __future__ import annotations

import logging

from broker_sim.common.refusals import named
from broker_sim.common.text import short
from broker_sim.handlers.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

log = logging.getLogger("broker_sim")


def handle(ctx: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    if ctx.broker.state.warned_once.first("SaslHandshake", ctx.client_id, ctx.client_host):
        log.warning(
            "%s (client id %s) asks for SASL, mechanism %s: broker-sim has no SASL; use security.protocol=PLAINTEXT",
            ctx.client_host,
            named(ctx.client_id),
            short(request.mechanism),
        )
    return SaslHandshakeResponse(error_code=Err.ILLEGAL_SASL_STATE)

"""ConsumerGroupHeartbeat (68, KIP-848), versions 0-1: refused, as by a Kafka on which the new consumer protocol is off.

A client that was told ``group.protocol=consumer`` and finds the API missing looks for another coordinator for ever, without a word
(librdkafka 2.16). UNSUPPORTED_VERSION it takes as final, and its application is told. Source: KafkaApis.handleConsumerGroupHeartbeat.
"""

from __future__ import annotations

import logging

from broker_sim.common.text import short
from broker_sim.handlers.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

log = logging.getLogger("broker_sim.coordinator")


def handle(ctx: RequestContext, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    client = "none" if ctx.client_id is None else short(ctx.client_id)
    log.warning("client id %s, group %s: %s", client, short(request.group_id), _WORDS)
    told = _WORDS if ctx.broker.state.config.release >= _BY_DEFAULT else None
    return ConsumerGroupHeartbeatResponse(error_code=Err.UNSUPPORTED_VERSION, error_message=told)


_BY_DEFAULT = (4, 0)
"""The release from which on Kafka has the protocol unless it is switched off. Before, it is refused as it is here, without a word."""

_WORDS = "broker-sim has no consumer protocol of KIP-848: use group.protocol=classic"

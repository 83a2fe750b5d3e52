"""ConsumerGroupHeartbeat (68, KIP-848). With v1 members choose their own ids, and may subscribe by a regular expression.

Kafka before 4.0, and brokers whose ``group.coordinator.rebalance.protocols`` lacks ``consumer``, refuse it with UNSUPPORTED_VERSION. A
client with ``group.protocol=consumer`` that finds the API missing looks for another coordinator for ever, without a message (librdkafka
2.16); this error is fatal for it, and reported to its application. Source: KafkaApis.handleConsumerGroupHeartbeat.
"""

from __future__ import annotations

import logging
from functools import partial

from broker_sim.common.refusals import warn_of_group
from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.consumer.heartbeat import LongConsumerHeartbeat, Member, expecting
from broker_sim.coordinator.consumer.requests import check
from broker_sim.coordinator.epochs.expected import Expected
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.shard import Shard
from broker_sim.handlers.context import RequestContext
from broker_sim.handlers.groups import find_shard, with_names_in_order
from kafka_wire.errors import Err
from kafka_wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

log = logging.getLogger("broker_sim.coordinator")

_BY_DEFAULT = (4, 0)
"""The release from which on Kafka has the protocol unless it is switched off. Before, it is refused without a word."""

_WORDS = "The consumer protocol of KIP-848 is switched off: use group.protocol=classic"


@with_names_in_order(expecting)
def handle(
    ctx: RequestContext, request: ConsumerGroupHeartbeatRequest, expected: Expected[Member] | None
) -> ConsumerGroupHeartbeatResponse | None:
    """Whether there is such a protocol, the request's form, the coordinator check; then the group."""
    config = ctx.broker.state.config
    if not config.has_consumer_protocol:
        warn_of_group(ctx.broker.state.warned_once, log, ctx.client_id, request.group_id, _WORDS)
        text = _WORDS if config.release >= _BY_DEFAULT else None
        return ConsumerGroupHeartbeatResponse(error_code=Err.UNSUPPORTED_VERSION, error_message=text)
    runtime = ctx.broker.runtime
    try:
        check(request, ctx.api_version, runtime.settings)
    except Refused as refused:
        return ConsumerGroupHeartbeatResponse(error_code=refused.error, error_message=refused.words)
    shard = find_shard(ctx, request.group_id)
    if isinstance(shard, Err):
        return ConsumerGroupHeartbeatResponse(error_code=shard)
    before = _version(shard, request.group_id)

    def response(answer: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        group = shard.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and group.version == before and _repeats(group, request, answer):
            ctx.repeats = partial(runtime.unchanged, shard, request.group_id, request.member_id)
        return answer

    runtime.submit(shard, ctx, request if expected is None else LongConsumerHeartbeat(request, expected), response)
    return None


def _version(shard: Shard, group_id: str) -> int | None:
    group = shard.groups.get(group_id)
    return None if group is None else group.version


def _repeats(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, answer: ConsumerGroupHeartbeatResponse
) -> bool:
    """Whether the same heartbeat would be answered so again for as long as the group doesn't change. A join is not asked: each of them
    may be another client's."""
    return answer.error_code == Err.NONE and request.member_epoch > 0 and group.is_settled

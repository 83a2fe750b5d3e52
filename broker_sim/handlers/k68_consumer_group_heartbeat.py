"""ConsumerGroupHeartbeat (68, KIP-848). With v1 members choose their own ids, and may subscribe by a regular expression.

Kafka before 4.0, and brokers whose ``group.coordinator.rebalance.protocols`` lacks ``consumer``, refuse it with UNSUPPORTED_VERSION. A
client with ``group.protocol=consumer`` that finds the API missing looks for another coordinator for ever, without a message (librdkafka
2.16); this error is fatal for it, and reported to its application. Source: KafkaApis.handleConsumerGroupHeartbeat.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import suppress
from dataclasses import fields
from functools import partial
from operator import attrgetter

from broker_sim.common.refusals import warn_of_group
from broker_sim.coordinator.consumer.heartbeat import (
    LongConsumerHeartbeat,
    Member,
    expecting,
    is_plain,
    unchanged_answer,
    unchanged_interval_ms,
)
from broker_sim.coordinator.consumer.requests import check
from broker_sim.coordinator.epochs.expected import Expected
from broker_sim.coordinator.epochs.refused import Refused
from broker_sim.coordinator.regular_expressions import LONG, PatternError, compiling
from broker_sim.handlers.groups import find_shard, repeatable, with_names_in_order
from broker_sim.requests.context import RequestContext
from broker_sim.requests.repeated import Again, Repeated
from kafka_wire.codec import encode
from kafka_wire.errors import Err
from kafka_wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

log = logging.getLogger("broker_sim.coordinator")

_BY_DEFAULT = (4, 0)
"""The release from which on Kafka has the protocol unless it is switched off. Before, it is refused without a word."""

_WORDS = "The consumer protocol of KIP-848 is switched off: use group.protocol=classic"


def handle(ctx: RequestContext, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse | None:
    """Compile a long regular expression; then as `_handle`."""
    expression = request.subscribed_topic_regex
    if expression is None or len(expression) < LONG:
        return _handle(ctx, request)
    response: ConsumerGroupHeartbeatResponse | None = ctx.in_pieces(_compile_first(ctx, request, expression))
    return response


def _compile_first(
    ctx: RequestContext, request: ConsumerGroupHeartbeatRequest, expression: str
) -> Generator[None, None, ConsumerGroupHeartbeatResponse | None]:
    with suppress(PatternError):  # refused by the group, after its other checks
        yield from compiling(expression)
    yield
    return _handle(ctx, request)


@with_names_in_order(expecting)
def _handle(
    ctx: RequestContext, request: ConsumerGroupHeartbeatRequest, expected: Expected[Member] | None
) -> ConsumerGroupHeartbeatResponse | None:
    """Whether there is such a protocol, the request's form, the coordinator check; then the group."""
    config = ctx.broker.state.config
    if not config.has_consumer_protocol:
        warn_of_group(ctx.broker.state.warned_once, log, ctx.client_id, request.group_id, _WORDS)
        text = _WORDS if config.release >= _BY_DEFAULT else None
        return ConsumerGroupHeartbeatResponse(error_code=Err.UNSUPPORTED_VERSION, error_message=text)
    try:
        check(request, ctx.api_version, ctx.coordinators.groups.settings)
    except Refused as refused:
        return ConsumerGroupHeartbeatResponse(error_code=refused.error, error_message=refused.words)
    shard = find_shard(ctx, request.group_id)
    if isinstance(shard, Err):
        return ConsumerGroupHeartbeatResponse(error_code=shard)
    body = request if expected is None else LongConsumerHeartbeat(request, expected)
    ctx.coordinators.groups.submit(shard, ctx, body, repeatable(ctx, shard, request))
    return None


def _prepare(ctx: RequestContext, request: ConsumerGroupHeartbeatRequest) -> Again | None:
    shard, runtime, version = find_shard(ctx, request.group_id), ctx.coordinators.groups, ctx.api_version
    if isinstance(shard, Err) or request.member_epoch <= 0:
        return None
    client, group_id, member_id = ctx.client, request.group_id, request.member_id

    def handle_again(ctx: RequestContext, epoch: int) -> None:
        ctx.request = again = _with_epoch(request, epoch)
        if epoch > 0:
            runtime.submit(shard, ctx, again, repeatable(ctx, shard, again))
            return
        response: ConsumerGroupHeartbeatResponse | None = handle(ctx, again)  # it leaves, or joins with too little
        if response is not None:
            ctx.reply(response)

    last, encoded = (0, 0), b""  # epoch and interval of the last answer

    def at_once(epoch: int) -> bytes | None:
        nonlocal last, encoded
        interval_ms = runtime.heartbeat_at_once(
            shard, group_id, member_id, lambda group: unchanged_interval_ms(shard, group, client, request, epoch)
        )
        if interval_ms is None:
            return None
        if last != (epoch, interval_ms):
            last, encoded = (epoch, interval_ms), encode(unchanged_answer(member_id, epoch, interval_ms), version)
        return encoded

    unchanged = partial(runtime.unchanged, shard, group_id, member_id)
    return Again(handle_again, at_once if is_plain(request) else None, unchanged)


_fields_of = attrgetter(*(field.name for field in fields(ConsumerGroupHeartbeatRequest)))


def _with_epoch(request: ConsumerGroupHeartbeatRequest, epoch: int) -> ConsumerGroupHeartbeatRequest:
    """The same request with another member epoch, as `dataclasses.replace` makes it in ten times as long."""
    again = ConsumerGroupHeartbeatRequest(*_fields_of(request))
    again.member_epoch = epoch
    return again


REPEATED = Repeated(_prepare, ids=2)

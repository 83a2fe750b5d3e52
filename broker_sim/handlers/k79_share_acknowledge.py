"""ShareAcknowledge (79, KIP-932), versions 1 and 2. v2 may renew locks (KIP-1222), and returns their duration."""

from __future__ import annotations

from collections.abc import Generator

from broker_sim.common.slices import Pace
from broker_sim.coordinator.share_partition.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey
from broker_sim.handlers.share_acknowledging import Acknowledging, member_of, parts_of
from broker_sim.handlers.share_groups import MISDIRECTED, are_off, current_leaders
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err
from kafka_wire.messages.k79_share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

_PIECE = 1000
"""Partitions that are looked at before others are served."""


def handle(ctx: RequestContext, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse | None:
    """Whether there are share groups, the session; then each partition's acknowledgements."""
    response: ShareAcknowledgeResponse | None = ctx.in_pieces(_acknowledge(ctx, request))
    return response


def _acknowledge(
    ctx: RequestContext, request: ShareAcknowledgeRequest
) -> Generator[None, None, ShareAcknowledgeResponse | None]:
    group_id = request.group_id or ""
    if are_off(ctx, group_id):
        return ShareAcknowledgeResponse(error_code=Err.UNSUPPORTED_VERSION)
    member = member_of(ctx, request.group_id, request.member_id)
    if isinstance(member, Err):
        return ShareAcknowledgeResponse(error_code=member)
    shares = ctx.coordinators.shares
    if request.share_session_epoch == INITIAL_EPOCH:
        return ShareAcknowledgeResponse(error_code=Err.INVALID_SHARE_SESSION_EPOCH)
    session = shares.sessions(ctx.broker).resume(SessionKey(group_id, member), request.share_session_epoch)
    if isinstance(session, Err):
        return ShareAcknowledgeResponse(error_code=session)
    acknowledging = Acknowledging(ctx, group_id, member, renews=request.is_renew_ack and shares.renews(group_id))
    parts = yield from parts_of(request.topics, Pace(_PIECE))
    yield from acknowledging.adding(parts)
    if acknowledging.failed:
        acknowledging.store()
        return ShareAcknowledgeResponse(error_code=Err.UNKNOWN_SERVER_ERROR)

    def finished() -> None:
        if request.share_session_epoch == FINAL_EPOCH:
            shares.end_session(ctx.broker, session)
        misdirected = [at for at, answer in acknowledging.answers.items() if answer.error in MISDIRECTED]
        leaders, nodes = current_leaders(ctx, misdirected)
        topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
        for at, answer in acknowledging.answers.items():
            row = PartitionData(at.partition, answer.error, answer.words)
            topics.setdefault(at.topic_id, ShareAcknowledgeTopicResponse(at.topic_id)).partitions.append(row)
            leader = leaders.get(at)
            if leader is not None:
                row.current_leader = LeaderIdAndEpoch(leader.leader, leader.leader_epoch)
        ctx.reply(
            ShareAcknowledgeResponse(
                acquisition_lock_timeout_ms=shares.lock_ms(group_id),
                responses=list(topics.values()),
                node_endpoints=[NodeEndpoint(*node.endpoint(ctx.connection.listener)) for node in nodes],
            )
        )

    acknowledging.then(finished)
    return None

"""Common parts of the handlers of share groups' APIs."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker_sim.common.refusals import warn_of_group
from broker_sim.coordinator.share_partition.sessions import TopicPartition
from broker_sim.metadata.cluster_state import Broker, Partition
from broker_sim.requests.context import RequestContext
from kafka_wire.errors import Err

log = logging.getLogger("broker_sim.coordinator")

_WORDS = (
    "share groups are switched off: in 4.1, where they are a preview, set group.coordinator.rebalance.protocols to "
    "classic,consumer,share"
)

NO_SUCH_VERSION = "The version of API is not supported."
"""The message of the two requests that change a share group's offsets on a broker without share groups; others get the error alone."""


MISDIRECTED = (Err.NOT_LEADER_OR_FOLLOWER, Err.FENCED_LEADER_EPOCH)
"""Errors that come with the current leader."""


def are_off(ctx: RequestContext, group_id: str | None) -> bool:
    """Whether this broker has no share groups; that is logged, as clients get UNSUPPORTED_VERSION without a message."""
    if ctx.broker.state.config.has_share_groups:
        return False
    warn_of_group(ctx.broker.state.warned_once, log, ctx.client_id, group_id, _WORDS)
    return True


def current_leaders(
    ctx: RequestContext, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, Partition], list[Broker]]:
    """The current leaders of the requested partitions that this broker does not lead, with their endpoints (KIP-951)."""
    state, led_elsewhere = ctx.broker.state, {}
    for at in partitions:
        topic = state.topics_by_id.get(at.topic_id)
        if topic is not None and 0 <= at.partition < len(topic.partitions):
            partition = topic.partitions[at.partition]
            if partition.leader != ctx.broker.node_id:
                led_elsewhere[at] = partition
    leaders = dict.fromkeys(partition.leader for partition in led_elsewhere.values())
    return led_elsewhere, [state.brokers[node] for node in leaders if node in state.brokers]

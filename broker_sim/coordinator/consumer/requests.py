"""Checks of a ConsumerGroupHeartbeat's fields, before its group is looked up.

Source: GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid (4.x), with its order and messages.
"""

from __future__ import annotations

from broker_sim.coordinator.epochs.reconcile import LEFT, LEFT_TEMPORARILY
from broker_sim.coordinator.epochs.refused import Refused, is_not_blank, need
from broker_sim.coordinator.policy import Settings
from broker_sim.coordinator.state import ShardState
from kafka_wire.errors import Err
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.uuids import uuid_text

MEMBER_NAMES_ITSELF_SINCE = 1  # version from which on a member brings its id (KIP-1082)


def check(request: ConsumerGroupHeartbeatRequest, version: int, settings: Settings) -> None:
    """Raises Refused for a request that no group would take."""
    epoch = request.member_epoch
    if version >= MEMBER_NAMES_ITSELF_SINCE or epoch > 0 or epoch == LEFT:
        need(is_not_blank(request.member_id), "MemberId can't be empty.")
    need(is_not_blank(request.group_id), "GroupId can't be empty.")
    need(is_not_blank(request.instance_id), "InstanceId can't be empty.")
    need(is_not_blank(request.rack_id), "RackId can't be empty.")
    if epoch > 0 or epoch == LEFT:
        pass
    elif epoch == 0:
        need(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        need(request.topic_partitions == [], "TopicPartitions must be empty when (re-)joining.")
        need(
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
    elif epoch == LEFT_TEMPORARILY:
        need(request.instance_id is not None, "InstanceId can't be null.")
    else:
        need(False, "MemberEpoch is invalid.")
    assignors = settings.consumer.assignors
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise Refused(
            Err.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def new_member_id(shard: ShardState) -> str:
    """The id of a member that brings none, as Kafka's Uuid is written: in 22 letters, none of which a dash begins."""
    while True:
        number = bytes.fromhex(shard.new_id().replace("-", ""))
        text = uuid_text(number)
        if not text.startswith("-"):
            return text

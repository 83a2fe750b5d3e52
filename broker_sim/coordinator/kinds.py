"""The kinds of epoch-based groups. A kind that is in this list is made from its records, live and at a load; its handlers are in
``shard``."""

from __future__ import annotations

from typing import Any

from broker_sim.coordinator.consumer.group import ConsumerGroup
from broker_sim.coordinator.epochs.group import EpochGroup
from broker_sim.coordinator.policy import Policy
from broker_sim.coordinator.share.group import ShareGroup
from broker_sim.coordinator.streams.group import StreamsGroup

EPOCH_KINDS: tuple[type[EpochGroup[Any]], ...] = (ConsumerGroup, ShareGroup, StreamsGroup)

KIND_OF_RECORD = {record_type: kind for kind in EPOCH_KINDS for record_type in kind.record_types}


def readable_types(policy: Policy) -> frozenset[int]:
    """The types of epoch-based groups' records that a release reads."""
    return frozenset(record_type for record_type, kind in KIND_OF_RECORD.items() if kind.is_read(policy))

"""The states of a classic group, by the names that DescribeGroups and ListGroups have for them (org.apache.kafka.common.GroupState)."""

from __future__ import annotations

import enum

__all__ = ["EPOCH_GROUP_STATES", "GROUP_STATES", "GroupState"]


class GroupState(enum.Enum):
    """Wire names of the states of a classic group."""

    __hash__ = (
        object.__hash__
    )  # Enum's is written in Python, and the coordinator's tables are looked into at every request

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


for (
    _state
) in GroupState:  # Python 3.11 finds a member through a descriptor written in Python, which costs as much as a call
    type.__setattr__(GroupState, _state.name, _state)

GROUP_STATES = tuple(state.value for state in GroupState)
"""Names of the states of a classic group, in the order of a group's life."""

EPOCH_GROUP_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
"""The states of an epoch-based group (KIP-848)."""

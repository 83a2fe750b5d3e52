"""Input and output of the assignors."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from broker_sim.coordinator.epochs.holdings import Units

Assigned = dict[str, Units[Hashable]]
"""Member id -> what it should have; a member that gets nothing need not be in it."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """``partitions``: topic -> its number of partitions, in the order in which topics are assigned. ``members``: member id -> the
    existing topics that it subscribes to, in the order in which members are served. ``targets``: their last target assignments, which
    sticky assignors keep; only of present members. ``instances``: member id -> instance id of the static members."""

    partitions: Mapping[Hashable, int]
    members: Mapping[str, frozenset[Hashable]]
    targets: Mapping[str, Units[Hashable]]
    instances: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members read the same topics."""
        return len(set(self.members.values())) <= 1

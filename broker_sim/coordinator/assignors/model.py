"""What an assignor is given, and what it answers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from broker_sim.coordinator.epochs.holdings import Units

Assigned = dict[str, Units[Hashable]]
"""Member id -> what it should have; a member that gets nothing need not be in it."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """``partitions``: topic -> how many it has, in the order in which topics are shared out. ``members``: member id -> the topics that
    it reads, all of which exist; in the order in which members are served. ``targets``: what they should have had until now, which
    assignors stick to; of nobody who has left. ``instances``: member id -> its instance id, of the static ones."""

    partitions: Mapping[Hashable, int]
    members: Mapping[str, frozenset[Hashable]]
    targets: Mapping[str, Units[Hashable]]
    instances: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members read the same topics."""
        return len(set(self.members.values())) <= 1

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
    sticky assignors keep; only of present members. ``is_homogeneous``: whether all of them subscribe alike, as the coordinator says:
    members that name a missing topic, or have an expression that matches what others name, don't. ``instances``: member id ->
    instance id of the static members."""

    partitions: Mapping[Hashable, int]
    members: Mapping[str, frozenset[Hashable]]
    targets: Mapping[str, Units[Hashable]]
    is_homogeneous: bool
    instances: Mapping[str, str] = field(default_factory=dict)

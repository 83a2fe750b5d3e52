"""A cluster that is watched: its journal, and what stands at its seams - rules for requests, their order, states of logs.

Rules:
1. Nothing of this is loaded or paid for before somebody asks: until then requests take their shortest way.
2. What is in force ends with the cluster. The journal can be read after that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker_sim.faults.conditions import Conditions
    from broker_sim.faults.order import Order
    from broker_sim.faults.registry import Faults
    from broker_sim.faults.tap import RequestTap
    from broker_sim.journal import Journal
    from broker_sim.metadata.cluster_state import ClusterState, Partition
    from broker_sim.network.server import BrokerServer
    from broker_sim.runtime.group_coordinator import GroupCoordinator

__all__ = ["Observation"]


class Observation:
    """What a `cluster.Cluster` has for this. ``rng_for`` gives the generator of one kind of chance, None for the system's."""

    def __init__(self, rng_for: Callable[[str], random.Random | None]) -> None:
        self._rng_for = rng_for
        self.journal: Journal | None = None
        """It outlives the cluster; all else is there while it runs."""
        self.tap: RequestTap | None = None
        self.faults: Faults | None = None
        self.order: Order | None = None
        self.conditions: Conditions | None = None

    def begin(
        self,
        state: ClusterState,
        servers: Sequence[BrokerServer],
        journal: Journal,
        host_of: Callable[[str], str | None],
    ) -> None:
        """Watch from now on, into ``journal``. ``host_of``: the name of a client's host by its address, where hosts have names."""
        from broker_sim.faults.order import Order
        from broker_sim.faults.registry import Faults
        from broker_sim.faults.tap import RequestTap

        self.journal = journal
        as_version, rng = state.as_version, self._rng_for("faults") or random.Random()
        self.faults = Faults(state.clock, rng, journal, as_version=as_version, brokers=lambda: list(state.brokers))
        self.order = Order(journal, as_version=as_version, brokers=lambda: list(state.brokers))
        self.tap = RequestTap(state, state.clock, journal, self.faults, self.order)
        self.tap.host_of = host_of
        for server in servers:
            server.tap = self.tap
        state.on_election.append(self._elected)

    def watch(self, runtime: GroupCoordinator) -> None:
        """Write down what becomes of groups, too."""
        from broker_sim.runtime.journal_observer import GroupWatch

        assert self.journal is not None
        runtime.observe(GroupWatch(self.journal))

    def states(self, state: ClusterState, runtime: Callable[[], GroupCoordinator]) -> Conditions:
        """The states that logs are in."""
        if self.conditions is None:
            from broker_sim.faults.conditions import Conditions

            rng = self._rng_for("states") or random.Random()
            self.conditions = Conditions(state, runtime, rng, self.journal)
        return self.conditions

    def write(self, event: str, **fields: Any) -> None:
        """Note what has happened, if anybody watches."""
        if self.journal is not None and self.tap is not None:
            self.journal.write(event, **fields)

    def _elected(self, partition: Partition, reason: str) -> None:
        self.write(
            "leader", log=partition.name, leader=partition.leader, epoch=partition.leader_epoch, reason=reason or "set"
        )

    def forget(self) -> Conditions | None:
        """Nothing is in force any more; returns the states that logs were in. The journal stays."""
        conditions = self.conditions
        self.conditions = self.tap = self.faults = self.order = None
        return conditions

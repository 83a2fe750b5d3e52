"""The observation of a cluster: its journal, and the parts at its seams - rules for requests, their order, fault states of logs.

Rules:
1. Nothing of this is loaded before its first use: until then requests take their fast path.
2. What is in force ends with the cluster. The journal can be read after that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker_sim.common.chance import Chance
    from broker_sim.faults.conditions import CoordinatorsOf, PartitionFaults
    from broker_sim.faults.order import Order
    from broker_sim.faults.registry import Faults
    from broker_sim.faults.tap import RequestInterceptor
    from broker_sim.journal import Journal
    from broker_sim.metadata.cluster_state import ClusterState, Partition
    from broker_sim.metadata.topics import LostRecords
    from broker_sim.network.server import BrokerServer
    from broker_sim.runtime.coordinators import Coordinators
    from broker_sim.runtime.group_coordinator import GroupCoordinator
    from broker_sim.runtime.share_partitions import SharePartitions
    from broker_sim.runtime.transaction_coordinator import TransactionCoordinator

__all__ = ["Observation"]


class Observation:
    """Journal, tap and faults of a `cluster.Cluster`. ``chance_of`` gives one kind of chance."""

    def __init__(self, chance_of: Callable[[str], Chance]) -> None:
        self._chance_of = chance_of
        self.journal: Journal | None = None
        """The journal, which outlives the cluster; the other parts exist while it runs."""
        self.tap: RequestInterceptor | None = None
        self.faults: Faults | None = None
        self.order: Order | None = None
        self.conditions: PartitionFaults | None = None

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
        from broker_sim.faults.tap import RequestInterceptor
        from broker_sim.runtime.topic_observer import TopicObserver
        from broker_sim.runtime.transaction_observer import StableOffsetObserver

        self.journal = journal
        journal.describe = partial(_recent_history, journal)
        as_version, chance = state.as_version, self._chance_of("faults")
        self.faults = Faults(state.clock, chance, journal, as_version=as_version, brokers=lambda: list(state.brokers))
        self.order = Order(journal, as_version=as_version, brokers=lambda: list(state.brokers))
        self.tap = RequestInterceptor(state, state.clock, journal, self.faults, self.order)
        self.tap.host_of = host_of
        for server in servers:
            server.tap = self.tap
        state.on_election.append(self._elected)
        state.on_loss.append(self._lost)
        StableOffsetObserver(journal, state)
        TopicObserver(journal, state, lambda: {} if self.tap is None else self.tap.handled)

    def watch_made(self, coordinators: Coordinators) -> None:
        """Watch the coordinators that have been made; the others are watched when they are."""
        if coordinators.made_groups is not None:
            self.watch(coordinators.made_groups)
        if coordinators.made_transactions is not None:
            self.watch_transactions(coordinators.made_transactions)
        if coordinators.made_shares is not None:
            self.watch_shares(coordinators.made_shares)

    def watch(self, runtime: GroupCoordinator) -> None:
        """Write down what becomes of groups, too, as long as requests are observed."""
        if self.tap is None or self.journal is None:
            return
        from broker_sim.runtime.journal_observer import GroupObserver

        runtime.observe(GroupObserver(self.journal))

    def watch_transactions(self, runtime: TransactionCoordinator) -> None:
        """As `watch`, of transactions."""
        if self.tap is None or self.journal is None:
            return
        from broker_sim.runtime.transaction_observer import TransactionObserver

        runtime.observe(TransactionObserver(self.journal))

    def watch_shares(self, shares: SharePartitions) -> None:
        """As `watch`, of share groups' records."""
        if self.tap is None or self.journal is None:
            return
        from broker_sim.runtime.share_observer import ShareObserver

        shares.observe(ShareObserver(self.journal, ids_are_uuids=shares.state.config.release < (4, 2)))

    def states(self, state: ClusterState, coordinators_of: CoordinatorsOf) -> PartitionFaults:
        """The states of the logs."""
        if self.conditions is None:
            from broker_sim.faults.conditions import PartitionFaults

            self.conditions = PartitionFaults(state, coordinators_of, self._chance_of("states"), self.journal)
        return self.conditions

    def write(self, event: str, **fields: Any) -> None:
        """Note what has happened, if anybody watches."""
        if self.journal is not None and self.tap is not None:
            self.journal.write(event, **fields)

    def _elected(self, partition: Partition, reason: str) -> None:
        self.write(
            "leader", log=partition.name, leader=partition.leader, epoch=partition.leader_epoch, reason=reason or "set"
        )

    def _lost(self, partition: Partition, lost: LostRecords) -> None:
        self.write("data_loss", log=partition.name, **lost._asdict())

    def forget(self) -> PartitionFaults | None:
        """Nothing is in force any more; returns the states that logs were in. The journal stays."""
        conditions = self.conditions
        self.conditions = self.tap = self.faults = self.order = None
        return conditions


def _recent_history(journal: Journal, group: str | None) -> str:
    """The recent history of the group, or the journal's last events if ``group`` is None, of the part of the journal that is described:
    for the text of a WaitTimeout."""
    from broker_sim.explain.parts import events_after

    events = events_after(journal.events, journal.described_since)
    if group is None:
        from broker_sim.explain.refused_clients import refused_lines

        refused = (f"  {line}" for line in refused_lines(events))
        return "\n".join(filter(None, [*refused, journal.last_events()]))
    from broker_sim.explain import recent

    return recent(events, group)

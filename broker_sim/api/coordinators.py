"""The coordinators of a cluster's brokers, by what they coordinate: groups, transactions, and what share groups have made of
partitions.

Each kind is created at its first request: they are a third of the time of a start. One whose internal topic is there already is
made at the start, as there are groups to load and transactions to end.

Kafka creates an internal topic at the first FindCoordinator that needs it, which it answers COORDINATOR_NOT_AVAILABLE, and clients ask
again: librdkafka after a second, aiokafka with an error in its log. A real cluster does so once in its life, a cluster of a test would
do so in each test: ``open_internal_topics`` creates them at the start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from broker_sim.metadata.cluster_state import OFFSETS_TOPIC, ClusterState, Partition
from broker_sim.metadata.topics import SHARE_STATE_TOPIC, TRANSACTION_TOPIC

if TYPE_CHECKING:
    from broker_sim.common.chance import Chance
    from broker_sim.runtime.coordinator_runtime import CoordinatorRuntime
    from broker_sim.runtime.group_coordinator import GroupCoordinator
    from broker_sim.runtime.share_partitions import SharePartitions
    from broker_sim.runtime.share_state_coordinator import Persister, ShareStateCoordinator
    from broker_sim.runtime.transaction_coordinator import TransactionCoordinator

__all__ = ["Coordinators", "open_internal_topics"]

log = logging.getLogger("broker_sim")


class Coordinators:
    """Those of one run of a cluster. ``chance`` gives the random part of member ids; ``prepare`` is called with the group coordinators
    before they load, ``prepare_transactions`` with those of transactions, ``prepare_shares`` with what share groups have."""

    def __init__(
        self,
        state: ClusterState,
        chance: Chance,
        prepare: Callable[[GroupCoordinator], object],
        prepare_transactions: Callable[[TransactionCoordinator], object],
        prepare_shares: Callable[[SharePartitions], object],
    ) -> None:
        self._state, self._chance = state, chance
        self._prepare, self._prepare_transactions = prepare, prepare_transactions
        self._prepare_shares = prepare_shares
        self.made_groups: GroupCoordinator | None = None
        """Group coordinators; None until they are needed."""
        self.made_transactions: TransactionCoordinator | None = None
        """Transaction coordinators; None until they are needed."""
        self.made_share_states: ShareStateCoordinator | None = None
        """Share coordinators (__share_group_state); None until they are needed."""
        self.made_shares: SharePartitions | None = None
        """Share partitions at their leaders; None until they are needed."""
        for broker in state.brokers.values():
            broker.runtime = cast("GroupCoordinator", _ToBe(lambda: self.groups))
            broker.transactions = cast("TransactionCoordinator", _ToBe(lambda: self.transactions))
            broker.share_states = cast("ShareStateCoordinator", _ToBe(lambda: self.share_states))
            broker.shares = cast("SharePartitions", _ToBe(lambda: self.shares))

    def load(self) -> None:
        """Make those that have something to load."""
        if SHARE_STATE_TOPIC in self._state.topics:
            assert self.share_states
        if OFFSETS_TOPIC in self._state.topics:
            assert self.groups
        if TRANSACTION_TOPIC in self._state.topics:
            assert self.transactions

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinators, made at the first call."""
        if self.made_groups is None:
            from broker_sim.runtime.group_coordinator import GroupCoordinator

            state = self._state
            made = self.made_groups = GroupCoordinator(state, chance=self._chance, persister=self._persister)
            state.on_topics_changed.append(made.topics_changed)
            state.on_group_configured.append(made.group_configured)
            self._follow_leaders(made)
            for broker in state.brokers.values():
                broker.runtime = made
            self._prepare(made)
            made.start()
        return self.made_groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinators, made at the first call."""
        if self.made_transactions is None:
            from broker_sim.runtime.transaction_coordinator import TransactionCoordinator

            made = self.made_transactions = TransactionCoordinator(self._state)
            self._follow_leaders(made)
            for broker in self._state.brokers.values():
                broker.transactions = made
            self._prepare_transactions(made)
            made.start()
        return self.made_transactions

    @property
    def share_states(self) -> ShareStateCoordinator:
        """The share coordinators, made at the first call."""
        if self.made_share_states is None:
            from broker_sim.runtime.share_state_coordinator import ShareStateCoordinator

            state = self._state
            made = self.made_share_states = ShareStateCoordinator(state)
            state.on_topics_changed.append(made.topics_changed)
            self._follow_leaders(made)
            for broker in state.brokers.values():
                broker.share_states = made
            made.start()
        return self.made_share_states

    @property
    def shares(self) -> SharePartitions:
        """What share groups have of partitions, made at the first call."""
        if self.made_shares is None:
            from broker_sim.runtime.share_partitions import SharePartitions

            made = self.made_shares = SharePartitions(self._state, self.share_states.persister)
            for broker in self._state.brokers.values():
                broker.shares = made
            self._prepare_shares(made)
        return self.made_shares

    def _persister(self) -> Persister:
        return self.share_states.persister

    def of(self, partition: Partition) -> CoordinatorRuntime[Any] | None:
        """Those that keep their state in a partition's topic."""
        if partition.topic.name == OFFSETS_TOPIC:
            return self.groups
        if partition.topic.name == SHARE_STATE_TOPIC:
            return self.share_states
        return self.transactions if partition.topic.name == TRANSACTION_TOPIC else None

    def made(self) -> list[CoordinatorRuntime[Any]]:
        """All kinds that have been created."""
        return [
            runtime
            for runtime in (self.made_groups, self.made_transactions, self.made_share_states)
            if runtime is not None
        ]

    def locks(self) -> list[SharePartitions]:
        """What share groups have of partitions, if they have."""
        return [] if self.made_shares is None else [self.made_shares]

    def close(self) -> None:
        """Append what is still open and stop all timers."""
        for runtime in self.made():
            runtime.close()
        if self.made_shares is not None:
            self.made_shares.close()

    def end(self) -> None:
        """End the coordinators, as the end of their process does."""
        for runtime in self.made():
            runtime.end()
        if self.made_shares is not None:
            self.made_shares.close()

    def _follow_leaders(self, made: CoordinatorRuntime[Any]) -> None:
        """A coordinator moves with its partition, and ends with its broker's process."""

        def moved(partition: Partition) -> None:
            if partition.topic.name == made.kind.topic:
                made.reload(partition)

        self._state.on_leader_changed.append(moved)
        for broker in self._state.brokers.values():
            broker.on_stopped.append(made.broker_stopped)


class _ToBe:
    """A placeholder for the coordinators until the first request for them, so that a start need not import them."""

    def __init__(self, made: Callable[[], object]) -> None:
        self._made = made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made(), name)


def open_internal_topics(state: ClusterState, *, at_start: bool) -> str | None:
    """Create the internal topics if ``at_start``. Why the offsets topic could never be created, without which no group works;
    None if it can be. Raises KafkaError where the disk takes none."""
    wanted = [OFFSETS_TOPIC, TRANSACTION_TOPIC, *([SHARE_STATE_TOPIC] if state.config.has_share_groups else [])]
    if (never := state.why_never(OFFSETS_TOPIC)) is not None:
        return never
    if (never := state.why_never(TRANSACTION_TOPIC)) is not None:
        log.warning("%s", never)
    for name in wanted if at_start else ():
        if state.why_never(name) is None:
            state.ensure_internal_topic(name)
    return None

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
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

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

R = TypeVar("R", bound="CoordinatorRuntime[Any]")


def _unchanged(made: object) -> None:
    """Nothing is to be prepared."""


class Coordinators:
    """Coordinators of one run of a cluster. ``chance`` gives the random part of member ids; ``prepare`` is called with the group
    coordinators before they load, ``prepare_transactions`` with the transaction coordinators, ``prepare_shares`` with the partitions
    of share groups."""

    def __init__(
        self,
        state: ClusterState,
        chance: Chance,
        prepare: Callable[[GroupCoordinator], object] = _unchanged,
        prepare_transactions: Callable[[TransactionCoordinator], object] = _unchanged,
        prepare_shares: Callable[[SharePartitions], object] = _unchanged,
    ) -> None:
        self._state, self._chance = state, chance
        self._prepare, self._prepare_transactions = prepare, prepare_transactions
        self._prepare_shares = prepare_shares

    def load(self) -> None:
        """Make those that have something to load."""
        if SHARE_STATE_TOPIC in self._state.topics:
            assert self.share_states
        if OFFSETS_TOPIC in self._state.topics:
            assert self.groups
        if TRANSACTION_TOPIC in self._state.topics:
            assert self.transactions

    @cached_property
    def groups(self) -> GroupCoordinator:
        """The group coordinators, made at the first call."""
        from broker_sim.runtime.group_coordinator import GroupCoordinator

        state = self._state
        made = self.groups = GroupCoordinator(state, chance=self._chance, persister=self._persister)
        state.on_topics_changed.append(made.topics_changed)
        state.on_group_configured.append(made.group_configured)
        return self._started(made, self._prepare)

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinators, made at the first call."""
        from broker_sim.runtime.transaction_coordinator import TransactionCoordinator

        made = self.transactions = TransactionCoordinator(self._state)
        return self._started(made, self._prepare_transactions)

    @cached_property
    def share_states(self) -> ShareStateCoordinator:
        """The share coordinators (__share_group_state), made at the first call."""
        from broker_sim.runtime.share_state_coordinator import ShareStateCoordinator

        made = self.share_states = ShareStateCoordinator(self._state)
        self._state.on_topics_changed.append(made.topics_changed)
        return self._started(made, _unchanged)

    @cached_property
    def shares(self) -> SharePartitions:
        """Share partitions at their leaders, made at the first call."""
        from broker_sim.runtime.share_partitions import SharePartitions

        made = self.shares = SharePartitions(self._state, self.share_states.persister)
        self._prepare_shares(made)
        return made

    @property
    def made_groups(self) -> GroupCoordinator | None:
        """The group coordinators; None until they are needed."""
        return self.__dict__.get("groups")

    @property
    def made_transactions(self) -> TransactionCoordinator | None:
        """The transaction coordinators; None until they are needed."""
        return self.__dict__.get("transactions")

    @property
    def made_share_states(self) -> ShareStateCoordinator | None:
        """The share coordinators; None until they are needed."""
        return self.__dict__.get("share_states")

    @property
    def made_shares(self) -> SharePartitions | None:
        """Share partitions; None until they are needed."""
        return self.__dict__.get("shares")

    def _persister(self) -> Persister:
        return self.share_states.persister

    def of(self, partition: Partition) -> CoordinatorRuntime[Any] | None:
        """The coordinators that store their state in a partition's topic; None for another topic."""
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
        """The partitions of share groups, in a list; empty before any share group has used one."""
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

    def _started(self, made: R, prepare: Callable[[R], object]) -> R:
        """Start coordinators, which move with their partitions, and end with their broker's process."""

        def moved(partition: Partition) -> None:
            if partition.topic.name == made.kind.topic:
                made.reload(partition)

        self._state.on_leader_changed.append(moved)
        for broker in self._state.brokers.values():
            broker.on_stopped.append(made.broker_stopped)
        prepare(made)
        made.start()
        return made


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

"""Checks of partitions' leaders, in-sync replicas and epochs: at every election and, now and then, of the whole state.

    leaders = Leaders(lambda: kafka.state, broken)
    leaders.look()                  # again and again; it hears of each election by itself

Written from KRaft's rules (ReplicationControlManager, KIP-966), not from ``leader_election``. What a state of the log does to a
partition - it holds its high watermark back, bars its election - is left out of the judgement while it lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker_sim.simulation.checks.answers import Broken, InvariantBroken

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import ClusterState, Partition

__all__ = ["Leaders"]

_EPOCH_WITH_EVERY_SHRINKING = (3, 6)
_ISR_MAY_BE_EMPTY = (4, 1)


@dataclass(frozen=True, slots=True)
class _KnownLeader:
    leader: int
    epoch: int
    changes: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    ails: bool


class Leaders:
    """See the module. ``state()``: of the cluster, another one after its process has died."""

    def __init__(self, state: Callable[[], ClusterState | None], broken: Broken) -> None:
        self._state, self._broken = state, broken
        self._known: ClusterState | None = None
        self._seen: dict[tuple[bytes, int], _KnownLeader] = {}

    def look(self) -> None:
        """Check the leader, epoch and ISR of every partition."""
        state = self._state()
        if state is None:
            return
        if state is not self._known:  # what the disk has kept of it may be older
            self._known = state
            self._seen.clear()
            state.on_election.append(lambda partition, reason: self._elected(state, partition, reason))
        seen, self._seen = self._seen, {}
        for partition in state.partitions():
            key = partition.topic.topic_id, partition.index
            self._check(state, partition)
            before = seen.get(key)
            if before is not None:
                self._check_step(state, partition, before)
            self._seen[key] = _seen(partition)

    def _fail(self, name: str, partition: Partition, what: str) -> None:
        state = f"leader {partition.leader} in epoch {partition.leader_epoch}, replicas {partition.replicas}, ISR {partition.isr}"
        self._broken(InvariantBroken(name, f"{partition.name}, {state}: {what}"))

    def _elected(self, state: ClusterState, partition: Partition, reason: str) -> None:
        if state is not self._state():
            return
        key = partition.topic.topic_id, partition.index
        before = self._seen.get(key)
        self._seen[key] = _seen(partition)
        if partition.leader >= 0 and not state.brokers[partition.leader].alive:
            self._fail("the leader is alive and in the ISR", partition, "it is down")
        if before is None:
            return
        if partition.leader_epoch != before.epoch + 1:
            self._fail(
                "an election increments the leader epoch by one", partition, f"the epoch before was {before.epoch}"
            )
        if before.leader < 0 or partition.leader == before.leader or "down" not in reason:
            return
        heirs = [
            node
            for node in partition.replicas
            if node in partition.isr and node != before.leader and state.brokers[node].alive
        ]
        if heirs and partition.leader != heirs[0] and not partition.barred:
            self._fail(
                "the first in-sync replica is elected", partition, f"after {before.leader} it is {heirs[0]}'s turn"
            )

    def _check(self, state: ClusterState, partition: Partition) -> None:
        isr, replicas, leader = partition.isr, partition.replicas, partition.leader
        if len(set(isr)) != len(isr) or not set(isr) <= set(replicas):
            self._fail("the ISR is a subset of the replicas", partition, "it is not")
        alive = {node for node in replicas if state.brokers[node].alive}
        if leader >= 0:
            if leader not in isr or leader not in alive:
                self._fail("the leader is alive and in the ISR", partition, f"alive are {sorted(alive)}")
            if not set(isr) <= alive:
                self._fail("brokers that are down are not in the ISR", partition, f"alive are {sorted(alive)}")
            if not _ails(partition) and alive - set(isr):
                self._fail("brokers that are up are in the ISR", partition, f"alive are {sorted(alive)}")
        elif alive & set(isr) and not partition.barred:
            self._fail("an eligible replica leads", partition, f"alive are {sorted(alive)}")
        elif len(isr) > 1 and not partition.barred and not _ails(partition):
            self._fail(
                "brokers that are down are not in the ISR", partition, "no replica leads, and the ISR has several"
            )

    def _check_step(self, state: ClusterState, partition: Partition, before: _KnownLeader) -> None:
        if partition.leader_epoch < before.epoch or partition.partition_epoch < before.changes:
            self._fail("leader epochs never decrease", partition, f"it was {before.epoch}, {before.changes}")
        if partition.leader != before.leader and partition.leader_epoch == before.epoch:
            self._fail("a new leader has a new leader epoch", partition, f"{before.leader} led in this one")
        changed = tuple(partition.isr) != before.isr or tuple(partition.replicas) != before.replicas
        ails = before.ails or _ails(partition)
        if changed and partition.partition_epoch == before.changes and not ails:
            self._fail("an ISR change increments the partition epoch", partition, f"the ISR was {list(before.isr)}")
        if len(partition.replicas) != len(before.replicas):
            self._fail("the replication factor never changes", partition, f"they were {list(before.replicas)}")
        lost = set(before.isr) - set(partition.isr)
        stays = partition.leader_epoch == before.epoch and not ails
        if lost and stays and state.config.release < _EPOCH_WITH_EVERY_SHRINKING:
            self._fail("an ISR shrink increments the leader epoch before 3.6", partition, f"{sorted(lost)} left it")


def _ails(partition: Partition) -> bool:
    """Whether a state of the log keeps replicas out of sync, or may."""
    return (
        partition.isr_too_small
        or partition.high_watermark_frozen
        or partition.barred
        or partition.append_interceptor is not None
    )


def _seen(partition: Partition) -> _KnownLeader:
    return _KnownLeader(
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        tuple(partition.isr),
        tuple(partition.replicas),
        _ails(partition),
    )

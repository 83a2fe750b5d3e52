"""Who leads a partition when brokers go and come, as KRaft's controller decides it (ReplicationControlManager, PartitionChangeBuilder).

Rules:
1. A leader is elected among the in-sync replicas that are alive, in the order of the replicas. Where there is none the partition has
   no leader (-1), and its last in-sync replica stays in the ISR: nothing is lost, and nothing is led by whoever has not all of it
   (unclean.leader.election.enable lets such a one lead).
2. All brokers share one log for each partition. A replica that takes over has what its leader had replicated: up to the high
   watermark, where a state holds that back, else everything.
3. A broker that comes up is in sync at once.
4. A partition can be led by any broker, as after a reassignment: ``move`` puts it in the place of the old leader's replica.
"""

from __future__ import annotations

from broker_sim.metadata import ClusterState, Partition
from broker_sim.words import UsageError

__all__ = ["check_broker", "elect", "elect_preferred", "fence", "move", "revive", "step_down"]


def check_broker(state: ClusterState, node_id: int, *, alive: bool = False) -> None:
    """Raise UsageError where there is no such broker, or (``alive``) it is down."""
    if node_id not in state.brokers:
        raise UsageError(f"no broker {node_id}; there is {', '.join(map(str, state.brokers))}")
    if alive and not state.brokers[node_id].alive:
        raise UsageError(f"broker {node_id} is down")


def step_down(state: ClusterState, node_id: int) -> None:
    """A broker is about to go in order: what others can lead they lead from now on."""
    for partition in list(state.partitions()):
        if partition.leader == node_id:
            heir = _heir(state, partition, node_id)
            if heir >= 0:
                _lead(state, partition, heir, f"broker {node_id} shuts down")


def fence(state: ClusterState, node_id: int) -> None:
    """A broker is gone: it leaves the ISRs, and what it led is led by others or by nobody."""
    state.brokers[node_id].alive = False
    state.changed()
    bump = state.config.release < (3, 6)  # before, whoever led learned of a smaller ISR by a new epoch
    for partition in list(state.partitions()):
        if node_id not in partition.replicas and partition.leader != node_id:
            continue
        others = [node for node in partition.isr if node != node_id]
        shrinks = node_id in partition.isr and others != []
        if shrinks:
            partition.isr = others
        if partition.leader == node_id:
            _lead(state, partition, _heir(state, partition, node_id), f"broker {node_id} is down")
        elif shrinks and bump:
            _lead(state, partition, partition.leader, f"broker {node_id} is down")
        elif shrinks:
            state.isr_changed(partition)


def revive(state: ClusterState, node_id: int) -> None:
    """A broker is back: its replicas are in sync again, and it leads what waits for a leader."""
    state.brokers[node_id].alive = True
    state.changed()
    for partition in list(state.partitions()):
        if node_id not in partition.replicas:
            continue
        grows = node_id not in partition.isr and not partition.isr_too_small
        if partition.leader < 0:
            heir = _heir(state, partition)
            if heir >= 0:
                if grows:
                    partition.isr = [*partition.isr, node_id]
                _lead(state, partition, heir, f"broker {node_id} is up")
                continue
        if grows and partition.leader >= 0:
            partition.isr = [*partition.isr, node_id]
            state.isr_changed(partition)


def elect(state: ClusterState, partition: Partition, node_id: int | None = None) -> None:
    """A new leader epoch: of ``node_id``, an in-sync replica that is alive; by default of the leader there is, or where it is gone of
    the first that can lead. Raises UsageError."""
    if node_id is None:
        leader = state.brokers.get(partition.leader)
        node_id = partition.leader if leader is not None and leader.alive else _heir(state, partition)
        if node_id < 0:
            raise UsageError(
                f"{partition.name} can't have a leader: none of its replicas {partition.replicas} is alive"
            )
    else:
        check_broker(state, node_id, alive=True)
        if node_id not in partition.isr:
            raise UsageError(
                f"broker {node_id} is no in-sync replica of {partition.name}; those are {partition.isr}. move_leader() takes any"
            )
    _lead(state, partition, node_id, "elected")


def elect_preferred(state: ClusterState) -> int:
    """Each partition is led by its first replica again, where that is alive and in sync; returns how many changed."""
    changed = 0
    for partition in list(state.partitions()):
        preferred = partition.replicas[0]
        if partition.leader != preferred and preferred in partition.isr and state.brokers[preferred].alive:
            _lead(state, partition, preferred, "preferred leader elected")
            changed += 1
    return changed


def move(state: ClusterState, partition: Partition, node_id: int) -> None:
    """Let another broker lead, whether it has a replica or not. Raises UsageError: no such broker, it is down, it leads already."""
    check_broker(state, node_id, alive=True)
    if partition.leader == node_id:
        raise UsageError(f"{partition.name} is led by broker {node_id} already; elect() begins a new epoch")
    if node_id not in partition.replicas:
        old = partition.leader if partition.leader in partition.replicas else partition.replicas[0]
        partition.replicas = [node_id if node == old else node for node in partition.replicas]
        partition.isr = [node_id if node == old else node for node in partition.isr]
        state.set_leader(partition, node_id, "moved")
        return
    if node_id not in partition.isr:
        partition.isr = [*partition.isr, node_id]
    _lead(state, partition, node_id, "moved")


def _heir(state: ClusterState, partition: Partition, leaving: int = -1) -> int:
    """Who can lead, -1 where nobody can."""
    alive = [node for node in partition.replicas if node != leaving and state.brokers[node].alive]
    in_sync = [node for node in alive if node in partition.isr]
    if in_sync:
        return in_sync[0]
    unclean = state.config.topic_value("unclean.leader.election.enable", partition.topic.configs)
    return alive[0] if alive and unclean else -1


def _lead(state: ClusterState, partition: Partition, node_id: int, reason: str) -> None:
    before = partition.leader
    if node_id >= 0 and node_id not in partition.isr:
        partition.isr = [node_id]  # an unclean election
    if before >= 0 and node_id >= 0 and node_id != before and partition.held:
        partition.log.truncate_to(partition.high_watermark)  # the followers had no more
    state.set_leader(partition, node_id, reason)

"""Election of partitions' leaders when brokers stop and start, as by KRaft's controller (ReplicationControlManager,
PartitionChangeBuilder).

Rules:
1. A leader is elected among the in-sync replicas that are alive, in the order of the replicas. Without such a replica the partition has
   no leader (-1). unclean.leader.election.enable (from 3.9 on) lets any replica lead.
2. A broker that stops leaves the ISR. Before 4.1 the last one stays in it, and only members of the ISR can lead. From 4.1 on the
   ISR may be empty: a replica that leaves it while it is smaller than min.insync.replicas remains an eligible leader (KIP-966).
3. All brokers share one log for each partition. A replica in sync that takes over has what its leader had replicated: up to the high
   watermark, where a state holds that back, else everything. One that is elected out of sync has what there was when it went: what was
   appended since is lost.
4. A broker that comes up is in sync at once.
5. A partition can be led by any broker, as after a reassignment: ``move`` puts it in the place of the old leader's replica.
6. Before 3.6 a smaller ISR is a new leader epoch, too.

What Metadata shows after each step was compared with real clusters of 3.4.0 and 4.1.0.
"""

from __future__ import annotations

import contextlib

from broker_sim.common.text import UsageError, unknown
from broker_sim.metadata.cluster_state import ClusterState, Partition
from broker_sim.metadata.topics import TAIL, LostRecords
from broker_sim.storage.errors import StorageError

__all__ = [
    "catch_up",
    "check_broker",
    "check_open",
    "elect",
    "elect_preferred",
    "fence",
    "log_loss",
    "move",
    "reopen",
    "revive",
    "step_down",
]


def check_broker(state: ClusterState, node_id: int, *, alive: bool = False) -> None:
    """Raise UsageError if the broker is unknown, or (``alive``) down."""
    if node_id not in state.brokers:
        raise unknown("broker", node_id, map(str, state.brokers))
    if alive and not state.brokers[node_id].alive:
        raise UsageError(f"broker {node_id} is down")


def step_down(state: ClusterState, node_id: int) -> None:
    """A broker is about to go in order: it leads nothing from now on, and is in no ISR that has others."""
    with state.together():
        _leave(state, node_id, f"broker {node_id} shuts down")


def fence(state: ClusterState, node_id: int) -> None:
    """Fence a broker that has stopped: it leaves the ISRs, and its partitions elect other leaders, or have none."""
    left = [p for p in state.partitions() if p.leader < 0 and p.isr == [node_id]]
    state.brokers[node_id].alive = False
    with state.together():
        state.has_changed()
        _leave(state, node_id, f"broker {node_id} is down")
        for partition in left if state.config.release < (3, 6) else ():
            state.set_leader(partition, -1, f"broker {node_id} is down")


def _leave(state: ClusterState, node_id: int, reason: str) -> None:
    eligible_last, bump = state.config.release >= (4, 1), state.config.release < (3, 6)
    for partition in list(state.partitions()):
        others = [node for node in partition.isr if node != node_id]
        shrinks = node_id in partition.isr and (others != [] or eligible_last)
        if shrinks:
            if eligible_last and len(others) < max(1, state.min_isr(partition)):
                partition.eligible = [*(node for node in partition.eligible if node != node_id), node_id]
            partition.isr = others
            partition.behind[node_id] = partition.high_watermark
        if partition.leader == node_id:
            _lead(state, partition, _heir(state, partition, node_id), reason)
        elif shrinks and bump:
            state.set_leader(partition, partition.leader, reason)
        elif shrinks:
            state.isr_changed(partition)


def revive(state: ClusterState, node_id: int) -> None:
    """A broker is back: its replicas are in sync again, and it leads what waits for a leader and may have it."""
    state.brokers[node_id].alive = True
    with state.together():
        state.has_changed()
        for partition in list(state.partitions()):
            if node_id not in partition.replicas:
                continue
            if partition.leader < 0:
                elect_if_possible(state, partition, f"broker {node_id} is up")
            catch_up(state, partition)


def catch_up(state: ClusterState, partition: Partition) -> None:
    """Add its live replicas to the ISR, if the partition has a leader; also those that started before the leader."""
    late = [node for node in partition.replicas if node not in partition.isr and state.brokers[node].alive]
    if late and partition.leader >= 0 and not partition.isr_too_small:
        partition.isr = [*partition.isr, *late]
        for node in late:
            partition.behind.pop(node, None)
        _trim(state, partition)
        state.isr_changed(partition)


def reopen(state: ClusterState, partition: Partition, leader: int) -> None:
    """Elect a leader for a partition without one: ``leader``, its previous one, if it is eligible, else the first eligible replica."""
    partition.barred = False
    able = leader in partition.isr or leader in partition.eligible
    if able and state.brokers[leader].alive:
        _lead(state, partition, leader, "")
    else:
        elect_if_possible(state, partition)
    catch_up(state, partition)


def _trim(state: ClusterState, partition: Partition) -> None:
    """Remove replicas in the ISR from the eligible leaders; if the ISR has min.insync.replicas members, remove all."""
    enough = len(partition.isr) >= state.min_isr(partition)
    partition.eligible = [] if enough else [node for node in partition.eligible if node not in partition.isr]


def check_open(partition: Partition) -> None:
    """Raise UsageError where a state keeps the partition without a leader."""
    if partition.barred:
        raise UsageError(f"{partition.name} is in the state no_leader; clear that state first")


def elect(state: ClusterState, partition: Partition, node_id: int | None = None) -> None:
    """Begin a new leader epoch with ``node_id``, a live in-sync replica; by default with the present leader, or without one the first
    that can lead. Raises UsageError."""
    check_open(partition)
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
                f"broker {node_id} is not an in-sync replica of {partition.name} (expected one of {partition.isr};"
                " move_leader() accepts any broker)"
            )
    _lead(state, partition, node_id, "elected")


def elect_if_possible(state: ClusterState, partition: Partition, reason: str = "elected") -> None:
    """Elect a leader for a partition without one, if any replica can lead it."""
    heir = _heir(state, partition)
    if heir >= 0:
        _lead(state, partition, heir, reason)


def elect_preferred(state: ClusterState) -> int:
    """Each partition that another replica leads is led by its first one again, where that is alive and in sync; returns how many
    changed."""
    changed = 0
    for partition in list(state.partitions()):
        preferred = partition.replicas[0]
        displaced = partition.leader >= 0 and partition.leader != preferred
        if displaced and preferred in partition.isr and state.brokers[preferred].alive:
            _lead(state, partition, preferred, "preferred leader elected")
            changed += 1
    return changed


def move(state: ClusterState, partition: Partition, node_id: int | None = None) -> None:
    """Let another broker lead, whether it has a replica or not; without ``node_id`` the one that would be next. Raises UsageError: no
    such broker, it is down, it leads already, there is no other."""
    check_open(partition)
    if node_id is None:
        node_id = _next(state, partition)
    check_broker(state, node_id, alive=True)
    if partition.leader == node_id:
        raise UsageError(f"{partition.name} already has the leader {node_id}; elect() increments its epoch")
    down = [node for node in partition.isr if not state.brokers[node].alive]  # without a leader the last one stayed
    partition.isr = [node for node in partition.isr if node not in down]
    partition.behind.update(dict.fromkeys(down, partition.high_watermark))
    if node_id not in partition.replicas:
        old = partition.leader if partition.leader in partition.replicas else partition.replicas[0]
        partition.replicas = [node_id if node == old else node for node in partition.replicas]
        partition.isr = [*(node for node in partition.isr if node != old), node_id]
        partition.eligible = [node for node in partition.eligible if node != old]
        state.set_leader(partition, node_id, "moved")
        return
    if node_id not in partition.isr:
        partition.isr = [*partition.isr, node_id]
    _lead(state, partition, node_id, "moved")


def _next(state: ClusterState, partition: Partition) -> int:
    """The default target of a leader move: the first in-sync replica that is not the leader, else any other live broker. Raises
    UsageError."""
    others = [node for node, broker in state.brokers.items() if broker.alive and node != partition.leader]
    if not others:
        raise UsageError(f"{partition.name}: no other broker is up to become its leader; start one first")
    return next((node for node in partition.replicas if node in others and node in partition.isr), others[0])


def _heir(state: ClusterState, partition: Partition, leaving: int = -1) -> int:
    """The node id of the first replica that can lead, -1 without one. ``leaving``: a broker that can't."""
    if partition.barred:
        return -1
    alive = [node for node in partition.replicas if node != leaving and state.brokers[node].alive]
    for able in (partition.isr, partition.eligible):
        chosen = next((node for node in alive if node in able), None)
        if chosen is not None:
            return chosen
    if state.config.release < (3, 9) or not alive:  # before, KRaft has the setting and does not look at it
        return -1
    return alive[0] if state.config.topic_value("unclean.leader.election.enable", partition.topic.configs) else -1


def _lead(state: ClusterState, partition: Partition, node_id: int, reason: str) -> None:
    before = partition.leader
    if node_id >= 0 and node_id not in partition.isr:
        clean = node_id in partition.eligible
        partition.isr = [node_id]
        _trim(state, partition)
        kept = partition.behind.pop(node_id, partition.log_end_offset)
        if not clean and kept < partition.log_end_offset:
            reason = _lose_from(state, partition, max(kept, partition.log_start_offset)) or reason
    if before >= 0 and node_id >= 0 and node_id != before and partition.high_watermark_frozen:
        with contextlib.suppress(StorageError):  # what the disk keeps, that follower had as well
            partition.log.truncate_to(partition.high_watermark)
    state.set_leader(partition, node_id, reason)


def _lose_from(state: ClusterState, partition: Partition, offset: int) -> str:
    """The records from an offset on are lost with the replicas that have them; returns the reason of the election."""
    end = partition.log_end_offset
    try:
        partition.log.truncate_to(offset)
    except StorageError:
        return ""
    partition.high_watermark = min(partition.high_watermark, partition.log_end_offset)
    return log_loss(state, partition, LostRecords(TAIL, partition.log_end_offset, end - 1))


def log_loss(state: ClusterState, partition: Partition, lost: LostRecords) -> str:
    """Notify the listeners for lost records; returns the loss as text, the reason of the election."""
    for callback in state.on_loss:
        callback(partition, lost)
    return f"unclean election: offsets {lost.first} to {lost.last} are lost"

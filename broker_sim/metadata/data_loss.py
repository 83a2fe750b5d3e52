"""Records that were committed and are lost: an unclean leader election, or a disk that has come back as it was earlier.

Rules:
1. A lost tail is the work of an election: a replica that was out of sync leads, in a new epoch, with what it had, as where
   unclean.leader.election.enable lets one lead (`leader_election`). Where there is no
   other replica the old leader comes back with less, as from a backup of its disk: for a moment the partition has no leader.
2. With a tail goes what the log knows of it: producers' state, ended transactions, leader epochs. A batch of a producer with an id is
   lost as a whole, for half of it would be a sequence that its producer never sent; any other is cut at the offset, so that a test
   need not know how records were batched.
3. A lost head leaves a log that begins later, under a new leader, without any DeleteRecords or retention.
4. Nothing else changes by itself: committed offsets stay where they were, beyond the end or before the start.
Source: Partition.makeLeader, ReplicationControlManager (UncleanLeaderElection), UnifiedLog.truncateTo, KIP-101, KIP-320.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from broker_sim.common.text import UsageError
from broker_sim.metadata.leader_election import catch_up, check_broker, check_open, log_loss
from broker_sim.metadata.topics import HEAD, TAIL, LostRecords
from broker_sim.storage import Origin
from kafka_wire.compression import CodecUnavailable
from kafka_wire.record_batch import NO_PRODUCER_ID, RecordBatchError, encode_batch

if TYPE_CHECKING:
    from broker_sim.metadata.cluster_state import ClusterState, Partition

__all__ = ["lose_head", "lose_tail"]


def lose_tail(state: ClusterState, partition: Partition, offset: int, node_id: int | None = None) -> LostRecords:
    """The log ends at ``offset`` (rule 2), under ``node_id`` or another replica that is up.

    Raises UsageError (an offset that the log does not have, no such broker, it is down or has no replica), KafkaStorageError.
    """
    check_open(partition)
    start, end = partition.log_start_offset, partition.log_end_offset
    if not start <= offset < end:
        raise UsageError(f"{partition.name} has the offsets {start} to {end - 1}: {offset} can't be the first lost one")
    leader = _heir(state, partition, node_id)
    kept = _kept(partition, offset)
    partition.log.truncate_to(offset)
    if kept is not None:
        epoch, records = kept
        partition.log.append(records, leader_epoch=epoch, now_ms=state.clock.now_ms(), origin=Origin.COORDINATOR)
    new_end = partition.log_end_offset
    partition.high_watermark = min(partition.high_watermark, new_end)
    lost = LostRecords(TAIL, new_end, end - 1)
    _lead(state, partition, leader, lost)
    return lost


def lose_head(state: ClusterState, partition: Partition, offset: int, node_id: int | None = None) -> LostRecords:
    """The log begins at ``offset``, under ``node_id`` or another replica that is up. Raises as `lose_tail`."""
    check_open(partition)
    start, end = partition.log_start_offset, partition.high_watermark
    if not start < offset <= end:
        raise UsageError(f"{partition.name} begins at {start} and is committed up to {end}: it can't begin at {offset}")
    leader = _heir(state, partition, node_id)
    partition.log.delete_records(offset)
    lost = LostRecords(HEAD, start, offset - 1)
    _lead(state, partition, leader, lost)
    return lost


def _kept(partition: Partition, offset: int) -> tuple[int, bytes] | None:
    """Leader epoch of the batch that a cut at ``offset`` divides, and a batch of its records before ``offset``; None without one,
    or it can't be divided."""
    batch = next(partition.log.batches(offset), None)
    if batch is None or batch.header.base_offset >= offset or batch.header.producer_id != NO_PRODUCER_ID:
        return None
    header = batch.header
    with contextlib.suppress(RecordBatchError, CodecUnavailable):  # unreadable: it goes as a whole
        before = [record for record in batch.records() if record.offset < offset]
        again = encode_batch(before, base_offset=header.base_offset, last_offset=offset - 1, codec=header.codec)
        return header.leader_epoch, again
    return None


def _heir(state: ClusterState, partition: Partition, node_id: int | None) -> int:
    """Return the next leader; if that is the present one, the partition has no leader from here on (rule 1)."""
    if node_id is None:
        alive = [node for node in partition.replicas if state.brokers[node].alive]
        if not alive:
            raise UsageError(f"{partition.name}: none of its replicas {partition.replicas} is up")
        node_id = next((node for node in alive if node != partition.leader), alive[0])
    else:
        check_broker(state, node_id, alive=True)
        if node_id not in partition.replicas:
            raise UsageError(f"broker {node_id} has no replica of {partition.name}; {partition.replicas} have one")
    if node_id == partition.leader:
        state.set_leader(partition, -1, f"broker {node_id} is down")
    return node_id


def _lead(state: ClusterState, partition: Partition, leader: int, lost: LostRecords) -> None:
    partition.isr, partition.eligible = [leader], []
    state.set_leader(partition, leader, log_loss(state, partition, lost))
    catch_up(state, partition)  # the others follow it, and forget what it does not have

"""From which replica a consumer is to read: one in its own rack (KIP-392), with replica.selector.class RackAwareReplicaSelector.

Source: ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_sim.metadata.broker import Broker
    from broker_sim.metadata.topics import Partition

__all__ = ["NONE", "preferred_replica"]

NONE = -1
"""The consumer is to read where it reads."""


def preferred_replica(broker: Broker, partition: Partition, rack: str, offset: int) -> int:
    """The node id of an in-sync replica in the rack from which the consumer at ``offset`` is to read; NONE if that is the leader, if
    this broker is not the leader, or if no selector is configured."""
    state = broker.state
    if not rack or partition.leader != broker.node_id or not state.config["replica.selector.class"]:
        return NONE
    if not partition.log.log_start_offset <= offset <= partition.log.log_end_offset:
        return NONE  # no replica has it, as they share the log: the leader reports it
    nodes = [state.brokers[node] for node in partition.isr if node in state.brokers]
    near = [node.node_id for node in nodes if node.rack == rack and node.alive]
    if not near or partition.leader in near:
        return NONE
    return max(near)  # all are caught up alike; then Kafka takes the highest id

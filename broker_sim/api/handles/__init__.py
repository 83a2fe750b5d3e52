"""Handles of parts of a running cluster: a group, a transactional id, a log partition, a topic, a broker.

    billing = await kafka.group("billing").stable(members=3)
    async with billing.offsets_log.stuck() as jam:
        await jam.pending(1)

Rules:
1. A handle is a name, not a copy: every look goes to the cluster as it is now, and it is good for as long as the cluster is.
2. States and rules begin when they are called, and end with their ``with`` block or by ``heal()``.
3. Every wait has a deadline in real time (``timeout``, 10 s if not said), and raises WaitTimeout, an AssertionError with the
   history of the group. An invalid argument raises UsageError, which names the nearest valid one.
"""

from __future__ import annotations

from broker_sim.api.handles.brokers import BrokerHandle, Down
from broker_sim.api.handles.groups import CommitProbe, GroupHandle, MemberView
from broker_sim.api.handles.lag import Lag, PartitionLag
from broker_sim.api.handles.logs import LogHandle, OpenTransaction, Pending, StateGuard
from broker_sim.api.handles.shares import Lock, SharedPartition, ShareGroupHandle
from broker_sim.api.handles.topics import TopicHandle
from broker_sim.api.handles.transactions import TransactionHandle

__all__ = [
    "BrokerHandle",
    "CommitProbe",
    "Down",
    "GroupHandle",
    "Lag",
    "Lock",
    "LogHandle",
    "MemberView",
    "OpenTransaction",
    "PartitionLag",
    "Pending",
    "ShareGroupHandle",
    "SharedPartition",
    "StateGuard",
    "TopicHandle",
    "TransactionHandle",
]

"""broker-sim: a Kafka broker simulator whose heart is the group coordinator.

    from broker_sim import Cluster

    async with Cluster(brokers=3, topics={"orders": 6}) as kafka:
        kafka.bootstrap                       # "127.0.0.1:40001,127.0.0.1:40002,127.0.0.1:40003"
        billing = await kafka.group("billing").stable(members=3)
        async with billing.offsets_log.stuck():
            ...

The names here are loaded at their first use: importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster, ClusterError
    from broker_sim.api.cluster_thread import ClusterThread
    from broker_sim.api.handles import (
        BrokerHandle,
        CommitProbe,
        GroupHandle,
        Lag,
        Lock,
        LogHandle,
        MemberView,
        OpenTransaction,
        Pending,
        SharedPartition,
        ShareGroupHandle,
        StateGuard,
        TopicHandle,
        TransactionHandle,
    )
    from broker_sim.api.handles.records import StoredRecord
    from broker_sim.api.handles.requests import RequestHistory
    from broker_sim.common.text import UsageError
    from broker_sim.faults.order import Hold
    from broker_sim.faults.registry import Fault, NeverHit
    from broker_sim.journal import Journal, Seen, WaitTimeout
    from broker_sim.simulation import simulate
    from kafka_wire.errors import Err

__version__ = "0.1.0"

__all__ = [
    "BrokerHandle",
    "Cluster",
    "ClusterError",
    "ClusterThread",
    "CommitProbe",
    "Err",
    "Fault",
    "GroupHandle",
    "Hold",
    "Journal",
    "Lag",
    "Lock",
    "LogHandle",
    "MemberView",
    "NeverHit",
    "OpenTransaction",
    "Pending",
    "RequestHistory",
    "Seen",
    "ShareGroupHandle",
    "SharedPartition",
    "StateGuard",
    "StoredRecord",
    "TopicHandle",
    "TransactionHandle",
    "UsageError",
    "WaitTimeout",
    "__version__",
    "simulate",
]

_HOMES = {
    "BrokerHandle": "broker_sim.api.handles",
    "Cluster": "broker_sim.api.cluster",
    "ClusterError": "broker_sim.api.cluster",
    "ClusterThread": "broker_sim.api.cluster_thread",
    "CommitProbe": "broker_sim.api.handles",
    "Err": "kafka_wire.errors",
    "Fault": "broker_sim.faults.registry",
    "GroupHandle": "broker_sim.api.handles",
    "Hold": "broker_sim.faults.order",
    "Journal": "broker_sim.journal",
    "Lag": "broker_sim.api.handles",
    "Lock": "broker_sim.api.handles",
    "LogHandle": "broker_sim.api.handles",
    "MemberView": "broker_sim.api.handles",
    "NeverHit": "broker_sim.faults.registry",
    "OpenTransaction": "broker_sim.api.handles",
    "Pending": "broker_sim.api.handles",
    "RequestHistory": "broker_sim.api.handles.requests",
    "Seen": "broker_sim.journal",
    "ShareGroupHandle": "broker_sim.api.handles",
    "SharedPartition": "broker_sim.api.handles",
    "StateGuard": "broker_sim.api.handles",
    "StoredRecord": "broker_sim.api.handles.records",
    "TopicHandle": "broker_sim.api.handles",
    "TransactionHandle": "broker_sim.api.handles",
    "UsageError": "broker_sim.common.text",
    "WaitTimeout": "broker_sim.journal",
    "simulate": "broker_sim.simulation",
}


if not TYPE_CHECKING:  # a checker knows the names above, and that there are no others

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(home), name)

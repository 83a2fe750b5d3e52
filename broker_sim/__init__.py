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
    from broker_sim.cluster import Cluster, ClusterError, ClusterThread
    from broker_sim.faults.registry import NeverHit
    from broker_sim.handles import BrokerHandle, GroupHandle, LogHandle, TopicHandle
    from broker_sim.journal import Journal, WaitTimeout
    from broker_sim.simulation import simulate
    from broker_sim.words import UsageError
    from kafka_wire.errors import Err

__version__ = "0.1.0"

__all__ = [
    "BrokerHandle",
    "Cluster",
    "ClusterError",
    "ClusterThread",
    "Err",
    "GroupHandle",
    "Journal",
    "LogHandle",
    "NeverHit",
    "TopicHandle",
    "UsageError",
    "WaitTimeout",
    "__version__",
    "simulate",
]

_HOMES = {
    "BrokerHandle": "broker_sim.handles",
    "Cluster": "broker_sim.cluster",
    "ClusterError": "broker_sim.cluster",
    "ClusterThread": "broker_sim.cluster",
    "Err": "kafka_wire.errors",
    "GroupHandle": "broker_sim.handles",
    "Journal": "broker_sim.journal",
    "LogHandle": "broker_sim.handles",
    "NeverHit": "broker_sim.faults.registry",
    "TopicHandle": "broker_sim.handles",
    "UsageError": "broker_sim.words",
    "WaitTimeout": "broker_sim.journal",
    "simulate": "broker_sim.simulation",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(home), name)

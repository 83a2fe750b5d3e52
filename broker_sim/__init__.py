"""broker-sim: a Kafka broker simulator whose heart is the group coordinator.

    from broker_sim import Cluster

    async with Cluster(brokers=3, topics={"orders": 6}) as kafka:
        kafka.bootstrap                       # "127.0.0.1:40001,127.0.0.1:40002,127.0.0.1:40003"

The names here are loaded at their first use: importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_sim.cluster import Cluster, ClusterError
    from protocol.errors import Err

__version__ = "0.1.0"

__all__ = ["Cluster", "ClusterError", "Err", "__version__"]

_HOMES = {"Cluster": "broker_sim.cluster", "ClusterError": "broker_sim.cluster", "Err": "protocol.errors"}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(home), name)

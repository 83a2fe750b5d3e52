"""Deterministic simulation: the production brokers and real aiokafka clients in one process, on virtual time, from one seed.

Module by module: ``world`` (what users see), ``loop`` (virtual time), ``network``, ``hosts`` and ``process`` (crash, pause, restart),
``cluster`` (the brokers in it), ``ambient`` and ``hashseed`` (what else has to be pinned), ``workloads`` (clients), ``errors``.
"""

from broker_sim.simulation.errors import (
    LibraryMoved,
    SimDeadlock,
    SimError,
    SimForbidden,
    SimLivelock,
    SimTimeLimit,
)
from broker_sim.simulation.hosts import Host
from broker_sim.simulation.network import Link
from broker_sim.simulation.world import Simulation, simulate

__all__ = [
    "Host",
    "LibraryMoved",
    "Link",
    "SimDeadlock",
    "SimError",
    "SimForbidden",
    "SimLivelock",
    "SimTimeLimit",
    "Simulation",
    "simulate",
]

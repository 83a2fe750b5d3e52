"""Deterministic simulation: the production brokers and real aiokafka clients in one process, on virtual time, from one seed.

    from broker_sim.simulation import Fault, Swarm, simulate

Module by module: ``world`` (what users see), ``plans`` and ``faults`` (what goes wrong), ``swarm`` (drawn by a seed), ``judging`` (what
must hold after it), ``seeds`` (many runs, and small failures); ``loop`` (virtual time), ``network``, ``hosts`` and ``process`` (crash,
pause, restart), ``cluster`` (the brokers in it), ``ambient`` and ``hashseed`` (what else has to be pinned), ``workloads`` (clients).
docs/simulation.md is the tutorial.
"""

from broker_sim.simulation.answers import InvariantBroken
from broker_sim.simulation.errors import (
    LibraryMoved,
    SimDeadlock,
    SimError,
    SimForbidden,
    SimLivelock,
    SimStuck,
    SimTimeLimit,
)
from broker_sim.simulation.faults import Fault
from broker_sim.simulation.hosts import Host
from broker_sim.simulation.liveness import NotAlive, Unsafe
from broker_sim.simulation.network import Link
from broker_sim.simulation.plans import Swarm
from broker_sim.simulation.recording import NotRepeatable, check_repeatable
from broker_sim.simulation.world import Simulation, simulate

__all__ = [
    "Fault",
    "Host",
    "InvariantBroken",
    "LibraryMoved",
    "Link",
    "NotAlive",
    "NotRepeatable",
    "SimDeadlock",
    "SimError",
    "SimForbidden",
    "SimLivelock",
    "SimStuck",
    "SimTimeLimit",
    "Simulation",
    "Swarm",
    "Unsafe",
    "check_repeatable",
    "simulate",
]

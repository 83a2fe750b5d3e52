"""Deterministic simulation: the production brokers and real aiokafka clients in one process, on virtual time, from one seed.

    from broker_sim.simulation import Fault, Swarm, simulate

``world`` is what users hold, with ``hosts``, the brokers (``cluster``) and ``judging`` in it. Below them ``virtual`` (time, network,
disks), ``sync`` (programs that block), ``faults`` (what goes wrong), ``checks`` (what must hold); above them ``workloads`` (who is at
work), ``sweeps`` (many runs) and ``repeating`` (the same run twice).
docs/simulation.md is the tutorial.
"""

from broker_sim.simulation.checks.answers import InvariantBroken
from broker_sim.simulation.checks.liveness import NotAlive, Unsafe
from broker_sim.simulation.errors import (
    LibraryMoved,
    SimDeadlock,
    SimError,
    SimForbidden,
    SimLivelock,
    SimStuck,
    SimTimeLimit,
)
from broker_sim.simulation.faults.kinds import Fault
from broker_sim.simulation.faults.plans import Swarm
from broker_sim.simulation.hosts import Host
from broker_sim.simulation.repeating import check_repeatable
from broker_sim.simulation.virtual.network import Link
from broker_sim.simulation.virtual.recording import NotRepeatable
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

"""Interfaces of the world for the modules below it, each as small as it can be: a `world.Simulation` implements all three.

Code that runs a world from outside - a test, a workload, a sweep - uses the `Simulation` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.virtual.loop import SimLoop, SimTask
    from broker_sim.simulation.virtual.network import SimNetwork
    from broker_sim.simulation.virtual.process import Process

__all__ = ["FaultTargets", "HostEnvironment", "RunControl", "Target", "TargetBroker"]


class RunControl(Protocol):
    """For checks of a run and timestamps: its seed and its time, and whether it has ended."""

    seed: object

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the start."""

    def run_for(self, duration: object) -> None:
        """Let time pass: seconds, or ``"5m"``. Raises what a program raises."""

    def fail(self, error: BaseException, where: str = "noticed") -> None:
        """End the run: the call that lets time pass raises ``error``."""


class HostEnvironment(Protocol):
    """For hosts: what they stand on."""

    seed: object
    loop: SimLoop
    network: SimNetwork
    ending: bool

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the start."""

    def note(self, text: str) -> None:
        """Something was done to a host: the journals have it."""

    def ended(self, task: SimTask) -> None:
        """Called when a program has ended."""


class Target(Protocol):
    """A host that faults are aimed at; what it does raises UsageError where it can't be."""

    name: str
    process: Process
    """The one that runs on it; of a broker, that of all brokers."""

    @property
    def state(self) -> str:
        """Whether the host is ``up``, ``paused`` or ``crashed``."""

    @property
    def restarts(self) -> bool:
        """Whether it may be crashed: there is something to start again."""

    def crash(self, *, reset: bool = False) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def restart(self) -> None: ...


class TargetBroker(Target, Protocol):
    """The host of a broker."""

    def crash(self, *, reset: bool = False, noticed_after: object = "9s") -> None: ...


class FaultTargets(Protocol):
    """For faults: what can be broken, and by which seed."""

    seed: object
    loop: SimLoop
    network: SimNetwork

    @property
    def clusters(self) -> Sequence[SimCluster]:
        """In the order in which they were made."""

    @property
    def hangs(self) -> Mapping[str, Callable[[float], object]]:
        """Host -> what lets its application hang for so many seconds."""

    @property
    def hosts(self) -> Mapping[str, Target]:
        """All hosts by name, those of brokers included."""

    def fail(self, error: BaseException, where: str = "noticed") -> None:
        """End the run with ``error``: an invalid plan, or a disk that lost synced data. ``where``: when it was noticed."""

    def heal(self) -> None:
        """End all faults, also those injected by the test."""

"""The production cluster on virtual time, an in-memory network and, if asked for, a simulated disk: its own code, but where its brokers
listen, what time it is and what its files are.

    kafka = sim.cluster(brokers=3, disk=True)       # sync=True: an append is answered when it is durable
    kafka.kill()                                    # all brokers are one process: this ends it, between two of its callbacks
    kafka.kill(at_call=3)                           # or in the midst of the third call from now on that changes the disk
    kafka.power_loss()                              # and what was not synced is lost, torn or kept
    kafka.start_again()                             # a new process, which knows what is on the disk
    with kafka.disk.fault("full", free_bytes=100): ...

Rules:
1. After the death of a process none of its code runs, and peers notice only what its kernel sends. The next process continues its
  journal.
2. A start is over when `start_again` returns, but for the logs that coordinators load.
3. While the disk stalls the process is stopped at the call that has to wait. The remaining effects of the running callback are sent
   when it continues, with the time of then.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_sim.api.cluster import Cluster
from broker_sim.api.cluster_options import Options, Topics
from broker_sim.common.chance import Chance
from broker_sim.common.clock import RealClock
from broker_sim.common.text import UsageError
from broker_sim.simulation.checks.answers import InvariantBroken
from broker_sim.simulation.checks.survival import LogState, log_states, lost
from broker_sim.simulation.virtual.disk import ProcessKilled, SimDisk
from broker_sim.simulation.virtual.process import DEAD, PAUSED, RUNNING, Process, context_of

if TYPE_CHECKING:
    import random

    from broker_sim.faults.tap import RequestInterceptor
    from broker_sim.journal import Journal
    from broker_sim.simulation.virtual.disk_model import DiskFault
    from broker_sim.simulation.virtual.loop import SimLoop
    from broker_sim.simulation.virtual.network import SimNetwork
    from broker_sim.storage.files import Files

__all__ = ["PORT", "SimCluster", "SimOptions", "end_process"]

PORT = 9092
DATA_DIR = Path("/kafka")
"""Directory of the logs on a simulated disk."""


class _InProcess:
    """The event loop for a broker's clock: every timer belongs to the brokers' process, whichever process arms it."""

    def __init__(self, loop: SimLoop, context: contextvars.Context) -> None:
        self.time = loop.time
        self._call_at, self._call_soon, self._context = loop.call_at, loop.call_soon, context

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        return self._call_at(when, callback, *args, context=self._context)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        return self._call_soon(callback, *args, context=self._context)


class _Blocking(_InProcess):
    """The same of a process that may have to wait for its disk: for the callback that does it is later then (rule 3)."""

    def __init__(self, loop: SimLoop, context: contextvars.Context) -> None:
        super().__init__(loop, context)
        self.not_before_s = 0.0
        now_s = loop.time

        def time() -> float:
            return max(now_s(), self.not_before_s)

        self.time = time


def end_process(loop: SimLoop, process: Process) -> None:
    """Nothing of it runs again."""
    if process.state == RUNNING:
        loop.stopped += 1
    process.state = DEAD
    process.tasks = sorted((t for t in asyncio.all_tasks(loop) if getattr(t, "process", None) is process), key=hash)
    at_death, process.at_death = process.at_death, []
    for callback in at_death:
        callback(process)


class SimOptions(Options, total=False):
    """The arguments of a cluster in a simulation but ``brokers`` and ``topics``."""

    disk: bool | SimDisk


class SimCluster(Cluster):
    """Each broker on a host of its own, at port 9092. ``hosts``: their names; ``process``: of all of them. ``disk``: True, or one that
    is there already. The rest as `Cluster`."""

    def __init__(
        self,
        network: SimNetwork,
        process: Process,
        hosts: list[str],
        topics: Topics | None = None,
        *,
        disk: bool | SimDisk = False,
        **options: Any,
    ) -> None:
        self._network = network
        self.process, self.hosts = process, hosts
        self.on_journal: Callable[[Journal], object] = lambda journal: None
        self.on_process: list[Callable[[Process], object]] = []
        """Called with every process after the first."""
        self.on_loss: Callable[[InvariantBroken], object] = lambda error: None
        """Called if the disk has lost data that it must have after a crash."""
        self._stood: dict[str, LogState] = {}
        self._keeps_all = True
        self._shown: Journal | None = None
        self._earlier: RequestInterceptor | None = None  # of the process before
        self._last_ms = 0
        if disk:
            if options.get("data_dir") is not None:
                raise UsageError("disk= has its own data directory; remove data_dir=")
            options["data_dir"] = DATA_DIR
        self._disk = disk if isinstance(disk, SimDisk) else SimDisk(f"{network.seed}/{process.host}") if disk else None
        self._time_of: _InProcess | None = None
        self._own_clock = options.get("clock") is None
        if self._own_clock:
            options["clock"] = self._clock_of(process)
        super().__init__(len(hosts), topics, port=PORT, **options)
        self._listeners.places = [(host, PORT) for host in hosts]
        if self._disk is not None:
            self._mount()
            self._ignore_killed_callbacks()

    def _clock_of(self, process: Process) -> RealClock:
        loop, context = self._network.loop, context_of(process)
        in_process: Any = _InProcess(loop, context) if self._disk is None else _Blocking(loop, context)
        self._time_of = in_process
        return RealClock(in_process, epoch_ms=round(loop.wall() * 1000))

    def _rng_for(self, what: str) -> random.Random | None:
        number = self.process.number
        return super()._rng_for(what if number == 1 else f"{what} {number}")

    def _chance_of(self, what: str) -> Chance:
        number = self.process.number
        return super()._chance_of(what if number == 1 else f"{what} {number}")

    # --- where its brokers are, what their files are

    def record_bodies(self, apis: frozenset[str]) -> None:
        """Write the bodies of requests to the journal only for these APIs from now on. No effect if the cluster is not observed."""
        if self._observation.tap is not None:
            self._observation.tap.bodies = apis

    def observe(self) -> Journal:
        """As `Cluster.observe`; every journal that begins is shown to ``on_journal``."""
        journal = super().observe()
        if journal is not self._shown:
            self._shown = journal
            self.on_journal(journal)
        if self._earlier is not None and self._observation.tap is not None:
            self._observation.tap.follows(self._earlier)
            self._earlier = None
        return journal

    def _host_of(self, peer: str) -> str | None:
        address = peer.removeprefix("/")
        name = self._network.name_of(address)
        return None if name == address else name

    def _new_journal(self) -> Journal:
        if self._earlier is None or self._observation.journal is None:
            return super()._new_journal()
        self._observation.journal.go_on(self.state.clock)
        return self._observation.journal

    def _listen(self, host: str, port: int) -> Any:
        return self._network.listen(host, port)

    def _files(self) -> Files:
        return super()._files() if self._disk is None else self._disk

    @property
    def disk(self) -> SimDisk:
        """Simulated disk of the brokers. Raises UsageError where their logs are in memory."""
        if self._disk is None:
            raise UsageError("these brokers have no disk; create the cluster with sim.cluster(disk=True)")
        return self._disk

    # --- the end of its process, and the next one

    @property
    def kind_of_disk(self) -> str:
        """For `swarm.Targets`: none, ``cached`` what was acknowledged, or ``synced``."""
        return "" if self._disk is None else "synced" if self._sync else "cached"

    @property
    def dead(self) -> bool:
        """Whether the process has ended."""
        return self.process.state == DEAD

    def kill(self, *, at_call: int | None = None) -> None:
        """The process of all brokers dies; what it has written is there. ``at_call``: in the midst of that call from now on, from 1,
        that changes the disk, of a write a part is there. Raises UsageError: no disk, or it is dead."""
        self._die("killed", at_call)

    def power_loss(self, *, at_call: int | None = None) -> None:
        """A power loss of all brokers' machines: peers get no packet, and data that was not synced may be lost. Otherwise as `kill`."""
        self._die("power lost", at_call)

    def _die(self, how: str, at_call: int | None) -> None:
        disk = self.disk
        if self.dead:
            raise UsageError("the brokers are dead: start_again() first")
        if at_call is not None:
            disk.die_in(at_call, lambda: self._died(how))
        else:
            self._died(how)

    def _died(self, how: str) -> None:
        network, process, servers, tap = self._network, self.process, self.servers, self._observation.tap
        self._last_ms = round(network.loop.wall() * 1000)
        if self._state is not None:
            self._stood |= log_states(self._state, self.disk)
            self._keeps_all = self._keeps_all and (self._sync or how == "killed")
        end_process(network.loop, process)
        if self._observation.journal is not None:
            synced = {"synced": self._sync} if how != "killed" else {}
            self._observation.journal.write("cluster", action=how, process=process.number, **synced)
        for name in self.hosts:
            machine = network.machine(name)
            machine.held = False
            for end in network.ends_of(machine):
                if how == "killed":
                    end._send("rst")
                end.vanish()
                network.lost_ends.append(end)
            machine.dark = machine.dark or how != "killed"
            network.close_ports(machine)
        if self._observation.conditions is not None:
            self._observation.conditions.forget()
        if self._coordinators is not None:
            self._coordinators.end()
        if tap is not None:
            tap.end([connection for server in servers for connection in server.connections])
            for server in servers:
                if server.listening:
                    self._observation.write("broker", broker=server.broker.node_id, action="down")
            self._earlier = tap
        self._forget()
        self._disk = self.disk.killed() if how == "killed" else self.disk.power_lost()

    def _forget(self) -> None:
        """Nothing is left in memory; timers of the dead never fire."""
        self.servers = []
        self._state = self._coordinators = self._time = self._outages = None
        self._lock = None
        self._observation.forget()

    def start_again(self, *, at_call: int | None = None) -> None:
        """A new process, on the machines that there were, which are up. Nothing happens where it runs. ``at_call``: it is killed in the
        midst of that call from now on that changes the disk, and dead again if its start has so many. Raises ClusterError: the disk
        can't be used, or not understood; then it is dead, too."""
        if not self.dead:
            return
        network, old = self._network, self.process
        process = Process(old.host, old.number + 1, network.seed)
        if self._own_clock:
            self.process = process
            self._clock = self._clock_of(process)
        self._stopped_ms = self._last_ms
        self.process = process
        self._mount()
        for name in self.hosts:
            machine = network.machine(name)
            machine.dark, machine.process = False, process
        for callback in self.on_process:
            callback(process)
        if at_call is not None:
            self.disk.die_in(at_call, lambda: self._died("killed"))
        try:
            context_of(process).run(_at_once, self.start())
        except ProcessKilled:
            return
        except BaseException:
            end_process(network.loop, process)
            self._forget()
            self._disk = self.disk.killed()
            raise
        self.disk.cancel_death()
        self._look()
        if self.observed:
            for server in self.servers:
                self._observation.write("broker", broker=server.broker.node_id, action="up")
            self._observation.write("cluster", action="started", process=process.number)

    def _look(self) -> None:
        """Whether what must be there is."""
        stood, self._stood = self._stood, {}
        what = lost(stood, self.state, self.disk, all_of_it=self._keeps_all)
        self._keeps_all = True
        if what is not None:
            self.on_loss(InvariantBroken("acknowledged records survive a crash", what))

    def _mount(self) -> None:
        self.disk.on_stall = self._wait

    def _ignore_killed_callbacks(self) -> None:
        """Report no error for callbacks that end because their process was killed."""
        loop = self._network.loop
        handler: Any = loop.get_exception_handler() or (lambda _, context: loop.default_exception_handler(context))
        loop.set_exception_handler(
            lambda _, context: None if isinstance(context.get("exception"), ProcessKilled) else handler(loop, context)
        )

    def clear_disk_faults(self) -> None:
        """Nothing is wrong with its disk, and no death of it is planned."""
        if self._disk is not None:
            self._disk.cancel_death()
            for fault in self._disk.faults:
                fault.heal()

    # --- a disk that makes it wait

    def _wait(self, fault: DiskFault) -> None:
        """The running callback has to wait for the end of ``fault``."""
        process, loop = self.process, self._network.loop
        if isinstance(self._time_of, _Blocking) and fault.until_s is not None:
            self._time_of.not_before_s = max(self._time_of.not_before_s, fault.until_s)
        if process.state != RUNNING:
            return
        process.state = PAUSED
        loop.stopped += 1
        held = [machine for machine in map(self._network.machine, self.hosts) if not machine.held]
        for machine in held:
            machine.held = True

        def goes_on() -> None:
            if process.state != PAUSED:
                return
            process.state = RUNNING
            loop.stopped -= 1
            for machine in held:
                machine.held = False
            kept, process.kept = process.kept, []
            loop.take_up(kept)
            self._network.release()

        fault.ended.append(goes_on)


def _at_once(coro: Any) -> None:
    """Run a coroutine that waits for nothing."""
    try:
        coro.send(None)
    except StopIteration:
        return
    coro.close()
    raise RuntimeError(f"{coro.__qualname__} waits for something")

"""Hosts of a simulation: machines that crash, are paused and restarted, with the programs that run on them.

    host = sim.host("worker-1") host.spawn(consume)             # a function that returns a coroutine: it runs again after a restart
    host.spawn(consume, again="1s") # ... and when it raises, as under a supervisor host.spawn_sync(work)           # an ordinary
    function that may block: kafka-python's clients, threads host.crash()                    # power loss: peers get no packet.
    crash(reset=True): only the process dies, its connections are reset host.pause(); host.resume()     # as by SIGSTOP
    host.restart()                  # a new process; it crashes first where it is up

Brokers run on hosts too. All brokers of a cluster share one process, so what stops on a broker's host is its network; its part in the
cluster ends and begins as `Cluster.broker_down` and `broker_up` have it. Its coordinators' timers go on while it is paused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError, duration_ms
from broker_sim.simulation.cluster import end_process
from broker_sim.simulation.sync.programs import in_thread, prepare
from broker_sim.simulation.virtual.process import DEAD, PAUSED, RUNNING, Process, context_of

if TYPE_CHECKING:
    from broker_sim.simulation.cluster import SimCluster
    from broker_sim.simulation.protocols import HostEnvironment
    from broker_sim.simulation.virtual.loop import SimTask
from broker_sim.simulation.virtual.network import Machine

__all__ = ["BrokerHost", "Host", "Program"]

Program = Callable[[], Coroutine[Any, Any, object]] | Coroutine[Any, Any, object]
"""Program that runs on a host: a coroutine, or a function that makes one."""


class Host:
    """A machine with one process at a time."""

    def __init__(self, sim: HostEnvironment, name: str) -> None:
        self.sim, self.name = sim, name
        self.machine: Machine = sim.network.machine(name)
        self.process = self.machine.process = Process(name, 1, sim.seed)
        self.failures: list[tuple[float, BaseException]] = []
        """Exceptions of programs that are started again, with their times in virtual seconds since the beginning."""
        self.past: list[tuple[float, Process]] = []
        """Processes that have ended, with their times."""
        self._programs: list[tuple[Callable[[], Coroutine[Any, Any, object]], str | None]] = []

    @property
    def address(self) -> str:
        """The host's IPv4 address on the simulated network."""
        return self.machine.address

    @property
    def state(self) -> str:
        """Whether the host is ``up``, ``paused`` or ``crashed``."""
        return ("up", "paused", "crashed")[self.process.state]

    @property
    def restarts(self) -> bool:
        """Whether one of its programs runs again after a restart."""
        return bool(self._programs)

    def spawn(self, program: Program, name: str | None = None, *, again: object = None) -> SimTask:
        """Run a coroutine here, or a function that returns one, which runs again after every restart. If it raises, so does the run;
        with ``again="1s"`` the function is called again after that time instead, as a supervisor would, and ``failures`` has what it
        raised. Raises UsageError where the host is down."""
        if again is not None:
            if not callable(program):
                raise UsageError("again= is for a function that returns a coroutine: a coroutine runs once")
            program = partial(self._supervised, program, duration_ms(again, "again") / 1000)
        if self.process.state == DEAD:
            if asyncio.iscoroutine(program):
                program.close()
            raise UsageError(f"host {self.name} has crashed; restart it first")
        if asyncio.iscoroutine(program):
            return self._start(program, name)
        if not callable(program):
            raise UsageError(f"spawn takes a function that returns a coroutine, or a coroutine, not {program!r}")
        self._programs.append((program, name))
        return self._start(program(), name)

    def spawn_sync(self, function: Callable[[], object], name: str | None = None, *, again: object = None) -> SimTask:
        """As ``spawn``, of an ordinary function that may block: it runs on a thread of the simulation, again after every restart. Its
        sleeps, sockets, locks and threads are virtual: see ``threads``. Raises UsageError where the host is down, LibraryMoved."""
        prepare()
        name = name or getattr(function, "__name__", None)
        return self.spawn(partial(in_thread, function, name), name, again=again)

    async def _supervised(self, program: Callable[[], Coroutine[Any, Any, object]], pause_s: float) -> None:
        while True:
            try:
                await program()
                return
            except Exception as error:
                self.failures.append((self.sim.elapsed_s, error))
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                self.failures.append(
                    (self.sim.elapsed_s, error)
                )  # without a call of cancel(): aiokafka's stop() may raise that
            await asyncio.sleep(pause_s)

    def _start(self, coro: Coroutine[Any, Any, object], name: str | None) -> SimTask:
        if not asyncio.iscoroutine(coro):
            raise UsageError(f"spawn takes a function that returns a coroutine; it has returned {coro!r}")
        context = context_of(self.process)
        task = self.sim.loop.create_task(coro, name=name, context=context)
        task.add_done_callback(self.sim.ended, context=context_of(None))
        return task

    def crash(self, *, reset: bool = False) -> None:
        """Stop its process at once: no callback of it runs again. ``reset``: only the process dies, and its kernel resets the
        connections; else the machine fails, and its peers get no packet. No effect on a crashed host."""
        if self.process.state == DEAD:
            return
        self.sim.note(f"crash {self.name} {'reset' if reset else 'silent'}")
        self._dead()
        for end in self.sim.network.ends_of(self.machine):
            if reset:
                end._send("rst")
            end.vanish()
            self.sim.network.lost_ends.append(end)
        self.machine.dark = not reset
        self.sim.network.close_ports(self.machine)

    def exit(self) -> None:
        """End its process, as a return or SIGKILL does: the kernel closes its connections. No effect on a host without a process. The
        journal gets no event."""
        if self.process.state == DEAD:
            return
        self._dead()
        for end in self.sim.network.ends_of(self.machine):
            if not end.ended:
                end._send("eof")
            end.vanish()
            self.sim.network.lost_ends.append(end)
        self.sim.network.close_ports(self.machine)

    def _dead(self) -> None:
        self.past.append((self.sim.elapsed_s, self.process))
        end_process(self.sim.loop, self.process)

    def pause(self) -> None:
        """Stop its process (SIGSTOP); its kernel still receives data. Raises UsageError if it has crashed."""
        if self.process.state == DEAD:
            raise UsageError(f"host {self.name} has crashed")
        if self.process.state == RUNNING:
            self.sim.note(f"pause {self.name}")
            self.process.state = PAUSED
            self.sim.loop.stopped += 1

    def resume(self) -> None:
        """Continue it, with the events that arrived meanwhile, in order. No effect if it is not paused."""
        if self.process.state != PAUSED:
            return
        self.sim.note(f"resume {self.name}")
        loop = self.sim.loop
        self.process.state = RUNNING
        loop.stopped -= 1
        kept, self.process.kept = self.process.kept, []
        loop.take_up(kept)
        self.sim.network.release()

    def restart(self) -> None:
        """Start a new process; programs given as functions run again."""
        self.crash(reset=True)
        self.sim.note(f"restart {self.name}")
        self.begin()
        for program, name in self._programs:
            self._start(program(), name)

    def begin(self) -> None:
        """A new process after ``exit`` or ``crash``, in which nothing runs yet."""
        self.machine.dark = False
        self.process = self.machine.process = Process(self.name, self.process.number + 1, self.sim.seed)

    def __repr__(self) -> str:
        return f"<host {self.name} {self.address} {self.state}>"


class BrokerHost(Host):
    """The host of one broker."""

    def __init__(self, sim: HostEnvironment, name: str, cluster: SimCluster, node_id: int, process: Process) -> None:
        super().__init__(sim, name)
        self.cluster, self.node_id = cluster, node_id
        cluster.on_process.append(self._live)
        self._live(process)

    def _live(self, process: Process) -> None:
        """Mark the host as up, with a new process of all brokers."""
        self.process = self.machine.process = process
        self._down = False
        self._doing: SimTask | None = None

    @property
    def state(self) -> str:
        """Whether the broker's host is ``up``, ``paused`` or ``crashed``; all hosts are crashed while the cluster is."""
        return "crashed" if self._down or self.cluster.dead else "paused" if self.machine.held else "up"

    def spawn(self, program: Program, name: str | None = None, *, again: object = None) -> SimTask:
        """Nothing but its broker runs on it. Raises UsageError."""
        if asyncio.iscoroutine(program):
            program.close()
        raise UsageError(f"host {self.name} is a broker's; run programs on another one")

    def crash(self, *, reset: bool = False, noticed_after: object = "9s") -> None:
        """The broker stops at once. ``noticed_after``: after which time the controller notices it (broker.session.timeout.ms)."""
        if self._down or self.cluster.dead:
            return
        self.sim.note(f"crash {self.name} {'reset' if reset else 'silent'}")
        self._down = True
        self.machine.held = False
        self.machine.dark = not reset
        self._do(self.cluster.broker_down(self.node_id, noticed_after=noticed_after), "down")

    def pause(self) -> None:
        """Nothing goes in or out. Raises UsageError where it has crashed."""
        if self.state == "crashed":
            raise UsageError(f"host {self.name} has crashed")
        if not self.machine.held:
            self.sim.note(f"pause {self.name}")
            self.machine.held = True

    def resume(self) -> None:
        """Send and deliver the traffic that was held by ``pause``, in its order."""
        if self.machine.held:
            self.sim.note(f"resume {self.name}")
            self.machine.held = False
            self.sim.network.release()

    def restart(self) -> None:
        """Down, if it is up, and up again with its log. Raises UsageError where the process of all brokers is dead."""
        if self.cluster.dead:
            raise UsageError(f"all brokers are dead, {self.name} too: start_again() of their cluster")
        if not self._down:
            self.crash(reset=True)
        self.sim.note(f"restart {self.name}")
        self._down = self.machine.dark = False
        self._do(self.cluster.broker_up(self.node_id), "up")

    def _do(self, coro: Coroutine[Any, Any, object], what: str) -> None:
        """Run ``coro`` after the previous action on the host has ended; ``what`` names it in errors."""
        before = self._doing

        async def then() -> None:
            if before is not None and not before.done():
                await before
            await coro

        self._doing = self._start(then(), f"{self.name} {what}")

"""A simulated world: brokers, hosts and their programs, a network, on virtual time, all of it from one seed.

    with simulate(seed=7) as sim:
        kafka = sim.cluster(brokers=3, topics={"orders": 12})
        sim.host("worker").spawn(consume)
        sim.run_for(60)                                     # a minute of theirs, some ms of yours
        with kafka.offsets_log("billing").stuck():
            sim.run_for("30s")
        sim.host("worker").crash()
        sim.run_until(lambda: kafka.group("billing").state == "Stable", within="2m")
        sim.journal_hash                                    # equal in every run with this seed

    with simulate(seed=7, faults=Swarm(during="30s")) as sim:   # or a list of faults: ``plans``
        ...
        sim.run_for(30)
        sim.check(groups={"billing": 3})                    # all is healed: everyone comes back in time, nothing is lost

Rules:
1. The brokers are the production code. Only the clock, the network and the source of chance are others.
2. The same seed, program, Python and libraries give the same run, to the byte. Sets of strings depend on PYTHONHASHSEED as well:
   ``sim.pinned`` has whether it is pinned (``hashseed``), and all else that could be; ``sim.not_pinned`` what is not.
3. Between two runs the test's code runs inside the loop, without passing of time: it may call code that needs a running loop, and
   wait only with ``sim.run``.
4. A program that raises ends the run with what it raised. So does simulated code that reaches for the real world (`SimForbidden`) or
   never yields (`SimStuck`), a listener (``sim.watch``) that raises, and a broken invariant (``invariants``): at the event.
5. Nothing is left behind: at the end all tasks are ended, crashed ones too, and the surroundings are as before.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import random
import warnings
from asyncio import events
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import Any, TypeVar, Unpack

from broker_sim.api.cluster import Cluster
from broker_sim.api.cluster_options import Topics, read_options
from broker_sim.common.text import UsageError, duration_ms, unknown
from broker_sim.config.settings import has_tls
from broker_sim.journal import Journal
from broker_sim.simulation.cluster import SimCluster, SimOptions
from broker_sim.simulation.errors import SimError
from broker_sim.simulation.faults.disks import revive
from broker_sim.simulation.faults.kinds import Fault, FaultPlan
from broker_sim.simulation.faults.plans import Faults, Plan, Swarm, UserInjection, plan_from
from broker_sim.simulation.hosts import BrokerHost, Host, Program
from broker_sim.simulation.sync import in_loop
from broker_sim.simulation.sync.threads import silence
from broker_sim.simulation.verification import ClusterVerifier
from broker_sim.simulation.virtual.alarms import Alarms, give_lines, uninterrupted
from broker_sim.simulation.virtual.ambient import ambient
from broker_sim.simulation.virtual.hashseed import is_pinned
from broker_sim.simulation.virtual.loop import SimLoop, SimTask
from broker_sim.simulation.virtual.network import Link, SimNetwork
from broker_sim.simulation.virtual.process import PROCESS, Process, context_of
from broker_sim.simulation.virtual.recording import RunRecording, hashed
from broker_sim.simulation.virtual.watchdog import patience as guarded

__all__ = ["EPOCH_MS", "Simulation", "simulate"]

T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000
"""The wall time of a beginning, ms since 1970."""

_PENDING = 100_000
"""Events that wait to be hashed: most runs never ask for their hash."""

_ROUNDS = 100
"""Virtual seconds that tasks have to end in when they are cancelled, once a second."""


class Simulation:
    """Brokers, hosts and clients in virtual time; created by `simulate`."""

    def __init__(
        self, seed: object = 0, *, order: str = "fifo", trace: bool = False, epoch_ms: int = EPOCH_MS,
        link: Link | None = None, recording: RunRecording | None = None, faults: Plan = None, invariants: bool = True,
        waive: Collection[str] = (), instead: Sequence[FaultPlan] | None = None, noisy: Collection[str] | None = None,
    ) -> None:  # fmt: skip
        if order not in ("fifo", "tasks"):
            raise unknown("order of tasks", order, ["fifo", "tasks"])
        if isinstance(waive, str):
            raise UsageError(f"waive= must be a list of invariants (expected e.g. [{waive!r}])")
        self._to_come = [] if faults is None else [plan_from(faults)]
        self.seed = seed
        self.loop = SimLoop(seed, order=order, trace=trace, epoch_s=epoch_ms / 1000, noisy=noisy)
        self.network = SimNetwork(self.loop, seed, link, noisy=noisy)
        self.rng = random.Random(f"{seed}/user")
        """For the test's own draws."""
        self.hosts: dict[str, Host] = {}
        self.clusters: list[SimCluster] = []
        self.errors: list[dict[str, Any]] = []
        """Contexts that reached the loop's exception handler; see asyncio's."""
        self.not_pinned = [] if is_pinned() else ["PYTHONHASHSEED is not pinned"]
        """Reasons for which a run in another process may differ; empty if it is the same."""
        self.faults = Faults()
        """Faults of the plans that happened, and those that were left out."""
        self.hangs: dict[str, Callable[[float], object]] = {}
        """Host -> what lets its application hang for so many seconds: targets of the fault ``hang``."""
        self._instead = instead
        self._verifiers: list[ClusterVerifier] = []
        self._listeners: list[Callable[[dict[str, Any]], object]] = []
        self._invariants, self._waive = invariants, tuple(waive)
        self._recording = recording
        self.network.note = self.note
        self._failed: BaseException | None = None
        self.ending = False
        """Whether all that runs in it is being ended."""
        self.hashes = True
        """Whether the events are to be hashed: ``journal_hash``."""
        self._digest = hashlib.sha256()
        self._unhashed: list[tuple[int, dict[str, Any]]] = []
        self.loop.set_exception_handler(self._on_error)

    # --- what is in it --------------------------------------------------------------------------------------------------

    def cluster(
        self, brokers: int = 1, topics: Topics | None = None, *, name: str = "broker", **given: Unpack[SimOptions]
    ) -> SimCluster:
        """A cluster that has been started, with a journal. Its brokers are on hosts ``broker-1``, ``broker-2`` ...; ``topics`` and
        the options as `Cluster`'s, and ``disk``. Raises ClusterError, UsageError."""
        options: dict[str, Any] = {**given}
        of_any = {option: value for option, value in options.items() if option != "disk"}
        brokers = read_options({"brokers": brokers, "topics": topics, **of_any}, warns=False)["brokers"]
        names = [f"{name}-{number}" for number in range(1, brokers + 1)]
        for host in names:
            if host in self.hosts:
                raise UsageError(f"host {host} exists already; give this cluster another name")
            self.network.machine(host)
        process = Process(name, 1, self.seed)
        options.setdefault("journal", True)
        if options.get("rng") is None:
            options.setdefault("seed", f"{self.seed}/{name}")
        for taken in {"host", "port", "advertised_host", "listeners"} & set(options):
            raise UsageError(f"cluster: {taken} is the simulation's; name= gives the hosts their names")
        if has_tls(str(options.get("security_protocol", "")).upper()):
            raise UsageError("security_protocol: virtual time has no TLS (expected PLAINTEXT or SASL_PLAINTEXT)")
        cluster = SimCluster(self.network, process, names, topics, **options)
        cluster.on_journal = partial(self._watch, len(self.clusters))
        context = context_of(process)

        def start() -> SimTask:
            return self.loop.create_task(cluster.start(), name=f"start of {name}")

        self._await(context.run(start))
        for node_id, host in enumerate(names, start=1):
            self.hosts[host] = BrokerHost(self, host, cluster, node_id, process)
        self.clusters.append(cluster)
        verifier = ClusterVerifier(self, cluster, waive=self._waive, watch=self._invariants and cluster.observed)
        self._verifiers.append(verifier)
        if cluster.observed:
            cluster.journal.subscribe(verifier.event)
        if self._invariants:
            cluster.on_loss = verifier.breach
        return cluster

    def host(self, name: str) -> Host:
        """The host of that name, created at the first call."""
        host = self.hosts.get(name)
        if host is None:
            host = self.hosts[name] = Host(self, name)
        return host

    def spawn(self, host: str, program: Program, name: str | None = None, *, again: object = None) -> SimTask:
        """As `Host.spawn`."""
        return self.host(host).spawn(program, name, again=again)

    def crash(self, host: str, *, reset: bool = False) -> None:
        """As `Host.crash`. Raises UsageError for an unknown host; so do the next three."""
        self._known(host).crash(reset=reset)

    def pause(self, host: str) -> None:
        """As `Host.pause`."""
        self._known(host).pause()

    def resume(self, host: str) -> None:
        """As `Host.resume`."""
        self._known(host).resume()

    def restart(self, host: str) -> None:
        """As `Host.restart`."""
        self._known(host).restart()

    def _known(self, name: str) -> Host:
        if name not in self.hosts:
            raise unknown("host", name, self.hosts)
        return self.hosts[name]

    def inject(self, faults: Plan, *, kafka: SimCluster | None = None) -> UserInjection:
        """Start a fault plan now, on ``kafka`` (default: the first cluster). ``simulate(faults=...)`` does so when time first
        advances. Raises UsageError for an invalid plan."""
        return self._inject(plan_from(faults), kafka)

    def _inject(self, meant: Swarm | list[Fault], kafka: SimCluster | None) -> UserInjection:
        cluster = self._cluster(kafka)
        number = len(self.faults.injections)
        plan = meant.drawn(self, cluster, number) if isinstance(meant, Swarm) else meant
        if self._instead is not None:
            plan = list(self._instead[number]) if number < len(self._instead) else []
        injection = UserInjection(self, cluster, plan, self.hangs)
        self.faults.injections.append(injection)
        self.faults.plans.append(plan)
        return injection

    def _begin_plans(self) -> None:
        """Time runs: a plan that was given at the beginning begins with it."""
        while self._to_come and self.clusters:
            self._inject(self._to_come.pop(0), None)

    def _cluster(self, kafka: SimCluster | None) -> SimCluster:
        if kafka is not None:
            return kafka
        if not self.clusters:
            raise UsageError("the simulation has no cluster yet; create one with sim.cluster()")
        return self.clusters[0]

    def heal(self) -> None:
        """Remove all faults: plans, log states and rules end, links work, paused hosts continue, crashed hosts restart."""
        self._to_come.clear()
        for injection in self.faults.injections:
            injection.end()
        for cluster in self.clusters:
            self._heal_brokers(cluster)
        self.network.heal()
        for host in list(self.hosts.values()):
            if host.state == "paused":
                host.resume()
            elif host.state == "crashed" and not (isinstance(host, BrokerHost) and host.cluster.dead):
                host.restart()

    def _heal_brokers(self, cluster: SimCluster) -> None:
        revive(cluster, self)
        if cluster.dead:  # its disk does not let it yet
            return
        cluster.state.buggify = None
        if cluster.observed:
            cluster.conditions.heal_all()
            for rule in cluster.faults.list():
                rule.remove()
                rule.release()

    def check(
        self,
        groups: Mapping[str, int | None] | Iterable[str] | None = None,
        *,
        lag: int | None = 0,
        within: object = None,
        request_timeout: object = "40s",
        also: Callable[[], object] | None = None,
        kafka: SimCluster | None = None,
    ) -> float:
        """Remove all faults and let time pass until every group has recovered; returns the virtual seconds that it took.

        ``groups``: group id -> number of members; None: all groups that have existed, with any number. Each must become Stable (Empty
        for 0), with at most ``lag`` uncommitted records per partition (None: any number). ``also()``: a further condition. ``within``:
        time limit; by default it follows from the group's session and rebalance timeouts and the clients' ``request_timeout``. Every
        record that was acknowledged to a producer must be in the log.

        Raises NotAlive with what is missing and the group's history, Unsafe, InvariantBroken, UsageError.
        """
        cluster = self._cluster(kafka)
        if not cluster.observed:
            raise UsageError("check() needs a journal; remove journal=False from sim.cluster()")
        verifier = self._verifiers[self.clusters.index(cluster)]
        wanted = verifier.expected(groups)
        request_s = duration_ms(request_timeout, "request_timeout") / 1000
        within_s = verifier.bound_s(wanted, request_s) if within is None else duration_ms(within, "within") / 1000
        within_s += max((fault.args["hang_s"] for fault in self.faults.begun if fault.kind == "hang"), default=0)
        self.heal()
        took_s = verifier.converge(wanted, within_s, lag, also)
        self._raise()
        return took_s

    # --- time -----------------------------------------------------------------------------------------------------------

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the start."""
        return self.loop.elapsed_s

    @property
    def now_ms(self) -> int:
        """Virtual wall time, ms since 1970."""
        return int(self.loop.wall() * 1000)

    def run_for(self, duration: object) -> None:
        """Advance virtual time by seconds, or ``"5m"``. Raises exceptions of programs, SimForbidden, SimLivelock."""
        self._raise()
        self._begin_plans()
        self.loop.run_for(duration_ms(duration, "run_for") / 1000)
        self._raise()

    def run_until(self, condition: Callable[[], object], within: object = "60s", what: str | None = None) -> None:
        """Run until ``condition()`` holds. Raises SimTimeLimit, SimDeadlock, and what `run_for` raises."""
        text = what or _text_of(condition)
        within_s = duration_ms(within, "within") / 1000
        self._raise()
        self._begin_plans()
        self.loop.run_until(lambda: self._failed is not None or condition(), within_s, text)
        self._raise()

    def run(self, coro: Coroutine[Any, Any, T], within: object = "1h") -> T:
        """Run a coroutine of the test to its end and return its result. Raises its exception, and those of `run_until`."""
        self._begin_plans()
        task = self.loop.create_task(coro, name=f"test {getattr(coro, '__qualname__', '')}")
        return self._await(task, duration_ms(within, "within") / 1000)  # type: ignore[no-any-return]

    def _await(self, task: SimTask, within_s: float = 3600.0) -> Any:
        try:
            self.loop.run_until(lambda: task.done() or self._failed is not None, within_s, task.get_name())
        except BaseException:
            task.cancel()
            raise
        if not task.done():
            task.cancel()
        self._raise()
        return task.result()

    @property
    def pinned(self) -> bool:
        """Whether another process would repeat the run, as far as is known; `not_pinned` has the reasons if not."""
        return not self.not_pinned

    # --- what went wrong ------------------------------------------------------------------------------------------------

    def ended(self, task: SimTask) -> None:
        """Called when a program has ended."""
        error: BaseException | None
        if task.cancelled():
            if task.cancelling() or (task.process is not None and task.process.state):
                return
            error = SimError(
                f"{task.get_name()} ended by a CancelledError without a call of cancel(), as aiokafka's stop() may; "
                'spawn(..., again="1s") starts a program again'
            )
        else:
            error = task.exception()
        if error is not None:
            host = task.process.host if task.process is not None else "the test"
            self.fail(error, f"raised by {task.get_name()} on {host}")

    def fail(self, error: BaseException, where: str = "noticed") -> None:
        """End the run: the call that lets time pass (``run``, ``run_for``) raises ``error``, with a note of the virtual time and
        the seed. Only the first error counts. May be called from anywhere, including a journal's listener."""
        if self.ending or self._failed is not None:
            return
        reasons = "; ".join(self.not_pinned)
        pinned = f" ({reasons}: another process may run otherwise)" if reasons else ""
        error.add_note(f"{where}, {self.elapsed_s:.3f} s from the beginning, seed {self.seed!r}{pinned}")
        self._failed = error
        if self.loop.is_running():
            self.loop.stop()

    def watch(self, listener: Callable[[dict[str, Any]], object]) -> None:
        """Call ``listener(event)`` for every event of all journals from now on; what it raises ends the run."""
        self._listeners.append(listener)

    def always(self, condition: Callable[[], object], what: str | None = None) -> None:
        """``condition()`` must hold at every event of the journals; otherwise the run ends with an error that names ``what``."""

        def look(event: dict[str, Any]) -> None:
            if not condition():
                raise AssertionError(f"{what or _text_of(condition)}: does not hold any more")

        self.watch(look)

    def _raise(self) -> None:
        if self._failed is not None:
            error, self._failed = self._failed, None
            raise error

    def _on_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self.ending:
            self.errors.append({"at_s": self.elapsed_s, **context})

    def note(self, text: str) -> None:
        """Write a note about a host or the network to the journals."""
        for cluster in self.clusters:
            if cluster.observed:
                cluster.journal.write("mark", text=text)

    # --- what can be compared -------------------------------------------------------------------------------------------

    @property
    def journal(self) -> Journal:
        """The journal of the first cluster. Raises UsageError if it does not exist."""
        if not self.clusters:
            raise UsageError("the simulation has no cluster, and so no journal; create one with sim.cluster()")
        return self.clusters[0].journal

    def _watch(self, number: int, journal: Journal) -> None:
        """A journal has begun, of the cluster with that number."""

        def note(event: dict[str, Any]) -> None:
            if self.ending:
                return
            if self._recording is not None:
                self._recording.note(number, event)
            if self.hashes:
                self._unhashed.append((number, event))
                if len(self._unhashed) >= _PENDING:
                    self._digest_events()
            for listener in self._listeners:
                try:
                    listener(event)
                except Exception as error:
                    self.fail(error)

        journal.failed = self.fail
        if number < len(self._verifiers):  # it begins late
            journal.subscribe(self._verifiers[number].event)
        for event in journal.events:
            note(event)
        journal.subscribe(note)

    def _digest_events(self) -> None:
        for entry in self._unhashed:
            self._digest.update(hashed(entry))
        self._unhashed.clear()

    @property
    def journal_hash(self) -> str:
        """SHA-256 of all events of all journals until now; "" if they are not hashed."""
        if not self.hashes:
            return ""
        self._digest_events()
        return self._digest.copy().hexdigest()

    @property
    def schedule_hash(self) -> str:
        """SHA-256 of the iterations of the event loop until now."""
        return self.loop.schedule_hash

    def settle(self) -> None:
        """Called at the end of the block. Raises errors since time last advanced, and UsageError for a plan that never began."""
        if self.loop.native_sockets is not None:
            self.loop.native_sockets.look()
        self._raise()
        if self._to_come and self.elapsed_s and not self.clusters:
            raise UsageError("faults= had no effect: the test created no cluster (sim.cluster())")

    # --- the end --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End all tasks and the event loop; their actions and errors from now on are ignored."""
        self.ending = True
        loop = self.loop
        self.network.heal()
        in_loop.end(dead=True)
        for process in {p: None for t in asyncio.all_tasks(loop) if (p := getattr(t, "process", None)) is not None}:
            if process.state:
                process.state = 0
                loop.take_up(process.kept)
        loop.stopped = 0
        loop.without_pauses()
        loop.forbidden = loop.after_turn = loop.native_threads = loop.native_sockets = None
        for cluster in self.clusters:
            cluster.clear_disk_faults()
            self._stop(cluster)
        self.network.close()
        for _ in range(_ROUNDS):
            tasks = sorted((task for task in asyncio.all_tasks(loop) if not task.done()), key=hash)
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            try:
                loop.run_until(lambda tasks=tasks: all(task.done() for task in tasks), 1.0)  # type: ignore[misc]
            except SimError:
                continue
        in_loop.end()
        self.network.close()
        loop.without_timers()
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    def _stop(self, cluster: Cluster) -> None:
        try:
            self.loop.run(cluster.stop(), 10.0)
        except Exception as error:
            warnings.warn(f"a cluster did not stop when its simulation ended: {error!r}", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        pinned = "" if self.pinned else ", not pinned"
        return f"<simulation of seed {self.seed!r}{pinned} at {self.elapsed_s:.3f} s>"


def _text_of(condition: Callable[[], object]) -> str:
    code = getattr(condition, "__code__", None)
    name = getattr(condition, "__qualname__", repr(condition))
    return f"{name} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})" if code is not None else name


def simulate(
    seed: object = 0, *, without: Collection[str] = (), patience: object = "30s", **options: Any
) -> AbstractContextManager[Simulation]:
    """A simulation that lasts until the block ends. ``seed``: an int or a text. ``faults``: a `Swarm` or a list of faults.
    ``order="tasks"``: the seed also orders the tasks that are ready. ``trace``: the schedule hash includes the callbacks' names.
    ``link``: the default `Link`. ``invariants=False``: check none; ``waive``: names of invariants that are not checked. ``instead``:
    plans that replace all given or injected ones, in their order. ``noisy``: hosts with random task order, jitter and chunk sizes;
    None: all. ``patience``: real time that code may run without yielding to the event loop. ``without``: names of pins to leave out.
    The block raises UsageError; RuntimeError inside a running event loop."""
    return _Block(seed, tuple(without), patience, options)


class _Block:
    """A simulation from end to end: what `simulate` returns. An alarm is raised when all of it is there, or nothing."""

    def __init__(self, seed: object, without: tuple[str, ...], patience: object, options: dict[str, Any]) -> None:
        self._seed, self._without, self._patience, self._options = seed, without, patience, options
        self._alarms = Alarms()
        self._undo = ExitStack()

    @uninterrupted
    def __enter__(self) -> Simulation:
        if events._get_running_loop() is not None:
            raise RuntimeError("simulate() runs its own loop: use it in a function that is not a coroutine")
        with ExitStack() as undo:
            alarms = self._alarms = undo.enter_context(self._alarms)
            sim = Simulation(self._seed, **self._options)
            undo.callback(sim.loop.close)
            patience_s = duration_ms(self._patience, "patience") / 1000
            undo.enter_context(guarded(sim.loop, alarms, patience_s))
            undo.enter_context(_surroundings(sim, self._without))
            undo.enter_context(_inside(sim))
            alarms.due()
            self._undo = undo.pop_all()
        alarms.loop = sim.loop
        return sim

    @uninterrupted
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        alarms = self._alarms
        alarms.loop = None
        try:
            self._undo.__exit__(kind, error, traceback)
            alarms.due(error)
        except BaseException as raised:
            give_lines(raised)
            raise
        if error is not None:
            give_lines(error)


def _surroundings(sim: Simulation, without: tuple[str, ...]) -> AbstractContextManager[None]:
    return ambient(sim.loop, sim.seed, without=without, reasons=sim.not_pinned, also=in_loop.install)


@contextmanager
def _inside(sim: Simulation) -> Iterator[None]:
    """Code of the block runs in the simulation's loop, as no host's; what it has begun is ended afterwards."""
    PROCESS.set(None)
    events._set_running_loop(sim.loop)
    try:
        yield
        sim.settle()
    finally:
        try:
            sim.close()
        finally:
            events._set_running_loop(None)
            _collect()


def _collect() -> None:
    """A world that has ended is garbage, in cycles. It is collected now: a finaliser that runs later, in whatever test the collector
    happens to run, would fail that one. What finalisers warn of and log is no news: a crash leaves clients unclosed."""
    with silence(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()

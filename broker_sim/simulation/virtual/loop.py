"""An asyncio event loop on virtual time: no selector, no sockets, no threads, no wall clock.

Rules:
1. Time is a whole number of ticks of 2**-20 s, so that sums and differences of loop times are exact floats. It jumps to the next timer
   when nothing is ready.
2. A timer never fires at the instant at which it was armed: code that waits for ``deadline - now`` would else spin for ever where that
   is less than the precision of a float.
3. Work costs time: after 64 callbacks at one instant every turn of the loop adds a tick, so that code which polls the clock gets on.
4. ``call_soon`` is FIFO, as asyncio promises. With ``order="tasks"`` the seed permutes the steps of tasks that are ready in one turn,
   and nothing else: streams and protocols rely on the order of their callbacks. Each task draws its own place in the row, from (seed,
   host, process, coroutine, the how manieth of that name, the how manieth row): one task more changes nothing between the others.
   ``noisy``: hosts whose tasks are permuted, all others' keep their places; None: all.
5. Timers fire in the order of (when, arming).
6. No run hangs: `SimDeadlock`, `SimLivelock` and `SimTimeLimit` name the tasks.
7. Two runs that are the same have the same ``schedule_hash``: of every turn, when it was, how many callbacks ran, how many timers
   there had been. With ``trace`` it is also of the name of every callback.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import heapq
import math
import threading
from array import array
from asyncio import events
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from broker_sim.common.text import duration_text
from broker_sim.simulation.errors import SimDeadlock, SimForbidden, SimLivelock, SimTimeLimit, caller
from broker_sim.simulation.virtual.alarms import uninterrupted
from broker_sim.simulation.virtual.lots import Lot
from broker_sim.simulation.virtual.patches import threads
from broker_sim.simulation.virtual.process import PROCESS, Process
from broker_sim.simulation.virtual.task_names import SHOWN, callback_name, owner_of, tasks_text

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.native import NativeThreads
    from broker_sim.simulation.virtual.native_sockets import NativeSockets
    from broker_sim.simulation.virtual.network import SimNetwork

__all__ = ["TICKS", "SimFuture", "SimLoop", "SimTask", "tasks_text"]

T = TypeVar("T")

TICKS = 1 << 20
"""Ticks of a second."""

_TICK = 1 / TICKS
_START = 1024.0
_EVER = float(1 << 32)
"""Later than this nothing is armed: the loop's times stay exact."""

_FREE = 64
"""Callbacks at one instant that cost no time."""

_BUSY = 20_000
"""So many callbacks, and more where there are many tasks ..."""
_BUSY_S = 1 / 32
"""... in less time than this are a livelock."""
_BUSY_TURNS = 1000
"""Fewer turns are none: many tasks did something at the same time."""
_BUSY_A_TASK = 500


def _numbered(self: SimFuture | SimTask) -> int:
    """The hash of a future: a number that its loop gives at the first question."""
    try:
        return self._number
    except AttributeError:
        loop: Any = self.get_loop()
        self._number = loop.next_number()
        return self._number


class SimFuture(asyncio.Future[Any]):
    """A future whose hash is a number of its loop, not its address: sets of futures are iterated in the same order in every run."""

    __slots__ = ("_number",)

    _number: int

    __hash__ = _numbered


class SimTask(asyncio.Task[Any]):
    """A task, hashed as `SimFuture`; ``process``: whose it is; ``lot``: what draws its place in a row, None where it keeps it."""

    process: Process | None
    lot: Lot | None = None

    _number: int

    __hash__ = _numbered


class _Handle(asyncio.Handle):
    """asyncio's, made in fewer steps."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: SimLoop, context: contextvars.Context | None
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


_BaseEventLoop: Any = asyncio.BaseEventLoop  # whose callbacks are typed more strictly than a loop can be written


class _Timer(asyncio.TimerHandle):
    """asyncio's timer, made in fewer steps, as `_Handle`."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: SimLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        if not self._cancelled:
            self._loop._timer_handle_cancelled(self)
            self._cancelled = True
            self._callback = self._args = None  # type: ignore[assignment]


class SimLoop(_BaseEventLoop):  # type: ignore[misc]
    """An event loop on virtual time. ``epoch_s``: the wall clock time at its start, in seconds since 1970. ``order``: ``"fifo"`` or
    ``"tasks"`` (rule 4)."""

    _ready: Any
    _stopping: bool
    network: SimNetwork

    def __init__(
        self, seed: object = 0, *, order: str = "fifo", trace: bool = False, epoch_s: float = 1_700_000_000.0,
        noisy: Collection[str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.seed, self.order, self.epoch_s = seed, order, epoch_s
        self.noisy = None if noisy is None else frozenset(noisy)
        self.steps = 0
        """Callbacks that have run."""
        self.after_turn: Callable[[], object] | None = None
        """Called after every turn; what it raises ends the run."""
        self._pauses: list[tuple[float, int, Callable[[], object]]] = []
        self._paused = 0
        self.stopped = 0
        """Processes that are paused or dead."""
        self.native_threads: NativeThreads | None = None
        self.native_sockets: NativeSockets | None = None
        """Looked at whenever time has been let pass."""
        self.executed: Callable[..., Any] | None = None
        """Runs functions on threads: `run_in_executor`."""
        self.forbidden: BaseException | None = None
        """Forbidden act of simulated code, even if it has swallowed the exception; or the reason for ending the run."""
        self._ended_by: BaseException | None = None
        """Exception of the last run that no callback may suppress."""
        self._thread = threading.get_ident()
        self._now = _START
        self._heap: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers = 0
        self._cancelled = 0
        self._numbers = 0
        self._tasks_made = 0
        self._named: dict[str, int] = {}  # tasks by their places
        self._instant = 0  # steps when time last jumped
        self._window = (0, 0, self._now)  # steps, turns and time at the last check for a livelock
        self._turn_count = 0
        self._deadline = math.inf
        self._until: Callable[[], object] | None = None
        self._idles = False  # whether nothing to do is no deadlock
        self._expired = False
        self._turns = array("d")
        self._digest = hashlib.sha256()
        self._trace = trace

    # --- time -----------------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def wall(self) -> float:
        """The virtual time in seconds since 1970."""
        return self.epoch_s + (self._now - _START)

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now - _START

    def next_number(self) -> int:
        """The next number of a task or file descriptor, counted from 1: the same in every run of a seed, unlike an id."""
        self._numbers += 1
        return self._numbers

    def pause(self, at: float, callback: Callable[[], object]) -> None:
        """Before time goes past ``at``, when all is done that was to be done until then, ``callback`` is called, once; what it raises
        ends the run. It takes no time and is no callback of the run's."""
        self._paused += 1
        heapq.heappush(self._pauses, (at, self._paused, callback))

    def without_pauses(self) -> None:
        """Remove the callbacks that pause the loop."""
        self._pauses.clear()

    def without_timers(self) -> None:
        """Remove all timers: what nothing else refers to, such as the programs that they would have woken, is garbage then."""
        self._heap.clear()
        self._cancelled = 0

    # --- what asyncio asks of a loop --------------------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        now = self._now
        when = math.ceil(when * TICKS) * _TICK if when < _EVER else _EVER
        if when <= now:
            when = now + _TICK
        handle = _Timer(when, callback, args, self, context)
        self._timers += 1
        heapq.heappush(self._heap, (when, self._timers, handle))
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled += 1
        if self._cancelled > 256 and self._cancelled * 2 > len(self._heap):
            self._heap[:] = [entry for entry in self._heap if not entry[2].cancelled()]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def create_future(self) -> SimFuture:
        return SimFuture(loop=self)

    def create_task(
        self, coro: Any, *, name: object = None, context: contextvars.Context | None = None, **options: Any
    ) -> SimTask:
        self._check_closed()
        self._tasks_made += 1
        task = SimTask(
            coro,
            loop=self,
            name=f"task-{self._tasks_made}" if name is None else str(name),
            context=context,
            **options,
        )
        process = task.process = PROCESS.get() if context is None else context.get(PROCESS)
        if self.order == "tasks":
            host = "test" if process is None else process.host
            place = f"{host} {process and process.number} {getattr(coro, '__qualname__', coro)}"
            number = self._named[place] = self._named.get(place, 0) + 1
            calm = self.noisy is not None and host not in self.noisy
            task.lot = None if calm else Lot(f"{self.seed}/order/{place} {number}")
        return task

    # --- running --------------------------------------------------------------------------------------------------------

    def run_forever(self) -> None:
        inside = events._get_running_loop() is self  # between two runs the test is inside of it: `world`
        if inside:
            events._set_running_loop(None)
        try:
            super().run_forever()
        finally:
            if inside:
                events._set_running_loop(self)

    def run_for(self, seconds: float) -> None:
        """Run for so many virtual seconds, also if nothing is scheduled until then."""
        self._drive(self._now + seconds, None, idles=True)

    def run_until(self, condition: Callable[[], object], within_s: float, what: str = "a condition") -> None:
        """Run until ``condition()`` holds; it is looked at after every turn. Raises SimTimeLimit."""
        if condition():
            return
        self._drive(self._now + within_s, condition, idles=False)
        if self._expired:
            limit = duration_text(round(within_s * 1000))
            raise SimTimeLimit(f"{what}: not within {limit} of virtual time\n{tasks_text(self)}")

    def run(self, coro: Coroutine[Any, Any, T], within_s: float = math.inf, what: str = "") -> T:
        """Run the coroutine to its end. Raises SimTimeLimit, and what it raises."""
        task = self.create_task(coro, name=what or getattr(coro, "__qualname__", None))
        try:
            self._drive(self._now + within_s, task.done, idles=False)
        except BaseException:
            task.cancel()
            raise
        if not task.done():
            task.cancel()
            limit = duration_text(round(within_s * 1000))
            raise SimTimeLimit(f"{task.get_name()}: not done within {limit} of virtual time\n{tasks_text(self)}")
        result: T = task.result()
        return result

    def run_until_complete(self, future: Any) -> Any:
        """Run until the future is done and return its result, as asyncio's method; called by code that expects an asyncio loop."""

        async def wait() -> Any:
            return await future

        return self.run(wait())

    @uninterrupted
    def _drive(self, deadline: float, until: Callable[[], object] | None, *, idles: bool) -> None:
        if deadline < math.inf:
            deadline = math.ceil(deadline * TICKS) * _TICK
        self._deadline, self._until, self._idles, self._expired = deadline, until, idles, False
        try:
            self.run_forever()
        finally:
            self._deadline, self._until, self._idles = math.inf, None, False
        self._raise_forbidden()
        if self.native_threads is not None:
            self.native_threads.look()
        if self.native_sockets is not None:
            self.native_sockets.look()

    def _raise_forbidden(self) -> None:
        if self.forbidden is not None:
            forbidden, self.forbidden = self.forbidden, None
            raise forbidden

    def _run_once(self) -> None:
        """Iterations until the loop is stopped. asyncio's _run_once and run_forever in one function with local names: a sweep spends
        most of its time here."""
        ready, until, after_turn = self._ready, self._until, self.after_turn
        record, trace, shuffled = self._turns.extend, self._trace, self.order == "tasks"
        take, pop = ready.popleft, heapq.heappop
        handle, timer = cast(Any, None), cast(Any, None)
        try:
            while True:
                heap = self._heap
                if not ready:
                    if self._stopping or not self._pass_time(heap):
                        return
                elif self.steps - self._instant > _FREE:
                    self._now += _TICK
                now = self._now
                while heap and heap[0][0] <= now:
                    timer = pop(heap)[2]
                    timer._scheduled = False  # type: ignore[attr-defined]
                    if timer._cancelled:
                        self._cancelled -= 1
                    else:
                        ready.append(timer)
                count = len(ready)
                if shuffled and count > 1:
                    self._permute()
                self._turn_count += 1
                record((now, count, self._timers))
                self.steps += count
                for _ in range(count):
                    handle = take()
                    if handle._cancelled:
                        continue
                    if self.stopped:
                        process = handle._context.get(PROCESS)
                        if process is not None and process.state:
                            process.kept.append(handle)
                            continue
                    if trace:
                        self._note(handle)
                    try:
                        handle._context.run(handle._callback, *handle._args)
                    except (Exception, asyncio.CancelledError) as error:  # not what ends a test: its time is up, Ctrl-C
                        self._failed(handle, error)
                    except BaseException as error:
                        if error is not self._ended_by:  # once: each task that waited for its task raises it again
                            self._ended_by = error
                            raise
                if self.forbidden is not None:
                    self._raise_forbidden()
                if after_turn is not None:
                    after_turn()
                if self.steps - self._window[0] > _BUSY:
                    self._look_for_livelock()
                if until is not None and until():
                    self._stopping = True
                if self._stopping:
                    return
        finally:  # the traceback of a cancelled task may keep this frame (Python 3.13), which is not to keep the programs
            handle = timer = None

    def _pass_time(self, heap: list[tuple[float, int, asyncio.TimerHandle]]) -> bool:
        """Jump to the next timer; False where the run ends before."""
        while heap and heap[0][2].cancelled():
            heapq.heappop(heap)
            self._cancelled -= 1
        if not heap and not self._idles:
            raise SimDeadlock(f"nothing is ready and no timer is armed: every task waits for ever\n{tasks_text(self)}")
        when = heap[0][0] if heap else math.inf
        if self._pauses and when > self._pauses[0][0]:
            self._call_pauses(when)
        if when > self._deadline:
            self._now = max(self._now, self._deadline)
            self._instant = self.steps
            self._stopping = self._expired = True
            return False
        if when > self._now:
            self._now = when
            self._instant = self.steps
        return True

    def _call_pauses(self, when: float) -> None:
        """Call all callbacks of pauses that are due before ``when``; pauses that they ask for there come at the next jump of time."""
        due = []
        while self._pauses and self._pauses[0][0] < when:
            due.append(heapq.heappop(self._pauses)[2])
        for callback in due:
            callback()

    def _failed(self, handle: asyncio.Handle, error: BaseException) -> None:
        context = {"message": f"Exception in callback {callback_name(handle)}", "exception": error, "handle": handle}
        self.call_exception_handler(context)

    def _permute(self) -> None:
        """Let the seed order the task steps that are ready; all else keeps its place."""
        ready = self._ready
        places, drawn = [], []
        for at, handle in enumerate(ready):
            lot = getattr(owner_of(handle), "lot", None)
            if lot is not None:
                places.append(at)
                drawn.append((lot.next(), at))
        if len(places) < 2:
            return
        drawn.sort()
        handles = list(ready)
        for place, (_, taken) in zip(places, drawn, strict=True):
            ready[place] = handles[taken]
        self._turns.extend(taken for _, taken in drawn)

    # --- errors -----------------------------------------------------------------------------------------------------------

    def _look_for_livelock(self) -> None:
        steps, turns, since = self._window
        if self._now - since >= _BUSY_S:
            self._window = (self.steps, self._turn_count, self._now)
            return
        allowed = _BUSY + _BUSY_A_TASK * len(asyncio.all_tasks(self))
        if self.steps - steps <= allowed or self._turn_count - turns <= _BUSY_TURNS:
            return
        self._window = (self.steps, self._turn_count, self._now)
        soon = [handle for when, _, handle in self._heap if when <= self._now + _FREE * _TICK]
        names = Counter(map(callback_name, [*self._ready, *soon]))
        listed = ", ".join(f"{name} ({count})" for name, count in names.most_common(SHOWN))
        raise SimLivelock(
            f"{self.steps - steps} callbacks in {(self._now - since) * 1000:.3f} ms of virtual time, "
            f"at {self.elapsed_s:.6f} s: {listed}\n{tasks_text(self)}"
        )

    def draw_anew(self, seed: object) -> None:
        """From now on tasks draw their places from ``seed``: those that there are, and those to come."""
        self.seed = seed
        if self.order == "tasks":
            for number, task in enumerate(sorted(asyncio.all_tasks(self), key=hash)):
                if getattr(task, "lot", None) is not None:
                    task.lot = Lot(f"{seed}/order/there {number}")  # type: ignore[attr-defined]

    def take_up(self, handles: list[asyncio.Handle]) -> None:
        """Callbacks that were kept while their process was paused."""
        self._ready.extend(handles)

    def forbid(self, what: str, instead: str) -> NoReturn:
        """Simulated code reached for the real world. Raises SimForbidden, and the run does so too if the code catches that."""
        process = PROCESS.get()
        where = f" on host {process.host}" if process is not None else ""
        error = SimForbidden(f"{what} is not possible in a simulation{where}{caller()}: {instead}")
        if events._get_running_loop() is self and self.is_running():
            self.forbidden = self.forbidden or error
        raise error

    # --- the schedule ------------------------------------------------------------------------------------------------------

    @property
    def schedule_hash(self) -> str:
        """Hash of all turns until now: see rule 7."""
        self._digest.update(self._turns.tobytes())
        del self._turns[:]
        return self._digest.copy().hexdigest()

    def _note(self, handle: asyncio.Handle) -> None:
        self._digest.update(f"{self._now!r} {callback_name(handle)}\n".encode())

    # --- the outside world -------------------------------------------------------------------------------------------------

    def _process_events(self, event_list: Iterable[object]) -> None: ...

    def _write_to_self(self) -> None: ...

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        me = threading.get_ident()
        if me != self._thread and me not in threads():
            self.forbid("calling into the loop from another thread", "do the work in a coroutine")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """The function runs on a thread of the simulation: see ``sync.in_loop``."""
        if self.executed is None:
            self.forbid("an executor without a simulation", "use simulate()")
        return self.executed(executor, func, *args)

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        return self.network.getaddrinfo(host, port)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        return self.network.name_of(sockaddr[0]), str(sockaddr[1])

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, ssl: Any = None, sock: Any = None, **_: Any
    ) -> Any:
        if ssl:
            self.forbid("a connection over TLS", "connect without it")
        if sock is None:
            return await self.network.connect(protocol_factory, host, port)
        transport = self._connected(sock).handed_over()
        protocol = protocol_factory()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        transport.resume_reading()
        return transport, protocol

    def _connected(self, sock: Any) -> Any:
        if not hasattr(sock, "handed_over"):
            self.forbid("a socket of another kind", "connect one that was made in a coroutine, with loop.sock_connect")
        return sock

    async def sock_connect(self, sock: Any, address: Any) -> None:
        await self._connected(sock).connected(address)

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, ssl: Any = None, sock: Any = None, **_: Any
    ) -> Any:
        if ssl:
            self.forbid("a server with TLS", "listen without TLS")
        return self.network.serve(protocol_factory, host, port, sock)

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:
        """Accepted without effect: a simulated process gets no signals."""

    def remove_signal_handler(self, sig: int) -> bool:
        return False

    def _reject(self, *_: Any, **__: Any) -> Any:
        self.forbid("files, pipes, subprocesses and datagrams", "hosts can talk over TCP connections alone")

    add_reader = remove_reader = add_writer = remove_writer = _reject
    create_datagram_endpoint = subprocess_exec = subprocess_shell = _reject
    connect_read_pipe = connect_write_pipe = create_unix_connection = create_unix_server = _reject
    sock_recv = sock_sendall = sock_accept = sock_recv_into = sock_sendfile = _reject


def _settle(settle: Callable[[Any], None], value: object) -> None:
    with contextlib.suppress(asyncio.InvalidStateError):  # it may have been cancelled meanwhile
        settle(value)

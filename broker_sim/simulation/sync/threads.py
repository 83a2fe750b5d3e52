"""Synchronous programs on simulated hosts: threads that run one at a time, in virtual time.

    host.spawn_sync(consume)                # an ordinary function: time.sleep, sockets, threads, kafka-python's clients

A thread of a simulation is a real one that runs only while it has the baton. The loop hands it over in a callback and waits until the
thread blocks - in a sleep, a lock, an event, a queue, a socket, a selector, a join - or ends. To the loop a thread's way from one wait
to the next is one callback, so that crashes, pauses, links and the order of things are what they are for tasks.

Rules:
1. What blocks is virtual for these threads alone: `install` patches it when the first one starts.
2. No thread is preempted: between two waits it is alone. But one that works on without a wait gives the baton away after `_WORK` looks
   at a clock or a socket, for a while, so that who polls gets on; and to take the baton up again takes time.
3. Threads that wait for each other's locks, or for each other's ends, in a ring end the run: `SimDeadlock` names them.
4. Of a process that has crashed no thread ever runs again. At the end of the simulation they are ended where they wait, by an exception
   that is no ``Exception``.
5. What would reach the real world from such a thread raises `SimForbidden`, as it does elsewhere.
"""

from __future__ import annotations

import _thread
import asyncio
import logging
import sys
import threading
import warnings
from _thread import allocate_lock, get_ident
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from broker_sim.simulation.errors import SimDeadlock, SimForbidden
from broker_sim.simulation.virtual.in_place import untouched
from broker_sim.simulation.virtual.patches import current as current_patches
from broker_sim.simulation.virtual.process import PROCESS, RUNNING, context_of

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.loop import SimLoop
    from broker_sim.simulation.virtual.patches import Patches

__all__ = ["SimLock", "SimRLock", "SimThread", "Threads", "current"]

T = TypeVar("T")

_WORK = 64
"""Looks at clocks, sockets and locks between two waits, before a thread has to wait for a moment: they are what a loop that is busy
waiting does, some of kafka-python's among them."""

_WORK_S = 2.0**-10
"""Wait after so many looks: 1 ms, about what they take in the real world ..."""

_SLOWER = 4
"""... and after every sixteen times twice as long, so often. Else a second that is waited out so would take a second."""

_SWITCH_S = 2.0**-14
"""61 us: how long it takes until a thread that may go on does. Without it one that waits for what is left of a millisecond, in whole
milliseconds, looks at the clock a thousand times, as kafka-python does."""

_STUBBORN = 1000
"""Number of times that the end of the run is raised in a thread."""

_PATIENCE_S = 5.0
"""Real seconds that a thread has to end in, at the end of a simulation."""


class _Ended(BaseException):
    """The simulation is over, and so is this thread."""


class SimThread:
    """One thread. ``needs``: who must do something before it can go on, where that is known."""

    def __init__(self, threads: Threads, name: str, run: Callable[[], Any]) -> None:
        self.threads, self.name, self._run = threads, name, run
        self.loop = threads.loop
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.needs: Callable[[], SimThread | None] = _nobody
        self.waits_for = "the beginning"
        self.ident: int | None = None
        self._context = context_of(PROCESS.get())
        self._go, self._back = allocate_lock(), allocate_lock()
        self._go.acquire()
        self._back.acquire()
        self._turn = 0
        self.due = False
        """Whether it may go on, and its turn has not come."""
        self._work = self._busy = 0
        self._timer: asyncio.TimerHandle | None = None
        self._killed = False
        self._refused = 0
        self._watchers: list[SimThread] = []
        self._end = self.loop.create_future()

    # --- in the loop's thread

    def begin(self) -> asyncio.Task[Any]:
        """Start the thread, whose OS thread waits for the baton already. Returns its task; to cancel the task ends the thread."""
        task = self.loop.create_task(self._lives(), name=f"thread {self.name}", context=self._context)
        task.thread = self  # type: ignore[attr-defined]
        self._is_due()
        self.loop.call_soon(self._step, self._turn, context=self._context)
        return task

    async def _lives(self) -> Any:
        try:
            await self._end
        except asyncio.CancelledError:
            self.kill()
            raise
        if isinstance(self.error, SystemExit):  # the end of the program, not of the test's process
            if self.error.code:
                raise RuntimeError(f"{self.name} has ended with sys.exit({self.error.code!r})") from self.error
        elif self.error is not None:
            raise self.error
        return self.result

    def _is_due(self) -> None:
        if not self.due:
            self.due = True
            self.threads.due.append(self)

    def take_turn(self) -> None:
        """Let the thread run at once; the caller waits for it in the loop."""
        self._step(self._turn)

    def _step(self, turn: int) -> None:
        """Let it run to its next wait."""
        if turn != self._turn or self.done:
            return
        self._turn += 1
        self.due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self._hand_over(-1)
        except (
            BaseException
        ) as error:  # the test's time is up, or a timeout expired: it runs until its next blocking call
            self._killed = True
            error.add_note(str(self))
            raise
        if self.done:
            self._settle()

    def _hand_over(self, patience_s: float) -> bool:
        self._go.release()
        return self._back.acquire(True, patience_s)

    def _settle(self) -> None:
        for watcher in self._watchers:
            watcher.wake()
        if not self._end.done():
            self._end.set_result(None)

    def kill(self) -> None:
        """End it where it waits."""
        if self.done:
            return
        self._killed = True
        with silence():
            self._hand_over(_PATIENCE_S)
        if not self.done:
            warnings.warn(f"thread {self.name} did not end with its simulation", ResourceWarning, stacklevel=2)

    def stands_still(self) -> bool:
        """Whether its process is paused, or dead."""
        process = self._context.get(PROCESS)
        return process is not None and process.state != RUNNING

    @property
    def over(self) -> bool:
        """Whether the thread has been asked to end."""
        return self._killed

    # --- in its own thread

    def main(self) -> None:
        """Main function of the OS thread."""
        self._go.acquire()
        self.ident = get_ident()
        self.threads.all[self.ident] = self
        self.threads.patches.native_ids.add(str(threading.get_native_id()))
        try:
            if not self._killed:
                self._context.copy().run(self._live)
        finally:
            del self.threads.all[self.ident]
            self.threads.living.pop(self, None)
            self._run = _nobody  # its program is garbage when the simulation ends, and not of whatever runs later
            self.done = True
            self._back.release()

    def _live(self) -> None:
        try:
            self.result = self._run()
        except _Ended:
            pass
        except BaseException as error:
            self.error = error

    def wait(self, timeout_s: float | None, what: str) -> None:
        """Pass the baton until ``wake`` is called, or that much time has passed. The waiting thread checks its condition itself."""
        if self._killed:
            self._refuse()
        if timeout_s is not None:
            self._timer = self.loop.call_later(max(timeout_s, 0.0), self._step, self._turn, context=self._context)
        self._park(what)

    def yield_(self) -> None:
        """Let all go first who are ready."""
        if self._killed:
            self._refuse()
        self.loop.call_later(_SWITCH_S, self._step, self._turn, context=self._context)
        self._park("its turn")

    def work(self) -> None:
        """Count a call that costs no virtual time; after too many, wait (rule 2)."""
        self._work += 1
        if self._work > _WORK:
            busy = self._busy + 1
            self.wait(_WORK_S * 2 ** min(busy // 16, _SLOWER), "its turn")
            self._busy = busy

    def _refuse(self) -> NoReturn:
        """Raise `_Ended` in a thread that was ended; one that keeps catching it is blocked for ever."""
        self._refused += 1
        if self._refused > _STUBBORN:
            self._back.release()
            while True:
                self._go.acquire()
        raise _Ended

    def _park(self, what: str) -> None:
        self._work = self._busy = 0
        self.waits_for = what
        self._back.release()
        self._go.acquire()
        self.waits_for = ""
        if self._killed:
            self._refuse()

    def wait_for(self, needs: Callable[[], SimThread | None], timeout_s: float | None, what: str) -> None:
        """As ``wait``, for something that one other thread must do. Raises SimDeadlock where that one waits for this."""
        self.needs = needs
        try:
            if timeout_s is None:
                self._look_for_ring(what)
            self.wait(timeout_s, what)
        finally:
            self.needs = _nobody

    def _look_for_ring(self, what: str) -> None:
        ring, other = [self], self.needs()
        while other is not None and other not in ring:
            ring.append(other)
            other = other.needs()
        if other is self:
            self.waits_for = what
            lines = "\n".join(f"  {waiter}" for waiter in ring)
            error = SimDeadlock(f"threads wait for each other:\n{lines}")
            self.loop.forbidden = error
            raise error

    def forbid(self, what: str, instead: str) -> NoReturn:
        """As the loop's. It ends the run, whatever the thread catches."""
        try:
            self.loop.forbid(what, instead)
        except SimForbidden as error:
            self.loop.forbidden = error
            raise

    # --- for others

    def wake(self) -> None:
        """Let the thread continue, if it waits."""
        self._is_due()
        self.loop.call_later(_SWITCH_S, self._step, self._turn, context=self._context)

    def join(self, joiner: SimThread, timeout_s: float | None) -> None:
        """Let ``joiner`` wait for its end."""
        deadline_s = None if timeout_s is None else self.loop.time() + timeout_s
        self._watchers.append(joiner)
        try:
            while not self.done:
                left_s = None if deadline_s is None else deadline_s - self.loop.time()
                if left_s is not None and left_s <= 0:
                    return
                joiner.wait_for(lambda: self, left_s, f"the end of thread {self.name}")
        finally:
            self._watchers.remove(joiner)

    def __str__(self) -> str:
        process = self._context.get(PROCESS)
        host = f"{process.host}: " if process is not None else ""
        return f"{host}thread {self.name} waits for {self.waits_for or 'nothing'}{self.place()}"

    def place(self) -> str:
        """The line that the thread executes, as text: file and line."""
        frame = sys._current_frames().get(self.ident or -1)
        while frame is not None and frame.f_globals.get("__name__", "") in _PLUMBING:
            frame = frame.f_back
        return "" if frame is None else f" at {frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"


_PLUMBING = (
    *(
        __name__,
        "broker_sim.simulation.sync.blocking",
        "broker_sim.simulation.sync.sockets",
        "broker_sim.simulation.virtual.patches",
    ),
    *("threading", "queue", "selectors", "socket", "contextlib"),
)
"""Modules whose frames are left out of the position of a program."""


def _nobody() -> None:
    return None


class Threads:
    """All threads of one simulation."""

    def __init__(self, patches: Patches) -> None:
        self.patches = patches
        self.loop: SimLoop = patches.loop
        self.all: dict[int, SimThread] = patches.threads
        self.living: dict[SimThread, None] = {}
        """Threads that have not ended; some may not have begun."""
        self.due: deque[SimThread] = deque()
        """Threads that may continue, in the order in which they could; some have continued since."""
        self._named = 0

    def make(self, run: Callable[[], Any], name: str | None = None) -> SimThread:
        """A thread that has not begun. Its OS thread is up."""
        with self.patches.lifted():
            thread = threading.Thread(name=name or self.next_name(), daemon=True)
            return self.adopt(thread, run)

    def next_due(self) -> SimThread | None:
        """The first that may go on, of a process that runs."""
        while self.due:
            thread = self.due.popleft()
            if thread.due and not thread.done and not thread.stands_still():
                return thread
        return None

    def end(self, *, dead: bool = False) -> None:
        """All, or those of processes that have crashed: they do nothing any more, at the end of the simulation either."""
        for thread in list(self.living):
            if not thread.over and (not dead or thread.stands_still()):
                thread.kill()

    def next_name(self) -> str:
        """For a thread that was given none: Python's own count goes on from one simulation to the next."""
        self._named += 1
        return f"Thread-{self._named}"

    def begin(self, thread: threading.Thread) -> None:
        """Start a thread that was created elsewhere, as code of the running host."""
        self.adopt(thread, thread.run).begin().add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is not None:
            message = f"Exception in {task.get_name()}"
            self.loop.call_exception_handler({"message": message, "exception": task.exception(), "task": task})

    def adopt(self, thread: threading.Thread, run: Callable[[], Any]) -> SimThread:
        """As ``make``, for a thread that was created and not started."""
        sim_thread = SimThread(self, thread.name, run)
        self.living[sim_thread] = None
        with self.patches.lifted():
            thread.daemon = True  # if the worst comes to the worst, Python can end
            thread.run = sim_thread.main  # type: ignore[method-assign]
            thread.start()
        thread._in_simulation = sim_thread  # type: ignore[attr-defined]
        return sim_thread


def current() -> SimThread | None:
    """The simulation's thread that asks; None for all others."""
    patches = current_patches()
    return None if patches is None else patches.threads.get(get_ident())


# --- locks -----------------------------------------------------------------------------------------------------------


class _QueuePlace:
    """A thread's place in the queue for a lock."""

    __slots__ = ("granted", "thread")

    def __init__(self, thread: SimThread) -> None:
        self.thread, self.granted = thread, False


class SimLock:
    """As ``threading.Lock``. The simulation's threads get it in the order of coming. To all others it is a real one: a module that is
    first imported by one of those threads may keep it for good."""

    _make_real: Callable[[], Any] = staticmethod(untouched(allocate_lock))

    def __init__(self) -> None:
        self._owner: SimThread | None = None
        self._waiting: deque[_QueuePlace] = deque()
        self._real = self._make_real()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = current()
        if me is None:
            return self._acquire_outside(blocking, timeout)
        me.work()
        if self._owner is None and not self._taken_outside():
            self._owner = me
            return True
        if not blocking or timeout == 0:
            return False
        return self._wait(me, None if timeout < 0 else timeout)

    def _acquire_outside(self, blocking: bool, timeout: float) -> bool:
        if self._owner is not None and not self._owner.done:
            if blocking:
                raise RuntimeError(
                    f"a lock held by a thread of the simulation, which no other thread can wait for: {self._owner}"
                )
            return False
        taken: bool = self._real.acquire(blocking, timeout)
        return taken

    def _taken_outside(self) -> bool:
        taken: bool = self._real.locked()
        return taken

    def _wait(self, me: SimThread, timeout_s: float | None) -> bool:
        deadline_s = None if timeout_s is None else me.loop.time() + timeout_s
        place = _QueuePlace(me)
        self._waiting.append(place)
        try:
            while not place.granted:
                left_s = None if deadline_s is None else deadline_s - me.loop.time()
                if left_s is not None and left_s <= 0:
                    return False
                me.wait_for(lambda: self._owner, left_s, "a lock")
        except BaseException:
            if place.granted:  # it is not wanted any more
                self._free()
            raise
        finally:
            if not place.granted:
                self._waiting.remove(place)
        return True

    def release(self) -> None:
        if current() is None and self._taken_outside():
            self._real.release()
        elif self._owner is None:
            raise RuntimeError("release unlocked lock")
        if not self._taken_outside():
            self._free()

    def _free(self) -> None:
        """Release the lock; the next waiting thread gets it."""
        self._owner = None
        if self._waiting:
            heir = self._waiting.popleft()
            heir.granted, self._owner = True, heir.thread
            heir.thread.wake()

    def locked(self) -> bool:
        return self._owner is not None or self._taken_outside()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]


class SimRLock(SimLock):
    """A reentrant lock as ``threading.RLock``; outside a simulated thread it is a real one."""

    _make_real = staticmethod(_thread.RLock)

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        self._outside = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = current()
        if me is not None and self._owner is me:
            self._count += 1
            return True
        taken = super().acquire(blocking, timeout)
        if taken and me is not None:
            self._count = 1
        elif taken:
            self._outside += 1
        return taken

    def _taken_outside(self) -> bool:
        return self._outside > 0

    def release(self) -> None:
        me = current()
        if me is None:
            self._real.release()  # or it raises
            self._outside -= 1
            if not self._outside and self._waiting:
                self._free()
            return
        if self._owner is not me:
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._free()

    # what threading.Condition asks of a lock that can be taken twice

    def _is_owned(self) -> bool:
        me = current()
        return bool(self._real._is_owned()) if me is None else self._owner is me

    def _recursion_count(self) -> int:
        return (self._outside if current() is None else self._count) if self._is_owned() else 0

    def _release_save(self) -> int:
        count = self._outside if current() is None else self._count
        for _ in range(count):
            self.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        for _ in range(count):
            self.acquire()


@contextmanager
def silence() -> Iterator[None]:
    """Suppress log records of clients while they are ended, which are no part of the run, and errors of their finalisers."""
    hook, before = sys.unraisablehook, logging.root.manager.disable

    def unraisable(what: sys.UnraisableHookArgs) -> None:
        if not isinstance(what.exc_value, _Ended):
            hook(what)

    logging.disable()  # which also makes loggers forget what they took for enabled: they must not remember this
    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        logging.disable(before)
        sys.unraisablehook = hook

"""Synchronous programs: everything that blocks is virtual, on hosts that crash and stand still; and what they can't do."""

from __future__ import annotations

import _thread
import asyncio
import atexit
import concurrent.futures
import datetime
import logging
import queue
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from broker_sim.simulation import SimDeadlock, SimForbidden, SimStuck, SimTimeLimit, Simulation, simulate
from broker_sim.simulation.sync.threads import SimThread
from tests.simulation.sync import ends, no_thread_is_left, result_of, together
from tests.support import leftovers

pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
"""kafka-python reads its files so."""


# --- time and what waits -------------------------------------------------------------------------------------------------


def test_sleeping_takes_virtual_time_and_no_other() -> None:
    def sleep() -> tuple[float, float, float]:
        wall, monotonic, now = time.time(), time.monotonic(), datetime.datetime.now()
        time.sleep(3600)
        took = datetime.datetime.now() - now
        return time.time() - wall, time.monotonic() - monotonic, took.total_seconds()

    assert result_of(sleep, within="2h") == (3600, 3600, 3600)  # pytest's timeout is far shorter


def an_event() -> Any:
    event, began = threading.Event(), time.monotonic()

    def waits() -> float:
        assert not event.wait(1)
        assert event.wait()
        return time.monotonic() - began

    def sets() -> None:
        time.sleep(5)
        event.set()

    return round(together(waits, sets)[0], 3)


def a_queue() -> Any:
    inbox: queue.Queue[int] = queue.Queue(2)
    gone: list[float] = []

    def puts() -> None:
        for number in range(5):
            inbox.put(number)
            gone.append(round(time.monotonic()))

    def gets() -> list[int]:
        taken = []
        for _ in range(5):
            time.sleep(1)
            taken.append(inbox.get())
        with pytest.raises(queue.Empty):
            inbox.get(timeout=2)
        return taken

    taken = together(puts, gets)[1]
    return taken, [each - gone[0] for each in gone]


def a_lock() -> Any:
    lock, order, held = threading.Lock(), [], []

    def takes(name: int) -> Callable[[], None]:
        def run() -> None:
            time.sleep(name / 100)
            with lock:
                order.append(name)
                held.append(round(time.monotonic()))
                time.sleep(10)

        return run

    def gives_up() -> bool:
        time.sleep(0.5)
        return lock.acquire(timeout=3)

    together(takes(2), takes(1), takes(3), gives_up)
    assert not lock.locked()
    return order, [each - held[0] for each in held]


def a_lock_that_can_be_taken_twice() -> Any:
    lock, order = threading.RLock(), []

    def twice() -> None:
        with lock, lock:
            time.sleep(1)
            order.append("twice")

    def once() -> None:
        time.sleep(0.1)
        with lock:
            order.append("once")

    together(twice, once)
    with pytest.raises(RuntimeError):
        lock.release()
    return order


def a_condition() -> Any:
    condition, ready = threading.Condition(), []

    def waits() -> bool:
        with condition:
            return condition.wait_for(lambda: len(ready) == 3, timeout=60)

    def notifies() -> None:
        for number in range(3):
            time.sleep(1)
            with condition:
                ready.append(number)
                condition.notify_all()

    return together(waits, waits, notifies)[:2]


def a_pool() -> Any:
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(lambda number=number: (time.sleep(10), number)[1]) for number in range(4)]
        return [future.result() for future in futures], round(time.monotonic() - began, 1)


def a_timer() -> Any:
    began, fired = time.monotonic(), []
    threading.Timer(7, lambda: fired.append(round(time.monotonic() - began, 2))).start()
    time.sleep(8)
    return fired


def a_barrier_and_semaphores() -> Any:
    barrier, slots = threading.Barrier(3), threading.BoundedSemaphore(1)
    most, inside = [0], [0]

    def run() -> int:
        barrier.wait()
        with slots:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(1)
            inside[0] -= 1
        return most[0]

    return together(run, run, run)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (an_event, 5.0),
        (a_queue, ([0, 1, 2, 3, 4], [0, 0, 1, 2, 3])),
        (a_lock, ([1, 2, 3], [0, 10, 20])),
        (a_lock_that_can_be_taken_twice, ["twice", "once"]),
        (a_condition, [True, True]),
        (a_pool, ([0, 1, 2, 3], 20.0)),
        (a_timer, [7.0]),
        (a_barrier_and_semaphores, [1, 1, 1]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_threads_wait_for_is_virtual(function: Callable[[], Any], expected: object) -> None:
    with no_thread_is_left():
        assert result_of(function) == expected


def test_threads_know_who_they_are() -> None:
    def who() -> list[str]:
        names = [threading.current_thread().name]
        thread = threading.Thread(target=lambda: names.append(threading.current_thread().name), name="other")
        assert not thread.is_alive()
        with pytest.raises(RuntimeError, match="before it is started"):
            thread.join()
        thread.start()
        assert thread.is_alive()
        with pytest.raises(RuntimeError, match="only be started once"):
            thread.start()
        thread.join(60)
        return names

    assert result_of(who) == ["who", "other"]


def test_the_test_and_its_programs_may_share_an_event_and_a_queue() -> None:
    stop, told = threading.Event(), queue.Queue[float]()

    def program() -> None:
        while not stop.wait(10):
            told.put(time.monotonic())

    with simulate(1) as sim:
        task = sim.host("sync").spawn_sync(program)
        sim.run_for(35)
        stop.set()
        sim.run_until(task.done, within="1s")
        assert [round(told.get() - 1024) for _ in range(told.qsize())] == [10, 20, 30]


# --- hosts ---------------------------------------------------------------------------------------------------------------


class Clock:
    """Notes the time once a second, on two threads."""

    def __init__(self, sim: Simulation) -> None:
        self.sim, self.noted, self.cleaned_up = sim, list[int](), 0

    def __call__(self) -> None:
        threading.Thread(target=self.run).start()
        self.run()

    def run(self) -> None:
        try:
            while True:
                time.sleep(1)
                self.noted.append(round(self.sim.elapsed_s))
        finally:
            self.cleaned_up += 1


def test_of_a_host_that_has_crashed_nothing_runs_and_one_that_is_paused_stands_still() -> None:
    with no_thread_is_left(), simulate(1) as sim:
        clock = Clock(sim)
        sim.host("sync").spawn_sync(clock)
        sim.run_for(3.5)
        assert clock.noted == [1, 1, 2, 2, 3, 3]
        sim.pause("sync")
        sim.run_for(10)
        sim.resume("sync")
        sim.run_for(0.01)
        assert clock.noted[6:] == [14, 14], "a sleep that is over while it stands still"
        sim.crash("sync")
        sim.run_for(10)
        assert len(clock.noted) == 8
        assert clock.cleaned_up == 0, "no finally runs in a crash"
        sim.restart("sync")
        sim.run_for(1.5)
        assert len(clock.noted) == 10
    assert clock.cleaned_up == 4, "they end with the simulation"


def test_a_task_that_is_cancelled_ends_its_thread() -> None:
    with simulate(1) as sim:
        clock = Clock(sim)
        task = sim.host("sync").spawn_sync(clock.run)
        sim.run_for(1.5)
        task.cancel()
        sim.run_for(5)
        assert (clock.noted, clock.cleaned_up) == ([1], 1)


def test_what_a_thread_logs_at_its_end_is_not_shown_and_its_logger_is_heard_afterwards(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("a logger that nobody has asked before")

    def program() -> None:
        try:
            time.sleep(1000)
        finally:
            logger.error("ended")

    with simulate(1) as sim:
        sim.host("sync").spawn_sync(program)
        sim.run_for(1)
    logger.error("afterwards")
    assert caplog.messages == ["afterwards"]


@pytest.mark.parametrize("code", [None, 0, 3, "why"])
def test_a_program_that_exits_ends_itself_and_not_the_tests(code: Any) -> None:
    def exits() -> None:
        threading.Thread(target=lambda: sys.exit(0)).start()
        time.sleep(1)
        sys.exit(code)

    if code:
        with pytest.raises(RuntimeError, match=r"exits has ended with sys\.exit"):
            result_of(exits)
    else:
        assert result_of(exits) is None


def test_a_program_may_be_started_again_when_it_raises() -> None:
    began: list[float] = []
    with simulate(1) as sim:

        def fails() -> None:
            began.append(round(sim.elapsed_s, 1))
            time.sleep(2)
            raise ValueError("no")

        sim.host("sync").spawn_sync(fails, again="3s")
        sim.run_for(11)
        assert began == [0, 5, 10]
        assert [str(error) for _, error in sim.host("sync").failures] == ["no", "no"]


def test_what_a_program_raises_ends_the_run_and_what_its_threads_raise_is_kept() -> None:
    def fails() -> None:
        time.sleep(2)
        raise ValueError("no")

    def run() -> None:
        with simulate(1) as sim:
            sim.host("sync").spawn_sync(fails)
            sim.run_for(10)

    with pytest.raises(ValueError, match="no") as error:
        run()
    assert "on sync, 2.000 s from the beginning" in error.value.__notes__[0]
    with simulate(1) as sim:
        sim.host("sync").spawn_sync(lambda: together(fails))
        sim.run_for(10)
        assert [(one["message"], str(one["exception"])) for one in sim.errors] == [
            ("Exception in thread Thread-1", "no")
        ] or ("Exception in thread" in sim.errors[0]["message"])


# --- what can't be -------------------------------------------------------------------------------------------------------


FORBIDDEN: dict[str, Callable[[], object]] = {
    "starting a program": lambda: subprocess.run(["true"], check=False),
    "making another event loop": lambda: asyncio.new_event_loop(),
    "asyncio.run": lambda: asyncio.run(asyncio.sleep(0)),
    "socket.listen": lambda: socket.socket().listen(),
    "socket.bind": lambda: socket.socket().bind(("", 0)),
    "a socket that is not TCP's": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "TLS": lambda: ssl.create_default_context().wrap_socket(socket.socket(), server_hostname="broker-1"),
    "the module select": lambda: select.select([], [], [], 1),
    "starting a process": lambda: concurrent.futures.ProcessPoolExecutor(1),
    "starting a thread past threading": lambda: _thread.start_new_thread(print, ()),
    "waiting for thread MainThread": lambda: threading.main_thread().join(),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_would_reach_the_real_world_is_forbidden_caught_or_not(what: str) -> None:
    def swallows() -> None:
        try:
            FORBIDDEN[what]()
        except Exception:
            time.sleep(1)

    for function in (FORBIDDEN[what], swallows):
        with pytest.raises(SimForbidden, match=f"{what}.* is not possible in a simulation on host sync"):
            result_of(function)


def test_threads_that_wait_for_each_other_end_the_run_with_their_names() -> None:
    def deadlock() -> None:
        one, other = threading.Lock(), threading.Lock()

        def takes(first: Any, second: Any) -> None:
            with first:
                time.sleep(1)
                with second:
                    pass

        thread = threading.Thread(target=takes, args=(one, other), name="second")
        thread.start()
        takes(other, one)

    with no_thread_is_left(), pytest.raises(SimDeadlock) as error:
        result_of(deadlock)
    assert "threads wait for each other:\n" in str(error.value)
    assert "sync: thread deadlock waits for a lock at test_sync_programs.py:" in str(error.value)
    assert "sync: thread second waits for a lock at test_sync_programs.py:" in str(error.value)

    def alone() -> None:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

    with pytest.raises(SimDeadlock):
        result_of(alone)


def test_who_waits_for_ever_is_named_with_his_place() -> None:
    told = r"(?s)sync: thread .* waits for an event.* at test_sync_programs.py:\d+"
    with pytest.raises(SimDeadlock, match=told):
        result_of(lambda: threading.Event().wait())

    def others_go_on() -> None:
        threading.Timer(3600, print).start()
        threading.Event().wait()

    with pytest.raises(SimTimeLimit, match=told):
        result_of(others_go_on, within="1m")


def test_polling_the_clock_gets_on() -> None:
    def spin() -> float:
        began = time.monotonic()
        while time.monotonic() < began + 0.05:
            pass
        return time.monotonic() - began

    assert 0.05 <= result_of(spin) < 0.07


def test_code_that_computes_without_end_is_stopped_with_its_place() -> None:
    seen: list[bool] = []

    def computes() -> None:
        began = threading.Event()
        while not seen:
            if began is None:
                break

    with no_thread_is_left():
        try:
            with pytest.raises(SimStuck) as error:
                result_of(computes, patience="1s")
        finally:
            seen.append(True)  # nobody else can end it: it would take a core from all tests behind this one
    assert "thread computes" in "".join(error.value.__notes__)


# --- what remains --------------------------------------------------------------------------------------------------------


def test_locks_and_queues_that_a_program_has_made_are_real_ones_afterwards() -> None:
    made = result_of(
        lambda: (threading.Lock(), threading.RLock(), threading.Condition(), queue.SimpleQueue(), queue.Queue())
    )
    lock, again, condition, simple, whole = made
    for one in (lock, again):
        order: list[str] = []
        tried = threading.Event()

        def take(one: Any = one, order: list[str] = order, tried: threading.Event = tried) -> None:
            if not one.acquire(blocking=False):
                order.append("it waits")
            tried.set()
            with one:
                order.append("other")

        thread = threading.Thread(target=take, daemon=True)
        with one:
            thread.start()
            tried.wait()
            order.append("this")
        ends(thread)
        assert order == ["it waits", "this", "other"]
        assert not one.acquire(blocking=True, timeout=1) or one.release() is None
    with again, again:
        assert again._is_owned()
    with pytest.raises(RuntimeError):
        again.release()
    with pytest.raises(RuntimeError):
        lock.release()
    for each in (simple, whole):
        threading.Timer(0.05, each.put, ("there",)).start()
        assert each.get(timeout=300) == "there"
    with condition:
        assert not condition.wait(0.01)


def test_nothing_of_a_program_is_done_at_the_end_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[object] = []
    monkeypatch.setattr(atexit, "register", lambda function: registered.append(function))
    result_of(lambda: atexit.register(print))
    assert registered == []
    sock = result_of(socket.socket)
    with pytest.raises(OSError, match="in another one"):
        sock.connect(("broker-1", 9092))


def test_who_stands_outside_does_not_wait_for_a_lock_of_a_program() -> None:
    made: list[Any] = []

    def holds() -> None:
        made.extend([threading.Lock(), threading.RLock()])
        with made[0], made[1]:
            time.sleep(10)

    def waits(lock: Any) -> None:
        with lock:
            pass

    with simulate(1) as sim:
        sim.host("sync").spawn_sync(holds)
        sim.run_for(1)
        for lock in made:
            assert lock.acquire(blocking=False) is False
            with pytest.raises(RuntimeError, match=r"a lock held by a thread of the simulation.* waits for a sleep"):
                lock.acquire()
        sim.run_for(10)
        for lock in made:
            with lock:
                task = sim.host("sync").spawn_sync(lambda lock=lock: waits(lock))
                sim.run_for(5)
                assert not task.done(), "it waits for the test"
            sim.run_for(1)
            assert task.done()


def test_a_thread_that_does_not_want_to_end_stands_still() -> None:
    rounds, idents = [0], list[int]()

    def stubborn() -> None:
        idents.append(threading.get_ident())
        while True:
            try:
                time.sleep(1)
            except BaseException:
                rounds[0] += 1

    def run() -> None:
        with simulate(1) as sim:
            sim.host("sync").spawn_sync(stubborn)
            sim.run_for(3)

    with (
        leftovers.lasting(),
        pytest.warns(ResourceWarning, match="thread stubborn did not end with its simulation"),
    ):
        run()
    assert rounds == [1000]
    frame = sys._current_frames()[idents[0]]
    assert frame.f_code is SimThread._refuse.__code__, "it waits for good"

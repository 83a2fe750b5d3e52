"""Code that reaches for the real world is told what it called, where, and what to do instead; code that does not come back is, too."""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures
import contextlib
import datetime
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker_sim.simulation import SimForbidden, SimStuck, simulate
from broker_sim.simulation.errors import caller
from broker_sim.simulation.virtual import watchdog
from broker_sim.simulation.virtual.hashseed import can_pin, is_pinned
from tests.support import processes
from tests.support.sampling import sampled

EPOCH_MS = 1_600_000_000_000


def on_a_host(reach: Callable[[], Any], **options: Any) -> None:
    """Run it in a program that swallows what it can."""

    async def program() -> None:
        with contextlib.suppress(Exception):
            reach()

    with simulate(1, **options) as sim:
        sim.spawn("worker", program)
        sim.run_for(5)


@pytest.mark.parametrize(
    ("reach", "what", "instead"),
    [
        (
            lambda: urllib.request.urlopen("http://localhost:1"),
            r"connecting to \('localhost', 1\)",
            "asyncio.open_connection",
        ),
        (lambda: os.fork(), "starting a process .os.fork.", "a coroutine on a host"),
        (lambda: os.system("true"), "starting a process .os.system.", "a coroutine on a host"),
        (lambda: subprocess.run(["true"]), "starting a program", "a coroutine on a host"),
        (
            lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
            "starting a process .multiprocessing.",
            "a coroutine on a host",
        ),
        (
            lambda: concurrent.futures.ThreadPoolExecutor().submit(time.sleep, 1).result(),
            "waiting for another thread",
            "asyncio.wrap_future",
        ),
        (lambda: time.sleep(3), r"time.sleep\(3\)", "asyncio.sleep"),
        (lambda: asyncio.run(asyncio.sleep(1)), "asyncio.run", "sim.run it in a test"),
    ],
)
def test_a_call_is_named_with_its_place_and_what_to_do_instead(
    reach: Callable[[], Any], what: str, instead: str
) -> None:
    place = r"not possible in a simulation on host worker at test_forbidden.py:\d+"
    with pytest.raises(SimForbidden, match=f"{what}.*{place}: .*{instead}"):
        on_a_host(reach)


def test_a_process_that_is_not_started_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pipes: list[int] = []
    real = os.pipe

    def pipe() -> tuple[int, int]:
        pipes.append(1)
        return real()

    def start() -> None:
        monkeypatch.setattr(os, "pipe", pipe)
        multiprocessing.get_context("spawn").Process(target=print).start()

    with pytest.raises(SimForbidden, match=r"starting a process .multiprocessing."):
        on_a_host(start)
    assert pipes == []


def test_the_first_of_several_calls_is_told() -> None:
    def both() -> None:
        with contextlib.suppress(SimForbidden):
            time.sleep(1)
        os.fork()

    with pytest.raises(SimForbidden, match=r"time\.sleep"):
        on_a_host(both)


def test_files_are_as_ever(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("y")
    assert on_a_host(lambda: (tmp_path / "x").read_text()) is None


# --- time that C code reads ------------------------------------------------------------------------------------------------


class Own(datetime.datetime):
    """As many projects have one."""


def test_dates_are_virtual() -> None:
    utc = datetime.UTC
    with simulate(1, epoch_ms=EPOCH_MS) as sim:
        sim.run_for(1.5)
        expected = datetime.datetime.fromtimestamp(1_600_000_001.5, utc)
        assert datetime.datetime.now(utc) == Own.now(utc) == expected
        assert type(Own.now()) is Own
        assert datetime.datetime.now() == datetime.datetime.today() == datetime.datetime.fromtimestamp(1_600_000_001.5)
        assert datetime.date.today() == datetime.datetime.now().date()
        assert datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=2))).hour == (expected.hour + 2) % 24
        if sys.version_info < (3, 12):
            assert datetime.datetime.utcnow() == expected.replace(tzinfo=None)
    assert abs(datetime.datetime.now(utc).timestamp() - time.time()) < 1800
    assert type(Own.now()) is Own


def test_broken_down_time_is_virtual() -> None:
    with simulate(1, epoch_ms=EPOCH_MS) as sim:
        sim.run_for(1.5)
        assert time.gmtime()[:6] == (2020, 9, 13, 12, 26, 41)
        assert time.localtime() == time.localtime(EPOCH_MS / 1000 + 1)
        assert time.ctime() == time.asctime() == time.strftime("%a %b %d %H:%M:%S %Y")
        assert time.gmtime(0)[:3] == (1970, 1, 1)
        assert time.strftime("%Y", (1999, 1, 1, 0, 0, 0, 0, 1, 0)) == "1999"
    assert time.gmtime()[0] > 2023


def test_dates_of_other_threads_are_real() -> None:
    go, seen = threading.Event(), list[float]()

    def look() -> None:
        go.wait()
        seen.append(datetime.datetime.now(datetime.UTC).timestamp())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    with simulate(1, epoch_ms=EPOCH_MS):
        go.set()
        thread.join()
    assert abs(seen[0] - time.time()) < 1800


# --- code that does not come back ------------------------------------------------------------------------------------------


def _spin() -> None:
    while True:
        pass


def _spin_and_swallow() -> None:
    while True:
        with contextlib.suppress(Exception):
            _spin()


def _wait_for_a_lock() -> None:
    lock = _thread.allocate_lock()
    lock.acquire()
    lock.acquire()


@pytest.mark.parametrize(
    ("reach", "what"),
    [
        (_spin, "computes, for 400 ms of real time: let it yield: await asyncio.sleep"),
        (_spin_and_swallow, "computes, for 400 ms"),
        (_wait_for_a_lock, "waits for the real world, for 400 ms of real time: use asyncio's means"),
    ],
)
def test_code_that_does_not_come_back_is_told_with_its_stack(reach: Callable[[], None], what: str) -> None:
    after = watchdog._handler_after(signal.getsignal(signal.SIGVTALRM))
    with pytest.raises(SimStuck, match=r"code on host worker at test_forbidden.py:\d+ " + what) as caught:
        on_a_host(reach, patience="400ms")
    assert f"in {reach.__name__}" in str(caught.value)
    assert "in program" in str(caught.value)
    assert "virtual/loop.py" not in str(caught.value)
    assert signal.getsignal(signal.SIGVTALRM) is after


@pytest.mark.parametrize(
    "before", [signal.SIG_DFL, signal.SIG_IGN, lambda number, frame: None], ids=["default", "ignored", "own"]
)
def test_a_signal_that_the_watchdog_sends_late_does_not_end_the_process(before: Any) -> None:
    """The watchdog's thread may have decided to send it just before the simulation ended."""
    kept = signal.signal(signal.SIGVTALRM, before)
    try:
        with simulate(1):
            pass
        signal.pthread_kill(threading.get_ident(), signal.SIGVTALRM)
        if before is not signal.SIG_DFL:
            assert signal.getsignal(signal.SIGVTALRM) is before
    finally:
        signal.signal(signal.SIGVTALRM, watchdog._handler_after(kept))


def test_what_other_threads_of_the_process_compute_is_not_the_simulations() -> None:
    enough = threading.Event()

    def compute() -> None:
        while not enough.is_set():
            pass

    other = threading.Thread(target=compute)
    other.start()
    try:
        with pytest.raises(SimStuck, match="waits for the real world"):
            on_a_host(_wait_for_a_lock, patience="400ms")
    finally:
        enough.set()
        other.join()


def test_a_synchronous_program_that_does_not_come_back_is_told_with_its_own_stack() -> None:
    enough = threading.Event()

    def spin() -> None:
        while not enough.is_set():
            pass

    with simulate(1, patience="400ms") as sim:
        sim.host("worker").spawn_sync(spin)
        with pytest.raises(SimStuck, match=r"code on host worker at test_forbidden.py:\d+ computes") as caught:
            sim.run_for(5)
        enough.set()
    assert "in spin" in str(caught.value)


def test_a_signal_that_comes_while_the_stack_is_read_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the watchdog looks again before the handler has read the source lines of the stack."""
    enough = threading.Event()
    signals: list[Any] = []

    def spin() -> None:
        while not enough.is_set():
            pass

    def interrupted(frame: Any) -> Any:
        signals.append(frame)
        if len(signals) == 1:
            signal.raise_signal(signal.SIGVTALRM)
        return traceback.extract_stack(frame)

    reading = SimpleNamespace(extract_stack=interrupted, format_list=traceback.format_list)
    with simulate(1, patience="400ms") as sim:
        sim.host("worker").spawn_sync(spin)
        monkeypatch.setattr(watchdog, "traceback", reading)
        with pytest.raises(SimStuck, match=r"code on host worker at test_forbidden.py:\d+ ") as caught:
            sim.run_for(5)
        enough.set()
    assert "in spin" in str(caught.value)
    assert "in interrupted" not in str(caught.value)
    assert signals


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Looks whether callbacks have run, in place of the thread that does it every second."""
    watch = watchdog._Watch()
    monkeypatch.setattr(watchdog, "_watch", watch)
    monkeypatch.setattr(watch, "begin", lambda guard: setattr(watch, "guard", guard))

    def look() -> None:
        assert watch.guard is not None
        watch.guard.look()

    return look


def test_patience_is_for_code_in_the_run_and_begins_anew_with_every_turn(look: Callable[[], None]) -> None:
    looks: list[int] = []

    async def slow(often: int) -> None:
        for _ in range(4):
            await asyncio.sleep(1)
            looks.append(0)
            for _ in range(often):
                look()
                looks[-1] += 1

    with simulate(1, patience="800ms") as sim:  # four looks behind the one that sees the callback begin
        sim.spawn("worker", lambda: slow(4))
        sim.run_for(10)
        for _ in range(20):  # the test's own, between two runs
            look()
        sim.run_for(1)
        assert looks == [4, 4, 4, 4]
        sim.spawn("worker", lambda: slow(6))
        with pytest.raises(SimStuck):
            sim.run_for(10)
    assert looks == [4, 4, 4, 4, 4]


def test_what_the_interrupt_itself_computes_is_not_the_codes(
    look: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where the next look comes before it has drawn the stack."""
    used_s, extract_stack = [0.0], traceback.extract_stack

    def slowly(*args: Any, **options: Any) -> traceback.StackSummary:
        used_s[0] += 10
        monkeypatch.setattr(signal, "pthread_kill", lambda *args: None)  # the handler runs already
        look()
        return extract_stack(*args, **options)

    def wait() -> None:
        for _ in range(6):
            look()

    monkeypatch.setattr(watchdog, "_thread_s", lambda ident: used_s[0])
    monkeypatch.setattr(traceback, "extract_stack", slowly)
    with pytest.raises(SimStuck, match="waits for the real world"):
        on_a_host(wait, patience="400ms")


def test_a_simulation_in_another_thread_is_not_guarded_and_runs() -> None:
    done: list[float] = []

    def run() -> None:
        with simulate(1) as sim:
            sim.run_for(5)
            done.append(sim.elapsed_s)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done == [5]


def test_callers_of_library_code_are_named() -> None:
    assert caller().startswith(" at test_forbidden.py:")


# --- the hash seed ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "options", "told"),
    sampled(
        [
            ("0", [], "True True"),
            ("42", [], "True True"),
            ("random", [], "False True"),
            (None, [], "False True"),
            ("0", ["-E"], "False False"),
            (None, ["-I"], "False False"),
        ],
        2,
    ),
)
def test_whether_the_hash_seed_is_and_can_be_pinned(seed: str | None, options: list[str], told: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    if seed is not None:
        environment["PYTHONHASHSEED"] = seed
    code = "from broker_sim.simulation.virtual.hashseed import *; print(is_pinned(), can_pin())"
    done = processes.run([sys.executable, *options, "-c", code], env=environment)
    assert done.stdout.strip() == told, done.stderr


def test_a_run_that_another_process_may_not_repeat_says_so() -> None:
    async def fail() -> None:
        raise KeyError("x")

    assert can_pin()
    with simulate(1) as sim:
        sim.spawn("worker", fail)
        with pytest.raises(KeyError) as caught:
            sim.run_for(1)
    assert ("PYTHONHASHSEED is not pinned" in caught.value.__notes__[0]) is not is_pinned()
    assert ("not pinned" in repr(sim)) is not is_pinned()

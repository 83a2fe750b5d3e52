"""A simulated world as its users hold it: runs, errors, and what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
import threading
import time
import weakref
from types import FrameType
from typing import Any

import pytest

from broker_sim.api.cluster_options import Topics
from broker_sim.common.text import UsageError
from broker_sim.simulation import SimForbidden, SimLivelock, SimTimeLimit, simulate
from broker_sim.simulation.workloads.programs import Consumer


def test_a_program_that_raises_ends_the_run_and_tells_where_and_when() -> None:
    async def program() -> None:
        await asyncio.sleep(2.5)
        raise ZeroDivisionError("so what")

    with simulate(9) as sim:
        sim.spawn("worker", program, name="dividing")
        with pytest.raises(ZeroDivisionError) as caught:
            sim.run_until(lambda: False, within="1h")
        (note,) = caught.value.__notes__
        assert note.startswith("raised by dividing on worker, 2.500 s from the beginning, seed 9")
        assert ("PYTHONHASHSEED is not pinned" in note) is not sim.pinned
        assert sim.elapsed_s == 2.5
        sim.run_for(1)


def test_the_tests_own_coroutines_return_and_raise() -> None:
    async def answer() -> int:
        await asyncio.sleep(5)
        return 42

    async def fail() -> None:
        raise KeyError("x")

    with simulate(1) as sim:
        assert sim.run(answer()) == 42
        with pytest.raises(KeyError):
            sim.run(fail())
        with pytest.raises(SimTimeLimit, match="answer"):
            sim.run(answer(), within="2s")


def test_a_limit_names_the_condition() -> None:
    def never_happens() -> bool:
        return False

    with simulate(1) as sim:
        sim.cluster()
        with pytest.raises(SimTimeLimit, match=r"never_happens \(test_world.py:\d+\): not within 1 min"):
            sim.run_until(never_happens, within="60s")


def test_a_swallowed_forbidden_call_still_ends_the_run() -> None:
    async def program() -> None:
        with contextlib.suppress(Exception):
            time.sleep(1)

    with simulate(1) as sim:
        sim.spawn("worker", program)
        with pytest.raises(SimForbidden, match=r"time.sleep\(1\) .* worker at test_world.py:\d+: use asyncio.sleep"):
            sim.run_for(1)


def test_a_test_lets_time_pass_by_the_simulation() -> None:
    with simulate(1), pytest.raises(SimForbidden, match=r"use sim\.run_for"):
        time.sleep(1)


def test_programs_that_spin_or_refuse_to_end_keep_nobody_waiting() -> None:
    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    async def refuse() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1)

    with simulate(1) as sim:
        sim.spawn("worker", refuse)
        sim.run_for(10)
        sim.spawn("worker", spin)
        with pytest.raises(SimLivelock, match=r"worker: .*spin"):
            sim.run_for(10)
        loop = sim.loop
    assert loop.steps < 100_000


def test_what_ends_a_test_is_not_taken_for_an_error_of_a_callback() -> None:
    """As pytest-timeout does from a signal handler."""

    class TimeIsUp(BaseException):
        pass

    def hang() -> None:
        raise TimeIsUp

    with simulate(1) as sim:
        sim.loop.call_later(1, hang)
        with pytest.raises(TimeIsUp):
            sim.run_for(5)
        sim.run_for(5)


def test_no_simulation_inside_a_running_loop() -> None:
    async def nested() -> None:
        with simulate(1):
            pass

    with pytest.raises(RuntimeError, match="not a coroutine"):
        asyncio.run(nested())
    with simulate(1), pytest.raises(RuntimeError, match="not a coroutine"), simulate(2):
        pass


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(UsageError, match="did you mean 'tasks'"), simulate(1, order="task"):
        pass
    with simulate(1) as sim:
        sim.cluster()
        with pytest.raises(UsageError, match="another name"):
            sim.cluster()
        with pytest.raises(UsageError, match="port is the simulation's"):
            sim.cluster(name="other", port=1)
        with pytest.raises(UsageError, match="did you mean 'topics'"):
            sim.cluster(name="other", topic="orders")
        with pytest.raises(UsageError, match="not a whole number"):
            sim.cluster(name="other", brokers="three")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="after the colon"):
            sim.cluster(name="other", topics=["orders:six"])
        with pytest.raises(UsageError, match="not a duration"):
            sim.run_for("soon")


@pytest.mark.parametrize("topics", ["orders:6", ["orders:6"], {"orders": 6}, {"orders": {"partitions": 6}}])
def test_topics_are_given_as_everywhere(topics: Topics) -> None:
    with simulate(1) as sim:
        assert len(sim.cluster(topics=topics).state.topics["orders"].partitions) == 6


def test_two_clusters_side_by_side() -> None:
    with simulate(1) as sim:
        one, other = sim.cluster(topics={"a": 1}), sim.cluster(brokers=2, name="mirror", topics={"b": 1})
        assert one.bootstrap == "broker-1:9092"
        assert other.bootstrap == "mirror-1:9092,mirror-2:9092"
        assert sim.journal is one.journal


def test_wire_and_wall_are_one_time() -> None:
    with simulate(1, epoch_ms=1_600_000_000_000) as sim:
        kafka = sim.cluster()
        sim.run_for(10)
        assert kafka.time.now_ms() == sim.now_ms == 1_600_000_010_000 == int(time.time() * 1000)


def test_waits_of_the_cluster_are_in_virtual_time() -> None:
    with simulate(1) as sim:
        kafka = sim.cluster()
        with pytest.raises(AssertionError, match="not within"):
            sim.run(kafka.group("none").stable(members=3, timeout="10min"))
        assert 600 <= sim.elapsed_s < 601
        assert sim.loop.steps < 100_000


def test_nothing_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    """Not even where hosts have crashed, are paused, or programs refuse to end."""
    caplog.set_level(logging.CRITICAL + 1, logger="aiokafka")  # logged errors know where they come from
    left: list[weakref.ref[Any]] = []

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                if left:
                    raise

    with simulate(3) as sim:
        kafka = sim.cluster(topics={"orders": 4})
        for name in ("one", "two", "three"):
            host = sim.host(name)
            host.spawn(Consumer(sim, host, kafka.bootstrap, "billing", ["orders"]).run)
        sim.spawn("worker", stubborn)
        sim.run_for(20)
        sim.crash("one")
        sim.pause("two")
        sim.network.partition("three", "*")
        sim.run_for(5)
        left += [weakref.ref(task) for task in asyncio.all_tasks(sim.loop)]
        loop = sim.loop
    assert loop.is_closed()
    assert not asyncio.all_tasks(loop)
    del sim, kafka, host, loop
    gc.collect()
    assert not [task for task in left if task() is not None]


def test_a_thread_that_waits_meanwhile_keeps_nothing_of_it() -> None:
    begin, inside, enough = threading.Event(), threading.Event(), threading.Condition()

    def wait() -> None:
        begin.wait()
        with enough:
            inside.set()
            enough.wait()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    with simulate(1) as sim:
        loop = weakref.ref(sim.loop)
        sim.cluster()
        begin.set()
        inside.wait()
        enough.acquire()  # it waits, and has given it up
    del sim
    gc.collect()
    try:
        assert loop() is None
    finally:
        enough.notify()
        enough.release()
        thread.join()


def test_what_python_itself_has_frozen_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 starts with some hundred objects that its collector does not look at."""
    real = gc.get_freeze_count
    monkeypatch.setattr(gc, "get_freeze_count", lambda: real() + 375)
    loops = []
    for seed in range(2):
        with simulate(seed) as sim:
            loops.append(weakref.ref(sim.loop))
            sim.cluster()
        del sim
    gc.collect()
    assert [loop() for loop in loops] == [None, None]


def test_start_up_is_short() -> None:
    """In calls of Python functions: those of the third one, as the first one imports, and the second one looks at what that was."""
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    for seed in range(3):
        calls = 0
        sys.setprofile(count)
        try:
            with simulate(seed) as sim:
                sim.cluster()
        finally:
            sys.setprofile(None)
    assert calls < 20_000


def test_members_are_called_by_their_hosts() -> None:
    """As faults are: nobody should have to look up which host ``aiokafka-0.14.0-x3f1`` is."""
    with simulate(1) as sim:
        kafka = sim.cluster(topics={"orders": 4})
        for name in ("app-1", "app-2"):
            host = sim.host(name)
            host.spawn(Consumer(sim, host, kafka.bootstrap, "billing", ["orders"]).run)
        sim.run_for(10)
        sim.crash("app-1")
        sim.run_for(20)
        told, drawn = kafka.group("billing").explain(), kafka.group("billing").timeline()
    assert "app-1" in told
    assert "app-1 " in drawn
    assert "app-2 " in drawn
    assert "aiokafka" not in drawn

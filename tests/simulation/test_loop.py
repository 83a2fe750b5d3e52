"""The loop: exact time, order of callbacks, and errors where a real loop would hang."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from broker_sim.simulation.errors import SimDeadlock, SimForbidden, SimLivelock, SimTimeLimit
from broker_sim.simulation.virtual.loop import TICKS, SimLoop


@pytest.fixture
def loop() -> Any:
    loop = SimLoop(1)
    yield loop
    for _ in range(20):
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if not tasks:
            break
        loop.run_for(1)
    loop.close()


def soon_enough(loop: SimLoop, call: Callable[[], object], kind: type[Exception]) -> str:
    """The text of the error that the call raises within so many callbacks."""
    steps = loop.steps
    with pytest.raises(kind) as caught:
        call()
    assert loop.steps - steps < 100_000
    return str(caught.value)


# --- time ----------------------------------------------------------------------------------------------------------------


def test_time_is_a_whole_number_of_ticks_and_jumps(loop: SimLoop) -> None:
    seen: list[float] = []
    for delay_s in (0.1, 1 / 3, 1e-9, 3600.7):
        loop.call_later(delay_s, lambda: seen.append(loop.elapsed_s))
    loop.run_for(4000)
    assert loop.steps < 10
    assert all((s * TICKS).is_integer() for s in seen)
    assert [round(s, 5) for s in seen] == [0.0, 0.1, 0.33333, 3600.7]
    assert loop.elapsed_s == 4000


def test_differences_of_wall_times_are_exact(loop: SimLoop) -> None:
    start_s = loop.wall()
    loop.run_for(0.1)
    assert loop.wall() - start_s == loop.elapsed_s


def test_a_timer_never_fires_at_the_instant_at_which_it_was_armed(loop: SimLoop) -> None:
    armed: list[float] = []
    fired: list[float] = []

    def again() -> None:
        fired.append(loop.time())
        if len(fired) < 5:
            armed.append(loop.time())
            loop.call_at(loop.time() - 7, again)

    armed.append(loop.time())
    loop.call_later(0, again)
    loop.run_for(1)
    assert all(after > before for before, after in zip(armed, fired, strict=True))


def test_waiting_for_what_a_float_has_left_over_comes_to_an_end(loop: SimLoop) -> None:
    """As aiokafka's fetcher does: backoff - (now - created) > 0, while now + that is now."""

    async def wait() -> int:
        created, turns = loop.time(), 0
        while (left := 0.1 - (loop.time() - created)) > 0:
            await asyncio.sleep(left)
            turns += 1
        return turns

    assert loop.run(wait()) <= 3


def test_code_that_polls_the_clock_gets_on(loop: SimLoop) -> None:
    async def poll() -> None:
        until = loop.time() + 0.002
        while loop.time() < until:
            await asyncio.sleep(0)

    loop.run(poll())
    assert 0.002 <= loop.elapsed_s < 0.003


def test_work_at_one_instant_is_free_up_to_a_measure(loop: SimLoop) -> None:
    async def some() -> float:
        for _ in range(30):
            await asyncio.sleep(0)
        return loop.elapsed_s

    assert loop.run(some()) == 0


# --- order -----------------------------------------------------------------------------------------------------------------


def test_callbacks_are_called_in_their_order_and_before_time_goes_on(loop: SimLoop) -> None:
    seen: list[str] = []
    loop.call_later(1, lambda: (seen.append("timer"), loop.call_soon(seen.append, "soon"))[0])
    loop.call_later(1 + 1 / TICKS, seen.append, "next timer")
    loop.call_soon(seen.append, "first")
    loop.call_soon(seen.append, "second")
    loop.run_for(2)
    assert seen == ["first", "second", "timer", "soon", "next timer"]


def test_timers_of_one_instant_fire_as_they_were_armed(loop: SimLoop) -> None:
    seen: list[int] = []
    at = loop.time() + 1
    handles = [loop.call_at(at, seen.append, number) for number in range(2000)]
    for handle in handles[::3]:
        handle.cancel()  # most of the heap is rebuilt
    for handle in handles[1::3]:
        handle.cancel()
    loop.run_for(2)
    assert seen == list(range(2, 2000, 3))


def _order_of(seed: int, order: str) -> tuple[list[int], list[int]]:
    loop = SimLoop(seed, order=order)
    steps: list[int] = []
    calls: list[int] = []

    async def step(number: int) -> None:
        steps.append(number)
        await asyncio.sleep(0)
        steps.append(number)

    for number in range(8):
        loop.create_task(step(number))
        loop.call_soon(calls.append, number)
    loop.run_for(1)
    loop.close()
    return steps, calls


def test_the_seed_orders_steps_of_tasks_and_nothing_else() -> None:
    assert _order_of(1, "fifo") == ([*range(8), *range(8)], list(range(8)))
    drawn = [_order_of(seed, "tasks") for seed in range(6)]
    assert all(calls == list(range(8)) for _, calls in drawn)
    assert all(sorted(steps[:8]) == list(range(8)) for steps, _ in drawn)
    assert len({tuple(steps) for steps, _ in drawn}) == 6
    assert drawn[3] == _order_of(3, "tasks")


def test_a_set_of_futures_has_the_same_order_in_every_loop() -> None:
    def drawn() -> list[int]:
        loop = SimLoop(1)
        futures = [loop.create_future() for _ in range(50)]
        rank = {id(future): number for number, future in enumerate(futures)}
        found = [rank[id(future)] for future in set(futures)]
        loop.close()
        return found

    garbage = [object() for _ in range(1000)]
    first = drawn()
    del garbage
    assert first == drawn() == drawn()


def test_the_schedule_hash_tells_runs_apart() -> None:
    def run(delay_s: float, trace: bool = False, name: str = "one") -> str:
        loop = SimLoop(1, trace=trace)

        async def sleep() -> None:
            await asyncio.sleep(delay_s)

        loop.create_task(sleep(), name=name)
        loop.run_for(1)
        loop.close()
        return loop.schedule_hash

    assert run(0.5) == run(0.5) != run(0.5 + 1 / TICKS)
    assert run(0.5, trace=True, name="one") != run(0.5, trace=True, name="two")


# --- errors ----------------------------------------------------------------------------------------------------------------


def test_a_deadlock_names_the_tasks_and_where_they_wait(loop: SimLoop) -> None:
    async def inner() -> None:
        await loop.create_future()

    async def wait_for_nobody() -> None:
        await inner()

    loop.create_task(wait_for_nobody(), name="lonely")
    text = soon_enough(loop, lambda: loop.run_until(lambda: False, 100), SimDeadlock)
    assert "lonely" in text
    assert "wait_for_nobody at test_loop.py:" in text


def test_time_may_pass_where_nobody_waits_for_anything(loop: SimLoop) -> None:
    loop.run_for(86_400)
    assert loop.elapsed_s == 86_400


def test_a_livelock_of_callbacks_names_them(loop: SimLoop) -> None:
    async def spin_without_end() -> None:
        while True:
            await asyncio.sleep(0)

    loop.create_task(spin_without_end(), name="spinner")
    assert "spinner" in soon_enough(loop, lambda: loop.run_for(10), SimLivelock)


def test_a_livelock_of_timers_is_one_too(loop: SimLoop) -> None:
    def arm() -> None:
        loop.call_later(0, arm)

    arm()
    assert "arm" in soon_enough(loop, lambda: loop.run_for(10), SimLivelock)


def test_many_tasks_that_wake_together_are_no_livelock(loop: SimLoop) -> None:
    async def work() -> None:
        await asyncio.sleep(1)
        for _ in range(20):
            await asyncio.sleep(0)

    tasks = [loop.create_task(work()) for _ in range(2000)]
    loop.run_for(2)
    assert all(task.done() for task in tasks)


def test_a_time_limit_tells_what_was_waited_for_and_who_is_there(loop: SimLoop) -> None:
    async def tick() -> None:
        while True:
            await asyncio.sleep(5)

    loop.create_task(tick(), name="ticker")
    text = soon_enough(loop, lambda: loop.run_until(lambda: False, 3600, "the end of days"), SimTimeLimit)
    assert text.startswith("the end of days: not within 1 h of virtual time")
    assert "ticker" in text
    assert loop.elapsed_s == 3600
    assert "sleeper" in soon_enough(loop, lambda: loop.run(asyncio.sleep(60), 30, "sleeper"), SimTimeLimit)


def test_run_until_stops_in_the_turn_in_which_the_condition_holds(loop: SimLoop) -> None:
    done: list[int] = []
    loop.call_later(2.5, done.append, 1)
    loop.run_until(lambda: done, 60)
    assert loop.elapsed_s == 2.5
    loop.run_until(lambda: done, 60)
    assert loop.elapsed_s == 2.5


def test_a_callback_that_raises_does_not_keep_others_from_running(loop: SimLoop) -> None:
    seen: list[Any] = []
    loop.set_exception_handler(lambda _, context: seen.append(type(context["exception"])))
    loop.call_soon(lambda: 1 / 0)
    loop.call_soon(seen.append, "next")
    loop.run_for(1)
    assert seen == [ZeroDivisionError, "next"]


def test_other_threads_may_not_call_in(loop: SimLoop) -> None:
    caught: list[Exception] = []

    def call() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except SimForbidden as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "another thread" in str(caught[0])


def test_an_executor_is_a_simulations_and_no_loops(loop: SimLoop) -> None:
    async def work() -> Any:
        return await loop.run_in_executor(None, threading.get_ident)

    with pytest.raises(SimForbidden, match=r"an executor without a simulation.*: use simulate\(\)"):
        loop.run(work())


@pytest.mark.parametrize("name", ["add_reader", "create_datagram_endpoint", "subprocess_exec", "create_unix_server"])
def test_the_outside_world_is_out_of_reach(loop: SimLoop, name: str) -> None:
    with pytest.raises(SimForbidden, match="TCP connections alone"):
        getattr(loop, name)(1, 2)

"""Threads that programs start which are coroutines: executors, ``asyncio.to_thread``, a queue's listener; and HTTP clients."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import logging.handlers
import queue
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Lock as taken
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from broker_sim.simulation import SimForbidden, simulate
from tests.simulation.sync import no_thread_is_left


def result_of(program: Callable[[], Awaitable[Any]], **options: Any) -> Any:
    """Return the result of the coroutine function, run on a host."""
    results: list[Any] = []

    async def run() -> None:
        results.append(await program())

    with no_thread_is_left(), simulate(1, **options) as sim:
        sim.host("app").spawn(run)
        sim.run_until(lambda: results, within="10m")
        assert not sim.errors
    return results[0]


def test_functions_in_threads_sleep_in_virtual_time_while_tasks_go_on() -> None:
    async def program() -> list[Any]:
        loop, ticks = asyncio.get_running_loop(), list[float]()

        async def tick() -> None:
            while True:
                await asyncio.sleep(1)
                ticks.append(time.monotonic())

        task, began = asyncio.create_task(tick()), time.monotonic()
        await asyncio.to_thread(time.sleep, 3.5)
        task.cancel()
        return [time.monotonic() - began, len(ticks), await loop.run_in_executor(None, min, 1, 2)]

    took, ticks, least = result_of(program)
    assert took == pytest.approx(3.5, abs=0.01)
    assert (ticks, least) == (3, 1)


def test_an_executor_has_the_workers_that_it_was_given() -> None:
    async def program() -> list[float]:
        took = []
        for workers in (1, 3):
            with concurrent.futures.ThreadPoolExecutor(workers) as executor:
                loop, began = asyncio.get_running_loop(), time.monotonic()
                await asyncio.gather(*(loop.run_in_executor(executor, time.sleep, 1) for _ in range(3)))
                took.append(round(time.monotonic() - began))
        return took

    assert result_of(program) == [3, 1]


def test_what_a_thread_raises_is_raised_where_it_is_awaited() -> None:
    async def program() -> str:
        try:
            await asyncio.to_thread(int, "x")
        except ValueError as error:
            return str(error)
        return ""

    assert "'x'" in result_of(program)


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock, lambda: taken()])
def test_a_lock_that_a_coroutine_made_is_waited_for_in_virtual_time(make: Callable[[], Any]) -> None:
    async def program() -> list[int]:
        lock, seen = make(), list[int]()

        def work(number: int) -> None:
            with lock:
                seen.append(number)
                time.sleep(1)
                seen.append(number)

        await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(3)))
        return seen

    assert result_of(program) == [0, 0, 1, 1, 2, 2]


def test_a_listener_of_a_queue_logs_and_is_stopped_in_a_coroutine(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    async def program() -> bool:
        records: queue.Queue[Any] = queue.Queue()
        listener = logging.handlers.QueueListener(records, Handler())
        listener.start()
        records.put(logging.makeLogRecord({"msg": "one"}))
        await asyncio.sleep(1)
        records.put(logging.makeLogRecord({"msg": "two"}))
        listener.stop()
        return True

    assert result_of(program)
    assert told == ["one", "two"]


def test_a_thread_calls_back_into_the_loop() -> None:
    async def program() -> list[Any]:
        loop, seen = asyncio.get_running_loop(), asyncio.Queue[Any]()

        async def double(number: int) -> int:
            await asyncio.sleep(1)
            return 2 * number

        def work() -> None:
            loop.call_soon_threadsafe(seen.put_nowait, "soon")
            seen_too = asyncio.run_coroutine_threadsafe(double(4), loop).result()
            loop.call_soon_threadsafe(seen.put_nowait, seen_too)

        thread = threading.Thread(target=work)
        thread.start()
        found = [await seen.get(), await seen.get()]
        thread.join()
        return [*found, thread.is_alive()]

    assert result_of(program) == ["soon", 8, False]


def test_a_coroutine_that_would_wait_for_a_thread_is_told_what_to_await() -> None:
    async def program() -> None:
        thread = threading.Thread(target=time.sleep, args=(5,))
        thread.start()
        thread.join()

    with no_thread_is_left(), simulate(1) as sim:
        sim.host("app").spawn(program)
        with pytest.raises(SimForbidden, match=r"waits for a sleep to end.*host app at .*to_thread\(thread.join\)"):
            sim.run_for(9)


def test_a_crash_ends_its_threads_and_a_new_process_has_its_own(tmp_path: Path) -> None:
    path, seen = tmp_path / "db", list[str]()

    def work() -> None:
        connection = sqlite3.connect(path)
        connection.execute("create table if not exists t (x)")
        connection.execute("begin immediate")
        seen.append("began")
        time.sleep(10)
        seen.append("never")

    async def program() -> None:
        await asyncio.to_thread(work)

    with no_thread_is_left(), simulate(1) as sim:
        sim.host("app").spawn(program)
        sim.run_for(5)
        sim.restart("app")
        sim.run_for(5)
    assert seen == ["began", "began"]


def test_the_same_seed_is_the_same_run_with_threads_too() -> None:
    def schedule() -> str:
        async def program() -> None:
            await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.1 * number) for number in range(5)))

        with simulate(3) as sim:
            sim.host("app").spawn(program)
            sim.run_for(3)
            assert not [reason for reason in sim.not_pinned if "PYTHONHASHSEED" not in reason]
            return sim.schedule_hash

    assert schedule() == schedule()


# --- HTTP ------------------------------------------------------------------------------------------------------------------


async def _serve() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=f"{(await request.text()).upper()} at {time.time():.0f}")

    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, port=8080).start()
    await asyncio.sleep(3600)


def test_an_http_client_talks_to_a_server_on_another_host() -> None:
    seen: list[Any] = []

    async def ask() -> None:
        timeout = aiohttp.ClientTimeout(total=4)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            for what in ("a", "b" * 300_000):
                async with session.post("http://shop:8080/", data=what) as response:
                    text = await response.text()
                    seen.append((response.status, len(text), text[-10:]))
            try:
                await session.post("http://shop:81/")
            except aiohttp.ClientConnectorError as error:
                seen.append(type(error.os_error))
            cut.append(sim.network.partition("app", "shop"))
            began = time.monotonic()
            try:
                await session.post("http://shop:8080/", data="c")
            except TimeoutError:
                seen.append(round(time.monotonic() - began))

    cut: list[Any] = []
    with simulate(1) as sim:
        sim.host("shop").spawn(_serve)
        sim.run_for(1)
        sim.host("app").spawn(ask)
        sim.run_for(60)
        assert not [reason for reason in sim.not_pinned if "PYTHONHASHSEED" not in reason]
    assert seen == [(200, 15, "1700000001"), (200, 300_014, "1700000001"), ConnectionRefusedError, 4]

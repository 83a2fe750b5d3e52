"""Code that blocks the event loop on which its broker runs is named, while it does so; nobody else is."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.api import blocked_loop
from tests.support.processes import DEADLINE_S


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked_loop, "LOOK_S", 0.02)


class Told:
    """Recipient of warnings, which keeps their texts; ``said`` is set after one."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.said = threading.Event()

    def __call__(self, text: str) -> None:
        self.texts.append(text)
        self.said.set()


async def test_a_call_that_waits_for_the_broker_on_its_own_loop_is_named_by_its_line() -> None:
    told = Told()
    cluster = await Cluster().start()
    cluster.watch_loop(told)
    with socket.create_connection(("127.0.0.1", cluster.brokers[0].port)) as client:  # nobody accepts it
        client.send(b"\0\0\0\1x")
        assert told.said.wait(DEADLINE_S)  # as a blocking client does: the test's own line
    await cluster.stop()
    (text,) = told.texts
    assert f"{__file__}:" in text
    assert "blocks the event loop" in text
    assert "kafka_server" in text
    assert "assert told.said.wait(DEADLINE_S)" in text


async def looks(told: Told, waiting: bool, block: threading.Event | None) -> None:
    """Several looks go by, on a loop that runs or not."""
    seen = threading.Semaphore(0)

    def look() -> bool:
        seen.release()
        return waiting

    watch = blocked_loop.BlockedLoop(look, told)
    if block is not None:
        for _ in range(3 * blocked_loop.LOOKS):
            assert seen.acquire(timeout=DEADLINE_S)
    else:
        loop, looks = asyncio.get_running_loop(), 0
        wake = loop.call_soon_threadsafe

        def woken(*given: Any) -> Any:
            nonlocal looks
            looks += 1
            return wake(*given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "call_soon_threadsafe", woken)  # as each look begins
            async with asyncio.timeout(DEADLINE_S):
                while looks < 3 * blocked_loop.LOOKS:
                    await asyncio.sleep(0)
    watch.stop()


def always_waiting(told: Told, seen: threading.Semaphore) -> blocked_loop.BlockedLoop:
    """A watch that finds somebody waiting at each look. It releases ``seen`` at each, and when it speaks, as it looks no more then."""

    def look() -> bool:
        seen.release()
        return True

    def say(text: str) -> None:
        told(text)
        seen.release()

    return blocked_loop.BlockedLoop(look, say)


async def test_code_that_blocks_and_yields_in_turn_is_named_too() -> None:
    """``consumer.poll(1.0); await asyncio.sleep(0)``: it has run at the end of each look."""
    told, seen = Told(), threading.Semaphore(0)
    watch = always_waiting(told, seen)
    while not told.said.is_set():
        assert seen.acquire(timeout=DEADLINE_S)  # as long as it takes until the loop has kept somebody waiting
        await asyncio.sleep(0)
    watch.stop()
    (text,) = told.texts
    assert f"{__file__}:" in text
    assert "blocks the event loop most of the time, though it yields in between, and the broker runs on it" in text
    assert "seen.acquire" in text


async def test_blocking_without_anybody_who_waits_is_the_tests_own_affair() -> None:
    told = Told()
    await looks(told, False, threading.Event())
    assert told.texts == []


async def test_a_loop_that_runs_is_not_blocked() -> None:
    told = Told()
    await looks(told, True, None)
    assert told.texts == []


async def test_who_is_in_another_place_at_each_look_is_merely_busy() -> None:
    told, seen = Told(), threading.Semaphore(0)
    watch = always_waiting(told, seen)
    for number in range(3 * blocked_loop.LOOKS):
        names: dict[str, Any] = {"seen": seen, "__name__": "busy"}
        exec(compile("def step(): return seen.acquire(timeout=300)", f"busy-{number}.py", "exec"), names)
        assert names["step"]()
    watch.stop()
    assert told.texts == []


@pytest.mark.slow
def test_the_report_of_a_test_names_it_and_so_does_the_terminal_before_that(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
import socket
from broker_sim.api import blocked_loop

blocked_loop.LOOK_S = 0.02
sockets = []

def text(frame, why, text=blocked_loop._text):
    sockets[0].shutdown(socket.SHUT_RDWR)  # once it is seen to block it need not any longer
    return text(frame, why)

blocked_loop._text = text

async def test_blocking(kafka):
    host, port = kafka.bootstrap.split(":")
    with socket.create_connection((host, int(port))) as client:
        sockets.append(client)
        client.send(b"1234")
        assert client.recv(1)
""")
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-o", "asyncio_mode=auto", timeout=300)
    result.assert_outcomes(failed=1)
    said = "*test_blocking: *.py:18 blocks the event loop*"
    result.stderr.fnmatch_lines([said, "    assert client.recv(1)"])
    result.stdout.fnmatch_lines(["*Blocked event loop*", "*.py:18 blocks the event loop*kafka_server*"])

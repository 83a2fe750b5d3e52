"""Hosts: a crash is no orderly exit, a pause loses nothing, a restart is another process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from broker_sim.common.text import UsageError
from broker_sim.simulation import Simulation, simulate


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with simulate(5) as sim:
        yield sim


class Life:
    """A program that ticks once a second and would clean up behind itself."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.ticks: list[float] = []
        self.cleaned = False

    async def run(self) -> None:
        try:
            while True:
                await asyncio.sleep(1)
                self.ticks.append(self.sim.elapsed_s)
        finally:
            if not self.sim.ending:
                self.cleaned = True


def test_nothing_of_a_crashed_process_ever_runs_again(sim: Simulation) -> None:
    life, called = Life(sim), []
    done = sim.loop.create_future()

    async def hear() -> None:
        asyncio.get_running_loop().call_later(20, called.append, "timer")
        asyncio.get_running_loop().call_later(9, done.set_result, None)
        try:
            await done
        finally:
            called.append("woken")

    async def outsider() -> None:
        await asyncio.sleep(10)
        if not done.done():
            done.set_result(None)  # wakes a task of the dead

    sim.spawn("a", life.run)
    sim.spawn("a", hear())
    sim.spawn("b", outsider())
    sim.run_for(5.5)
    sim.crash("a")
    sim.crash("a")
    sim.run_for(100)
    assert len(life.ticks) == 5
    assert not life.cleaned
    assert not called
    assert sim.host("a").state == "crashed"


def test_the_dead_do_not_come_back_with_a_restart(sim: Simulation) -> None:
    lives: list[Life] = []

    async def program() -> None:
        lives.append(Life(sim))
        await lives[-1].run()

    sim.spawn("a", program)
    sim.spawn("a", Life(sim).run())  # a coroutine that runs once
    sim.run_for(3.5)
    sim.crash("a")
    sim.run_for(10)
    sim.restart("a")
    sim.run_for(3.5)
    sim.restart("a")
    sim.run_for(0.5)
    assert [len(life.ticks) for life in lives] == [3, 3, 0]
    assert not any(life.cleaned for life in lives)
    assert sim.host("a").process.number == 3


def test_a_paused_process_goes_on_where_it_was(sim: Simulation) -> None:
    life = Life(sim)
    sim.spawn("a", life.run)
    sim.run_for(2.5)
    sim.pause("a")
    sim.pause("a")
    sim.run_for(100)
    assert len(life.ticks) == 2
    assert sim.host("a").state == "paused"
    sim.resume("a")
    sim.run_for(2.5)
    assert [round(tick, 1) for tick in life.ticks] == [1.0, 2.0, 102.5, 103.5, 104.5]


async def _serve(heard: list[bytes], port: int = 7) -> None:
    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(100):
                heard.append(data)
                writer.write(data)
        except ConnectionError:
            heard.append(b"<reset>")
        writer.close()

    await (await asyncio.start_server(hear, "0.0.0.0", port)).serve_forever()


async def _talk(answers: list[bytes], words: int = 3) -> None:
    reader, writer = await asyncio.open_connection("server", 7)
    for number in range(words):
        writer.write(b"%d" % number)
        answers.append(await reader.read(100))
        await asyncio.sleep(1)
    writer.close()


def test_what_is_sent_to_a_paused_host_waits_in_its_kernel(sim: Simulation) -> None:
    heard: list[bytes] = []
    answers: list[bytes] = []
    sim.spawn("server", _serve(heard))
    sim.run_for(1)
    sim.pause("server")
    task = sim.spawn("client", _talk(answers))  # the kernel accepts the connection
    sim.run_for(60)
    assert not heard
    sim.resume("server")
    sim.run_until(task.done)
    assert heard == answers == [b"0", b"1", b"2"]


def test_a_silent_crash_tells_nobody_until_the_host_is_back(sim: Simulation) -> None:
    heard: list[bytes] = []
    answers: list[bytes] = []
    sim.spawn("server", lambda: _serve(heard))
    sim.run_for(1)
    task = sim.spawn("client", _talk(answers, 100))
    sim.run_for(5)
    sim.crash("server")
    before = len(answers)
    sim.run_for(300)
    assert not task.done()
    assert len(answers) == before
    sim.restart("server")
    sim.run_for(10)
    assert not task.done(), "nobody has sent anything that the new kernel could refuse"


def test_the_kernel_of_a_host_that_is_back_resets_what_it_does_not_know(sim: Simulation) -> None:
    async def keep_talking() -> None:
        _, writer = await asyncio.open_connection("server", 7)
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(1)

    sim.spawn("server", lambda: _serve([]))
    sim.run_for(1)
    sim.spawn("client", keep_talking())
    sim.run_for(5)
    sim.crash("server")
    sim.run_for(100)
    sim.restart("server")
    with pytest.raises(ConnectionResetError):
        sim.run_for(5)


def test_a_crash_of_the_process_alone_resets_its_connections(sim: Simulation) -> None:
    heard: list[bytes] = []
    sim.spawn("server", _serve(heard))
    sim.run_for(1)
    sim.spawn("client", _talk([], 100))
    sim.run_for(3.5)
    sim.crash("client", reset=True)
    sim.run_for(1)
    assert heard[-1] == b"<reset>"


def test_ports_of_a_crashed_process_are_free(sim: Simulation) -> None:
    sim.spawn("server", lambda: _serve([]))
    sim.run_for(1)
    for _ in range(3):
        sim.restart("server")
        sim.run_for(1)
    assert not sim.errors


def test_hosts_are_named_and_what_can_not_be_is_said(sim: Simulation) -> None:
    sim.host("worker-1")
    with pytest.raises(UsageError, match="did you mean 'worker-1'"):
        sim.crash("worker1")
    with pytest.raises(UsageError, match="invalid host name"):
        sim.host("localhost")
    sim.crash("worker-1")
    with pytest.raises(UsageError, match="has crashed"):
        sim.pause("worker-1")
    with pytest.raises(UsageError, match="restart it first"):
        sim.spawn("worker-1", Life(sim).run())
    sim.heal()
    assert sim.host("worker-1").state == "up"

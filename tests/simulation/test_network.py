"""The network in memory: TCP as its users see it, under latency, cuts and losses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from broker_sim.common.text import UsageError
from broker_sim.simulation import Simulation, simulate
from broker_sim.simulation.virtual.network import Link

PAYLOAD = bytes(range(256)) * 40


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with simulate(11) as sim:
        yield sim


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def serve() -> None:
    server = await asyncio.start_server(echo, "0.0.0.0", 7)
    await server.serve_forever()


@pytest.fixture
def server(sim: Simulation) -> Simulation:
    sim.spawn("server", serve)
    sim.host("client")
    sim.run_for(1)
    return sim


async def ask(data: bytes = PAYLOAD) -> tuple[bytes, float]:
    loop = asyncio.get_running_loop()
    started = loop.time()
    reader, writer = await asyncio.open_connection("server", 7)
    writer.write(data)
    answer = await reader.readexactly(len(data))
    writer.close()
    await writer.wait_closed()
    return answer, loop.time() - started


def on(sim: Simulation, host: str, coro: Any) -> Any:
    """Run a coroutine on a host to its end."""
    task = sim.spawn(host, coro)
    sim.run_until(task.done, within="10m")
    return task.result()


def test_streams_talk_and_it_takes_its_time(server: Simulation) -> None:
    answer, took_s = on(server, "client", ask())
    assert answer == PAYLOAD
    assert 0.002 < took_s < 0.02


def test_bytes_keep_their_order_whatever_their_latency(sim: Simulation) -> None:
    sim.network.link = Link(latency_ms=1, jitter_ms=500, chunks=0.9)
    sim.spawn("server", serve)
    sim.run_for(1)

    async def many() -> bytes:
        reader, writer = await asyncio.open_connection("server", 7)
        for number in range(300):
            writer.write(number.to_bytes(4, "big"))
            if number % 10 == 0:
                await asyncio.sleep(0.01)
        answer = await reader.readexactly(1200)
        writer.close()
        return answer

    answer = on(sim, "client", many())
    assert [int.from_bytes(answer[i : i + 4], "big") for i in range(0, 1200, 4)] == list(range(300))


def test_chunks_come_apart(sim: Simulation) -> None:
    sim.network.link = Link(chunks=1.0)
    pieces: list[int] = []

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            pieces.append(len(data))
        writer.close()

    async def listen() -> None:
        await (await asyncio.start_server(count, "0.0.0.0", 7)).serve_forever()

    async def send() -> None:
        _, writer = await asyncio.open_connection("server", 7)
        for _ in range(20):
            writer.write(b"x" * 1000)
            await asyncio.sleep(1)
        writer.close()

    sim.spawn("server", listen)
    sim.run_for(1)
    on(sim, "client", send())
    sim.run_for(1)
    assert sum(pieces) == 20_000
    assert len(pieces) > 30


def test_a_partition_stalls_and_loses_nothing(server: Simulation) -> None:
    task = server.spawn("client", ask())
    server.run_until(lambda: len(server.network.transports) == 2)
    cut = server.network.partition("client", "server")
    server.run_for(300)
    assert not task.done()
    cut.heal()
    cut.heal()
    server.run_for(1)
    assert task.result()[0] == PAYLOAD


def test_a_way_can_be_cut_in_one_direction(server: Simulation) -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            heard.append(data)
            writer.write(data)
        writer.close()

    async def serve_and_note() -> None:
        await (await asyncio.start_server(listen, "0.0.0.0", 9)).serve_forever()

    async def talk() -> bytes:
        reader, writer = await asyncio.open_connection("server", 9)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        server.network.cut("server", "client")
        writer.write(b"two")
        answer = await reader.readexactly(3)
        writer.close()
        return answer

    server.spawn("server", serve_and_note)
    server.run_for(1)
    task = server.spawn("client", talk())
    server.run_for(60)
    assert b"".join(heard) == b"onetwo"
    assert not task.done()
    server.network.heal()
    server.run_for(1)
    assert task.result() == b"two"


def test_what_was_stalled_is_not_overtaken(server: Simulation) -> None:
    async def talk() -> bytes:
        reader, writer = await asyncio.open_connection("server", 7)
        with server.network.cut("client", "server"):
            for letter in (b"a", b"b", b"c"):
                writer.write(letter)
                await asyncio.sleep(1)
        for letter in (b"d", b"e", b"f"):
            writer.write(letter)
        answer = await reader.readexactly(6)
        writer.close()
        return answer

    server.network.link = Link(latency_ms=5, jitter_ms=50)
    assert on(server, "client", talk()) == b"abcdef"


def test_a_refused_connect_takes_a_round_trip(server: Simulation) -> None:
    async def refused() -> float:
        loop = asyncio.get_running_loop()
        started = loop.time()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("server", 8)
        return loop.time() - started

    assert on(server, "client", refused()) >= 0.001


def test_who_does_not_answer_is_given_up_after_two_minutes(server: Simulation) -> None:
    async def connect() -> float:
        loop = asyncio.get_running_loop()
        started = loop.time()
        with pytest.raises(TimeoutError):
            await asyncio.open_connection("server", 7)
        return loop.time() - started

    server.crash("server")
    assert 127 <= on(server, "client", connect()) < 128


def test_connecting_goes_on_once_the_way_is_free(server: Simulation) -> None:
    with server.network.partition("client", "*"):
        task = server.spawn("client", ask())
        server.run_for(10)
        assert not task.done()
    server.run_for(10)
    assert task.result()[0] == PAYLOAD


def test_names_are_resolved_in_the_network_alone(server: Simulation) -> None:
    loop = server.loop
    address = server.host("server").address
    assert on(server, "client", loop.getaddrinfo("server", 7))[0][4] == (address, 7)
    assert on(server, "client", loop.getnameinfo((address, 7))) == ("server", "7")
    with pytest.raises(socket.gaierror):
        server.run(loop.getaddrinfo("example.test", 80))


def test_localhost_is_the_host_that_asks(server: Simulation) -> None:
    async def connect() -> tuple[str, int]:
        _, writer = await asyncio.open_connection("localhost", 7)
        peer: tuple[str, int] = writer.get_extra_info("peername")
        writer.close()
        return peer

    assert on(server, "server", connect()) == (server.host("server").address, 7)
    with pytest.raises(ConnectionRefusedError):
        on(server, "client", connect())


def test_a_port_is_bound_once(server: Simulation) -> None:
    with pytest.raises(OSError, match="in use"):
        on(server, "server", serve())


def test_a_lost_connection_is_an_error_at_both_ends(server: Simulation) -> None:
    async def wait() -> None:
        reader, writer = await asyncio.open_connection("server", 7)
        writer.write(b"hello")
        await reader.readexactly(5)
        try:
            await reader.read(1)
        finally:
            writer.close()

    task = server.spawn("client", asyncio.wait_for(wait(), 600))
    server.run_for(1)
    assert server.network.reset("client", "server") == 1
    with pytest.raises(ConnectionResetError):
        server.run_for(1)
    assert task.done()
    assert not server.network.transports


def test_a_link_may_lose_connections(server: Simulation) -> None:
    server.network.set_link("client", "server", loss=1.0)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        on(server, "client", ask())


def test_links_are_set_one_way_and_what_is_wrong_is_said(server: Simulation) -> None:
    server.network.set_link("client", "server", latency_ms=1000, chunks=0)
    _, took_s = on(server, "client", ask(b"x"))
    assert 3 < took_s < 3.2  # the handshake, there and (fast) back
    for wrong in ({"latency": 3}, {"loss": 2}, {"latency_ms": -1}):
        with pytest.raises(UsageError):
            server.network.set_link("client", "server", **wrong)
    with pytest.raises(UsageError, match="did you mean 'server'"):
        server.network.partition("client", "sever")


def test_a_writer_is_held_up_by_a_reader_that_does_not_read(server: Simulation) -> None:
    async def flood() -> int:
        reader, writer = await asyncio.open_connection("server", 7)
        sent = 0
        try:
            while True:
                writer.write(bytes(100_000))
                sent += 1
                await asyncio.wait_for(writer.drain(), 30)
        except TimeoutError:
            pass
        assert (await reader.read(10)) == bytes(10)
        writer.transport.abort()
        return sent

    assert 2 < on(server, "client", flood()) < 20


def test_draws_of_a_connection_do_not_depend_on_other_connections() -> None:
    def took(others: int) -> list[float]:
        async def noise() -> None:
            for _ in range(others):
                await ask(b"noise")

        with simulate(5) as sim:
            sim.spawn("server", serve)
            sim.run_for(1)
            sim.spawn("other", noise)
            return [on(sim, "client", ask())[1] for _ in range(3)]

    assert took(0) == took(9)
    assert len(set(took(0))) == 3


def test_half_closed_connections_deliver_the_rest(server: Simulation) -> None:
    async def talk() -> bytes:
        reader, writer = await asyncio.open_connection("server", 7)
        writer.write(b"last words")
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer

    assert on(server, "client", talk()) == b"last words"


def test_a_protocol_that_fails_loses_its_connection(server: Simulation) -> None:
    class Bad(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            raise ZeroDivisionError

    async def connect() -> None:
        transport, _ = await asyncio.get_running_loop().create_connection(Bad, "server", 7)
        transport.write(b"x")  # type: ignore[attr-defined]
        await asyncio.sleep(1)
        assert transport.is_closing()

    on(server, "client", connect())
    assert [type(error["exception"]) for error in server.errors] == [ZeroDivisionError]

"""Sockets and selectors of synchronous programs, over the simulated network."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import selectors
import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from broker_sim.simulation import Simulation, simulate

pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
"""kafka-python reads its files so."""


def echo(sim: Simulation, name: str = "server") -> None:
    """A host that sends back what it gets, half a second later."""

    async def serve() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(1000):
                await asyncio.sleep(0.5)
                writer.write(data)
            writer.close()

        server = await asyncio.start_server(answer, "0.0.0.0", 7)
        await server.serve_forever()

    sim.host(name).spawn(serve)
    sim.run_for(0.1)


def with_echo(function: Callable[[], Any]) -> Any:
    with simulate(1) as sim:
        echo(sim)
        task = sim.host("sync").spawn_sync(function)
        sim.run_until(task.done, within="1h")
        return task.result()


def test_blocking_sockets_connect_send_and_receive() -> None:
    def talk() -> list[Any]:
        with socket.create_connection(("server", 7), timeout=5) as sock:
            assert isinstance(sock, socket.socket)
            assert (sock.family, sock.type, sock.gettimeout()) == (socket.AF_INET, socket.SOCK_STREAM, 5)
            assert sock.getpeername()[1] == 7
            began = time.monotonic()
            sock.sendall(b"hello")
            heard = sock.recv(3) + sock.recv(100)
            took = time.monotonic() - began
            sock.settimeout(0.1)
            sock.send(b"too slow")
            with pytest.raises(TimeoutError):
                sock.recv(1)
            sock.settimeout(None)
            buffer = bytearray(100)
            size = sock.recv_into(buffer)
            sock.shutdown(socket.SHUT_WR)
            return [heard, 0.5 < took < 0.6, bytes(buffer[:size]), sock.recv(1)]

    assert with_echo(talk) == [b"hello", True, b"too slow", b""]


def test_large_amounts_wait_for_room() -> None:
    def flood() -> int:
        sock = socket.create_connection(("server", 7))
        sock.setblocking(False)
        sent, data = 0, b"x" * 100_000
        with contextlib.suppress(BlockingIOError):
            while True:
                sent += sock.send(data)
        sock.setblocking(True)
        got = 0
        while got < sent:
            got += len(sock.recv(65_536))
        return got - sent

    assert with_echo(flood) == 0


def test_what_cannot_be_reached_is_told_as_by_a_kernel() -> None:
    def look() -> list[Any]:
        found: list[Any] = []
        for address in (("server", 8), ("nowhere", 7)):
            try:
                socket.create_connection(address, timeout=5)
            except OSError as error:
                found.append(error.errno if not isinstance(error, socket.gaierror) else "unknown")
        sock = socket.socket()
        with pytest.raises(OSError) as error:
            sock.send(b"x")
        sock.close()
        with pytest.raises(OSError):
            sock.recv(1)
        return [*found, error.value.errno, sock.fileno()]

    assert with_echo(look) == [errno.ECONNREFUSED, "unknown", errno.ENOTCONN, -1]


def test_a_selector_waits_for_several_sockets() -> None:
    def talk() -> list[Any]:
        one, other = socket.socketpair()
        sock = socket.socket()
        sock.setblocking(False)
        assert sock.connect_ex(("server", 7)) == errno.EINPROGRESS
        found: list[Any] = []
        with selectors.DefaultSelector() as selector:
            selector.register(sock, selectors.EVENT_WRITE, "connected")
            selector.register(one, selectors.EVENT_READ, "woken")
            found += [key.data for key, _ in selector.select(5)]
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            sock.send(b"x")
            selector.modify(sock, selectors.EVENT_READ, "answered")
            threading.Timer(0.2, lambda: other.send(b"!")).start()
            found += [key.data for key, _ in selector.select()]
            assert one.recv(10) == b"!"
            found += [key.data for key, _ in selector.select(5)]
            assert sock.recv(10) == b"x"
            assert selector.select(3) == selector.select(0) == []
            assert len(selector.get_map()) == 2
            selector.unregister(sock)
            with pytest.raises(KeyError):
                selector.get_key(sock)
        return found

    assert with_echo(talk) == ["connected", "woken", "answered"]


def test_a_crash_of_the_other_side_is_seen() -> None:
    def talk() -> Any:
        sock = socket.create_connection(("server", 7))
        try:
            return sock.recv(1)
        except ConnectionResetError:
            return "reset"

    with simulate(1) as sim:
        echo(sim)
        task = sim.host("sync").spawn_sync(talk)
        sim.run_for(1)
        sim.crash("server", reset=True)
        sim.run_until(task.done, within="1s")
        assert task.result() == "reset"


def test_urllib_asks_a_server_that_is_a_coroutine() -> None:
    def ask() -> list[bytes]:
        with urllib.request.urlopen("http://web:80/a", timeout=5) as answer:
            assert answer.status == 200
            return list(answer)

    async def serve() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked = await reader.readuntil(b"\r\n\r\n")
            assert asked.startswith(b"GET /a HTTP/1.1\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\none\n")
            await asyncio.sleep(1)
            writer.write(b"two\n")
            writer.close()

        server = await asyncio.start_server(answer, "0.0.0.0", 80)
        await server.serve_forever()

    with simulate(1) as sim:
        sim.host("web").spawn(serve)
        sim.run_for(0.1)
        task = sim.host("sync").spawn_sync(ask)
        sim.run_until(task.done, within="10s")
        assert task.result() == [b"one\n", b"two\n"]

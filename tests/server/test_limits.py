"""Slow readers, eager writers, idle connections: bounded memory, cheap connections."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.common import process_memory
from broker_sim.network.connection import Connection
from broker_sim.network.reply_writer import WRITE_CHUNK
from broker_sim.network.waiting_bytes import READ_AHEAD
from broker_sim.requests.context import RequestContext
from kafka_wire.messages.k12_heartbeat import HeartbeatResponse
from kafka_wire.messages.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.support import processes

from .fakes import Bench, FakeTransport, heartbeat, request_frame


async def spin() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def big_replies(bench: Bench, size: int) -> bytes:
    """Lets ListGroups answer `size` bytes; a request for it."""

    def handler(context: RequestContext, request: Any) -> ListGroupsResponse:
        return ListGroupsResponse(groups=[ListedGroup(group_id="x" * 10_000)] * (size // 10_000))

    bench.answer(handler, other=True)
    return request_frame(ListGroupsRequest(), 4, 1)


async def test_a_client_that_does_not_read_is_not_served_further() -> None:
    bench = Bench()
    ask = big_replies(bench, 100_000)
    connection, transport = bench.connect()
    transport.pause_after = 65_536
    for _ in range(100):
        if transport.reading:
            connection.data_received(ask * 100)
    assert len(transport.written) <= WRITE_CHUNK + 2 * 100_000
    assert not transport.reading
    done = len(bench.handled)
    assert done <= 4
    transport.replies()
    connection.resume_writing()
    await spin()
    assert len(bench.handled) > done


async def test_it_is_read_again_when_nothing_waits() -> None:
    bench = Bench()
    bench.answer(bench.park)
    connection, transport = bench.connect()
    connection.data_received(heartbeat(1) + heartbeat(2, more=READ_AHEAD))
    assert not transport.reading
    bench.parked[0].reply(HeartbeatResponse())
    await spin()
    bench.parked[1].reply(HeartbeatResponse())
    await spin()
    assert transport.ids() == [1, 2]
    connection.data_received(heartbeat(3))
    bench.parked[2].reply(HeartbeatResponse())
    assert transport.ids() == [3]
    assert transport.reading


async def test_no_more_than_the_read_ahead_waits_behind_a_parked_request() -> None:
    bench = Bench()
    bench.answer(bench.park)
    connection, transport = bench.connect()
    sent = 0
    connection.data_received(heartbeat(1))
    while transport.reading:
        connection.data_received(b"".join(heartbeat(i) for i in range(2, 102)))
        sent += 100
    assert sent * len(heartbeat(1)) < READ_AHEAD + 100 * len(heartbeat(1))
    for number in range(sent + 1):
        bench.parked[number].reply(HeartbeatResponse())
        await spin()
    assert len(transport.ids()) == sent + 1
    assert transport.reading


async def test_pausing_while_parked_is_lifted_by_both() -> None:
    bench = Bench()
    bench.answer(bench.park)
    connection, _ = bench.connect()
    connection.data_received(heartbeat(1) + heartbeat(2))
    connection.pause_writing()
    bench.parked[0].reply(HeartbeatResponse())
    await spin()
    assert bench.handled == [1]
    connection.resume_writing()
    await spin()
    assert bench.handled == [1, 2]


async def test_one_large_frame_in_many_pieces_is_put_together_once() -> None:
    bench = Bench()
    bench.answer(lambda context, request: HeartbeatResponse())
    connection, transport = bench.connect()
    data = heartbeat(1, more=5_000_000)
    for at in range(0, len(data), 1000):
        connection.data_received(data[at : at + 1000])
    assert transport.ids() == [1]
    assert connection._waiting.tail is None


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    bench = Bench(connections_max_idle_ms=600_000)
    bench.answer(lambda context, request: HeartbeatResponse())
    (idle_connection, idle), (busy_connection, busy) = bench.connect(), bench.connect()
    for number in range(6):
        bench.clock.advance(100_000)
        assert not idle.closed
        busy_connection.data_received(heartbeat(number))
    bench.clock.advance(30_000)
    assert idle.aborted
    assert (idle_connection.reason, busy_connection.reason) == ("idle for 600000 ms", "")
    assert not busy.closed
    bench.clock.advance(631_000)
    assert busy.aborted


async def test_one_timer_looks_after_all_and_none_after_nobody() -> None:
    bench = Bench()
    assert bench.clock.next_deadline_ms() is None
    ends = [bench.connect() for _ in range(50)]
    assert len(bench.clock._heap) == 1
    for connection, _ in ends:
        connection.connection_lost(None)
    bench.clock.advance(600_000)
    assert bench.clock.next_deadline_ms() is None


async def test_negative_idle_time_keeps_connections_for_ever() -> None:
    bench = Bench(connections_max_idle_ms=-1)
    _, transport = bench.connect()
    bench.clock.advance(10**9)
    assert not transport.closed


async def test_a_connection_costs_little() -> None:
    bench = Bench()
    connection = Connection(bench.server, bench.server.listeners[0])
    assert not hasattr(connection, "__dict__")
    assert connection._replies.pending is None
    parts = [connection, connection._waiting, connection._replies, connection._replies.out]
    assert sum(map(sys.getsizeof, parts)) <= 400


async def test_stop_closes_every_connection() -> None:
    bench = Bench()
    ends = [bench.connect() for _ in range(3)]

    def lost(connection: Connection, transport: FakeTransport) -> None:
        transport.closed = True
        asyncio.get_running_loop().call_soon(connection.connection_lost, None)

    for connection, transport in ends:
        transport.close = lambda c=connection, t=transport: lost(c, t)  # type: ignore[method-assign, misc]
    await bench.server.stop()
    assert not bench.server.connections
    assert bench.clock.next_deadline_ms() is None


async def test_who_comes_to_a_stopped_server_is_sent_away_and_leaves_no_timer() -> None:
    bench = Bench()
    await bench.server.stop()
    _, transport = bench.connect()
    assert transport.aborted
    assert bench.clock.next_deadline_ms() is None


def test_every_request_is_read_at_the_limit_of_open_files() -> None:
    """Modules that are loaded at the start need no file at an API's first request."""
    source = """
import resource
from broker_sim.requests.routes import Routes, load_handlers, supported
assert list(load_handlers())
resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
routes = Routes("4.1")
for key, (low, high) in supported("4.1").items():
    for version in range(low, high + 1):
        assert routes[(key << 16) + version].api_key == key
"""
    processes.run([sys.executable, "-c", source], check=True)


def test_memory_that_nobody_uses_goes_back_to_the_system() -> None:
    source = """
import re
from broker_sim.common.process_memory import free_bytes, give_back, keep_freed
def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) << 10
if keep_freed() and free_bytes():
    blocks = [bytes([1]) * 100_000 for _ in range(1000)]
    last = bytes([1]) * 100_000  # the heap's top is in use
    held = resident()
    del blocks
    assert free_bytes() > 90_000_000, free_bytes()
    give_back()
    assert resident() < held - 90_000_000, (held, resident())
"""
    processes.run([sys.executable, "-c", source], check=True)


def test_all_objects_are_looked_at_between_long_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full collection that Python started in the midst of a long request delayed all connections by 400 ms."""
    looks: list[Any] = []
    state = {"busy": False, "due": 0, "collected": 0}

    class Loop:
        def call_later(self, delay_s: float, look: Any, free: int) -> None:
            looks.append(lambda: look(free))

    def collect() -> None:
        state["collected"] += 1

    monkeypatch.setattr(process_memory.gc, "get_count", lambda: (0, 0, process_memory.DUE + state["due"]))
    monkeypatch.setattr(process_memory.gc, "collect", collect)
    process_memory.give_back_now_and_then(Loop(), lambda: bool(state["busy"]))  # type: ignore[arg-type]
    for busy, due, collected in ((False, 0, 0), (True, 1, 0), (False, 1, 1)):
        state |= {"busy": busy, "due": due}
        looks.pop()()
        assert state["collected"] == collected


async def test_a_connection_that_was_accepted_before_the_port_was_closed_goes_with_the_others() -> None:
    """The loop makes a connection some turns after it has accepted it: meanwhile the server may have stopped."""
    async with Cluster() as kafka:
        server = kafka.servers[0]
        await server.stop()
        connection, transport = Connection(server, server.listeners[0]), FakeTransport()
        transport.connection = connection
        connection.connection_made(transport)
        assert transport.aborted
        connection.connection_lost(None)


def test_a_connection_that_was_accepted_as_the_broker_stops_is_closed() -> None:
    """Whichever turn of the loop is its last; else the socket is closed when the collector finds it, in somebody else's test."""
    source = """
import asyncio, gc, socket, warnings
from broker_sim import Cluster

async def stop_after(turns):
    async with Cluster() as kafka:
        host, _, port = kafka.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port))):
            for _ in range(turns):
                await asyncio.sleep(0)
            await kafka.stop()

warnings.simplefilter("always")
for turns in range(6):
    asyncio.run(stop_after(turns))
    gc.collect()
"""
    done = processes.run([sys.executable, "-c", source], check=True)
    assert "unclosed" not in done.stderr

"""Large Fetch answers go out of the log as the client reads: whole, in order, and at a cost that does not depend on their size."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.network.reply_writer import CHUNK_BYTES, ReplyWriter
from broker_sim.storage.record_slices import DiskSlice, MemorySlice, whole
from kafka_wire.codec import encode
from kafka_wire.frame import encode_request_header, frame
from kafka_wire.messages.k01_fetch import FetchRequest
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from tests.data_plane.helpers import batch, fetch, produce, produced
from tests.server.fakes import FakeTransport
from tests.support.wire import Wire

VERSION = 12
SIZE = 40 << 20
"""More than any socket's buffers hold."""


@pytest.fixture(params=["memory", "disk"])
async def kafka(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    data_dir = tmp_path / "data" if request.param == "disk" else None
    async with Cluster(topics={"t": 1}, data_dir=data_dir, journal=False) as cluster:
        wire = await Wire.connect(cluster.bootstrap)
        records = batch(1, value=os.urandom(1000) * 700)
        while log_of(cluster).size_bytes < SIZE:
            assert produced(await wire.send(produce("t", records), 9)).error_code == 0
        await wire.close()
        yield cluster


def log_of(kafka: Cluster) -> Any:
    return kafka.state.topics["t"].partitions[0].log


def ask() -> FetchRequest:
    return fetch({("t", 0): 0}, max_bytes=SIZE, partition_max_bytes=SIZE)


def raw(request: Any, version: int, number: int) -> bytes:
    key = type(request).__spec__.api_key
    return frame(encode_request_header(key, version, number, "raw") + encode(request, version))


def connected(kafka: Cluster) -> socket.socket:
    """A client that reads when it is asked to."""
    host, _, port = kafka.bootstrap.rpartition(":")
    client = socket.create_connection((host, int(port)))
    client.setblocking(False)
    return client


async def received(client: socket.socket) -> tuple[int, bytes]:
    """The next reply: its correlation id and what follows."""
    loop = asyncio.get_running_loop()

    async def exactly(size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = await asyncio.wait_for(loop.sock_recv(client, min(size - len(data), 1 << 20)), 60)
            assert piece, f"the broker hung up with {size - len(data)} bytes of a reply to come"
            data += piece
        return bytes(data)

    body = await exactly(int.from_bytes(await exactly(4), "big"))
    return int.from_bytes(body[:4], "big"), body[4:]


async def until_it_waits(kafka: Cluster, number: int = 1) -> list[Any]:
    """The broker's connections, once so many of them have a reply that the client does not read."""
    (server,) = kafka.servers
    async with asyncio.timeout(60):
        while True:
            waiting = [one for one in server.connections if one._replies.paced]
            if len(waiting) >= number:
                return waiting
            await asyncio.sleep(0)


async def test_a_large_answer_is_whole_and_what_was_asked_behind_it_comes_behind_it(kafka: Cluster) -> None:
    client = connected(kafka)
    client.send(raw(ask(), VERSION, 1) + raw(ApiVersionsRequest(), 0, 2) + raw(ask(), VERSION, 3))
    await until_it_waits(kafka)
    expected = log_of(kafka).read(0, SIZE)
    for number in (1, 2, 3):
        got, body = await received(client)
        assert got == number
        if number != 2:
            assert expected in body
    client.close()


async def test_a_client_that_never_reads_costs_a_chunk_and_is_forgotten_when_it_goes(kafka: Cluster) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    clients = [connected(kafka) for _ in range(10)]
    for client in clients:
        client.send(raw(ask(), VERSION, 1))
    waiting = await until_it_waits(kafka, 10)
    for connection in waiting:
        held = connection._transport.get_write_buffer_size()
        assert held <= connection._transport.get_write_buffer_limits()[1] + CHUNK_BYTES
    other = await Wire.connect(kafka.bootstrap)  # nobody else is kept waiting
    assert (await other.send(ApiVersionsRequest(), 0)).error_code == 0
    await other.close()
    for client in clients:
        client.close()
    (server,) = kafka.servers
    async with asyncio.timeout(60):
        while server.connections:
            await asyncio.sleep(0)
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before


async def test_a_topic_that_is_deleted_meanwhile_is_read_to_the_end(kafka: Cluster) -> None:
    client = connected(kafka)
    client.send(raw(ask(), VERSION, 1))
    await until_it_waits(kafka)
    expected = log_of(kafka).read(0, SIZE)
    kafka.state.delete_topic("t")
    assert expected in (await received(client))[1]
    client.close()


async def test_a_broker_that_stops_gives_a_reader_its_last_reply(kafka: Cluster) -> None:
    client = connected(kafka)
    client.send(raw(ask(), VERSION, 1))
    await until_it_waits(kafka)
    expected = log_of(kafka).read(0, SIZE)
    down = asyncio.create_task(kafka.broker_down(1, graceful=True))
    assert expected in (await received(client))[1]
    assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 60) == b""
    await down
    client.close()


def test_what_is_written_behind_a_slice_waits_for_it() -> None:
    transport = FakeTransport()
    writer = ReplyWriter(transport)
    batches = [bytes([n]) * 50_000 for n in range(1, 9)]
    writer.paused = True
    assert writer.write([b"head", MemorySlice(batches, 400_000), b"x", b"y"]) is False
    assert transport.written == b""
    writer.paused = False
    assert writer.write([b"z"]) is True
    assert transport.written == b"head" + b"".join(batches) + b"xyz"


def test_a_log_that_ends_early_costs_the_connection(tmp_path: Path) -> None:
    from broker_sim.storage.files import FILES

    path = tmp_path / "0.log"
    path.write_bytes(b"a" * 100_000)
    transport = FakeTransport()
    writer = ReplyWriter(transport)
    assert writer.write([b"head", DiskSlice(FILES, path, 0, 200_000)]) is False
    assert transport.aborted


def test_chunks_are_all_the_bytes_in_order_whatever_the_batches_sizes(tmp_path: Path) -> None:
    from broker_sim.storage.files import FILES

    sizes = [1, 70_000, 3, 3, 65_536, 200_001, 9]
    batches = [os.urandom(size) for size in sizes]
    expected = b"".join(batches)
    (tmp_path / "0.log").write_bytes(b"before" + expected + b"behind")
    for made in (
        lambda: MemorySlice(batches, len(expected)),
        lambda: DiskSlice(FILES, tmp_path / "0.log", 6, len(expected)),
    ):
        chunks = list(made().chunks(CHUNK_BYTES))
        assert b"".join(chunks) == expected == whole(made())
        assert max(map(len, chunks)) <= CHUNK_BYTES

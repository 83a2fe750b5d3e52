"""The server on real sockets: what only the kernel can show."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import tracemalloc

import pytest

from broker_sim import Cluster
from kafka_wire.frame import frame
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from tests.support.unhurried import UnhurriedLoop
from tests.support.wire import Wire, within

from .fakes import request_frame


def address(kafka: Cluster) -> tuple[str, int]:
    return kafka.brokers[0].host, kafka.brokers[0].port


async def until(condition: object, what: str) -> None:
    """Poll ``condition()`` until it holds."""
    assert callable(condition)
    deadline = asyncio.get_running_loop().time() + 60
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"waited 60 s for {what}"
        await asyncio.sleep(0.005)


async def test_pipelined_requests_of_several_apis_are_answered_in_order() -> None:
    async with Cluster(topics={"orders": 3}) as kafka:
        wire = await Wire.connect(kafka.bootstrap)
        order: list[int] = []
        answers = []
        for number in range(200):
            request = MetadataRequest(topics=None) if number % 3 else ApiVersionsRequest("t", "1")
            answer = wire.start(request, 9 if number % 3 else 3)
            answer.add_done_callback(lambda _, number=number: order.append(number))
            answers.append(answer)
        await within(asyncio.gather(*answers), 60, "200 pipelined answers")
        assert order == list(range(200))
        await wire.close()


async def test_a_request_behind_a_parked_one_waits_and_others_do_not() -> None:
    async with Cluster(config={"group.initial.rebalance.delay.ms": 300}) as kafka:
        kafka.state.ensure_offsets_topic()
        parked, other = await Wire.connect(kafka.bootstrap), await Wire.connect(kafka.bootstrap)
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        first = parked.start(join, 3)
        second = parked.start(ApiVersionsRequest(), 0)
        await other.send(ApiVersionsRequest(), 0)
        assert not first.done()
        assert not second.done()
        joined = await within(first, 60, "the end of the initial rebalance delay")
        assert isinstance(joined, JoinGroupResponse)
        await within(second, 60, "the request behind it")
        await parked.close()
        await other.close()


async def test_a_client_that_never_reads_is_held_and_the_others_are_served() -> None:
    names = [MetadataRequestTopic(name="orders")]
    async with Cluster(topics={"orders": 1000}) as kafka:
        with socket.create_connection(address(kafka)) as deaf:
            deaf.setblocking(False)
            question = request_frame(MetadataRequest(topics=names), 9, 1) * 100
            tracemalloc.start()
            sent = 0
            for _ in range(2000):
                try:
                    sent += deaf.send(question)
                except BlockingIOError:
                    await asyncio.sleep(0)
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            wire = await Wire.connect(kafka.bootstrap)
            await wire.send(ApiVersionsRequest(), 0)
            await wire.close()
        # what its requests ask for altogether is hundreds of times as much
        assert sent > 100_000
        assert held < 4_000_000
        await until(lambda: not kafka.servers[0].connections, "the connections to end")


async def test_stop_does_not_wait_for_a_client_that_never_reads() -> None:
    async with Cluster(topics={"orders": 1000}) as kafka:
        deaf = socket.create_connection(address(kafka))
        question = request_frame(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 9, 1)
        deaf.setblocking(False)
        for _ in range(2000):
            try:
                deaf.send(question)
            except BlockingIOError:
                break
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
    if isinstance(loop, UnhurriedLoop):  # on another one it has ended, which says that it did not wait for the client
        assert loop.time() - began_s < 5
    deaf.close()


async def test_a_client_that_shuts_its_side_still_gets_its_answers() -> None:
    async with Cluster() as kafka:
        reader, writer = await asyncio.open_connection(*address(kafka))
        writer.write(request_frame(ApiVersionsRequest(), 0, 1) * 3)
        writer.write_eof()
        data = await within(reader.read(), 60, "the broker to close")
        sizes = []
        while data:
            (size,) = struct.unpack_from(">i", data)
            sizes.append(size)
            data = data[size + 4 :]
        assert len(sizes) == 3
        writer.close()
        await writer.wait_closed()


async def test_a_reset_while_a_request_is_parked_is_noticed() -> None:
    async with Cluster() as kafka:
        kafka.state.ensure_offsets_topic()
        wire = await Wire.connect(kafka.bootstrap)
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        wire.start(join, 3).cancel()
        await until(lambda: [c for c in kafka.servers[0].connections if c._replies.pending], "JoinGroup to be parked")
        wire.abort()
        await until(lambda: not kafka.servers[0].connections, "the connection to end")
        await wire.close()


async def half_open(count: int) -> float:
    """Bytes that each of ``count`` connections costs which never finish their first frame."""
    async with Cluster() as kafka:
        sockets = []
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for number in range(count):
                sock = socket.socket()
                sock.setblocking(False)
                await asyncio.get_running_loop().sock_connect(sock, address(kafka))
                sock.send(struct.pack(">i", 100_000_000)[: number % 5])
                sockets.append(sock)
            await until(lambda: len(kafka.servers[0].connections) == count, "all connections to be accepted")
            after, _ = tracemalloc.get_traced_memory()
            wire = await Wire.connect(kafka.bootstrap)
            await wire.send(ApiVersionsRequest(), 0)
            await wire.close()
        finally:
            tracemalloc.stop()
            for sock in sockets:
                sock.close()
        await until(lambda: not kafka.servers[0].connections, "all connections to end")
        return (after - before) / count


async def test_half_open_connections_are_cheap() -> None:
    assert await half_open(300) < 6_000


@pytest.mark.slow
async def test_ten_thousand_half_open_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 21_000 and hard != resource.RLIM_INFINITY:
        count = (hard - 1000) // 2  # both ends are in this process
    else:
        count = 10_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        assert await half_open(count) < 6_000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_garbage_ends_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    async with Cluster() as kafka:
        good = await Wire.connect(kafka.bootstrap)
        for garbage in (
            b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            frame(bytes(20)),
        ):
            bad = await Wire.connect(kafka.bootstrap)
            bad.write_raw(garbage)
            await bad.closed()
            await bad.close()
            await good.send(ApiVersionsRequest(), 0)
        await good.close()
    assert len([record for record in caplog.records if record.name == "broker_sim.server"]) == 3

"""Frames that are no requests cost their connection and one log line; nothing else notices. So do Kafka 3.4 and 4.1."""

from __future__ import annotations

import asyncio
import struct
import tracemalloc
from typing import Any

import pytest

from broker_sim.requests.context import RequestContext
from kafka_wire.codec import decode, encode
from kafka_wire.frame import encode_request_header, frame
from kafka_wire.messages.k12_heartbeat import HeartbeatResponse
from kafka_wire.messages.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

from .fakes import Bench, FakeTransport, heartbeat


@pytest.fixture
async def bench() -> Bench:
    bench = Bench()
    bench.answer(lambda context, request: HeartbeatResponse())
    return bench


def closed_with_one_line(transport: FakeTransport, caplog: pytest.LogCaptureFixture) -> str:
    assert transport.closed
    assert len(caplog.records) == 1
    message = caplog.records[0].getMessage()
    assert "\n" not in message
    assert caplog.records[0].exc_info is None
    return message


def header(key: int, version: int, client_id: bytes = b"\xff\xff", tags: bytes = b"") -> bytes:
    return struct.pack(">hhi", key, version, 7) + client_id + tags


BAD = {
    "negative size": (struct.pack(">i", -1), "a frame of -1 bytes"),
    "the smallest size": (struct.pack(">i", -(2**31)), "a frame of -2147483648 bytes"),
    "zero size": (struct.pack(">i", 0), "a frame of 0 bytes"),
    "a size too small for a header": (frame(b"123456789"), "a frame of 9 bytes"),
    "more than socket.request.max.bytes": (struct.pack(">i", 104857601), "a frame of 104857601 bytes"),
    "bad size, much data": (struct.pack(">i", -5) + bytes(100), "a frame of -5 bytes"),
    "unknown API": (frame(header(999, 0)), "API key 999 (version 0) is not known to Kafka 4.1"),
    "an API that Kafka has": (
        frame(header(49, 1)),
        "broker-sim has no AlterClientQuotas (API key 49, version 1), which Kafka 4.1 has",
    ),
    "negative API": (frame(header(-1, 0)), "API key -1 (version 0) is not known to Kafka 4.1"),
    "client id longer than the frame": (
        frame(header(12, 4, b"\x7f\xffabc")),
        "the client id claims 32767 bytes, 3 are left",
    ),
    "no tags in a flexible header": (frame(header(12, 4)), "a request ends early"),
    "endless header tags": (frame(header(12, 4, tags=b"\xff\xff\xff\xff\xff\xff")), "longer than"),
    "a header tag longer than the frame": (frame(header(12, 4, tags=b"\x01\x00\x7f")), "tag 0"),
    "no body": (frame(header(12, 4, tags=b"\0")), "HeartbeatRequest v4: the message ends early"),
    "a string longer than the body": (
        frame(header(12, 4, tags=b"\0\x7fabc")),
        "HeartbeatRequest v4: group_id has the length 126",
    ),
    "null where none may be": (
        frame(header(12, 4, tags=b"\0\0\0\0\0\1\2m\0\0")),
        "HeartbeatRequest v4: group_id is null",
    ),
}


@pytest.mark.parametrize("name", BAD)
async def test_closes_with_one_line(name: str, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    data, reason = BAD[name]
    connection, transport = bench.connect()
    connection.data_received(data)
    assert reason in closed_with_one_line(transport, caplog)
    assert transport.writes == 0


@pytest.mark.parametrize("name", BAD)
async def test_answers_what_came_before_and_nothing_behind(
    name: str, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    data, _ = BAD[name]
    connection, transport = bench.connect()
    connection.data_received(heartbeat(1) + heartbeat(2) + data + heartbeat(3))
    closed_with_one_line(transport, caplog)
    assert transport.ids() == [1, 2]


@pytest.mark.parametrize("name", BAD)
async def test_alone_behind_a_good_one_closes_with_one_line(
    name: str, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    data, reason = BAD[name]
    connection, transport = bench.connect()
    connection.data_received(heartbeat(1, client_id=None))
    connection.data_received(data)
    assert reason in closed_with_one_line(transport, caplog)
    assert transport.ids() == [1]


@pytest.mark.parametrize("error", [struct.error("x"), IndexError("x"), ValueError("x")])
async def test_a_short_way_that_raises_costs_the_connection(
    error: Exception, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def fast(connection: Any, data: bytes, body: int, correlation_id: int) -> None:
        if correlation_id == 2:
            raise error

    bench.answer(lambda context, request: HeartbeatResponse(), fast)
    connection, transport = bench.connect()
    for correlation_id in (1, 2):
        connection.data_received(heartbeat(correlation_id))
    assert transport.ids() == [1]
    assert transport.closed
    assert [record.exc_info is not None for record in caplog.records] == [isinstance(error, ValueError)]


@pytest.mark.parametrize("name", BAD)
async def test_bytes_one_by_one_make_no_difference(name: str, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    data, reason = BAD[name]
    connection, transport = bench.connect()
    for byte in data:
        if not transport.closed:
            connection.data_received(bytes((byte,)))
    assert reason in closed_with_one_line(transport, caplog)


async def test_an_unsupported_version_is_named(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    connection, transport = bench.connect()
    connection.data_received(frame(header(12, 5)))
    assert "Heartbeat v5 is not supported, only v0 to v4" in closed_with_one_line(transport, caplog)


async def test_a_truncated_body_waits(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(heartbeat(1)[:-1])
    assert not transport.closed
    assert transport.writes == 0


async def test_a_huge_announced_size_allocates_nothing(bench: Bench) -> None:
    ends = [bench.connect() for _ in range(100)]
    tracemalloc.start()
    try:
        for connection, _ in ends:
            connection.data_received(struct.pack(">i", 104857600) + header(0, 9))
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used < 100_000


async def test_the_limit_is_socket_request_max_bytes(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(socket_request_max_bytes=100)
    bench.answer(lambda context, request: HeartbeatResponse())
    connection, transport = bench.connect()
    connection.data_received(heartbeat(1))
    connection.data_received(heartbeat(2, "g" * 100))
    assert transport.ids() == [1]
    assert "expected 10 to 100" in closed_with_one_line(transport, caplog)


async def test_a_client_id_that_is_not_utf8_is_taken_with_replacements(bench: Bench) -> None:
    connection, transport = bench.connect()
    data = heartbeat(1, client_id="ab").replace(b"\0\x02ab", b"\0\x02\xff\xfe")
    connection.data_received(data)
    assert transport.ids() == [1]
    assert connection.client_id == "\ufffd\ufffd"


async def test_bytes_behind_the_request_are_left_alone(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(frame(heartbeat(1)[4:] + b"trailing") + heartbeat(2))
    assert transport.ids() == [1, 2]


async def test_a_handler_that_raises_costs_its_connection_and_shows_where(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(context: RequestContext, request: Any) -> None:
        raise ZeroDivisionError("our mistake")

    bench.answer(broken)
    connection, transport = bench.connect()
    connection.data_received(heartbeat(1) + heartbeat(2))
    assert transport.closed
    assert bench.handled == [1]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "our mistake" in caplog.text
    assert "Heartbeat v4 (correlation id 1)" in caplog.text


async def test_a_reply_that_can_not_be_encoded_costs_its_connection_not_its_sender(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.answer(bench.park)
    connection, transport = bench.connect()
    connection.data_received(heartbeat(1))
    bench.parked[0].reply(HeartbeatResponse(error_code=100_000))
    assert transport.closed
    assert "EncodeError" in caplog.text


async def test_a_failing_flush_parks_the_requests_and_is_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def handler(context: RequestContext, request: Any) -> Any:
        from broker_sim.runtime.asking import DEFERRED

        return DEFERRED

    def broken() -> None:
        raise ZeroDivisionError

    bench.answer(handler)
    bench.runtime.flush_batches = broken  # type: ignore[method-assign]
    connection, transport = bench.connect()
    connection.data_received(heartbeat(1))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not transport.closed
    assert "flush_batches failed on broker 1" in caplog.text


async def test_a_reply_with_a_text_too_long_for_the_wire_fails_the_request_not_its_connection(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """KafkaApis.handleError: what can't be written is answered as a request that failed."""
    bench.answer(lambda context, request: ListGroupsResponse(groups=[ListedGroup("x" * 40_000)]), other=True)
    connection, transport = bench.connect()
    connection.data_received(
        frame(encode_request_header(16, 4, 1, "a") + encode(ListGroupsRequest(), 4)) + heartbeat(2)
    )
    (number, listed), (behind, _) = transport.replies()
    assert (number, behind, transport.closed) == (1, 2, False)
    assert decode(ListGroupsResponse, 4, listed, 1) == ListGroupsResponse(error_code=-1)
    assert caplog.records == []

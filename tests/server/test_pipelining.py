"""Requests of one connection: in order, one at a time, one write for what can be answered at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker_sim.requests.context import RequestContext
from broker_sim.runtime.asking import DEFERRED, Deferred
from kafka_wire.messages.k12_heartbeat import HeartbeatResponse
from kafka_wire.messages.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

from .fakes import Bench, heartbeat, request_frame, response_in


def ok(context: RequestContext, request: Any) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=len(request.group_id))


async def spin() -> None:
    """Let everything that is due in the loop run."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_frames_of_one_read_are_answered_in_order_with_one_write() -> None:
    bench = Bench()
    bench.answer(ok)
    connection, transport = bench.connect()
    connection.data_received(b"".join(heartbeat(i, "g" * i) for i in range(1, 6)))
    assert transport.writes == 1
    replies = transport.replies()
    assert [i for i, _ in replies] == [1, 2, 3, 4, 5]
    assert [response_in(HeartbeatResponse, 4, rest, 12).error_code for _, rest in replies] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("step", [1, 2, 3, 5, 13, 14, 15, 31, 1000])
async def test_frames_may_be_cut_anywhere(step: int) -> None:
    bench = Bench()
    bench.answer(ok)
    connection, transport = bench.connect()
    data = b"".join(heartbeat(i, "g" * i, client_id=None if i % 2 else "c" * i) for i in range(1, 8))
    for at in range(0, len(data), step):
        connection.data_received(data[at : at + step])
    assert transport.ids() == [1, 2, 3, 4, 5, 6, 7]


async def test_a_parked_request_holds_those_behind_it() -> None:
    bench = Bench()
    bench.answer(bench.park)
    connection, transport = bench.connect()
    connection.data_received(heartbeat(1) + heartbeat(2))
    connection.data_received(heartbeat(3))
    assert bench.handled == [1]
    assert transport.ids() == []
    bench.parked[0].reply(HeartbeatResponse())
    assert transport.ids() == [1]
    assert bench.handled == [1], "the next request was handled inside the caller of reply"
    await spin()
    assert bench.handled == [1, 2]
    bench.parked[1].reply(HeartbeatResponse())
    await spin()
    assert bench.handled == [1, 2, 3]


async def test_replies_before_a_parked_request_leave_at_once() -> None:
    bench = Bench()
    bench.answer(lambda context, request: None if request.group_id == "park" else ok(context, request))
    connection, transport = bench.connect()
    connection.data_received(heartbeat(1) + heartbeat(2) + heartbeat(3, "park") + heartbeat(4))
    assert transport.ids() == [1, 2]


async def test_a_frame_that_began_while_parked_is_finished_after() -> None:
    bench = Bench()
    bench.answer(bench.park)
    connection, _ = bench.connect()
    second = heartbeat(2)
    connection.data_received(heartbeat(1) + second[:9])
    connection.data_received(second[9:20])
    bench.parked[0].reply(HeartbeatResponse())
    await spin()
    assert bench.handled == [1]
    connection.data_received(second[20:])
    assert bench.handled == [1, 2]


async def test_a_request_without_a_reply_lets_the_next_one_go() -> None:
    bench = Bench()
    bench.answer(lambda context, request: context.no_reply())
    connection, transport = bench.connect()
    connection.data_received(heartbeat(1) + heartbeat(2))
    assert bench.handled == [1, 2]
    assert transport.writes == 0


async def test_no_reply_may_be_told_later() -> None:
    bench = Bench()
    bench.answer(bench.park)
    connection, transport = bench.connect()
    connection.data_received(heartbeat(1) + heartbeat(2))
    bench.parked[0].no_reply()
    await spin()
    assert bench.handled == [1, 2]
    assert transport.writes == 0


async def test_a_second_answer_is_an_error_of_ours() -> None:
    bench = Bench()
    bench.answer(bench.park)
    connection, _ = bench.connect()
    connection.data_received(heartbeat(1))
    bench.parked[0].reply(HeartbeatResponse())
    with pytest.raises(RuntimeError, match=r"Heartbeat v4 \(correlation id 1\) was answered twice"):
        bench.parked[0].reply(HeartbeatResponse())


async def test_a_lost_connection_tells_the_parked_request_once_and_swallows_its_reply() -> None:
    bench = Bench()
    bench.answer(bench.park)
    connection, transport = bench.connect()
    connection.data_received(heartbeat(1) + heartbeat(2))
    gone: list[int] = []
    bench.parked[0].on_disconnect(lambda: gone.append(1))
    connection.connection_lost(None)
    bench.parked[0].reply(HeartbeatResponse())
    bench.parked[0].reply(HeartbeatResponse())
    await spin()
    assert gone == [1]
    assert bench.handled == [1]
    assert transport.writes == 0
    assert not bench.server.connections


async def test_an_answered_request_is_not_told_of_the_end() -> None:
    bench = Bench()
    bench.answer(bench.park)
    connection, _ = bench.connect()
    connection.data_received(heartbeat(1))
    bench.parked[0].on_disconnect(lambda: pytest.fail("it was answered"))
    bench.parked[0].reply(HeartbeatResponse())
    connection.connection_lost(None)


async def test_client_id_follows_each_request() -> None:
    bench = Bench()
    seen: list[str | None] = []
    bench.answer(lambda context, request: (seen.append(context.client_id), ok(context, request))[1])
    connection, _ = bench.connect()
    for number, client_id in enumerate(["a", "a", None, "", "b", "ü", None]):
        connection.data_received(heartbeat(number, client_id=client_id))
    assert seen == ["a", "a", None, "", "b", "ü", None]


class TestTurn:
    """Requests deferred to the end of the turn (`context`, 4)."""

    def defer(self, bench: Bench) -> None:
        def handler(context: RequestContext, request: Any) -> Deferred:
            bench.runtime.open.append(context)
            return DEFERRED

        bench.answer(handler)
        bench.answer(lambda context, request: ListGroupsResponse(), other=True)

    async def test_connections_share_one_flush_and_each_gets_one_write(self) -> None:
        bench = Bench()
        self.defer(bench)
        ends = [bench.connect() for _ in range(3)]
        for connection, transport in ends:
            connection.data_received(heartbeat(1) + heartbeat(2) + heartbeat(3))
            assert transport.writes == 0
        await spin()
        assert bench.runtime.flushes == [9]
        for _, transport in ends:
            assert transport.writes == 1
            assert transport.ids() == [1, 2, 3]

    async def test_another_api_ends_the_turn_first(self) -> None:
        bench = Bench()
        self.defer(bench)
        connection, transport = bench.connect()
        other = request_frame(ListGroupsRequest(), 4, 3)
        connection.data_received(heartbeat(1) + heartbeat(2) + other + heartbeat(4))
        assert bench.runtime.flushes == [2]
        await spin()
        assert bench.runtime.flushes == [2, 1]
        assert transport.ids() == [1, 2, 3, 4]

    async def test_what_the_flush_leaves_open_is_parked_with_all_behind_it(self) -> None:
        bench = Bench()
        self.defer(bench)
        bench.runtime.hold = True
        connection, transport = bench.connect()
        connection.data_received(heartbeat(1) + heartbeat(2))
        await spin()
        bench.runtime.hold = False
        connection.data_received(heartbeat(3))
        await spin()
        assert bench.handled == [1, 2]
        bench.runtime.held[1].reply(HeartbeatResponse())
        assert transport.ids() == []
        bench.runtime.held[0].reply(HeartbeatResponse())
        assert transport.ids() == [1, 2]
        await spin()
        assert transport.ids() == [3]

    async def test_an_immediate_answer_behind_a_deferred_one_waits_its_turn(self) -> None:
        bench = Bench()

        def handler(context: RequestContext, request: Any) -> Deferred | HeartbeatResponse:
            if request.group_id == "now":
                return HeartbeatResponse()
            bench.runtime.open.append(context)
            return DEFERRED

        bench.answer(handler)
        connection, transport = bench.connect()
        connection.data_received(heartbeat(1, "now") + heartbeat(2) + heartbeat(3, "now") + heartbeat(4))
        await spin()
        assert transport.ids() == [1, 2, 3, 4]
        assert transport.writes == 1

    async def test_a_request_parked_in_an_open_turn_stops_the_connection(self) -> None:
        bench = Bench()

        def handler(context: RequestContext, request: Any) -> Deferred | None:
            (bench.parked if request.group_id == "park" else bench.runtime.open).append(context)
            return None if request.group_id == "park" else DEFERRED

        bench.answer(handler)
        connection, transport = bench.connect()
        connection.data_received(heartbeat(1) + heartbeat(2, "park") + heartbeat(3))
        await spin()
        assert transport.ids() == [1]
        assert bench.handled == [1, 2]
        bench.parked[0].reply(HeartbeatResponse())
        await spin()
        assert transport.ids() == [2, 3]

    async def test_a_malformed_frame_in_an_open_turn_loses_no_reply(self) -> None:
        bench = Bench()
        self.defer(bench)
        connection, transport = bench.connect()
        connection.data_received(heartbeat(1) + b"\xff\xff\xff\xff" + bytes(20))
        await spin()
        assert transport.ids() == [1]
        assert transport.closed

    async def test_a_connection_lost_in_an_open_turn_is_left_out(self) -> None:
        bench = Bench()
        self.defer(bench)
        connection, transport = bench.connect()
        connection.data_received(heartbeat(1))
        connection.connection_lost(None)
        await spin()
        assert transport.writes == 0


class TestFastPath:
    """`FAST` functions: bytes at once, None for the general path, DEFERRED with a context."""

    async def test_bytes_are_framed_and_none_takes_the_general_path(self) -> None:
        bench = Bench()

        def fast(connection: Any, frame: bytes, body: int, correlation_id: int) -> bytes | None:
            return b"\0\0\0\0\0\x07\0" if frame[body : body + 2] == b"\x02g" else None

        bench.answer(ok, fast)
        connection, transport = bench.connect()
        connection.data_received(heartbeat(1) + heartbeat(2, "other") + heartbeat(3))
        assert bench.handled == [2]
        codes = [response_in(HeartbeatResponse, 4, rest, 12).error_code for _, rest in transport.replies()]
        assert codes == [7, 5, 7]

    async def test_it_may_defer(self) -> None:
        bench = Bench()

        def fast(connection: Any, frame: bytes, body: int, correlation_id: int) -> Deferred:
            bench.runtime.open.append(connection.defer(correlation_id))
            return DEFERRED

        bench.answer(ok, fast)
        connection, transport = bench.connect()
        connection.data_received(heartbeat(1) + heartbeat(2))
        await spin()
        assert bench.handled == []
        assert transport.ids() == [1, 2]

    async def test_reading_past_the_frame_is_the_clients_fault(self, caplog: pytest.LogCaptureFixture) -> None:
        bench = Bench()

        def fast(connection: Any, frame: bytes, body: int, correlation_id: int) -> bytes:
            return bytes((frame[len(frame)],))

        bench.answer(ok, fast)
        connection, transport = bench.connect()
        connection.data_received(heartbeat(1))
        assert transport.closed
        assert [record.levelname for record in caplog.records] == ["WARNING"]


class TestRepeats:
    """Frames that come again with the same bytes, but for the correlation id: what has come twice in a row is remembered."""

    class Remembered:
        """A heartbeat handler whose answer, error code 7, is remembered and holds as long as ``same``."""

        def __init__(self, bench: Bench) -> None:
            self.same = True
            self.calls = self.asked = 0

            def handle(context: RequestContext, request: Any) -> HeartbeatResponse:
                self.calls += 1
                context.repeats = lambda: self.again
                return HeartbeatResponse(error_code=7)

            bench.answer(handle)

        def again(self) -> bool:
            self.asked += 1
            return self.same

    async def test_they_are_answered_alike_under_their_own_correlation_ids(self) -> None:
        bench = Bench()
        remembered = self.Remembered(bench)
        connection, transport = bench.connect()
        connection.data_received(heartbeat(1) + heartbeat(2) + heartbeat(-3))
        connection.data_received(heartbeat(4))
        replies = transport.replies()
        assert [number for number, _ in replies] == [1, 2, -3, 4]
        assert len({rest for _, rest in replies}) == 1
        assert response_in(HeartbeatResponse, 4, replies[3][1], 12).error_code == 7
        assert (remembered.calls, remembered.asked) == (2, 2)

    async def test_what_may_have_changed_is_handled_anew(self) -> None:
        bench = Bench()
        remembered = self.Remembered(bench)
        connection, transport = bench.connect()
        connection.data_received(heartbeat(1) + heartbeat(2))
        remembered.same = False
        connection.data_received(heartbeat(3))
        assert (remembered.calls, remembered.asked) == (3, 1)
        assert transport.ids() == [1, 2, 3]

    async def test_one_byte_of_difference_is_another_request(self) -> None:
        bench = Bench()
        remembered = self.Remembered(bench)
        connection, transport = bench.connect()
        connection.data_received(heartbeat(-1) + heartbeat(0))
        connection.data_received(heartbeat(1) + heartbeat(2, "h") + heartbeat(3, client_id="my") + heartbeat(4, more=1))
        assert (remembered.calls, remembered.asked) == (5, 1)
        assert transport.ids() == [-1, 0, 1, 2, 3, 4]

    async def test_the_same_bytes_of_another_api_are_another_request(self) -> None:
        bench = Bench()
        remembered = self.Remembered(bench)
        bench.answer(lambda context, request: ListGroupsResponse(), other=True)
        connection, transport = bench.connect()
        frame = heartbeat(1)
        connection.data_received(frame + frame + frame[:4] + b"\0\x10\0\x04" + frame[8:])
        assert (remembered.calls, remembered.asked) == (2, 0)
        assert transport.ids() == [1, 1]
        assert transport.closed, "a heartbeat's body is no ListGroups"

    async def test_other_connections_remember_for_themselves(self) -> None:
        bench = Bench()
        remembered = self.Remembered(bench)
        for _ in range(2):
            connection, _ = bench.connect()
            connection.data_received(heartbeat(1) + heartbeat(2))
        assert (remembered.calls, remembered.asked) == (4, 0)

    async def test_they_wait_behind_a_parked_request(self) -> None:
        bench = Bench()
        remembered = self.Remembered(bench)
        bench.answer(bench.park, other=True)
        connection, transport = bench.connect()
        connection.data_received(
            heartbeat(0) + heartbeat(1) + request_frame(ListGroupsRequest(), 4, 2) + heartbeat(3) + heartbeat(4)
        )
        assert transport.ids() == [0, 1]
        bench.parked[0].reply(ListGroupsResponse())
        await spin()
        assert transport.ids() == [2, 3, 4]
        assert remembered.asked == 2

    async def test_a_client_that_does_not_read_is_not_answered_further(self) -> None:
        bench = Bench()
        asked = 0

        def again() -> bool:
            nonlocal asked
            asked += 1
            return True

        def handle(context: RequestContext, request: Any) -> ListGroupsResponse:
            context.repeats = lambda: again
            return ListGroupsResponse(groups=[ListedGroup("g" * 4000)])

        bench.answer(handle, other=True)
        connection, transport = bench.connect()
        transport.pause_after = 65_536
        connection.data_received(request_frame(ListGroupsRequest(), 4, 1) * 5000)
        assert len(transport.written) < 300_000
        assert 50 < asked < 80

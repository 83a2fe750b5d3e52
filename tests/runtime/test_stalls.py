"""The loop is held up past deadlines: what lay unread in the sockets counts, and who asks later sees what is due."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker_sim.api.cluster import Cluster
from broker_sim.common.clock import ManualClock
from broker_sim.runtime.timers import KeyedTimers
from kafka_wire.codec import decode, encode
from kafka_wire.errors import Err
from kafka_wire.frame import encode_request_header, frame
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.messages.k14_sync_group import SyncGroupRequest
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tests.conformance.driver import offsets_topic_ready
from tests.support.unhurried import UnhurriedLoop
from tests.support.wire import Wire, api_key_of

CONFIG = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}


class HeldUpClock(ManualClock):
    """A clock whose time passes while code runs: ``read`` is what a loop does later, to have read its sockets."""

    def __init__(self) -> None:
        super().__init__(1_000_000)
        self.read: list[Callable[[], object]] = []

    def call_after_reading(self, callback: Callable[[], object]) -> bool:
        self.read.append(callback)
        return True

    def stall(self, ms: int) -> None:
        """Advance the clock, and fire due timers only then."""
        self.move_to(self.now_ms() + ms)
        self.fire_due()


class StalledTimers:
    """Timers of "a" and "b", due in 100 and 200 ms, and what fired."""

    def __init__(self) -> None:
        self.clock = HeldUpClock()
        self.fired: list[str] = []
        self.timers: KeyedTimers[str] = KeyedTimers(self.clock, self.fired.append)
        self.start = self.clock.now_ms()
        self.timers.set("a", self.start + 100)
        self.timers.set("b", self.start + 200)

    def read(self) -> None:
        callbacks, self.clock.read = self.clock.read, []
        for callback in callbacks:
            callback()


def test_what_is_late_fires_after_the_sockets_were_read() -> None:
    scene = StalledTimers()
    scene.clock.stall(250)
    assert scene.fired == []
    scene.timers.set("b", scene.clock.now_ms() + 200)  # its heartbeat lay in a socket
    scene.read()
    assert scene.fired == ["a"]
    assert scene.clock.read == []


def test_what_fires_in_time_waits_for_nothing() -> None:
    scene = StalledTimers()
    scene.clock.stall(100)
    assert (scene.fired, scene.clock.read) == (["a"], [])


def test_what_comes_due_while_the_sockets_are_read_waits_for_the_next_reading() -> None:
    scene = StalledTimers()
    scene.clock.stall(150)
    scene.clock.move_to(scene.start + 300)
    scene.read()
    assert scene.fired == ["a"]
    scene.clock.fire_due()
    scene.read()
    assert scene.fired == ["a", "b"]


def test_who_asks_behind_a_deadline_waits_until_it_was_kept() -> None:
    scene = StalledTimers()
    assert not scene.timers.overdue()
    scene.clock.move_to(scene.start + 101)  # nobody has looked at the timers yet
    assert scene.timers.overdue()
    scene.timers.then(lambda: scene.fired.append("asked"))
    scene.clock.fire_due()
    assert scene.fired == []
    scene.read()
    assert scene.fired == ["a", "asked"]
    assert not scene.timers.overdue()


def test_a_timer_that_was_moved_on_is_not_overdue() -> None:
    scene = StalledTimers()
    scene.timers.set("a", scene.start + 500)
    scene.clock.move_to(scene.start + 150)
    assert not scene.timers.overdue()
    scene.clock.move_to(scene.start + 201)
    assert scene.timers.overdue()


def test_a_clock_that_stands_still_is_never_late() -> None:
    clock, fired = ManualClock(), []
    timers: KeyedTimers[str] = KeyedTimers(clock, fired.append)
    timers.set("a", clock.now_ms() + 100)
    clock.move_to(clock.now_ms() + 150)
    assert not timers.overdue()
    clock.fire_due()
    assert fired == ["a"]


# --- with loops and sockets ---


class StallingLoop(UnhurriedLoop):
    """asyncio's own loop, whose time passes in a stall that a test makes, and while it is idle."""

    def stall(self, s: float) -> None:
        self._waits._now_s += s


class Held:
    """Members of a group of a real broker on a real loop, and a way to hold that up."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.clock = cluster.state.clock
        self.loop = asyncio.get_running_loop()

    async def member(self, group: str, session_ms: int) -> str:
        """A member that is alone in its group, and silent from now on."""
        wire = await Wire.connect(self.cluster.bootstrap)
        protocols = [JoinGroupRequestProtocol("range", b"")]
        joined = await wire.send(JoinGroupRequest(group, session_ms, 60_000, "", None, "consumer", protocols), 3)
        await wire.send(SyncGroupRequest(group, joined.generation_id, joined.member_id), 2)
        await wire.close()
        member_id: str = joined.member_id
        return member_id

    def deadline_ms(self, member_id: str) -> int:
        """Return the time at which a member's session ends."""
        [at_ms] = [
            at_ms for at_ms, (_, key) in self.cluster.runtime.timers if key[0] == "session" and key[2] == member_id
        ]
        return at_ms

    def connect(self) -> socket.socket:
        host, _, port = self.cluster.bootstrap.rpartition(":")
        return socket.create_connection((host, int(port)), 10)

    def block(self, until_ms: int) -> None:
        """Nothing else runs on the loop, and time passes."""
        while self.clock.now_ms() < until_ms:
            if isinstance(self.loop, StallingLoop):
                self.loop.stall(0.001)

    async def at(self, at_ms: int, *steps: Callable[[], object]) -> None:
        """Run ``steps`` in turns of the loop that follow each other, the first one at that time; returns behind the last."""
        done = self.loop.create_future()

        def run(number: int) -> None:
            if number + 1 < len(steps):
                self.loop.call_soon(run, number + 1)
            else:
                self.loop.call_soon(done.set_result, None)
            steps[number]()

        self.clock.call_at_ms(at_ms, run, 0)
        await asyncio.wait_for(done, 60)


def on_loop(scene: Callable[[Held], Awaitable[None]], kind: str) -> None:
    if kind == "uvloop":
        factory = pytest.importorskip("uvloop", reason="uvloop is not installed").new_event_loop
    else:
        factory = StallingLoop

    async def run() -> None:
        async with Cluster(config=CONFIG) as cluster:
            wire = await Wire.connect(cluster.bootstrap)
            await offsets_topic_ready(wire.send)
            await wire.close()
            await scene(Held(cluster))

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(run())


def frame_of(request: Any, version: int) -> bytes:
    return frame(encode_request_header(api_key_of(request), version, 1, "c") + encode(request, version))


async def answer(held: Held, sock: socket.socket, response: type[Any], version: int, head: int) -> Any:
    """The answer that comes on a socket; ``head``: the size of what stands before its body."""
    sock.setblocking(False)
    data = await asyncio.wait_for(held.loop.sock_recv(sock, 65536), 60)
    sock.close()
    return decode(response, version, data, 4 + head)


LOOPS = pytest.mark.parametrize("kind", ["asyncio", pytest.param("uvloop", marks=pytest.mark.real_time)])
"""uvloop's time is the machine's."""


@LOOPS
def test_a_heartbeat_that_lies_in_its_socket_while_the_loop_is_held_up_counts(kind: str) -> None:
    """The other member's session has expired before, and its timer fires after the stall."""

    async def scene(held: Held) -> None:
        dead = await held.member("dead", 2000)
        alive = await held.member("alive", 4000)
        first_ms, second_ms = held.deadline_ms(dead), held.deadline_ms(alive)
        assert first_ms < second_ms
        sock = held.connect()
        beat = frame_of(HeartbeatRequest("alive", 1, alive), 2)

        def stall() -> None:
            sock.sendall(beat)
            assert held.clock.now_ms() < second_ms, "the machine is too slow for what is asked here"
            held.block(second_ms + 20)

        await held.at(first_ms - 10, lambda: held.block(first_ms + 5), stall)
        assert Err((await answer(held, sock, HeartbeatResponse, 2, 4)).error_code) is Err.NONE
        await held.cluster.group("dead").empty(
            "1m"
        )  # from Python 3.12 on the answer may be here a turn of the loop earlier
        assert held.cluster.group("alive").state == "Stable"

    on_loop(scene, kind)


@LOOPS
def test_a_request_right_behind_a_deadline_finds_the_member_gone(kind: str) -> None:
    async def scene(held: Held) -> None:
        deadline_ms = held.deadline_ms(await held.member("g", 2000))
        sock = held.connect()
        delete = frame_of(DeleteGroupsRequest(["g"]), 1)

        def stall() -> None:
            held.block(deadline_ms + 10)
            sock.sendall(delete)
            held.block(deadline_ms + 20)

        await held.at(deadline_ms - 20, stall)
        [result] = (await answer(held, sock, DeleteGroupsResponse, 1, 4)).results
        assert Err(result.error_code) is Err.NONE

    on_loop(scene, kind)


@LOOPS
def test_a_heartbeat_counts_though_a_later_request_was_read_before_it(kind: str) -> None:
    async def scene(held: Held) -> None:
        member_id = await held.member("g", 2000)
        deadline_ms = held.deadline_ms(member_id)
        deleting, beating = held.connect(), held.connect()

        def stall() -> None:
            deleting.sendall(frame_of(DeleteGroupsRequest(["g"]), 1))
            beating.sendall(frame_of(HeartbeatRequest("g", 1, member_id), 2))
            held.block(deadline_ms + 20)

        await held.at(deadline_ms - 20, stall)
        assert Err((await answer(held, beating, HeartbeatResponse, 2, 4)).error_code) is Err.NONE
        [result] = (await answer(held, deleting, DeleteGroupsResponse, 1, 4)).results
        assert Err(result.error_code) is Err.NON_EMPTY_GROUP

    on_loop(scene, kind)

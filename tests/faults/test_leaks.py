"""A client that disappears while its request is kept leaves nothing: no timer, no waiting list, no object."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from broker_sim.requests.context import InterceptedContext
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.faults.rig import Rig, commit, heartbeat, until

KEEPING: list[dict[str, Any]] = [
    {"hang": True},
    {"delay": "1h"},
    {"reply_delay": "1h"},
    {"split": 5, "gap": "1h"},
    {"error_after": "REQUEST_TIMED_OUT"},
    {"throttle_ms": 3_600_000},
]


@pytest.fixture(autouse=True)
def only_what_the_test_makes() -> Iterator[None]:
    """The collector looks at nothing that was there before: thousands of other tests are, and it would go over them dozens of times."""
    gc.freeze()
    yield
    gc.unfreeze()


def contexts() -> int:
    """Requests of a tap that the test has made and that are still in memory."""
    gc.collect()
    return sum(issubclass(type(one), InterceptedContext) for one in gc.get_objects())


def timers_of(rig: Rig) -> int:
    """Timers that the tap has armed."""
    armed = [timer.callback for timer in rig.clock._heap]
    return sum(getattr(callback, "__self__", None) is rig.tap for callback in armed)


@pytest.mark.parametrize("verdict", KEEPING, ids=lambda verdict: next(iter(verdict)))
@pytest.mark.parametrize("ended", [False, True], ids=["rule in force", "rule ended"])
async def test_a_client_that_disappears_takes_everything_along(verdict: dict[str, Any], ended: bool) -> None:
    async with Rig() as rig:
        before = contexts()
        fault = rig.faults.add("Heartbeat", **verdict)
        wires = [await rig.connect(f"app-{number}") for number in range(3)]
        for wire in wires:
            wire.start(heartbeat(), 4)
            wire.start(heartbeat(), 4)  # waits unread behind it, where it is kept
        await fault.wait(3)
        if ended:
            fault.remove()
        for wire in wires:
            wire.abort()
        await until(lambda: not any(server.connections for server in rig.cluster.servers), "the connections to end")
        assert rig.tap.unanswered == []
        assert fault.waiting == []
        assert timers_of(rig) == 0
        await until(lambda: contexts() <= before, "the requests to leave the memory")


async def test_a_client_that_disappears_in_a_held_request_takes_everything_along() -> None:
    async with Rig() as rig:
        before = contexts()
        hold = rig.order.hold()
        wires = [await rig.connect(f"app-{number}") for number in range(5)]
        for wire in wires:
            wire.start(commit(), 8)
        await hold.arrived(5)
        for wire in wires:
            wire.abort()
        await until(lambda: len(hold) == 0, "the held requests to be forgotten")
        assert rig.order.waiting == []
        await until(lambda: contexts() <= before, "the requests to leave the memory")


async def test_a_parked_join_whose_answer_was_to_be_broken_is_forgotten() -> None:
    """The handler has the request when the client disappears: the group forgets the member's request, the tap the rule."""
    async with Rig() as rig:
        join = JoinGroupRequest(
            "crew", 30_000, 30_000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")]
        )
        wire = await rig.connect()
        fault = rig.faults.add("JoinGroup", error_after="REBALANCE_IN_PROGRESS")
        wire.start(join, 3)
        await fault.wait()
        assert len(rig.tap.unanswered) == 1
        wire.abort()
        await until(lambda: not rig.tap.unanswered, "the request to be forgotten")
        assert [event["action"] for event in rig.told("response")] == ["not answered"]


async def test_the_end_of_the_cluster_ends_what_is_kept() -> None:
    async with Rig() as rig:
        wire = await rig.connect()
        fault = rig.faults.add("Heartbeat", hang=True)
        hold = rig.order.hold("OffsetCommit")
        wire.start(heartbeat(), 4)
        (await rig.connect("app-2")).start(commit(), 8)
        await fault.wait()
        await hold.arrived(1)
        await rig.cluster.stop()
        assert rig.tap.unanswered == []
        assert rig.order.waiting == []
        assert fault.waiting == []

"""The clocks a cluster can have, and what can be asked of each."""

from __future__ import annotations

import asyncio
import time

import pytest

from broker_sim import Cluster, ClusterError, ClusterThread, UsageError
from broker_sim.common.clock import ManualClock, RealClock, ScaledClock, SteppedClock, clock_of
from tests.handles.members import TOPIC, Member


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("manuel", "did you mean 'manual'"),
        ("scaled:fast", "the factor in scaled:N must be"),
        ("scaled:0", "the factor in scaled:N must be"),
        ("scaled:-3", "the factor in scaled:N must be"),
        ("scaled:nan", "the factor in scaled:N must be"),
        ("scaled:1e9", "the factor in scaled:N must be"),
        ("real:2", "expected one of real, manual, scaled:10"),
        ("", "expected one of real, manual, scaled:10"),
    ],
)
def test_a_clock_that_is_none(text: str, why: str) -> None:
    with pytest.raises(ClusterError, match=why):
        Cluster(clock=text)


async def test_each_clock_by_its_name() -> None:
    assert type(clock_of("real")()) is RealClock
    scaled = clock_of("scaled:2.5")()
    assert type(scaled) is ScaledClock
    assert scaled.rate == 2.5
    assert clock_of("scaled")().rate == 10  # type: ignore[attr-defined]
    assert type(clock_of("manual")()) is SteppedClock


async def test_what_the_wire_sees() -> None:
    real, bare = RealClock(), ManualClock(5)
    assert real.wire is real
    assert bare.wire is bare
    for make in (lambda: ScaledClock(100), lambda: SteppedClock(5)):
        before_s = time.time()
        clock = make()
        assert type(clock.wire) is RealClock
        assert int(before_s * 1000) - 1 <= clock.wire.now_ms() <= time.time() * 1000 + 1


async def test_a_scaled_clock_runs_faster() -> None:
    clock, loop = ScaledClock(100, epoch_ms=7_000), asyncio.get_running_loop()
    fired = loop.create_future()
    began = loop.time()
    assert 7_000 <= clock.now_ms() < 8_000
    clock.call_at_ms(9_000, lambda: fired.set_result(clock.now_ms()))
    clock.call_at_ms(8_000, fired.cancel).cancel()
    assert await fired >= 9_000
    assert 0.015 < loop.time() - began < 1


async def test_a_session_on_a_scaled_clock() -> None:
    async with Cluster(topics={TOPIC: 1}, clock="scaled:200", config={"group.initial.rebalance.delay.ms": 0}) as kafka:
        assert (kafka.time.mode, kafka.time.rate) == ("scaled", 200)
        member = await Member.connect(kafka)
        await member.enter()
        began = asyncio.get_running_loop().time()
        await kafka.group("billing").empty()  # its session is 10 s, of which it lets all pass
        assert 0.04 < asyncio.get_running_loop().time() - began < 5
        await member.close()


async def test_what_is_due_when_it_is_armed_needs_no_advance() -> None:
    clock, seen = SteppedClock(1000), []
    clock.call_at_ms(1000, seen.append, "now")
    clock.call_at_ms(0, seen.append, "past")
    clock.call_at_ms(1001, seen.append, "future")
    assert seen == []
    await asyncio.sleep(0)
    assert seen == ["now", "past"]
    assert clock.now_ms() == 1000


@pytest.mark.parametrize("clock", ["real", "scaled:3", None])
async def test_a_clock_that_moves_by_itself_is_not_moved(clock: str | None) -> None:
    async with Cluster(clock=clock) as kafka:
        mode = "scaled" if clock == "scaled:3" else "real"
        assert kafka.time.mode == mode
        with pytest.raises(UsageError, match=f"serve --clock manual.*; this cluster's clock is {mode}"):
            await kafka.time.advance(1)
        assert kafka.time.next_timer() is None


async def test_a_clock_of_ones_own() -> None:
    clock = ManualClock(1_000)
    async with Cluster(clock=clock) as kafka:
        assert kafka.time.mode == "manual"
        await kafka.time.advance(2)
        assert clock.now_ms() == kafka.time.now_ms() == 3_000


async def test_time_does_not_go_back_over_a_restart() -> None:
    kafka = Cluster(clock="manual")
    async with kafka:
        await kafka.time.advance("30d")
        then = kafka.time.now_ms()
    with pytest.raises(ClusterError, match="not running"):
        kafka.time.now_ms()
    async with kafka:
        assert kafka.time.now_ms() >= then


def test_time_from_another_thread() -> None:
    with ClusterThread(clock="manual", topics={"orders": 1}) as kafka:
        before = kafka.time.now_ms()
        assert kafka.time.advance("5m") == []
        assert kafka.time.now_ms() == before + 300_000
        with pytest.raises(UsageError):
            kafka.time.advance("never")

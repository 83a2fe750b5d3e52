"""A manual clock under group members on raw connections: what fires, when, and who lives on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker_sim import Cluster, UsageError
from broker_sim.api.time_control import Livelock, TimeControl
from broker_sim.common.clock import SteppedClock
from kafka_wire.errors import Err
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.messages.k12_heartbeat import HeartbeatRequest
from kafka_wire.messages.k19_create_topics import CreateTopicsRequest
from tests.handles.members import TOPIC, Member, commit_error
from tests.support.wire import Wire

SESSION_MS, REBALANCE_MS = 10_000, 60_000


@pytest.fixture
async def kafka() -> AsyncIterator[Cluster]:
    config: dict[str, object] = {"group.initial.rebalance.delay.ms": 0, "connections.max.idle.ms": 20_000}
    async with Cluster(topics={TOPIC: 2}, clock="manual", config=config, seed=1) as cluster:
        yield cluster


async def beat(member: Member) -> Err:
    request = HeartbeatRequest(member.group, member.generation, member.member_id, member.instance)
    return Err((await member.wire.send(request, 3)).error_code)


async def pair(kafka: Cluster) -> tuple[Member, Member]:
    """Two static members of a stable group, ``one`` and ``two``, with the client ids ``app-1`` and ``app-2``."""
    members = [await Member.connect(kafka, client_id=f"app-{n}", instance=name) for n, name in ((1, "one"), (2, "two"))]
    one, two = members
    await one.enter()
    joins = [two.join()]
    while await beat(one) is not Err.REBALANCE_IN_PROGRESS:
        pass
    joins.append(one.join())
    for member, answer in zip((two, one), await asyncio.gather(*joins), strict=True):
        assert answer.error_code == 0
        member.member_id, member.generation = answer.member_id, answer.generation_id
        leader = answer.leader
    chief, other = (one, two) if leader == one.member_id else (two, one)
    shares = {chief.member_id: [0], other.member_id: [1]}
    answers = await asyncio.gather(chief.sync(shares), other.sync())
    assert [answer.error_code for answer in answers] == [0, 0]
    return one, two


async def test_time_stands_still_until_it_is_moved(kafka: Cluster) -> None:
    assert kafka.time.mode == "manual"
    assert kafka.time.rate == 0
    before, wire = kafka.time.now_ms(), kafka.state.clock.wire
    passed = asyncio.get_running_loop().create_future()
    wire.call_at_ms(wire.now_ms() + 10, passed.set_result, None)
    await passed
    assert kafka.time.now_ms() == before
    assert await kafka.time.advance(1.5) == []
    assert kafka.time.now_ms() == before + 1500


async def test_members_that_could_heartbeat_live_on(kafka: Cluster) -> None:
    one, two = await pair(kafka)
    fired = await kafka.time.advance("1h")
    assert not [text for text in fired if "session" in text]
    assert [await beat(one), await beat(two)] == [Err.NONE, Err.NONE]
    # and for a whole session from now on
    one.wire.abort()
    await asyncio.sleep(0)
    await kafka.time.advance((SESSION_MS - 1) / 1000)
    assert len(kafka.group("billing").members) == 2
    await kafka.time.advance(0.001)
    assert len(kafka.group("billing").members) == 1
    await two.close()


@pytest.mark.parametrize("name", ["two", "app-2", None])
async def test_a_silent_member_expires_at_its_own_instant(kafka: Cluster, name: str | None) -> None:
    one, two = await pair(kafka)
    kafka.observe()
    await kafka.time.advance(3)
    assert await beat(two) is Err.NONE
    began = kafka.time.now_ms()
    fired = await kafka.time.advance("46s", expire=[name or two.member_id])
    assert f"session of {two.member_id} in billing" in fired
    expired = next(e for e in kafka.journal.events if e["event"] == "timer" and e["timer"] == "session")
    assert (expired["member"], expired["due_ms"] - began) == (two.member_id, SESSION_MS)
    assert await beat(one) is Err.REBALANCE_IN_PROGRESS
    assert await beat(two) is Err.UNKNOWN_MEMBER_ID
    await one.close()
    await two.close()


async def test_what_a_silent_member_sends_meanwhile_does_not_count(kafka: Cluster) -> None:
    one, two = await pair(kafka)
    beats: list[Err] = []

    async def go_on() -> None:
        while True:
            beats.append(await beat(two))

    task = asyncio.create_task(go_on())
    clock = kafka.state.clock
    assert isinstance(clock, SteppedClock)
    for ms in range(0, 9_900, 5):  # instants, each with some turns of the loop, in which heartbeats come
        clock.call_at_ms(clock.now_ms() + ms, lambda: None)
    fired = await kafka.time.advance(SESSION_MS / 1000, expire="two")
    task.cancel()
    assert f"session of {two.member_id} in billing" in fired
    assert len(beats) > 20
    await one.close()
    await two.close()


async def test_a_member_whose_client_crashed_expires_without_being_named(kafka: Cluster) -> None:
    one, two = await pair(kafka)
    two.wire.abort()
    await two.close()
    fired = await kafka.time.advance("46s")
    assert [text for text in fired if text.startswith("session")] == [f"session of {two.member_id} in billing"]
    assert await beat(one) is Err.REBALANCE_IN_PROGRESS
    await one.close()


async def test_a_member_that_came_back_on_another_connection_is_there(kafka: Cluster) -> None:
    one, two = await pair(kafka)
    two.wire.abort()
    await two.close()
    two.wire = await Wire.connect(kafka.bootstrap)
    assert await beat(two) is Err.NONE
    await kafka.time.advance("1h")
    assert await beat(two) is Err.NONE
    await one.close()
    await two.close()


async def test_a_member_that_hangs_up_on_an_answer_meanwhile_has_not_crashed(kafka: Cluster) -> None:
    one, two = await pair(kafka)
    async with kafka.offsets_log("billing").stuck() as jam:
        commit = two.commit(5)
        await jam.pending(1)
        commit.add_done_callback(lambda _: two.wire.abort())  # as Java's client does when its coordinator has timed out
        fired = await kafka.time.advance("1h")
        assert [text for text in fired if text.startswith("session")] == []
        assert commit.done()
    await two.close()
    two.wire = await Wire.connect(kafka.bootstrap)
    assert await beat(two) is Err.NONE
    await one.close()
    await two.close()


async def test_a_rebalance_timeout_takes_out_who_does_not_rejoin(kafka: Cluster) -> None:
    slow, new = await Member.connect(kafka, client_id="slow"), await Member.connect(kafka, client_id="new")
    await slow.enter()
    answer = await new.join()
    new.member_id = answer.member_id
    joining = new.join()
    await kafka.group("billing").state_is("PreparingRebalance")
    await kafka.time.advance((REBALANCE_MS - 1) / 1000)
    assert not joining.done()
    assert await kafka.time.advance(0.001, wait=0) == [
        "rebalance timeout of billing",
        "slow was removed from billing because the step passed its rebalance timeout; it was not waited for",
    ]
    answer = await joining
    assert [member.member_id for member in answer.members] == [new.member_id]
    assert await beat(slow) is Err.UNKNOWN_MEMBER_ID
    await slow.close()
    await new.close()


async def rejoin(member: Member) -> None:
    """Heartbeat until there is a rebalance, join it, and lead the generation."""
    while await beat(member) is not Err.REBALANCE_IN_PROGRESS:
        pass
    answer = await member.join()
    assert Err(answer.error_code) is Err.NONE
    member.member_id, member.generation = answer.member_id, answer.generation_id
    assert Err((await member.sync({member.member_id: [0, 1]})).error_code) is Err.NONE


async def test_the_living_rejoin_before_the_step_passes_their_rebalance_timeout(kafka: Cluster) -> None:
    one, two = await pair(kafka)
    began, rejoining = kafka.time.now_ms(), asyncio.create_task(rejoin(one))
    fired = await kafka.time.advance("10m", expire=["app-2"])
    assert [text for text in fired if "billing" in text] == [f"session of {two.member_id} in billing"]
    await rejoining
    billing = kafka.group("billing")
    assert (billing.state, [member.client_id for member in billing.members]) == ("Stable", ["app-1"])
    assert kafka.time.now_ms() - began == 600_000
    assert await beat(one) is Err.NONE
    await one.close()
    await two.close()


async def test_who_joins_and_does_not_sync_is_waited_for_and_then_thrown_out(kafka: Cluster) -> None:
    member = await Member.connect(kafka, client_id="app-1")
    member.member_id = (await member.join()).member_id
    assert Err((await member.join()).error_code) is Err.NONE
    fired = await kafka.time.advance("2m", wait="20ms")
    said = "app-1 was removed from billing because the step passed its rebalance timeout for SyncGroup; "
    assert said + "it had not sent its SyncGroup within 20 ms of real time" in fired
    assert kafka.group("billing").members == []
    await member.close()


async def test_what_the_living_had_no_time_for_is_said(kafka: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    slow, new = await Member.connect(kafka, client_id="slow"), await Member.connect(kafka, client_id="new")
    await slow.enter()
    new.member_id = (await new.join()).member_id
    joining = new.join()
    await kafka.group("billing").state_is("PreparingRebalance")
    fired = await kafka.time.advance("70s", wait="20ms")
    said = "slow was removed from billing because the step passed its rebalance timeout; "
    said += "it had not sent its JoinGroup within 20 ms of real time"
    assert said in fired
    assert said in caplog.messages
    assert [member.member_id for member in (await joining).members] == [new.member_id]
    await slow.close()
    await new.close()


async def test_a_silent_member_comes_back_when_the_step_is_over(
    kafka: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_sim.api.time_control._BACK_MS", 10)
    one, two = await pair(kafka)

    async def come_back_then_rejoin() -> asyncio.Future[Any]:
        while await beat(two) is not Err.UNKNOWN_MEMBER_ID:
            pass
        two.member_id = ""
        back = two.join()
        await asyncio.gather(beat(one), rejoin(one))
        assert [member.client_id for member in kafka.group("billing").members] == ["app-1"]
        return back

    coming = asyncio.create_task(come_back_then_rejoin())
    await kafka.time.advance("10m", expire=["app-2"])
    back = await coming
    while await beat(one) is not Err.REBALANCE_IN_PROGRESS:
        pass
    joins = await asyncio.gather(one.join(), back)
    assert [answer.error_code for answer in joins] == [0, 0]
    assert sorted(member.client_id for member in kafka.group("billing").members) == ["app-1", "app-2"]
    await one.close()
    await two.close()


async def test_a_member_id_that_was_given_out_waits_for_its_client(kafka: Cluster) -> None:
    there, gone = await Member.connect(kafka), await Member.connect(kafka)
    ids = [(await member.join()).member_id for member in (there, gone)]
    await gone.close()
    fired = await kafka.time.advance("46s")
    assert fired == [f"member id {ids[1]} of billing, which has not joined"]
    there.member_id = ids[0]
    assert (await there.join()).error_code == Err.NONE
    await there.close()


async def test_a_new_member_waits_for_five_minutes_at_most(kafka: Cluster) -> None:
    """Kafka's limit for a first JoinGroup; no heartbeat could move it."""
    first = await Member.connect(kafka)
    await first.enter()
    wire = await Wire.connect(kafka.bootstrap)
    request = JoinGroupRequest(
        "billing", 10_000, 900_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"\0\0\0\0\0\0")]
    )
    joining = wire.start(request, 2)
    await kafka.group("billing").state_is("PreparingRebalance")
    await kafka.time.advance("5m")
    assert (await joining).error_code == Err.UNKNOWN_MEMBER_ID
    await first.close()
    await wire.close()


async def test_a_commit_times_out_on_the_brokers_clock(kafka: Cluster) -> None:
    one, two = await pair(kafka)
    async with kafka.offsets_log("billing").stuck() as jam:
        commit = one.commit(5)
        await jam.pending(1)
        await kafka.time.advance(4.999)
        assert not commit.done()
        assert "append timeout" in (await kafka.time.advance(0.001))[0]
        assert commit_error(await commit) is Err.COORDINATOR_NOT_AVAILABLE
    await one.close()
    await two.close()


async def test_offsets_expire_after_seven_days(kafka: Cluster) -> None:
    member = await Member.connect(kafka)
    assert commit_error(await member.commit(5)) is Err.NONE
    billing = kafka.group("billing")
    await kafka.time.advance("6d23h")
    assert billing.committed() == {(TOPIC, 0): 5}
    fired = await kafka.time.advance("1h10m")
    assert any(text.startswith("offset expiry of __consumer_offsets-") for text in fired)
    assert billing.committed() == {}
    await member.close()


@pytest.mark.parametrize(("as_version", "clean_up"), [("3.9", 600), ("4.1", 600 + 240)])
async def test_a_moved_partition_is_cleaned_up_from_the_start_on_or_from_its_load(
    as_version: str, clean_up: int
) -> None:
    config: dict[str, object] = {"offsets.topic.num.partitions": 1, "auto.leader.rebalance.enable": False}
    kafka = Cluster(topics={TOPIC: 1}, clock="manual", brokers=2, as_version=as_version, config=config, seed=1)
    async with kafka:
        member = await Member.connect(kafka)
        assert commit_error(await member.commit(5)) is Err.NONE
        await kafka.time.advance(240)
        kafka.move_leader(kafka.state.topics["__consumer_offsets"].partitions[0])
        text = "offset expiry of __consumer_offsets-0"
        assert text not in await kafka.time.advance(clean_up - 241)
        assert text in await kafka.time.advance(1)
        await member.close()


async def test_records_are_deleted_after_their_retention(kafka: Cluster) -> None:
    kafka.topic(TOPIC).fill(100)
    await kafka.time.advance("6d")
    log = kafka.state.topics[TOPIC].partitions[0]
    assert log.log_start_offset == 0
    assert "log retention" not in " ".join(await kafka.time.advance("1d5m"))  # it comes round anyway
    assert log.log_start_offset == log.log_end_offset == 50


async def test_polls_and_idle_connections_go_by_real_time(kafka: Cluster) -> None:
    wire = await Wire.connect(kafka.bootstrap)
    partition = FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=30, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(TOPIC, partitions=[partition])]
    )
    for _ in range(2):
        answer = await wire.send(request, 11)
        assert answer.responses[0].partitions[0].error_code == 0
        await kafka.time.advance("1h")
    await wire.send(CreateTopicsRequest(), 5)
    await wire.close()


async def test_the_next_timer(kafka: Cluster) -> None:
    found = kafka.time.next_timer()
    assert found == (kafka.time.now_ms() + 30_000, "log retention")
    member = await Member.connect(kafka)
    await member.enter()
    assert kafka.time.next_timer() == (
        kafka.time.now_ms() + SESSION_MS,
        f"session of {member.member_id} in billing",
    )
    await member.close()


async def test_every_instant_is_done_before_the_next(kafka: Cluster) -> None:
    clock, loop = kafka.state.clock, asyncio.get_running_loop()
    seen: list[object] = []

    def later(turns: int, what: object) -> None:
        if turns:
            loop.call_soon(later, turns - 1, what)
        else:
            seen.append(what)

    def at_two() -> None:
        seen.append(2)
        later(3, "done of 2")
        clock.call_at_ms(clock.now_ms(), lambda: seen.append("armed at 2 for 2"))

    start = clock.now_ms()
    clock.call_at_ms(start + 3, lambda: seen.append((3, clock.now_ms() - start)))
    clock.call_at_ms(start + 1, lambda: (seen.append((1, clock.now_ms() - start)), later(5, "done of 1")))
    clock.call_at_ms(start + 2, at_two)
    clock.call_at_ms(start + 5, lambda: seen.append("too late"))
    await kafka.time.advance(0.004)
    assert seen[:3] == [(1, 1), "done of 1", 2]
    assert set(map(str, seen[3:5])) == {"done of 2", "armed at 2 for 2"}
    assert seen[5:] == [(3, 3)]


@pytest.mark.slow
async def test_time_that_can_not_pass_is_an_error(kafka: Cluster) -> None:
    clock = kafka.state.clock

    def again() -> None:
        clock.call_at_ms(clock.now_ms(), again)

    clock.call_at_ms(clock.now_ms() + 1000, again)
    with pytest.raises(Livelock, match="again"):
        await kafka.time.advance(2)


async def test_a_timer_that_fails_keeps_nobody_from_being_called() -> None:
    loop, failures, seen = asyncio.get_running_loop(), [], []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    clock = SteppedClock(0)
    time = TimeControl(clock, lambda: None)
    clock.call_at_ms(10, lambda: [].pop())
    clock.call_at_ms(10, seen.append, "called")
    await time.advance(1)
    assert seen == ["called"]
    assert [type(each) for each in failures] == [IndexError]


async def test_what_can_not_be(kafka: Cluster) -> None:
    with pytest.raises(UsageError, match="no member 'app'; the cluster has no groups"):
        await kafka.time.advance(46, expire=["app"])
    one, two = await pair(kafka)
    with pytest.raises(UsageError, match=r"no member 'app-3'; did you mean 'app-[12]'"):
        await kafka.time.advance(46, expire=["app-3"])
    for wrong in (-1, "soon", None, "11000d"):
        with pytest.raises(UsageError, match="advance: "):
            await kafka.time.advance(wrong)
    first = asyncio.create_task(kafka.time.advance(1))
    await asyncio.sleep(0)
    with pytest.raises(UsageError, match="another advance"):
        await kafka.time.advance(1)
    await first
    assert [await beat(one), await beat(two)] == [Err.NONE, Err.NONE]
    await one.close()
    await two.close()

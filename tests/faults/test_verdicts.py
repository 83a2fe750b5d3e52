"""Every verdict over TCP: what the client sees, what the broker has done, what the journal tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker_sim.common.clock import RealClock
from broker_sim.common.text import UsageError
from broker_sim.faults.registry import NeverHit
from broker_sim.journal import WaitTimeout
from kafka_wire.codec import encode
from kafka_wire.errors import Err
from kafka_wire.frame import encode_request_header, frame
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kafka_wire.messages.k15_describe_groups import DescribeGroupsRequest
from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
from kafka_wire.messages.k22_init_producer_id import InitProducerIdRequest
from tests.data_plane.helpers import batch
from tests.faults.rig import Rig, commit, committed, heartbeat, until
from tests.support.wire import WireClosedError


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as made:
        yield made


def error_of(response: Any) -> Err:
    return Err(response.topics[0].partitions[0].error_code)


async def test_without_rules_requests_pass_and_are_journalled(rig: Rig) -> None:
    wire = await rig.connect()
    assert error_of(await wire.send(commit(), 8)) is Err.NONE
    assert await committed(wire) == 5
    request, _ = rig.told("request")
    assert request["request"] == 1
    assert (request["api"], request["version"], request["client_id"]) == ("OffsetCommit", 8, "app-1")
    assert (request["group"], request["topics"], request["broker"], request["connection"]) == (
        "billing",
        ["orders-0"],
        1,
        1,
    )
    assert request["body"]["topics"][0]["partitions"][0]["committed_offset"] == 5
    response = rig.told("response")[0]
    assert (response["request"], response["api"], response["took_ms"]) == (1, "OffsetCommit", 0)
    assert "error" not in response
    assert "action" not in response


async def test_error_is_answered_and_nothing_is_applied(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("OffsetCommit", group="billing", times=1, error="NOT_COORDINATOR") as fault:
        assert error_of(await wire.send(commit(), 8)) is Err.NOT_COORDINATOR
        assert await committed(wire) == -1
        assert error_of(await wire.send(commit(), 8)) is Err.NONE
        await fault.wait()
    assert fault.hits == 1
    assert [event["event"] for event in rig.journal.events if "fault" in event["event"]] == [
        "fault_added",
        "fault",
        "fault_removed",
    ]
    hit = rig.told("fault")[0]
    assert (hit["fault"], hit["request"], hit["verdict"]) == (1, 1, "answer NOT_COORDINATOR")
    assert rig.told("response")[0]["error"] == "NOT_COORDINATOR"


async def test_error_after_is_answered_though_it_was_applied(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("OffsetCommit", error_after="REQUEST_TIMED_OUT"):
        assert error_of(await wire.send(commit(offset=7), 8)) is Err.REQUEST_TIMED_OUT
    assert await committed(wire) == 7


async def test_delay_handles_it_later_on_the_brokers_clock(rig: Rig) -> None:
    wire, other = await rig.connect(), await rig.connect("app-2")
    with rig.faults.add("OffsetCommit", delay="2s") as fault:
        answer = wire.start(commit(), 8)
        await fault.wait()
        assert fault.waiting == ["OffsetCommit v8 of 'app-1', group 'billing', orders-0, at broker 1"]
        rig.clock.advance(1999)
        assert await committed(other) == -1
        rig.clock.advance(1)
        assert error_of(await answer) is Err.NONE
        assert fault.waiting == []
    assert await committed(other) == 5
    assert [event["took_ms"] for event in rig.told("response") if event["api"] == "OffsetCommit"] == [2000]


async def test_reply_delay_handles_it_now_and_answers_later(rig: Rig) -> None:
    wire, other = await rig.connect(), await rig.connect("app-2")
    with rig.faults.add("OffsetCommit", reply_delay="2s") as fault:
        answer = wire.start(commit(), 8)
        await fault.wait()
        assert await committed(other) == 5
        assert not answer.done()
        rig.clock.advance(2000)
        assert error_of(await answer) is Err.NONE


async def test_hang_never_handles_nor_answers_and_holds_up_its_connection(rig: Rig) -> None:
    wire, other = await rig.connect(), await rig.connect("app-2")
    with rig.faults.add("OffsetCommit", hang=True) as fault:
        answer = wire.start(commit(), 8)
        behind = wire.start(heartbeat(), 4)
        await fault.wait()
        rig.clock.advance(300_000)
        assert await committed(other) == -1
    assert not answer.done()
    assert not behind.done()
    await wire.close()
    await until(lambda: not rig.tap.unanswered, "the hung request to be forgotten")
    assert fault.waiting == []
    assert [event["action"] for event in rig.told("response") if event["request"] == 1] == ["not answered"]


async def test_release_lets_hung_requests_go_on_even_after_the_rule_ended(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("OffsetCommit", hang=True) as fault:
        answer = wire.start(commit(), 8)
        await fault.wait()
    assert fault.release() == 1
    assert error_of(await answer) is Err.NONE
    assert fault.release() == 0


async def test_release_lets_delayed_requests_and_replies_go_on_at_once(rig: Rig) -> None:
    wire, other = await rig.connect(), await rig.connect("app-2")
    late = rig.faults.add("OffsetCommit", client_id="app-1", delay="1h")
    slow = rig.faults.add("OffsetCommit", client_id="app-2", reply_delay="1h")
    answers = [wire.start(commit(), 8), other.start(commit(), 8)]
    await asyncio.gather(late.wait(), slow.wait())
    late.release()
    slow.release()
    assert [error_of(answer) for answer in await asyncio.gather(*answers)] == [Err.NONE, Err.NONE]
    assert rig.clock.next_deadline_ms() is None or rig.clock.next_deadline_ms() - rig.clock.now_ms() != 3_600_000


async def test_drop_resets_the_connection_and_applies_nothing(rig: Rig) -> None:
    wire, other = await rig.connect(), await rig.connect("app-2")
    with rig.faults.add("OffsetCommit", drop=True):
        with pytest.raises(WireClosedError):
            await wire.send(commit(), 8)
        await wire.closed()
    assert await committed(other) == -1
    assert [(e["action"], e["body"]) for e in rig.told("response") if e["request"] == 1] == [("dropped", None)]
    await until(lambda: rig.told("connection")[-1]["action"] == "closed", "the end of the connection")


async def test_drop_after_resets_the_connection_though_it_was_applied(rig: Rig) -> None:
    wire, other = await rig.connect(), await rig.connect("app-2")
    with rig.faults.add("OffsetCommit", drop_after=True), pytest.raises(WireClosedError):
        await wire.send(commit(), 8)
    assert await committed(other) == 5


@pytest.mark.parametrize("size", [0, 3, 4, 9, 10_000])
async def test_truncate_sends_the_beginning_and_closes(rig: Rig, size: int) -> None:
    whole = await raw_answer(rig)
    with rig.faults.add("Heartbeat", truncate=size):
        assert await raw_answer(rig, closes=True) == whole[:size]
    assert rig.told("response")[-1]["action"] == "truncated"


@pytest.mark.parametrize("size", [1, 4, 9])
async def test_split_writes_the_response_in_two_parts(rig: Rig, size: int) -> None:
    whole = await raw_answer(rig)
    host, _, port = rig.cluster.bootstrap.rpartition(":")
    with rig.faults.add("Heartbeat", split=size, gap="3s") as fault:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(HEARTBEAT)
        assert await reader.readexactly(size) == whole[:size]
        await until(lambda: fault.waiting, "the rest to wait")
        rig.clock.advance(3000)
        assert await reader.readexactly(len(whole) - size) == whole[size:]
        writer.close()
        await writer.wait_closed()


async def test_split_longer_than_the_response_changes_nothing(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("Heartbeat", split=500):
        assert (await wire.send(heartbeat(), 4)).error_code == Err.UNKNOWN_MEMBER_ID


HEARTBEAT = frame(encode_request_header(12, 0, 42, "app") + encode(heartbeat(), 0))


async def raw_answer(rig: Rig, *, closes: bool = False) -> bytes:
    """The bytes that answer HEARTBEAT, as they come."""
    host, _, port = rig.cluster.bootstrap.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(HEARTBEAT)
        if closes:
            return await asyncio.wait_for(reader.read(), 60)
        size = await reader.readexactly(4)
        return size + await reader.readexactly(int.from_bytes(size, "big"))
    finally:
        writer.close()
        await writer.wait_closed()


async def test_throttle_tells_the_client_and_mutes_its_connection_after_the_reply(rig: Rig) -> None:
    wire, other = await rig.connect(), await rig.connect("app-2")
    with rig.faults.add("Heartbeat", client_id="app-1", times=1, throttle_ms=5000):
        assert (await wire.send(heartbeat(), 4)).throttle_time_ms == 5000
        behind = wire.start(heartbeat(), 4)
        assert (await other.send(heartbeat(), 4)).throttle_time_ms == 0
        rig.clock.advance(4999)
        assert (await other.send(heartbeat(), 4)).throttle_time_ms == 0
        assert not behind.done()
        assert sum(event["client_id"] == "app-1" for event in rig.told("request")) == 1
        rig.clock.advance(1)
        assert (await behind).throttle_time_ms == 0


async def test_pipelined_requests_wait_behind_a_throttled_one(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("Heartbeat", times=1, throttle_ms=5000):
        first, second, third = (wire.start(heartbeat(), 4) for _ in range(3))
        assert (await first).throttle_time_ms == 5000
        assert len(rig.told("request")) == 1
        rig.clock.advance(5000)
        assert [(await second).throttle_time_ms, (await third).throttle_time_ms] == [0, 0]


async def test_a_version_without_the_field_is_muted_all_the_same(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("Heartbeat", times=1, throttle_ms=5000):
        await wire.send(heartbeat(), 0)
        behind = wire.start(heartbeat(), 0)
        rig.clock.advance(5000)
        await behind


async def test_a_muted_connection_that_closes_leaves_no_timer(rig: Rig) -> None:
    wire = await rig.connect()
    before = rig.clock.next_deadline_ms()
    rig.faults.add("Heartbeat", throttle_ms=1)
    await wire.send(heartbeat(), 4)
    assert rig.clock.next_deadline_ms() != before
    await wire.close()
    await until(lambda: rig.clock.next_deadline_ms() == before, "the timer to be cancelled")


# --- APIs with their own ways -------------------------------------------------------------------------------------------


def produced(topic: str, partition: int, acks: int) -> ProduceRequest:
    records = batch(1)
    return ProduceRequest(
        None, acks, 1000, [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, records)])]
    )


async def test_a_produce_without_acks_that_fails_costs_the_connection(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER"):
        answer = wire.start(produced("orders", 1, 0), 9)
        await wire.closed()
    assert answer.done()
    assert rig.told("response")[0]["action"] == "dropped"


@pytest.mark.parametrize("verdict", [{"reply_delay": "1s"}, {"split": 3}, {"throttle_ms": 1000}, {"delay": "1s"}])
async def test_a_produce_without_acks_has_no_answer_to_break(rig: Rig, verdict: dict[str, Any]) -> None:
    wire = await rig.connect()
    with rig.faults.add("Produce", **verdict) as fault:
        wire.start(produced("orders", 1, 0), 9)
        behind = wire.start(heartbeat(), 4)
        await fault.wait()
        rig.clock.advance(1000)
        assert (await behind).error_code == Err.UNKNOWN_MEMBER_ID
    assert rig.cluster.state.topics["orders"].partitions[1].log_end_offset == 1


async def test_a_rule_finds_the_topic_of_a_fetch_by_id_and_of_an_incremental_one(rig: Rig) -> None:
    wire = await rig.connect()
    topic_id = rig.cluster.state.topics["orders"].topic_id
    await wire.send(produced("orders", 2, 1), 9)
    opening = FetchRequest(
        max_wait_ms=0, session_epoch=0, topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition(2)])]
    )
    opened = await wire.send(opening, 13)
    assert opened.session_id != 0
    with rig.faults.add("Fetch", topic="orders", partition=2, error="NOT_LEADER_OR_FOLLOWER"):
        answer = await wire.send(FetchRequest(max_wait_ms=0, session_id=opened.session_id, session_epoch=1), 13)
    assert (answer.error_code, answer.session_id) == (0, 0)
    row = answer.responses[0].partitions[0]
    assert (row.partition_index, row.error_code) == (2, Err.NOT_LEADER_OR_FOLLOWER)
    assert rig.told("request")[-1]["topics"] == ["orders-2"]


async def test_a_fetch_that_ends_its_session_fails_for_what_it_names_alone(rig: Rig) -> None:
    wire = await rig.connect()
    topic_id = rig.cluster.state.topics["orders"].topic_id
    one, other = ([FetchTopic(topic_id=topic_id, partitions=[FetchPartition(index)])] for index in (2, 3))
    opened = await wire.send(FetchRequest(max_wait_ms=0, session_epoch=0, topics=one), 13)
    with rig.faults.add("Fetch", error="NOT_LEADER_OR_FOLLOWER"):
        renewed = FetchRequest(max_wait_ms=0, session_id=opened.session_id, session_epoch=0, topics=other)
        answer = await wire.send(renewed, 13)
    rows = [(one.partition_index, one.error_code) for topic in answer.responses for one in topic.partitions]
    assert rows == [(3, Err.NOT_LEADER_OR_FOLLOWER)]


async def test_records_are_counted_in_the_journal_not_shown(rig: Rig) -> None:
    wire = await rig.connect()
    await wire.send(produced("orders", 2, 1), 9)
    data = rig.told("request")[0]["body"]["topic_data"][0]["partition_data"][0]
    assert data["records"]["records"] == 1
    assert set(data["records"]) == {"bytes", "records"}


async def test_an_api_versions_of_the_future_can_be_broken_too(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("ApiVersions", times=1, error="INVALID_REQUEST"):
        header = bytes.fromhex("0012004d00000007ffff00")  # version 77, correlation id 7, no client id, no tags
        wire.write_raw(len(header).to_bytes(4, "big") + header)
        answer = await wire.next_frame()
    assert answer[:6] == (7).to_bytes(4, "big") + Err.INVALID_REQUEST.to_bytes(2, "big")
    assert (await wire.send(ApiVersionsRequest("x", "1"), 3)).error_code == 0


async def test_find_coordinator_and_describe_groups_are_selected_by_group(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add(
        ["FindCoordinator", "DescribeGroups"], group="billing", error="COORDINATOR_NOT_AVAILABLE"
    ) as fault:
        found = await wire.send(FindCoordinatorRequest(coordinator_keys=["audit", "billing"]), 4)
        assert [one.error_code for one in found.coordinators] == [15, 15]
        told = await wire.send(DescribeGroupsRequest(["billing"]), 5)
        assert told.groups[0].error_code == 15
        assert (await wire.send(FindCoordinatorRequest("audit"), 3)).error_code == 0
        assert fault.hits == 2


async def test_metadata_is_selected_by_topic(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("Metadata", topic="orders", error="LEADER_NOT_AVAILABLE"):
        answer = await wire.send(MetadataRequest([MetadataRequestTopic(name="orders")]), 9)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("orders", 5)]


# --- budgets --------------------------------------------------------------------------------------------------------------


async def outcomes(rig: Rig, number: int) -> str:
    """Heartbeats one after the other: x where a rule (INVALID_REQUEST) hit, . where none did."""
    wire = await rig.connect()
    codes = [(await wire.send(heartbeat(), 4)).error_code for _ in range(number)]
    return "".join("x" if code == Err.INVALID_REQUEST else "." for code in codes)


@pytest.mark.parametrize(
    ("budget", "seen"),
    [({}, "xxxxxx"), ({"times": 2}, "xx...."), ({"nth": 3}, "..x..."), ({"nth": 3, "times": 2}, "..xx..")],
)
async def test_a_budget_says_which_matches_are_hit(rig: Rig, budget: dict[str, int], seen: str) -> None:
    with rig.faults.add("Heartbeat", error="INVALID_REQUEST", **budget) as fault:
        assert await outcomes(rig, 6) == seen
        assert fault.spent is bool(budget)
        assert fault.hits == seen.count("x")


async def test_chance_is_seeded(rig: Rig) -> None:
    with rig.faults.add("Heartbeat", error="INVALID_REQUEST", probability=0.5):
        seen = await outcomes(rig, 40)
    assert 10 <= seen.count("x") <= 30
    async with Rig() as again:
        again.faults.add("Heartbeat", error="INVALID_REQUEST", probability=0.5)
        assert await outcomes(again, 40) == seen


async def test_a_time_window_begins_and_ends_on_the_brokers_clock(rig: Rig) -> None:
    with rig.faults.add("Heartbeat", error="INVALID_REQUEST", after="2s", during="3s", times=2) as fault:
        assert await outcomes(rig, 1) == "."
        rig.clock.advance(2000)
        assert await outcomes(rig, 1) == "x"
        rig.clock.advance(3000)
        assert fault.spent
        assert await outcomes(rig, 1) == "."


async def test_the_first_installed_rule_has_the_request(rig: Rig) -> None:
    wire = await rig.connect()
    first = rig.faults.add("Heartbeat", times=1, error="REBALANCE_IN_PROGRESS")
    second = rig.faults.add(error="ILLEGAL_GENERATION")
    codes = [(await wire.send(heartbeat(), 4)).error_code for _ in range(2)]
    assert codes == [Err.REBALANCE_IN_PROGRESS, Err.ILLEGAL_GENERATION]
    assert (first.hits, second.hits) == (1, 1)


# --- the guard ------------------------------------------------------------------------------------------------------------


async def test_a_rule_that_never_hit_fails_with_its_near_misses(rig: Rig) -> None:
    wire = await rig.connect()
    fault = rig.faults.add("OffsetCommit", group="billing", broker=1, drop=True)
    await wire.send(commit("audit"), 8)
    await wire.send(heartbeat(), 4)
    with pytest.raises(NeverHit) as never, fault:
        pass
    assert str(never.value).splitlines() == [
        "fault 1 never hit: OffsetCommit group=billing broker=1: drop the connection",
        "  near miss: OffsetCommit v8 of 'app-1', group 'audit', orders-0, at broker 1: its group is 'audit'",
    ]


async def test_a_rule_whose_api_never_came_tells_what_came(rig: Rig) -> None:
    wire = await rig.connect()
    fault = rig.faults.add("JoinGroup", hang=True)
    for request, version in ((heartbeat(), 4), (heartbeat(), 4), (commit(), 8)):
        await wire.send(request, version)
    with pytest.raises(NeverHit, match="requests that arrived: Heartbeat 2, OffsetCommit 1"), fault:
        pass


async def test_a_rule_that_waited_for_a_later_match_says_so(rig: Rig) -> None:
    wire = await rig.connect()
    fault = rig.faults.add("Heartbeat", nth=2, hang=True)
    await wire.send(heartbeat(), 4)
    with pytest.raises(NeverHit, match="1 requests fit, but the rule begins with match 2"), fault:
        pass


async def test_a_rule_may_be_told_that_it_need_not_hit(rig: Rig) -> None:
    with rig.faults.add("JoinGroup", hang=True, must_hit=False):
        pass
    rig.faults.add("JoinGroup", hang=True).remove()
    with pytest.raises(KeyError), rig.faults.add("JoinGroup", hang=True):
        raise KeyError("the test's own")
    assert rig.faults.list() == []


async def test_rules_are_listed_found_removed_and_checked(rig: Rig) -> None:
    first, second = rig.faults.add("Fetch", hang=True), rig.faults.add("Heartbeat", hang=True, must_hit=False)
    assert rig.faults.list() == [first, second]
    assert first.to_dict() == {
        "id": 1,
        "text": "Fetch: never answer",
        "rule": {"api": "Fetch", "hang": True},
        "hits": 0,
        "spent": False,
        "removed": False,
        "waiting": [],
    }
    assert first.describe().splitlines() == [
        "fault 1, in force, 0 hits: Fetch: never answer",
        "  no request arrived (rules do not apply to a commit_probe)",
    ]
    with pytest.raises(NeverHit):
        rig.faults.check()
    assert rig.faults.remove(1) is first
    first.heal()
    with pytest.raises(UsageError, match="no fault 1; expected 2"):
        rig.faults.remove(1)
    rig.faults.check()
    assert rig.faults.clear() == 1


async def test_waiting_for_a_hit_that_does_not_come_tells_how_it_stands(rig: Rig) -> None:
    async with rig.faults.add("Heartbeat", hang=True, must_hit=False) as fault:
        with pytest.raises(WaitTimeout) as waited:
            await fault.wait(2, timeout="20ms")
    assert "2 hits of fault 1 (Heartbeat: never answer): not within 20 ms\nnow: 0 hits" in str(waited.value)


async def test_a_broker_that_is_not_there_can_not_be_selected(rig: Rig) -> None:
    with pytest.raises(UsageError, match="no broker 2; expected 1"):
        rig.faults.add(broker=2, hang=True)


async def test_rules_work_without_a_journal() -> None:
    async with Rig(journal=False) as rig:
        wire = await rig.connect()
        with rig.faults.add("Heartbeat", error="REBALANCE_IN_PROGRESS"):
            assert (await wire.send(heartbeat(), 4)).error_code == Err.REBALANCE_IN_PROGRESS
        assert list(rig.journal.events) == []


async def test_delays_pass_in_real_time_on_the_real_clock() -> None:
    async with Rig(clock=RealClock()) as rig:
        wire = await rig.connect()
        began_ms = rig.clock.now_ms()
        with rig.faults.add("Heartbeat", delay="50ms"):
            await wire.send(heartbeat(), 4)
        assert rig.clock.now_ms() - began_ms >= 50


async def test_a_rule_finds_a_producer_by_its_transactional_id(rig: Rig) -> None:
    wire = await rig.connect()
    with rig.faults.add("InitProducerId", transactional_id="pay-*", error="CONCURRENT_TRANSACTIONS"):
        asked = [InitProducerIdRequest(name, 1000) for name in ("pay-1", "bill-1", None)]
        codes = [(await wire.send(request, 4)).error_code for request in asked]
    assert [code == Err.CONCURRENT_TRANSACTIONS for code in codes] == [True, False, False]
    assert [told.get("transactional_id") for told in rig.told("request")] == ["pay-1", "bill-1", None]

"""Control of brokers from another process, by HTTP alone: every kind of state and of fault, and what clients see of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiokafka
import pytest

from broker_sim.faults.conditions import KINDS
from broker_sim.faults.rules import VERDICTS
from kafka_wire.errors import Err
from kafka_wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.messages.k03_metadata import MetadataRequest
from kafka_wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.messages.k16_list_groups import ListGroupsRequest
from kafka_wire.record_batch import build_batch
from tests.control.conftest import FAST_GROUPS
from tests.control.outside import Brokers, Outside
from tests.support.processes import DEADLINE_S
from tests.support.wire import Wire, WireClosedError

GROUP = "billing"


def produced(topic: str = "orders") -> ProduceRequest:
    data = PartitionProduceData(0, build_batch([(b"k", b"v")], 1_700_000_000_000, base_sequence=-1))
    return ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=[TopicProduceData(topic, partition_data=[data])])


def commit(group: str = GROUP, offset: int = 5) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
    topics = [OffsetCommitRequestTopic(name="orders", partitions=rows)]
    return OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics)


async def connected(kafka: Brokers, broker: int) -> Wire:
    return await Wire.connect(kafka.bootstrap.split(",")[broker - 1])


@pytest.fixture
def kafka(cluster: Brokers) -> Brokers:
    return cluster


@pytest.fixture
async def wire(kafka: Brokers) -> AsyncIterator[Wire]:
    """A connection to the leader of orders-0."""
    one = await connected(kafka, (await kafka.do("log.get", log="orders-0"))["leader"])
    yield one
    await one.close()


@pytest.fixture
async def coordinator(kafka: Brokers) -> AsyncIterator[Wire]:
    """A connection to the coordinator of the group."""
    one = await connected(kafka, (await kafka.do("log.get", log=f"offsets({GROUP})", ahead=True))["leader"])
    yield one
    await one.close()


def error_of(response: Any) -> Err:
    return Err(response.responses[0].partition_responses[0].error_code)


def commit_error(response: Any) -> Err:
    return Err(response.topics[0].partitions[0].error_code)


# --- names -------------------------------------------------------------------------------------------------------------


async def test_the_log_of_a_group_that_is_not_there_is_no_log_unless_it_comes_later(
    kafka: Brokers, coordinator: Wire
) -> None:
    wrong = {
        "state.set": {"log": "offsets(biling)", "state": "stuck"},
        "state.heal": {"log": "offsets(biling)"},
        "log.get": {"log": "offsets(biling)"},
        "log.wait": {"log": "offsets(biling)"},
        "leader.move": {"log": "offsets(biling)", "broker": 1},
        "leader.elect": {"log": "offsets(biling)"},
        "group.probe": {"group": "biling"},
    }
    for operation, given in wrong.items():
        failed = await kafka.refused(operation, **given)
        assert (failed.status, str(failed)) == (
            404,
            "no group 'biling'; none exists (--ahead, over HTTP ahead=true, allows one that does not exist yet)",
        ), operation
    assert commit_error(await coordinator.send(commit(), 8)) is Err.NONE
    for operation, given in wrong.items():
        failed = await kafka.refused(operation, **given)
        assert (failed.status, failed.body["nearest"]) == (404, GROUP), operation
    assert (await kafka.do("state.list"))["states"] == []
    told = await kafka.do("state.set", log="offsets(audit)", state="stuck", ahead=True)
    assert len(told["states"]) == 1
    assert (await kafka.do("state.heal", log="offsets(audit)"))["states"] == [], (
        "what was broken ahead is healed by its name"
    )
    for state in ("loading", "online"):
        await kafka.do("state.set", log=f"offsets({GROUP})", state=state)  # while it loads nobody can see the group


async def test_nothing_is_told_of_a_group_that_nobody_knows(kafka: Brokers, coordinator: Wire) -> None:
    assert commit_error(await coordinator.send(commit(), 8)) is Err.NONE
    for operation in ("group.explain", "group.timeline"):
        failed = await kafka.refused(operation, group="biling")
        assert (failed.status, failed.body["nearest"]) == (404, GROUP), operation
        assert await kafka.do(operation, group=GROUP)


async def test_a_rule_for_somebody_who_was_never_here_is_told_so(kafka: Brokers, coordinator: Wire) -> None:
    assert "note" not in await kafka.do("fault.add", api="Heartbeat", group="whoever", hang=True), "nobody was here yet"
    assert commit_error(await coordinator.send(commit(), 8)) is Err.NONE
    rule = {"api": "Heartbeat", "hang": True}
    assert "note" not in await kafka.do("fault.add", **rule, group="bil*")
    told = await kafka.do("fault.add", **rule, group="biling")
    assert told["note"] == f"up to now: no group 'biling'; did you mean {GROUP!r}?"
    told = await kafka.do("order.hold", api="Fetch", topic="ordres")
    assert told["note"].startswith("up to now: no topic 'ordres'; did you mean 'orders'? expected one of orders, ")


# --- states -----------------------------------------------------------------------------------------------------------

WAITS = {"stuck": {}, "slow": {"latency": "1h"}}
REFUSED = {
    "under_min_isr": Err.NOT_ENOUGH_REPLICAS,
    "storage_error": Err.KAFKA_STORAGE_ERROR,
    "full": Err.KAFKA_STORAGE_ERROR,
    "readonly": Err.KAFKA_STORAGE_ERROR,
    "too_large": Err.MESSAGE_TOO_LARGE,
    "not_leader": Err.NOT_LEADER_OR_FOLLOWER,
    "fenced": Err.FENCED_LEADER_EPOCH,
    "no_leader": Err.NOT_LEADER_OR_FOLLOWER,
}


def test_every_state_is_tried_here() -> None:
    assert {*WAITS, *REFUSED, "loading"} == set(KINDS)


@pytest.mark.parametrize("state", REFUSED)
async def test_a_state_refuses_what_is_written_until_it_is_healed(kafka: Brokers, wire: Wire, state: str) -> None:
    told = await kafka.do("state.set", log="orders-0", state=state)
    assert [one["state"] for one in told["states"]] == [state]
    assert (await kafka.do("state.list"))["states"] == told["states"]
    assert error_of(await wire.send(produced(), 9)) is REFUSED[state]
    healed = await kafka.do("state.heal", log="orders-0", state=state)
    assert healed["states"] == []
    assert error_of(await wire.send(produced(), 9)) is Err.NONE


@pytest.mark.parametrize("state", WAITS)
async def test_a_state_keeps_writers_waiting_until_it_is_healed(kafka: Brokers, wire: Wire, state: str) -> None:
    await kafka.do("state.set", log="orders-0", state=state, **WAITS[state])
    answer = wire.start(produced(), 9)
    pending = await kafka.do("log.wait", log="orders-0", pending=1)
    assert [one["api"] for one in pending["pending"]] == ["Produce"]
    assert not answer.done()
    told = await kafka.do("state.set", log="orders-0", state="online")
    assert (told["high_watermark"], told["states"]) == (1, [])
    async with asyncio.timeout(DEADLINE_S):
        assert error_of(await answer) is Err.NONE


async def test_loading_is_a_state_of_offsets_partitions(kafka: Brokers, coordinator: Wire) -> None:
    log = f"offsets({GROUP})"
    await kafka.do("state.set", log=log, state="loading", ahead=True)
    assert commit_error(await coordinator.send(commit(), 8)) is Err.COORDINATOR_LOAD_IN_PROGRESS
    await kafka.do("state.heal", log=log)
    await kafka.do("group.wait", group=GROUP, members=0)
    async with asyncio.timeout(DEADLINE_S):
        while commit_error(await coordinator.send(commit(), 8)) is not Err.NONE:
            await asyncio.sleep(0)
    failed = await kafka.refused("state.set", log="orders-0", state="loading")
    assert (failed.status, failed.body["kind"]) == (400, "UsageError")


async def test_a_state_ends_by_itself_and_excludes_others_of_its_aspect(kafka: Brokers) -> None:
    await kafka.do("state.set", log="orders-0", state="stuck", **{"for": "1h"})
    failed = await kafka.refused("state.set", log="orders-0", state="slow", latency="1s")
    assert failed.status == 400
    assert "orders-0 is stuck already" in str(failed)
    told = await kafka.do("state.set", log="orders-0", state="slow", latency="1s", replace=True)
    assert [one["state"] for one in told["states"]] == ["slow"]
    failed = await kafka.refused("state.heal", log="orders-0", state="stuck")
    assert str(failed) == "orders-0 is not stuck; it is slow"


async def test_a_state_is_healed_by_its_id_however_often(kafka: Brokers) -> None:
    stuck = (await kafka.do("state.set", log="orders-0", state="stuck"))["states"][0]["id"]
    full = (await kafka.do("state.set", log="orders-0", state="full"))["states"][1]["id"]
    for _ in range(2):
        told = await kafka.do("state.heal", log="orders-0", id=stuck)
        assert [one["id"] for one in told["states"]] == [full]
    failed = await kafka.refused("state.heal", log="orders-1", id=full)
    assert str(failed) == f"state {full} is not one of orders-1: orders-0 is full"
    failed = await kafka.refused("state.heal", log="orders-0", id=full + 1)
    assert (failed.status, str(failed)) == (404, f"no state {full + 1}; expected {full}")


# --- faults -----------------------------------------------------------------------------------------------------------

FAULTS: dict[str, dict[str, Any]] = {
    "error": {"error": "NOT_COORDINATOR"},
    "error_after": {"error_after": 7},
    "delay": {"delay": "30ms"},
    "reply_delay": {"reply_delay": "30ms"},
    "hang": {"hang": True},
    "drop": {"drop": True},
    "drop_after": {"drop_after": True},
    "truncate": {"truncate": 6},
    "split": {"split": 3, "gap": "10ms"},
    "throttle_ms": {"throttle_ms": 20},
}
ANSWERED = {"error": Err.NOT_COORDINATOR, "error_after": Err.REQUEST_TIMED_OUT}
APPLIED = {"error_after", "delay", "reply_delay", "drop_after", "truncate", "split", "throttle_ms"}


def test_every_verdict_is_tried_here() -> None:
    assert set(FAULTS) == set(VERDICTS)


@pytest.mark.parametrize("verdict", FAULTS)
async def test_a_fault_breaks_the_request_that_it_means(kafka: Brokers, coordinator: Wire, verdict: str) -> None:
    fault = await kafka.do("fault.add", api="offsetcommit", group=GROUP, times=1, **FAULTS[verdict])
    assert (fault["hits"], fault["removed"]) == (0, False)
    answer = coordinator.start(commit(), 8)
    assert (await kafka.do("fault.wait", fault=fault["id"], hits=1))["hits"] == 1
    async with asyncio.timeout(DEADLINE_S):
        if verdict == "hang":
            assert len((await kafka.do("fault.get", fault=fault["id"]))["waiting"]) == 1
            assert not answer.done()
        elif verdict in ("drop", "drop_after", "truncate"):
            with pytest.raises(WireClosedError):
                await answer
        else:
            response = await answer
            assert commit_error(response) is ANSWERED.get(verdict, Err.NONE)
            assert response.throttle_time_ms == (20 if verdict == "throttle_ms" else 0)
        if verdict in APPLIED:
            await kafka.do("group.wait", group=GROUP, committed={"orders-0": 5})
    removed = await kafka.do("fault.remove", fault=fault["id"])
    assert (removed["hits"], removed["removed"], removed["spent"]) == (1, True, True)
    if verdict not in APPLIED:
        assert (await kafka.refused("group.get", group=GROUP)).status == 404


async def test_a_request_that_hangs_can_be_let_go(kafka: Brokers, coordinator: Wire) -> None:
    fault = await kafka.do("fault.add", api="ListGroups", hang=True)
    answer = coordinator.start(ListGroupsRequest(), 4)
    await kafka.do("fault.get", fault=fault["id"], wait_hits=1)
    await kafka.do("fault.release", fault=fault["id"])
    async with asyncio.timeout(DEADLINE_S):
        assert (await answer).error_code == 0


async def test_a_rule_that_never_hit_is_an_error_unless_told_otherwise(kafka: Brokers) -> None:
    rules = [
        (await kafka.do("fault.add", api="DeleteGroups", hang=True, **more))["id"]
        for more in ({}, {"must_hit": False}, {})
    ]
    failed = await kafka.refused("fault.remove", fault=rules[0])
    assert (failed.status, failed.body["kind"]) == (409, "NeverHit")
    assert (await kafka.do("fault.remove", fault=rules[1]))["hits"] == 0
    assert (await kafka.do("fault.remove", fault=rules[2], must_hit=False))["hits"] == 0
    assert (await kafka.do("fault.list"))["faults"] == []


async def test_a_wait_in_vain_ends_at_its_deadline_with_the_story(kafka: Brokers) -> None:
    fault = await kafka.do("fault.add", api="DeleteGroups", hang=True)
    failed = await kafka.refused("fault.wait", fault=fault["id"], timeout="50ms")
    assert (failed.status, failed.body["kind"]) == (408, "WaitTimeout")
    assert "1 hit of fault" in str(failed)
    failed = await kafka.refused("group.wait", group="nobody", state="Stable", members=3, timeout=0.05)
    assert failed.status == 408
    assert "group 'nobody': state Stable, members 3: not within 50 ms" in str(failed)
    assert isinstance(failed.body["history"], str)


# --- with real consumers ----------------------------------------------------------------------------------------------


def consumer(kafka: Brokers, client_id: str = "app", session_timeout_ms: int = 300_000) -> aiokafka.AIOKafkaConsumer:
    return aiokafka.AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap,
        group_id=GROUP,
        client_id=client_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=session_timeout_ms,
    )


async def test_a_consumers_commit_waits_out_a_stuck_offsets_partition(kafka: Brokers) -> None:
    await kafka.do("topic.fill", topic="orders", records=20)
    async with consumer(kafka) as app:
        async with asyncio.timeout(DEADLINE_S):
            await app.getone()
        stable = await kafka.do("group.get", group=GROUP, wait="stable", members=1)
        assert [one["client_id"] for one in stable["members"]] == ["app"]
        assert stable["members"][0]["assignment"] == {"orders": [0, 1]}

        await kafka.do("state.set", log=f"offsets({GROUP})", ahead=True, state="stuck")
        commits = asyncio.create_task(app.commit())
        waiting = await kafka.do("log.wait", log=f"offsets({GROUP})", ahead=True)
        assert waiting["log"] == stable["log"]
        assert "OffsetCommit" in [one["api"] for one in waiting["pending"]]
        assert (await kafka.do("group.get", group=GROUP))["offsets"] == {}
        await kafka.do("state.heal", log=f"offsets({GROUP})", ahead=True)
        async with asyncio.timeout(DEADLINE_S):
            await commits
        group = await kafka.do("group.wait", group=GROUP, lag_below=20)
        assert (group["state"], group["generation"]) == ("Stable", stable["generation"])

    told = await kafka.do("group.explain", group=GROUP)
    assert GROUP in told["text"]
    drawn = await kafka.do("group.timeline", group=GROUP)
    assert "app" in drawn["text"]
    for form, begins in (("svg", "<?xml"), ("html", "<!doctype html")):
        picture = await asyncio.to_thread(kafka.client.picture, "group.timeline", form, group=GROUP)
        assert picture.lower().startswith(begins)
        assert "://" not in picture.replace("http://www.w3.org", ""), "one file that needs no other"


async def test_a_coordinator_moves_and_its_consumer_follows(kafka: Brokers) -> None:
    async with consumer(kafka) as app:
        group = await kafka.do("group.wait", group=GROUP, state="Stable", members=1)
        other = 3 - group["coordinator"]
        moved = await kafka.do("leader.move", log=f"offsets({GROUP})", ahead=True, broker=other)
        assert moved["leader"] == other
        async with asyncio.timeout(DEADLINE_S):
            await app.commit({aiokafka.TopicPartition("orders", 0): 3})
        after = await kafka.do("group.wait", group=GROUP, committed={"orders-0": 3})
        assert after["coordinator"] == other
    failed = await kafka.refused("leader.move", log="orders-0", broker=9)
    assert (failed.status, str(failed)) == (404, "no broker 9; expected one of 1, 2")


async def test_a_broker_goes_down_and_comes_up_on_its_port(kafka: Brokers) -> None:
    before = await kafka.do("broker.get", broker=1)
    down = await kafka.do("broker.down", broker=1)
    assert not down["alive"]
    with pytest.raises(ConnectionError):
        await connected(kafka, 1)
    up = await kafka.do("broker.up", broker=1)
    assert (up["alive"], up["port"]) == (True, before["port"])
    wire = await connected(kafka, 1)
    assert len((await wire.send(MetadataRequest(topics=[]), 12)).brokers) == 2
    await wire.close()
    assert (await kafka.do("broker.restart", broker=2))["alive"]
    unnoticed = await kafka.do("broker.down", broker=2, noticed_after="1h")
    assert unnoticed["alive"], "nobody knows yet"
    assert (await kafka.do("broker.up", broker=2, elect="preferred"))["alive"]
    assert (await kafka.do("leader.prefer"))["changed"] == 0
    log = await kafka.do("log.get", log="orders-0")
    assert (await kafka.do("leader.elect", log="orders-0"))["leader_epoch"] == log["leader_epoch"] + 1
    assert len((await kafka.do("broker.restart_all"))["brokers"]) == 2
    assert [one["alive"] for one in (await kafka.do("broker.list"))["brokers"]] == [True, True]


async def test_an_operator_removes_a_member(kafka: Brokers) -> None:
    async with consumer(kafka, "app-1"):
        await kafka.do("group.wait", group=GROUP, state="Stable", members=1)
        gone = asyncio.create_task(kafka.do("group.wait", group=GROUP, member_gone="app-1"))
        failed = await kafka.refused("group.remove_member", group=GROUP, member="app-2")
        assert (failed.status, failed.body["nearest"]) == (404, "app-1")
        group = await kafka.do("group.remove_member", group=GROUP, member="app-1")
        assert group["members"] == []
        await gone


# --- order, time, topics, journal, clusters ---------------------------------------------------------------------------


async def test_commits_are_waited_for_and_tried(kafka: Brokers, coordinator: Wire) -> None:
    assert await kafka.do("group.probe", group=GROUP, ahead=True) == {
        "ok": True,
        "error": "NONE",
        "log": (await kafka.do("log.get", log=f"offsets({GROUP})", ahead=True))["log"],
    }
    await coordinator.send(commit(offset=7), 8)
    seen = await kafka.do("group.commit", group=GROUP, since=0)
    assert seen["offsets"] == {"orders-0": 7}
    failed = await kafka.refused("group.commit", group=GROUP, since=seen["seq"], timeout="20ms")
    assert failed.status == 408
    await kafka.do("state.set", log=f"offsets({GROUP})", ahead=True, state="readonly")
    assert not (await kafka.do("group.probe", group=GROUP))["ok"]


async def test_requests_are_held_and_let_go_one_by_one(kafka: Brokers, coordinator: Wire) -> None:
    hold = await kafka.do("order.hold", api="OffsetCommit", group=GROUP)
    other = await connected(kafka, (await kafka.do("log.get", log=f"offsets({GROUP})", ahead=True))["leader"])
    first = coordinator.start(commit(offset=1), 8)
    await kafka.do("order.wait", hold=hold["id"], waiting=1)
    second = other.start(commit(offset=2), 8)
    held = await kafka.do("order.wait", hold=hold["id"], waiting=2)
    assert len(held["waiting"]) == 2
    assert (await kafka.do("order.list"))["holds"] == [held]
    stepped = await kafka.do("order.step", hold=hold["id"])
    assert "OffsetCommit" in stepped["stepped"]
    async with asyncio.timeout(DEADLINE_S):
        assert commit_error(await first) is Err.NONE
        assert not second.done()
        assert len((await kafka.do("order.release", hold=hold["id"], count=1))["waiting"]) == 0
        assert commit_error(await second) is Err.NONE
    assert (await kafka.do("group.get", group=GROUP))["offsets"] == {"orders-0": 2}
    assert (await kafka.do("order.remove", hold=hold["id"]))["ended"]
    await other.close()


async def test_time_is_moved_by_hand(outside: Callable[..., Outside]) -> None:
    kafka = outside("--topic", "orders:2", "--clock", "manual", "--seed", "7", *FAST_GROUPS)
    clock = await kafka.do("clock.get")
    assert (clock["mode"], clock["rate"]) == ("manual", 0)
    async with consumer(kafka, "slow", session_timeout_ms=45_000):
        await kafka.do("group.wait", group=GROUP, state="Stable", members=1)
        moved = await kafka.do("clock.advance", by="46s", expire=["slow"])
        assert any("session" in timer for timer in moved["fired"])
        assert moved["now_ms"] - clock["now_ms"] >= 46_000
        await kafka.do("group.wait", group=GROUP, generation=1)
    failed = await kafka.refused("clock.advance", by="1s", expire=["nobody"])
    assert failed.status == 400


async def test_a_clock_that_moves_by_itself_is_not_moved(kafka: Brokers) -> None:
    failed = await kafka.refused("clock.advance", by="1s")
    assert failed.status == 400
    assert "manual" in str(failed)


async def test_topics_are_made_filled_grown_and_deleted(kafka: Brokers) -> None:
    made = await kafka.do("topic.create", topic="audit", partitions=2, configs={"retention.ms": "1000"})
    assert (made["partitions"], made["records"]) == (2, 0)
    assert (await kafka.do("topic.fill", topic="audit", records=7, value_bytes=100))["records"] == 7
    assert (await kafka.do("topic.grow", topic="audit", partitions=5))["partitions"] == 5
    failed = await kafka.refused("topic.grow", topic="audit", partitions=3)
    assert failed.status in (400, 409)
    assert [one["topic"] for one in (await kafka.do("topic.list"))["topics"]] == ["orders", "audit"]
    assert await kafka.do("topic.delete", topic="audit") == {"deleted": "audit"}
    assert (await kafka.refused("topic.get", topic="audit")).status == 404


def until_answered(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for event in events:
        yield event
        if event["event"] == "response":
            return


async def test_the_journal_is_read_and_followed(kafka: Brokers, coordinator: Wire) -> None:
    mark = await kafka.do("journal.mark", text="deploy began")
    follow = kafka.client.journal(follow=True, since=mark["seq"], api="OffsetCommit", group=GROUP)
    later = asyncio.create_task(asyncio.to_thread(lambda: list(until_answered(follow))))
    await coordinator.send(ListGroupsRequest(), 4)
    await coordinator.send(commit("audit"), 8)
    await coordinator.send(commit(), 8)
    async with asyncio.timeout(DEADLINE_S):
        request, *_, response = await later
    assert (request["event"], response["event"]) == ("request", "response")
    assert request["request"] == response["request"]
    assert (request["api"], request["group"]) == ("OffsetCommit", GROUP)

    def read(**filters: Any) -> list[dict[str, Any]]:
        return list(kafka.client.journal(**filters))

    assert await asyncio.to_thread(read, event="mark") == [mark]
    of_request = await asyncio.to_thread(lambda: read(request=request["request"]))
    assert {"request", "append", "offsets", "response"} <= {one["event"] for one in of_request}
    assert len(await asyncio.to_thread(lambda: read(limit=3))) == 3
    numbers = [one["seq"] for one in await asyncio.to_thread(lambda: read(since=mark["seq"]))]
    assert numbers == list(range(mark["seq"] + 1, mark["seq"] + 1 + len(numbers)))


async def test_an_event_of_the_journal_is_waited_for(kafka: Brokers, coordinator: Wire) -> None:
    wanted = {"api": "OffsetCommit", "group": GROUP}
    waiting = asyncio.create_task(kafka.do("journal.next", **wanted, timeout=DEADLINE_S))
    await coordinator.send(commit("audit"), 8)
    await coordinator.send(commit(), 8)
    async with asyncio.timeout(DEADLINE_S):
        first = await waiting
    assert (first["event"], first["group"], first["answer"]["topics"][0]["name"]) == ("response", GROUP, "orders")
    assert await kafka.do("journal.next", **wanted, error="NONE") == first  # it need not be to come
    assert (await kafka.do("journal.next", **wanted, event="request"))["request"] == first["request"]

    async with asyncio.TaskGroup() as tasks:
        refused = tasks.create_task(kafka.do("journal.next", **wanted, error="not_coordinator", timeout=DEADLINE_S))
        await kafka.do("fault.add", api="OffsetCommit", error="NOT_COORDINATOR", times=1)
        await coordinator.send(commit(), 8)
    assert refused.result()["seq"] > first["seq"]

    await kafka.do("fault.add", api="OffsetCommit", drop_after=True, times=1)
    with pytest.raises(WireClosedError):
        await coordinator.send(commit(), 8)
    since = refused.result()["seq"]
    assert (await kafka.do("journal.next", **wanted, since=since))["action"] == "dropped"
    late = await kafka.refused("journal.next", **wanted, error="NONE", since=since, timeout="10ms")
    assert (late.status, late.body["kind"]) == (408, "WaitTimeout")
    assert "OffsetCommit" in late.body["error"]


async def test_a_failed_test_hears_of_every_group_and_of_what_is_unanswered(kafka: Brokers, coordinator: Wire) -> None:
    assert (await kafka.do("journal.recent"))["text"] == ""
    await coordinator.send(commit(), 8)
    log = f"offsets({GROUP})"
    await kafka.do("state.set", log=log, state="stuck")
    coordinator.start(commit(), 8)
    await kafka.do("log.wait", log=log)
    told = (await kafka.do("journal.recent"))["text"]
    assert f"group {GROUP}: " in told
    assert "unanswered: request 2, OffsetCommit" in told
    await kafka.do("state.set", log=log, state="no_leader")  # nobody knows the group now, and the journal does
    assert (await kafka.do("group.list"))["groups"] == []
    assert f"group {GROUP}: " in (await kafka.do("journal.recent"))["text"]


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({}, "no condition to wait for"),
        ({"api": "OffsetComit"}, "did you mean 'OffsetCommit'?"),
        ({"api": "Offset*"}, "no API 'Offset*'"),
        ({"api": "OffsetCommit", "event": "append"}, "an API's request or response; other events have none"),
        ({"error": "NOT_COORDINATR"}, "did you mean 'NOT_COORDINATOR'?"),
        ({"event": "timer", "error": "NONE"}, "an event 'timer' has none"),
    ],
)
async def test_an_event_that_can_not_come_is_not_waited_for(kafka: Brokers, params: dict[str, Any], told: str) -> None:
    failed = await kafka.refused("journal.next", **params)
    assert failed.status == 400
    assert told in str(failed)


async def test_virtual_clusters_live_side_by_side(outside: Callable[..., Outside]) -> None:
    kafka = outside()
    made = await kafka.do(
        "cluster.create", id="old", brokers=3, topics={"a": 3}, as_version="3.9", clock="manual", seed=1
    )
    assert (made["id"], made["brokers"], made["as_version"], made["clock"]) == ("old", 3, "3.9", "manual")
    wire = await Wire.connect(made["bootstrap"])
    assert [topic.name for topic in (await wire.send(MetadataRequest(topics=None), 12)).topics] == ["a"]
    await wire.close()
    other = await kafka.do("cluster.create")
    named = [one["id"] for one in (await kafka.do("cluster.list"))["clusters"]]
    assert named == ["default", "old", other["id"]]
    failed = await kafka.refused("cluster.create", id="old")
    assert (failed.status, str(failed)) == (400, "a cluster 'old' exists already; choose another name")
    assert (await kafka.refused("cluster.create", as_version="1.0")).status == 400
    assert (await kafka.refused("cluster.create", config={"num.partitons": 3})).status == 400
    assert await kafka.do("cluster.delete", cluster="old") == {"deleted": "old"}
    assert (await kafka.refused("cluster.get", cluster="old")).status == 404
    assert (await kafka.refused("cluster.delete", cluster="default")).status == 400


async def test_an_order_is_recorded_and_played_again(kafka: Brokers, coordinator: Wire) -> None:
    assert (await kafka.refused("order.recorded")).status == 404
    await kafka.do("order.record")
    assert (await kafka.refused("order.record")).status == 400
    await coordinator.send(commit("audit", 1), 8)
    await coordinator.send(commit(GROUP, 2), 8)
    assert len((await kafka.do("order.recorded"))["entries"]) == 2
    entries = (await kafka.do("order.stop"))["entries"]
    assert [(one["api"], one["group"]) for one in entries] == [("OffsetCommit", "audit"), ("OffsetCommit", GROUP)]

    replay = await kafka.do("order.replay", entries=entries)
    assert (replay["position"], replay["diverged"]) == (0, None)
    assert "audit" in replay["expected"]
    other = await connected(kafka, (await kafka.do("log.get", log=f"offsets({GROUP})", ahead=True))["leader"])
    early = coordinator.start(commit(GROUP, 4), 8)
    async with asyncio.timeout(DEADLINE_S):
        while not (await kafka.do("order.replayed"))["waiting"]:
            await asyncio.sleep(0)
        first = await other.send(commit("audit", 3), 8)
        assert commit_error(first) in (Err.NONE, Err.NOT_COORDINATOR)
        assert commit_error(await early) is Err.NONE
    assert (await kafka.do("order.replayed", done=True))["position"] == 2
    assert (await kafka.do("order.unreplay"))["ended"]
    assert (await kafka.refused("order.replayed")).status == 404
    failed = await kafka.refused("order.replay", entries=[{"n": 1, "api": "OfsetCommit"}])
    assert (failed.status, failed.body["nearest"]) == (400, "OffsetCommit")
    await other.close()


async def test_an_order_that_does_not_come_again_has_diverged(kafka: Brokers, coordinator: Wire) -> None:
    entries = [{"n": 1, "api": "OffsetCommit", "client_id": "wire", "group": "audit", "topics": ["orders"]}]
    await kafka.do("order.replay", entries=entries, deadline="50ms")
    answer = coordinator.start(commit(GROUP), 8)
    failed = await kafka.refused("order.replayed", done=True)
    assert (failed.status, failed.body["kind"]) == (409, "Diverged")
    assert "audit" in str(failed)
    async with asyncio.timeout(DEADLINE_S):
        assert commit_error(await answer) is Err.NONE

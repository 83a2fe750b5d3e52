"""Rules and orders through the cluster's face, and what aiokafka does about them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from broker_sim import Cluster, ClusterThread
from broker_sim.common.text import UsageError
from broker_sim.faults.registry import NeverHit
from kafka_wire.errors import Err

pytestmark = pytest.mark.kafka(topics={"orders": 2})

ORDERS = TopicPartition("orders", 0)


@asynccontextmanager
async def consumer(
    kafka: Cluster, client_id: str = "app", group: str = "billing", **options: Any
) -> AsyncIterator[AIOKafkaConsumer]:
    """A member of the group that commits when it is told to."""
    settings: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap,
        "client_id": client_id,
        "group_id": group,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "retry_backoff_ms": 20,
        "heartbeat_interval_ms": 100,
        **options,
    }
    made = AIOKafkaConsumer("orders", **settings)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def asked(kafka: Cluster, api: str) -> list[dict[str, Any]]:
    return [event for event in kafka.journal.events if event["event"] == "request" and event["api"] == api]


async def test_after_not_coordinator_aiokafka_asks_for_the_coordinator_and_commits_again(kafka: Cluster) -> None:
    async with consumer(kafka) as app:
        looked = len(asked(kafka, "FindCoordinator"))
        with kafka.fault("OffsetCommit", group="billing", times=1, error="NOT_COORDINATOR") as fault:
            await app.commit({ORDERS: 3})
            await fault.wait()
        assert await app.committed(ORDERS) == 3
        assert len(asked(kafka, "FindCoordinator")) > looked


async def test_a_join_survives_a_coordinator_that_loads(kafka: Cluster) -> None:
    with kafka.fault("JoinGroup", times=2, error="COORDINATOR_LOAD_IN_PROGRESS") as fault:
        async with consumer(kafka) as app:
            assert fault.hits == 2
            assert len(app.assignment()) == 2


async def test_a_commit_that_is_applied_and_then_refused_is_there(kafka: Cluster) -> None:
    async with consumer(kafka) as app:
        with kafka.fault("OffsetCommit", times=1, error_after="INVALID_COMMIT_OFFSET_SIZE"), pytest.raises(KafkaError):
            await app.commit({ORDERS: 4})
        assert await app.committed(ORDERS) == 4


async def test_a_dropped_heartbeat_connection_costs_no_generation(kafka: Cluster) -> None:
    async with consumer(kafka):
        with kafka.fault("Heartbeat", times=1, drop=True) as fault:
            await fault.wait()
        beats = len(asked(kafka, "Heartbeat"))
        await kafka.journal.next("Heartbeat", answered=True, since=kafka.journal.seq)
        assert len(asked(kafka, "Heartbeat")) > beats
        assert len(asked(kafka, "SyncGroup")) == 1


async def test_a_response_that_is_cut_short_is_asked_for_again(kafka: Cluster) -> None:
    with kafka.fault("FindCoordinator", times=1, truncate=7):
        async with consumer(kafka) as app:
            assert len(app.assignment()) == 2
    cut = [event for event in kafka.journal.events if event.get("action") == "truncated"]
    assert [event["api"] for event in cut] == ["FindCoordinator"]


async def test_responses_in_two_parts_are_put_together(kafka: Cluster) -> None:
    with kafka.fault(split=3, gap="5ms") as fault:
        async with consumer(kafka) as app:
            await app.commit({ORDERS: 2})
    assert fault.hits > 5


async def test_a_hung_commit_lasts_until_the_client_gives_up(kafka: Cluster) -> None:
    async with consumer(kafka, request_timeout_ms=3000) as app:
        with kafka.fault("OffsetCommit", times=1, hang=True):
            await app.commit({ORDERS: 6})  # the second attempt, over a new connection
        assert await app.committed(ORDERS) == 6
    lost = [event for event in kafka.journal.events if event.get("action") == "not answered"]
    assert "OffsetCommit" in {event["api"] for event in lost}


async def test_a_produce_that_times_out_after_it_was_applied_is_there_twice(kafka: Cluster) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, retry_backoff_ms=20)
    await producer.start()
    try:
        with kafka.fault("Produce", topic="orders", times=1, error_after="REQUEST_TIMED_OUT"):
            await producer.send_and_wait("orders", b"x", partition=0)
    finally:
        await producer.stop()
    assert kafka.state.topics["orders"].partitions[0].log_end_offset == 2


async def test_an_idempotent_produce_that_times_out_after_it_was_applied_is_there_once(kafka: Cluster) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, retry_backoff_ms=20, enable_idempotence=True)
    await producer.start()
    try:
        with kafka.fault("Produce", topic="orders", times=1, error_after="REQUEST_TIMED_OUT"):
            await producer.send_and_wait("orders", b"x", partition=0)
    finally:
        await producer.stop()
    assert kafka.state.topics["orders"].partitions[0].log_end_offset == 1


async def test_the_held_joins_of_two_consumers_go_in_the_order_that_the_test_wants(kafka: Cluster) -> None:
    async with kafka.order.hold("JoinGroup", group="billing") as hold:
        starting = [asyncio.create_task(_started(kafka, name)) for name in ("first", "second")]
        await hold.arrived(2)
        text = await hold.step(client_id="second")
        assert text.startswith("JoinGroup")
    apps = await asyncio.gather(*starting)
    try:
        assert sorted(len(app.assignment()) for app in apps) in ([0, 2], [1, 1])
        firsts = [event for event in asked(kafka, "JoinGroup") if not event["body"]["member_id"]]
        answers = [event["request"] for event in kafka.journal.events if event["event"] == "response"]
        order = sorted(firsts, key=lambda event: answers.index(event["request"]))
        assert [event["client_id"] for event in order] == ["second", "first"]
    finally:
        for app in apps:
            await app.stop()


async def _started(kafka: Cluster, client_id: str) -> AIOKafkaConsumer:
    app = AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, group_id="billing", client_id=client_id)
    await app.start()
    return app


async def test_the_order_of_a_consumers_start_can_be_replayed_by_another(kafka: Cluster) -> None:
    with kafka.order.record() as recording:
        async with consumer(kafka) as app:
            await app.commit({ORDERS: 1})
    kept = ["JoinGroup", "SyncGroup", "OffsetCommit", "LeaveGroup"]
    entries = [entry for entry in recording.entries if entry.api in kept]
    assert list(dict.fromkeys(entry.api for entry in entries)) == kept
    seen = {event["api"] for event in kafka.journal.events if event["event"] == "request"}
    free = sorted(
        (seen | {"Heartbeat", "Metadata"}) - set(kept)
    )  # these come by the clock, so perhaps the second time alone
    async with kafka.order.replay(entries, free=free) as replay:
        async with consumer(kafka) as app:
            await app.commit({ORDERS: 2})
        await replay.done()


async def test_a_wrong_rule_is_refused_at_the_call(kafka: Cluster) -> None:
    with pytest.raises(UsageError, match="did you mean 'OffsetCommit'"):
        kafka.fault("OfsetCommit", drop=True)
    with pytest.raises(UsageError, match="no broker 3; expected 1"):
        kafka.fault(broker=3, drop=True)
    with pytest.raises(UsageError, match="no key 'eror' of a rule; did you mean 'error'"):
        kafka.fault("Fetch", eror="NOT_LEADER_OR_FOLLOWER")


@pytest.mark.kafka(seed=11)
async def test_a_seed_repeats_the_chances(kafka: Cluster) -> None:
    async def hits(cluster: Cluster) -> list[bool]:
        fault = cluster.fault("ApiVersions", probability=0.5, error="UNKNOWN_SERVER_ERROR")
        seen = []
        for _ in range(20):
            before = fault.hits
            await _api_versions(cluster)
            seen.append(fault.hits > before)
        fault.remove()
        return seen

    first = await hits(kafka)
    assert {True, False} == set(first)
    async with Cluster(seed=11) as again:
        assert await hits(again) == first


async def _api_versions(cluster: Cluster) -> None:
    from kafka_wire.messages.k18_api_versions import ApiVersionsRequest
    from tests.support.wire import Wire

    wire = await Wire.connect(cluster.bootstrap)
    await wire.send(ApiVersionsRequest("test", "1"), 3)
    await wire.close()


def test_without_a_loop_guards_and_waits_are_the_same(kafka_server: ClusterThread) -> None:
    never = kafka_server.fault("JoinGroup", error=Err.NOT_COORDINATOR)
    with pytest.raises(NeverHit, match="no request arrived"), never:
        pass
    assert kafka_server.faults.list() == []
    hold = kafka_server.order.hold("JoinGroup")
    assert hold.waiting == []
    hold.end()


async def test_a_throttled_commit_returns_and_the_next_request_waits(kafka: Cluster) -> None:
    async with consumer(kafka) as app:
        with kafka.fault("OffsetCommit", times=1, throttle_ms=250):
            await app.commit({ORDERS: 1})
        seen = kafka.journal.seq
        await app.commit({ORDERS: 2})
        events = kafka.journal.since(0)
    commits = [event for event in events if event["event"] == "request" and event["api"] == "OffsetCommit"]
    answers = {event["request"]: event for event in events if event["event"] == "response"}
    assert answers[commits[0]["request"]]["body"]["throttle_time_ms"] == 250
    assert answers[commits[0]["request"]]["seq"] <= seen
    assert commits[1]["ts_ms"] - answers[commits[0]["request"]]["ts_ms"] >= 249


async def test_a_fetch_that_fails_at_one_partition_leaves_the_other_readable(kafka: Cluster) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
    await producer.start()
    for partition in (0, 1):
        await producer.send_and_wait("orders", str(partition).encode(), partition=partition)
    await producer.stop()
    with kafka.fault("Fetch", topic="orders", partition=0, error="NOT_LEADER_OR_FOLLOWER") as fault:
        async with consumer(kafka) as app:
            await fault.wait()
            metadata = len(asked(kafka, "Metadata"))
            await fault.wait(fault.hits + 2)
            assert len(asked(kafka, "Metadata")) > metadata
            fault.remove()
            got = [await app.getone(), await app.getone()]
    assert {(record.partition, record.value) for record in got} == {(0, b"0"), (1, b"1")}

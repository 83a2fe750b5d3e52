"""Refused heartbeats of consumer, share and streams groups: why, with the members, times and limits that the reason is about."""

from __future__ import annotations

import re
from typing import Any

import pytest

from broker_sim import Cluster
from broker_sim.common.text import clock
from broker_sim.explain import recent
from kafka_wire.errors import Err
from kafka_wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.handles.members import Member
from tests.handles.test_consumer_groups import Consumer
from tests.support.streams import PLAIN, App
from tests.support.wire import Wire

JOINS: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"]}
WEB: dict[str, Any] = {"instance_id": "web-1", **JOINS}


def cluster(**config: Any) -> Cluster:
    return Cluster(topics={"orders": 4}, as_version="4.4", clock="manual", config=config, internal_topics="at-start")


async def connected(kafka: Cluster, client: str, member: str = "") -> Consumer:
    return Consumer(await Wire.connect(kafka.bootstrap, client_id=client), member or f"id-{client}")


async def close(*consumers: Any) -> None:
    for consumer in consumers:
        await consumer.wire.close()


def told(kafka: Cluster) -> str:
    return " ".join(kafka.group("g").explain().split())


def last_ms(kafka: Cluster, client: str) -> int:
    """Return the time of a client's last request."""
    requests = [event for event in kafka.journal.events if event["event"] == "request"]
    return max(event["ts_ms"] for event in requests if event["client_id"] == client)


async def test_who_holds_an_instance_id_and_until_when() -> None:
    async with cluster() as kafka:
        kafka.observe()
        east, west = await connected(kafka, "east"), await connected(kafka, "west")
        await east.beat(**WEB)
        await kafka.time.advance("10s", expire=["east"])
        assert (await west.beat(**WEB)).error_code == Err.UNRELEASED_INSTANCE_ID
        words = "ConsumerGroupHeartbeat of web-1 (west): UNRELEASED_INSTANCE_ID at once: "
        words += "the group.instance.id web-1 is held by east at /127.0.0.1"
        ends = clock(last_ms(kafka, "east") + 45_000)
        assert f"{words}, whose session ends at {ends} unless it sends a heartbeat before" in told(kafka)
        await kafka.time.advance("36s", expire=["east"])
        assert f"{words} until {ends}, when its session expired" in told(kafka)
        assert f"{words} until {ends}, when its session expired" in recent(kafka.journal.events, "g", 50)
        assert "web-1 (east) was removed: its session expired" in told(kafka)
        await close(east, west)


async def test_an_instance_id_that_is_released_by_a_member_that_leaves_for_a_while() -> None:
    async with cluster() as kafka:
        kafka.observe()
        east, west = await connected(kafka, "east"), await connected(kafka, "west")
        await east.beat(**WEB)
        await west.beat(**WEB)
        east.epoch = -2
        await east.beat(instance_id="web-1")
        assert re.search(r"is held by east at /127.0.0.1 until [\d:.]+, when it left for a while", told(kafka))
        assert (await west.beat(**WEB)).error_code == Err.NONE
        east.epoch = 1
        assert (await east.beat(instance_id="web-1")).error_code == Err.FENCED_INSTANCE_ID
        fenced = r"ConsumerGroupHeartbeat of web-1 \(east\): FENCED_INSTANCE_ID at once: the group.instance.id web-1"
        assert re.search(rf"{fenced} is held by west at /127.0.0.1, which took it over at [\d:.]+", told(kafka))
        await close(east, west)


async def test_processes_with_one_instance_id_and_one_client_id_are_told_apart() -> None:
    async with cluster() as kafka:
        kafka.observe()
        processes = [await connected(kafka, "app", f"{name * 4}-x") for name in "abc"]
        for process in processes:
            await process.beat(**WEB)
        words = told(kafka)
        assert "epoch 2: web-1 joined" in words
        who = "web-1 (bbbb) and web-1 (cccc)"
        held = "the group.instance.id web-1 is held by app at /127.0.0.1, as another process of the same client (member aaaa-x)"
        assert f"ConsumerGroupHeartbeat of {who}: UNRELEASED_INSTANCE_ID at once: {held}" in words
        await close(*processes)


async def test_a_static_member_that_restarts_keeps_its_name() -> None:
    async with cluster() as kafka:
        kafka.observe()
        first, second = await connected(kafka, "app", "one"), await connected(kafka, "app", "two")
        await first.beat(**WEB)
        first.epoch = -2
        await first.beat(instance_id="web-1")
        await second.beat(**WEB)
        assert "web-1 (" not in told(kafka)
        await close(first, second)


FULL = "GROUP_MAX_SIZE_REACHED at once: the group has"


async def test_the_limits_of_full_groups() -> None:
    limits = {"group.consumer.max.size": 1, "group.share.max.size": 10, "group.max.size": 1}
    async with cluster(**limits, **{"group.initial.rebalance.delay.ms": 0}) as kafka:
        kafka.observe()
        a, b = await connected(kafka, "a"), await connected(kafka, "b")
        for member in (a, b):
            await member.beat(**JOINS)
        for number in range(11):
            joins = ShareGroupHeartbeatRequest("s", f"m-{number}", 0, subscribed_topic_names=["orders"])
            await a.wire.send(joins, 1)
        one, two = await Member.connect(kafka, "c", "one"), await Member.connect(kafka, "c", "two")
        await one.enter()
        assert (await two.join()).error_code == Err.GROUP_MAX_SIZE_REACHED
        events = kafka.journal.events
        assert f"{FULL} 1 member, and group.consumer.max.size is 1" in recent(events, "g", 50)
        assert f"{FULL} 10 members, and group.share.max.size is 10" in recent(events, "s", 50)
        assert f"{FULL} 1 member, and group.max.size allows no more" in recent(events, "c", 50)
        await close(a, b, one, two)


async def test_the_limit_of_a_full_streams_group() -> None:
    async with cluster(**{"group.streams.max.size": 1}) as kafka:
        kafka.observe()
        apps = [await App.joined(kafka.bootstrap, name, PLAIN) for name in ("app-1", "app-2")]
        assert f"{FULL} 1 member, and group.streams.max.size is 1" in recent(kafka.journal.events, "g", 50)
        await close(*apps)


async def test_the_assignors_of_the_server_where_a_group_could_not_be_created() -> None:
    async with cluster() as kafka:
        kafka.observe()
        app = await connected(kafka, "app")
        assert (await app.beat(server_assignor="rnage", **JOINS)).error_code == Err.UNSUPPORTED_ASSIGNOR
        words = "ServerAssignor rnage is not supported. Supported assignors: uniform, range"
        assert "Group g: it does not exist, as 1 request to join it was refused." in told(kafka)
        assert f"ConsumerGroupHeartbeat of app: UNSUPPORTED_ASSIGNOR at once: {words}" in told(kafka)
        assert f"UNSUPPORTED_ASSIGNOR at once: {words}" in recent(kafka.journal.events, "g")
        await close(app)


async def test_a_removed_member_is_refused_with_the_time_and_the_reason_of_its_removal() -> None:
    async with cluster() as kafka:
        kafka.observe()
        ann = await connected(kafka, "ann")
        beat = ShareGroupHeartbeatRequest("g", "ann", 0, subscribed_topic_names=["orders"])
        assert (await ann.wire.send(beat, 1)).error_code == Err.NONE
        beat.member_epoch = -1
        await ann.wire.send(beat, 1)
        beat.member_epoch = 1
        assert (await ann.wire.send(beat, 1)).error_code == Err.UNKNOWN_MEMBER_ID
        stranger = ShareGroupHeartbeatRequest("g", "bob", 1)
        assert (await ann.wire.send(stranger, 1)).error_code == Err.UNKNOWN_MEMBER_ID
        words = recent(kafka.journal.events, "g")
        assert re.search(r"UNKNOWN_MEMBER_ID at once: it was removed at [\d:.]+: it left", words)
        assert "UNKNOWN_MEMBER_ID at once: the group has no member of this id" in words
        await close(ann)


@pytest.mark.parametrize(
    ("said", "error", "why"),
    [
        ({"subscribed_topic_regex": "(", **JOINS}, Err.INVALID_REGULAR_EXPRESSION, "subscribedTopicRegex"),
        ({"subscribed_topic_names": ["orders"]}, Err.INVALID_REQUEST, "RebalanceTimeoutMs must be provided"),
        ({"member_epoch": 3}, Err.GROUP_ID_NOT_FOUND, "consumer group g not found"),
    ],
)
async def test_the_brokers_own_words_where_the_group_shows_no_more(said: dict[str, Any], error: Err, why: str) -> None:
    async with cluster() as kafka:
        kafka.observe()
        wire = await Wire.connect(kafka.bootstrap, client_id="app")
        fields = {"member_epoch": 0, "topic_partitions": [], **said}
        assert (await wire.send(ConsumerGroupHeartbeatRequest("g", "m", **fields), 1)).error_code == error
        line = next(line for line in recent(kafka.journal.events, "g").splitlines() if error.name in line)
        assert why.lower() in line.partition(f"{error.name} at once: ")[2].lower()
        await wire.close()


async def test_a_rule_that_answers_in_the_brokers_place_has_no_other_reason() -> None:
    async with cluster() as kafka:
        app = await connected(kafka, "app")
        await app.beat(**JOINS)
        kafka.fault("ConsumerGroupHeartbeat", error="UNKNOWN_MEMBER_ID", times=1)
        await app.beat()
        line = next(
            line for line in recent(kafka.journal.events, "g").splitlines() if "UNKNOWN_MEMBER_ID at once" in line
        )
        assert line.endswith("[fault: answer UNKNOWN_MEMBER_ID]")
        await close(app)

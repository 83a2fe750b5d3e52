"""Streams groups (KIP-1071) in Python: waits, views, and what is explained in tasks' words."""

from __future__ import annotations

from typing import Any

from broker_sim.api.cluster import Cluster
from broker_sim.control import render
from broker_sim.control.operations import perform
from broker_sim.explain import explain, recent
from broker_sim.journal.vocabulary import problems
from kafka_wire.errors import Err
from kafka_wire.messages.k42_delete_groups import DeleteGroupsRequest
from kafka_wire.messages.k88_streams_group_heartbeat import Subtopology
from tests.support.streams import COUNTS, PLAIN, App

AT_ONCE = {"group.streams.initial.rebalance.delay.ms": 0, "group.streams.assignment.interval.ms": 0}


def cluster(**config: Any) -> Cluster:
    return Cluster(topics={"orders": 4}, as_version="4.4", clock="manual", config={**AT_ONCE, **config})


async def joined(kafka: Cluster, name: str, subtopologies: list[Subtopology], epoch: int = 0) -> App:
    kafka.state.ensure_offsets_topic()
    return await App.joined(kafka.bootstrap, name, subtopologies, epoch)


async def close(*apps: App) -> None:
    for app in apps:
        await app.wire.close()


def unwrapped(words: str) -> str:
    return " ".join(words.split())


async def test_who_waited_for_whose_task_is_told_in_words() -> None:
    async with cluster() as kafka:
        group = kafka.group("g")
        a = await joined(kafka, "app-1", PLAIN)
        b = await joined(kafka, "app-2", PLAIN)
        await a.beat(revokes=False)
        await kafka.time.advance("12s")
        await b.beat()
        assert "app-2 has waited 12 s for tasks 0_2 and 0_3, which app-1 has not revoked" in unwrapped(group.explain())
        await a.beat()
        await b.beat()
        told = unwrapped(group.explain())
        assert told.startswith("Streams group g on __consumer_offsets-")
        assert "Stable, epoch 3, 2 members." in told
        assert "epoch 3: app-2 joined" in told
        assert "app-2 waited 12 s for tasks 0_2 and 0_3, which app-1 had not revoked" in told
        assert "app-2 waited 12 s" in recent(kafka.journal.events, "g")
        drawn = group.timeline()
        assert "Stable in epoch 3" in drawn
        lanes = {line.split()[0]: line.split()[1] for line in drawn.splitlines() if line.startswith("  app-")}
        assert len(lanes["app-1"]) >= len(lanes["app-2"]) > 5, "both are drawn for as long as they are members"
        assert "v" in lanes["app-1"], "it was to give tasks up"
        assert "~" in lanes["app-2"], "and this one waited for them"
        assert [problem for event in kafka.journal.events for problem in problems(event)] == []
        await close(a, b)


async def test_a_standby_task_waits_for_the_member_of_its_process_that_has_the_active_one() -> None:
    async with cluster(**{"group.streams.num.standby.replicas": 1}) as kafka:
        a = await joined(kafka, "app-1", COUNTS)
        for _ in range(2):
            await a.beat()
        b = await joined(kafka, "app-2", COUNTS)
        for _ in range(3):
            await b.beat()
            await a.beat()
        assert [(m.client_id, m.tasks) for m in kafka.group("g").members] == [
            ("app-1", {"active": ["0_0", "0_1"], "standby": ["0_2", "0_3"]}),
            ("app-2", {"active": ["0_2", "0_3"], "standby": ["0_0", "0_1"]}),
        ]
        await close(a, b)


async def test_topics_that_a_topology_lacks_are_told() -> None:
    async with Cluster(topics={"other": 1}, as_version="4.4", clock="manual", config=AT_ONCE) as kafka:
        group = kafka.group("g")
        a = await joined(kafka, "app-1", COUNTS)
        assert group.state == "NotReady"
        told = unwrapped(group.explain())
        assert "no task is assigned: MISSING_SOURCE_TOPICS, source topics orders are missing" in told
        assert "NotReady, epoch 2, 1 member." in told
        kafka.create_topic("orders", 2)
        await a.beat()
        assert (
            "no task is assigned: MISSING_INTERNAL_TOPICS, internal topics are missing: counts-changelog"
            in unwrapped(group.explain())
        )
        await a.beat()
        assert "the topology has all its topics: its tasks are assigned" in unwrapped(group.explain())
        assert group.state == "Stable"
        await close(a)


async def test_a_changed_topology_is_told_of_the_member_that_brings_it_and_of_the_one_that_is_behind() -> None:
    async with cluster() as kafka:
        group = kafka.group("g")
        a = await joined(kafka, "app-1", PLAIN, epoch=1)
        b = await joined(kafka, "app-2", COUNTS, epoch=2)
        assert (await b.beat()).error_code == Err.INVALID_REQUEST
        c = await joined(kafka, "app-3", PLAIN, epoch=0)
        told = unwrapped(group.explain())
        refused = "StreamsGroupHeartbeat of app-2: INVALID_REQUEST at once (×2): topology updates are not supported yet"
        assert refused in told, told
        assert "app-3 has topology epoch 0, the group has 1: STALE_TOPOLOGY" in told
        await close(a, b, c)


async def test_the_group_command_shows_tasks() -> None:
    async with cluster() as kafka:
        a = await joined(kafka, "app-1", PLAIN)
        kafka.topic("orders").fill(20)
        shown = await perform(kafka, "group.get", {"group": "g"})
        assert "active:0_0,0_1,0_2,0_3" in render.text("group.get", shown)
        assert sum(shown["lag"].values()) == 20
        assert "app-1" in explain(kafka.journal.events, "g")
        await close(a)


async def test_the_deletion_of_a_group_is_told_and_its_epochs_begin_anew() -> None:
    async with cluster() as kafka:
        group = kafka.group("g")
        a = await joined(kafka, "app-1", PLAIN)
        await a.leave()
        assert (await a.wire.send(DeleteGroupsRequest(["g"]), 2)).results[0].error_code == 0
        b = await joined(kafka, "app-2", COUNTS, epoch=1)
        told = [line for line in group.explain().splitlines() if not line.startswith((" ", "Streams"))]
        assert [line.split("  ", 1)[1] for line in told[:6]] == [
            "epoch 1: the group was created",
            "epoch 2: app-1 joined",
            "epoch 3: app-1 left",
            'the group was deleted by "app-1" (DeleteGroups)',
            "epoch 1: the group was created",
            "epoch 2: app-2 joined",
        ]
        await close(a, b)


async def test_steps_of_the_clock_are_apart_where_an_epoch_moved_between_them() -> None:
    async with cluster() as kafka:
        group = kafka.group("g")
        a = await joined(kafka, "app-1", PLAIN)
        await kafka.time.advance("3s")
        b = await joined(kafka, "app-2", PLAIN)  # at the ms at which the clock is advanced again
        await kafka.time.advance("4s")
        told = unwrapped(group.explain())
        places = [told.index(words) for words in ("advanced by 3 s", "app-2 joined", "advanced by 4 s")]
        assert places == sorted(places)
        await close(a, b)

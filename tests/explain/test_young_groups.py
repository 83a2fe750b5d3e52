"""Reports on classic groups are made of consumer, share and streams groups as well: docs/explain.md has the table."""

from __future__ import annotations

import re

from broker_sim import Cluster
from broker_sim.common.text import clock
from broker_sim.explain import explain
from kafka_wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_wire.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafka_wire.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from tests.explain.test_refusals import JOINS, WEB, close, cluster, connected, last_ms, told
from tests.support.streams import PLAIN, App
from tests.support.wire import Wire


async def test_a_session_that_expired_has_the_last_request_and_the_closed_connection() -> None:
    async with cluster() as kafka:
        kafka.observe()
        east, west = await connected(kafka, "east"), await connected(kafka, "west")
        for member in (east, west):
            await member.beat(**JOINS)
        await east.wire.close()
        await kafka.time.advance("46s", expire=["east"])
        last = clock(last_ms(kafka, "east"))
        words = f"east was removed: its session expired (its last request was a ConsumerGroupHeartbeat at {last}; its connection"
        assert f"{words} was closed at " in told(kafka)
        await close(west)


async def test_a_static_member_leaves_for_a_while_and_another_client_takes_its_place() -> None:
    async with cluster() as kafka:
        kafka.observe()
        east, west = await connected(kafka, "east"), await connected(kafka, "west")
        await east.beat(**WEB)
        east.epoch = -2
        await east.beat(instance_id="web-1")
        await west.beat(**WEB)
        words = told(kafka)
        assert "web-1 (east) left for a while, as static members do: its partitions stay assigned to it until" in words
        replaced = "west at /127.0.0.1 replaced east at /127.0.0.1: it joined with the same group.instance.id, web-1"
        assert f"{replaced}; the epoch did not move" in words
        await close(east, west)


async def test_a_static_member_of_a_streams_group_comes_back() -> None:
    async with cluster() as kafka:
        kafka.observe()
        app = await App.joined(kafka.bootstrap, "app-1", PLAIN, instance="web-1")
        await app.leave(-2)
        app.epoch, app.name = 0, "app-1-again"
        app.tasks = {role: [] for role in app.tasks}
        await app.beat()
        words = told(kafka)
        assert "web-1 left for a while" in words
        assert "the static member web-1 rejoined with another member id; the epoch did not move" in words
        await close(app)


async def test_one_epoch_of_a_group() -> None:
    async with cluster() as kafka:
        kafka.observe()
        east, west = await connected(kafka, "east"), await connected(kafka, "west")
        await east.beat(**JOINS)
        await kafka.time.advance("1s", expire=[])
        await west.beat(**JOINS)
        await kafka.time.advance("1s", expire=[])
        west.epoch = -1
        await west.beat()
        words = " ".join(kafka.group("g").explain(3).split())
        assert "epoch 3: west joined" in words
        assert "epoch 2" not in words
        assert "epoch 4" not in words
        assert kafka.group("g").explain(9) == "No epoch 9 of group g in the journal; it holds epochs 1-4."
        await close(east, west)


async def test_the_state_and_the_period_of_the_journal() -> None:
    async with cluster() as kafka:
        kafka.observe()
        east = await connected(kafka, "east")
        await east.beat(**JOINS)
        assert re.search(
            r"Stable, epoch 2, 1 member\. It is Stable since [\d:.]+; the journal is of [-\d]+ ", told(kafka)
        )
        await close(east)


async def test_start_offsets_of_a_share_group_that_an_admin_sets_or_deletes() -> None:
    async with Cluster(topics={"orders": 2}, as_version="4.4", clock="manual", internal_topics="at-start") as kafka:
        kafka.observe()
        wire, admin = [await Wire.connect(kafka.bootstrap, client_id=name) for name in ("ann", "admin-1")]

        async def beat(epoch: int) -> None:
            topics = ["orders"] if epoch == 0 else None
            await wire.send(ShareGroupHeartbeatRequest("g", "ann", epoch, subscribed_topic_names=topics), 1)

        await beat(0)
        await beat(-1)
        parts = [AlterShareGroupOffsetsRequestPartition(number, 5 + number) for number in (0, 1)]
        topic = AlterShareGroupOffsetsRequestTopic("orders", parts)
        await admin.send(AlterShareGroupOffsetsRequest("g", [topic]), 0)
        deletes = DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic("orders")])
        await admin.send(deletes, 0)
        words = " ".join(explain(kafka.journal.events, "g").split())
        assert 'start offsets were set by "admin-1" (AlterShareGroupOffsets): orders-0 5 and orders-1 6' in words
        deleted = 'start offsets were deleted by "admin-1" (DeleteShareGroupOffsets): orders; a group that reads there begins by its'
        assert f"{deleted} share.auto.offset.reset" in words
        await wire.close()
        await admin.close()

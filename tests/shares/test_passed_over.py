"""Records that a share group passes over are reported: by share.auto.offset.reset, by a log that lost its head."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_sim import Cluster
from broker_sim.explain import recent
from broker_sim.journal.vocabulary import problems
from kafka_wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.explain.journals import START_MS
from tests.shares.harness import ANN, GROUP, TOPIC, Member, configure, produce
from tests.support.wire import Wire

ACCEPT = 1
AT_ONCE = {"group.share.assignment.interval.ms": 0}


@asynccontextmanager
async def started(records: int = 0, **settings: object) -> AsyncIterator[tuple[Cluster, Member]]:
    """A member that has joined; its topic has a batch of ``records``."""
    async with Cluster(topics={TOPIC: 1}, as_version="4.4", clock="manual", config=AT_ONCE) as kafka:
        kafka.observe()
        wire = await Wire.connect(kafka.bootstrap, client_id="ann")
        if records:
            await produce(wire, records)
        if settings:
            await configure(wire, **settings)
        member = Member(wire, kafka.state.topics[TOPIC].topic_id, ANN)
        await member.find()
        await member.join()
        yield kafka, member
        await wire.close()
        assert [problem for event in kafka.journal.events for problem in problems(event)] == []


def told(kafka: Cluster) -> str:
    return " ".join(kafka.share_group(GROUP).explain().split())


async def test_records_before_a_group_that_begins_at_the_end() -> None:
    async with started(records=40) as (kafka, ann):
        await ann.fetch()
        words = (
            "the group begins to read orders-0 from 40 on, as it had no start offset there (share.auto.offset.reset=latest, its "
            "default): offsets 0 to 39 of orders-0, up to 40 records, are delivered to no member"
        )
        assert words in told(kafka)
        assert words in recent(kafka.journal.events, GROUP, 50)


async def test_nothing_is_passed_over_by_a_group_that_begins_at_the_start_or_of_an_empty_topic() -> None:
    async with started(records=40, share_auto_offset_reset="earliest") as (kafka, ann):
        await ann.fetch()
        assert "delivered to no member" not in told(kafka)
    async with started() as (kafka, ann):
        await ann.fetch()
        assert "delivered to no member" not in told(kafka)


async def test_a_group_without_an_acknowledgement_begins_anew_at_the_next_leader() -> None:
    async with started() as (kafka, ann):
        await ann.fetch()
        await produce(ann.wire, 5)
        assert await ann.acquired() == [(0, 4, 1)]
        kafka.log(TOPIC, 0).elect()
        await ann.fetch(epoch=0)
        words = told(kafka)
        assert "the group begins anew to read orders-0 from 5 on, as no acknowledgement was stored" in words
        assert (
            "offsets 0 to 4 of orders-0, up to 5 records, are delivered to no member; 5 of them had been acquired"
            in words
        )


async def test_records_that_were_deleted_before_any_member_was_given_them() -> None:
    async with started(records=10, share_auto_offset_reset="earliest") as (kafka, ann):
        await produce(ann.wire, 10)
        assert await ann.acquired(max_records=1) == [(0, 9, 1)]
        assert (await ann.acknowledge((0, 9, [ACCEPT]))).error_code == 0
        deletes = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 15)])], 1000)
        await ann.wire.send(deletes, 2)
        acquired = await ann.acquired() or await ann.acquired()
        assert acquired == [(15, 19, 1)]
        words = told(kafka)
        assert (
            "offsets 10 to 14 of orders-0, up to 5 records, are delivered to no member: the log start offset moved to 15"
            in words
        )


def test_a_log_that_lost_records_of_a_share_group() -> None:
    def event(kind: str, **fields: object) -> dict[str, object]:
        return {"seq": 1, "ts_ms": START_MS, "event": kind, "log": "orders-0", **fields}

    loaded = event("share_partition", group="g", action="loaded", leader_epoch=0, start_offset=20)
    head = event("data_loss", part="head", first=0, last=29)
    tail = event("data_loss", part="tail", first=15, last=29)
    words = "the group's share partition start offset is 20"
    assert f"offsets 0 to 29; {words}: up to 10 records can no longer be delivered" in recent([loaded, head], "g")
    assert f"offsets 15 to 29; {words}, 5 beyond the log end; new records get these offsets" in recent(
        [loaded, tail], "g"
    )

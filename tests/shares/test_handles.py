"""Handle of a share group: acquired records and their members, waits, locks that it ends, and explanations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_sim import Cluster, Lock, ShareGroupHandle, UsageError, WaitTimeout
from broker_sim.control.operations import NotThere, perform
from broker_sim.explain.picture import html
from broker_sim.journal.vocabulary import problems
from kafka_wire.errors import Err
from tests.shares.harness import ANN, BOB, GROUP, TOPIC, Member, configure, produce
from tests.support.wire import Wire

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
CONFIG: dict[str, object] = {
    "group.share.assignment.interval.ms": 0,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.delivery.count.limit": 2,
}


@asynccontextmanager
async def started(as_version: str = "4.4") -> AsyncIterator[tuple[Cluster, ShareGroupHandle, Member, Member]]:
    """A cluster whose time stands still, and two members of a group that begins with the first record."""
    config = dict(CONFIG)
    if as_version == "4.1":
        config = {"group.coordinator.rebalance.protocols": "classic,consumer,share", **config}
        del config["group.share.assignment.interval.ms"]
    async with Cluster(topics={TOPIC: 1}, as_version=as_version, config=config, clock="manual") as kafka:
        kafka.observe()
        version = 1 if as_version == "4.1" else 2
        topic_id = kafka.state.topics[TOPIC].topic_id
        members = []
        for name, member_id in (("ann", ANN), ("bob", BOB)):
            wire = await Wire.connect(kafka.bootstrap, client_id=name)
            members.append(Member(wire, topic_id, member_id, version=version))
        await members[0].find()
        await configure(members[0].wire, share_auto_offset_reset="earliest", share_record_lock_duration_ms=3000)
        for member in members:
            await member.join()
        yield kafka, kafka.share_group(GROUP), members[0], members[1]
        for member in members:
            await member.wire.close()
        assert [problem for event in kafka.journal.events for problem in problems(event)] == []


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("as_version", ["4.1", "4.4"])
async def test_who_has_what_and_what_is_left_to_do(as_version: str) -> None:
    async with started(as_version) as (kafka, group, ann, bob):
        await produce(ann.wire, 3, 2)
        assert await ann.acquired(max_records=1) == [(0, 2, 1)]
        assert await bob.acquired() == [(3, 4, 1)]
        await group.locked(TOPIC, 0, 1, member="ann")
        until_ms = kafka.time.now_ms() + 3000
        assert group.locks == [Lock(TOPIC, 0, 0, 2, ANN, 1, until_ms), Lock(TOPIC, 0, 3, 4, BOB, 1, until_ms)]
        assert [one.client_id for one in group.members] == ["ann", "bob"]
        assert (await ann.acknowledge((0, 0, [ACCEPT]))).error_code == Err.NONE
        at = group.partitions[TOPIC, 0]
        assert (at.start_offset, at.next_offset, at.in_flight, at.locked, at.backlog) == (1, 5, 4, 4, 4)
        assert group.lag() == {(TOPIC, 0): 4}
        assert group.committed() == {(TOPIC, 0): 1}
        assert (await ann.acknowledge((1, 2, [ACCEPT]))).error_code == Err.NONE
        await group.done_with(TOPIC, 0, 2)
        await bob.fetch((3, 4, [ACCEPT]), epoch=-1)
        await ann.fetch(epoch=-1)
        await group.no_locks()
        await group.lag_below(1)
        assert group.partitions[TOPIC, 0].loaded, "sessions that end with a final request unload nothing"
        await ann.wire.close()
        await bob.wire.close()
        while group.partitions[TOPIC, 0].loaded:
            await asyncio.sleep(0)
        assert group.committed() == {(TOPIC, 0): 5}


async def test_locks_that_are_ended_by_hand_count_as_those_whose_time_is_over() -> None:
    async with started() as (_, group, ann, bob):
        await produce(ann.wire, 2)
        await produce(ann.wire, 2)
        assert await ann.acquired(max_records=1) == [(0, 1, 1)]
        assert await bob.acquired() == [(2, 3, 1)]
        assert [(lock.first, lock.last) for lock in await group.expire_locks(member="ann")] == [(0, 1)]
        refused = await ann.acknowledge((0, 1, [ACCEPT]))
        assert refused.error_code == Err.INVALID_RECORD_STATE
        assert await bob.acquired() == [(0, 1, 2)]
        ended = await group.expire_locks(TOPIC, 0)
        assert [(lock.first, lock.last, lock.member_id, lock.deliveries) for lock in ended] == [
            (0, 1, BOB, 2),
            (2, 3, BOB, 1),
        ]
        await group.done_with(TOPIC, 0, 1)
        assert group.partitions[TOPIC, 0].start_offset == 2, "two records were delivered as often as they may be"
        with pytest.raises(UsageError, match="did you mean 'ann'"):
            await group.expire_locks(member="anne")
        with pytest.raises(UsageError, match="no partition 'order-0' of share group"):
            await group.expire_locks("order", 0)
        with pytest.raises(UsageError, match="needs its topic"):
            await group.expire_locks(partition=0)
        assert await group.expire_locks() == []
        with pytest.raises(WaitTimeout, match="orders-0 0 locked by any member"):
            await group.locked(TOPIC, 0, 0, timeout="50ms")


async def test_the_story_says_who_was_given_what_how_often_and_what_became_of_it() -> None:
    async with started() as (kafka, group, ann, bob):
        await produce(ann.wire, 4)
        assert await ann.acquired() == [(0, 3, 1)]
        assert (await ann.acknowledge((0, 0, [ACCEPT]), (1, 1, [REJECT]))).error_code == Err.NONE
        await kafka.time.advance("3s")
        await group.delivered(TOPIC, 0, 2)
        assert await bob.acquired() == [(2, 3, 2)]
        assert (await bob.acknowledge((2, 2, [RELEASE]))).error_code == Err.NONE
        said = words(group.explain())
        assert "Share group g: Stable" in said
        assert (
            "4 records delivered, 1 accepted, 1 rejected, 1 archived at the limit, 2 delivered more than once and bob has 3"
            in said
        )
        assert (
            "record 2 of orders-0 was delivered twice: to ann, whose acquisition lock expired after 3 s; to bob, which released it"
            in said
        )
        assert "That was the group's delivery limit: archived after 3 s" in said
        assert (
            "record 3 of orders-0 was delivered twice: to ann, whose acquisition lock expired after 3 s; to bob, which still has it"
            in said
        )
        assert "record 1 of orders-0 was delivered once: to ann, which rejected it" in said
        assert [one.count for one in group.deliveries(TOPIC)[2]] == [1, 2]
        lately = await _timed_out(group)
        assert "record 2 of orders-0 was delivered twice" in words(lately)


async def _timed_out(group: ShareGroupHandle) -> str:
    with pytest.raises(WaitTimeout) as caught:
        await group.no_locks(timeout="50ms")
    return str(caught.value)


async def test_what_the_share_coordinator_did_not_take_stands_in_the_journal() -> None:
    async with started() as (kafka, group, ann, _):
        await produce(ann.wire, 2)
        assert await ann.acquired() == [(0, 1, 1)]
        state_logs = [
            kafka.log("__share_group_state", index)
            for index in range(len(kafka.state.topics["__share_group_state"].partitions))
        ]
        states = [log.too_large() for log in state_logs]
        answer = await ann.acknowledge((0, 1, [ACCEPT]))
        assert answer.error_code != Err.NONE
        for state in states:
            state.heal()
        refused = [
            event for event in kafka.journal.events if event["event"] == "delivery" and event["action"] == "refused"
        ]
        assert [(one["first"], one["last"], one["refused_action"], one["becomes"]) for one in refused] == [
            (0, 1, "accepted", "acquired")
        ]
        assert group.locks, "all is as it was"
        assert "refused the acknowledgement of 0 to 1 of orders-0" in words(group.explain())
        await kafka.time.advance("3s")


async def test_a_renewed_lock_is_told_as_such() -> None:
    async with started() as (kafka, group, ann, _):
        await produce(ann.wire, 1)
        assert await ann.acquired() == [(0, 0, 1)]
        await kafka.time.advance("2s")
        assert (await ann.acknowledge((0, 0, [RENEW]), renew=True)).error_code == Err.NONE
        await kafka.time.advance("2s")
        assert (await ann.acknowledge((0, 0, [RELEASE]))).error_code == Err.NONE
        assert "which released it after renewed once, 4 s" in words(group.explain())


async def test_operations_on_a_share_group_from_outside() -> None:
    async with started() as (kafka, group, ann, bob):
        await produce(ann.wire, 2)
        assert await ann.acquired() == [(0, 1, 1)]
        shown = await perform(kafka, "share.wait_locked", {"group": GROUP, "topic": TOPIC, "partition": 0, "offset": 1})
        assert shown["partitions"]["orders-0"]["locked"] == 2
        assert [(one["log"], one["first"], one["last"]) for one in shown["locks"]] == [("orders-0", 0, 1)]
        ended = await perform(kafka, "share.expire", {"group": GROUP, "member": "ann"})
        assert [one["member_id"] for one in ended["ended"]] == [ANN]
        assert (await perform(kafka, "share.get", {"group": GROUP}))["locks"] == []
        assert await bob.acquired() == [(0, 1, 2)]
        record = {"group": GROUP, "topic": TOPIC, "partition": 0}
        told = await perform(kafka, "share.deliveries", {**record, "offset": 0})
        assert [(one["count"], one["end"]) for one in told["deliveries"]] == [(1, "expired"), (2, "")]
        with pytest.raises(NotThere, match="no delivered record '7' of orders-0"):
            await perform(kafka, "share.deliveries", {**record, "offset": 7})
        with pytest.raises(UsageError, match="name its topic"):
            await perform(kafka, "share.expire", {"group": GROUP, "partition": 0})
        with pytest.raises(NotThere, match="no group 'gg'"):
            await perform(kafka, "share.get", {"group": "gg"})
        assert group.locks


async def test_a_timeline_shows_who_had_records_and_whose_lock_ended() -> None:
    async with started() as (kafka, group, ann, bob):
        await produce(ann.wire, 2)
        assert await ann.acquired() == [(0, 1, 1)]
        await kafka.time.advance("3s")
        assert await bob.acquired() == [(0, 1, 2)]
        await kafka.time.advance("1s")
        assert (await bob.acknowledge((0, 1, [RELEASE]))).error_code == Err.NONE
        text = group.timeline()
        lanes = {line.split()[0]: line for line in text.splitlines() if line.strip().startswith(("ann", "bob"))}
        assert "E" in lanes["ann"], text
        assert "▫" in lanes["bob"], text
        assert "lock or share session ended" in text
        assert "has records that were delivered before" in text
        picture = html(kafka.journal.events, GROUP)
        assert "ann has orders-0 0 to 1: expired" in picture


async def test_no_lock_ends_at_a_leader_that_is_dead() -> None:
    """A broker's process ends, unnoticed by the controller: it neither releases its sessions' records nor ends locks. The next leader
    finds what was stored, which an acquisition is not."""
    config = CONFIG | {"group.share.delivery.count.limit": 5}
    async with Cluster(brokers=2, as_version="4.4", config=config, clock="manual") as kafka:
        kafka.observe()
        topic = kafka.state.create_topic(TOPIC, 1, replication_factor=2)
        kafka.state.create_topic("__share_group_state", 1, replication_factor=2)
        kafka.state.create_topic("__consumer_offsets", 1, replication_factor=2)
        for partition in kafka.state.partitions():
            kafka.elect(partition, 2)
        kafka.move_leader(topic.partitions[0], 1)
        found = await Wire.connect(kafka.broker(2).address, client_id="ann")
        member = Member(found, topic.topic_id)
        await configure(found, share_auto_offset_reset="earliest", share_record_lock_duration_ms=3000)
        await member.join()
        member.wire = await Wire.connect(kafka.broker(1).address, client_id="ann")
        await produce(member.wire, 2)
        assert await member.acquired(max_wait_ms=500) == [(0, 1, 1)]
        before = len(kafka.journal.events)
        await kafka.broker_down(1, noticed_after="9s")
        await kafka.time.advance(9)
        events = [
            (e["event"], e.get("action"))
            for e in list(kafka.journal.events)[before:]
            if e["event"] in ("delivery", "leader")
        ]
        assert events == [("leader", None)]
        await member.wire.close()
        member.wire, member.session_epoch = found, 0
        assert await member.acquired(max_wait_ms=500) == [(0, 1, 1)]
        await found.close()
